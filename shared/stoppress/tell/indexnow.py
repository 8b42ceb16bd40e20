"""IndexNow: the request that tells an engine of URLs, and what each answer means. Pure.

Source: indexnow.org/documentation and its FAQ. One engine is enough: the engines share what they are told.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

# indexnow.org/documentation: at most 10,000 URLs in a request.
URLS_MAX = 10_000
# indexnow.org/faq: the same URL not more often than every few minutes. Repeated saves of one page led to 429.
PAUSE_SECONDS = 600
CONTENT_TYPE = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an answer means: the engine took the URLs (`told`), takes them `later`, or the request is `wrong`.

    `is_certain`: a request that must come later was not taken. After a time-out or an error of the server it may have been.
    """

    result: Literal["told", "later", "wrong"]
    reason: str = ""
    after_seconds: int = PAUSE_SECONDS
    is_certain: bool = False


def key_file(key: str) -> str:
    """The name of the key file. The CDN's route for /sitemap* serves it, and no sitemap of ours has such a name."""
    return f"sitemap_indexnow_{key}.txt"


def request_body(host: str, key: str, location: str, urls: Sequence[str]) -> bytes:
    """The body of the POST for at most URLS_MAX URLs of one host. `location` is the URL of the key file."""
    assert len(urls) <= URLS_MAX
    document = {"host": host, "key": key, "keyLocation": location, "urlList": list(urls)}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def meaning(status: int, headers: dict[str, str], body: bytes, now: datetime) -> Meaning:
    """What an engine's answer means."""
    detail = body[:300].decode(errors="replace").strip()
    shown = f"answers {status}: {detail}" if detail else f"answers {status}"
    if status in (200, 202):  # 202: it takes the URLs, and checks the key later
        return Meaning("told")
    if status in (429, 503):
        return Meaning("later", shown, _retry_after(headers.get("retry-after", ""), now), is_certain=True)
    if status == 403 and "SiteVerificationNotCompleted" in detail:  # Bing has not read the key file yet
        return Meaning("later", shown, is_certain=True)
    if status >= 500:
        return Meaning("later", shown)
    return Meaning("wrong", f"{shown}: {_MENDS.get(status, 'check the URL of the engine')}")


_MENDS = {
    400: "report this to Stoppress, because the request has a wrong format",
    403: "let the CDN serve the key file, or put a new key into `engines.indexnow.key`",
    422: "give the site's own host in `host`, and a key that fits its key file",
}


def _retry_after(value: str, now: datetime) -> int:
    """The seconds of a Retry-After header, a number or a date. Without one, PAUSE_SECONDS."""
    if value.strip().isdigit():
        return min(int(value), 86_400)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return PAUSE_SECONDS
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0, min(int((at - now).total_seconds()), 86_400))
