"""Read the facts of a page from the table, the files and the site's configuration. Changes nothing."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, TypeVar

from stoppress.aws import items, refusals, table
from stoppress.aws.inventory import read_articles, read_claims
from stoppress.aws.items import Item
from stoppress.aws.refusals import Count, Refusal
from stoppress.model.article import Article, Claim, EntryKey
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.event import ArticleEvent, article_name
from stoppress.model.file_names import PAGES_FILE, Place, news_series
from stoppress.model.site import UNKNOWN_SITE, Site
from stoppress.notify import page_state
from stoppress.notify.page_state import SEARCH_CONSOLE, PageState, notified_pk, read_page
from stoppress.notify.sitemap_reports import reads_since
from stoppress.primitives.instants import local_time, parse
from stoppress.primitives.urls import host_of, identity
from stoppress.show.question import REFUSED_SEARCHED_MAX, Question, find_variants, held_events, read_refused, spell_url
from stoppress.show.read_files import FileRead, listed_at, read_files

# How many items of each kind are searched for a page: the newest ones, and the held articles that are published first. If the items
# have their usual size, each of these searches takes at most six queries.
QUARANTINED_SEARCHED_MAX = 500
HELD_SEARCHED_MAX = 1_000
RECEIVED_SEARCHED_MAX = 5_000
# Matches URL and id in an event of which quarantine kept only the beginning.
_TEXT = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"'
_URL_OR_ID = re.compile(rf'"(url|id)"\s*:\s*({_TEXT}|[0-9]{{1,20}}\b)')

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Received:
    """A delivery about the page and its outcome.

    `sent_at` is the sender's own timestamp. `title` is the headline, if it is known. `by` is the article's name, or its source if the
    id is unknown. `url` is the URL in the delivery, if it is not the page's. `outcome` is an outcome of recording, or refused,
    ignored or quarantined.
    """

    at: datetime
    action: str
    by: str
    outcome: str
    reason: str = ""
    sent_at: datetime | None = None
    url: str | None = None
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a page in the stack.

    `asked` is the user's text. `url` is the page, empty for an article of which no URL is known. `article` is the name of the
    article, if the user asked for an article. `articles` own or owned the page, or had an event about it. `general` has their entries
    in shards by name, `news` is the owner's entry in a news sitemap. `held` has the events of held articles by name. `received` is
    oldest first. `others` are known pages whose URLs are like this one. `unsearched` lists the kinds of items that were too many to
    be searched completely. `page_state` is the state of the engines' notifications. `read_by_google` is when Google first read the
    news sitemap after it listed the page, and `console_reason` why Search Console reports no more.

    If no event of the page was received, `unverified` are today's counts of the sources whose requests had a wrong signature.
    `unidentified` are then today's refused deliveries without id and URL.
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
    read_by_google: datetime | None = None
    console_reason: str = ""
    unverified: tuple[Count, ...] = ()
    unidentified: tuple[Refusal, ...] = ()

    @property
    def page(self) -> str:
        """Return the identity of the page."""
        return identity(self.url)

    @property
    def is_configured(self) -> bool:
        """Return True if the site's configuration lists the page."""
        return self.page in self.site.pages_by_url

    @property
    def owner(self) -> Article | None:
        """Return the article that has the page, if it has entries."""
        return next((article for article in self.articles if article.has_entries and self.is_here(article)), None)

    def at(self, instant: datetime) -> str:
        """Return an instant in words, in the site's time zone."""
        return local_time(instant, self.site.zone)

    def is_here(self, article: Article) -> bool:
        """Return True if the article's URL is this page. The stack may know no URL of a removed article."""
        return article.url is None or identity(article.url) == self.page

    @property
    def spellings(self) -> list[str]:
        """Return the page's URL as the question, its articles and files may spell it."""
        of_articles = [article.url for article in self.articles if article.url and self.is_here(article)]
        return [self.url, *of_articles, self.page]


# ── reading ──


def _read_owned(site: Site, url: str) -> Claim | None:
    """Return the claim on a URL; None for a page that was never seen and that other pages list."""
    claim = read_claims(site.host, [url]).get(url)
    return claim if claim and claim.owner else None


