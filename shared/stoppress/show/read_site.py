"""Reads what `show.site` needs, and changes nothing."""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.audit.state import AuditState, audit_pk
from stoppress.aws import alarms, bucket, items, queues, refusals, secrets, sites, table
from stoppress.aws.codec import from_item
from stoppress.aws.inventory import news_entries
from stoppress.feeds.schedule import FeedState
from stoppress.feeds.subscription import Subscription
from stoppress.model.file_names import INDEX_FILE
from stoppress.model.site import UNKNOWN_SITE, Site, secret_path
from stoppress.notify.state import ENGINE, FAILING, PAGE, notified_pk, read_page
from stoppress.notify.submitted import CONSOLE, submitted_in
from stoppress.poll.items import feed_key, subscription_key
from stoppress.primitives.instants import parse
from stoppress.show.feed import FeedStatus
from stoppress.show.site import Alarm, LastRuns, Quarantine, Queue, SiteFacts, StackFacts, Unknown
from stoppress.show.way import DAY, Delays, delays

# An event in quarantine has up to 50 KB, and a page of a query 1 MB. So this many events take at most six calls.
QUARANTINED_COUNTED_MAX = 100
# By the environment variable with a queue's URL: the queue's name, and whether it holds dead letters. Not every stack has all.
QUEUES = {
    "ARTICLES_QUEUE_URL": ("articles", False),
    "IMPORTS_QUEUE_URL": ("imports", False),
    "REWRITES_QUEUE_URL": ("rewrites", False),
    "ARTICLES_DEAD_LETTERS_URL": ("articles", True),
    "FAILURES_URL": ("failures", True),
}

# For the median delays so many pages are read, of any age: their keys are hashes, so the first ones are a random sample. Of the
# pages that changed in the last day, so many are looked up with their articles, in two calls.
PAGES_READ_MAX = 5_000
DELAYS_MAX = 100

_ALARM = re.compile(r"([A-Za-z0-9]+)-[A-Za-z0-9]+")

_Answer = TypeVar("_Answer")


def read_stack(host: str | None, now: datetime, stack: str | None) -> StackFacts:
    """The facts of all sites, or of one. `stack`: name of a deployed stack; None for a local one, which has no alarms.

    Calls: one for a hundred sites, one for the list of them, one for the clocks, one for each queue, one for the alarms. For each site those of `read_site`; for a site with engines also one for each megabyte of PAGES_READ_MAX pages, and two.

    Raises UnknownSite for a host that is no site of the stack, and the table's errors. What any other service refuses is `unknown`.
    """
    unknown: list[Unknown] = []
    good, bad = sites.load_all()
    hosts = sorted({site.host for site in good} | {site.host for site in bad})
    if host and host not in hosts:
        raise sites.UnknownSite(f"unknown site {host!r}: choose one of {', '.join(hosts) or 'none'}")
    return StackFacts(
        sites=tuple(
            replace(read_site(site, now, unknown), delays=_delays_of(site, now))
            for site in good
            if host in (None, site.host)
        ),
        unreadable=tuple(site for site in bad if host in (None, site.host)),
        quarantine=Quarantine() if host else _quarantine(UNKNOWN_SITE, now),
        queues=tuple(_queues(unknown)),
        alarms=tuple(_alarms(stack, unknown)) if stack else (),
        unknown=tuple(unknown),
        last_runs=read_last_runs(),
    )


def read_last_runs() -> LastRuns:
    """Return when roll_window and reconcile_sites ran last, with one call."""
    keys = (items.HEARTBEAT, "-"), items.RECONCILED_KEY
    stored = table.get_many(keys, consistent=False)
    return LastRuns(*(parse(stored[key]["at"]) if key in stored else None for key in keys))


def read_site(site: Site, now: datetime, unknown: list[Unknown]) -> SiteFacts:
    """The facts of a site. What S3 or Secrets Manager refuses is added to `unknown`. Raises the table's errors.

    Calls of the table: one for 50 feeds, one for the refusals of 100 sources, one for the commit marks, one for the audits. One
    for the names of the news sitemaps, one for each of them, and up to six for quarantine. Other calls: one for each secret,
    and one of S3 for 1,000 files.
    """
    marks = (item for item in table.query(items.file_pk(site.host, INDEX_FILE), consistent=False) if "digest" in item)
    stored = _attempt("files in the bucket", unknown, _stored, site.host)
    return SiteFacts(
        site=site,
        secrets={
            name: _attempt("secrets", unknown, secrets.is_there, secret_path("webhooks", site.host, source.secret))
            for name, source in site.sources.items()
            if source.secret
        },
        feeds=tuple(read_feeds([site])),
        marks=tuple(map(items.read_mark, marks)),
        news=tuple(news_entries(site.host)),
        stored=stored,
        quarantine=_quarantine(site.host, now),
        last_event=parse(last["at"]) if (last := table.get(*items.last_event_key(site.host))) else None,
        counts={
            count.source: (count.refused, count.unverified)
            for count in refusals.counts_of_day(site.host, now.date(), site.sources)
        },
        audits={item["sk"]: from_item(AuditState, item) for item in table.query(audit_pk(site.host), consistent=False)},
        **_engines(site),
    )


