"""The state in the table: articles, and claims on URLs. A `Decision` has the changes by one event."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from stoppress.model.entries import Alternate, GeneralEntry, NewsEntry
from stoppress.model.event import ArticleEvent, rank_of, split_name
from stoppress.model.file_names import Place, Want
from stoppress.model.news_window import is_current
from stoppress.model.order import Order
from stoppress.primitives.urls import identity

# hidden: the site's rules keep the article out of every file. Its entries stay in the table for a later change of the rules.
# held: an embargo keeps the article back. displaced: another article has the URL.
State: TypeAlias = Literal["listed", "hidden", "held", "excluded", "displaced", "removed"]
Outcome: TypeAlias = Literal["listed", "held", "excluded", "displaced", "removed", "duplicate", "late"]

# The reason of an article that `stoppress forget` erased. Its empty item stays, so that no late event lists the article again.
FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """The values of an article that later decisions need, never its text.

    `order` and `digest` are those of the newest event. `deliveries` are hashes that identify repeats of recent deliveries.
    `shard` is the article's place for life, listed or not. `news` is its place while it is in a news sitemap.
    `changed_at` is the last change that the source reported.
    `dated_by` is the rank of the source that set `first_published`, 0 if its late event was excluded; `dated_order` that event's order.
    `held_order` is the order of the newest removal or event with a date, if that is not `dated_order`: the date holds the article,
    or was ignored.
    `received_at` is when an event of the article first arrived, `known_since` the earliest timestamp if that is earlier.
    `reborn` is when an earlier article with the same id was deleted, as text like the instants of `Order`.
    `title` and `publication` are kept only while a late date could still make the article news. `title_hash` is kept for life.
    `reason` is why the article is in no file, `news_reason` why it is in no news sitemap, `dropped` what its entries omit.
    `is_undated`: the newest event had no publication date. `is_unlisted`: no event so far has put the article into a file,
    or would have in order.
    """

    site: str
    name: str
    state: State
    order: Order
    digest: str
    received_at: datetime
    known_since: datetime | None = None
    deliveries: tuple[str, ...] = ()
    reborn: str | None = None
    url: str | None = None
    first_published: datetime | None = None
    dated_by: int = 0
    dated_order: Order | None = None
    held_order: Order | None = None
    changed_at: datetime | None = None
    shard: Place | None = None
    news: Place | None = None
    release_at: datetime | None = None
    reason: str = ""
    news_reason: str = ""
    dropped: tuple[str, ...] = ()
    title: str = ""
    title_hash: str = ""
    publication: str | None = None
    is_undated: bool = False
    is_unlisted: bool = False
    rev: int | None = None

    @property
    def source(self) -> str:
        return split_name(self.name)[0]

    @property
    def id(self) -> str:
        return split_name(self.name)[1]

    @property
    def rank(self) -> int:
        return rank_of(self.source)

    @property
    def has_entries(self) -> bool:
        """Return True if the article has an entry in a shard."""
        return self.state in ("listed", "hidden")

    @property
    def lastmod(self) -> datetime | None:
        """Return when the page last changed, never before its publication; None if unknown."""
        return max((instant for instant in (self.changed_at, self.first_published) if instant), default=None)

    def is_in_news(self, now: datetime) -> bool:
        """Return True if the article has a news entry. After 48 hours `roll_window` removes the entry."""
        return bool(self.news and self.first_published and is_current(self.first_published, now))

    def list_entries(self, now: datetime, *, keeps: bool = False) -> "list[EntryKey]":
        """Return the article's entries in files. With `keeps` the place of its news entry is not freed."""
        if not self.has_entries or not self.url or not self.shard:
            return []
        url = identity(self.url)
        entries = [EntryKey(self.shard.file, url)]
        if self.news and self.is_in_news(now):
            entries.append(EntryKey(self.news.file, url, self.first_published, None if keeps else self.news))
        return entries

    def list_stored_entries(self) -> "list[EntryKey]":
        """Return the article's entries, whether or not its news entry has expired."""
        in_news = self.first_published if self.news and self.first_published else None
        return self.list_entries(in_news) if in_news else replace(self, news=None).list_entries(self.received_at)


