"""Find the page, the article or the story that a user asks about, by URL, name or words. Find similar URLs of an unknown page."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from unicodedata import normalize
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from stoppress.aws import items, refusals, sites, table
from stoppress.aws.inventory import all_files, news_entries, read_claims
from stoppress.aws.refusals import Refusal
from stoppress.model.event import ArticleEvent, article_name, from_message
from stoppress.model.file_names import is_shard
from stoppress.model.site import SOURCE, Site
from stoppress.primitives.urls import canonical, host_of, identity, on_site

# How many stories are searched for words, and how many matches are shown.
STORIES_SEARCHED_MAX = 50_000
MATCHES_MAX = 10
# How many refused deliveries are searched, the newest ones. If they have their usual size, the search takes at most six queries.
REFUSED_SEARCHED_MAX = 5_000


class Unclear(ValueError):
    """A question about no page, or about several. The text contains what to enter instead."""


@dataclass(frozen=True)
class Match:
    """A story that a search found. `target` is its URL, or its article's name if it has none. `state` is its outcome at `at`."""

    target: str
    title: str = ""
    state: str = "in the general sitemap"
    at: datetime | None = None
    id: str = ""

    @property
    def path(self) -> str:
        """Return path and query of the URL, unquoted and without the first slash, in lower case."""
        parts = urlsplit(self.target)
        return _normal(urlunsplit(("", "", parts.path, parts.query, ""))).removeprefix("/") if parts.scheme else ""

    @property
    def text(self) -> str:
        """Return the text to search."""
        return f"{_normal(self.title)} {self.path or self.target.casefold()} {self.id.casefold()}"


class Several(Unclear):
    """A search that found several stories, the best first."""

    def __init__(self, text: str, scope: str, matches: Sequence[Match]) -> None:
        best = matches[:MATCHES_MAX]
        shown = [f"{match.target}{f'  {match.title}' if match.title else ''}  ({match.state})" for match in best]
        more = [f"and {len(matches) - MATCHES_MAX:,} more"] if len(matches) > MATCHES_MAX else []
        lines = "".join(f"\n  {line}" for line in [*shown, *more])
        summary = f"{len(matches):,} stories {scope} have {text!r} in headline, URL or id. Did you mean one of these?"
        super().__init__(f"{summary}{lines}")
        self.matches = tuple(matches)


@dataclass(frozen=True)
class Question:
    """The page, by its URL, or the article, by its name, that a user asks about. `asked` is the user's text.

    `refused` is the result of `read_refused`, if it was read already.
    """

    asked: str
    site: Site
    url: str = ""
    article: str = ""
    others: tuple[str, ...] = ()
    refused: Sequence[Refusal] | None = None


def read_refused(site: str, now: datetime) -> Sequence[Refusal]:
    """Return the refusals of a site that are searched for a page, newest first, and one more if there are more."""
    return refusals.read(site, REFUSED_SEARCHED_MAX + 1, now)


def find_question(asked: str, host: str | None, now: datetime, refused: Sequence[Refusal] | None = None) -> Question:
    """Find the page or article that a user asks about. `host` is the site; None: the URL's host, or the stack's only site.

    `refused`: the result of `read_refused`, if the caller has it. Raises Unclear, UnknownSite, BadConfiguration, and the table's errors.
    """
    text = asked.strip()
    source, _, id_ = text.partition("#")
    if id_ and SOURCE.fullmatch(source):
        return Question(asked, choose_site(host), article=article_name(source, id_), refused=refused)
    host_like = text.partition("/")[0].lower()
    if "://" not in text and {*sites.hosts()} & {host_like, _other_host(host_like)}:
        text = f"https://{text}"
    if "://" in text:
        try:
            url = canonical(text)
        except ValueError as error:
            raise Unclear(str(error)) from None
        site = choose_site(host or host_of(url), url)
        return Question(asked, site, on_site(url, site.host), refused=refused)
    site = choose_site(host)
    return _find_story(text, asked, site, read_refused(site.host, now) if refused is None else refused)


def choose_site(host: str | None, url: str = "") -> Site:
    """Return a site by its host; without a host the stack's only site. Raises Unclear, UnknownSite, BadConfiguration."""
    if host is None:
        hosts = sites.hosts()
        if len(hosts) != 1:
            raise Unclear(f"this stack has {len(hosts)} sites: give the host of one. {_listing_of(hosts)}")
        [host] = hosts
    try:
        return sites.load(host)
    except sites.UnknownSite as error:
        hosts = sites.hosts()
        other = _other_host(host)
        hint = f". Did you mean {url.replace(host, other, 1)}?" if url and other in hosts else ""
        raise sites.UnknownSite(f"{error}{hint}. {_listing_of(hosts)}") from None


