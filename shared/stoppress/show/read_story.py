"""Reads what the stack holds of a page: from the table, from the files, and from the site's configuration."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, TypeVar
from unicodedata import normalize
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from stoppress.aws import bucket, items, refusals, sites, table
from stoppress.aws.inventory import all_files
from stoppress.aws.items import Item
from stoppress.aws.refusals import Refusal
from stoppress.model.article import Article, EntryKey
from stoppress.model.entries import GeneralEntry
from stoppress.model.event import ArticleEvent, article_name, from_message
from stoppress.model.file_names import PAGES_FILE, is_news, is_shard, news_series
from stoppress.model.places import Place
from stoppress.model.site import SOURCE, UNKNOWN_SITE, Site
from stoppress.notify.state import PageState, page_key, read_page
from stoppress.primitives.instants import parse
from stoppress.primitives.text import escaped
from stoppress.primitives.urls import canonical, host_of, identity, on_site
from stoppress.show.story import Facts, FileRead, Received, Story, tell
from stoppress.sitemaps.tags import under_scheme

# How many entries are searched for a fragment of a path, and how many matches are shown.
SEARCHED_MAX = 50_000
MATCHES_MAX = 10
# How many items of each kind are searched for a page: the newest ones, and the held articles that are published first. If the items
# have their usual size, each of these searches takes at most six queries.
REFUSED_SEARCHED_MAX = 5_000
QUARANTINED_SEARCHED_MAX = 500
HELD_SEARCHED_MAX = 1_000
HEARD_SEARCHED_MAX = 5_000
# Matches URL and id in an event of which quarantine kept only the beginning.
_URL_OR_ID = re.compile(r'"(url|id)"\s*:\s*("(?:[^"\\]|\\.)*"|\d{1,20}\b)')


_Each = TypeVar("_Each")


class Unclear(ValueError):
    """A question that names no page, or several. The text says what to give instead."""


@dataclass(frozen=True)
class Question:
    """What a user asks about: a page by its URL, or an article by its name. `asked` is what the user gave.

    `refused` is what `read_refused` returned, if it was read already.
    """

    asked: str
    site: Site
    url: str = ""
    article: str = ""
    others: tuple[str, ...] = ()
    refused: Sequence[Refusal] | None = None


def story_of(asked: str, host: str | None, now: datetime, refused: Sequence[Refusal] | None = None) -> Story:
    """The answer about a URL, an article `source#id`, or a fragment of a path.

    `host` is the host of the site. None: the URL's host; without a URL, the stack's only site.

    `refused`: what `read_refused` returned, if the caller has read it. Raises Unclear, UnknownSite, BadConfiguration, and the
    errors of the table and the bucket.
    """
    return tell(read(question(asked, host, now, refused), now), now)


def read_refused(site: str, now: datetime) -> Sequence[Refusal]:
    """The refusals of a site that are searched for a page, newest first, and one more if there are more."""
    return refusals.read(site, REFUSED_SEARCHED_MAX + 1, now)


def question(asked: str, host: str | None, now: datetime, refused: Sequence[Refusal] | None = None) -> Question:
    """Find what a user asks about. Raises as `story_of`."""
    text = asked.strip()
    source, _, id_ = text.partition("#")
    if "://" in text:
        return Question(asked, *page_of(text, host), refused=refused)
    if id_ and SOURCE.fullmatch(source):
        return Question(asked, _site(host), article=article_name(source, id_), refused=refused)
    host_like = text.partition("/")[0].lower()
    if {*sites.hosts()} & {host_like, _other(host_like)}:
        return Question(asked, *page_of(f"https://{text}", host), refused=refused)
    site = _site(host)
    return _matching(text, asked, site, read_refused(site.host, now) if refused is None else refused)


def page_of(url: str, host: str | None) -> tuple[Site, str]:
    """The site of a page, and the page's URL on it. `host` is the host of the site; None: the URL's host.

    Raises Unclear for a text that is no URL, UnknownSite, and BadConfiguration.
    """
    try:
        url = canonical(url)
    except ValueError as error:
        raise Unclear(str(error)) from None
    site = _site(host or host_of(url), url)
    return site, on_site(url, site.host)


def _site(host: str | None, url: str = "") -> Site:
    """Return a site by its host; without a host the stack's only site. An error lists the sites."""
    if host is None:
        hosts = sites.hosts()
        if len(hosts) != 1:
            raise Unclear(f"this stack has {len(hosts)} sites: choose one with --site. {_listing_of(hosts)}")
        [host] = hosts
    try:
        return sites.load(host)
    except sites.UnknownSite as error:
        hosts = sites.hosts()
        hint = f". Did you mean {url.replace(host, _other(host), 1)}?" if url and _other(host) in hosts else ""
        raise sites.UnknownSite(f"{error}{hint}. {_listing_of(hosts)}") from None


