"""Is my story in the sitemaps, and why not? Facts about a page in, one answer out. Commands, JSON and the page render it. Pure.

The files decide whether a page is listed. The table and the site's configuration give the reason. Several reasons may hold at
once: the page appears when none of them holds any more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

from stoppress.model.article import FORGOTTEN, Article, Claim
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.event import ArticleEvent
from stoppress.model.exclude import (
    EXPIRED,
    HOME_PAGE,
    NO_DATE,
    NO_TITLE,
    PAGE,
    excluded_because,
    not_news_because,
)
from stoppress.model.file_names import is_news
from stoppress.model.news_window import is_current, window_end
from stoppress.model.rules import Traits, excluding_rule, names_rule
from stoppress.model.site import Site
from stoppress.notify.state import PageState
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import host_of, identity
from stoppress.show.plain import plain
from stoppress.show.way import Stop, way

# The log has the earlier events.
HEARD_MAX = 50

Kind: TypeAlias = Literal[
    "never received",
    "not found",
    "other host",
    "refused",
    "ignored",
    "quarantined",
    "removed",
    "forgotten",
    "moved",
    "other article",
    "held",
    "excluded",
    "rule",
    "page",
    "not news",
    "no date",
    "expired",
    "no title",
    "not written",
]


def local_time(instant: datetime, zone: ZoneInfo) -> str:
    """An instant in words, in a time zone."""
    return f"{instant.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


# ── facts ──


@dataclass(frozen=True)
class FileRead:
    """A file that was read: whether it lists the page, and its last change; None if the file does not exist."""

    file: str
    lists: bool
    changed: datetime | None


@dataclass(frozen=True)
class Received:
    """A delivery about the page and its outcome.

    `sent_at` is the sender's own timestamp. `by` is the article's name, or its source if the id is unknown. `url` is the URL that
    the delivery named, if it is another one. `outcome` is an outcome of recording, or refused, ignored or quarantined.
    """

    at: datetime
    action: str
    by: str
    outcome: str
    reason: str = ""
    sent_at: datetime | None = None
    url: str | None = None

    @property
    def was_recorded(self) -> bool:
        """Whether the event reached the table."""
        return self.outcome not in ("refused", "ignored", "quarantined")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the stack holds of a page.

    `asked` is what the user gave. `url` is the page, empty for an article of which no URL is known. `article` is the name of the
    article, if the user asked for an article. `articles` own or owned the page, or an event about them named it. `general` has
    their entries in shards by name, `news` is the owner's entry in a news sitemap. `held` has the events of held
    articles by name. `received` is oldest first. `others` are known pages whose URLs are like this one. `unsearched` says what
    was not searched for the page, because there is too much of it. `page_state` is what engines were notified of.
    """

    asked: str
    site: Site
    url: str
    article: str = ""
    claim: Claim | None = None
    articles: tuple[Article, ...] = ()
    general: Mapping[str, GeneralEntry]
    news: NewsEntry | None = None
    held: Mapping[str, ArticleEvent] = field(default_factory=dict)
    files: tuple[FileRead, ...] = ()
    received: tuple[Received, ...] = ()
    others: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()
    page_state: PageState | None = None

    @property
    def page(self) -> str:
        """The identity of the page."""
        return identity(self.url)

    @property
    def is_configured(self) -> bool:
        """Whether the site's configuration names the page."""
        return self.page in self.site.pages_by_url

    @property
    def owner(self) -> Article | None:
        """The article that has the page, if it has entries."""
        return next((article for article in self.articles if article.has_entries and self.is_here(article)), None)

    def at(self, instant: datetime) -> str:
        """An instant in words, in the site's time zone."""
        return local_time(instant, self.site.zone)

    def is_here(self, article: Article) -> bool:
        """Whether the article's URL is this page. The stack may know no URL of a removed article."""
        return article.url is None or identity(article.url) == self.page


# ── the answer ──


@dataclass(frozen=True)
class Reason:
    """Why a page is not in a sitemap. `text` continues "no, because". `since` is when the reason began, if known."""

    kind: Kind
    text: str
    since: datetime | None = None


