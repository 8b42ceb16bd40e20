"""What a site publishes besides its sitemaps: other forms of the files, robots.txt, and notifications of engines."""

import re
from typing import Annotated
from urllib.parse import urljoin

from pydantic import Field

from stoppress.model.site_sources import SECRET_NAME
from stoppress.model.validation import Part
from stoppress.primitives.urls import canonical

# Enough for any site's rules. Crawlers read at least 500 KiB (RFC 9309, 2.5).
ROBOTS_CHARACTERS_MAX = 8_000


# RFC 9309, 2.2.4: a Sitemap line belongs to no group. A comment begins with #.
SITEMAP_LINE = re.compile(r"\s*site-?map\s*:([^#]*)", re.IGNORECASE)


class Outputs(Part):
    """The forms in which the sitemaps are published besides plain XML."""

    gzip: bool = Field(default=False, description="a .xml.gz beside each file")
    text: bool = Field(default=False, description="a .txt beside each shard")
    atom: bool = Field(default=False, description="an Atom feed beside the news sitemaps")
    hub: str | None = Field(
        default=None, pattern=r"^https?://\S+$", max_length=2_000, description="WebSub hub that the Atom feeds name"
    )


class IndexNow(Part):
    """The engines that take part in IndexNow: Bing, Yandex, Naver, Seznam and others. They share the URLs that one receives."""

    # indexnow.org/documentation, which allows capitals too. The routes in docs/how-to/serve.md serve names in small letters only.
    key: str = Field(
        pattern=r"^[a-z0-9-]{8,128}$",
        description="8 to 128 small letters, digits and dashes, chosen at random; it is public",
    )
    url: str = Field(
        default="https://api.indexnow.org/indexnow",
        pattern=r"^https://\S+$",
        max_length=2_000,
        description="address of any engine that takes part",
    )


class SearchConsole(Part):
    """Google's Search Console: sitemaps are submitted to it, and it is asked what Google made of new stories."""

    property: str = Field(
        pattern=r"^(https?://[a-z0-9.-]+/|sc-domain:[a-z0-9.-]+)$",
        max_length=300,
        description="the property that has the site: `https://<host>/`, or `sc-domain:<domain>`",
    )
    secret: str = Field(pattern=SECRET_NAME, description="name of the secret with the service account's JSON key")

    def has(self, host: str, home: str) -> bool:
        """Return True if the site with this host and home page belongs to the property."""
        domain = self.property.removeprefix("sc-domain:")
        if domain == self.property:
            return self.property == home
        return host == domain or host.endswith(f".{domain}")


class Engines(Part):
    """Who is notified of changed pages, after each page was checked. The stack needs `Engines=yes`."""

    indexnow: IndexNow | None = Field(default=None, description="the engines of IndexNow; null: they are not notified")
    search_console: SearchConsole | None = Field(
        default=None, description="Google's Search Console; null: it is not used"
    )


class Crawlers(Part):
    """Which crawlers may read the site, by purpose. `sitemaps/robots.py` has the names of the crawlers."""

    search: bool = Field(default=True, description="whether search engines may")
    ai_search: bool = Field(default=True, description="whether search engines that answer with AI may")
    ai_training: bool = Field(default=True, description="whether crawlers that collect texts to train AI may")
    disallow: tuple[Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=500)], ...] = Field(
        default=(), max_length=100, description="paths that no crawler may read"
    )
    content_signal: bool = Field(
        default=False,
        description="whether robots.txt also has the rights in a Content-Signal line, which is not part of RFC 9309",
    )


def check_robots(rules: str) -> None:
    """Raise ValueError unless each line is printable text, and each `Sitemap:` line has exactly one URL."""
    for number, line in enumerate(rules.replace("\r\n", "\n").split("\n"), 1):
        if not line.replace("\t", " ").isprintable():
            raise ValueError(f"line {number} has a control character in it: take it out")
        if sitemap := SITEMAP_LINE.match(line):
            words = sitemap[1].split()
            if len(words) != 1:
                example = "https://www.example.com/sitemap-video.xml"
                raise ValueError(
                    f"line {number}: after `Sitemap:` give one URL, such as {example}, or take the line out"
                )
            try:
                canonical(urljoin("https://www.example.com/", words[0]))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}; give the URL of a sitemap, or take the line out") from None
