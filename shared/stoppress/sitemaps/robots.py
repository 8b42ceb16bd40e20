"""robots.txt: a `Sitemap:` line for each sitemap, then the site's own rules."""

from collections.abc import Iterable, Iterator
from urllib.parse import urljoin

from stoppress.model.file_names import is_news, permanent_files
from stoppress.model.index_ranges import ONE_INDEX, Indexes
from stoppress.model.site import Site
from stoppress.model.site_parts import SITEMAP_LINE, Crawlers
from stoppress.primitives.urls import canonical, on_site

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


def _rules_for(rights: Crawlers) -> Iterator[str]:
    """Yield the group for every crawler, then a group that shuts out all crawlers without a right.

    A crawler reads only its own group (RFC 9309, 2.2.1). So a crawler with its right has no group,
    because that group would have to repeat the rules for all.
    """
    yield "User-agent: *"
    if rights.content_signal:
        values = {"search": rights.search, "ai-input": rights.ai_search, "ai-train": rights.ai_training}
        yield f"Content-Signal: {', '.join(f'{name}={_WORDS[is_allowed]}' for name, is_allowed in values.items())}"
    yield from (f"Disallow: {path}" for path in rights.disallow)
    if not rights.disallow:
        yield "Allow: /"
    shut_out = [
        name
        for is_allowed, names in (
            (rights.search, SEARCH_CRAWLERS),
            (rights.ai_search, AI_SEARCH_CRAWLERS),
            (rights.ai_training, AI_TRAINING_CRAWLERS),
        )
        if not is_allowed
        for name in names
    ]
    if shut_out:
        yield ""
        yield from (f"User-agent: {name}" for name in shut_out)
        yield "Disallow: /"


def robots_txt(site: Site, indexes: Indexes = ONE_INDEX) -> bytes:
    """Return a site's robots.txt; empty if Stoppress writes none.

    `Sitemap:` lines come first: they belong to no group there, and every crawler reads the start.
    """
    rules = "\n".join(_rules_for(site.robots)) if isinstance(site.robots, Crawlers) else site.robots
    if rules is None:
        return b""
    rule_lines, sitemaps = [], named_in_robots(site, indexes)
    for line in rules.replace("\r\n", "\n").split("\n"):
        if sitemap_line := SITEMAP_LINE.match(line):
            sitemaps += sitemap_line[1].split()
        else:
            rule_lines.append(line)
    parts = ["\n".join(robots_lines(site, sitemaps)), "\n".join(rule_lines).strip("\n")]
    return ("\n\n".join(filter(None, parts)) + "\n").encode()


def named_in_robots(site: Site, indexes: Indexes = ONE_INDEX) -> list[str]:
    """Return the sitemaps that a site's robots.txt lists: all indexes, and each news sitemap by itself (R8.2)."""
    *older, newest = indexes.files
    return [newest, *(name for name in permanent_files(site) if is_news(name)), *reversed(older)]


def robots_lines(site: Site, sitemaps: Iterable[str]) -> list[str]:
    """Return the `Sitemap:` lines for a robots.txt: absolute URLs, each once (R8.2). Raises ValueError for a text that is not a URL."""
    urls: dict[str, str] = {}
    for sitemap in sitemaps:
        url = urljoin(site.home, sitemap)
        urls.setdefault(on_site(canonical(url), site.host), url)
    return [f"Sitemap: {url}" for url in urls.values()]
