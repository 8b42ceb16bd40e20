"""Reads what the page of a site shows, and changes nothing."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import TypeVar

from stoppress.aws import items, refusals, sites, table
from stoppress.aws.refusals import Refusal
from stoppress.model.entries import NewsEntry
from stoppress.model.event import article_name
from stoppress.model.site import Site
from stoppress.primitives.instants import parse
from stoppress.show.page import DELIVERIES_MAX, QUARANTINED_MAX, Delivery, Quarantined, SitePage
from stoppress.show.read_site import read_last_runs, read_site
from stoppress.show.read_story import Unclear, article_of, read_refused, story_of
from stoppress.show.site import Access, StackFacts, Unknown, stack_status

# The table has no list of all deliveries. So the page shows those of the newest stories, with one query a story.
STORIES_QUERIED_MAX = 25
DELIVERIES_OF_A_STORY_MAX = 5
QUESTION_CHARACTERS_MAX = 2_000
_NOT_READ = "cannot be read now; the log of show_site has the reason"
NO_ANSWER = "The answer cannot be read now: try again in a minute."

_Each = TypeVar("_Each")
_log = logging.getLogger(__name__)


def read_page(host: str, question: str, now: datetime) -> SitePage:
    """The page of a site, with the answer to a question if one was asked.

    Calls: two for the configuration, one for the clocks, one for quarantine, and those of `read_site`. Also one for each of
    STORIES_QUERIED_MAX stories, and one for each megabyte of refusals. A question costs the calls of `story_of`. Deliveries,
    quarantine and the answer are left out if they cannot be read. Raises UnknownSite, BadConfiguration, and other errors of AWS.
    """
    site = sites.load(host, age_max=timedelta())
    unknown: list[Unknown] = []
    failures: list[Unknown] = []
    facts = read_site(site, now, failures)
    for failure in failures:
        # AWS's error names the account and the role, so it goes only to the log: the page's readers are editors.
        _log.warning("%s not shown: %s", failure.what, failure.reason)
    unknown += dict.fromkeys(Unknown(failure.what, _NOT_READ) for failure in failures)
    news = tuple(sorted(facts.news, key=lambda entry: entry.published, reverse=True))
    question = question.strip()[:QUESTION_CHARACTERS_MAX]
    refused = _attempt("refused deliveries", unknown, lambda: _refused(host, question, now))
    recorded = _attempt("deliveries of the newest stories", unknown, lambda: list(_recorded(site, news)))
    quarantined = _attempt("events in quarantine", unknown, lambda: list(_quarantined(site, now)))
    deliveries = sorted([*recorded, *_deliveries(refused)], key=lambda delivery: delivery.at, reverse=True)
    status = stack_status(
        StackFacts(
            sites=(facts,),
            unreadable=(sites.BadSite(host, site.fault),) if site.fault else (),
            last_runs=read_last_runs(),
            unknown=tuple(unknown),
        ),
        now,
        Access(),
    )
    story, unclear = None, ""
    if question:
        try:
            story = story_of(question, host, now, refused or None)  # None: story_of reads the refusals again
        except Unclear as reason:
            unclear = str(reason)
        except Exception:  # noqa: BLE001 - the rest of the page must be shown
            _log.exception("answer not shown")
            unclear = NO_ANSWER
    return SitePage(
        site, status, news, tuple(deliveries[:DELIVERIES_MAX]), tuple(quarantined), question, story, unclear
    )


def _attempt(what: str, unknown: list[Unknown], read: Callable[[], Sequence[_Each]]) -> Sequence[_Each]:
    """What `read` returns. If `read` fails, logs the error, adds `what` to `unknown` and returns nothing."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - the rest of the page must be shown
        _log.exception("%s not shown", what)
        unknown.append(Unknown(what, _NOT_READ))
        return ()


def _recorded(site: Site, news: tuple[NewsEntry, ...]) -> Iterator[Delivery]:
    for entry in news[:STORIES_QUERIED_MAX]:
        lines = table.query(items.story_pk(site.host, entry.loc), consistent=False, newest_first=True)
        for line in islice(lines, DELIVERIES_OF_A_STORY_MAX):
            yield Delivery(
                parse(line["received_at"]),
                entry.loc,
                article_of(line).partition("#")[0],
                line["action"],
                line["outcome"],
                line.get("reason", ""),
            )


def _refused(host: str, question: str, now: datetime) -> Sequence[Refusal]:
    """The newest refusals of a site: enough for the list on the page and, with a question, for the search of its answer."""
    return read_refused(host, now) if question else refusals.read(host, DELIVERIES_MAX, now)


def _deliveries(refused: Iterable[Refusal]) -> Iterator[Delivery]:
    for refusal in islice(refused, DELIVERIES_MAX):
        about = refusal.url or (article_name(refusal.source, refusal.id) if refusal.id else "")
        yield Delivery(refusal.at, about, refusal.source, "", refusal.outcome, refusal.reason)


def _quarantined(site: Site, now: datetime) -> Iterator[Quarantined]:
    stored = table.query(items.quarantine_pk(site.host), consistent=False, newest_first=True)
    # The newest come first and expire last, so all events after an expired one are expired too.
    for item in islice(takewhile(lambda item: items.is_kept(item, now), stored), QUARANTINED_MAX):
        yield Quarantined(parse(item["sk"].partition("#")[0]), item["reason"])