def _other_host(host: str) -> str:
    """Return the host with `www.`, or without it."""
    return host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"


def _listing_of(hosts: Collection[str]) -> str:
    return f"The stack's sites: {', '.join(hosts) or 'none'}"


# ── words of a headline, or a part of a URL or an id ──


def _find_story(text: str, asked: str, site: Site, refused: Sequence[Refusal]) -> Question:
    """Return the only story that has the words, or whose path ends with the text. Raises Unclear for none, and Several."""
    words = _normal(text).strip("/").split()
    if not words:
        raise Unclear("give words from the headline, a URL or a part of it, or an article as source#id")
    searched = list(islice(_all_stories(site), STORIES_SEARCHED_MAX + 1))
    newest = f"the newest {STORIES_SEARCHED_MAX:,} of " if len(searched) > STORIES_SEARCHED_MAX else ""
    scope = f"of {newest}{site.host}"
    stories: dict[str, Match] = {}
    for match in (*searched[:STORIES_SEARCHED_MAX], *_refused_stories(site, refused)):
        if all(word in match.text for word in words):
            stories.setdefault(identity(match.target) if "://" in match.target else match.target, match)
    if not stories:
        raise Unclear(f"no story {scope} has {text!r} in its headline, its URL or its id")
    ending = f"/{_normal(text).strip('/')}"
    ends = [match for match in stories.values() if f"/{match.path}".rstrip("/").endswith(ending)]
    best_first = [*ends, *(match for match in stories.values() if match not in ends)]
    if len(ends or stories) > 1:
        raise Several(text, scope, best_first)
    target, others = best_first[0].target, tuple(match.target for match in best_first[1 : MATCHES_MAX + 1])
    if "://" in target:
        return Question(asked, site, target, others=others, refused=refused)
    return Question(asked, site, article=target, others=others, refused=refused)


def _all_stories(site: Site) -> Iterator[Match]:
    """Yield a site's stories: those in the news, held ones, and the newest shards."""
    for entry in news_entries(site.host):
        yield Match(entry.loc, entry.title, "in the news", entry.published)
    for event in held_events(site.host):
        yield Match(event.url or event.name, event.title, "held", event.published_at)
    yield from (Match(url) for url in site.pages_by_url)
    for file in sorted(filter(is_shard, all_files(site)), reverse=True):
        stored = table.query(items.file_pk(site.host, file), consistent=False)
        yield from (Match(item["loc"]) for item in stored if "loc" in item)


def _refused_stories(site: Site, refused: Sequence[Refusal]) -> Iterator[Match]:
    """Yield the stories that refusals contain."""
    for refusal in refused:
        target = spell_url(refusal.url, site) if refusal.url else article_name(refusal.source, refusal.id)
        if target:
            yield Match(target, refusal.title, refusal.outcome, refusal.at, id=refusal.id)


def held_events(host: str) -> Iterator[ArticleEvent]:
    """Yield the held events of a site, in the order of their release."""
    due = table.query(items.due_pk(host), consistent=False)
    events = (from_message(item["message"]) for item in due if item["queue"] == "articles")
    yield from (event for event in events if event.action == "publish")  # other events have pages recorded again


def _normal(text: str) -> str:
    return normalize("NFKC", unquote(text)).casefold().strip()


def spell_url(text: object, site: Site) -> str | None:
    """Return the canonical form of a URL in an event; None for a text that is no URL.

    A path alone is resolved against the site's home page.
    """
    try:
        return on_site(canonical(urljoin(site.home, text.strip())), site.host) if isinstance(text, str) else None
    except ValueError:
        return None


# ── similar URLs ──


def find_variants(site: Site, url: str) -> Iterator[str]:
    """Yield pages of the site that differ from an unknown URL by a slash, by case, by escapes or by the query."""
    parts = urlsplit(url)
    readable = unquote(unquote(parts.path))
    paths = dict.fromkeys([parts.path, readable, normalize("NFC", readable), normalize("NFD", readable)])
    paths |= dict.fromkeys([path.lower() for path in paths])
    paths |= dict.fromkeys([path.rstrip("/") if path.endswith("/") else f"{path}/" for path in paths])
    spellings = [urlunsplit(parts._replace(path=path, query=query)) for path in paths for query in (parts.query, "")]
    variants = {identity(variant): variant for text in spellings if (variant := spell_url(text, site))}
    variants.pop(identity(url), None)
    claims = read_claims(site.host, variants.values())
    for variant in variants.values():
        if variant in claims and claims[variant].owner:
            yield claims[variant].url
        elif next(table.query(items.story_pk(site.host, variant)), None):  # a held article has no claim
            yield variant
