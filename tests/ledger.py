"""A table of ten dictionaries: what decisions come to when each is applied at once and nothing fails."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stoppress.article import ArticleEvent
from stoppress.deciding import decide, urls_of
from stoppress.files import NEWS_WINDOW, GeneralEntry, NewsEntry
from stoppress.places import Place, Series, Want, entries_max_of
from stoppress.site import Site, Source
from stoppress.state import Article, Claim, Decision, Known

HOST = "www.example.com"
MORNING = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
SITE = Site(host=HOST, publication="Example News", sources={"cms": Source(secret="cms"), "wire": Source(secret="cms")})


def page(path: str) -> str:
    """A URL of the site."""
    return f"https://{HOST}/{path}"


def publish(article: str = "1042", path: str = "flood", **said: Any) -> ArticleEvent:
    """An event of the CMS that publishes an article at eight in the morning, but for what is said."""
    values: dict[str, Any] = {
        "site": HOST,
        "source": "cms",
        "id": article,
        "action": "publish",
        "timestamp": MORNING,
        "url": page(path),
        "title": "Flood closes the harbour",
        "published_at": MORNING,
    }
    return ArticleEvent(**(values | said))


def remove(article: str = "1042", **said: Any) -> ArticleEvent:
    """An event of the CMS that takes an article away, a minute after eight but for what is said."""
    values: dict[str, Any] = {
        "site": HOST,
        "source": "cms",
        "id": article,
        "action": "remove",
        "timestamp": MORNING + timedelta(minutes=1),
    }
    return ArticleEvent(**(values | said))


class Ledger:
    """What stands in the table after the events that were heard."""

    def __init__(self, site: Site = SITE) -> None:
        self.site = site
        self.articles: dict[str, Article] = {}
        self.claims: dict[str, Claim] = {}
        self.series: dict[str, Series] = {}
        self.general: dict[tuple[str, str], GeneralEntry] = {}
        self.news: dict[tuple[str, str, datetime], NewsEntry] = {}
        self.due: set[tuple[datetime, str]] = set()
        self.writes = 0

    def hear(self, event: ArticleEvent, now: datetime | None = None) -> Decision:
        """Decide an event and apply what was decided; by default the moment that it speaks of."""
        now = now or event.timestamp
        decision = decide(event, self._known(event), self.site, now)
        self.due -= set(decision.released)
        if decision.article is None:
            return decision
        self.writes += 1
        decision = decision.placed(self._place(decision.want_shard), self._place(decision.want_news))
        article = decision.article
        assert article
        for entry in decision.out:
            if entry.published:
                gone = self.news.pop((entry.file, entry.url, entry.published), None)
                assert gone or entry.place is None, "a place is given back only with its entry"
            else:
                self.general.pop((entry.file, entry.url), None)
            if entry.place:
                self.series[entry.place.series] = self.series[entry.place.series].give_back([entry.place])
        for changed in (article, *decision.displaced):
            self.articles[changed.name] = replace(changed, rev=1)
        for claim in decision.claims:
            self.claims[claim.url] = replace(claim, rev=1)
        if decision.general:
            assert article.shard
            self.general[article.shard.file, decision.general.loc] = decision.general
        if decision.news:
            assert article.news
            self.news[article.news.file, decision.news.loc, decision.news.published] = decision.news
        if decision.held:
            self.due.add((decision.held, event.name))
        self._check(now)
        return decision

    @property
    def pages(self) -> dict[str, str]:
        """URLs in the shards, and the shard of each."""
        return {url: file for file, url in self.general}

    def news_at(self, now: datetime) -> dict[str, NewsEntry]:
        """URLs in the news sitemap at an instant."""
        return {url: entry for (_, url, _), entry in self.news.items() if entry.expires_at > now}

    def _known(self, event: ArticleEvent) -> Known:
        own = self.articles.get(event.name)
        claims = {url: claim for url in urls_of(event, own) if (claim := self.claims.get(url))}
        owners = {claim.owner: self.articles[claim.owner] for claim in claims.values() if claim.owner in self.articles}
        news = next((entry for (_, url, _), entry in self.news.items() if own and own.url == url), None)
        general = next((entry for (_, url), entry in self.general.items() if own and own.url == url), None)
        return Known(own, claims, owners, general, news)

    def _place(self, want: Want | None) -> Place | None:
        if want is None:
            return None
        series = self.series.get(want.series, Series(want.series))
        self.series[want.series], places = series.reserve([want], entries_max_of(want.series, self.site.shards.size))
        return places[0]

    def _check(self, now: datetime) -> None:
        """What holds after every event: a page stands once, each listed article has its page, and nobody else has one."""
        listed = {article.url: article for article in self.articles.values() if article.has_entries}
        assert sorted(url for _, url in self.general) == sorted(url for url in listed if url)
        for file, url in self.general:
            article = listed[url]
            assert article.shard
            assert article.shard.file == file
            assert self.claims[url].live
            assert self.claims[url].owner == article.name
        current = [url for (_, url, published) in self.news if published + NEWS_WINDOW > now]
        assert sorted(current) == sorted(a.url for a in listed.values() if a.url and a.is_in_news(now))
