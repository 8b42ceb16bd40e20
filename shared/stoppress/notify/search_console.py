"""Google's Search Console: its requests, and what each answer means. Pure.

Sources: developers.google.com/webmaster-tools/v1/sitemaps, and …/v1/urlInspection.index/inspect.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from stoppress.notify.indexnow import WRONG_SECONDS, Meaning, retry_after
from stoppress.primitives.instants import parse

SITEMAPS_URL = "https://www.googleapis.com/webmasters/v3/sites"
INSPECTION_URL = "https://searchconsole.googleapis.com/v1/urlInspection/index:inspect"
CONTENT_TYPE = "application/json"
# The verdict on a page that is in Google's index.
INDEXED = "PASS"

_TEXT_CHARACTERS_MAX = 500
# A quota that is used up may be a 403, with one of these words in its body (developers.google.com/webmaster-tools/v1/errors).
_QUOTA = ("quotaExceeded", "ateLimitExceeded", "dailyLimitExceeded", "RESOURCE_EXHAUSTED")
_DISABLED = ("SERVICE_DISABLED", "accessNotConfigured")


def sitemap_url(property_: str, sitemap: str) -> str:
    """The address of a sitemap in the API: a PUT submits it, a GET reads its report. `sitemap` is its URL."""
    return f"{SITEMAPS_URL}/{quote(property_, safe='')}/sitemaps/{quote(sitemap, safe='')}"


def inspection_body(property_: str, url: str) -> bytes:
    """The body of the POST to INSPECTION_URL."""
    document = {"inspectionUrl": url, "siteUrl": property_}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def read_report(body: bytes) -> dict[str, Any]:
    """Return what Google made of a sitemap, as fields of `SubmittedSitemap`. Raises ValueError."""
    document = _object(body)
    contents = document.get("contents")
    urls: dict[str, int] = {}
    for content in contents if isinstance(contents, list) else []:
        if isinstance(content, dict) and isinstance(content.get("type"), str):
            urls[content["type"][:50]] = _number(content.get("submitted"))
    return {
        "downloaded_at": _instant(document.get("lastDownloaded")),
        "errors": _number(document.get("errors")),
        "warnings": _number(document.get("warnings")),
        "urls": urls,
    }


def read_inspection(body: bytes) -> dict[str, Any]:
    """Return what Google has of a page, as fields of `PageState`. Raises ValueError."""
    result = _object(body).get("inspectionResult")
    status = result.get("indexStatusResult") if isinstance(result, dict) else None
    if not isinstance(status, dict) or not isinstance(status.get("verdict"), str):
        raise ValueError("has no inspectionResult.indexStatusResult.verdict")
    return {
        "verdict": _text(status["verdict"]),
        "coverage": _text(status.get("coverageState")),
        "crawled_at": _instant(status.get("lastCrawlTime")),
        "google_canonical": _text(status.get("googleCanonical")),
        "robots_state": _text(status.get("robotsTxtState")),
    }


def meaning(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Meaning:
    """What the API's answer means. The names of `headers` are in lower case."""
    if 200 <= status < 300:
        return Meaning("accepted")
    detail = _detail(body)
    answered = f"answers {status}: {detail}" if detail else f"answers {status}"
    text = body.decode(errors="replace")
    is_quota = status == 403 and any(word in text for word in _QUOTA)
    if is_quota or status in (408, 429) or status >= 500:
        seconds = retry_after(headers, now)
        return Meaning("later", answered, seconds, is_certain=True)
    fix = _FIXES.get(status, _OTHER_FIX)
    if status == 403 and any(word in text for word in _DISABLED):
        fix = "enable the Search Console API in the Google Cloud project of the service account"
    return Meaning("wrong", f"{answered}: {fix}", WRONG_SECONDS, is_certain=True)


_FIXES = {
    401: "Google refuses the token; if this lasts, store a new key of the service account in the secret",
    403: "add the service account as a user of the property, with full permission",
    404: "correct `engines.search_console.property`, or add the property in Search Console",
}
_OTHER_FIX = "report this to Stoppress, because the request has a wrong format"


def _detail(body: bytes) -> str:
    """The message in an error of a Google API; otherwise the beginning of the body."""
    try:
        error = _object(body).get("error")
    except ValueError:
        error = None
    message = error.get("message") if isinstance(error, dict) else None
    text = message if isinstance(message, str) else body[:300].decode(errors="replace")
    return " ".join(text.split())[:300]


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}"[:200]) from None
    if not isinstance(document, dict):
        raise ValueError("is no JSON object")
    return document


def _number(value: object) -> int:
    """A `long` of the API, which JSON has as a text; 0 without one."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else 0


def _instant(value: object) -> datetime | None:
    try:
        return parse(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _text(value: object) -> str:
    return value[:_TEXT_CHARACTERS_MAX] if isinstance(value, str) else ""