@dataclass(frozen=True)
class Answer:
    """Whether a sitemap lists the page.

    `file` lists it; `changed` is the file's last change. `since` is when the page entered, `until` when it leaves, `enters_at`
    when it will enter. The first of `reasons` decides, the others hold too. A listed page with reasons leaves with the next
    rewrite of the file.
    """

    listed: bool
    file: str | None = None
    changed: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    enters_at: datetime | None = None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class ArticleState:
    """An article of the page. `reason` says why it has no entries, `dropped` what its entries omit, each with its reason."""

    name: str
    state: str
    url: str | None
    first_received: datetime
    first_published: datetime | None
    last_changed: datetime | None
    held_until: datetime | None
    reason: str
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Story:
    """The answer about one page. `received` are its newest deliveries, `received_earlier` counts the others.

    The times in sentences are in `timezone`, the site's time zone. `unsearched` says what was not searched for the page. If the
    site notifies engines, `way` has the stops of the story, and `not_notified` says why engines do not know of its newest change.
    `google` is what Search Console last said of the page.
    """

    asked: str
    site: str
    timezone: str
    url: str
    at: datetime
    news: Answer
    general: Answer
    held_until: datetime | None
    articles: tuple[ArticleState, ...]
    received: tuple[Received, ...]
    received_earlier: int
    did_you_mean: tuple[str, ...]
    unsearched: tuple[str, ...]
    way: tuple[Stop, ...]
    not_notified: str
    google: str

    @property
    def is_listed(self) -> bool:
        """Whether any sitemap lists the page."""
        return self.news.listed or self.general.listed

    def report(self) -> Any:
        """The answer for programs: dataclasses as objects, instants in ISO 8601 and UTC."""
        return plain(self)


def tell(facts: Facts, now: datetime) -> Story:
    """The answer that follows from the facts at an instant."""
    owner = facts.owner
    if facts.article and owner and owner.name != facts.article:
        owner = None  # the page is listed for another article
    absent = () if owner else tuple(_absent(facts))
    held = None if owner else _held(facts)
    return Story(
        facts.asked,
        facts.site.host,
        facts.site.timezone,
        facts.url,
        now,
        _news(facts, owner, absent, now),
        _general(facts, owner, absent),
        held.release_at if held else None,
        tuple(_state(facts, article, now) for article in facts.articles),
        facts.received[-HEARD_MAX:],
        max(0, len(facts.received) - HEARD_MAX),
        tuple(dict.fromkeys([*_moved_to(facts), *facts.others])),
        facts.unsearched,
        way(owner.first_published, owner.received_at, facts.page_state) if owner and facts.site.engines else (),
        _not_notified(facts, now),
        _google(facts),
    )


def _not_notified(facts: Facts, now: datetime) -> str:
    page = facts.page_state
    if facts.site.engines is None or page is None or page.is_notified:
        return ""
    if page.checks and page.failing_since:
        return f"the page {page.reason}, since {facts.at(page.failing_since)}; last checked {facts.at(page.checked_at or now)}"
    return f"the engines are to be notified of the change of {facts.at(page.changed)}"


def _google(facts: Facts) -> str:
    page = facts.page_state
    if facts.site.engines is None or page is None or page.inspected_at is None:
        return ""
    parts = [page.coverage or page.verdict]
    if page.google_canonical and identity(page.google_canonical) != facts.page:
        parts.append(f"its canonical URL is {page.google_canonical}")
    if page.robots_state == "DISALLOWED":
        parts.append("robots.txt forbids to crawl it")
    return f"{'; '.join(parts)} (asked {facts.at(page.inspected_at)})"


def _general(facts: Facts, owner: Article | None, absent: tuple[Reason, ...]) -> Answer:
    reasons: tuple[Reason, ...] = ()
    file = None
    if not facts.is_configured:
        reasons = tuple(_ruled(facts, "general", owner)) if owner else (*absent, *_after_release(facts, "general"))
        file = owner.shard.file if owner and owner.shard else None
    return _answer(facts, owner, reasons, file, is_news_file=False)


def _news(facts: Facts, owner: Article | None, absent: tuple[Reason, ...], now: datetime) -> Answer:
    file = owner.news.file if owner and owner.news else None
    reasons = (*absent, *_after_release(facts, "news"))
    if owner:
        reasons = tuple(_not_news(facts, owner, now))
        reasons += tuple(_not_applied(facts)) if reasons else ()
    elif facts.is_configured:
        reasons = (Reason("page", "it is a page of the site's configuration, not an article"),)
    return _answer(facts, owner, reasons, file, is_news_file=True)


def _answer(
    facts: Facts, owner: Article | None, reasons: tuple[Reason, ...], file: str | None, *, is_news_file: bool
) -> Answer:
    read = [each for each in facts.files if is_news(each.file) == is_news_file]
    # If the user asked for an article, the page counts as listed only for that article.
    is_anothers = bool(facts.article) and owner is None and facts.owner is not None
    listing = next((each for each in read if each.lists), None)
    if listing and not is_anothers:
        until = window_end(facts.news.published) if is_news_file and facts.news and not reasons else None
        return Answer(True, listing.file, listing.changed, _listed_since(facts, owner), until, None, reasons)
    if not reasons:
        reasons = (_not_written(facts, owner, next((each for each in read if each.file == file), None)),)
    held = _held(facts)
    enters_at = held.release_at if held and [reason.kind for reason in reasons] == ["held"] else None
    return Answer(False, enters_at=enters_at, reasons=reasons)


