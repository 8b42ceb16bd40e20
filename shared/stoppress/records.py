"""How things are kept in the table: the keys and attributes of each kind of item, written and read back.

Keys are those of one table (see the README): `article#<site>#<source>#<id>`, `url#<site>#<hash>`, `file#<site>/<file>`,
`places#<site>`, `due#<site>`, `quarantine#<site>`, `feed#<site>#<hash>`. What is absent is left out of the item.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from stoppress.article import Order
from stoppress.files import INDEX_FILE, GeneralEntry, Mark, NewsEntry, file_name
from stoppress.instants import epoch_seconds, exact, iso, parse
from stoppress.places import Place, Series, Used
from stoppress.state import Article, Claim, EntryKey
from stoppress.urls import key_of

Item: TypeAlias = dict[str, Any]

# Quarantined events are kept for a month, as long as somebody may still ask for them.
QUARANTINE_KEPT = timedelta(days=30)
# The net under roll_window: an expired entry that nothing took out goes by itself.
EXPIRED_KEPT = timedelta(days=1)
# The longest text that quarantine keeps of what came: an item takes 400 KB at the most, and a reader a screen.
QUARANTINED_CHARACTERS_MAX = 50_000


def article_key(site: str, name: str) -> tuple[str, str]:
    """Key of an article; its name is `<source>#<id>`."""
    return f"article#{site}#{name}", "-"


def claim_key(site: str, url: str) -> tuple[str, str]:
    """Key of the claim on a URL."""
    return f"url#{site}#{key_of(url)}", "-"


def file_pk(site: str, file: str) -> str:
    """Partition of a file's entries; that of the index holds the marks of all files."""
    return f"file#{site}/{file}"


def file_of(pk: str) -> tuple[str, str]:
    """Site and file of a partition `file#<site>/<file>`. Raises ValueError for another one."""
    kind, _, rest = pk.partition("#")
    site, _, file = rest.partition("/")
    if kind != "file" or not site or not file:
        raise ValueError(f"{pk!r} is no file's partition")
    return site, file


def entry_key(site: str, entry: EntryKey) -> tuple[str, str]:
    """Key of an entry in its file's partition."""
    sk = key_of(entry.url)
    return file_pk(site, entry.file), f"{iso(entry.published)}#{sk}" if entry.published else sk


def due_sk(release: datetime, name: str) -> str:
    """Sort key of what is due at an instant: sorted by it."""
    return f"{exact(release)}#{name}"


def article_item(article: Article) -> Item:
    """The item of an article."""
    pk, sk = article_key(article.site, article.name)
    return _present(
        {
            "pk": pk,
            "sk": sk,
            "state": article.state,
            "version": article.order.version,
            "sequence": article.order.sequence or None,
            "timestamp": article.order.timestamp,
            "removal": article.order.removal or None,
            "digest": article.digest,
            "heard_at": exact(article.heard_at),
            "url": article.url,
            "first_published": article.first_published and exact(article.first_published),
            "dated_by": article.dated_by or None,
            "dated_order": article.dated_order and _order_item(article.dated_order),
            "changed_at": article.changed_at and exact(article.changed_at),
            "shard": article.shard and _place_item(article.shard),
            "news": article.news and _place_item(article.news),
            "release_at": article.release_at and exact(article.release_at),
            "reason": article.reason or None,
            "news_reason": article.news_reason or None,
        }
    )


def read_article(item: Mapping[str, Any]) -> Article:
    """Read an article's item."""
    site, _, name = item["pk"].removeprefix("article#").partition("#")
    return Article(
        site=site,
        name=name,
        state=item["state"],
        order=Order(
            _plain(item["version"]), int(item.get("sequence", 0)), item["timestamp"], item.get("removal", False)
        ),
        digest=item["digest"],
        heard_at=parse(item["heard_at"]),
        url=item.get("url"),
        first_published=_instant(item, "first_published"),
        dated_by=int(item.get("dated_by", 0)),
        dated_order=_read_order(item.get("dated_order")),
        changed_at=_instant(item, "changed_at"),
        shard=_read_place(item.get("shard")),
        news=_read_place(item.get("news")),
        release_at=_instant(item, "release_at"),
        reason=item.get("reason", ""),
        news_reason=item.get("news_reason", ""),
        rev=int(item["rev"]),
    )


