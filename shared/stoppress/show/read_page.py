"""Reads what the page of a site shows, and changes nothing."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from stoppress.aws import items, refusals, sites, table
from stoppress.model.entries import NewsEntry
from stoppress.model.site import BadConfiguration, Site
from stoppress.primitives.instants import epoch_seconds, parse
from stoppress.show.page import DELIVERIES_MAX, QUARANTINED_MAX, Delivery, Quarantined, SitePage
from stoppress.show.read_site import read_site
from stoppress.show.read_story import Unclear, article_of, story_of
from stoppress.show.site import Access, StackFacts, Unknown, Unreadable, stack_status

# The table has no list of all deliveries. So the page shows those of the newest stories, with a query for each of these.
STORIES_ASKED_MAX = 25
DELIVERIES_OF_A_STORY_MAX = 5
QUESTION_CHARACTERS_MAX = 2_000


def read_page(host: str, question: str, now: datetime) -> SitePage:
    """The page of a site, with the answer to a question if one was asked.

    Calls: two of Parameter Store, one for the registry, those of `read_site`, one for refusals, one for quarantine, and one for
    each of STORIES_ASKED_MAX stories. A question adds the calls of `story_of`.

    Raises UnknownSite, BadConfiguration, and the errors of AWS.
    """
    site, unreadable = _configuration(host)
    registry = sites.registry()
    unknown: list[Unknown] = []
    facts = read_site(site, registry.heard.get(host), now, unknown)
    status = stack_status(
        StackFacts(
            sites=(facts,),
            unreadable=unreadable,
            confirmed_at=registry.confirmed_at,
            reconciliation_due=registry.reconciliation_due,
            unknown=tuple(unknown),
        ),
        now,
        Access(),
    )
    news = tuple(sorted(facts.news, key=lambda entry: entry.published, reverse=True))
    deliveries = sorted([*_recorded(site, news), *_refused(site)], key=lambda delivery: delivery.at, reverse=True)
    story, unclear = None, ""
    question = question.strip()[:QUESTION_CHARACTERS_MAX]
    if question:
        try:
            story = story_of(question, host, now)
        except Unclear as reason:
            unclear = str(reason)
    quarantined = tuple(_quarantined(site, now))
    return SitePage(site, status, news, tuple(deliveries[:DELIVERIES_MAX]), quarantined, question, story, unclear)


def _configuration(host: str) -> tuple[Site, tuple[Unreadable, ...]]:
    """The site, as last applied if its parameter cannot be used. Raises UnknownSite and BadConfiguration."""
    good, bad = sites.load_all(host)
    if good:
        return good[0], ()
    if not bad:
        raise sites.UnknownSite(f"no parameter of {host}")
    applied = sites.last_applied(host)
    if applied is None:
        raise BadConfiguration(bad[0].reason)
    return applied, (Unreadable(host, bad[0].name, bad[0].reason),)


def _recorded(site: Site, news: tuple[NewsEntry, ...]) -> Iterator[Delivery]:
    for entry in news[:STORIES_ASKED_MAX]:
        lines = table.query(items.story_pk(site.host, entry.loc), consistent=False, newest_first=True)
        for line in islice(lines, DELIVERIES_OF_A_STORY_MAX):
            yield Delivery(
                parse(line["heard_at"]),
                entry.loc,
                article_of(line).partition("#")[0],
                line["action"],
                line["outcome"],
                line.get("reason", ""),
            )


def _refused(site: Site) -> Iterator[Delivery]:
    for refusal in islice(refusals.read(site.host), DELIVERIES_MAX):
        about = refusal.url or refusal.id
        yield Delivery(refusal.at, about, refusal.source, "", refusal.outcome, refusal.reason)


def _quarantined(site: Site, now: datetime) -> Iterator[Quarantined]:
    stored = table.query(items.quarantine_pk(site.host), consistent=False, newest_first=True)
    kept = (item for item in stored if int(item.get("ttl", 2**40)) > epoch_seconds(now))
    for item in islice(kept, QUARANTINED_MAX):
        yield Quarantined(parse(item["sk"].partition("#")[0]), item["reason"])
