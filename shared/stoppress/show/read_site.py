"""Read the facts of a stack and its sites, from which `show.site` answers. Changes nothing."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.audit.audit_state import AuditState, audit_pk
from stoppress.aws import bucket, items, metrics, queues, refusals, secrets, sites, table
from stoppress.aws.codec import from_item
from stoppress.aws.inventory import news_entries, read_articles, read_claims, read_marks
from stoppress.aws.refusals import Count, Refusal
from stoppress.aws.sites import BadSite
from stoppress.feeds.feed_schedule import FeedState
from stoppress.feeds.subscription import Subscription
from stoppress.model.entries import Mark, NewsEntry
from stoppress.model.file_names import is_news
from stoppress.model.index_ranges import ONE_INDEX, Indexes
from stoppress.model.site import UNKNOWN_SITE, Site
from stoppress.model.site_parts import secret_path
from stoppress.notify import page_state
from stoppress.notify.page_state import PageState
from stoppress.notify.sitemap_reports import CONSOLE, DAY, SubmittedSitemap, median_wait_s, submitted_in
from stoppress.poll.feed_items import feed_key, subscription_key
from stoppress.primitives.instants import parse, utc
from stoppress.show.feed import FeedStatus
from stoppress.show.read_story import kept_items
from stoppress.show.timeline import median_delays

# This many refused deliveries of a source in a day are a problem.
REFUSED_MIN = 3
# An event in quarantine has up to 50 KB, and a page of a query 1 MB. So this many events take at most six calls.
QUARANTINED_COUNTED_MAX = 100
# By the environment variable with a queue's URL: the queue's name, and whether it is for dead letters. Not every stack has all.
QUEUES = {
    "ARTICLES_QUEUE_URL": ("articles", False),
    "IMPORTS_QUEUE_URL": ("imports", False),
    "REWRITES_QUEUE_URL": ("rewrites", False),
    "ARTICLES_DEAD_LETTERS_URL": ("articles", True),
    "FAILURES_URL": ("failures", True),
}

# How many pages of any age are read for the median delays: their keys are hashes, so the first ones are a random sample. How many of
# the pages that changed in the last day are looked up with their articles, in two calls.
PAGES_READ_MAX = 5_000
DELAYS_MAX = 100

_ALARM = re.compile(r"([A-Za-z0-9]+)-[A-Za-z0-9]+")

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Quarantine:
    """The events in quarantine: their number, whether there are more than were counted, and the newest."""

    events: int = 0
    more: bool = False
    newest_at: datetime | None = None
    newest_reason: str | None = None


@dataclass(frozen=True)
class SiteFacts:
    """The facts of a site in the stack.

    `secrets`: whether each source's secret exists, by the source's name; None if that could not be read. `stored`: the names in the
    bucket; None if they could not be read. `last_event` is known only for sites with `silent_after_hours`. `counts` are today's, by
    source. `refused` are today's refusals of sources with REFUSED_MIN or more, newest first. `audits` are states by audited source.
    `refusing`: the reason of each engine that rejects notifications. `not_ready`: listed pages that engines cannot index. `submitted`:
    the sitemaps in Search Console. `waits_s`: the day's median waits for Google, by file. `delays`: the last day's; None without engines, or if not read.
    """

    site: Site
    secrets: Mapping[str, bool | None]
    feeds: tuple[FeedStatus, ...]
    marks: tuple[Mark, ...]
    news: tuple[NewsEntry, ...]
    stored: Collection[str] | None
    quarantine: Quarantine
    last_event: datetime | None = None
    counts: Mapping[str, Count] = field(default_factory=dict)
    refused: Mapping[str, Sequence[Refusal]] = field(default_factory=dict)
    audits: Mapping[str, AuditState] = field(default_factory=dict)
    refusing: Mapping[str, str] = field(default_factory=dict)
    not_ready: tuple[PageState, ...] = ()
    submitted: tuple[SubmittedSitemap, ...] = ()
    waits_s: Mapping[str, float | None] = field(default_factory=dict)
    delays: Mapping[str, float | None] | None = None
    indexes: Indexes = ONE_INDEX


@dataclass(frozen=True)
class Unknown:
    """A part of the facts that could not be read, and the reason."""

    what: str
    reason: str


@dataclass(frozen=True)
class Queue:
    """A queue and its messages. `name` is `articles`, `imports`, `rewrites` or `failures`; `dead`: its messages are dead letters."""

    name: str
    dead: bool
    messages: int


@dataclass(frozen=True)
class Alarm:
    """An alarm that fires: its name in template.yaml, since when, and its description."""

    name: str
    since: datetime
    meaning: str


@dataclass(frozen=True)
class StackFacts:
    """What a stack contains. `unreadable`: sites whose newest version cannot be read. `alarms`: those in ALARM.

    `quarantine`: events of no known site. `rolled_at` and `reconciled_at`: when roll_window and reconcile_sites ran last; None: not yet.
    """

    sites: tuple[SiteFacts, ...]
    unreadable: tuple[BadSite, ...] = ()
    quarantine: Quarantine = Quarantine()
    queues: tuple[Queue, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    rolled_at: datetime | None = None
    reconciled_at: datetime | None = None
    unknown: tuple[Unknown, ...] = ()


# ── reading ──


def read_stack(host: str | None, now: datetime, stack: str | None) -> StackFacts:
    """Return the facts of all sites, or of one. `stack`: name of a deployed stack; None for a local one, which has no alarms.

    Calls: one each for a hundred sites, for their list, the clocks, the alarms and each queue; then those of `read_site` for each
    site. A site with engines costs two more, and one for each megabyte of PAGES_READ_MAX pages.

    Raises UnknownSite for a host that is no site of the stack, and the table's errors. Facts that another service refuses are in `unknown`.
    """
    unknown: list[Unknown] = []
    good, bad = sites.load_all()
    hosts = sorted({site.host for site in good} | {site.host for site in bad})
    if host and host not in hosts:
        raise sites.UnknownSite(f"unknown site {host!r}: choose one of {', '.join(hosts) or 'none'}")
    rolled_at, reconciled_at = read_last_runs()
    chosen = [site for site in good if host in (None, site.host)]
    return StackFacts(
        sites=tuple(replace(read_site(site, now, unknown), delays=_delays_of(site, now)) for site in chosen),
        unreadable=tuple(site for site in bad if host in (None, site.host)),
        quarantine=Quarantine() if host else _quarantine(UNKNOWN_SITE, now),
        queues=tuple(read_queues(os.environ, unknown)),
        alarms=tuple(_alarms(stack, unknown)) if stack else (),
        unknown=tuple(unknown),
        rolled_at=rolled_at,
        reconciled_at=reconciled_at,
    )


def read_last_runs() -> tuple[datetime | None, datetime | None]:
    """Return when roll_window and reconcile_sites ran last, with one call."""
    rolled, reconciled = (items.HEARTBEAT, "-"), items.RECONCILED_KEY
    stored = table.get_many((rolled, reconciled), consistent=False)
    runs = {key: parse(item["at"]) for key, item in stored.items()}
    return runs.get(rolled), runs.get(reconciled)


def read_site(site: Site, now: datetime, unknown: list[Unknown]) -> SiteFacts:
    """Return the facts of a site. Add those that S3 or Secrets Manager refuses to `unknown`. Raises the table's errors.

    Calls of the table: one for 50 feeds, one for the counts of 100 sources, and one or two for a source that had many refusals. One
    each for the commit marks, the audits, the names of the news sitemaps, and each of these. Up to six for quarantine. Other calls:
    one for each secret, and one of S3 for 1,000 files.
    """
    counts = {count.source: count for count in refusals.counts_of_day(site.host, now.date(), site.sources)}
    refusing = [count for count in counts.values() if count.refused >= REFUSED_MIN]
    refused = {count.source: refusals.refused_of_day(site.host, count) for count in refusing}
    indexes, marks = read_marks(site.host, consistent=False)
    return SiteFacts(
        site=site,
        secrets={
            name: _attempt("secrets", unknown, secrets.is_there, secret_path("webhooks", site.host, source.secret))
            for name, source in site.sources.items()
            if source.secret
        },
        feeds=tuple(read_feeds([site])),
        indexes=indexes,
        marks=tuple(marks),
        news=tuple(news_entries(site.host)),
        stored=_attempt(
            "files in the bucket", unknown, lambda host: {file.file for file in bucket.listed(host)}, site.host
        ),
        quarantine=_quarantine(site.host, now),
        last_event=parse(last["at"]) if (last := table.get(*items.last_event_key(site.host))) else None,
        counts=counts,
        refused={name: of_source for name, of_source in refused.items() if len(of_source) >= REFUSED_MIN},
        audits={item["sk"]: from_item(AuditState, item) for item in table.query(audit_pk(site.host), consistent=False)},
        **_engines(site, now),
    )


def _engines(site: Site, now: datetime) -> dict[str, Any]:
    """Return the engines that reject notifications, the pages that are not ready, and Google's reports on the sitemaps.

    Without `engines` nothing is read.
    """
    if site.engines is None:
        return {}
    prefixes = page_state.ENGINE, page_state.FAILING, CONSOLE
    pk = page_state.notified_pk(site.host)
    engines, failing, submitted = (table.query(pk, prefix=prefix, consistent=False) for prefix in prefixes)
    reasons = {item["sk"].removeprefix(page_state.ENGINE): item.get("reason") for item in engines}
    sitemaps = {item.file: item for item in submitted_in(submitted)} if site.engines.search_console else {}
    return {
        "refusing": {engine: reason for engine, reason in reasons.items() if reason},
        "not_ready": tuple(map(page_state.read_page, failing)),
        "submitted": tuple(sitemaps.values()),
        "waits_s": {file: median_wait_s(site.host, file, now) for file in sitemaps if is_news(file)},
    }


def _delays_of(site: Site, now: datetime) -> dict[str, float | None] | None:
    """Return the median delays of a sample of the pages that changed in the last day. Without `engines` nothing is read."""
    if site.engines is None:
        return None
    stored = table.query(page_state.notified_pk(site.host), prefix=page_state.PAGE, consistent=False)
    read = map(page_state.read_page, islice(stored, PAGES_READ_MAX))
    of_day = (page for page in read if page.changed > now - DAY and not page.gone)
    pages = list(islice(of_day, DELAYS_MAX))
    claims = read_claims(site.host, [page.url for page in pages], consistent=False)
    articles = read_articles(site.host, {claim.owner for claim in claims.values()}, consistent=False)
    owners = {url: articles.get(claim.owner) for url, claim in claims.items()}
    return median_delays([(page, owners.get(page.url)) for page in pages], now)


def read_feeds(chosen: Iterable[Site]) -> list[FeedStatus]:
    """Return the feeds of these sites, with two items for each. Raises the table's errors."""
    feeds = [(site, feed) for site in chosen for feed in site.feeds]
    keys = [(feed_key(site.host, feed.url), subscription_key(site.host, feed.url)) for site, feed in feeds]
    stored = table.get_many(key for pair in keys for key in pair)
    states = [from_item(FeedState, stored[key]) if key in stored else None for key, _ in keys]
    hubs = [from_item(Subscription, stored[key]) if key in stored else None for _, key in keys]
    return [FeedStatus(site, feed, state, hub) for (site, feed), state, hub in zip(feeds, states, hubs, strict=True)]