def read_facts(question: Question, now: datetime) -> Facts:
    """Return the facts of a page or an article. Raises the errors of the table and the bucket."""
    unsearched: list[str] = []
    site, name = question.site, question.article
    names = dict.fromkeys(filter(None, [name]))
    url = question.url or next((article.url for article in read_articles(site.host, names).values() if article.url), "")
    lines: tuple[Item, ...] = ()
    claim = None
    held: dict[str, ArticleEvent] = {}
    if url:
        claim = _read_owned(site, url)
        stored = kept_items(items.story_pk(site.host, url), now, consistent=True)
        lines = tuple(_first(stored, RECEIVED_SEARCHED_MAX, "deliveries of the page", unsearched))[::-1]
    if url and (name or not (claim and claim.live)):
        # A held article claims no URL. The page's story may lack its event, because a killed function writes no story.
        due = _first(held_events(site.host), HELD_SEARCHED_MAX, "held articles", unsearched)
        held = {event.name: event for event in due if event.url and identity(event.url) == identity(url)}
    names |= dict.fromkeys([*([claim.owner] if claim else []), *map(article_of, lines), *held])
    articles = tuple(read_articles(site.host, names).values())
    refused = read_refused(site.host, now) if question.refused is None else question.refused
    received = [
        *(read_line(line, url) for line in lines),
        *_refusals(_first(iter(refused), REFUSED_SEARCHED_MAX, "refused deliveries", unsearched), site, url, names),
        *_quarantined_events(site, url, names, now, unsearched),
    ]
    # The site's rules for the general sitemap apply to these entries.
    general = {article.name: _entry(site, article, article.shard) for article in articles}
    facts = Facts(
        asked=question.asked,
        site=site,
        url=url,
        article=name,
        claim=claim,
        articles=articles,
        general={of: items.read_general(entry) for of, entry in general.items() if entry},
        held=held,
        received=tuple(sorted(received, key=lambda delivery: delivery.at)),
        unsearched=tuple(unsearched),
    )
    owner = facts.owner
    news = _entry(site, owner, owner.news, owner.first_published) if owner else None
    others = question.others
    if url and not (claim or articles):
        others += tuple(find_variants(site, url))
    return replace(
        facts,
        news=items.read_news(news) if news else None,
        files=tuple(read_files(site, facts.spellings, candidates(facts))),
        others=others,
        **_read_engines(site, url, now),
        **({} if received else _unrecognized(site, refused, now)),
    )


def _read_engines(site: Site, url: str, now: datetime) -> dict[str, Any]:
    """Return the notifications and Google's reports of the page, as fields of `Facts`. Without `engines` nothing is read."""
    if not (url and site.engines):
        return {}
    page_key, engine_key = page_state.page_key(site.host, url), (notified_pk(site.host), SEARCH_CONSOLE)
    stored = table.get_many([page_key, engine_key])
    page = read_page(stored[page_key]) if page_key in stored else None
    console = site.engines.search_console
    if page is None or console is None:
        return {"page_state": page}
    reads = reads_since(site.host, page.news_file, page.listed_at) if page.listed_at else []
    read = next((at for at, _ in reversed(reads) if listed_at(site, url, page.news_file, at, now)), None)
    reason = stored.get(engine_key, {}).get("reason", "")
    if page_state.read_inspections(console.property, now) >= page_state.INSPECTIONS_A_DAY:
        reason = reason or "the day's quota of inspections is used up"
    return {"page_state": page, "read_by_google": read, "console_reason": reason}


def _unrecognized(site: Site, refused: Iterable[Refusal], now: datetime) -> dict[str, Any]:
    """Return the deliveries of today that may be about any page, as fields of `Facts`."""
    counts = refusals.counts_of_day(site.host, now.date(), site.sources)
    today = takewhile(lambda refusal: refusal.at.date() == now.date(), refused)
    return {
        "unverified": tuple(count for count in counts if count.unverified),
        "unidentified": tuple(entry for entry in today if entry.outcome == "refused" and not (entry.id or entry.url)),
    }


def kept_items(pk: str, now: datetime, *, consistent: bool = False) -> Iterator[Item]:
    """Yield the items of a partition, newest first. They end before the first item that is past its time to live."""
    stored = table.query(pk, consistent=consistent, newest_first=True)
    return takewhile(lambda item: items.is_kept(item, now), stored)