def _other(host: str) -> str:
    """The host with `www.`, or without it."""
    return host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"


def _listing_of(hosts: Collection[str]) -> str:
    return f"The stack's sites: {', '.join(hosts) or 'none'}"


# ── a fragment of a path ──


def _matching(text: str, asked: str, site: Site, refused: Sequence[Refusal]) -> Question:
    """The page whose path ends with a text, else the page whose path contains it. Raises Unclear for none or several."""
    wanted = unquote(text).strip("/").casefold()
    if not wanted:
        raise Unclear("give a URL, an article as source#id, or a part of a path")
    matches: dict[str, None] = {}
    count, is_cut = 0, False
    for url in _entry_urls(site):
        is_cut = count >= SEARCHED_MAX
        if is_cut:
            break
        count += 1
        if wanted in _path(url).casefold():
            matches[url] = None
    spellings = (_spelling(refusal.url, site) for refusal in refused if refusal.url)
    matches |= {url: None for url in spellings if url and wanted in _path(url).casefold()}
    scope = f"of the newest {count:,} entries of {site.host}" if is_cut else f"of {site.host}"
    if not matches:
        raise Unclear(
            f"no page {scope} has {text!r} in its path. Removed and held pages are not searched: give the whole URL"
        )
    ends = [url for url in matches if f"/{_path(url).casefold()}".rstrip("/").endswith(f"/{wanted}")]
    if len(best := ends or list(matches)) == 1:
        others = [url for url in matches if url not in best]
        return Question(asked, site, best[0], others=tuple(others[:MATCHES_MAX]), refused=refused)
    shown = "".join(f"\n  {url}" for url in [*ends, *(url for url in matches if url not in ends)][:MATCHES_MAX])
    more = f"\n  and {len(matches) - MATCHES_MAX:,} more" if len(matches) > MATCHES_MAX else ""
    raise Unclear(
        f"{len(matches):,} pages {scope} have {text!r} in their path. Did you mean one of these?{shown}{more}"
    )


def _entry_urls(site: Site) -> Iterator[str]:
    """The URLs of a site's entries: news sitemaps first, then the newest shards."""
    files = [file for file in all_files(site) if is_news(file) or is_shard(file)]
    yield from site.pages_by_url
    for file in sorted(sorted(files, reverse=True), key=is_news, reverse=True):
        for item in table.query(items.file_pk(site.host, file), consistent=False):
            if "loc" in item:
                yield item["loc"]


def _path(url: str) -> str:
    """Path and query of a URL as people read them, without the first slash."""
    parts = urlsplit(url)
    return unquote(urlunsplit(("", "", parts.path, parts.query, ""))).removeprefix("/")


# ── the facts ──


def read(question: Question, now: datetime) -> Facts:
    """What the table and the files hold of a page or an article. Raises the errors of the table and the bucket."""
    unsearched: list[str] = []
    site, name = question.site, question.article
    articles = _articles(site, [name] if name else [])
    url = question.url or next((article.url for article in articles if article.url), "")
    lines: tuple[Item, ...] = ()
    claim = None
    if url:
        item = table.get(*items.claim_key(site.host, url))
        claim = items.read_claim(item, url) if item else None
        stored = _kept(items.story_pk(site.host, url), now, consistent=True)
        lines = tuple(_first(stored, HEARD_SEARCHED_MAX, "deliveries of the page", unsearched))[::-1]
    names = dict.fromkeys([*([name] if name else []), *([claim.owner] if claim else []), *map(article_of, lines)])
    held = dict(_held(site, url, unsearched)) if url and (name or not (claim and claim.live)) else {}
    names |= dict.fromkeys(held)
    articles = _articles(site, names)
    refused = read_refused(site.host, now) if question.refused is None else question.refused
    received = [
        *(_line(line, url) for line in lines),
        *_refused(_first(iter(refused), REFUSED_SEARCHED_MAX, "refused deliveries", unsearched), site, url, names),
        *_quarantined(site, url, names, now, unsearched),
    ]
    facts = Facts(
        asked=question.asked,
        site=site,
        url=url,
        article=name,
        claim=claim,
        articles=articles,
        general={article.name: entry for article in articles if (entry := _general(site, article))},
        held=held,
        received=tuple(sorted(received, key=lambda each: each.at)),
        unsearched=tuple(unsearched),
    )
    owner = facts.owner
    news = _entry(site, owner, owner.news, owner.first_published) if owner else None
    others = question.others
    if url and not (claim or articles):
        others += tuple(_known_variants(site, url))
    spellings = [url, *(article.url for article in articles if article.url and facts.is_here(article)), facts.page]
    return replace(
        facts,
        news=items.read_news(news) if news else None,
        files=tuple(read_files(site, spellings, _files(facts))) if url else (),
        others=others,
        page_state=_page_state(site, url),
    )


