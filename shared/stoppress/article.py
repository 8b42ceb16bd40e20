"""What is said of an article (an event), and what was decided of it (the article, the claim on its URL)."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from stoppress.alternates import Alternate
from stoppress.instants import exact
from stoppress.media.reading import Video, video_json
from stoppress.rules import Traits
from stoppress.site import FEED_SOURCE, SITEMAP_SOURCE, ChangeFreq, explain

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
_CIRCUMSTANCES = {"timestamp", "version", "sequence", "release"}
_INSTANTS = ("timestamp", "version", "published_at", "updated_at", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleEvent:
    """What a source says of an article. URLs are canonical, texts are clean, instants are in UTC."""

    site: str
    source: str
    id: str
    action: Literal["publish", "remove"]
    timestamp: datetime
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
        """Source and id, which name the article within its site."""
        return f"{self.source}#{self.id}"

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


@dataclass(frozen=True, slots=True)
class Order:
    """Where an event stands among all events of its article.

    `version` is the source's own (an integer), or an instant as sortable text; `timestamp` likewise.
    """

    version: int | str
    sequence: int
    timestamp: str
    removal: bool

    @property
    def key(self) -> tuple[Any, int, str, bool]:
        """What orders events whose versions are of one kind."""
        return (self.version, self.sequence, self.timestamp, self.removal)

    def is_before(self, other: "Order") -> bool:
        """Whether the other is newer. At the same version, sequence and instant a removal is the newer (R11.4).

        An integer cannot be compared with an instant (a removal often comes without a version): then the events'
        own instants decide.
        """
        if type(self.version) is not type(other.version):
            return (self.timestamp, self.removal) < (other.timestamp, other.removal)
        return self.key < other.key


def order_of(event: ArticleEvent) -> Order:
    """The event's place: its version, else when the article was updated, else when that was said."""
    version = event.version if event.version is not None else event.updated_at or event.timestamp
    return Order(
        version=version if isinstance(version, int) else exact(version),
        sequence=event.sequence or 0,
        timestamp=exact(event.timestamp),
        removal=event.action == "remove",
    )


def digest_of(event: ArticleEvent) -> str:
    """What the event says of the article, in short: equal where the content is equal."""
    content = {name: value for name, value in _plain(event).items() if name not in _CIRCUMSTANCES}
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
        "url: is missing": event.action == "publish" and not event.url,
        f"id: takes one to {ID_BYTES_MAX} bytes": not 0 < len(event.id.encode()) <= ID_BYTES_MAX,
        f"{', '.join(_INSTANTS)}: an instant needs a zone": any(instant.tzinfo is None for instant in instants),
    }
    for fault, found in faults.items():
        if found:
            raise ValueError(f"the message is no article event: {fault}")
    return event


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