def _first(stored: Iterator[_Value], number: int, what: str, unsearched: list[str]) -> Iterator[_Value]:
    """Yield the first `number` items. If there are more, add a line to `unsearched`, which calls them `what`."""
    yield from islice(stored, number)
    if next(stored, None) is not None:
        unsearched.append(f"there are more than {number:,} {what}, and only {number:,} were searched")


def article_of(line: Item) -> str:
    """Return the name of the article that a line of a story is about: the middle of its sort key."""
    return "#".join(line["sk"].split("#")[1:-1])


def _entry(site: Site, article: Article, place: Place | None, published: datetime | None = None) -> Item:
    if not (article.has_entries and place and article.url):
        return {}
    return table.get(*items.entry_key(site.host, EntryKey(place.file, article.url, published))) or {}


def candidates(facts: Facts) -> list[str]:
    """Return the files that may list a page: the shards of its articles, the news sitemaps of its series, the configured pages."""
    if not facts.url:
        return []
    host, here = facts.site.host, [article for article in facts.articles if article.shard or article.news]
    files = [PAGES_FILE] if facts.is_configured else []
    files += [place.file for article in here for place in (article.shard, article.news) if place]
    series = news_series(facts.site, facts.url)
    return files + items.series_files(items.read_series(series, table.get(items.places_pk(host), series)))


# ── deliveries ──


def read_line(line: Item, url: str) -> Received:
    sent_at, url_in_event = line.get("said_at"), line.get("names")
    return Received(
        parse(line["received_at"]),
        line["action"],
        article_of(line),
        line["outcome"],
        line.get("reason", ""),
        parse(sent_at) if sent_at else None,
        url_in_event if url_in_event and identity(url_in_event) != identity(url) else None,
        line.get("title", ""),
    )


def _refusals(refused: Iterable[Refusal], site: Site, url: str, names: Collection[str]) -> Iterator[Received]:
    """Yield the refused and ignored deliveries about the page or one of its articles."""
    for refusal in refused:
        if refusal.outcome in refusals.UNLISTED:  # the page's story has it
            continue
        name = article_name(refusal.source, refusal.id)
        spelling = spell_url(refusal.url, site) if refusal.url else None
        is_page = bool(url and spelling) and identity(spelling or "") == identity(url)
        if is_page or (refusal.id and name in names):
            by = name if refusal.id else refusal.source
            other = spelling if spelling and not is_page else None
            yield Received(refusal.at, "", by, refusal.outcome, refusal.reason, url=other)


def _quarantined_events(
    site: Site, url: str, names: Collection[str], now: datetime, unsearched: list[str]
) -> Iterator[Received]:
    """Yield quarantined events about the page, also those of an unknown site."""
    ids = {name.partition("#")[2] for name in names} - {""}
    for where, of in ((site.host, ""), (UNKNOWN_SITE, " of unknown sites")):
        stored = kept_items(items.quarantine_pk(where), now)
        for item in _first(stored, QUARANTINED_SEARCHED_MAX, f"events{of} in quarantine", unsearched):
            if is_about(item["event"], url, site, ids):
                at = parse(item["sk"].partition("#")[0])
                yield Received(at, "", "", "quarantined", item["reason"])


def is_about(event: str, url: str, site: Site, ids: Collection[str]) -> bool:
    """Return True if a quarantined event is about the page: by its URL, a previous URL, or the id of one of the page's articles.

    An id does not count where the event is about a page of another host, because that site has its own ids.
    """
    for data in _objects(event):
        previous = data.get("previous_urls")
        urls = [spell_url(text, site) for text in (data.get("url"), *(previous if isinstance(previous, list) else ()))]
        is_own = urls[0] is None or host_of(urls[0]) == site.host
        is_page = url and identity(url) in map(identity, filter(None, urls))
        if is_page or (is_own and str(data.get("id")).strip() in ids):
            return True
    return False


def _objects(event: str) -> list[dict[str, Any]]:
    """Return the parts of an event that may contain URL and id: `detail` of the bus, `data` of a webhook, or the event itself."""
    try:
        document = json.loads(event)
    except (ValueError, RecursionError):
        fields = reversed(_URL_OR_ID.findall(event))  # of several values of one name the first counts
        return [{name: value if value.isdigit() else json.loads(value) for name, value in fields}]
    parts = (document.get("detail"), document.get("data"), document) if isinstance(document, dict) else ()
    return [part for part in parts if isinstance(part, dict)]
