"""A site's configuration: one JSON document in the table, validated here and nowhere else."""

import hashlib
import json
import re
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails

from stoppress.primitives.languages import language_code
from stoppress.primitives.text import publication_name
from stoppress.primitives.urls import canonical, host_of, identity, on_site, path_identity

# All feeds of a site form one source. All polled sitemaps form another.
FEED_SOURCE = "feed"
SITEMAP_SOURCE = "sitemap"
# Quarantine keeps events that name no known site under this name, in place of a host.
UNKNOWN_SITE = "unknown"

HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# A parameter (8 KB) holds no more. Other pages come as events of type page.published.
PAGES_MAX = 1_000
# A parameter has no room for more. Crawlers read at least 500 KiB (RFC 9309, 2.5).
ROBOTS_CHARACTERS_MAX = 8_000

# RFC 9309, 2.2.4: a Sitemap line belongs to no group. A comment begins with #.
SITEMAP_LINE = re.compile(r"\s*site-?map\s*:([^#]*)", re.IGNORECASE)

# sitemaps.org: the values of changefreq.
ChangeFreq: TypeAlias = Literal["always", "hourly", "daily", "weekly", "monthly", "yearly", "never"]


class BadConfiguration(ValueError):
    """A site's configuration cannot be used. Each line of the message has a key and a reason."""


def priority_text(value: object) -> str | None:
    """A priority from 0.0 to 1.0 as a sitemap has it. None stays None. Raises ValueError."""
    if value is None:
        return None
    if (
        isinstance(value, int | float | str)
        and not isinstance(value, bool)
        and re.fullmatch(r"0(\.\d+)?|1(\.0+)?", str(value))
    ):
        return f"{float(value):.1f}"
    raise ValueError("give a number from 0.0 to 1.0")


def _publication(name: str | None) -> str | None:
    if name is None:
        return None
    plain = publication_name(name)
    if not plain:
        raise ValueError("give the name of the publication as news.google.com shows it")
    return plain


def _language(language: str | None) -> str | None:
    code = language_code(language) if language is not None else None
    if language is not None and code is None:
        raise ValueError("give a language code such as en, fr, zh-tw")
    return code


class _Part(BaseModel):
    # Saves cold-start time: pydantic builds the schema of a part only when the part is used alone.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


Taken: TypeAlias = Literal["images", "videos", "language", "keywords", "alternates"]


class Feed(_Part):
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
    websub: bool = Field(default=True, description="whether to subscribe at the WebSub hub that the feed names")


# Name of the stack's secret for WebSub (template.yaml).
HUBS_SECRET = "websub"
# Several sites may share a secret only if its name begins with this.
SHARED_SECRETS = "shared/"
_SECRET_NAME = r"^[A-Za-z0-9/_+=.@-]{1,200}$"
# A secret's purpose is the first part of its path: receive_webhook, audit_sources and notify_engines may each read only one of them.
SecretPurpose = Literal["webhooks", "lists", "engines"]


def secret_path(purpose: SecretPurpose, host: str, name: str) -> str:
    """Return the path of a site's secret in Secrets Manager, below the stack's path.

    A signature does not cover the URL of the webhook. If two sites used one secret by accident, a captured delivery to one site
    could be sent to the other. So each site has its own secrets. Sites share a secret only if its name begins with `shared/`.
    """
    return f"{purpose}/{name}" if name.startswith(SHARED_SECRETS) else f"{purpose}/{host}/{name}"


class SourceList(_Part):
    """The API that lists a source's articles, for `stoppress import` and the hourly audit."""

    url: str = Field(description="URL of the list; docs/how-to/audit.md has it for each CMS")
    adapter: str | None = Field(
        default=None,
        description="adapter that reads the list; null: the source's own, if it can read one, as `standard` cannot",
    )
    secret: str | None = Field(default=None, pattern=_SECRET_NAME, description="name of the secret with the API's key")
    audit: bool = Field(
        default=True, description="whether an audit compares the list with what was recorded, each hour"
    )

    @pydantic.field_validator("url")
    @classmethod
    def _is_web_url(cls, url: str) -> str:
        canonical(url)
        return url

    @pydantic.model_validator(mode="after")
    def _keys_need_https(self) -> "SourceList":
        if self.secret and not self.url.startswith("https:"):
            raise ValueError("url: the key would be sent unencrypted: give an address that begins with https://")
        return self