def _quarantine(host: str, now: datetime) -> Quarantine:
    kept = list(islice(kept_items(items.quarantine_pk(host), now), QUARANTINED_COUNTED_MAX + 1))
    if not kept:
        return Quarantine()
    newest_at = parse(kept[0]["sk"].partition("#")[0])
    events = min(len(kept), QUARANTINED_COUNTED_MAX)
    return Quarantine(events, len(kept) > events, newest_at, kept[0]["reason"])


def read_queues(urls: Mapping[str, str], unknown: list[Unknown]) -> Iterable[Queue]:
    """Yield the queues whose URLs are given, by their environment variables."""
    for variable, (name, dead) in QUEUES.items():
        url = urls.get(variable)
        messages = _attempt("queues", unknown, queues.messages_in, url) if url else None
        if messages is not None:
            yield Queue(name, dead, messages)


def _alarms(stack: str, unknown: list[Unknown]) -> Iterable[Alarm]:
    prefix = f"{stack}-"
    for alarm in _attempt("alarms", unknown, metrics.firing_alarms, prefix) or []:
        # CloudFormation calls an alarm <stack>-<name in the template>-<random text>. Only the stack's name may have hyphens,
        # so an alarm of the stack <stack>-test has another form.
        if match := _ALARM.fullmatch(alarm["AlarmName"].removeprefix(prefix)):
            yield Alarm(match[1], utc(alarm["StateUpdatedTimestamp"]), alarm.get("AlarmDescription", ""))


def _attempt(what: str, unknown: list[Unknown], read: Callable[[str], _Answer], argument: str) -> _Answer | None:
    """Return the result of `read`. If the service refuses or does not answer, add that to `unknown` once, and return None."""
    try:
        return read(argument)
    except (ClientError, BotoCoreError) as error:
        reason = Unknown(what, str(error))
        if reason not in unknown:
            unknown.append(reason)
        return None