def _not_written(facts: Facts, owner: Article | None, read: FileRead | None) -> Reason:
    recorded = parse(owner.order.received) if owner else None
    what = f"it was recorded at {facts.at(recorded)}, and " if recorded else ""
    if read is None or read.changed is None:
        return Reason("not written", f"{what}its file is not written yet", recorded)
    return Reason(
        "not written", f"{what}{read.file}, last changed at {facts.at(read.changed)}, does not list it yet", recorded
    )


# ── reasons of a page that has entries ──


def _ruled(facts: Facts, target: Literal["general", "news"], article: Article) -> Iterator[Reason]:
    if entry := facts.general.get(article.name):
        yield from _rule(facts.site, target, entry.loc, entry.traits)


def _rule(site: Site, target: Literal["general", "news"], url: str, traits: Traits) -> Iterator[Reason]:
    if rule := excluding_rule(site.rules, target, url, traits):
        yield Reason("rule", f"{rule} excludes it")


def _not_news(facts: Facts, article: Article, now: datetime) -> Iterator[Reason]:
    """Why an article with entries is not in the news sitemap. The stored reason comes first, the window last."""
    stored, first = article.news_reason, article.first_published
    if stored not in (NO_DATE, EXPIRED) and not names_rule(stored):
        yield from _of_event(stored)
    yield from _ruled(facts, "news", article)
    if first is None:
        yield Reason("no date", "no event gave its publication date (published_at)")
    elif not is_current(first, now):
        ended = window_end(first)
        yield Reason(
            "expired", f"it was published more than 48 hours ago: the window ended at {facts.at(ended)}", ended
        )
    elif stored in (NO_DATE, EXPIRED):  # a date came later, and there was no title for an entry
        yield Reason("no title", "no event gave its title together with its publication date")


def _of_event(text: str) -> Iterator[Reason]:
    """A reason that `model/exclude.py` found in an event."""
    if text in (PAGE, HOME_PAGE):
        yield Reason("page", f"it is {text}" if text == PAGE else text)
    elif text == NO_TITLE:
        yield Reason("no title", "no event gave its title")
    elif text:
        yield Reason("not news", text)


# ── reasons of a page without entries ──


def _absent(facts: Facts) -> Iterator[Reason]:
    """Why a page has no entries. The first reason decides."""
    reasons = [*_unlisted(facts), *_not_applied(facts)]
    if not reasons and facts.received and facts.received[-1].outcome == "ignored":
        reasons.append(_unrecorded(facts, facts.received[-1]))
    if not reasons and facts.url and host_of(facts.url) != facts.site.host:
        reasons.append(Reason("other host", f"{host_of(facts.url)} is not {facts.site.host}"))
    what = f"the article {facts.article}" if facts.article else "this page"
    if not reasons and facts.unsearched:
        reasons.append(Reason("not found", f"no event that was searched named {what}"))
    yield from reasons or [Reason("never received", f"no event named {what}")]


def _unlisted(facts: Facts) -> Iterator[Reason]:
    claim = facts.claim
    absentees = _absentees(facts)
    if held := _held(facts):
        assert held.release_at
        yield Reason("held", f"{held.name} is held until {facts.at(held.release_at)}", parse(held.order.received))
        return
    if facts.article and (owner := facts.owner):
        yield Reason("other article", f"{owner.name} has its URL", parse(owner.order.received))
        return
    gone = [_gone(facts, article) for article in absentees if article.state in ("removed", "excluded")]
    removal = claim.removed.get(claim.source) if claim and not claim.live else None
    if claim and removal and not removal.is_before(claim.order):
        gone.append(Reason("removed", f"{claim.source} removed this URL", parse(removal.received)))
    if gone:
        yield max(gone, key=lambda reason: reason.since.timestamp() if reason.since else 0)
        return
    names = [claim.owner] if claim else []
    elsewhere = [article for article in facts.articles if article.url and not facts.is_here(article)]
    if moved := sorted(elsewhere, key=lambda article: article.name not in names):
        yield _moved(facts, moved[0])
        return
    for article in facts.articles:
        if article.state == "displaced" and _is_meant(facts, article):
            left = "" if claim is None or claim.live else f". The URL is free since: send {article.name} again"
            yield Reason("other article", f"{article.reason}{left}", parse(article.order.received))
            return


