"""What is due every minute for every site.

Released articles are sent to the articles queue, files that were emptied a day ago to the rewrites queue. Expired news entries are
deleted. After a change of configuration all files of the site are sent to the rewrites queue. A due record stays until its consumer
deletes it: a crash sends twice, and loses nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice

from stoppress.aws import items, queues, table
from stoppress.aws.inventory import all_files
from stoppress.aws.places import give_back
from stoppress.aws.queues import RewriteRequest, read_rewrite
from stoppress.aws.sites import SETTLED_AFTER
from stoppress.model.event import from_message
from stoppress.model.file_names import NEWS_SERIES
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.places import Place
from stoppress.model.site import Site
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.primitives.instants import epoch_seconds, exact, iso, parse

# As many due records as one minute can send. The rest is sent in the next minute.
DUE_MAX = 2_000
# Attributes of an applied configuration that come from Parameter Store.
_CONTENT = {"version", "document", "feeds_versions"}


# Each minute the run starts this many sites further on. The number is prime, so that every site is first at some time.
TURN = 7_919


def beat(now: datetime) -> None:
    """Send a heartbeat through the table's stream, so that rewrite_sitemaps has a batch each minute.

    FilesLateAlarm rings if batches stop.
    """
    table.put_if({"pk": items.HEARTBEAT, "sk": "-", "at": exact(now)})


class NotApplied(Exception):
    """The stored configuration of a site may differ from the site's parameter. The text is the error that prevented the change."""


def in_turn(sites: Iterable[Site], now: datetime) -> list[Site]:
    """Sites in another order each minute, so that a run that is too short does not always leave out the same sites."""
    by_host = sorted(sites, key=lambda site: site.host)
    start = epoch_seconds(now) // 60 * TURN % max(1, len(by_host))
    return by_host[start:] + by_host[:start]


def roll(site: Site, now: datetime, deadline: Deadline = NEVER) -> tuple[Counter[str], list[Exception]]:
    """Run a site's due tasks. Returns counts by metric, and the errors of tasks. A failing task does not stop the others.

    Among the errors is NotApplied if the task that stores the site's configuration failed.
    Work that is unfinished at the deadline is due in the next minute.
    """
    done: Counter[str] = Counter()
    failures: list[Exception] = []
    tasks: Sequence[Callable[[Site, datetime, Deadline], Counter[str]]] = (
        _send_due,
        _expire_news,
        _apply_configuration,
    )
    for task in tasks:
        try:
            done += task(site, now, deadline)
        except Exception as error:  # noqa: BLE001 - the other tasks go on; the next minute tries again
            failures.append(NotApplied(repr(error)) if task is _apply_configuration else error)
    return done, failures


def _send_due(site: Site, now: datetime, _: Deadline) -> Counter[str]:
    articles, rewrites, unreadable = [], [], []
    for item in islice(table.query(items.due_pk(site.host), below=exact(now) + "~"), DUE_MAX):
        try:
            if item["queue"] == "articles":
                articles.append(from_message(item["message"]))
            else:
                rewrites.append(read_rewrite(item["message"]))
        except ValueError as error:
            unreadable.append(ValueError(f"due record {item['sk']} of {site.host}: {error}"))
    queues.send_articles(articles)
    queues.send_rewrites(rewrites)
    if unreadable:
        raise ExceptionGroup("some due records cannot be read: correct or delete them", unreadable)
    return Counter(ArticlesReleased=len(articles), FilesReleased=len(rewrites))


def _expire_news(site: Site, now: datetime, deadline: Deadline) -> Counter[str]:
    """Delete expired news entries, whose sort keys begin with the publication date. The stream then wakes the rewriter."""
    # All news series, including those of editions that the configuration no longer names.
    series = (
        items.read_series(item["sk"], item) for item in table.query(items.places_pk(site.host), prefix=NEWS_SERIES)
    )
    expired: list[Place] = []
    try:
        for file in [file for news in series for file in items.series_files(news)]:
            for item in table.query(items.file_pk(site.host, file), below=iso(now - NEWS_WINDOW) + "~"):
                if deadline.is_over():
                    return Counter(EntriesExpired=len(expired))
                removed = table.delete(item["pk"], item["sk"])
                if removed:
                    expired.append(items.read_news_place(removed))
    finally:  # a failing delete must not lose the places freed before it
        give_back(site.host, expired)
    return Counter(EntriesExpired=len(expired))


def _apply_configuration(site: Site, now: datetime, _: Deadline) -> Counter[str]:
    """After a change of configuration, and for a new site, have all files rewritten.

    They are rewritten once more when no function uses the old configuration any more (`settled`). Until then rewrite_sitemaps may
    still write a file by the old configuration. So the forms of files that only the old configuration asks for stay until then.
    """
    applied = table.get(*items.configuration_key(site.host))
    document = site.model_dump_json()
    # The document is compared too: versions restart at 1 when a parameter is deleted and created again.
    content = {"version": site.version, "document": document}
    if site.feeds_versions:
        content["feeds_versions"] = site.feeds_versions
    known = bool(applied and {name: applied[name] for name in applied.keys() & _CONTENT} == content)
    if applied and known and (applied["settled"] or now < parse(applied["sent_at"]) + SETTLED_AFTER):
        return Counter()
    # Always with robots.txt: a run that was killed before the put below may have had it written for an earlier configuration.
    files = all_files(site, robots=True)
    queues.send_rewrites([RewriteRequest(site.host, file, site.version, repair_forms=known) for file in files])
    pk, sk = items.configuration_key(site.host)
    sent = {"sent_at": exact(now), "settled": known}
    table.put({"pk": pk, "sk": sk} | content | sent, int(applied["rev"]) if applied else None)
    return Counter(FilesOfChangedSites=len(files))