def _engines(site: Site) -> dict[str, Any]:
    """Why engines refuse notifications, which pages are not ready, and what Google made of the sitemaps.

    Without `engines` nothing is read.
    """
    if site.engines is None:
        return {}
    refusals_of_engines = table.query(notified_pk(site.host), prefix=ENGINE, consistent=False)
    failing = table.query(notified_pk(site.host), prefix=FAILING, consistent=False)
    asks = site.engines.search_console is not None
    submitted = table.query(notified_pk(site.host), prefix=CONSOLE, consistent=False) if asks else ()
    return {
        "refusing": {
            item["sk"].removeprefix(ENGINE): item["reason"] for item in refusals_of_engines if item.get("reason")
        },
        "not_ready": tuple(map(read_page, failing)),
        "submitted": tuple(submitted_in(submitted)),
    }


def _delays_of(site: Site, now: datetime) -> Delays | None:
    """The median delays of a sample of the pages that changed in the last day. Without `engines` nothing is read."""
    if site.engines is None:
        return None
    stored = islice(table.query(notified_pk(site.host), prefix=PAGE, consistent=False), PAGES_READ_MAX)
    of_day = (page for page in map(read_page, stored) if page.changed > now - DAY and not page.gone)
    pages = list(islice(of_day, DELAYS_MAX))
    keys = {page.url: items.claim_key(site.host, page.url) for page in pages}
    claims = table.get_many(keys.values(), consistent=False)
    owners = {
        url: items.article_key(site.host, items.read_claim(claims[key], url).owner)
        for url, key in keys.items()
        if key in claims
    }
    articles = table.get_many(owners.values(), consistent=False)
    return delays(
        [
            (page, items.read_article(articles[owner]) if (owner := owners.get(page.url)) in articles else None)
            for page in pages
        ],
        now,
    )


def read_feeds(chosen: Iterable[Site]) -> list[FeedStatus]:
    """The feeds of these sites, with two items for each. Raises the table's errors."""
    feeds = {feed_key(site.host, feed.url): (site, feed) for site in chosen for feed in site.feeds}
    stored = table.get_many([*feeds, *(subscription_key(site.host, feed.url) for site, feed in feeds.values())])
    return [
        FeedStatus(
            site,
            feed,
            from_item(FeedState, stored[key]) if key in stored else None,
            from_item(Subscription, stored[hub_key])
            if (hub_key := subscription_key(site.host, feed.url)) in stored
            else None,
        )
        for key, (site, feed) in feeds.items()
    ]


def _quarantine(host: str, now: datetime) -> Quarantine:
    stored = table.query(items.quarantine_pk(host), consistent=False, newest_first=True)
    counted = list(islice((item for item in stored if items.is_kept(item, now)), QUARANTINED_COUNTED_MAX + 1))
    if not counted:
        return Quarantine()
    newest_at = parse(counted[0]["sk"].partition("#")[0])
    more = len(counted) > QUARANTINED_COUNTED_MAX
    return Quarantine(min(len(counted), QUARANTINED_COUNTED_MAX), more, newest_at, counted[0]["reason"])


def _queues(unknown: list[Unknown]) -> Iterable[Queue]:
    for variable, (name, dead) in QUEUES.items():
        url = os.environ.get(variable)
        messages = _attempt("queues", unknown, queues.messages_in, url) if url else None
        if messages is not None:
            yield Queue(name, dead, messages)


def _alarms(stack: str, unknown: list[Unknown]) -> Iterable[Alarm]:
    prefix = f"{stack}-"
    for alarm in _attempt("alarms", unknown, alarms.ringing, prefix) or []:
        # CloudFormation calls an alarm <stack>-<name in the template>-<random text>. Only the stack's name may have hyphens,
        # so an alarm of the stack <stack>-test has another form.
        if match := _ALARM.fullmatch(alarm["AlarmName"].removeprefix(prefix)):
            yield Alarm(match[1], alarm["StateUpdatedTimestamp"], alarm.get("AlarmDescription", ""))


def _stored(host: str) -> frozenset[str]:
    return frozenset(file.file for file in bucket.listed(host))


def _attempt(what: str, unknown: list[Unknown], read: Callable[[str], _Answer], argument: str) -> _Answer | None:
    """What `read` returns. If the service refuses or does not answer, adds that to `unknown` once, and returns None."""
    try:
        return read(argument)
    except (ClientError, BotoCoreError) as error:
        reason = Unknown(what, str(error))
        if reason not in unknown:
            unknown.append(reason)
        return None
