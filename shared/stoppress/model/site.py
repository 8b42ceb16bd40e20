"""A site's configuration: one JSON document, validated here and nowhere else."""

import hashlib
import json
import re
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from stoppress.primitives.languages import language_code
from stoppress.primitives.text import publication_name
from stoppress.primitives.urls import canonical, host_of, identity, on_site, path_identity

# All feeds of a site together are one source, and this is its name.
FEED_SOURCE = "feed"
# And all old sitemaps that are polled as feeds are.
SITEMAP_SOURCE = "sitemap"

HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# A parameter holds 8 KB at the most; more pages than that come as events of type page.published.
PAGES_MAX = 1_000
# RFC 9309, 2.5: crawlers read at least 500 KiB of a robots.txt; a parameter holds far less.
ROBOTS_CHARACTERS_MAX = 8_000

# RFC 9309, 2.2.4: a record of its own, of no group. What stands after # is a comment.
SITEMAP_LINE = re.compile(r"\s*site-?map\s*:([^#]*)", re.IGNORECASE)

# sitemaps.org: the values of changefreq.
ChangeFreq: TypeAlias = Literal["always", "hourly", "daily", "weekly", "monthly", "yearly", "never"]


class BadConfiguration(ValueError):
    """A site's configuration that cannot be used; the text says which key and why, a line for each."""


def priority_text(value: object) -> str | None:
    """A priority from 0.0 to 1.0 as files show it; None where there is none. Raises ValueError."""
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
    # Deferred: a part is built within the site, and a second time by itself only where somebody makes one by itself.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


Taken: TypeAlias = Literal["images", "videos", "language", "keywords", "alternates"]


