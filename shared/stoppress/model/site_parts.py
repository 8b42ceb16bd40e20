"""The parts of a site's configuration: its feeds and CMSs with their secrets, and what it publishes besides its sitemaps."""

import re
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urljoin

import pydantic
from pydantic import ConfigDict, Field

from stoppress.model.validation import Part, WebUrl
from stoppress.primitives.urls import canonical

Taken: TypeAlias = Literal["images", "videos", "language", "keywords", "alternates"]


class Feed(Part):
    """A feed that is polled for a site. Other keys, such as a title, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str = Field(
        pattern=r"^https?://\S+$",
        max_length=2_000,
        description="URL of an RSS or Atom feed, a sitemap, or an index of sitemaps",
    )
    interval_minutes: int = Field(default=1, ge=1, le=1_440, description="shortest time between two polls")
    interval_max_minutes: int | None = Field(
        default=None, ge=1, le=1_440, description="longest time between two polls, while nothing new comes"
    )
    own: bool | None = Field(
        default=None, description="whether the publisher itself makes the feed; null: the feed's host decides"
    )
    take: tuple[Taken, ...] = Field(default=(), description="what to read besides a page's URL, title and dates")
    websub: bool = Field(default=True, description="whether to subscribe to the feed through its WebSub hub")


# Name of the stack's secret for WebSub (template.yaml).
HUBS_SECRET = "websub"
# Several sites may share a secret only if its name begins with this.
SHARED_SECRETS = "shared/"
SECRET_NAME = r"^[A-Za-z0-9/_+=.@-]{1,200}$"
# A secret's purpose is the first part of its path: receive_webhook, audit_sources and notify_engines may each read only one of them.
SecretPurpose = Literal["webhooks", "lists", "engines"]


def secret_path(purpose: SecretPurpose, host: str, name: str) -> str:
    """Return the path of a site's secret in Secrets Manager, below the stack's path.

    A signature does not cover the URL of the webhook. If two sites used one secret by accident, a captured delivery to one site
    could be sent to the other. So each site has its own secrets. Sites share a secret only if its name begins with `shared/`.
    """
    return f"{purpose}/{name}" if name.startswith(SHARED_SECRETS) else f"{purpose}/{host}/{name}"


class SourceList(Part):
    """The API that lists a source's articles, for `stoppress import` and the hourly audit."""

    url: WebUrl = Field(description="URL of the list; docs/how-to/audit.md has it for each CMS")
    adapter: str | None = Field(
        default=None,
        description="adapter that reads the list; null: the source's own, if it can read one, as `standard` cannot",
    )
    secret: str | None = Field(default=None, pattern=SECRET_NAME, description="name of the secret with the API's key")
    audit: bool = Field(
        default=True, description="whether an audit compares the list with what was recorded, each hour"
    )

    @pydantic.model_validator(mode="after")
    def _keys_need_https(self) -> "SourceList":
        if self.secret and not self.url.startswith("https:"):
            raise ValueError("url: the key would be sent unencrypted: give an address that begins with https://")
        return self


class Source(Part):
    """A CMS that posts webhooks or puts events on the bus."""

    # Any adapter but `standard` is a file in `cms/mappings/`.
    adapter: str = Field(default="standard", description="the CMS; `standard` is Stoppress's own event format")
    secret: str | None = Field(
        default=None,
        pattern=SECRET_NAME,
        description="name of the source's secret; without one only the event bus may use the source",
    )
    settings: dict[str, Any] = Field(default={}, description="what the adapter needs to know; the signature's settings")
    list: SourceList | None = Field(default=None, description="the API that lists the source's articles")

    @pydantic.field_validator("adapter")
    @classmethod
    def _known_adapter(cls, adapter: str) -> str:
        if adapter != "standard":
            from stoppress.model.adapters import check_name  # most sites do not need it

            check_name(adapter)
        return adapter

    @pydantic.model_validator(mode="after")
    def _known_settings(self) -> "Source":
        if self.settings:
            from stoppress.model.adapters import check_settings

            check_settings(self.adapter, self.settings)
        if self.list:
            from stoppress.model.adapters import check_list

            check_list(self.list_adapter)
        return self

    @property
    def list_adapter(self) -> str:
        """Return the adapter that reads the source's list. Both must give an article the same id, as WordPress and our plugin do."""
        assert self.list
        return self.list.adapter or self.adapter


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
    """Google's Search Console: sitemaps are submitted to it, and it reports whether Google indexed new stories."""

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
        description="whether robots.txt also has the permissions in a Content-Signal line, which is not part of RFC 9309",
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
