"""A site's configuration: one JSON document in the table, validated here and nowhere else."""

import hashlib
import json
import re
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit
from zoneinfo import ZoneInfo

import pydantic
from pydantic import BeforeValidator, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from stoppress.model.site_parts import ROBOTS_CHARACTERS_MAX, Crawlers, Engines, Feed, Outputs, Source, check_robots
from stoppress.model.validation import ChangeFreq, Language, Part, Priority, Publication, Zone, explain, matching
from stoppress.primitives.urls import canonical, host_of, identity, on_site, path_identity

# All feeds of a site form one source. All polled sitemaps form another.
FEED_SOURCE = "feed"
SITEMAP_SOURCE = "sitemap"
# Quarantine stores events without a known site under this name, instead of a host.
UNKNOWN_SITE = "unknown"

HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# Few enough for the site's item, which may have 100 KB. Other pages are sent as events of type page.published.
PAGES_MAX = 1_000
# Each host may cost a read for an event, and a transaction may have a message for each.
HOSTS_MAX = 10


Host: TypeAlias = Annotated[
    str, matching(HOST.pattern, "give a bare host name in small letters, such as www.example.com")
]


class BadConfiguration(ValueError):
    """A site configuration that cannot be used. Each line of the message has a key and a reason."""


class Shards(Part):
    """How the general sitemap is split into files: by period of first publication, then by number of URLs."""

    by: Literal["day", "month", "year"] = Field(default="month", description="period of first publication (UTC)")
    # 50,000 is the protocol's limit (R1.10).
    size: int = Field(default=2_000, ge=1, le=50_000, description="URLs in a file")
    per_section: bool = Field(default=False, description="whether each section has its own files")


Target: TypeAlias = Literal["all", "general", "news"]


class Rule(Part):
    """Excludes pages from the sitemaps, or includes them. All conditions of the rule must hold.

    The site's rules are tried in order. For each sitemap the first rule that applies decides.
    """

    exclude: Target | None = Field(default=None, description="the sitemaps that leave the page out")
    include: Target | None = Field(default=None, description="the sitemaps that list the page")
    path: str | None = Field(default=None, description="pattern of the URL's path, with * for any characters")
    section: str | None = Field(default=None, description="section that the event must have")
    keyword: str | None = Field(default=None, description="keyword that the event must have")
    type: str | None = Field(default=None, description="type that the event must have")
    flag: str | None = Field(default=None, description="flag that the event must have")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _exclude_by_default(cls, rule: Any) -> Any:
        has_verdict = not isinstance(rule, dict) or {"exclude", "include"} & rule.keys()
        return rule if has_verdict else {"exclude": "all", **rule}

    @pydantic.model_validator(mode="after")
    def _one_verdict_and_some_condition(self) -> "Rule":
        if (self.exclude is None) == (self.include is None):
            raise ValueError("set either exclude or include, not both")
        if not self.conditions:
            raise ValueError(
                "give a path, a section, a keyword, a type or a flag: without one the rule would apply to every page"
            )
        return self

    @property
    def target(self) -> Target:
        """Return the sitemaps that the rule concerns."""
        target = self.exclude or self.include
        assert target
        return target

    @property
    def conditions(self) -> dict[str, str]:
        """Return the conditions that a page must meet, by name."""
        values = {name: getattr(self, name) for name in ("path", "section", "keyword", "type", "flag")}
        return {name: value for name, value in values.items() if value is not None}


class Voice(Part):
    """A publication's name and language, for a site, an edition or a section."""

    publication: Publication | None = Field(default=None, description="name exactly as news.google.com shows it")
    language: Language | None = Field(default=None, description="language code, such as en, fr, zh-tw")


