"""Hub's request in -> article events of what it pushes on the articles queue out.

GET and POST /websub/{site}/{feed}/{token} of the HTTP API. Nothing a sender does leads to a 500; 5xx means that we are at fault.
"""

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.receive.push import Answer, Request, confirm, take

logger = Logger()
metrics = Metrics()

# What is echoed must not be taken for a page.
HEADERS = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


@logger.inject_lambda_context
@metrics.log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """One request of API Gateway (payload 2.0), answered with text."""
    asks = event["requestContext"]["http"]["method"] == "GET"
    try:
        answer = (confirm if asks else take)(_request(event), datetime.now(UTC))
    except binascii.Error:
        answer = Answer(400, "the body is marked as base64, and is none", "PushesRefused")
    except Exception:
        # The hub tries again; the log has the reason.
        logger.exception("hub's request not taken")
        answer = Answer(503, "Stoppress could not take this: send it again", "HubsRefused" if asks else "PushesFailed")
    metrics.add_metric(answer.kind, MetricUnit.Count, 1)
    # Not the path: its token is what a request is known by.
    path = event.get("pathParameters") or {}
    said = {"site": path.get("site", "")[:260], "answer": answer.body[:300]} | dict(answer.about)
    log = logger.warning if answer.kind in {"HubsDenied", "PushesIgnored", "PushesUnread"} else logger.info
    log("hub", kind=answer.kind, http_status=int(answer.status), **said)
    return {"statusCode": int(answer.status), "headers": HEADERS, "body": answer.body}


def _request(event: dict[str, Any]) -> Request:
    path = event.get("pathParameters") or {}
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    body = event.get("body") or ""
    raw = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(errors="surrogatepass")
    parts = (path.get("site", ""), path.get("feed", ""), path.get("token", ""))
    return Request(*parts, query=event.get("rawQueryString", ""), headers=headers, body=raw)
