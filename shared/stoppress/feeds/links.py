"""The links of a feed: which of an entry's is its page, and where a relative one leads."""

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from stoppress.feeds.media import pages_of

# The host of relative links and guids while feedparser resolves them; no such host can exist (RFC 6761). The path before
# the feed's own tells "story" from "/story".
NOWHERE = "feed.invalid"
HERE = "/here.invalid"
_PROXY = re.compile(r"feeds\..+|feedproxy\..+|(?:.+\.)?(?:feedburner\.com|feedsportal\.com|pheedo\.com)")
_HOST_ALONE = re.compile(r"www\.[\w-]+\.[\w.-]+(?:[/?#]|$)", re.IGNORECASE)
# As nearly all links are spelt.
_USUAL = re.compile(r"https?://(?!http)\w[!-~]*")
# Not visible, and not white space to str.strip.
_INVISIBLE = "\u200b\u200e\u200f\u2060\ufeff"
_SCHEME_TWICE = re.compile(r"\Ahttps?:/*(?=https?:/)", re.IGNORECASE)
# https:/host, http//host, https:\\host. With too few slashes a browser takes the host for a folder. Where the host is left
# out, it is one, or the page: https:/story.html, https:/v1.2/story.
_SCHEME_MISSPELT = re.compile(
    r"\A(https?)(?::[/\\]*|[/\\]{2})(?=(?:[\w-]+\.)+(?!(?:s?html?|php\d?|aspx?|jsp)\b)[^\W\d_][\w-]+(?:[:/\\?#]|$))",
    re.IGNORECASE,
)
# WordPress's short form redirects to the page, and a redirecting URL has no place in a sitemap (R2.16).
_SHORT_FORM = re.compile(r"(?:.*&)?p=\d+(?:&.*)?")


def page_of(entry: Any, url: str, language: str | None) -> str | None:
    """The page of an entry: the original behind a proxy, else the alternate that is a web page, else the permalink."""
    pages = sorted(
        pages_of(entry),
        # One that says no more than that it is the alternate comes before "alternate stylesheet" and none at all.
        key=lambda link: (_is_translation(link.get("hreflang"), language), link.get("rel") != "alternate"),
    )
    # What is left as the entry's link, without an alternate, is its guid: "77" would lead nowhere, however it is declared.
    canonical = [link.get("href") for link in dict.get(entry, "links", ()) if link.get("rel") == "canonical"]
    # dict.get, because feedparser's own looks for other names of what is not there.
    proxied = [dict.get(entry, name) for name in ("feedburner_origlink", "pheedo_origlink", "feedblitz_origlink")]
    originals = (_rooted(link, url) for link in (*canonical, *proxied) if link)
    alternates = (web_url(page.get("href"), url) for page in pages)
    # feedparser tells of a guid whether it is a link. What an item of RSS 1.0 is about is one.
    permalink = entry.get("link") or (entry.get("id") if "guidislink" not in entry else None)
    link = next((link for link in (*originals, *alternates) if link), None) or _absolute(permalink, url)
    if not link or not _is_proxy(link):
        return link
    guid = _absolute(entry.get("id"), url)
    return guid if guid and not _is_proxy(guid) and not _SHORT_FORM.fullmatch(urlsplit(guid).query) else link


def _is_translation(hreflang: str | None, language: str | None) -> bool:
    """Whether an alternate is of another language than the entry's own."""
    return bool(hreflang and language) and str(hreflang)[:2].lower() != str(language)[:2].lower()


def _rooted(link: str | None, url: str) -> str | None:
    """The link if it is a whole URL or a whole path: an original may also be a name that leads nowhere."""
    return web_url(link, url) if link and link.strip().startswith("/") else _absolute(link, url)


def _absolute(link: str | None, url: str) -> str | None:
    """The link if it names its own host, maybe under the scheme of the feed; None for others."""
    page = web_url(f"{urlsplit(url).scheme}:{link}" if link and link.startswith("//") else link, "")
    return page if page and urlsplit(page).hostname else None


def web_url(link: str | None, url: str) -> str | None:
    """The link as an absolute http(s) URL, None for what is none; one that was relative leads to the feed's own host."""
    if not link or not link.strip():
        return None
    if not _USUAL.fullmatch(link):
        link = _spelt(link)
        if _HOST_ALONE.match(link) or _is_host_of(url, link):
            link = f"//{link}"
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


def _spelt(link: str) -> str:
    """The link without what can only be a slip: CDATA that was escaped, line breaks, a second scheme, slashes of it."""
    link = link.strip().removeprefix("<![CDATA[").removesuffix("]]>").strip().strip(_INVISIBLE)
    link = "".join(line.strip() for line in link.splitlines())
    return _SCHEME_MISSPELT.sub(r"\1://", _SCHEME_TWICE.sub("", link, count=1), count=1)


def _is_host_of(url: str, link: str) -> bool:
    """Whether a link without a scheme begins with the feed's own host, which is no folder of it."""
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    return bool(host) and re.match(rf"(?:www\.)?{re.escape(host)}(?=[/?#]|$)", link, re.IGNORECASE) is not None


def _is_proxy(url: str) -> bool:
    return _PROXY.fullmatch(urlsplit(url).hostname or "") is not None