@dataclass(frozen=True, slots=True)
class Claim:
    """Which article owns a URL, and the order of the event that decided this. `live` is false once the page was removed or moved.

    `waiting` lists articles of equal rank with the same URL. They are recorded again when the owner leaves the URL.
    `removed` has each source's newest removal by URL alone. An owner without an id, such as `cms#`, is a source that
    removed the page this way. `code` is the hreflang of the live page, empty if it can list no alternates. `lists` has its own
    alternates by code, of which those of the codes `gone` were removed, and `links` the codes of the pages that list it. Without an
    `owner` the item has `links` alone; `seen` if an event has contained the URL.
    """

    site: str
    url: str
    owner: str = ""
    live: bool = False
    order: Order = field(default=Order(None, None, None, ""))
    waiting: tuple[str, ...] = ()
    removed: Mapping[str, Order] = field(default_factory=dict)
    code: str = ""
    lists: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    seen: bool = False
    rev: int | None = None

    @property
    def source(self) -> str:
        return split_name(self.owner)[0]

    @property
    def rank(self) -> int:
        return rank_of(self.source)


@dataclass(frozen=True, slots=True)
class Known:
    """The stored state of an event's article, of the event's URLs and of the articles that own them.

    The keys of `claims` are identities of URLs. The keys of `owners`, `again` and `waiting` are names of articles.
    `again` has the newest event of the article if this event is late, and those of owners that may lose their URL or be dated. It is
    from the due record of a held article, or rebuilt from the entries of a listed one.
    `waiting` has the events of articles that wait for a URL.
    `versions` has the claims on the pages that are language versions of the event's pages, empty ones of pages that were never seen.
    `shown` are the alternates of the page that is recorded again, as its entry has them.
    """

    article: Article | None = None
    claims: Mapping[str, Claim] = field(default_factory=dict)
    owners: Mapping[str, Article] = field(default_factory=dict)
    again: Mapping[str, ArticleEvent] = field(default_factory=dict)
    waiting: Mapping[str, ArticleEvent] = field(default_factory=dict)
    versions: Mapping[str, Claim] = field(default_factory=dict)
    shown: tuple[Alternate, ...] = ()


class EntryKey(NamedTuple):
    """An entry to delete: file and page, and for a news entry its publication date and the place to free.

    `url` is the identity of the page.
    """

    file: str
    url: str
    published: datetime | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The changes by one event. Without `article` and `claims` nothing is written.

    `displaced` are the articles that lose their page. `out` are entries to delete.
    `general` and `news` are entries to write. They go into the places of `article`, or into new ones for `want_shard` and
    `want_news`.
    `waits` are events to store until a URL becomes free. `no_longer_waits` is URL and name of an article that no longer waits.
    `returns` are events to record again, immediately or at their release.
    `held` is the instant of the due record to write for the event. `released` are due records to delete.
    """

    outcome: Outcome
    reason: str = ""
    article: Article | None = None
    claims: tuple[Claim, ...] = ()
    displaced: tuple[Article, ...] = ()
    general: GeneralEntry | None = None
    news: NewsEntry | None = None
    want_shard: Want | None = None
    want_news: Want | None = None
    out: tuple[EntryKey, ...] = ()
    waits: tuple[ArticleEvent, ...] = ()
    no_longer_waits: tuple[str, str] | None = None
    returns: tuple[ArticleEvent, ...] = ()
    released: tuple[tuple[datetime, str], ...] = ()
    held: datetime | None = None

    def with_places(self, shard: Place | None, news: Place | None) -> "Decision":
        """Return the decision with the reserved places in its article."""
        assert self.article
        article = replace(self.article, shard=shard or self.article.shard, news=news or self.article.news)
        outgrown = self.want_shard.held if self.want_shard else None
        out = self.out
        if outgrown and shard and shard.file != outgrown.file and self.general:
            out = (*out, EntryKey(outgrown.file, identity(self.general.loc)))
        return replace(self, article=article, out=out, want_shard=None, want_news=None)
