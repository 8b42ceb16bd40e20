"""Receive a WebSub hub's request, and send article events for the pushed entries to the articles queue.

GET and POST /websub/{site}/{feed}/{token} of the HTTP API. No request of a sender causes a 500; a 5xx means that
Stoppress is at fault.
"""

import binascii
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.model.http_request import bounded, request_of
from stoppress.primitives.instants import Deadline
from stoppress.receive.push import Answer, confirm, take

logger = Logger()

# The answer repeats the hub's challenge, which may be HTML: a browser must not run it.
HEADERS = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


@logger.inject_lambda_context
@in_time()
def lambda_handler(event: dict[str, Any], now: datetime, _: Deadline) -> dict[str, Any]:
    """Answer one request of API Gateway (payload format 2.0) with text."""
    is_verification = event["requestContext"]["http"]["method"] == "GET"
    try:
        answer = (confirm if is_verification else take)(request_of(event), now)
    except binascii.Error:
        answer = Answer(400, "the body is marked as base64, but is not valid base64", "PushesRefused")
    except Exception:
        # 503 makes the hub try again. The log has the reason.
        logger.exception("hub's request not taken")
        answer = Answer(
            503, "Stoppress could not take this: send it again", "HubsRefused" if is_verification else "PushesFailed"
        )
    publish({answer.kind: 1})
    # The path is not logged, because anyone with its token can push.
    site = (event.get("pathParameters") or {}).get("site", "")
    about = bounded({"site": site, "answer": answer.body} | dict(answer.about))
    log = logger.warning if answer.kind in {"HubsDenied", "PushesIgnored", "PushesUnread"} else logger.info
    log("hub", kind=answer.kind, http_status=int(answer.status), **about)
    return {"statusCode": int(answer.status), "headers": HEADERS, "body": answer.body}
