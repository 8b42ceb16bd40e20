"""The links of a feed: which link of an entry is its page, and how relative links are resolved."""

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from stoppress.feeds.feed_media import pages_of

# feedparser resolves relative links and guids against this host, which cannot exist (RFC 6761). `web_url` replaces it
# with the feed's own host. In the base URL that feedparser gets, HERE precedes the path of the feed's URL, so that "story"
# and "/story" stay distinct.
NOWHERE = "feed.invalid"
HERE = "/here.invalid"
# Hosts of proxies: FeedBurner (techcrunch.com, jn.pt, arstechnica.com), feedsportal (rue89.com), and Pheedo
# (washingtonpost.com, in node-feedparser's tests).
_PROXY = re.compile(r"feeds\..+|feedproxy\..+|(?:.+\.)?(?:feedburner\.com|feedsportal\.com|pheedo\.com)")
# Repairs a link without a scheme: `www.example.com/7` (sqlservercentral.com in RSS Bandit's issue 1062).
_HOST_ALONE = re.compile(r"www\.[\w-]+\.[\w.-]+(?:[/?#]|$)", re.IGNORECASE)
# Nearly all links match this, and need no repair.
_USUAL = re.compile(r"https?://(?!http)\w[!-~]*")
# `#…` leads to the feed itself (RFC 3986, 4.4). `https:/story` has no host, which RFC 9110 requires (4.2.2).
_NO_PAGE = re.compile(r"#|https?:(?!//[\w\[])", re.IGNORECASE)
# Repairs `http://https://host/` (rochacbruno.com in marmite's issue 256; rue89.com in texts).
_SCHEME_TWICE = re.compile(r"\Ahttps?:/*(?=https?:/)", re.IGNORECASE)
# WordPress's short URL, as in the guids of techcrunch.com: `?p=446154`. It redirects to the page, and a sitemap must not
# list a URL that redirects.
_SHORT_FORM = re.compile(r"(?:.*&)?p=\d+(?:&.*)?")


def page_of(entry: Any, url: str, language: str | None) -> str | None:
    """Return the URL of an entry's page: the original behind a proxy, else an alternate of type HTML, else the permalink."""
    pages = sorted(
        pages_of(entry),
        # `rel="alternate"` comes before `rel="alternate stylesheet"` and before an empty `rel`.
        key=lambda link: (_is_translation(link.get("hreflang"), language), link.get("rel") != "alternate"),
    )
    canonical = [link.get("href") for link in dict.get(entry, "links", ()) if link.get("rel") == "canonical"]
    # dict.get, because feedparser's own `get` tries other names for a missing key.
    proxied = [dict.get(entry, name) for name in ("feedburner_origlink", "pheedo_origlink")]
    # An original is an absolute URL or a path from the root. It may also be a bare name.
    originals = (
        web_url(link, url) if link.strip().startswith("/") else _absolute(link, url)
        for link in (*canonical, *proxied)
        if link
    )
    alternates = (web_url(page.get("href"), url) for page in pages)
    # Without an alternate, feedparser uses the guid as the entry's link. `_absolute` rejects a guid such as "77", even if
    # the feed declares it a permalink. An item of RSS 1.0 has no `guidislink`: its id is its `rdf:about`, a URL.
    permalink = entry.get("link") or (entry.get("id") if "guidislink" not in entry else None)
    link = next((link for link in (*originals, *alternates) if link), None) or _absolute(permalink, url)
    if not link or not _is_proxy(link):
        return link
    guid = _absolute(entry.get("id"), url)
    return guid if guid and not _is_proxy(guid) and not _SHORT_FORM.fullmatch(urlsplit(guid).query) else link


def _is_translation(hreflang: str | None, language: str | None) -> bool:
    """Return True if an alternate has another language than the entry."""
    return bool(hreflang and language) and str(hreflang)[:2].lower() != str(language)[:2].lower()


def _absolute(link: str | None, url: str) -> str | None:
    """Return the link if it has a host; else None. `//host/path` gets the scheme of the feed."""
    page = web_url(f"{urlsplit(url).scheme}:{link}" if link and link.startswith("//") else link, "")
    return page if page and urlsplit(page).hostname else None


def web_url(link: str | None, url: str) -> str | None:
    """Return the link as an absolute http or https URL; None if it is neither. A relative link is resolved on the feed's host."""
    if not link or not link.strip():
        return None
    if not _USUAL.fullmatch(link):
        # Links with a line break inside: feed-io, pull request 26.
        link = _SCHEME_TWICE.sub("", "".join(line.strip() for line in link.splitlines()), count=1)
        if _HOST_ALONE.match(link) or _is_host_of(url, link):
            link = f"//{link}"
        if _NO_PAGE.match(link):
            return None
    try:
        page = urljoin(url, link)
        parts = urlsplit(page)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    if parts.netloc != NOWHERE:
        return page
    return parts._replace(netloc=urlsplit(url).netloc, path=parts.path.removeprefix(HERE)).geturl()


def _is_host_of(url: str, link: str) -> bool:
    """Return True if a link without a scheme begins with the feed's own host, as at firesidefiction.com (its issue 4)."""
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    return bool(host) and re.match(rf"(?:www\.)?{re.escape(host)}(?=[/?#]|$)", link, re.IGNORECASE) is not None


def _is_proxy(url: str) -> bool:
    return _PROXY.fullmatch(urlsplit(url).hostname or "") is not None
