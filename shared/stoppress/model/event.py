"""An article event (a source's report about an article), its message on the articles queue, and listings of events."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError

from stoppress.model.entries import Alternate, Traits, Video
from stoppress.model.order import BY_ID, UNDATED, Order, Removal, hash_parts
from stoppress.model.site import FEED_SOURCE, SITEMAP_SOURCE
from stoppress.model.validation import ChangeFreq, explain
from stoppress.primitives.instants import exact

# If two sources have the same page, the one of higher rank owns it. A CMS has more data than the feed that it fills. A feed
# has more than a sitemap: most sitemaps have no titles and no publication dates.
SITEMAP_RANK, FEED_RANK, CMS_RANK = 0, 1, 2

# A newsroom's clock may be ahead by up to this time. A date further in the future is an embargo.
CLOCK_SKEW_MAX = timedelta(minutes=5)
# Further `previous_urls` are ignored, because each costs a read and possibly writes, and a transaction has at most 100 items.
PREVIOUS_URLS_MAX = 8

# The id is part of the table's keys. DynamoDB allows 2,048 bytes in a partition key and 1,024 in a sort key.
ID_BYTES_MAX = 512

# Fields about the delivery, not about the article.
_CIRCUMSTANCES = {"timestamp", "version", "sequence", "release", "received_at", "delivery", "verb"}

# What happened to the article: the second word of an event type such as `article.published`.
Verb: TypeAlias = Literal["published", "updated", "unpublished", "deleted"]
_REMOVALS: dict[Verb | None, Removal] = {"unpublished": "unpublished", "deleted": "deleted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleEvent:
    """A source's report about an article. URLs are canonical, texts are clean, instants are in UTC.

    `timestamp` is the sender's, as given; `received_at` is when this stack received the event. `delivery` is the sender's id of the
    delivery, the same in each attempt. `verb` is None for a feed. A removal by URL alone has an empty `id`.
    """

    __pydantic_config__ = ConfigDict(defer_build=True)

    site: str
    source: str
    id: str
    # again: the pages `previous_urls` are recorded again, because their language versions changed.
    action: Literal["publish", "remove", "again"]
    timestamp: datetime | None = None
    received_at: datetime | None = None
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
    # A page that is not an article has no news entry and is listed in the files for pages.
    page: bool = False
    type: str | None = None
    flags: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    videos: tuple[Video, ...] = ()
    alternates: tuple[Alternate, ...] = ()
    changefreq: ChangeFreq | None = None
    priority: str | None = None
    # The values that were left out of the article, each with its reason.
    dropped: tuple[str, ...] = ()
    # The instant until which the event was held, set when the event is recorded again. The key of its due record has it too.
    release: datetime | None = None

    @property
    def name(self) -> str:
        return article_name(self.source, self.id)

    @property
    def traits(self) -> Traits:
        """Return the properties that the site's rules can match."""
        return Traits(self.section, self.keywords, self.type, self.flags)

    @property
    def named(self) -> dict[str, str]:
        """Return `id` and `url`, if the event has them, to search the log for."""
        return {name: text for name, text in (("id", self.id), ("url", self.url)) if text}


class Incomplete(NamedTuple):
    """A CMS's item without a field that an article needs. It goes to quarantine.

    `item` is the shortened text that the CMS sent; `missing` are names of fields.
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
        """Return the message for the articles queue: JSON in ASCII."""
        names = {"site": self.site, "source": self.source, "incomplete": list(self.missing), "adapter": self.adapter}
        return json.dumps(names | {"reason": self.reason, "id": self.id, "url": self.url, "item": self.item})


def article_name(source: str, id_: str) -> str:
    """Return an article's name within its site. With an empty id it owns the URLs that the source removed by URL alone."""
    return f"{source}#{id_}"


def split_name(name: str) -> tuple[str, str]:
    """Return source and id of an article's name. An id may contain a `#`, a source may not."""
    source, _, id_ = name.partition("#")
    return source, id_


