"""Judge from a page's response whether search engines can index the page as the sitemap lists it. Pure.

Sources: Google's documentation of robots meta tags, of canonical URLs and of Article structured data; the HTML standard.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from stoppress.feeds.websub import linked_in_headers
from stoppress.http.client import Response
from stoppress.primitives.instants import iso, parse
from stoppress.primitives.urls import identity, linked

# Only this much of a larger page is parsed, which takes about a second.
PAGE_BYTES_MAX = 2_000_000
# Some CMSs round dates to the minute.
DATE_TOLERANCE = timedelta(minutes=1)

# Google and Bing obey the rules for all crawlers and those for the crawler itself.
_CRAWLERS = {"googlebot", "googlebot-news", "bingbot"}
_NOINDEX = {"noindex", "none"}
# Rules with a value. The name before their colon is not a crawler.
_VALUED_RULES = {"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"}
# schema.org's Article and its subtypes, apart from those whose name ends in Article.
_ARTICLE_TYPES = {"Report", "SocialMediaPosting", "BlogPosting", "LiveBlogPosting", "DiscussionForumPosting"}
_HTML_TYPES = {"", "text/html", "application/xhtml+xml"}
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
# The HTML standard: the declaration is in the first 1,024 bytes.
_CHARSET_BYTES_MAX = 1_024
_VALUE_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """Whether a page is ready. `reason` continues the sentence "the page …"; it is empty if nothing is wrong.

    `kind` is status, redirect, noindex, canonical, date, title, unreachable, or robots: robots.txt forbids the check, so the page
    counts as ready. `is_gone`: it answers 404 or 410.
    """

    ready: bool
    reason: str = ""
    kind: str = ""
    is_gone: bool = False


def judge(url: str, published: datetime | None, response: Response) -> PageVerdict:
    """Compare the answer to a GET of a page with the URL and the publication date in the sitemap.

    The request must not follow redirects.
    """
    location = response.headers.get("location", "")
    if 300 <= response.status < 400 and location:
        return PageVerdict(ready=False, reason=f"redirects to {_target(url, location)}", kind="redirect")
    if response.status != 200:
        reason, is_gone = f"answers {response.status}", response.status in (404, 410)
        return PageVerdict(ready=False, reason=reason, kind="status", is_gone=is_gone)
    kind, reason = next(_faults(url, published, response), ("", ""))
    return PageVerdict(ready=not reason, reason=reason, kind=kind)


def site_name(home: Response) -> str:
    """Return the name that Google shows for a site: that of WebSite in the home page's JSON-LD, else og:site_name, else empty.

    Source: Google's documentation of site names.
    """
    page = _Page(home)
    names = [node.get("name") for node in page.nodes() if "WebSite" in _types(node)]
    metas = page.elements["meta"]
    in_metas = (meta.get("content", "") for meta in metas if meta.get("property", "").lower() == "og:site_name")
    return next((name.strip() for name in (*names, *in_metas) if isinstance(name, str) and name.strip()), "")


def title_of(response: Response) -> str:
    """Return the title of a page; empty without one."""
    return _Page(response).title


def _faults(url: str, published: datetime | None, response: Response) -> Iterator[tuple[str, str]]:
    """Yield the kind and the reason of each fault of a page, the gravest first."""
    page = _Page(response)
    if _header_forbids(response.headers.get("x-robots-tag", "")):
        yield "noindex", "has noindex in the header X-Robots-Tag"
    for meta in page.elements["meta"]:
        name = meta.get("name", "").lower()
        if name in {"robots", *_CRAWLERS} and _forbids(meta.get("content", "").split(",")):
            yield "noindex", f"has noindex in its meta element {name}"
    for canonical in (*linked_in_headers("canonical", response.headers, url), *page.canonicals(url)):
        if not _is_same(canonical, url):
            yield "canonical", f"has {canonical} as its canonical URL"
    dates = list(page.dates())
    if published and dates and not any(abs(date - published) <= DATE_TOLERANCE for date in dates):
        yield "date", f"has the datePublished {iso(dates[0])} in its JSON-LD, and the sitemap has {iso(published)}"
    if page.is_html and not page.title:
        yield "title", "has no title"


def _target(url: str, location: str) -> str:
    with suppress(ValueError):
        location = urljoin(url, location.strip())
    return location[:_VALUE_CHARACTERS_MAX]


def _is_same(url: str, listed: str) -> bool:
    """Return True if two URLs are spellings of one page. The protocol makes no difference on the same host."""
    try:
        return identity(linked(url, listed)) == identity(linked(listed, listed))
    except ValueError:
        return False


def _header_forbids(header: str) -> bool:
    """Return True if X-Robots-Tag has noindex for all crawlers or one of _CRAWLERS.

    A crawler's name applies to the rules after it, up to the next name.
    """
    crawler = ""
    for part in header.lower().split(","):
        name, colon, rule = part.partition(":")
        if not colon or name.strip() in _VALUED_RULES:
            rule = part
        else:
            crawler = name.strip()
        if (not crawler or crawler in _CRAWLERS) and _forbids([rule]):
            return True
    return False


def _forbids(rules: Iterable[str]) -> bool:
    return any(":" not in rule and not _NOINDEX.isdisjoint(rule.lower().split()) for rule in rules)


def _text(response: Response) -> str:
    body = response.body[:PAGE_BYTES_MAX]
    in_header = _CHARSET.search(response.headers.get("content-type", ""))
    charset = in_header or _CHARSET.search(body[:_CHARSET_BYTES_MAX].decode("latin-1"))
    name = charset[1] if charset else "utf-8"
    with suppress(LookupError, UnicodeError):
        return body.decode(name, "replace")
    return body.decode("utf-8", "replace")


class _Page(HTMLParser):
    """The elements of a page that declare something to search engines.

    Ignores templates, `noscript` and SVG pictures, whose titles are not the page's.
    """

    _OUTSIDE = frozenset({"template", "noscript", "svg"})
    _READ = frozenset({"meta", "link", "base", "title", "script"})

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.is_html = response.headers.get("content-type", "").partition(";")[0].strip().lower() in _HTML_TYPES
        # The attributes of elements, by tag. Titles and scripts have their text as the attribute "".
        self.elements: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        self._outside = 0
        self._text: list[str] = []
        if self.is_html:
            # AssertionError is HTMLParser's, for a marked section with an unknown keyword; what was read counts.
            with suppress(AssertionError):
                self.feed(_text(response))  # without close(), which takes quadratic time for many unfinished tags

    @property
    def title(self) -> str:
        """Return the first title that is not empty."""
        return next((text for title in self.elements["title"] if (text := title.get("", "").strip())), "")

    def canonicals(self, url: str) -> Iterator[str]:
        """Yield the page's canonical links as absolute URLs. A link that is no URL stays as it is."""
        bases = (base["href"] for base in self.elements["base"] if base.get("href"))
        base = next((_target(url, base) for base in bases), url)
        links = (link for link in self.elements["link"] if "canonical" in link.get("rel", "").lower().split())
        return (_target(base, link.get("href", "")) for link in links)

    def dates(self) -> Iterator[datetime]:
        """Yield the datePublished of each article in the page's JSON-LD. A date without time or zone is left out."""
        for article in self.nodes():
            if not any(name.endswith("Article") or name in _ARTICLE_TYPES for name in _types(article)):
                continue
            texts = article.get("datePublished")
            for text in texts if isinstance(texts, list) else [texts]:
                with suppress(ValueError):
                    yield parse(text if isinstance(text, str) else "")

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of the page's JSON-LD: those in lists, in `@graph` and in `mainEntity`, not in other properties."""
        waiting: deque[Any] = deque()
        for script in self.elements["script"]:
            if script.get("type", "").lower().startswith("application/ld+json"):
                with suppress(ValueError, RecursionError):
                    waiting.append(json.loads(script.get("", "").strip(), strict=False))
        while waiting:
            node = waiting.popleft()
            if isinstance(node, list):
                waiting += node
            elif isinstance(node, dict):
                yield node
                waiting += [node.get("@graph"), node.get("mainEntity")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._outside += tag in self._OUTSIDE
        if tag in self._READ and not self._outside:
            # Of two attributes of one name, the first counts.
            self.elements[tag].append({name: (value or "").strip() for name, value in reversed(attrs)})
            self._text = []

    def handle_endtag(self, tag: str) -> None:
        if tag in self._OUTSIDE and self._outside:
            self._outside -= 1
        elif tag in ("title", "script") and self.elements[tag] and not self._outside:
            self.elements[tag][-1].setdefault("", "".join(self._text))
            self._text = []

    def handle_data(self, data: str) -> None:
        if not self._outside:
            self._text.append(data)


def _types(node: dict[str, Any]) -> set[str]:
    """Return the types of an object, without the URL or the prefix of schema.org."""
    types = node.get("@type")
    names = types if isinstance(types, list) else [types]
    return {re.split("[/#:]", name)[-1] for name in names if isinstance(name, str)}
