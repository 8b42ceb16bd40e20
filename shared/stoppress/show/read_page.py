"""Read the content of a site's page, and change nothing. Also create and check the token in the URL of the page.

The token is the HMAC-SHA256 of the host, with the stack's secret for pages as key. It is stored nowhere. While the secret is
rotated, the stack may have several secrets: new tokens are created with the first, and tokens of all are accepted.
"""

import base64
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from stoppress.aws import items, refusals, sites, table
from stoppress.aws.refusals import Refusal
from stoppress.model.entries import NewsEntry
from stoppress.model.event import ArticleEvent, article_name
from stoppress.model.site import Site
from stoppress.primitives.instants import parse
from stoppress.show.file_versions import Past, past_of
from stoppress.show.question import REFUSED_SEARCHED_MAX, Unclear, held_events
from stoppress.show.read_site import StackFacts, Unknown, read_last_runs, read_queues, read_site
from stoppress.show.read_story import Received, kept_items, read_line
from stoppress.show.stack_status import Access, StackStatus, stack_status
from stoppress.show.story import Story, story_of

# Name of the secret, below the stack's path (template.yaml).
PAGE_SECRET = "page"
# How many deliveries and events in quarantine the page shows.
DELIVERIES_MAX = 50
# How many held stories the page shows.
COMING_MAX = 50
QUARANTINED_MAX = 20
# The table has no list of all deliveries. So the page shows those of the newest stories, with one query a story.
STORIES_QUERIED_MAX = 25
DELIVERIES_OF_A_STORY_MAX = 5
QUESTION_CHARACTERS_MAX = 2_000
NO_ANSWER = "The answer cannot be read: try again in a minute."

_NOT_READ = "cannot be read; the log of show_site has the reason"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_Value = TypeVar("_Value")
_log = logging.getLogger(__name__)


