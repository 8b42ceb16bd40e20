"""A site's configuration: one JSON document, validated here and nowhere else."""

import json
import re
from functools import cached_property
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from stoppress.languages import language_code
from stoppress.text import publication_name

# All feeds of a site together are one source, and this is its name.
FEED_SOURCE = "feed"

HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class BadConfiguration(ValueError):
    """A site's configuration that cannot be used; the text says which key and why, a line for each."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Feed(_Part):
    """A feed that is polled for a site. What else is noted of it there (a title, a section) is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str = Field(pattern=r"^https?://\S+$", max_length=2_000)
    interval_minutes: int = Field(default=1, ge=1, le=1_440)


class Source(_Part):
    """Where articles come from: a CMS that posts webhooks, or one that puts events on the bus."""

    adapter: Literal["standard", "eventbridge"] = "standard"
    secret: str | None = Field(default=None, pattern=r"^[A-Za-z0-9/_+=.@-]{1,256}$")
    settings: dict[str, Any] = {}


class Shards(_Part):
    """How the general sitemap is cut: a period of first publication, and the URLs of one file."""

    by: Literal["day", "month", "year"] = "month"
    # 50,000 is the protocol's own bound (R1.10).
    size: int = Field(default=2_000, ge=1, le=50_000)


class Rule(_Part):
    """Articles that stay out: of everything, or of the news sitemap only. All the conditions given must hold."""

    exclude: Literal["all", "news"] = "all"
    path: str | None = Field(default=None, description="pattern of the URL's path, * for any characters")
    section: str | None = None
    keyword: str | None = None

    @model_validator(mode="after")
    def _some_condition(self) -> "Rule":
        if self.path is None and self.section is None and self.keyword is None:
            raise ValueError("give a path, a section or a keyword: without one the rule would keep every article out")
        return self


def _feed(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


class Site(_Part):
    """A site: one host with its publication, feeds, sources and rules."""

    host: str
    publication: str
    language: str = "en"
    timezone: str = "UTC"
    scheme: Literal["https", "http"] = "https"
    feeds: tuple[Annotated[Feed, BeforeValidator(_feed)], ...] = ()
    sources: dict[str, Source] = {}
    shards: Shards = Shards()
    rules: tuple[Rule, ...] = ()
    republish: Literal["keep-date", "new-date"] = "keep-date"
    # The version of the parameter this was read from; files carry it.
    version: int = Field(default=0, exclude=True)

    @field_validator("host")
    @classmethod
    def _bare_host(cls, host: str) -> str:
        if not HOST.fullmatch(host):
            raise ValueError("give a bare host name in small letters, such as www.example.com")
        return host

    @field_validator("publication")
    @classmethod
    def _plain_publication(cls, name: str) -> str:
        plain = publication_name(name)
        if not plain:
            raise ValueError("give the name of the publication as news.google.com shows it")
        return plain

    @field_validator("language")
    @classmethod
    def _known_language(cls, language: str) -> str:
        code = language_code(language)
        if code is None:
            raise ValueError("give a language code such as en, fr, zh-tw")
        return code

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
            if name == FEED_SOURCE:
                raise ValueError(f"{FEED_SOURCE!r} is the name of all feeds together: call the source something else")
            if not SOURCE.fullmatch(name):
                raise ValueError(f"{name[:80]!r}: a source's name is small letters, digits, dots, dashes, underscores")
        return sources

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
        f"{'.'.join(map(str, finding['loc'])) or 'the document'}: {_said_of(finding)}"
        for finding in error.errors(include_url=False, include_input=False)
    )


def _said_of(finding: ErrorDetails) -> str:
    said = _FINDINGS.get(finding["type"])
    return said.format(**finding.get("ctx", {})) if said else finding["msg"].removeprefix("Value error, ")
