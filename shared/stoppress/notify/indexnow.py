"""IndexNow: the request that notifies an engine of URLs, and the meaning of its answers. Pure.

Source: indexnow.org/documentation and its FAQ. It is enough to notify one engine, because the engines share the URLs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from stoppress.http import client
from stoppress.http.errors import FetchError, Refused

CONTENT_TYPE = "application/json; charset=utf-8"
# Seconds until an engine is notified again of URLs that it did not accept.
LATER_SECONDS = 600
# Seconds until a request that an engine called wrong is repeated, because an operator may have corrected its settings.
WRONG_SECONDS = 900
# Limits of an engine's Retry-After.
RETRY_AFTER_MIN_SECONDS = 60
RETRY_AFTER_MAX_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of an answer: the URLs were `accepted`, the engine may accept them `later`, or the request is `wrong`.

    `after_seconds`: when to try again. `is_certain`: the engine did not accept the URLs. After a time-out or a server
    error, it may have accepted them.
    """

    result: Literal["accepted", "later", "wrong"]
    reason: str = ""
    after_seconds: int = LATER_SECONDS
    is_certain: bool = False


def wrong(reason: str) -> Meaning:
    """Return the meaning of a request that an operator must correct."""
    return Meaning("wrong", reason, WRONG_SECONDS, is_certain=True)


def meaning_of_failure(error: FetchError, *, is_certain: bool = False) -> Meaning:
    """Return the meaning of a request without an answer."""
    return wrong(str(error)) if isinstance(error, Refused) else Meaning("later", str(error), is_certain=is_certain)


def key_file(key: str) -> str:
    """Return the name of the key file, at the root of the host. The routes for the sitemaps serve it too."""
    return f"sitemap-indexnow-{key}.txt"


def request_body(host: str, key: str, location: str, urls: Sequence[str]) -> bytes:
    """Return the body of the POST for URLs of one host. `location` is the URL of the key file.

    An engine accepts 10,000 URLs (indexnow.org/documentation). A batch of the queue is far smaller.
    """
    document = {"host": host, "key": key, "keyLocation": location, "urlList": list(urls)}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def meaning(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Meaning:
    """Return the meaning of an engine's answer. The names of `headers` are in lower case."""
    detail = " ".join(body[:300].decode(errors="replace").split())
    answered = f"answers {status}: {detail}" if detail else f"answers {status}"
    if status in (200, 202):  # 202: the engine accepts the URLs, and checks the key later
        return Meaning("accepted")
    if status in (429, 503):
        return Meaning("later", answered, retry_after(headers, now), is_certain=True)
    if status == 403 and "SiteVerificationNotCompleted" in detail:  # Bing has not read the key file yet
        return Meaning("later", answered, is_certain=True)
    if status >= 500:
        return Meaning("later", answered)
    return wrong(f"{answered}: {_FIXES.get(status, _OTHER_FIX)}")


_FIXES = {
    400: "report this to Stoppress, because the request has a wrong format",
    403: "let the CDN serve the key file, or set a new `engines.indexnow.key`",
    422: "set a new `engines.indexnow.key`, because the engine has another one for this host",
}
_OTHER_FIX = "correct `engines.indexnow.url`"


def retry_after(headers: Mapping[str, str], now: datetime) -> int:
    """Return the seconds that an answer asks to wait, within limits. Without a readable Retry-After, LATER_SECONDS."""
    wait = client.retry_after(headers, now)
    if wait is None:
        return LATER_SECONDS
    seconds = int(wait.total_seconds())
    return max(RETRY_AFTER_MIN_SECONDS, min(seconds, RETRY_AFTER_MAX_SECONDS))
