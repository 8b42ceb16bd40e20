"""The items of the table: keys and attributes of each kind, written and read.

Partition keys: `article#<site>#<source>#<id>`, `url#<site>#<hash>`, `file#<site>/<file>`, `places#<site>`, `due#<site>`,
`quarantine#<site>`, `story#<site>#<hash>`, `heartbeat`. Other modules have the items of further partitions: `poll.items` of
`feed#<site>#<hash>`, `aws.refusals` of `refused#<site>`, `aws.sites` of `sites`. Attributes without a value are left out.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from stoppress.aws.codec import from_item, to_item
from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.file_names import INDEX_FILE, Place, Series, file_name
from stoppress.model.index_ranges import Indexes
from stoppress.model.news_window import window_end
from stoppress.primitives.instants import epoch_seconds, exact, iso
from stoppress.primitives.text import encodable
from stoppress.primitives.urls import key_of

if TYPE_CHECKING:  # rewrite_sitemaps needs no articles; importing them would slow its cold start
    from stoppress.model.article import Article, Claim, EntryKey
    from stoppress.model.event import ArticleEvent

Item: TypeAlias = dict[str, Any]

# An operator has a month to look at a quarantined event.
QUARANTINE_KEPT = timedelta(days=30)
# DynamoDB's TTL removes a news entry this long after it expired, in case roll_window missed the entry.
EXPIRED_KEPT = timedelta(days=1)
# The origin of an event that no source sent.
ORIGINS = {"audit": "the webhook never came; the audit found it", "import": "imported"}
# How long `stoppress explain` can show what happened to a page.
STORY_KEPT = timedelta(days=90)
# With such a title, a line of a story fits into one write unit.
TITLE_CHARACTERS_MAX = 150
# Partition of the item that roll_window writes each minute. The filter of the stream in template.yaml contains it too.
HEARTBEAT = "heartbeat"
# The item of a site's indexes in the partition of the marks. It precedes all names of files.
INDEXES_SK = "indexes"
# The item with the time of the last nightly comparison.
RECONCILED_KEY = ("clock", "reconciled")
# The longest text of an event in quarantine: an item takes at most 400 KB.
QUARANTINED_CHARACTERS_MAX = 50_000


def article_key(site: str, name: str) -> tuple[str, str]:
    """Return the key of an article; its name is `<source>#<id>`."""
    return f"article#{site}#{name}", "-"


def claim_key(site: str, url: str) -> tuple[str, str]:
    return f"url#{site}#{key_of(url)}", "-"


def last_event_key(site: str) -> tuple[str, str]:
    """Return the key of the item with the time of a site's last event."""
    return places_pk(site), "last-event"


def waiting_key(site: str, url: str, name: str) -> tuple[str, str]:
    """Return the key of the event of an article that waits until a URL is free."""
    return claim_key(site, url)[0], f"waiting#{name}"


def file_pk(site: str, file: str) -> str:
    """Return the partition of a file's entries; the index's partition has the commit marks of all files."""
    return f"file#{site}/{file}"


def places_pk(site: str) -> str:
    """Return the partition of a site's series, and of the time of its last event."""
    return f"places#{site}"


def due_pk(site: str) -> str:
    """Return the partition of a site's due records: held articles and emptied files, by the instant at which to handle them."""
    return f"due#{site}"


def quarantine_pk(site: str) -> str:
    """Return the partition of the events that could not be applied."""
    return f"quarantine#{site}"


def story_pk(site: str, url: str) -> str:
    """Return the partition of a page's story: its events and their outcomes."""
    return f"story#{site}#{key_of(url)}"


def file_of(pk: str) -> tuple[str, str]:
    """Return site and file of a partition `file#<site>/<file>`. Raises ValueError for any other partition."""
    kind, _, rest = pk.partition("#")
    site, _, file = rest.partition("/")
    if kind != "file" or not site or not file:
        raise ValueError(f"{pk!r} is not the partition of a file: expected file#<site>/<file>")
    return site, file


def entry_key(site: str, entry: "EntryKey") -> tuple[str, str]:
    """Return the key of an entry in its file's partition."""
    return _entry_key(site, entry.file, key_of(entry.url), entry.published)


def _entry_key(site: str, file: str, sk: str, published: datetime | None = None) -> tuple[str, str]:
    return file_pk(site, file), f"{iso(published)}#{sk}" if published else sk


def due_sk(release: datetime, name: str) -> str:
    """Return the sort key of the record that is due at an instant."""
    return f"{exact(release)}#{name}"


def article_item(article: "Article") -> Item:
    """Return the item of an article. If its newest event set the date, `dated_order` is True: this keeps most items below 1 KB."""
    is_same = article.dated_order == article.order
    without = ("site", "name", "dated_order") if is_same else ("site", "name")
    item = to_item(article, article_key(article.site, article.name), without=without)
    return item | {"dated_order": True} if is_same else item


def read_article(item: Mapping[str, Any]) -> "Article":
    from stoppress.model.article import Article

    site, _, name = item["pk"].removeprefix("article#").partition("#")
    if item.get("dated_order") is True:
        item = {**item, "dated_order": item["order"]}
    return from_item(Article, item, site=site, name=name)


