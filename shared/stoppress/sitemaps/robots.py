"""robots.txt: a `Sitemap:` line for each sitemap, then the site's own rules."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urljoin

from stoppress.model.file_names import INDEX_FILE, FileTooLarge, is_news, permanent_files
from stoppress.model.site import Site
from stoppress.model.site_parts import SITEMAP_LINE, Crawlers
from stoppress.primitives.urls import canonical, on_site

# RFC 9309, 2.5: crawlers must read 500 KiB and may cut the rest.
ROBOTS_BYTES_MAX = 512_000
_WORDS = {True: "yes", False: "no"}

# The names that crawlers obey in robots.txt, by what they read a site for. Sources: the engines' pages about their crawlers:
# developers.google.com/search/docs/crawling-indexing/google-common-crawlers, bing.com/webmasters/help/which-crawlers-does-bing-use,
# support.apple.com/119829, developers.openai.com/api/docs/bots, docs.perplexity.ai/guides/bots,
# support.claude.com/en/articles/8896518, commoncrawl.org/ccbot, developers.facebook.com/docs/sharing/webmasters/web-crawlers.
SEARCH_CRAWLERS = (
    "Googlebot",
    "Googlebot-News",
    "Bingbot",
    "Applebot",
    "DuckDuckBot",
    "YandexBot",
    "Baiduspider",
    "Yeti",
)
AI_SEARCH_CRAWLERS = ("OAI-SearchBot", "PerplexityBot", "Claude-SearchBot")
# Google-Extended and Applebot-Extended are names for robots.txt only: Googlebot and Applebot do the reading.
AI_TRAINING_CRAWLERS = ("GPTBot", "ClaudeBot", "Google-Extended", "Applebot-Extended", "CCBot", "meta-externalagent")

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def rules_of(site: Site) -> str | None:
    """Return the rules of the site's robots.txt; None if Stoppress writes none."""
    return "\n".join(_rules_for(site.robots)) if isinstance(site.robots, Crawlers) else site.robots


def _rules_for(rights: Crawlers) -> Iterator[str]:
    """Yield the group for every crawler, then a group that shuts out all crawlers without a right.

    A crawler reads only the group that names it (RFC 9309, 2.2.1). So a crawler with its right is not named,
    because its group would have to repeat the rules for all.
    """
    yield "User-agent: *"
    if rights.content_signal:
        values = {"search": rights.search, "ai-input": rights.ai_search, "ai-train": rights.ai_training}
        yield f"Content-Signal: {', '.join(f'{name}={_WORDS[may]}' for name, may in values.items())}"
    yield from (f"Disallow: {path}" for path in rights.disallow)
    if not rights.disallow:
        yield "Allow: /"
    shut_out = [
        name
        for may, names in (
            (rights.search, SEARCH_CRAWLERS),
            (rights.ai_search, AI_SEARCH_CRAWLERS),
            (rights.ai_training, AI_TRAINING_CRAWLERS),
        )
        if not may
        for name in names
    ]
    if shut_out:
        yield ""
        yield from (f"User-agent: {name}" for name in shut_out)
        yield "Disallow: /"


def robots_txt(site: Site, sitemaps: Iterable[str], rules: str) -> bytes:
    """Return the text of a robots.txt. `sitemaps` are the site's files or URLs; sitemaps named in `rules` follow them, each once.

    `Sitemap:` lines come first: they belong to no group there, and every crawler reads the start. Raises FileTooLarge, and
    ValueError for a control character or a `Sitemap:` line without exactly one URL.
    """
    kept, named = [], list(sitemaps)
    # A byte order mark is valid only at the start of a file, and `Sitemap:` lines precede the rules.
    lines = rules.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        if control := _CONTROL.search(line):
            raise ValueError(f"line {number} of the rules contains U+{ord(control.group()):04X}: remove it")
        if own := SITEMAP_LINE.match(line):
            urls = own.group(1).split()
            if len(urls) != 1:
                raise ValueError(f"line {number} of the rules: after `Sitemap:` give one URL")
            named += urls
        else:
            kept.append(line)
    parts = ["\n".join(robots_lines(site, named)), "\n".join(kept).strip("\n")]
    body = ("\n\n".join(filter(None, parts)) + "\n").encode()
    if len(body) > ROBOTS_BYTES_MAX:
        raise FileTooLarge(f"robots.txt has {len(body)} bytes, and crawlers read {ROBOTS_BYTES_MAX}: shorten the rules")
    return body


def named_in_robots(site: Site) -> list[str]:
    """Return the sitemaps that a site's robots.txt names: the index, and each news sitemap by itself (R8.2)."""
    return [INDEX_FILE, *(name for name in permanent_files(site) if is_news(name))]


def robots_lines(site: Site, sitemaps: Iterable[str]) -> list[str]:
    """Return the `Sitemap:` lines for a robots.txt: absolute URLs, each once (R8.2). Raises ValueError for a text that is not a URL."""
    urls: dict[str, str] = {}
    for sitemap in sitemaps:
        url = urljoin(site.home, sitemap)
        urls.setdefault(on_site(canonical(url), site.host), url)
    return [f"Sitemap: {url}" for url in urls.values()]
