"""What is said of an article (an event), and what was decided of it (the article, the claim on its URL)."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from stoppress.model.alternates import Alternate
from stoppress.model.media import Video, video_json
from stoppress.model.order import Order, Removal, known_by
from stoppress.model.rules import Traits
from stoppress.model.site import FEED_SOURCE, SITEMAP_SOURCE, ChangeFreq, explain
from stoppress.primitives.instants import exact

# Who is believed when two sources speak of one page: a CMS knows better than the feed that it fills, and any feed better than
# a sitemap, most of which have no titles and no dates of publication.
SITEMAP_RANK, FEED_RANK, CMS_RANK = 0, 1, 2

# A newsroom's clock may be ahead of ours by this much; what lies further in the future is held back.
CLOCK_SKEW_MAX = timedelta(minutes=5)
# Hints beyond this many are not looked at: each costs a read and, where it helps, writes.
PREVIOUS_URLS_MAX = 10

# Keys of the table hold the id, and DynamoDB takes at most 2,048 bytes in one.
ID_BYTES_MAX = 512

# What an event says that is not the article itself: where and when it was heard, and in which order it stands.
_CIRCUMSTANCES = {"timestamp", "version", "sequence", "release", "heard_at", "delivery", "verb"}
_INSTANTS = ("timestamp", "version", "published_at", "updated_at", "release", "heard_at")

# What a sender says has happened to an article (the second part of our own types, `article.published`).
Verb: TypeAlias = Literal["published", "updated", "unpublished", "deleted"]
_REMOVALS: dict[Verb | None, Removal] = {"unpublished": "unpublished", "deleted": "deleted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleEvent:
    """What a source says of an article. URLs are canonical, texts are clean, instants are in UTC.

    `timestamp` is the sender's own, as given; `heard_at` is when a door of this stack first took the event. `delivery` is the
    sender's id for it, constant over attempts. `verb` is None for a feed. A removal by URL alone has an empty `id`.
    """

    site: str
    source: str
    id: str
    action: Literal["publish", "remove"]
    timestamp: datetime | None = None
    heard_at: datetime | None = None
    verb: Verb | None = None
    delivery: str | None = None
    version: int | datetime | None = None
    sequence: int | None = None
    url: str | None = None
    title: str = ""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    language: str | None = None
    publication: str | None = None
    section: str | None = None
    keywords: tuple[str, ...] = ()
    access: str = "public"
    noindex: bool = False
    news: bool = True
    canonical_url: str | None = None
    previous_urls: tuple[str, ...] = ()
    # A page that is no article: it has no news entry, and a file of its own kind.
    page: bool = False
    type: str | None = None
    flags: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    videos: tuple[Video, ...] = ()
    alternates: tuple[Alternate, ...] = ()
    changefreq: ChangeFreq | None = None
    priority: str | None = None
    # What of the article was left out when it was read, each with its reason.
    dropped: tuple[str, ...] = ()
    # Set on an event that was held and whose hour has come: the hour, which names its due record.
    release: datetime | None = None

    @property
    def name(self) -> str:
        """The article's name within its site."""
        return article_name(self.source, self.id)

    @property
    def traits(self) -> Traits:
        """What rules can ask of it."""
        return Traits(self.section, self.keywords, self.type, self.flags)


@dataclass(frozen=True, slots=True)
class Incomplete:
    """What a CMS sent that is no article as it is: quarantine keeps it, with what was missing and why.

    `item` is what was sent, as far as it is kept; `missing` are the names of fields.
    """

    site: str
    source: str
    adapter: str
    missing: tuple[str, ...]
    reason: str
    item: str = ""
    id: str | None = None
    url: str | None = None

    def message(self) -> str:
        """As it travels on the articles queue, in ASCII."""
        said = {"site": self.site, "source": self.source, "incomplete": list(self.missing), "adapter": self.adapter}
        return json.dumps(said | {"reason": self.reason, "id": self.id, "url": self.url, "item": self.item})