class Feed(_Part):
    """A feed that is polled for a site. What else is noted of it there (a title, a section) is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str = Field(pattern=r"^https?://\S+$", max_length=2_000)
    interval_minutes: int = Field(default=1, ge=1, le=1_440)
    # Up to which interval it is asked the more seldom, the longer nothing new has come.
    interval_max_minutes: int | None = Field(default=None, ge=1, le=1_440)
    # Whether it is the publisher's own, where its host does not tell.
    own: bool | None = None
    # What to take from a feed besides a page, its title and its dates.
    take: tuple[Taken, ...] = ()
    # Whether to subscribe at the hub that it names.
    websub: bool = True


# The name of the stack's own secret among the sources' (template.yaml), for WebSub. Whoever knew it could push as any hub.
HUBS_SECRET = "websub"


class Source(_Part):
    """Where articles come from: a CMS that posts webhooks, or one that puts events on the bus."""

    # Our own contract, or a mapping of `adapters/mappings/`.
    adapter: str = "standard"
    secret: str | None = Field(default=None, pattern=r"^[A-Za-z0-9/_+=.@-]{1,256}$")
    settings: dict[str, Any] = {}

    @field_validator("adapter")
    @classmethod
    def _known_adapter(cls, adapter: str) -> str:
        if adapter != "standard":
            from stoppress.model.adapters import check_name  # most sites do without

            check_name(adapter)
        return adapter

    @field_validator("secret")
    @classmethod
    def _own_secret(cls, secret: str | None) -> str | None:
        if secret == HUBS_SECRET:
            raise ValueError(f"{secret!r} is the stack's own, for hubs: give the source's secret another name")
        return secret

    @model_validator(mode="after")
    def _known_settings(self) -> "Source":
        if self.settings:
            from stoppress.model.adapters import check_settings

            check_settings(self.adapter, self.settings)
        return self


class Shards(_Part):
    """How the general sitemap is cut: a period of first publication, and the URLs of one file."""

    by: Literal["day", "month", "year"] = "month"
    # 50,000 is the protocol's own bound (R1.10).
    size: int = Field(default=2_000, ge=1, le=50_000)
    per_section: bool = False


Target: TypeAlias = Literal["all", "general", "news"]


class Rule(_Part):
    """What of the site's pages is kept out of the sitemaps, or in them: all the conditions given must hold.

    Of several rules the first one whose conditions hold decides, for each sitemap it speaks of.
    """

    exclude: Target | None = None
    include: Target | None = None
    path: str | None = Field(default=None, description="pattern of the URL's path, * for any characters")
    section: str | None = None
    keyword: str | None = None
    type: str | None = None
    flag: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _excluding_unless_said(cls, said: Any) -> Any:
        return (
            {"exclude": "all", **said} if isinstance(said, dict) and not {"exclude", "include"} & said.keys() else said
        )

    @model_validator(mode="after")
    def _one_verdict_and_some_condition(self) -> "Rule":
        if (self.exclude is None) == (self.include is None):
            raise ValueError("say either exclude or include, not both")
        if not self.conditions:
            raise ValueError(
                "give a path, a section, a keyword, a type or a flag: without one the rule would be of every page"
            )
        return self

    @property
    def target(self) -> Target:
        """The sitemaps it speaks of."""
        target = self.exclude or self.include
        assert target
        return target

    @property
    def conditions(self) -> dict[str, str]:
        """What must hold of a page."""
        said = {name: getattr(self, name) for name in ("path", "section", "keyword", "type", "flag")}
        return {name: value for name, value in said.items() if value is not None}


class Voice(_Part):
    """The publication and language that a section or an edition has of its own."""

    publication: Annotated[str | None, AfterValidator(_publication)] = None
    language: Annotated[str | None, AfterValidator(_language)] = None


class Edition(Voice):
    """A part of the site below a path, with a voice of its own and, if it says so, a news sitemap of its own."""

    prefix: str = Field(pattern=r"^/[^\s?#]*$", max_length=200)
    # The part of a file's name: sitemap-news-fr.xml.
    news: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9]{0,19}$")

    @cached_property
    def below(self) -> str:
        """The prefix in whole segments: `/fr` is of `/fr` and `/fr/a`, and not of `/france`."""
        return f"{path_identity(self.prefix).rstrip('/')}/"


class Page(_Part):
    """A page that is not an article: a home page, a section front, a static page. A text is its URL or its path."""

    url: str = Field(min_length=1, max_length=2_000)
    changefreq: ChangeFreq | None = None
    priority: Annotated[str | None, BeforeValidator(priority_text)] = None


class Outputs(_Part):
    """The other forms in which the sitemaps are published beside the plain XML."""

    gzip: bool = False
    text: bool = False
    atom: bool = False
    hub: str | None = Field(default=None, pattern=r"^https?://\S+$", max_length=2_000)


def _one_url(words: list[str], host: str, number: int) -> None:
    """Raises ValueError where a `Sitemap:` line of a robots.txt has no URL, or several."""
    home = f"https://{host}/"
    if len(words) != 1:
        wanted = f"give one URL, such as {home}sitemap-video.xml, or take the line out"
        raise ValueError(f"line {number}: after `Sitemap:` {wanted}")
    try:
        canonical(urljoin(home, words[0]))
    except ValueError as error:
        raise ValueError(f"line {number}: {error}; give the URL of a sitemap, or take the line out") from None


def _feed(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


def _page(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


class Site(_Part):
    """A site: one host with its publication, feeds, sources and rules."""

    host: str
    publication: Annotated[str, AfterValidator(_publication)]
    language: Annotated[str, AfterValidator(_language)] = "en"
    timezone: str = "UTC"
    scheme: Literal["https", "http"] = "https"
    feeds: tuple[Annotated[Feed, BeforeValidator(_feed)], ...] = ()
    sources: dict[str, Source] = {}
    shards: Shards = Shards.model_construct()
    rules: tuple[Rule, ...] = ()
    sections: dict[str, Voice] = {}
    editions: tuple[Edition, ...] = ()
    pages: tuple[Annotated[Page, BeforeValidator(_page)], ...] = Field(default=(), max_length=PAGES_MAX)
    # What search engines ignore, and what the news schema has but nobody documents any more, only where it is asked for.
    write: tuple[Literal["keywords", "changefreq", "priority"], ...] = ()
    outputs: Outputs = Outputs.model_construct()
    # The rules of a robots.txt that is kept for the site; without them it has its own.
    robots: str | None = Field(default=None, max_length=ROBOTS_CHARACTERS_MAX)
    republish: Literal["keep-date", "new-date"] = "keep-date"
    # The version of the parameter this was read from; files carry it.
    version: int = Field(default=0, exclude=True)

    @field_validator("host")
    @classmethod
    def _bare_host(cls, host: str) -> str:
        if not HOST.fullmatch(host):
            raise ValueError("give a bare host name in small letters, such as www.example.com")
        return host

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("give a name of the IANA time zone database, such as Europe/Paris") from None
        return name

    @field_validator("sources")
    @classmethod
    def _named_sources(cls, sources: dict[str, Source]) -> dict[str, Source]:
        for name in sources:
            if name in (FEED_SOURCE, SITEMAP_SOURCE):
                raise ValueError(f"{name!r} is the name of all {name}s together: call the source something else")
            if not SOURCE.fullmatch(name):
                raise ValueError(f"{name[:80]!r}: a source's name is small letters, digits, dots, dashes, underscores")
        return sources

    @field_validator("robots")
    @classmethod
    def _lines_of_text(cls, rules: str | None, info: ValidationInfo) -> str | None:
        for number, line in enumerate((rules or "").replace("\r\n", "\n").split("\n"), 1):
            if not line.replace("\t", " ").isprintable():
                raise ValueError(f"line {number} has a control character in it: take it out")
            if "host" in info.data and (sitemap := SITEMAP_LINE.match(line)):
                _one_url(sitemap[1].split(), info.data["host"], number)
        return rules

    @field_validator("editions")
    @classmethod
    def _told_apart(cls, editions: tuple[Edition, ...]) -> tuple[Edition, ...]:
        names = [edition.news for edition in editions if edition.news]
        prefixes = [edition.below for edition in editions]
        for said in (names, prefixes):
            if twice := next((one for one in said if said.count(one) > 1), None):
                raise ValueError(f"{twice!r} is said of two editions: give each its own")
        return editions

    @model_validator(mode="after")
    def _pages_of_this_site(self) -> "Site":
        if foreign := next((url for url in self.pages_by_url if host_of(url) != self.host), None):
            raise ValueError(
                f"pages: {foreign} is of another host; give the path of a page of {self.host}, such as /about"
            )
        return self

    @cached_property
    def pages_by_url(self) -> dict[str, Page]:
        """The pages of the configuration by the identity of their URL. Raises ValueError."""
        home = f"https://{self.host}/"
        return {identity(on_site(canonical(urljoin(home, page.url)), self.host)): page for page in self.pages}

    def edition_of(self, url: str) -> Edition | None:
        """The edition that a page belongs to: of several prefixes the longest."""
        if not self.editions:
            return None
        path = f"{urlsplit(identity(url)).path}/"
        fitting = (edition for edition in self.editions if path.startswith(edition.below))
        return max(fitting, key=lambda edition: len(edition.below), default=None)

    def voices(self, url: str, section: str | None) -> list[Voice]:
        """What speaks for a page, the nearest first: its section, its edition, the site."""
        nearest = [self.sections.get(section) if section else None, self.edition_of(url), self._voice]
        return [voice for voice in nearest if voice]

    @property
    def speaks_in_parts(self) -> bool:
        """Whether a section or an edition may have a publication or a language of its own."""
        return bool(self.sections or self.editions)

    @cached_property
    def _voice(self) -> Voice:
        return Voice(publication=self.publication, language=self.language)

    @cached_property
    def digest(self) -> str:
        """The configuration in short. Its version does not name it: a parameter that is deleted and made again begins at 1."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @cached_property
    def zone(self) -> ZoneInfo:
        """The newsroom's time zone."""
        return ZoneInfo(self.timezone)

    @property
    def origin(self) -> str:
        """`https://www.example.com`, what every URL of the site begins with."""
        return f"{self.scheme}://{self.host}"

    @property
    def home(self) -> str:
        """The home page, which stands in files that would be empty (R2.8)."""
        return f"{self.origin}/"


def read_site(text: str, version: int) -> Site:
    """The site that a parameter's value describes. Raises BadConfiguration."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"the value is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadConfiguration("the value is not a JSON object")
    try:
        given = {name: value for name, value in document.items() if value is not None}
        return Site.model_validate({**given, "version": version})
    except ValidationError as error:
        raise BadConfiguration(explain(error)) from None


# What pydantic finds, in the words of who has to change it.
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
    """What pydantic found, one line a finding: the place, and what to change."""
    return "\n".join(
        f"{'.'.join(map(str, place)) or 'the document'}: {reason}" for place, _, reason in explain_each(error)
    )


def explain_each(error: ValidationError) -> list[tuple[tuple[int | str, ...], object, str]]:
    """What pydantic found: the place, what stands there (None where it is missing), and what to change."""
    return [
        (finding["loc"], None if finding["type"] == "missing" else finding["input"], _said_of(finding))
        for finding in error.errors(include_url=False)
    ]


def _said_of(finding: ErrorDetails) -> str:
    said = _FINDINGS.get(finding["type"])
    return said.format(**finding.get("ctx", {})) if said else finding["msg"].removeprefix("Value error, ")
