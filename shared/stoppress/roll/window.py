"""Handle the due records of each minute (`aws.due`). No item is read of a site without one. The first run also begins a deployment.

Released articles are sent to the articles queue, files that were emptied a day ago and the files of a changed site to the rewrites
queue. Expired news entries are deleted. A due record stays until its work is done, so that a crash may send twice but loses nothing.
"""

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import zip_longest

from stoppress.aws import bucket, due, items, queues, site_versions, sites, table
from stoppress.aws.due import Due
from stoppress.aws.inventory import give_back
from stoppress.aws.queues import RewriteRequest, read_request
from stoppress.model.event import from_message
from stoppress.model.file_names import NEWS_SERIES, Place
from stoppress.model.news_window import NEWS_WINDOW, window_start
from stoppress.model.site import BadConfiguration, Site, schema
from stoppress.primitives.instants import NEVER, Deadline, exact, iso, parse
from stoppress.sitemaps.tags import RENDERER

# A message that is not handled after this time is sent again. The queues retry a failed message for about this long.
RESEND_AFTER = timedelta(minutes=10)
# The item with the code that ran last.
CODE_KEY = ("clock", "code")
# reconcile_sites runs every night; two more hours let a run be late.
RECONCILED_EVERY = timedelta(hours=26)

_logger = logging.getLogger(__name__)


def beat(now: datetime) -> None:
    """Send a heartbeat through the table's stream, so that rewrite_sitemaps has a batch each minute.

    FilesLateAlarm fires if batches stop.
    """
    table.put_if({"pk": items.HEARTBEAT, "sk": "-", "at": exact(now)})


def roll(now: datetime, deadline: Deadline = NEVER) -> tuple[Counter[str], list[Exception]]:
    """Handle due records until the deadline. Return counts by metric, and the errors. An error does not stop the other work.

    The kinds take turns, so that a backlog of one kind does not delay another.
    """
    done: Counter[str] = Counter()
    failures: list[Exception] = []
    for records in zip_longest(*(_due_records(kind, now, failures) for kind in due.KINDS)):
        for record in filter(None, records):
            if deadline.is_over():
                return done + Counter(DueNotReached=1), failures
            try:
                done += _handle(record, now, deadline)
            except Exception as error:  # noqa: BLE001 - tried again in the next minute; must not stop the others
                error.add_note(f"{record.kind}: {record.name}")
                failures.append(error)
    return done, failures


def _due_records(kind: str, now: datetime, failures: list[Exception]) -> Iterator[Due]:
    try:
        yield from due.every(kind, now)
    except Exception as error:  # noqa: BLE001 - must not stop the other kinds
        failures.append(error)


def _handle(record: Due, now: datetime, deadline: Deadline) -> Counter[str]:
    if record.kind == due.MESSAGES:
        return _send_messages(record, now)
    if record.kind == due.EXPIRIES:
        return _expire_news(record, now, deadline)
    kind, _, host = record.name.partition("#")
    handle: Callable[[Due, str, datetime], Counter[str]] = {
        due.CONFIGURATION: _apply_configuration,
        due.UNREADABLE: _report_unreadable,
        due.SILENCE: _watch_events,
        due.RECONCILIATION: _watch_reconciliation,
    }[kind]
    return handle(record, host, now)


def _send_messages(record: Due, now: datetime) -> Counter[str]:
    """Send the messages of a site that were due at one instant. Their consumers delete them. A removed site's messages wait."""
    host, _, release = record.name.partition("#")
    current = sites.read_current(host)
    if current and current.is_removed:
        due.move(record, now + RESEND_AFTER)
        return Counter()
    articles, rewrites, unreadable = [], [], []
    messages = list(table.query(items.due_pk(host), prefix=f"{release}#"))
    if not messages:
        due.done(record)
    for item in messages:
        try:
            if item["queue"] == "articles":
                articles.append(from_message(item["message"]))
            else:
                rewrites.append(read_request(item["message"]))
        except ValueError as error:
            unreadable.append(ValueError(f"due record {item['sk']} of {host}: {error}"))
    queues.send_articles(articles)
    queues.send_rewrites(rewrites)
    if articles or rewrites:
        due.move(record, now + RESEND_AFTER)
    if unreadable:
        raise ExceptionGroup("some due records cannot be read: correct or delete them", unreadable)
    return Counter(ArticlesReleased=len(articles), FilesReleased=len(rewrites))