class Source(_Part):
    """A CMS that posts webhooks or puts events on the bus."""

    # Any adapter but `standard` is a file in `cms/mappings/`.
    adapter: str = Field(default="standard", description="the CMS; `standard` is Stoppress's own event format")
    secret: str | None = Field(
        default=None,
        pattern=_SECRET_NAME,
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
        """The adapter that reads the source's list. Both must give an article the same id, as WordPress and our plugin do."""
        assert self.list
        return self.list.adapter or self.adapter


class Shards(_Part):
    """How the general sitemap is split into files: by period of first publication, then by number of URLs."""

    by: Literal["day", "month", "year"] = Field(default="month", description="period of first publication (UTC)")
    # 50,000 is the protocol's limit (R1.10).
    size: int = Field(default=2_000, ge=1, le=50_000, description="URLs in a file")
    per_section: bool = Field(default=False, description="whether each section has files of its own")


Target: TypeAlias = Literal["all", "general", "news"]


class Rule(_Part):
    """Excludes pages from the sitemaps, or includes them. All conditions of the rule must hold.

    The site's rules are tried in order. For each sitemap the first rule that applies decides.
    """

    exclude: Target | None = Field(default=None, description="the sitemaps that leave the page out")
    include: Target | None = Field(default=None, description="the sitemaps that list the page")
    path: str | None = Field(default=None, description="pattern of the URL's path, with * for any characters")
    section: str | None = Field(default=None, description="section that the event must name")
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
            raise ValueError("say either exclude or include, not both")
        if not self.conditions:
            raise ValueError(
                "give a path, a section, a keyword, a type or a flag: without one the rule would apply to every page"
            )
        return self

    @property
    def target(self) -> Target:
        """The sitemaps that the rule concerns."""
        target = self.exclude or self.include
        assert target
        return target

    @property
    def conditions(self) -> dict[str, str]:
        """The conditions that a page must meet, by name."""
        values = {name: getattr(self, name) for name in ("path", "section", "keyword", "type", "flag")}
        return {name: value for name, value in values.items() if value is not None}


class Voice(_Part):
    """A publication's name and language, for a site, an edition or a section."""

    publication: Annotated[str | None, AfterValidator(_publication)] = Field(
        default=None, description="name exactly as news.google.com shows it"
    )
    language: Annotated[str | None, AfterValidator(_language)] = Field(
        default=None, description="language code, such as en, fr, zh-tw"
    )


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
        description="name of a news sitemap of its own: fr gives sitemap-news-fr.xml",
    )

    @cached_property
    def below(self) -> str:
        """The prefix with a slash at its end, so that `/fr` matches `/fr` and `/fr/a`, and not `/france`."""
        return f"{path_identity(self.prefix).rstrip('/')}/"


class Page(_Part):
    """A page that is not an article, such as a home page or a section front. `url` may be a path."""

    url: str = Field(min_length=1, max_length=2_000, description="URL or path of the page")
    changefreq: ChangeFreq | None = Field(default=None, description="written if `write` has changefreq")
    priority: Annotated[str | None, BeforeValidator(priority_text, json_schema_input_type=float | str | None)] = Field(
        default=None, description="from 0.0 to 1.0; written if `write` has priority"
    )


class Outputs(_Part):
    """The forms in which the sitemaps are published besides plain XML."""

    gzip: bool = Field(default=False, description="a .xml.gz beside each file")
    text: bool = Field(default=False, description="a .txt beside each shard")
    atom: bool = Field(default=False, description="an Atom feed beside the news sitemaps")
    hub: str | None = Field(
        default=None, pattern=r"^https?://\S+$", max_length=2_000, description="WebSub hub that the Atom feeds name"
    )


class IndexNow(_Part):
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


class SearchConsole(_Part):
    """Google's Search Console: sitemaps are submitted to it, and it is asked what Google made of new stories."""

    property: str = Field(
        pattern=r"^(https?://[a-z0-9.-]+/|sc-domain:[a-z0-9.-]+)$",
        max_length=300,
        description="the property that has the site: `https://<host>/`, or `sc-domain:<domain>`",
    )
    secret: str = Field(pattern=_SECRET_NAME, description="name of the secret with the service account's JSON key")

    def has(self, site: "Site") -> bool:
        """Whether the site belongs to the property."""
        domain = self.property.removeprefix("sc-domain:")
        if domain == self.property:
            return self.property == site.home
        return site.host == domain or site.host.endswith(f".{domain}")


