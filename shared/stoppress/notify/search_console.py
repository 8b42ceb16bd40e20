"""The requests of Google's Search Console API, and the meaning of its answers. Pure.

Sources: developers.google.com/webmaster-tools/v1/sitemaps, and …/v1/urlInspection.index/inspect.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, AliasPath, AwareDatetime, BaseModel, Field, ValidationError

from stoppress.model.validation import explain
from stoppress.notify.indexnow import Meaning, retry_after, wrong
from stoppress.primitives.instants import utc

SITEMAPS_URL = "https://www.googleapis.com/webmasters/v3/sites"
INSPECTION_URL = "https://searchconsole.googleapis.com/v1/urlInspection/index:inspect"
CONTENT_TYPE = "application/json"
# The verdict on a page that is in Google's index.
INDEXED = "PASS"

_TEXT_CHARACTERS_MAX = 500
_Model = TypeVar("_Model", bound=BaseModel)
# A quota that is used up may be a 403, with one of these words in its body (developers.google.com/webmaster-tools/v1/errors).
_QUOTA = ("quotaExceeded", "ateLimitExceeded", "dailyLimitExceeded", "RESOURCE_EXHAUSTED")
_DISABLED = ("SERVICE_DISABLED", "accessNotConfigured")


def sitemap_url(property_: str, sitemap: str) -> str:
    """Return the address of a sitemap in the API: a PUT submits it, a GET reads its report. `sitemap` is its URL."""
    return f"{SITEMAPS_URL}/{quote(property_, safe='')}/sitemaps/{quote(sitemap, safe='')}"


def inspection_body(property_: str, url: str) -> bytes:
    """Return the body of the POST to INSPECTION_URL."""
    document = {"inspectionUrl": url, "siteUrl": property_}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


_Instant = Annotated[AwareDatetime, AfterValidator(utc)]
_Text = Annotated[str, AfterValidator(lambda text: text[:_TEXT_CHARACTERS_MAX])]


class _Content(BaseModel, defer_build=True):
    type: str
    submitted: int = 0


class _Report(BaseModel, defer_build=True):
    downloaded_at: _Instant | None = Field(None, alias="lastDownloaded")
    errors: int = 0
    warnings: int = 0
    contents: list[_Content] = []


class _Status(BaseModel, defer_build=True):
    verdict: _Text
    coverage: _Text = Field("", alias="coverageState")
    crawled_at: _Instant | None = Field(None, alias="lastCrawlTime")
    google_canonical: _Text = Field("", alias="googleCanonical")
    robots_state: _Text = Field("", alias="robotsTxtState")


class _Inspection(BaseModel, defer_build=True):
    status: _Status = Field(validation_alias=AliasPath("inspectionResult", "indexStatusResult"))


def read_report(body: bytes) -> dict[str, Any]:
    """Return Google's report on a sitemap, as fields of `SubmittedSitemap`. Raises ValueError."""
    report = _read(_Report, body)
    urls = {content.type[:50]: content.submitted for content in report.contents}
    return report.model_dump(exclude={"contents"}) | {"urls": urls}


def read_inspection(body: bytes) -> dict[str, Any]:
    """Return Google's index status of a page, as fields of `PageState`. Raises ValueError."""
    return _read(_Inspection, body).status.model_dump()


def _read(model: type[_Model], body: bytes) -> _Model:
    """Read a JSON answer, in which a `long` is a text. Raises ValueError."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise ValueError(f"cannot be read: {explain(error)}"[:200]) from None


def meaning(status: int, headers: Mapping[str, str], body: bytes, now: datetime, fix: str = "") -> Meaning:
    """Return the meaning of Google's answer. The names of `headers` are in lower case. `fix`: how to correct a wrong request; default: by status."""
    if 200 <= status < 300:
        return Meaning("accepted")
    detail = error_detail(body)
    answered = f"answers {status}: {detail}" if detail else f"answers {status}"
    text = body.decode(errors="replace")
    is_quota = status == 403 and any(word in text for word in _QUOTA)
    if is_quota or status in (408, 429) or status >= 500:
        return Meaning("later", answered, retry_after(headers, now), is_certain=True)
    fix = fix or _FIXES.get(status, _OTHER_FIX)
    if status == 403 and any(word in text for word in _DISABLED):
        fix = "enable the Search Console API in the Google Cloud project of the service account"
    return wrong(f"{answered}: {fix}")


_FIXES = {
    401: "Google refuses the token; if this lasts, store a new key of the service account in the secret",
    403: "add the service account as a user of the property, with full permission",
    404: "correct `engines.search_console.property`, or add the property in Search Console",
}
_OTHER_FIX = "report this to Stoppress, because the request has a wrong format"


def error_detail(body: bytes) -> str:
    """Return the message in an error of a Google API or of a token's request; otherwise the beginning of the body."""
    try:
        document = json.loads(body)
        error = document["error"]
        text = error["message"] if isinstance(error, dict) else ": ".join((error, document["error_description"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        text = body[:300].decode(errors="replace")
    return " ".join(text.split())[:300]