def page_token(secret: str, host: str) -> str:
    """Return the token of a host in base64url, without padding."""
    digest = hmac.new(secret.encode(), host.encode(errors="surrogatepass"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_page_token(text: str, load_secrets: Callable[[], Sequence[str]], host: str) -> bool:
    """Return True if a text is the token of a host under one of the secrets. Compares in constant time.

    A text without the form of a token does not cause a read of the secrets.
    """
    if not _TOKEN.fullmatch(text):
        return False
    matches = [hmac.compare_digest(text, page_token(secret, host)) for secret in load_secrets()]
    return any(matches)


@dataclass(frozen=True)
class SitePage:
    """The content of a site's page. `news` are the entries of all news sitemaps. `deliveries` are newest first.

    `coming` are the held events in the order of their release. The `url` of a delivery is a question that the reader may ask.
    `answer` is the answer to the reader's question, or advice to ask another one; None: there is no question.
    """

    site: Site
    status: StackStatus
    news: tuple[NewsEntry, ...]
    coming: tuple[ArticleEvent, ...] = ()
    deliveries: tuple[Received, ...] = ()
    quarantined: tuple[Received, ...] = ()
    answer: Story | Past | Unclear | None = None


def read_page(host: str, question: str, now: datetime, moment: str = "") -> SitePage:
    """Return the page of a site, with the answer to a question if one was asked, perhaps about an earlier moment.

    Calls: two for the configuration, one for the clocks, one for quarantine, and those of `read_site`. Also one for each of
    STORIES_QUERIED_MAX stories, and one for each megabyte of refusals. A question costs the calls of `story_of`. Deliveries,
    quarantine and the answer are left out if they cannot be read. Raises UnknownSite, BadConfiguration, and other errors of AWS.
    """
    site = sites.load(host, age_max=timedelta())
    failures: list[Unknown] = []
    urls = {
        "ARTICLES_QUEUE_URL": os.environ["ARTICLES_QUEUE_URL"],
        "REWRITES_QUEUE_URL": os.environ["REWRITES_QUEUE_URL"],
    }
    facts, queues = read_site(site, now, failures), tuple(read_queues(urls, failures))
    for failure in failures:
        # AWS's error contains the account and the role, so it goes only to the log: the page's readers are editors.
        _log.warning("%s not shown: %s", failure.what, failure.reason)
    unknown = list(dict.fromkeys(Unknown(failure.what, _NOT_READ) for failure in failures))
    news = tuple(sorted(facts.news, key=lambda entry: entry.published, reverse=True))
    question = question.strip()[:QUESTION_CHARACTERS_MAX]
    # Enough refusals for the list on the page and, with a question, to search for its answer.
    number = REFUSED_SEARCHED_MAX + 1 if question else DELIVERIES_MAX
    refused = _attempt("refused deliveries", unknown, lambda: refusals.read(host, number, now))
    recorded = _attempt("deliveries of the newest stories", unknown, lambda: list(read_recorded(site, news)))
    quarantined = _attempt("events in quarantine", unknown, lambda: list(read_quarantined(site, now)))
    coming = _attempt("held stories", unknown, lambda: list(islice(held_events(host), COMING_MAX)))
    # A removed, held or excluded article is recorded and among the refusals.
    deliveries = {(row.at, row.outcome, row.url): row for row in [*list_refused(refused), *recorded]}
    newest_first = sorted(deliveries.values(), key=lambda delivery: delivery.at, reverse=True)
    bad = (sites.BadSite(host, site.fault),) if site.fault else ()
    stack = StackFacts((facts,), bad, queues=queues, rolled_at=read_last_runs()[0], unknown=tuple(unknown))
    return SitePage(
        site=site,
        status=stack_status(stack, now, Access()),
        news=news,
        coming=tuple(coming),
        deliveries=tuple(newest_first[:DELIVERIES_MAX]),
        quarantined=tuple(quarantined),
        answer=_answer(question, host, now, refused, moment.strip()) if question else None,
    )


def _answer(question: str, host: str, now: datetime, refused: Sequence[Refusal], moment: str) -> Story | Past | Unclear:
    try:
        if moment:
            return past_of(question, host, moment, now)
        return story_of(question, host, now, refused or None)  # None: story_of reads the refusals again
    except Unclear as unclear:
        return unclear
    except Exception:  # noqa: BLE001 - the rest of the page must be shown
        _log.exception("answer not shown")
        return Unclear(NO_ANSWER)


def _attempt(what: str, unknown: list[Unknown], read: Callable[[], Sequence[_Value]]) -> Sequence[_Value]:
    """Return the result of `read`. If `read` fails, log the error, add `what` to `unknown` and return an empty tuple."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - the rest of the page must be shown
        _log.exception("%s not shown", what)
        unknown.append(Unknown(what, _NOT_READ))
        return ()


def read_recorded(site: Site, news: Sequence[NewsEntry]) -> Iterator[Received]:
    """Yield the newest deliveries about the first of these stories."""
    for entry in news[:STORIES_QUERIED_MAX]:
        lines = table.query(items.story_pk(site.host, entry.loc), consistent=False, newest_first=True)
        for line in islice(lines, DELIVERIES_OF_A_STORY_MAX):
            yield replace(read_line(line, entry.loc), url=entry.loc, title=entry.title)


def list_refused(refused: Iterable[Refusal]) -> Iterator[Received]:
    for refusal in islice(refused, DELIVERIES_MAX):
        about = refusal.url or (article_name(refusal.source, refusal.id) if refusal.id else "")
        yield Received(refusal.at, "", refusal.source, refusal.outcome, refusal.reason, url=about, title=refusal.title)


def read_quarantined(site: Site, now: datetime) -> Iterator[Received]:
    """Yield the newest events in quarantine as deliveries."""
    for item in islice(kept_items(items.quarantine_pk(site.host), now), QUARANTINED_MAX):
        yield Received(parse(item["sk"].partition("#")[0]), "", "", "quarantined", item["reason"])