def _page_state(site: Site, url: str) -> PageState | None:
    item = table.get(*page_key(site.host, url)) if url and site.engines else None
    return read_page(item) if item else None


def _articles(site: Site, names: Iterable[str]) -> tuple[Article, ...]:
    stored = table.get_many(items.article_key(site.host, name) for name in names)
    return tuple(map(items.read_article, stored.values()))


def _kept(pk: str, now: datetime, *, consistent: bool = False) -> Iterator[Item]:
    """The items of a partition, newest first. They end before the first item that is past its time to live."""
    stored = table.query(pk, consistent=consistent, newest_first=True)
    return takewhile(lambda item: items.is_kept(item, now), stored)


def _first(stored: Iterator[_Each], number: int, what: str, unsearched: list[str]) -> Iterator[_Each]:
    """The first `number` of these. If there are more, adds a line to `unsearched`, which calls them `what`."""
    yield from islice(stored, number)
    if next(stored, None) is not None:
        unsearched.append(f"there are more than {number:,} {what}, and only {number:,} were searched")


def _held(site: Site, url: str, unsearched: list[str]) -> Iterator[tuple[str, ArticleEvent]]:
    """The articles that are held for a page, each with its event.

    A held article claims no URL. The page's story may lack its event, because a killed function writes no story.
    """
    due = table.query(items.due_pk(site.host), consistent=False)
    for item in _first(due, HELD_SEARCHED_MAX, "held articles", unsearched):
        event = from_message(item["message"]) if item["queue"] == "articles" else None
        if event and event.url and identity(event.url) == identity(url):
            yield event.name, event


def article_of(line: Item) -> str:
    """The name of the article that a line of a story is about: the middle of its sort key."""
    return "#".join(line["sk"].split("#")[1:-1])


def _entry(site: Site, article: Article, place: Place | None, published: datetime | None) -> Item | None:
    if not place or not article.url:
        return None
    return table.get(*items.entry_key(site.host, EntryKey(place.file, article.url, published)))


def _general(site: Site, article: Article) -> GeneralEntry | None:
    """The article's entry in its shard, to which the answer applies the site's rules for the general sitemap."""
    item = _entry(site, article, article.shard, None) if article.has_entries else None
    return items.read_general(item) if item else None


def _files(facts: Facts) -> list[str]:
    """The files that may list a page: the shards of its articles, the news sitemaps of its series, the configured pages."""
    host, here = facts.site.host, [article for article in facts.articles if article.shard or article.news]
    files = [PAGES_FILE] if facts.is_configured else []
    files += [place.file for article in here for place in (article.shard, article.news) if place]
    series = news_series(facts.site, facts.url)
    return files + items.series_files(items.read_series(series, table.get(items.places_pk(host), series)))


def read_files(
    site: Site, urls: Iterable[str], files: Iterable[str], *, tags: Sequence[str] = ("<loc>{}</loc>",)
) -> Iterator[FileRead]:
    """Read files, and see whether they list one of the URLs in one of the tags.

    An empty news sitemap lists the home page, but not as news.
    """
    spellings = [escaped(under_scheme(url, site)) for url in dict.fromkeys(urls)]
    locs = [tag.format(url).encode() for url in spellings for tag in tags]
    for file in dict.fromkeys(files):
        stored = bucket.read(site.host, file)
        lists = (
            stored is not None
            and any(loc in stored.body for loc in locs)
            and (not is_news(file) or b"<news:news>" in stored.body)
        )
        yield FileRead(file, lists, stored.changed if stored else None)


# ── what was received ──


