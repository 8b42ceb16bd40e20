"""What is known and what was decided: an article, the claim on its URL, and the change that an event makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias

from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.event import ArticleEvent, rank_of, split_name
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.order import Order
from stoppress.model.places import Place, Want
from stoppress.primitives.urls import identity

# hidden: a rule of the site keeps it out of the files; its entries are there, so that a changed rule can let it in.
State: TypeAlias = Literal["listed", "hidden", "held", "excluded", "displaced", "removed"]
Outcome: TypeAlias = Literal["listed", "held", "excluded", "displaced", "removed", "duplicate", "late"]

# The reason of a tombstone that was emptied on request (`stoppress forget`): nothing that is older says anything of it again.
FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """What was decided of an article: never its text, only what the next decision needs.

    `shard` is its place for life, whether or not it is listed now; `news` is its place while it is in the news sitemap.
    `changed_at` is the change that its source reported last; `dated_order` the place of the event that dated it,
    `held_order` that of the event that holds it; of an article that is not held, that of a newer event whose date was not taken.
    `heard_at` is when it was first heard of, `known_since` the same by its sender's clock where that is earlier.
    `deliveries` are what repeats of its last deliveries are known by. `reborn` is when its id was deleted, to be used again.
    `title` and `publication` are kept only while a date that comes late could still make it news.
    `reason` says why it is in no file, `news_reason` why it is not in the news sitemap, `dropped` what of it is in none.
    `is_undated`: its newest event said no date of publication.
    `is_old_form`: an earlier version of the stack wrote it, under keys of the URL as it was spelled.
    """

    site: str
    name: str
    state: State
    order: Order
    digest: str
    heard_at: datetime
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
    publication: str | None = None
    is_undated: bool = False
    is_old_form: bool = False
    rev: int | None = None

    @property
    def source(self) -> str:
        """The source that publishes the article."""
        return split_name(self.name)[0]

    @property
    def id(self) -> str:
        """The article's id at its source."""
        return split_name(self.name)[1]

    @property
    def rank(self) -> int:
        """The rank of the article's source."""
        return rank_of(self.source)

    @property
    def has_entries(self) -> bool:
        """Whether it has an entry in a shard."""
        return self.state in ("listed", "hidden")

    @property
    def lastmod(self) -> datetime | None:
        """When the page last changed, never before its publication; None where nobody said."""
        return max((instant for instant in (self.changed_at, self.first_published) if instant), default=None)

    def is_in_news(self, now: datetime) -> bool:
        """Whether its news entry is there: after 48 hours it is `roll_window` that takes it out."""
        return bool(self.news and self.first_published and self.first_published + NEWS_WINDOW > now)


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose a URL is, and the place of the event that said so. A claim that is not live: the page was removed or has moved away.

    `waiting` are articles of equal rank that say this URL too, and come back when its owner leaves. An owner without an id
    (`cms#`) removed the URL itself. `is_old_form` as for articles.
    """

    site: str
    url: str
    owner: str
    live: bool
    order: Order
    waiting: tuple[str, ...] = ()
    is_old_form: bool = False
    rev: int | None = None

    @property
    def source(self) -> str:
        """The owner's source."""
        return split_name(self.owner)[0]

    @property
    def rank(self) -> int:
        """The rank of the owner's source."""
        return rank_of(self.source)


@dataclass(frozen=True, slots=True)
class Entries:
    """An article's entries in its shard and in the news sitemap."""

    general: GeneralEntry | None = None
    news: NewsEntry | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What the table holds of an event's article, of the URLs it touches and of the articles that own them.

    `claims` are by the identity of their URL. `entries` are by article, and only those that a decision may need: of the article
    where the event is late, of owners that may lose their URL. `waiting` are the events of articles that wait for a URL.
    `due` is the newest event of an article that is held, where another one comes late.
    """

    article: Article | None = None
    claims: Mapping[str, Claim] = field(default_factory=dict)
    owners: Mapping[str, Article] = field(default_factory=dict)
    entries: Mapping[str, Entries] = field(default_factory=dict)
    waiting: Mapping[str, ArticleEvent] = field(default_factory=dict)
    due: ArticleEvent | None = None


@dataclass(frozen=True, slots=True)
class EntryKey:
    """An entry to be taken out: the file, the page, and for a news entry its publication and the place to be given back.

    `url` is the page's identity; of an entry of the old form, its spelling.
    """

    file: str
    url: str
    published: datetime | None = None
    place: Place | None = None
    is_old_form: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of an event. Without `article` and `claims` nothing is written.

    `waits` are events to store until a URL is free, `returns` those that are to be recorded again, at once or at their release;
    `no_longer_waits` are URL and name of one that waits no longer.
    `general` and `news` are entries to be put into the places that `article` has, or into those that `want_shard` and
    `want_news` ask for; `released` and `held` are the due records to take out and to put in.
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

    @property
    def wants(self) -> list[Want]:
        """The places that the decision asks for."""
        return [want for want in (self.want_shard, self.want_news) if want]

    def placed(self, shard: Place | None, news: Place | None) -> "Decision":
        """The decision with the places that it wanted."""
        assert self.article
        article = replace(self.article, shard=shard or self.article.shard, news=news or self.article.news)
        outgrown = self.want_shard.held if self.want_shard else None
        out = self.out
        if outgrown and shard and shard.file != outgrown.file and self.general:
            out = (*out, EntryKey(outgrown.file, identity(self.general.loc)))
        return replace(self, article=article, out=out, want_shard=None, want_news=None)