def claim_item(claim: Claim) -> Item:
    """The item of a claim."""
    pk, sk = claim_key(claim.site, claim.url)
    return {"pk": pk, "sk": sk, "url": claim.url, "owner": claim.owner, "live": claim.live, "at": claim.at}


def read_claim(item: Mapping[str, Any]) -> Claim:
    """Read a claim's item."""
    site = item["pk"].split("#")[1]
    return Claim(site, item["url"], item["owner"], item["live"], item["at"], int(item["rev"]))


def general_item(site: str, file: str, entry: GeneralEntry) -> Item:
    """The item of a page in a shard."""
    pk, sk = entry_key(site, EntryKey(file, entry.loc))
    return _present({"pk": pk, "sk": sk, "loc": entry.loc, "lastmod": entry.lastmod and iso(entry.lastmod)})


def read_general(item: Mapping[str, Any]) -> GeneralEntry:
    """Read a page's item."""
    return GeneralEntry(item["loc"], _instant(item, "lastmod"))


def news_item(site: str, place: Place, entry: NewsEntry) -> Item:
    """The item of an article in a news sitemap."""
    pk, sk = entry_key(site, EntryKey(place.file, entry.loc, entry.published))
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
            "place": _place_item(place),
            "ttl": epoch_seconds(entry.expires_at + EXPIRED_KEPT),
        }
    )


def read_news(item: Mapping[str, Any]) -> NewsEntry:
    """Read a news entry's item."""
    return NewsEntry(
        item["loc"],
        item["title"],
        parse(item["published"]),
        _instant(item, "lastmod"),
        item.get("publication"),
        item.get("language"),
    )


def read_news_place(item: Mapping[str, Any]) -> Place:
    """The place that a news entry's item takes."""
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
    }


def read_mark(item: Mapping[str, Any]) -> Mark:
    """Read a file's commit mark."""
    return Mark(item["sk"], parse(item["changed"]), int(item["urls"]), int(item["size_bytes"]), item["digest"])


def series_item(site: str, series: Series) -> Item:
    """What has been handed out of a series: two numbers a file."""
    files = [[used.entries, used.size_bytes] for used in series.files]
    return {"pk": f"places#{site}", "sk": series.name, "files": files}


def read_series(name: str, item: Mapping[str, Any] | None) -> Series:
    """Read a series; one that is not there has handed out nothing."""
    if item is None:
        return Series(name)
    return Series(name, tuple(Used(int(entries), int(size)) for entries, size in item["files"]), int(item["rev"]))


def series_files(series: Series) -> list[str]:
    """Names of all files of a series."""
    return [file_name(series.name, number) for number in range(1, len(series.files) + 1)]


def due_item(site: str, release: datetime, name: str, message: str, *, queue: str) -> Item:
    """What is to be sent to a queue (`articles` or `rewrites`) when its hour comes."""
    return {"pk": f"due#{site}", "sk": due_sk(release, name), "queue": queue, "message": message}


def quarantine_item(site: str, identity: str, reason: str, event: str, now: datetime) -> Item:
    """What could not be applied, and why."""
    return {
        "pk": f"quarantine#{site}",
        "sk": f"{exact(now)}#{identity}",
        "reason": reason,
        "event": event[:QUARANTINED_CHARACTERS_MAX].encode(errors="replace").decode(),
        "ttl": epoch_seconds(now + QUARANTINE_KEPT),
    }


def _order_item(order: Order) -> list[Any]:
    return [order.version, order.sequence, order.timestamp]


def _read_order(item: list[Any] | None) -> Order | None:
    return Order(_plain(item[0]), int(item[1]), item[2], removal=False) if item else None


def _place_item(place: Place) -> list[Any]:
    return [place.series, place.number, place.size_bytes]


def _read_place(item: list[Any] | None) -> Place | None:
    return Place(item[0], int(item[1]), int(item[2])) if item else None


def _instant(item: Mapping[str, Any], name: str) -> datetime | None:
    return parse(item[name]) if name in item else None


def _plain(version: Any) -> int | str:
    return version if isinstance(version, str) else int(version)


def _present(item: Item) -> Item:
    return {name: value for name, value in item.items() if value is not None}