def _expire_news(record: Due, now: datetime, deadline: Deadline) -> Counter[str]:
    """Delete the expired entries of a news sitemap, whose sort keys begin with the publication date.

    The stream then invokes rewrite_sitemaps. The next record is written before this one is deleted.
    """
    host, _, file = record.name.partition("/")
    pk = items.file_pk(host, file)
    expired: list[Place] = []
    try:
        for item in table.query(pk, below=iso(window_start(now)) + "~"):
            if deadline.is_over():
                return Counter(EntriesExpired=len(expired), DueNotReached=1)
            if removed := table.delete(item["pk"], item["sk"]):
                expired.append(items.read_news_place(removed))
    finally:  # a failed delete must not lose the places freed before it
        give_back((host, place) for place in expired)
    has_entries = due.write_next_expiry(host, file)
    due.done(record)
    is_emptied = bool(expired) and not has_entries and _is_empty_too_soon(host)
    return Counter(EntriesExpired=len(expired), SitesEmptied=int(is_emptied))


def _is_empty_too_soon(host: str) -> bool:
    """Return True if a site's news is empty, although its `silent_after_hours` is not longer than the window."""
    series = (items.read_series(item["sk"], item) for item in table.query(items.places_pk(host), prefix=NEWS_SERIES))
    # The count of places is sometimes too high and never too low, so no site with news counts as empty.
    if any(used.entries for news in series for used in news.files):
        return False
    site = sites.reload(host)
    return site is not None and timedelta(hours=site.silent_after_hours or 0) <= NEWS_WINDOW


def _apply_configuration(record: Due, host: str, now: datetime) -> Counter[str]:
    """Request all files of a changed site, even if its newest version is unreadable and an older version is in force."""
    site, fault = _read_in_force(host)
    later = Due(record.kind, now + RESEND_AFTER, record.name)
    if site:
        queues.send_rewrites([RewriteRequest(host, due=later.sk)])
    if site and not fault:
        due.move(record, later.at)
        return Counter(SitesChanged=1)
    if fault:
        due.write(due.site(due.UNREADABLE, host, now))
    due.done(record)
    return _count_fault(host, fault)


def _report_unreadable(record: Due, host: str, now: datetime) -> Counter[str]:
    """Report a site whose newest version cannot be read, each minute until its next version, so that the alarm stays in ALARM."""
    del now
    _, fault = _read_in_force(host)
    if not fault:
        due.done(record)
    return _count_fault(host, fault)


def _read_in_force(host: str) -> tuple[Site | None, str]:
    """Return the version of a site in force, and why its newest version cannot be read."""
    try:
        site = sites.reload(host)
    except BadConfiguration as error:
        return None, str(error)
    return site, site.fault if site else ""


def _count_fault(host: str, fault: str) -> Counter[str]:
    if not fault:
        return Counter()
    _logger.error("site unreadable: %s: %s", host, fault)
    return Counter(SitesUnreadable=1)


def _watch_events(record: Due, host: str, now: datetime) -> Counter[str]:
    """Report a site without an event for `silent_after_hours`, each minute until the next event."""
    site = sites.reload(host)
    if site is None or site.silent_after_hours is None:
        due.done(record)
        return Counter()
    last = table.get(*items.last_event_key(host))
    limit = timedelta(hours=site.silent_after_hours)
    if last and parse(last["at"]) + limit > now:
        due.move(record, parse(last["at"]) + limit)
        return Counter()
    _logger.warning("site is silent: %s, last event at %s", host, last and last["at"])
    return Counter(SitesSilent=1)


def _watch_reconciliation(record: Due, _: str, now: datetime) -> Counter[str]:
    """Report once if reconcile_sites has not run for RECONCILED_EVERY."""
    last = table.get(*items.RECONCILED_KEY)
    until = parse(last["at"]) + RECONCILED_EVERY if last else now
    due.move(record, until if until > now else now + RECONCILED_EVERY)
    return Counter(NeedsAttention=int(until <= now))


def begin_deployment(now: datetime) -> None:
    """Add the first site, and request the files of all sites if this code reads or renders them differently from the code before."""
    _add_first_site(now)
    # This digest changes with the settings of a site, their defaults, and the format of a line.
    code = sha256(f"{RENDERER} {json.dumps(schema(), sort_keys=True)}".encode()).hexdigest()[:16]
    item = table.get(*CODE_KEY)
    if item and item["code"] == code:
        return
    if item:
        for host in sites.hosts():
            due.write(due.site(due.CONFIGURATION, host, now))
    else:
        due.write(due.site(due.RECONCILIATION, "", now + RECONCILED_EVERY))
    pk, sk = CODE_KEY
    table.put_if({"pk": pk, "sk": sk, "code": code, "at": exact(now)})


def _add_first_site(now: datetime) -> None:
    """Write version 1 of the site of the template's parameters, if the host has neither a version nor files."""
    text = os.environ["FIRST_SITE"]
    if not text:
        return
    host = site_versions.check_document(text).host
    if sites.read_current(host) is None and next(bucket.listed(host), None) is None:
        try:
            site_versions.put(text, 0, "the stack's parameters", now)
        except site_versions.Replaced:  # another writer was faster
            return