class Engines(_Part):
    """Who is notified of changed pages, after each page was checked. The stack needs `Engines=yes`."""

    indexnow: IndexNow | None = Field(default=None, description="the engines of IndexNow; null: they are not notified")
    search_console: SearchConsole | None = Field(
        default=None, description="Google's Search Console; null: it is not used"
    )


class Crawlers(_Part):
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


def _check_sitemap_line(words: list[str], host: str, number: int) -> None:
    """Raises ValueError unless a `Sitemap:` line of a robots.txt has exactly one URL."""
    home = f"https://{host}/"
    if len(words) != 1:
        wanted = f"give one URL, such as {home}sitemap-video.xml, or take the line out"
        raise ValueError(f"line {number}: after `Sitemap:` {wanted}")
    try:
        canonical(urljoin(home, words[0]))
    except ValueError as error:
        raise ValueError(f"line {number}: {error}; give the URL of a sitemap, or take the line out") from None


def _url_object(value: object) -> object:
    """A feed or a page may be given as its URL alone."""
    return {"url": value} if isinstance(value, str) else value


class Site(_Part):
    """A site: one host with its publication, feeds, sources and rules."""

    host: str = Field(description="the host as readers see it, including `www.`")
    publication: Annotated[str, AfterValidator(_publication)] = Field(
        description="name exactly as news.google.com shows it"
    )
    language: Annotated[str, AfterValidator(_language)] = Field(
        default="en", description="language of the publication, such as en, fr, zh-tw"
    )
    timezone: str = Field(default="UTC", description="IANA name, for dates of feeds and CMSs without a zone")
    scheme: Literal["https", "http"] = Field(default="https", description="scheme of the site's URLs")
    feeds: tuple[Annotated[Feed, BeforeValidator(_url_object)], ...] = Field(
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
    pages: tuple[Annotated[Page, BeforeValidator(_url_object)], ...] = Field(
        default=(), max_length=PAGES_MAX, description="pages that are no articles, as paths or objects"
    )
    write: tuple[Literal["keywords", "changefreq", "priority"], ...] = Field(
        default=(), description="optional tags; search engines ignore them, or Google no longer documents them"
    )
    outputs: Outputs = Field(default=Outputs.model_construct(), description="other forms of the files")
    engines: Engines | None = Field(
        default=None, description="who is notified of changed pages; null: nobody, and no page is checked"
    )
    robots: Annotated[str, Field(max_length=ROBOTS_CHARACTERS_MAX)] | Crawlers | None = Field(
        default=None,
        description="rules of the robots.txt that Stoppress writes, as text or as rights; null: it writes none",
    )
    republish: Literal["keep-date", "new-date"] = Field(
        default="keep-date", description="new-date: a new published_at brings an article into the news again"
    )
    silent_after_hours: int | None = Field(
        default=None, ge=1, le=720, description="hours without an event after which an alarm fires; null: no alarm"
    )
    version: SkipJsonSchema[int] = Field(default=0, exclude=True)
    # Why a newer version than this one cannot be read; empty for the newest version.
    fault: SkipJsonSchema[str] = Field(default="", exclude=True)

    @pydantic.field_validator("host")
    @classmethod
    def _bare_host(cls, host: str) -> str:
        if not HOST.fullmatch(host):
            raise ValueError("give a bare host name in small letters, such as www.example.com")
        return host

    @pydantic.field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("give a name of the IANA time zone database, such as Europe/Paris") from None
        return name

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
    def _lines_of_text(cls, rules: str | Crawlers | None, info: ValidationInfo) -> str | Crawlers | None:
        if isinstance(rules, Crawlers):
            return rules
        for number, line in enumerate((rules or "").replace("\r\n", "\n").split("\n"), 1):
            if not line.replace("\t", " ").isprintable():
                raise ValueError(f"line {number} has a control character in it: take it out")
            if "host" in info.data and (sitemap := SITEMAP_LINE.match(line)):
                _check_sitemap_line(sitemap[1].split(), info.data["host"], number)
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
    def _pages_of_this_site(self) -> "Site":
        if foreign := next((url for url in self.pages_by_url if host_of(url) != self.host), None):
            raise ValueError(
                f"pages: {foreign} has another host; give the path of a page of {self.host}, such as /about"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _in_its_property(self) -> "Site":
        console = self.engines.search_console if self.engines else None
        if console and not console.has(self):
            raise ValueError(
                f"engines.search_console.property: {console.property} does not have {self.host}; "
                f"give {self.home} or sc-domain:{self.host}"
            )
        return self

    @cached_property
    def pages_by_url(self) -> dict[str, Page]:
        """The pages of the configuration by the identity of their URL. Raises ValueError.

        URLs are kept under https and get the site's scheme when rendered, so a change of scheme lists no page twice.
        """
        home = f"https://{self.host}/"
        return {identity(on_site(canonical(urljoin(home, page.url)), self.host)): page for page in self.pages}

    def edition_of(self, url: str) -> Edition | None:
        """The edition of a page, by the longest prefix that matches."""
        if not self.editions:
            return None
        path = f"{urlsplit(identity(url)).path}/"
        fitting = (edition for edition in self.editions if path.startswith(edition.below))
        return max(fitting, key=lambda edition: len(edition.below), default=None)

    def voices(self, url: str, section: str | None) -> list[Voice]:
        """The voices that apply to a page, the most specific first: its section's, its edition's, the site's."""
        nearest = [self.sections.get(section) if section else None, self.edition_of(url), self._voice]
        return [voice for voice in nearest if voice]

    @property
    def speaks_in_parts(self) -> bool:
        """Whether sections or editions may have their own publication or language."""
        return bool(self.sections or self.editions)

    @cached_property
    def _voice(self) -> Voice:
        return Voice(publication=self.publication, language=self.language)

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
        """The start of every URL of the site, such as `https://www.example.com`."""
        return f"{self.scheme}://{self.host}"

    @property
    def home(self) -> str:
        """The home page, listed in files that would be empty otherwise (R2.8)."""
        return f"{self.origin}/"


def read_site(text: str, version: int) -> Site:
    """Read a site from its JSON document. Raises BadConfiguration."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"the document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadConfiguration("the document is not a JSON object")
    given = {name: value for name, value in document.items() if value is not None}
    try:
        return Site.model_validate({**given, "version": version})
    except ValidationError as error:
        raise BadConfiguration(explain(error)) from None


SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a site's document. It cannot express every rule: `read_site` has them all."""
    for part in (Shards, Outputs):  # pydantic builds these schemas late, and Site has defaults of these types
        part.model_rebuild()
    made = Site.model_json_schema()
    for key in ("feeds", "pages"):
        made["properties"][key]["items"] = {"anyOf": [{"type": "string"}, made["properties"][key]["items"]]}
    return {"$schema": SCHEMA_DIALECT, **made, "title": "The configuration of a site of Stoppress"}


# pydantic's errors in words that say what to change.
_FINDINGS = {
    "missing": "is missing: it has to be given",
    "string_type": "give it as a text, in quotation marks",
    "string_too_long": "give at most {max_length} characters",
    "bool_type": "give true or false, without quotation marks",
    "bool_parsing": "give true or false, without quotation marks",
    "int_type": "give a whole number, without quotation marks",
    "int_parsing": "give a whole number, without quotation marks",
    "int_from_float": "give a whole number, without a fraction",
    "greater_than_equal": "give a number that is {ge} or more",
    "less_than_equal": "give a number that is {le} or less",
    "string_pattern_mismatch": "is not of the form {pattern}",
    "literal_error": "give one of these: {expected}",
    "tuple_type": "give a list, in square brackets",
    "dict_type": "give an object, in curly brackets",
    "model_type": "give an object, in curly brackets",
    "extra_forbidden": "is not known here: correct its name, or take it out",
}


def explain(error: ValidationError) -> str:
    """Pydantic's errors, a line for each: the place, and what to change."""
    return "\n".join(
        f"{'.'.join(map(str, place)) or 'the document'}: {reason}" for place, _, reason in explain_each(error)
    )


def explain_each(error: ValidationError) -> list[tuple[tuple[int | str, ...], object, str]]:
    """Pydantic's errors: the place, the value there (None where it is missing), and what to change."""
    return [
        (finding["loc"], None if finding["type"] == "missing" else finding["input"], _advice(finding))
        for finding in error.errors(include_url=False)
    ]


def _advice(finding: ErrorDetails) -> str:
    advice = _FINDINGS.get(finding["type"])
    return advice.format(**finding.get("ctx", {})) if advice else finding["msg"].removeprefix("Value error, ")
