"""Show the page of a site: GET /sites/{host}/{token} of the HTTP API, with ?q=<words> also the answer about a story, and with &at=<moment>
the answer of that moment.

The frame is answered without a read of the table; it then asks for `part=content`. Without a script it asks for `part=whole`. A wrong token
and an unknown host get the same answer, 404.
"""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws import secrets, sites
from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.model.http_request import request_of
from stoppress.primitives.instants import Deadline
from stoppress.show.page import headers, render_content, render_frame
from stoppress.show.read_page import PAGE_SECRET, is_page_token, read_page

logger = Logger()

TEXT = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


@logger.inject_lambda_context
@in_time()
def lambda_handler(event: dict[str, Any], now: datetime, _: Deadline) -> dict[str, Any]:
    """Answer one request of API Gateway (payload format 2.0) with HTML, or with a line of text if there is no page."""
    request = request_of(event)
    host, token = request.path_parameters.get("host", ""), request.path_parameters.get("token", "")
    query = request.query_parameters()
    try:
        page = _page(host, token, query, now)
    except Exception:
        logger.exception("page not shown")  # the path is not logged, because it contains the token
        publish({"PagesFailed": 1})
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, "The page cannot be read at the moment: try again in a minute.")
    if page is None:
        publish({"PagesRefused": 1})
        return _text(HTTPStatus.NOT_FOUND, "There is no such page: ask for its address again.")
    publish({"PagesShown": 1})
    return {"statusCode": HTTPStatus.OK, "headers": headers(), "body": page}


def _page(host: str, token: str, query: Mapping[str, str], now: datetime) -> str | None:
    """Return a part of the page as HTML; None for a wrong token or an unknown host. Raises NoSecret, BadConfiguration, and AWS's errors."""
    if not is_page_token(token, lambda: secrets.load(PAGE_SECRET), host):
        return None
    question, moment, part = query.get("q", ""), query.get("at", ""), query.get("part", "frame")
    if part not in ("content", "whole"):
        return render_frame(host, question, moment=moment)
    try:
        content = render_content(read_page(host, question, now, moment))
    except sites.UnknownSite:
        return None
    return content if part == "content" else render_frame(host, question, content, moment)


def _text(status: HTTPStatus, text: str) -> dict[str, Any]:
    return {"statusCode": status, "headers": headers() | TEXT, "body": f"{text}\n"}
