"""Receive a webhook, and send article events to the articles queue.

POST /webhooks/{site}/{source} of the HTTP API. No request of a sender causes a 500; a 5xx means that Stoppress is at fault.
"""

import binascii
import json
import sys
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.model.http_request import bounded, request_of
from stoppress.primitives.instants import Deadline
from stoppress.receive.webhook import Answer, receive

logger = Logger()


@logger.inject_lambda_context
@in_time()
def lambda_handler(event: dict[str, Any], now: datetime, _: Deadline) -> dict[str, Any]:
    """Answer one request of API Gateway (payload format 2.0) with JSON."""
    path = event.get("pathParameters") or {}
    site, source = path.get("site", ""), path.get("source", "")
    answer = _answer(event, site, source, now)
    about = bounded({"site": site, "source": source, "http_status": answer.status})
    headers = {"content-type": "application/json"} | ({"allow": "POST"} if answer.status == 405 else {})
    response = {"statusCode": answer.status, "headers": headers, "body": json.dumps(answer.body)}
    if answer.of_stranger:
        # Anyone can send requests without a known site. So no metric counts them, and their log line lacks the logger's
        # fields.
        sys.stdout.write(json.dumps({"message": "delivery", **about}) + "\n")
        return response
    # An alarm watches WebhooksUnverified. So a request with an invented host or without a signature does not count.
    publish({f"Webhooks{answer.body['status'].capitalize()}": 1, "WebhooksUnverified": int(answer.is_wrongly_signed)})
    level = logger.warning if answer.status >= 400 or answer.cause else logger.info
    names = [names for names in answer.names if names]
    about |= bounded({"articles": names} if len(names) > 1 else names[0] if names else {})
    level("delivery", **about, **bounded({"answer": answer.body, "cause": answer.cause}))
    return response


def _answer(event: dict[str, Any], site: str, source: str, now: datetime) -> Answer:
    method = event.get("requestContext", {}).get("http", {}).get("method", "POST")
    if method != "POST":
        return _refused(405, f"this is the address of a webhook, and {method} is not allowed: POST a signed delivery")
    try:
        return receive(request_of(event), now)
    except binascii.Error:
        return _refused(400, "the body is marked as base64, but is not valid base64")
    except Exception:
        # 503 makes the sender try again. The log has the reason.
        logger.exception("delivery not taken", **bounded({"site": site, "source": source}))
        return Answer(503, {"status": "failed", "error": "Stoppress could not take this delivery: send it again"})


def _refused(status: int, error: str) -> Answer:
    return Answer(status, {"status": "refused", "error": error}, of_stranger=True)