def _absentees(facts: Facts) -> list[Article]:
    """The articles that would be listed at the page if their own reason ended: no claim on the URL keeps them out."""
    return [
        article
        for article in facts.articles
        if not article.has_entries and _is_meant(facts, article) and not _is_outclaimed(article, facts.claim)
    ]


def _is_outclaimed(article: Article, claim: Claim | None) -> bool:
    """Whether a claim keeps an article out: its source ranks higher, or the article's own source removed the URL later."""
    if claim is None or claim.owner == article.name:
        return False
    removal = claim.removed.get(article.source)
    return claim.rank > article.rank or (removal is not None and article.order.is_before(removal))


def _is_meant(facts: Facts, article: Article) -> bool:
    """Whether the answer is about the article: the user asked for it, or its URL is the page."""
    return article.name == facts.article if facts.article else facts.is_here(article)


def _held(facts: Facts) -> Article | None:
    """The held article that is released next."""
    held = [
        (article.release_at, article) for article in _absentees(facts) if article.release_at and article.state == "held"
    ]
    return min(held, key=itemgetter(0))[1] if held else None


def _after_release(facts: Facts, target: Literal["general", "news"]) -> Iterator[Reason]:
    """What keeps a held article out after its release too."""
    article = _held(facts)
    event = facts.held.get(article.name) if article else None
    if article is None or event is None or event.url is None or article.release_at is None:
        return
    if excluded := excluded_because(event, facts.site):
        yield Reason("excluded", f"{article.name} is excluded: {excluded}")
    yield from _rule(facts.site, target, event.url, event.traits)
    if target == "news":
        yield from _of_event(not_news_because(event, event.url, article.release_at, article.release_at))


def _gone(facts: Facts, article: Article) -> Reason:
    """Why a removed or excluded article has no page."""
    since = parse(article.order.received)
    if article.reason == FORGOTTEN:
        return Reason("forgotten", f"an operator erased {article.name} with `stoppress forget`", since)
    if article.state == "removed":
        return Reason("removed", f"its source removed {article.name} at {facts.at(since)}", since)
    return Reason("excluded", f"{article.name} is excluded: {article.reason}", since)


def _moved(facts: Facts, article: Article) -> Reason:
    """Why an article that has another URL is not at this one."""
    if article.state == "removed":
        return _gone(facts, article)
    return Reason("moved", f"{article.name} moved to {article.url}", parse(article.order.received))


def _not_applied(facts: Facts) -> Iterator[Reason]:
    """The newest refused or quarantined delivery, if no event was recorded after it. It might have ended another reason."""
    recorded_at = max((received.at for received in facts.received if received.was_recorded), default=None)
    for received in reversed(facts.received):
        is_later = recorded_at is None or received.at > recorded_at
        if received.outcome in ("refused", "quarantined") and is_later:
            yield _unrecorded(facts, received)
            return


def _unrecorded(facts: Facts, received: Received) -> Reason:
    """The reason of a delivery that never became an event in the table."""
    what = {"refused": "was refused", "ignored": "was ignored"}.get(received.outcome, "is in quarantine")
    kind: Kind = (
        "refused" if received.outcome == "refused" else "ignored" if received.outcome == "ignored" else "quarantined"
    )
    return Reason(kind, f"the delivery of {facts.at(received.at)} {what}: {received.reason}", received.at)


# ── parts ──


def _state(facts: Facts, article: Article, now: datetime) -> ArticleState:
    state = str(article.state)
    if article.has_entries:
        is_hidden = any(_ruled(facts, "general", article)) and any(_not_news(facts, article, now))
        state = "hidden" if is_hidden else "listed"
    return ArticleState(
        article.name,
        state,
        article.url,
        article.received_at,
        article.first_published,
        article.lastmod,
        article.release_at,
        "" if article.has_entries else article.reason,
        article.dropped,
    )


def _moved_to(facts: Facts) -> Iterator[str]:
    """The present pages of articles that left this page."""
    if facts.owner is None:
        yield from (article.url for article in facts.articles if article.url and article.has_entries)


def _listed_since(facts: Facts, owner: Article | None) -> datetime | None:
    """Since when the owner is listed; None if the events of 90 days do not show it, or not all were read."""
    since = None
    for received in () if facts.unsearched else facts.received:
        if owner and received.by == owner.name and received.url is None:
            if received.outcome == "listed":
                since = since or received.at
            elif received.outcome in ("removed", "held", "excluded", "displaced"):
                since = None
    return max(since, owner.first_published or since) if since and owner else None
