"""Why a page is in the sitemaps or out of them: gathers the facts, and writes them as plain lines."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urljoin

from stoppress.aws import bucket, items, sites, table
from stoppress.model.article import Article, Claim, EntryKey
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.file_names import PAGES_FILE
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.places import Place
from stoppress.model.rules import excluding_rule, names_rule
from stoppress.model.site import UNKNOWN_SITE, Site
from stoppress.primitives.text import escaped
from stoppress.primitives.urls import canonical, host_of, identity, on_site
from stoppress.sitemaps.tags import under_scheme
from stoppress_cli.stack.find import BadRequest

# A longer story is in the log.
STORY_LINES_MAX = 50
QUARANTINED_MAX = 10
# URL and id in an event of which quarantine kept only the beginning.
_URL_OR_ID = re.compile(r'"(url|id)"\s*:\s*("(?:[^"\\]|\\.)*"|\d{1,20}\b)')


@dataclass(frozen=True)
class Facts:
    """What is known of a page: its claim, its articles now and before, its entries, and the files that list it."""

    url: str
    site: Site
    claim: Claim | None
    articles: tuple[Article, ...]
    entries: Mapping[str, GeneralEntry]  # by article, also of articles that have moved to another page
    general: GeneralEntry | None
    news: NewsEntry | None
    listings: tuple[tuple[str, datetime], ...]  # the files that list it, each with its last change
    story: tuple[dict[str, Any], ...]
    quarantined: tuple[dict[str, Any], ...]


def gather(url: str, host: str | None) -> Facts:
    """What the table and the files hold of a page; `host` is the site to look in, if not the URL's.

    Raises as `page_of`, and the errors of the table and the bucket.
    """
    site, url = page_of(url, host)
    item = table.get(*items.claim_key(site.host, url))
    claim = items.read_claim(item, url) if item else None
    story = tuple(table.query(items.story_pk(site.host, url)))
    names = dict.fromkeys([claim.owner] if claim else [])
    names |= dict.fromkeys(article_of(line) for line in story)
    stored = table.get_many(items.article_key(site.host, name) for name in names)
    articles = tuple(map(items.read_article, stored.values()))
    entries = {article.name: entry for article in articles if (entry := _general(site, article))}
    shown = next((article for article in articles if article.url == url and article.has_entries), None)
    files = [PAGES_FILE] if identity(url) in site.pages_by_url else []
    general = news = None
    if shown:
        general = entries.get(shown.name)
        news = _entry(site, url, shown.news, shown.first_published)
        files = [place.file for place in (shown.shard, shown.news) if place] + files
    return Facts(
        url,
        site,
        claim,
        articles,
        entries,
        general,
        items.read_news(news) if news else None,
        tuple(listing(site, [url], files)),
        story,
        tuple(_quarantined(site, url, names)),
    )


def page_of(url: str, host: str | None) -> tuple[Site, str]:
    """The site of a page, and the page's URL on it. `host` is the site, if not the URL's.

    Raises BadRequest for a text that is no URL, UnknownSite, and BadConfiguration.
    """
    try:
        url = canonical(url)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    site = sites.load_usable(host or host_of(url))
    return site, on_site(url, site.host)


def article_of(line: items.Item) -> str:
    """The name of the article that a line of a story is about: the middle of its sort key."""
    return "#".join(line["sk"].split("#")[1:-1])


def _entry(site: Site, url: str, place: Place | None, published: datetime | None) -> dict[str, Any] | None:
    return table.get(*items.entry_key(site.host, EntryKey(place.file, url, published))) if place else None


def _general(site: Site, article: Article) -> GeneralEntry | None:
    """The article's entry in its shard; the site's rules are applied to it."""
    item = _entry(site, article.url, article.shard, None) if article.has_entries and article.url else None
    return items.read_general(item) if item else None


def listing(site: Site, urls: Iterable[str], files: Iterable[str]) -> Iterator[tuple[str, datetime]]:
    """Those of the files that list one of the URLs now, each with its last change."""
    locs = [f"<loc>{escaped(under_scheme(url, site))}</loc>".encode() for url in urls]
    for file in dict.fromkeys(files):
        stored = bucket.read(site.host, file)
        if stored and any(loc in stored.body for loc in locs):
            yield file, stored.changed


def _quarantined(site: Site, url: str, names: Collection[str]) -> list[dict[str, Any]]:
    """Quarantined events about the page, also those of an unknown site; oldest first."""
    ids = {name.partition("#")[2] for name in names}
    kept = [item for where in (site.host, UNKNOWN_SITE) for item in table.query(items.quarantine_pk(where))]
    of_page = (item for item in kept if is_about(item["event"], url, site, ids))
    return sorted(of_page, key=lambda item: str(item["sk"]))


def is_about(event: str, url: str, site: Site, ids: Collection[str]) -> bool:
    """Whether a quarantined event is about the page: by its URL, a previous URL, or the id of one of the page's articles.

    An id does not count where the event names a page of another host, because that site has ids of its own.
    """
    for data in _objects(event):
        previous = data.get("previous_urls")
        urls = [_spelt(text, site) for text in (data.get("url"), *(previous if isinstance(previous, list) else ()))]
        is_own = urls[0] is None or host_of(urls[0]) == site.host
        if url in urls or (is_own and str(data.get("id")).strip() in ids):
            return True
    return False


def _objects(event: str) -> list[dict[str, Any]]:
    """The parts of an event that may hold URL and id: `detail` of the bus, `data` of a webhook, or the event itself."""
    try:
        document = json.loads(event)
    except (ValueError, RecursionError):
        # The first of a name counts.
        return [{name: _text(value) for name, value in reversed(_URL_OR_ID.findall(event))}]
    parts = (document.get("detail"), document.get("data"), document) if isinstance(document, dict) else ()
    return [part for part in parts if isinstance(part, dict)]


def _text(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted


def _spelt(text: object, site: Site) -> str | None:
    """The canonical form of a URL in an event, where a path belongs to the site; None for a text that is no URL."""
    try:
        return on_site(canonical(urljoin(site.home, text.strip())), site.host) if isinstance(text, str) else None
    except ValueError:
        return None


def explain(facts: Facts, now: datetime) -> list[str]:
    """The page's story in lines: the files that list it, what decided that, and the events of 90 days."""
    lines = [facts.url]
    lines += [f"  {line}" for line in dict.fromkeys(_where(facts))]
    for article in facts.articles:
        lines += [f"  {line}" for line in _of_article(facts, article, now)]
    if facts.story:
        lines.append("  what was heard of it in 90 days:")
        hidden = len(facts.story) - STORY_LINES_MAX
        lines += [f"    … {hidden} earlier lines"] if hidden > 0 else []
        lines += [f"    {_heard(line)}" for line in facts.story[-STORY_LINES_MAX:]]
    if facts.quarantined:
        lines.append("  in quarantine, not applied:")
        newest = facts.quarantined[-QUARANTINED_MAX:]
        lines += [f"    {item['sk'].partition('#')[0]}  {item['reason']}" for item in newest]
    if not (facts.story or facts.articles or facts.claim or facts.listings):
        lines.append(
            "  nothing was ever heard of it that could be recorded: see whether its source sends it. What a webhook was"
            " refused for is in the log of receive_webhook, what a feed left out in that of poll_feeds, or receive_push"
        )
    return lines


