"""The items of the table: keys and attributes of each kind, written and read.

Partition keys: `article#<site>#<source>#<id>`, `url#<site>#<hash>`, `file#<site>/<file>`, `places#<site>`, `due#<site>`,
`quarantine#<site>`, `story#<site>#<hash>`, `heartbeat`. Other modules have the items of further partitions: `poll.items` of
`feed#<site>#<hash>`, `aws.refusals` of `refused#<site>`, `aws.sites` of `sites`. Attributes without a value are left out.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from stoppress.model.alternates import Alternate
from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.file_names import INDEX_FILE, file_name
from stoppress.model.media import video_json, video_of
from stoppress.model.places import Place, Series, Used
from stoppress.model.rules import Traits
from stoppress.primitives.instants import epoch_seconds, exact, iso, parse
from stoppress.primitives.urls import identity, key_of, key_of_spelling

if TYPE_CHECKING:  # rewrite_sitemaps needs no articles; importing them would slow its cold start
    from stoppress.model.article import Article, Claim, EntryKey
    from stoppress.model.event import ArticleEvent
    from stoppress.model.order import Order

Item: TypeAlias = dict[str, Any]

# An operator has a month to look at a quarantined event.
QUARANTINE_KEPT = timedelta(days=30)
# DynamoDB's TTL removes a news entry this long after it expired, in case roll_window missed the entry.
EXPIRED_KEPT = timedelta(days=1)
# How long `stoppress explain` can show what happened to a page.
STORY_KEPT = timedelta(days=90)
# Partition of the item that roll_window writes each minute. The filter of the stream in template.yaml names it too.
HEARTBEAT = "heartbeat"
# The longest text of an event in quarantine: an item takes at most 400 KB.
QUARANTINED_CHARACTERS_MAX = 50_000


def article_key(site: str, name: str) -> tuple[str, str]:
    """Key of an article; its name is `<source>#<id>`."""
    return f"article#{site}#{name}", "-"


def claim_key(site: str, url: str) -> tuple[str, str]:
    """Key of the claim on a URL."""
    return f"url#{site}#{key_of(url)}", "-"


def old_claim_key(site: str, url: str) -> tuple[str, str] | None:
    """Key under which versions before 0.1.0 stored the claim on a URL; None if it is the same."""
    return None if identity(url) == url else (f"url#{site}#{key_of_spelling(url)}", "-")


def waiting_key(site: str, url: str, name: str) -> tuple[str, str]:
    """Key of the event of an article that waits until a URL is free."""
    return claim_key(site, url)[0], f"waiting#{name}"


def file_pk(site: str, file: str) -> str:
    """Partition of a file's entries; the index's partition holds the commit marks of all files."""
    return f"file#{site}/{file}"


def places_pk(site: str) -> str:
    """Partition of a site's series, and of the state that roll_window and reconcile_sites store."""
    return f"places#{site}"


def configuration_key(site: str) -> tuple[str, str]:
    """Key of the configuration that a site's files were last written with."""
    return places_pk(site), "configuration"


def due_pk(site: str) -> str:
    """Partition of a site's due records: held articles and emptied files, by the instant at which to handle them."""
    return f"due#{site}"


def quarantine_pk(site: str) -> str:
    """Partition of the events that could not be applied."""
    return f"quarantine#{site}"


def story_pk(site: str, url: str) -> str:
    """Partition of a page's story: what events did to it."""
    return f"story#{site}#{key_of(url)}"


def file_of(pk: str) -> tuple[str, str]:
    """Site and file of a partition `file#<site>/<file>`. Raises ValueError for any other partition."""
    kind, _, rest = pk.partition("#")
    site, _, file = rest.partition("/")
    if kind != "file" or not site or not file:
        raise ValueError(f"{pk!r} is not the partition of a file: expected file#<site>/<file>")
    return site, file


def is_heartbeat(record: Mapping[str, Any]) -> bool:
    """Whether a stream record is roll_window's heartbeat."""
    return bool(record["Keys"]["pk"]["S"] == HEARTBEAT)


