"""An in-memory table that applies each decision immediately, without failures."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stoppress.model.article import Article, Claim, Decision, Known
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.event import ArticleEvent
from stoppress.model.file_names import Place, Series, Want, entries_max_of
from stoppress.model.news_window import is_current
from stoppress.model.site import Site
from stoppress.model.site_parts import Source
from stoppress.primitives.urls import identity
from stoppress.record.claims import aimed_at, copies_of, event_again
from stoppress.record.decide import decide
from stoppress.record.transaction import urls_of
from stoppress.record.versions import is_version

HOST = "www.example.com"
MORNING = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
SITE = Site(host=HOST, publication="Example News", sources={"cms": Source(secret="cms"), "wire": Source(secret="cms")})


def page(path: str) -> str:
    return f"https://{HOST}/{path}"


def publish(article: str = "1042", path: str = "flood", **changes: Any) -> ArticleEvent:
    """Return a CMS's event that publishes an article at eight in the morning; `changes` overrides fields."""
    values: dict[str, Any] = {
        "site": HOST,
        "source": "cms",
        "id": article,
        "action": "publish",
        "timestamp": MORNING,
        "url": page(path),
        "title": "Flood closes the harbour",
        "published_at": MORNING,
        "verb": None if changes.get("source") == "feed" else "published",
    }
    return ArticleEvent(**(values | changes))


def remove(article: str = "1042", **changes: Any) -> ArticleEvent:
    """Return a CMS's event that removes an article a minute after eight; `changes` overrides fields."""
    values: dict[str, Any] = {
        "site": HOST,
        "source": "cms",
        "id": article,
        "action": "remove",
        "verb": "unpublished",
        "timestamp": MORNING + timedelta(minutes=1),
    }
    return ArticleEvent(**(values | changes))


class DecidedTable:
    """The content of the table after some events."""

    def __init__(self, site: Site = SITE) -> None:
        self.site = site
        self.articles: dict[str, Article] = {}
        self.claims: dict[str, Claim] = {}
        self.series: dict[str, Series] = {}
        self.general: dict[tuple[str, str], GeneralEntry] = {}
        self.news: dict[tuple[str, str, datetime], NewsEntry] = {}
        self.due: dict[tuple[datetime, str], ArticleEvent] = {}
        self.waiting: dict[tuple[str, str], ArticleEvent] = {}
        self.writes = 0

    def apply(self, event: ArticleEvent, now: datetime | None = None) -> Decision:
        """Decide an event and apply the decision. By default the event is received at its own timestamp."""
        now = now or event.received_at or event.timestamp or MORNING
        event = replace(event, received_at=event.received_at or now)
        decision = decide(event, self._known(event), self.site, now)
        for due in decision.released:
            self.due.pop(due, None)
        if decision.article is None and not decision.claims:
            return decision
        self.writes += 1
        if decision.article:
            decision = decision.with_places(self._place(decision.want_shard), self._place(decision.want_news))
        self._take_out(decision)
        self._put_in(decision)
        if decision.held:
            date = event.published_at or decision.held
            self.due[decision.held, event.name] = replace(event, release=decision.held, published_at=date)
        self._check(now)
        for back in decision.returns:
            for url in back.previous_urls if back.action == "again" else ():
                self.apply(replace(back, url=url, previous_urls=()), now)
            if back.action == "again":
                continue
            if back.release:
                self.due[back.release, back.name] = back
            else:
                self.apply(replace(back, release=now), now)
        return decision

    def _take_out(self, decision: Decision) -> None:
        for entry in decision.out:
            if entry.published:
                news = self.news.pop((entry.file, entry.url, entry.published), None)
                assert news or entry.place is None, "a place is given back only with its entry"
            else:
                self.general.pop((entry.file, entry.url), None)
            if entry.place:
                self.series[entry.place.series] = self.series[entry.place.series].give_back([entry.place])
        if decision.no_longer_waits:
            self.waiting.pop(decision.no_longer_waits, None)

    def _put_in(self, decision: Decision) -> None:
        article = decision.article
        for changed in (article, *decision.displaced):
            if changed:
                self.articles[changed.name] = replace(changed, rev=1)
        for claim in decision.claims:
            self.claims[identity(claim.url)] = replace(claim, rev=1)
        if decision.general:
            assert article
            assert article.shard
            self.general[article.shard.file, identity(decision.general.loc)] = decision.general
        if decision.news:
            assert article
            assert article.news
            self.news[article.news.file, identity(decision.news.loc), decision.news.published] = decision.news
        for waits in decision.waits:
            self.waiting[identity(waits.url or ""), waits.name] = waits

    def release(self, now: datetime) -> None:
        """Record again the events that are due, as roll_window does each minute."""
        for due in sorted(due for due in self.due if due[0] <= now):
            self.apply(self.due[due], now)

    @property
    def pages(self) -> dict[str, str]:
        return {url: file for file, url in self.general}

    def news_at(self, now: datetime) -> dict[str, NewsEntry]:
        return {url: entry for (_, url, _), entry in self.news.items() if is_current(entry.published, now)}

    def _known(self, event: ArticleEvent) -> Known:
        own = self.articles.get(event.name)
        if event.url and not event.id:
            copies = copies_of(event.source, self.claims.get(identity(event.url)))
            own = aimed_at(event, [self.articles.get(name) for name in copies])
        pages = [identity(url) for url in urls_of(event, own)]
        stored = {page: claim for page in pages if (claim := self.claims.get(page))}
        claims = {page: claim for page, claim in stored.items() if claim.owner}
        listed = [link.href for link in event.alternates]
        listed += [url for claim in stored.values() for url in claim.lists.values()]
        versions = {page: claim for page, claim in stored.items() if not claim.owner}
        versions |= {
            identity(url): self.claims.get(identity(url), Claim(self.site.host, url))
            for url in listed
            if is_version(url, [self.site.host])
        }
        owners = {claim.owner: self.articles[claim.owner] for claim in claims.values() if claim.owner in self.articles}
        holders = {event.name: own, **owners}
        again = {name: newest for name, article in holders.items() if article and (newest := self._again(article))}
        waiting = {name: event for (page, name), event in self.waiting.items() if page in pages}
        shown = [entry.alternates for (_, url), entry in self.general.items() if url in pages]
        return Known(own, claims, owners, again, waiting, versions, next(iter(shown), ()))

    def _again(self, article: Article) -> ArticleEvent | None:
        if article.release_at and (article.release_at, article.name) in self.due:
            return self.due[article.release_at, article.name]
        page = identity(article.url or "")
        general = next((entry for (_, url), entry in self.general.items() if url == page), None)
        news = next((entry for (_, url, _), entry in self.news.items() if url == page), None)
        return event_again(article, general, news, self.claims.get(page)) if article.has_entries else None

    def _place(self, want: Want | None) -> Place | None:
        if want is None:
            return None
        series = self.series.get(want.series, Series(want.series))
        self.series[want.series], places = series.reserve([want], entries_max_of(want.series, self.site.shards.size))
        return places[0]

    def _check(self, now: datetime) -> None:
        """Check after every event that each listed article has exactly one page, and no other article has one."""
        listed = {identity(owner.url): owner for owner in self.articles.values() if owner.has_entries and owner.url}
        assert sorted(url for _, url in self.general) == sorted(listed)
        for file, url in self.general:
            article = listed[url]
            assert article.shard
            assert article.shard.file == file
            assert self.claims[url].live
            assert self.claims[url].owner == article.name
        current = [url for (_, url, published) in self.news if is_current(published, now)]
        assert sorted(current) == sorted(page for page, article in listed.items() if article.is_in_news(now))