def _where(facts: Facts) -> Iterator[str]:
    files = [file for file, _ in facts.listings]
    for file, changed in facts.listings:
        until = f", until {_at(facts.news.expires_at)}" if facts.news and file.startswith("sitemap-news") else ""
        yield f"listed in {file}, last changed {_at(changed)}{until}"
    if identity(facts.url) in facts.site.pages_by_url:
        yield f"a page of the site's configuration: it stands in {PAGES_FILE} and in no other shard"
    if not files:
        yield "listed in no file"
    if facts.general:
        yield from _ruled(facts, "general", facts.general)
    if facts.news:
        yield from _ruled(facts, "news", facts.news)
    owner = next((each for each in facts.articles if facts.claim and each.name == facts.claim.owner), None)
    keeps_out = owner is not None and owner.state in ("held", "excluded")  # the article's own lines say so
    if facts.claim and not facts.claim.live and not keeps_out:
        yield f"removed or moved away by {facts.claim.owner}, as of {facts.claim.order.timestamp or facts.claim.order.heard}"


def _ruled(facts: Facts, target: Literal["general", "news"], entry: GeneralEntry | NewsEntry) -> Iterator[str]:
    if rule := excluding_rule(facts.site.rules, target, entry.loc, entry.traits):
        yield f"kept out of the {target} sitemap by {rule}"


def _of_article(facts: Facts, article: Article, now: datetime) -> Iterator[str]:
    reason, not_news = _kept_out(facts, article, "general"), _not_news(facts, article, now)
    state = ("hidden" if reason and not_news else "listed") if article.has_entries else article.state
    yield f"article {article.name}: {state}, first heard of {_at(article.heard_at)}"
    if article.url and article.url != facts.url:
        yield f"  its page is {article.url}"
    if reason:
        yield f"  {reason}"
    if article.first_published:
        yield f"  first published {_at(article.first_published)}"
    if article.lastmod:
        yield f"  last changed {_at(article.lastmod)}"
    if article.release_at:
        yield f"  held until {_at(article.release_at)}"
    if article.has_entries and not_news:
        yield f"  not in the news sitemap: {not_news}"
    for left_out in article.dropped:
        yield f"  left out of its entry: {left_out}"


def _kept_out(facts: Facts, article: Article, target: Literal["general", "news"]) -> str:
    """Why an article is not in a sitemap: the stored decision, or the rule that excludes it today."""
    decided = article.reason if target == "general" else article.news_reason
    if decided and not names_rule(decided):
        return decided
    entry = facts.entries.get(article.name)
    return excluding_rule(facts.site.rules, target, entry.loc, entry.traits) if entry else ""


def _not_news(facts: Facts, article: Article, now: datetime) -> str:
    if (reason := _kept_out(facts, article, "news")) or not article.first_published:
        return reason
    expired_at = article.first_published + NEWS_WINDOW
    return f"48 hours were over at {_at(expired_at)}" if expired_at <= now else ""


def _heard(line: dict[str, Any]) -> str:
    _, *name, outcome = line["sk"].split("#")
    reason = line.get("reason", "")
    of_then = "by the rules of that time, " if names_rule(reason) else ""
    why = f": {of_then}{reason}" if reason else ""
    said_at = line.get("said_at")
    when = f" of {said_at[:19]}Z" if said_at else ""
    names = f" at {line['names']}" if "names" in line else ""
    return f"{line['heard_at'][:19]}Z  {line['action']} by {'#'.join(name)}{names}{when}  {outcome}{why}"


def _at(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"
