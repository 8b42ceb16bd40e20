"""What a user asks about: a page by its URL, an article by its name, or a page by a part of its path. Also URLs like a page's."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from unicodedata import normalize
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from stoppress.aws import items, refusals, sites, table
from stoppress.aws.inventory import all_files, read_claims
from stoppress.aws.refusals import Refusal
from stoppress.model.event import article_name
from stoppress.model.file_names import is_news, is_shard
from stoppress.model.site import SOURCE, Site
from stoppress.primitives.urls import canonical, host_of, identity, on_site

# How many entries are searched for a fragment of a path, and how many matches are shown.
ENTRIES_SEARCHED_MAX = 50_000
MATCHES_MAX = 10
# How many refused deliveries are searched, the newest ones. If they have their usual size, the search takes at most six queries.
REFUSED_SEARCHED_MAX = 5_000


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


def read_refused(site: str, now: datetime) -> Sequence[Refusal]:
    """The refusals of a site that are searched for a page, newest first, and one more if there are more."""
    return refusals.read(site, REFUSED_SEARCHED_MAX + 1, now)


def find_question(asked: str, host: str | None, now: datetime, refused: Sequence[Refusal] | None = None) -> Question:
    """Find what a user asks about. `host` is the site; None: the URL's host, or the stack's only site.

    `refused`: what `read_refused` returned, if the caller has read it. Raises Unclear, UnknownSite, BadConfiguration, and the table's
    errors.
    """
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
    urls = list(islice(_entry_urls(site), ENTRIES_SEARCHED_MAX + 1))
    is_cut = len(urls) > ENTRIES_SEARCHED_MAX
    spellings = (spell_url(refusal.url, site) for refusal in refused if refusal.url)
    searched = dict.fromkeys([*urls[:ENTRIES_SEARCHED_MAX], *filter(None, spellings)])
    matches = [url for url in searched if wanted in _path(url).casefold()]
    scope = f"of the newest {ENTRIES_SEARCHED_MAX:,} entries of {site.host}" if is_cut else f"of {site.host}"
    if not matches:
        raise Unclear(
            f"no page {scope} has {text!r} in its path. Removed and held pages are not searched: give the whole URL"
        )
    ends = [url for url in matches if f"/{_path(url).casefold()}".rstrip("/").endswith(f"/{wanted}")]
    best_first = [*ends, *(url for url in matches if url not in ends)]
    if len(ends or matches) == 1:
        return Question(asked, site, best_first[0], others=tuple(best_first[1 : MATCHES_MAX + 1]), refused=refused)
    shown = "".join(f"\n  {url}" for url in best_first[:MATCHES_MAX])
    more = f"\n  and {len(matches) - MATCHES_MAX:,} more" if len(matches) > MATCHES_MAX else ""
    raise Unclear(
        f"{len(matches):,} pages {scope} have {text!r} in their path. Did you mean one of these?{shown}{more}"
    )


def _entry_urls(site: Site) -> Iterator[str]:
    """The URLs of a site's entries: news sitemaps first, then the newest shards."""
    files = [file for file in all_files(site) if is_news(file) or is_shard(file)]
    yield from site.pages_by_url
    for file in sorted(sorted(files, reverse=True), key=is_news, reverse=True):
        stored = table.query(items.file_pk(site.host, file), consistent=False)
        yield from (item["loc"] for item in stored if "loc" in item)


def _path(url: str) -> str:
    """Path and query of a URL as people read them, without the first slash."""
    parts = urlsplit(url)
    return unquote(urlunsplit(("", "", parts.path, parts.query, ""))).removeprefix("/")


def spell_url(text: object, site: Site) -> str | None:
    """Return the canonical form of a URL in an event; None for a text that is no URL.

    A path alone is resolved against the site's home page.
    """
    try:
        return on_site(canonical(urljoin(site.home, text.strip())), site.host) if isinstance(text, str) else None
    except ValueError:
        return None


# ── URLs like this one ──


def find_variants(site: Site, url: str) -> Iterator[str]:
    """Pages of the site that differ from an unknown page by a slash, by case, by escapes or by the query."""
    variants = list(_variants(url, site))
    claims = read_claims(site.host, variants)
    for variant in variants:
        if variant in claims:
            yield claims[variant].url
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
            variant = spell_url(urlunsplit(parts._replace(path=path, query=query)), site)
            if variant and identity(variant) not in seen:
                seen.add(identity(variant))
                yield variant