class Edition(Voice):
    """The pages below a path, with their own publication or language, and with a news sitemap if `news` is set."""

    prefix: str = Field(
        pattern=r"^/[^\s?#]*$",
        max_length=200,
        description="start of the path, in whole segments: /fr does not match /france",
    )
    news: str | None = Field(
        default=None,
        pattern=r"^[a-z][a-z0-9]{0,19}$",
        description="name of the edition's own news sitemap: fr for sitemap-news-fr.xml",
    )

    @cached_property
    def below(self) -> str:
        """Return the prefix with a slash at its end, so that `/fr` matches `/fr` and `/fr/a`, and not `/france`."""
        return f"{path_identity(self.prefix).rstrip('/')}/"


class Page(Part):
    """A page that is not an article, such as a home page or a section front. `url` may be a path."""

    url: str = Field(min_length=1, max_length=2_000, description="URL or path of the page")
    changefreq: ChangeFreq | None = Field(default=None, description="written if `write` has changefreq")
    priority: Priority = Field(default=None, description="from 0.0 to 1.0; written if `write` has priority")


def _url_object(value: object) -> object:
    """Return the object for a feed or a page that is given as its URL alone."""
    return {"url": value} if isinstance(value, str) else value


class Site(Part):
    """A site: one host with its publication, feeds, sources and rules."""

    host: Host = Field(description="the host as readers see it, including `www.`")
    publication: Publication = Field(description="name exactly as news.google.com shows it")
    language: Language = Field(default="en", description="language of the publication, such as en, fr, zh-tw")
    timezone: Zone = Field(default="UTC", description="IANA name, for dates of feeds and CMSs without a zone")
    scheme: Literal["https", "http"] = Field(default="https", description="scheme of the site's URLs")
    feeds: tuple[Annotated[Feed, BeforeValidator(_url_object, json_schema_input_type=str | Feed)], ...] = Field(
        default=(), description="feeds and old sitemaps to poll, as URLs or objects"
    )
    sources: dict[str, Source] = Field(default={}, description="who may send events, by the name of the source")
    shards: Shards = Field(default=Shards.model_construct(), description="how the general sitemap is split into files")
    rules: tuple[Rule, ...] = Field(
        default=(), description="which pages stay out; for each sitemap the first rule that applies decides"
    )
    sections: dict[str, Voice] = Field(default={}, description="publication and language of a section, by its name")
    editions: tuple[Edition, ...] = Field(
        default=(), description="parts of the site with their own publication, language or news sitemap"
    )
    pages: tuple[Annotated[Page, BeforeValidator(_url_object, json_schema_input_type=str | Page)], ...] = Field(
        default=(), max_length=PAGES_MAX, description="pages that are no articles, as paths or objects"
    )
    alternate_hosts: tuple[Host, ...] = Field(
        default=(),
        max_length=HOSTS_MAX,
        description="hosts of other sites of the stack whose pages are versions of this site's",
    )
    write: tuple[Literal["keywords", "changefreq", "priority"], ...] = Field(
        default=(), description="optional tags; search engines ignore them, or Google no longer documents them"
    )
    outputs: Outputs = Field(default=Outputs.model_construct(), description="other forms of the files")
    engines: Engines | None = Field(
        default=None, description="who is notified of changed pages; null: no engine, and no page is checked"
    )
    robots: Annotated[str, Field(max_length=ROBOTS_CHARACTERS_MAX)] | Crawlers | None = Field(
        default=None,
        description="rules of the robots.txt that Stoppress writes, as text or as permissions; null: it writes none",
    )
    republish: Literal["keep-date", "new-date"] = Field(
        default="keep-date", description="new-date: a new published_at returns an article to the news sitemap"
    )
    silent_after_hours: int | None = Field(
        default=None, ge=1, le=720, description="hours without an event after which an alarm fires; null: no alarm"
    )
    version: SkipJsonSchema[int] = Field(default=0, exclude=True)
    # Why a newer version than this one cannot be read; empty for the newest version.
    fault: SkipJsonSchema[str] = Field(default="", exclude=True)

    @pydantic.field_validator("sources")
    @classmethod
    def _named_sources(cls, sources: dict[str, Source]) -> dict[str, Source]:
        for name in sources:
            if name in (FEED_SOURCE, SITEMAP_SOURCE):
                raise ValueError(f"{name!r} is the source that all {name}s form together: give the source another name")
            if not SOURCE.fullmatch(name):
                raise ValueError(f"{name[:80]!r}: a source's name is small letters, digits, dots, dashes, underscores")
        return sources

    @pydantic.field_validator("robots")
    @classmethod
    def _lines_of_text(cls, rules: str | Crawlers | None) -> str | Crawlers | None:
        if isinstance(rules, str):
            check_robots(rules)
        return rules

    @pydantic.field_validator("editions")
    @classmethod
    def _unique_editions(cls, editions: tuple[Edition, ...]) -> tuple[Edition, ...]:
        names = [edition.news for edition in editions if edition.news]
        prefixes = [edition.below for edition in editions]
        for values in (names, prefixes):
            if twice := next((value for value in values if values.count(value) > 1), None):
                raise ValueError(f"two editions have {twice!r}: give each its own")
        return editions

    @pydantic.model_validator(mode="after")
    def _urls_of_this_site(self) -> "Site":
        if foreign := next((url for url in self.pages_by_url if host_of(url) != self.host), None):
            raise ValueError(
                f"pages: {foreign} has another host; give the path of a page of {self.host}, such as /about"
            )
        console = self.engines.search_console if self.engines else None
        if console and not console.has(self.host, self.home):
            raise ValueError(
                f"engines.search_console.property: {console.property} does not have {self.host}; "
                f"give {self.home} or sc-domain:{self.host}"
            )
        return self

    @cached_property
    def pages_by_url(self) -> dict[str, Page]:
        """Return the pages of the configuration by the identity of their URL. Raises ValueError.

        URLs are kept under https and get the site's scheme when rendered, so a change of scheme lists no page twice.
        """
        home = f"https://{self.host}/"
        return {identity(on_site(canonical(urljoin(home, page.url)), self.host)): page for page in self.pages}

    def edition_of(self, url: str) -> Edition | None:
        """Return the edition of a page, by the longest prefix that matches."""
        if not self.editions:
            return None
        path = f"{urlsplit(identity(url)).path}/"
        fitting = (edition for edition in self.editions if path.startswith(edition.below))
        return max(fitting, key=lambda edition: len(edition.below), default=None)

    def voice_of(self, url: str, section: str | None) -> tuple[str, str]:
        """Return publication and language of a page: those of its section, else of its edition, else of the site."""
        publication, language = self.publication, self.language
        for voice in (self.edition_of(url), self.sections.get(section) if section else None):
            if voice:
                publication, language = voice.publication or publication, voice.language or language
        return publication, language

    @cached_property
    def digest(self) -> str:
        """Return a hash of the configuration as it was parsed, with all defaults.

        The version is no substitute: two functions of different code may read one version differently.
        """
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def origin(self) -> str:
        """Return the start of every URL of the site, such as `https://www.example.com`."""
        return f"{self.scheme}://{self.host}"

    @property
    def home(self) -> str:
        """Return the home page, listed in files that would be empty otherwise (R2.8)."""
        return f"{self.origin}/"


def read_site(text: str, version: int) -> Site:
    """Read a site from its JSON document. Raises BadConfiguration."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"the document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadConfiguration("the document is not a JSON object")
    settings = {name: value for name, value in document.items() if value is not None}
    # Only Stoppress sets these fields.
    reasons = [f"{name}: is not known here: take it out" for name in ("fault", "version") if name in settings]
    try:
        site = Site.model_validate({**settings, "version": version})
    except ValidationError as error:
        reasons.append(explain(error, Site))
    if reasons:
        raise BadConfiguration("\n".join(reasons))
    return site


SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a site's document. It cannot express every rule: `read_site` has them all."""
    for part in (Shards, Outputs):  # pydantic builds these schemas late, and Site has defaults of these types
        part.model_rebuild()
    return {"$schema": SCHEMA_DIALECT, **Site.model_json_schema(), "title": "The configuration of a site of Stoppress"}
