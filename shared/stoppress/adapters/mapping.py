"""A mapping file: TOML with JMESPath in it, checked and compiled once.

    name = "example"
    title = "Example CMS"
    [action]
    from = "body.event"
    map = {"story.live" = "publish", "story.gone" = "unpublish"}
    [fields]
    id = "body.story.id"
    url = ["body.story.url", "fill(settings.url_template, body.story)"]

An expression sees `body`, `headers` (names in small letters, `_` for `-`), `query`, `settings`, `types` (the setting
`types`, `content_types` or `models`), `item` where there are several in a delivery, and the variables above it. Of
several expressions of a field the first counts that gives something good; of `hold_until` the latest instant.
See `functions` for what JMESPath does not have.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from stoppress.adapters import MAPPINGS, UnknownAdapter, names
from stoppress.adapters.settings import NAMES as SETTINGS
from stoppress.signatures import BadScheme, check as check_scheme
from stoppress.site import explain

Action: TypeAlias = Literal["publish", "update", "unpublish", "delete"]
REMOVALS: tuple[Action, ...] = ("unpublish", "delete")

# The fields of our own contract, and those that only say how a delivery is to be taken.
OF_ARTICLES = (
    "id", "url", "title", "published_at", "updated_at", "version", "sequence", "language", "publication", "section",
    "keywords", "access", "noindex", "news", "canonical_url", "previous_urls", "type", "flags", "images", "videos",
    "alternates", "changefreq", "priority",
)  # fmt: skip
OF_DELIVERIES = ("timestamp", "hold_until", "site", "page")
# All that a removal says: what else it carries is not to be trusted (a kill's headline is "Kill notice").
OF_REMOVALS = ("id", "version", "sequence", "updated_at", "timestamp", "site")


class BadMapping(ValueError):
    """A mapping file that cannot be used; the text says where and why, a line each."""


def _expression(text: str) -> str:
    try:
        jmespath.compile(text)
    except JMESPathError as error:
        raise ValueError(f"{text[:200]!r} is no JMESPath: {' '.join(str(error).split())[:200]}") from None
    if "!" in text and (trap := _negated_path(text)):
        raise ValueError(f"{trap!r} means (!a).b: write !(a.b)")
    return text


def _negated_path(text: str) -> str:
    """`!a.b` gives null without a word, whatever a.b is: the mistake that is made most often."""
    for part in text.split("!")[1:]:
        name = part.lstrip()
        path = name[: next((i for i, c in enumerate(name) if not (c.isalnum() or c in "._")), len(name))]
        if "." in path:
            return f"!{path}"
    return ""


Expression: TypeAlias = Annotated[str, AfterValidator(_expression)]
Expressions: TypeAlias = Annotated[
    tuple[Expression, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]


def _scheme(signature: str | dict[str, str]) -> str | dict[str, str]:
    try:
        check_scheme(signature)
    except BadScheme as error:
        raise ValueError(str(error).removeprefix("signature: ")) from None
    return signature


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class When(_Part):
    """A delivery that changes no page, and why."""

    ignore: str
    condition: Expression = Field(alias="if")


class Actions(_Part):
    """What happened: a text, and what it means. With `suffix` its last words count: `com.example.article.published`."""

    source: Expression = Field(alias="from")
    map: dict[str, Action]
    suffix: bool = False
    otherwise: str = "is no event that changes an article's page"


class MappingFile(_Part):
    """What one CMS sends."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")
    title: str
    reads: str
    # By what this mapping is held: real deliveries (and whose), or the vendor's documentation alone.
    verified: str
    # What the CMS does not tell, and what follows from that.
    lacks: str = ""
    # How its deliveries are signed: the name of a scheme, or a table that describes one.
    signature: Annotated[str | dict[str, str], AfterValidator(_scheme)] = "standard"
    envelope: Literal["json", "form", "auto", "cloudevents"] = "json"
    # Settings that it knows, each with what it is for; and what they are unless a source says.
    settings: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    variables: dict[str, Expression] = Field(default={}, alias="vars")
    items: Expression | None = None
    without_items: str = "there is no item in it"
    # Whether a body that is a list is one delivery; else each in it is one.
    whole_lists: bool = False
    when: tuple[When, ...] = ()
    action: Actions
    # An object in our own contract's names; `fields` go before it.
    data: Expression | None = None
    # What relative URLs are relative to.
    base: Expression = "settings.base_url"
    # As our own contract has it, a bad field makes the delivery incomplete, whether it is needed or not.
    strict: bool = False
    required: tuple[str, ...] = ("id", "url", "title", "published_at")
    fields: dict[str, Expressions] = {}

    @model_validator(mode="after")
    def _known_names(self) -> "MappingFile":
        unknown = [name for name in self.fields if name not in OF_ARTICLES + OF_DELIVERIES]
        unknown += [name for name in self.required if name not in OF_ARTICLES]
        if unknown:
            raise ValueError(f"fields: {', '.join(unknown)}: there are {', '.join(OF_ARTICLES + OF_DELIVERIES)}")
        settings = [name for name in (*self.settings, *self.defaults) if name not in SETTINGS]
        if settings:
            raise ValueError(f"settings: {', '.join(settings)}: there are {', '.join(SETTINGS)}")
        return self

    def expressions(self, field: str) -> tuple[str, ...]:
        """Where a field's value may stand, the best first."""
        if field in self.fields:
            return self.fields[field]
        return (f"({self.data}).{field}",) if self.data and field in OF_ARTICLES else ()


@cache
def load(name: str, folder: Path = MAPPINGS) -> MappingFile:
    """The mapping of a CMS, kept for the life of the process. Raises UnknownAdapter, BadMapping."""
    if name not in names(folder):
        raise UnknownAdapter(f"{name[:80]!r} is no adapter: give one of {', '.join(names(folder))}")
    return read_file(folder / f"{name}.toml")


def read_file(path: Path) -> MappingFile:
    """The mapping that a file holds. Raises BadMapping."""
    try:
        mapping = MappingFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadMapping(f"{path.name}: is no TOML: {error}") from None
    except ValidationError as error:
        raise BadMapping(f"{path.name}: {explain(error)}") from None
    if mapping.name != path.stem:
        raise BadMapping(f"{path.name}: name: is {mapping.name}; a file is called by its mapping's name")
    return mapping
