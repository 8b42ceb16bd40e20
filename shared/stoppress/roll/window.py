"""Rolling: what the clock brings, every minute and for every site.

Held articles whose hour has come go to the articles queue, emptied files whose day is over to the rewrites queue, expired
entries out of the news sitemap, and after a changed configuration all files of the site to the rewrites queue.
What was sent stays due until its consumer has taken it out: a crash sends twice, never not at all.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from stoppress.aws import queues, table
from stoppress.aws.inventory import all_files
from stoppress.aws.items import file_pk, read_news_place, read_series, series_files
from stoppress.aws.places import give_back
from stoppress.aws.queues import RewriteRequest, read_rewrite
from stoppress.aws.sites import SETTLED_AFTER
from stoppress.model.event import from_message
from stoppress.model.file_names import NEWS_SERIES
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.places import Place
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, iso, parse

# More than a minute's work: the rest is due in the next minute.
DUE_MAX = 2_000


def roll(site: Site, now: datetime) -> tuple[Counter[str], list[Exception]]:
    """Do for a site what is due at `now`: how much of each was done, and what failed without stopping the rest."""
    done: Counter[str] = Counter()
    failures: list[Exception] = []
    tasks: Sequence[Callable[[Site, datetime], Counter[str]]] = (_send_due, _expire_news, _apply_configuration)
    for task in tasks:
        try:
            done += task(site, now)
        except Exception as error:  # noqa: BLE001 - one task's fault keeps no other; the next minute tries again
            failures.append(error)
    return done, failures


def _send_due(site: Site, now: datetime) -> Counter[str]:
    due = []
    for item in table.query(f"due#{site.host}", below=exact(now) + "~"):
        due.append(item)
        if len(due) == DUE_MAX:
            break
    articles, rewrites, unreadable = [], [], []
    for item in due:
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
        raise ExceptionGroup("records that are due cannot be read: correct or delete them", unreadable)
    return Counter(ArticlesReleased=len(articles), FilesReleased=len(rewrites))


def _expire_news(site: Site, now: datetime) -> Counter[str]:
    """Take expired entries out: their sort keys begin with their publication. It is their removal that wakes the file."""
    # Of editions too, and of those that the configuration does not name any more.
    series = (read_series(item["sk"], item) for item in table.query(f"places#{site.host}", prefix=NEWS_SERIES))
    expired: list[Place] = []
    try:
        for file in [file for one in series for file in series_files(one)]:
            for item in table.query(file_pk(site.host, file), below=iso(now - NEWS_WINDOW) + "~"):
                removed = table.delete(item["pk"], item["sk"])
                if removed:
                    expired.append(read_news_place(removed))
    finally:  # a delete that fails must not cost the places of those before it
        give_back(site.host, expired)
    return Counter(EntriesExpired=len(expired))


def _apply_configuration(site: Site, now: datetime) -> Counter[str]:
    """After a change, and for a new site, have all files written again by the configuration of today.

    And once more when nobody goes by the old one any longer: a rewriter that did might have written since, and only then what the
    old one wanted may go.
    """
    applied = table.get(f"places#{site.host}", "configuration")
    document = site.model_dump_json()
    # A parameter that was deleted and made again begins at version 1 again.
    known = bool(applied and (applied.get("version"), applied.get("document")) == (site.version, document))
    if applied and known and (applied["settled"] or now < parse(applied["sent_at"]) + SETTLED_AFTER):
        return Counter()
    # A configuration that wanted a robots.txt may have been sent out, and the run killed before it was noted here.
    files = all_files(site, robots=True)
    queues.send_rewrites([RewriteRequest(site.host, file, site.version, repair_forms=known) for file in files])
    said = {"version": site.version, "document": document, "sent_at": exact(now), "settled": known}
    key = {"pk": f"places#{site.host}", "sk": "configuration"}
    table.put(key | said, int(applied["rev"]) if applied else None)
    return Counter(FilesOfChangedSites=len(files))