def order_of(event: ArticleEvent) -> Order:
    """Return the event's place among the events of its article. `received_at` must not be None."""
    version = event.version
    assert event.received_at
    return Order(
        version=exact(version) if isinstance(version, datetime) else version,
        sequence=event.sequence,
        timestamp=exact(event.timestamp) if event.timestamp else None,
        received=exact(event.received_at),
        removal=_REMOVALS.get(event.verb, "unpublished") if event.action == "remove" else "",
    )


def names_of(event: ArticleEvent, digest: str) -> tuple[str, ...]:
    """Return up to two hashes that identify a repeat of the event's delivery. Empty for a feed, which has no deliveries.

    Both are of type, version and content (`digest`); one has the timestamp, one the delivery's id. Without a timestamp only a
    publication has the first hash: an update or a removal may have the same content twice.
    """
    if event.verb is None:
        return ()
    names, content = [], f"{event.version} {digest}"
    if event.timestamp is not None:
        names.append(hash_parts(event.verb, exact(event.timestamp), content))
    elif event.verb == "published":
        names.append(UNDATED + hash_parts(event.verb, content))
    if event.delivery:
        names.append(BY_ID + hash_parts(event.delivery, event.verb, content))
    return tuple(names)


def digest_of(event: ArticleEvent) -> str:
    """Return a hash of the event's content.

    A change date equal to the timestamp is not content: each attempt of one delivery may have its own timestamp.
    """
    content = {name: value for name, value in _plain(event).items() if name not in _CIRCUMSTANCES}
    if event.updated_at == event.timestamp:
        content.pop("updated_at", None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def title_hash_of(event: ArticleEvent) -> str:
    """Return a hash of the event's title, by which two articles of a URL are compared; empty without a title."""
    return hashlib.sha256(event.title.encode()).hexdigest()[:8] if event.title else ""


def rank_of(source: str) -> int:
    """Return the rank of a source: if two sources have the same page, the one of higher rank owns it."""
    return {SITEMAP_SOURCE: SITEMAP_RANK, FEED_SOURCE: FEED_RANK}.get(source, CMS_RANK)


def to_message(event: ArticleEvent, *, in_ascii: bool = True) -> str:
    """Return the event as JSON without fields at their defaults.

    SQS rejects some characters, so messages are in ASCII. Items of the table are not, because é takes two bytes instead of six there.
    """
    return json.dumps(_plain(event), separators=(",", ":"), ensure_ascii=in_ascii)


def from_message(text: str) -> ArticleEvent:
    """Read a message of the articles queue. Raises ValueError unless `to_message` wrote it."""
    try:
        return _MESSAGES.validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(f"the message is no article event: {explain(error)}") from None


def _plain(event: ArticleEvent) -> dict[str, Any]:
    """Return the event's fields as JSON values, without those at their defaults."""
    values = {name: value for name, default in _DEFAULTS if (value := getattr(event, name)) != default}
    if event.alternates:
        values["alternates"] = tuple(asdict(alternate) for alternate in event.alternates)
    return {name: exact(value) if isinstance(value, datetime) else value for name, value in values.items()}


_MESSAGES = TypeAdapter(ArticleEvent)
_DEFAULTS = tuple((field.name, field.default) for field in fields(ArticleEvent))


class Problem(NamedTuple):
    """An item or a page of a listing that cannot be used. `place` is where it is: `page 3, item 17` or `line 204`.

    `article` is the article's name if the item has an id. Such an article counts as listed.
    """

    place: str
    reason: str
    article: str = ""


class Listed(NamedTuple):
    """An item of a listing as an event. The event's `received_at` is when the listing was requested."""

    place: str
    event: ArticleEvent


class Page(NamedTuple):
    """A part of a listing.

    `problems` are items and pages that cannot be used, `ignored` are items that are no articles. `notes` are about items that
    are used. `cursor` is where a later run continues; None: this page is the last. `total` is the number of items in the whole
    listing, if known.
    """

    items: tuple[Listed, ...] = ()
    problems: tuple[Problem, ...] = ()
    ignored: tuple[Problem, ...] = ()
    cursor: str | None = None
    total: int | None = None
    notes: tuple[Problem, ...] = ()


class ListingError(RuntimeError):
    """A listing that cannot be read further. The text contains where and why."""


class StaleCheckpoint(ListingError):
    """A listing that cannot continue from its checkpoint, and must be read from the start."""
