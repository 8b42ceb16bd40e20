"""Fetch listed pages: at most two at a time from each host, and none that robots.txt forbids."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from urllib.parse import urlsplit

from protego import Protego

from stoppress.http import client
from stoppress.http.errors import FetchError, Unreachable
from stoppress.notify.page_readiness import PageVerdict, judge
from stoppress.primitives.instants import Deadline

# Concurrent requests, to one host and in total.
HOST_REQUESTS_MAX = 2
REQUESTS_MAX = 16
PAGE_SECONDS_MAX = 10.0
# How long a robots.txt is cached. RFC 9309, 2.4, allows a day, but an editor who changes the rules should see the effect soon.
ROBOTS_SECONDS = 600.0
# RFC 9309, 2.5: crawlers must read 500 KiB, and may ignore the rest.
ROBOTS_BYTES_MAX = 512_000

Fetch = Callable[..., client.Response]

_TOKEN = client.USER_AGENT.partition("/")[0]
# By scheme and host: when the rules expire, by `time.monotonic`, and the rules.
_rules: dict[str, tuple[float, Protego]] = {}


def check_pages(
    pages: Mapping[str, datetime | None], deadline: Deadline, fetch: Fetch | None = None
) -> dict[str, PageVerdict]:
    """Fetch and judge pages: URLs with the publication dates in the sitemap. Return the verdicts by URL.

    A page that cannot be fetched before the deadline gets a verdict of the kind unreachable. `fetch` replaces `client.fetch`.
    """
    by_host: defaultdict[str, list[str]] = defaultdict(list)
    for url in pages:
        by_host[_origin(url)].append(url)
    lanes = [urls[start::HOST_REQUESTS_MAX] for urls in by_host.values() for start in range(HOST_REQUESTS_MAX)]

    def check(lane: list[str]) -> list[tuple[str, PageVerdict]]:
        return [(url, _verdict(url, pages[url], deadline, fetch or client.fetch)) for url in lane]

    with ThreadPoolExecutor(REQUESTS_MAX, "page") as executor:
        return dict(verdict for verdicts in executor.map(check, lanes) for verdict in verdicts)


def _verdict(url: str, published: datetime | None, deadline: Deadline, fetch: Fetch) -> PageVerdict:
    try:
        rules = _rules_of(_origin(url), deadline, fetch)
    except FetchError as error:
        reason = f"was not checked, because robots.txt cannot be read: {error}"
        return PageVerdict(ready=False, reason=reason, kind="unreachable")
    if not rules.can_fetch(url, _TOKEN):
        reason = "was not checked, because robots.txt forbids it"
        return PageVerdict(ready=True, reason=reason, kind="robots")
    try:
        return judge(url, published, _fetch(url, deadline, fetch, redirects=False))
    except FetchError as error:
        return PageVerdict(ready=False, reason=f"cannot be fetched: {error}", kind="unreachable")


def _rules_of(origin: str, deadline: Deadline, fetch: Fetch) -> Protego:
    """Return the rules of the robots.txt of a scheme and host. Raises FetchError.

    RFC 9309, 2.3.1: without a robots.txt (4xx) everything is allowed; while the server fails, nothing is. For Google, 429 is
    a failure of the server too.
    """
    cached = _rules.get(origin)
    if cached and time.monotonic() < cached[0]:
        return cached[1]
    response = _fetch(f"{origin}/robots.txt", deadline, fetch)
    if response.status == 429 or response.status >= 500:
        raise Unreachable(f"the server answers {response.status}")
    text = response.body[:ROBOTS_BYTES_MAX].decode("utf-8", "replace") if response.status < 300 else ""
    rules = Protego.parse(text)
    _rules[origin] = time.monotonic() + ROBOTS_SECONDS, rules
    return rules


def _fetch(url: str, deadline: Deadline, fetch: Fetch, **limits: object) -> client.Response:
    headers = {"User-Agent": client.user_agent(f"{_origin(url)}/"), "Accept": "text/html, */*;q=0.5"}
    return fetch(url, headers, seconds_max=min(PAGE_SECONDS_MAX, deadline.seconds_left), **limits)


def _origin(url: str) -> str:
    """Return the scheme and host of a canonical URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