def claim_item(claim: "Claim") -> Item:
    return to_item(claim, claim_key(claim.site, claim.url), without=("site",))


def read_claim(item: Mapping[str, Any], url: str) -> "Claim":
    """Read the item of the claim on a URL. `url` is for an item from which `stoppress forget` erased the URL."""
    from stoppress.model.article import Claim

    return from_item(Claim, item, site=item["pk"].split("#")[1], url=item.get("url") or url)


def waiting_item(event: "ArticleEvent") -> Item:
    """Return the event of an article that waits until its URL is free."""
    from stoppress.model.event import to_message

    assert event.url
    pk, sk = waiting_key(event.site, event.url, event.name)
    return {"pk": pk, "sk": sk, "message": to_message(event, in_ascii=False)}


def general_item(site: str, file: str, entry: GeneralEntry) -> Item:
    return to_item(entry, _entry_key(site, file, key_of(entry.loc)))


def read_general(item: Mapping[str, Any]) -> GeneralEntry:
    return from_item(GeneralEntry, item)


def news_item(site: str, place: Place, entry: NewsEntry) -> Item:
    key = _entry_key(site, place.file, key_of(entry.loc), entry.published)
    ttl = epoch_seconds(window_end(entry.published) + EXPIRED_KEPT)
    return to_item(entry, key, place=[place.series, place.number, place.size_bytes], ttl=ttl)


def read_news(item: Mapping[str, Any]) -> NewsEntry:
    return from_item(NewsEntry, item)


def read_news_place(item: Mapping[str, Any]) -> Place:
    series, number, size_bytes = item["place"]
    return Place(series, int(number), int(size_bytes))


def mark_item(site: str, mark: Mark) -> Item:
    """Return the commit mark of a file, in the index's partition."""
    return to_item(mark, (file_pk(site, INDEX_FILE), mark.file), without=("file",))


def read_mark(item: Mapping[str, Any]) -> Mark:
    return from_item(Mark, item, file=item["sk"])


def indexes_item(site: str, indexes: Indexes) -> Item:
    """Return the ranges of files that the indexes of a site list."""
    return to_item(indexes, (file_pk(site, INDEX_FILE), INDEXES_SK))


def read_indexes(item: Mapping[str, Any] | None) -> Indexes:
    """Read the indexes of a site. Without an item it has one index."""
    return from_item(Indexes, item or {})


def series_item(site: str, series: Series) -> Item:
    """Return the used places of a series: entries and bytes of each file."""
    return to_item(series, (places_pk(site), series.name), without=("name",))


def read_series(name: str, item: Mapping[str, Any] | None) -> Series:
    """Read a series. Without an item it has no files."""
    return from_item(Series, item or {}, name=name)


def series_files(series: Series) -> list[str]:
    return [file_name(series.name, number) for number in range(1, len(series.files) + 1)]


def due_item(site: str, release: datetime, name: str, message: str, *, queue: str) -> Item:
    """Return a message for a queue (`articles` or `rewrites`), to be sent at the instant `release`."""
    return {"pk": due_pk(site), "sk": due_sk(release, name), "queue": queue, "message": message}


def quarantine_item(site: str, identity: str, reason: str, event: str, now: datetime) -> Item:
    """Return the item of an event that could not be applied, and why.

    `event` is a message of the articles queue. A long text is cut, and `characters` is its original length.
    """
    is_cut = len(event) > QUARANTINED_CHARACTERS_MAX
    return {
        **({"characters": len(event)} if is_cut else {}),
        "pk": quarantine_pk(site),
        "sk": f"{exact(now)}#{identity}",
        "reason": reason,
        "event": encodable(event[:QUARANTINED_CHARACTERS_MAX]),
        "ttl": epoch_seconds(now + QUARANTINE_KEPT),
    }


def is_kept(item: Item, now: datetime) -> bool:
    """Return True if an item's time to live has not ended. DynamoDB may take days to delete an expired item.

    An item without a time to live is kept.
    """
    return int(item.get("ttl", 2**40)) > epoch_seconds(now)


def story_item(event: "ArticleEvent", url: str, outcome: str, reason: str, now: datetime) -> Item:
    """Return a line of a page's story: an event and its outcome. A repeated message writes the same line again."""
    received_at = exact(event.received_at or now)
    origin = ORIGINS.get((event.delivery or "").partition(":")[0], "")
    item = {
        "pk": story_pk(event.site, url),
        "sk": f"{received_at}#{event.name}#{outcome}",
        "url": url,
        "title": event.title[:TITLE_CHARACTERS_MAX] or None,
        "action": event.action,
        "said_at": event.timestamp and exact(event.timestamp),
        "names": event.url if event.url and event.url != url else None,
        "received_at": received_at,
        "outcome": outcome,
        "reason": "; ".join(filter(None, (origin, reason))) or None,
        "ttl": epoch_seconds(now + STORY_KEPT),
    }
    return {name: value for name, value in item.items() if value is not None}