def article_name(source: str, id_: str) -> str:
    """An article's name within its site. A URL that a source removed belongs to the source's name with an empty id."""
    return f"{source}#{id_}"


def split_name(name: str) -> tuple[str, str]:
    """Source and id of an article's name. An id may hold a `#`, a source may not."""
    source, _, id_ = name.partition("#")
    return source, id_


def order_of(event: ArticleEvent) -> Order:
    """The event's place among the events of its article. `heard_at` must be known."""
    version = event.version
    assert event.heard_at
    return Order(
        version=exact(version) if isinstance(version, datetime) else version,
        sequence=event.sequence,
        timestamp=exact(event.timestamp) if event.timestamp else None,
        heard=exact(event.heard_at),
        removal=_REMOVALS.get(event.verb, "unpublished") if event.action == "remove" else "",
    )


def names_of(event: ArticleEvent) -> tuple[str, ...]:
    """What a repeat of the event's delivery is known by. A feed is a state: nothing it says is a repeat."""
    if event.verb is None:
        return ()
    return known_by(
        verb=event.verb,
        timestamp=event.timestamp,
        version=event.version,
        delivery=event.delivery,
        digest=digest_of(event),
    )


def digest_of(event: ArticleEvent) -> str:
    """What the event says of the article, in short: equal where the content is equal.

    A change date that is the event's timestamp is no content: attempts of one delivery may each have a timestamp of their own.
    """
    content = {name: value for name, value in _plain(event).items() if name not in _CIRCUMSTANCES}
    if event.updated_at == event.timestamp:
        content.pop("updated_at", None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def rank_of(source: str) -> int:
    """How far a source is believed."""
    return {SITEMAP_SOURCE: SITEMAP_RANK, FEED_SOURCE: FEED_RANK}.get(source, CMS_RANK)


def to_message(event: ArticleEvent, *, in_ascii: bool = True) -> str:
    """The event as it travels on the articles queue: JSON in ASCII (SQS refuses some characters), absent things left out.

    Not in ASCII it is as it waits in the table, whose items are small: there a letter takes two bytes, not six.
    """
    return json.dumps(_plain(event), separators=(",", ":"), ensure_ascii=in_ascii)


def from_message(text: str) -> ArticleEvent:
    """Read a message of the articles queue. Raises ValueError for what `to_message` did not write."""
    try:
        event = _messages().validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(f"the message is no article event: {explain(error)}") from None
    instants = [value for name in _INSTANTS if isinstance(value := getattr(event, name), datetime)]
    faults = {
        "url: is missing": not event.url and (event.action == "publish" or not event.id),
        f"id: takes one to {ID_BYTES_MAX} bytes": not _id_bytes_min(event) <= len(event.id.encode()) <= ID_BYTES_MAX,
        f"{', '.join(_INSTANTS)}: an instant needs a zone": any(instant.tzinfo is None for instant in instants),
    }
    for fault, found in faults.items():
        if found:
            raise ValueError(f"the message is no article event: {fault}")
    return event


def _id_bytes_min(event: ArticleEvent) -> int:
    return 0 if event.action == "remove" else 1


@cache
def _messages() -> TypeAdapter[ArticleEvent]:
    return TypeAdapter(ArticleEvent)


def _plain(event: ArticleEvent) -> dict[str, Any]:
    """The event's fields as JSON has them, without those at their defaults."""
    said = {name: value for name, default in _DEFAULTS if (value := getattr(event, name)) != default}
    if event.videos:
        said["videos"] = tuple(video_json(video) for video in event.videos)
    if event.alternates:
        said["alternates"] = tuple(asdict(alternate) for alternate in event.alternates)
    return {name: exact(value) if isinstance(value, datetime) else value for name, value in said.items()}


_DEFAULTS = tuple((field.name, field.default) for field in fields(ArticleEvent))