def changed_entry(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """Sort key and URL of the entry in a stream record; for a mark, the file's name twice.

    None if the sort key does not end with the URL's hash. Only the URL of the record's images is used, because a redriven
    record may be older than the file. The URL cannot be outdated, because the sort key has its hash.
    """
    sk = record["Keys"]["sk"]["S"]
    if file_of(record["Keys"]["pk"]["S"])[1] == INDEX_FILE:
        return sk, sk
    image = record.get("NewImage") or record.get("OldImage") or {}
    loc = image.get("loc", {}).get("S", "")
    return (sk, loc) if sk.endswith(key_of(loc)) else None


def entry_key(site: str, entry: "EntryKey") -> tuple[str, str]:
    """Key of an entry in its file's partition."""
    key = key_of_spelling if entry.is_old_form else key_of
    return _entry_key(site, entry.file, key(entry.url), entry.published)


def _entry_key(site: str, file: str, sk: str, published: datetime | None = None) -> tuple[str, str]:
    return file_pk(site, file), f"{iso(published)}#{sk}" if published else sk


def due_sk(release: datetime, name: str) -> str:
    """Sort key of the record that is due at an instant."""
    return f"{exact(release)}#{name}"


def article_item(article: "Article") -> Item:
    pk, sk = article_key(article.site, article.name)
    return _present(
        {
            "pk": pk,
            "sk": sk,
            "state": article.state,
            "version": article.order.version,
            "sequence": article.order.sequence,
            "timestamp": article.order.timestamp,
            "removal": article.order.removal or None,
            "heard": article.order.heard,
            "digest": article.digest,
            "heard_at": exact(article.heard_at),
            "known_since": article.known_since and exact(article.known_since),
            "deliveries": " ".join(article.deliveries) or None,
            "reborn": article.reborn,
            "is_undated": article.is_undated or None,
            "title": article.title or None,
            "publication": article.publication,
            "url": article.url,
            "first_published": article.first_published and exact(article.first_published),
            "dated_by": article.dated_by or None,
            "dated_order": _dated_order_item(article),
            "held_order": article.held_order and _order_item(article.held_order),
            "changed_at": article.changed_at and exact(article.changed_at),
            "shard": article.shard and _place_item(article.shard),
            "news": article.news and _place_item(article.news),
            "release_at": article.release_at and exact(article.release_at),
            "reason": article.reason or None,
            "news_reason": article.news_reason or None,
            "dropped": list(article.dropped) or None,
        }
    )


def _dated_order_item(article: "Article") -> list[Any] | bool | None:
    """The order of the event that set `first_published`; True stands for the newest event, and keeps most items below 1 KB."""
    if article.dated_order is None:
        return None
    return article.dated_order == article.order or _order_item(article.dated_order)


def read_article(item: Mapping[str, Any]) -> "Article":
    from stoppress.model.article import Article

    site, _, name = item["pk"].removeprefix("article#").partition("#")
    return Article(
        site=site,
        name=name,
        state=item["state"],
        order=_read_order(item),
        digest=item["digest"],
        heard_at=parse(item["heard_at"]),
        url=item.get("url"),
        first_published=_instant(item, "first_published"),
        dated_by=int(item.get("dated_by", 0)),
        known_since=_instant(item, "known_since"),
        deliveries=tuple(item.get("deliveries", "").split()),
        reborn=item.get("reborn"),
        title=item.get("title", ""),
        publication=item.get("publication"),
        is_undated=item.get("is_undated", False),
        is_old_form="heard" not in item,
        dated_order=_read_order(item)
        if item.get("dated_order") is True
        else _read_dated_order(item.get("dated_order")),
        held_order=_read_dated_order(item.get("held_order")),
        changed_at=_instant(item, "changed_at"),
        shard=_read_place(item.get("shard")),
        news=_read_place(item.get("news")),
        release_at=_instant(item, "release_at"),
        reason=item.get("reason", ""),
        news_reason=item.get("news_reason", ""),
        dropped=tuple(item.get("dropped", ())),
        rev=int(item["rev"]),
    )


def claim_item(claim: "Claim") -> Item:
    pk, sk = claim_key(claim.site, claim.url)
    return _present(
        {
            "pk": pk,
            "sk": sk,
            "url": claim.url,
            "owner": claim.owner,
            "live": claim.live,
            "at": claim.order.timestamp,
            "heard": claim.order.heard,
            "waiting": list(claim.waiting) or None,
        }
    )


def read_claim(item: Mapping[str, Any], url: str, *, is_old_form: bool = False) -> "Claim":
    """Read the item of the claim on a URL. The URL is a parameter because `stoppress forget` erases it from the item."""
    from stoppress.model.article import Claim
    from stoppress.model.order import Order

    site = item["pk"].split("#")[1]
    order = Order(None, None, item.get("at"), item.get("heard") or item["at"])
    waiting = tuple(item.get("waiting", ()))
    rev = None if is_old_form else int(item["rev"])
    return Claim(site, url, item["owner"], item["live"], order, waiting, is_old_form, rev)


def waiting_item(event: "ArticleEvent") -> Item:
    """The event of an article that waits until its URL is free."""
    from stoppress.model.event import to_message

    assert event.url
    pk, sk = waiting_key(event.site, event.url, event.name)
    return {"pk": pk, "sk": sk, "message": to_message(event, in_ascii=False)}


def general_item(site: str, file: str, entry: GeneralEntry) -> Item:
    """The item of a page in a shard."""
    pk, sk = _entry_key(site, file, key_of(entry.loc))
    return _present(
        {
            "pk": pk,
            "sk": sk,
            "loc": entry.loc,
            "lastmod": entry.lastmod and iso(entry.lastmod),
            **_traits_item(entry.traits),
            "images": list(entry.images) or None,
            "videos": [video_json(video) for video in entry.videos] or None,
            "alternates": [[alternate.hreflang, alternate.href] for alternate in entry.alternates] or None,
            "language": entry.language,
            "changefreq": entry.changefreq,
            "priority": entry.priority,
        }
    )


def read_general(item: Mapping[str, Any]) -> GeneralEntry:
    return GeneralEntry(
        item["loc"],
        _instant(item, "lastmod"),
        _read_traits(item),
        tuple(item.get("images", ())),
        tuple(video_of(video) for video in item.get("videos", ())),
        tuple(Alternate(*alternate) for alternate in item.get("alternates", ())),
        item.get("language"),
        item.get("changefreq"),
        item.get("priority"),
    )


def _traits_item(traits: Traits) -> Item:
    return {
        "section": traits.section,
        "keywords": list(traits.keywords) or None,
        "type": traits.type,
        "flags": list(traits.flags) or None,
    }


def _read_traits(item: Mapping[str, Any]) -> Traits:
    return Traits(item.get("section"), tuple(item.get("keywords", ())), item.get("type"), tuple(item.get("flags", ())))


def news_item(site: str, place: Place, entry: NewsEntry) -> Item:
    """The item of an article in a news sitemap."""
    pk, sk = _entry_key(site, place.file, key_of(entry.loc), entry.published)
    return _present(
        {
            "pk": pk,
            "sk": sk,
            "loc": entry.loc,
            "title": entry.title,
            "published": iso(entry.published),
            "lastmod": entry.lastmod and iso(entry.lastmod),
            "publication": entry.publication,
            "language": entry.language,
            **_traits_item(entry.traits),
            "place": _place_item(place),
            "ttl": epoch_seconds(entry.expires_at + EXPIRED_KEPT),
        }
    )


def read_news(item: Mapping[str, Any]) -> NewsEntry:
    return NewsEntry(
        item["loc"],
        item["title"],
        parse(item["published"]),
        _instant(item, "lastmod"),
        item.get("publication"),
        item.get("language"),
        _read_traits(item),
    )


def read_news_place(item: Mapping[str, Any]) -> Place:
    place = _read_place(item["place"])
    assert place
    return place


def mark_item(site: str, mark: Mark) -> Item:
    """The commit mark of a file, in the index's partition."""
    return {
        "pk": file_pk(site, INDEX_FILE),
        "sk": mark.file,
        "changed": exact(mark.changed),
        "urls": mark.urls,
        "size_bytes": mark.size_bytes,
        "digest": mark.digest,
        **({"also": list(mark.also)} if mark.also else {}),
    }


def read_mark(item: Mapping[str, Any]) -> Mark:
    return Mark(
        item["sk"],
        parse(item["changed"]),
        int(item["urls"]),
        int(item["size_bytes"]),
        item["digest"],
        tuple(item.get("also", ())),
        int(item["rev"]) if "rev" in item else None,
    )


def series_item(site: str, series: Series) -> Item:
    """The used places of a series: entries and bytes of each file."""
    files = [[used.entries, used.size_bytes] for used in series.files]
    return {"pk": places_pk(site), "sk": series.name, "files": files}


def read_series(name: str, item: Mapping[str, Any] | None) -> Series:
    """Read a series. Without an item it has no files."""
    if item is None:
        return Series(name)
    return Series(name, tuple(Used(int(entries), int(size)) for entries, size in item["files"]), int(item["rev"]))


def series_files(series: Series) -> list[str]:
    return [file_name(series.name, number) for number in range(1, len(series.files) + 1)]


def due_item(site: str, release: datetime, name: str, message: str, *, queue: str) -> Item:
    """A message for a queue (`articles` or `rewrites`), to be sent at the instant `release`."""
    return {"pk": due_pk(site), "sk": due_sk(release, name), "queue": queue, "message": message}


def quarantine_item(
    site: str, identity: str, reason: str, event: str, now: datetime, *, kind: str = "event", **more: str
) -> Item:
    """An event that could not be applied, and why.

    An item of the kind `event` has a message of the articles queue as its text `event`. For a text of another kind, `more`
    has the attributes needed to read the text again. A long text is cut, and `characters` is its original length.
    """
    long = len(event) > QUARANTINED_CHARACTERS_MAX
    return {
        **more,
        **({} if kind == "event" else {"kind": kind}),
        **({"characters": len(event)} if long else {}),
        "pk": quarantine_pk(site),
        "sk": f"{exact(now)}#{identity}",
        "reason": reason,
        "event": event[:QUARANTINED_CHARACTERS_MAX].encode(errors="replace").decode(),
        "ttl": epoch_seconds(now + QUARANTINE_KEPT),
    }


def is_kept(item: Item, now: datetime) -> bool:
    """Whether an item's time to live has not ended. DynamoDB may take days to delete an expired item.

    An item without a time to live is kept.
    """
    return int(item.get("ttl", 2**40)) > epoch_seconds(now)


def story_item(event: "ArticleEvent", url: str, outcome: str, reason: str, now: datetime) -> Item:
    """A line of a page's story: an event and its outcome. A repeated message writes the same line again."""
    return _present(
        {
            "pk": story_pk(event.site, url),
            "sk": f"{exact(event.heard_at or now)}#{event.name}#{outcome}",
            "url": url,
            "action": event.action,
            "said_at": event.timestamp and exact(event.timestamp),
            "names": event.url if event.url and event.url != url else None,
            "heard_at": exact(event.heard_at or now),
            "outcome": outcome,
            "reason": "; ".join(filter(None, (_origin(event), reason))) or None,
            "ttl": epoch_seconds(now + STORY_KEPT),
        }
    )


_ORIGINS = {
    "audit": "the webhook never came; the audit found it",
    "engines": "the page answered 404 or 410 for an hour",
    "import": "imported",
}


def _origin(event: "ArticleEvent") -> str:
    """Who sent the event, if it was no source; empty otherwise."""
    by = (event.delivery or "").partition(":")[0]
    return _ORIGINS.get(by, "")


def _order_item(order: "Order") -> list[Any]:
    return [order.version, order.sequence, order.timestamp, order.heard]


def _read_order(item: Mapping[str, Any]) -> "Order":
    """An article's order. Versions before 0.1.0 stored `updated_at` as the version, and no `heard`."""
    from stoppress.model.order import Order

    version, timestamp, removal = item.get("version"), item.get("timestamp"), item.get("removal", "")
    if "heard" not in item and isinstance(version, str):
        version = None
    return Order(
        version if version is None or isinstance(version, str) else int(version),
        int(item["sequence"]) if "sequence" in item else None,
        timestamp,
        item.get("heard") or str(timestamp),
        "unpublished" if removal is True else removal,
    )


def _read_dated_order(item: list[Any] | None) -> "Order | None":
    if item is None:
        return None
    names = ("version", "sequence", "timestamp", "heard")
    return _read_order({name: value for name, value in zip(names, item, strict=False) if value is not None})


def _place_item(place: Place) -> list[Any]:
    return [place.series, place.number, place.size_bytes]


def _read_place(item: list[Any] | None) -> Place | None:
    return Place(item[0], int(item[1]), int(item[2])) if item else None


def _instant(item: Mapping[str, Any], name: str) -> datetime | None:
    return parse(item[name]) if name in item else None


def _present(item: Item) -> Item:
    return {name: value for name, value in item.items() if value is not None}
