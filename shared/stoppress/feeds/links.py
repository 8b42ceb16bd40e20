"""The links of a feed: which link of an entry is its page, and where a relative link leads."""

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from stoppress.feeds.media import pages_of

# The host of relative links and guids while feedparser resolves them; no such host can exist (RFC 6761). The path before
# the feed's own tells "story" from "/story".
NOWHERE = "feed.invalid"
HERE = "/here.invalid"
# FeedBurner (techcrunch.com), feedsportal (rue89.com), Pheedo (R10.7).
_PROXY = re.compile(r"feeds\..+|feedproxy\..+|(?:.+\.)?(?:feedburner\.com|feedsportal\.com|pheedo\.com)")
# Characters that nobody sees, and that str.strip keeps.
_INVISIBLE = "\u200b\u200e\u200f\u2060\ufeff"
# WordPress's short form redirects to the page, and a redirecting URL has no place in a sitemap (R2.16).
_SHORT_FORM = re.compile(r"(?:.*&)?p=\d+(?:&.*)?")


def page_of(entry: Any, url: str, language: str | None) -> str | None:
    """The URL of an entry's page: the original behind a proxy, else the alternate that is a web page, else the permalink."""
    pages = sorted(
        pages_of(entry),
        # A plain "alternate" comes before "alternate stylesheet" and before an empty relation.
        key=lambda link: (_is_translation(link.get("hreflang"), language), link.get("rel") != "alternate"),
    )
    canonical = [link.get("href") for link in dict.get(entry, "links", ()) if link.get("rel") == "canonical"]
    # dict.get, because feedparser's own looks for other names of what is not there.
    proxied = [dict.get(entry, name) for name in ("feedburner_origlink", "pheedo_origlink", "feedblitz_origlink")]
    originals = (_rooted(link, url) for link in (*canonical, *proxied) if link)
    alternates = (web_url(page.get("href"), url) for page in pages)
    # Without an alternate, the entry's link is its guid, which `_absolute` checks: "77" would lead nowhere. feedparser sets
    # `guidislink` for guids only; in RSS 1.0 the id is what the item is about, a URL.
    permalink = entry.get("link") or (entry.get("id") if "guidislink" not in entry else None)
    link = next((link for link in (*originals, *alternates) if link), None) or _absolute(permalink, url)
    if not link or not _is_proxy(link):
        return link
    guid = _absolute(entry.get("id"), url)
    return guid if guid and not _is_proxy(guid) and not _SHORT_FORM.fullmatch(urlsplit(guid).query) else link


def _is_translation(hreflang: str | None, language: str | None) -> bool:
    """Whether an alternate has another language than the entry."""
    return bool(hreflang and language) and str(hreflang)[:2].lower() != str(language)[:2].lower()


def _rooted(link: str | None, url: str) -> str | None:
    """The link if it is a whole URL or a path from the root: an original may also be a bare name, which leads nowhere."""
    return web_url(link, url) if link and link.strip().startswith("/") else _absolute(link, url)


def _absolute(link: str | None, url: str) -> str | None:
    """The link if it names its own host, perhaps without a scheme (`//host/path`); None for others."""
    page = web_url(f"{urlsplit(url).scheme}:{link}" if link and link.startswith("//") else link, "")
    return page if page and urlsplit(page).hostname else None


def web_url(link: str | None, url: str) -> str | None:
    """The link as an absolute http or https URL, None if it is not one. A relative link leads to the feed's own host.

    Escaped CDATA, line breaks and invisible characters around the URL are dropped.
    """
    if not link or not link.strip():
        return None
    link = link.strip().removeprefix("<![CDATA[").removesuffix("]]>").strip().strip(_INVISIBLE)
    link = "".join(line.strip() for line in link.splitlines())
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


def _is_proxy(url: str) -> bool:
    return _PROXY.fullmatch(urlsplit(url).hostname or "") is not None