def _line(line: Item, url: str) -> Received:
    sent_at, named = line.get("said_at"), line.get("names")
    return Received(
        parse(line["received_at"]),
        line["action"],
        article_of(line),
        line["outcome"],
        line.get("reason", ""),
        parse(sent_at) if sent_at else None,
        named if named and identity(named) != identity(url) else None,
    )


def _refused(refused: Iterable[Refusal], site: Site, url: str, names: Collection[str]) -> Iterator[Received]:
    """The refused and ignored deliveries that name the page or one of its articles."""
    for refusal in refused:
        name = article_name(refusal.source, refusal.id)
        spelling = _spelling(refusal.url, site) if refusal.url else None
        is_page = bool(url and spelling) and identity(spelling or "") == identity(url)
        if is_page or (refusal.id and name in names):
            by = name if refusal.id else refusal.source
            other = spelling if spelling and not is_page else None
            yield Received(refusal.at, "", by, refusal.outcome, refusal.reason, url=other)


def _quarantined(
    site: Site, url: str, names: Collection[str], now: datetime, unsearched: list[str]
) -> Iterator[Received]:
    """Quarantined events about the page, also those of an unknown site."""
    ids = {name.partition("#")[2] for name in names} - {""}
    for where, of in ((site.host, ""), (UNKNOWN_SITE, " of unknown sites")):
        stored = _kept(items.quarantine_pk(where), now)
        for item in _first(stored, QUARANTINED_SEARCHED_MAX, f"events{of} in quarantine", unsearched):
            if is_about(item["event"], url, site, ids):
                at = parse(item["sk"].partition("#")[0])
                yield Received(at, "", "", "quarantined", item["reason"])


def is_about(event: str, url: str, site: Site, ids: Collection[str]) -> bool:
    """Whether a quarantined event is about the page: by its URL, a previous URL, or the id of one of the page's articles.

    An id does not count where the event names a page of another host, because that site has ids of its own.
    """
    for data in _objects(event):
        previous = data.get("previous_urls")
        named = [_spelling(text, site) for text in (data.get("url"), *(previous if isinstance(previous, list) else ()))]
        is_own = named[0] is None or host_of(named[0]) == site.host
        is_page = url and identity(url) in [identity(each) for each in named if each]
        if is_page or (is_own and str(data.get("id")).strip() in ids):
            return True
    return False


def _objects(event: str) -> list[dict[str, Any]]:
    """The parts of an event that may hold URL and id: `detail` of the bus, `data` of a webhook, or the event itself."""
    try:
        document = json.loads(event)
    except (ValueError, RecursionError):
        # Reversed, so that of several values of one name the first counts.
        return [{name: _text(value) for name, value in reversed(_URL_OR_ID.findall(event))}]
    parts = (document.get("detail"), document.get("data"), document) if isinstance(document, dict) else ()
    return [part for part in parts if isinstance(part, dict)]


def _text(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted


def _spelling(text: object, site: Site) -> str | None:
    """The canonical form of a URL in an event; None for a text that is no URL.

    A path alone is resolved against the site's home page.
    """
    try:
        return on_site(canonical(urljoin(site.home, text.strip())), site.host) if isinstance(text, str) else None
    except ValueError:
        return None


# ── URLs like this one ──


def _known_variants(site: Site, url: str) -> Iterator[str]:
    """Pages of the site that differ from an unknown page by a slash, by case, by escapes or by the query."""
    variants = list(_variants(url, site))
    claims = table.get_many(items.claim_key(site.host, variant) for variant in variants)
    for variant in variants:
        claim = claims.get(items.claim_key(site.host, variant))
        if claim:
            yield claim.get("url", variant)
        elif next(table.query(items.story_pk(site.host, variant)), None):  # a held article has no claim
            yield variant


def _variants(url: str, site: Site) -> Iterator[str]:
    parts = urlsplit(url)
    readable = unquote(unquote(parts.path))
    paths = dict.fromkeys([parts.path, readable, normalize("NFC", readable), normalize("NFD", readable)])
    paths |= dict.fromkeys([path.lower() for path in paths])
    paths |= dict.fromkeys([path.rstrip("/") if path.endswith("/") else f"{path}/" for path in paths])
    seen = {identity(url)}
    for path in paths:
        for query in dict.fromkeys([parts.query, ""]):
            variant = _spelling(urlunsplit(parts._replace(path=path, query=query)), site)
            if variant and identity(variant) not in seen:
                seen.add(identity(variant))
                yield variant
