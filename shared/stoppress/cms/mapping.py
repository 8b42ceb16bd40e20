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

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from stoppress.cms.expressions import function_faults, members, root_names
from stoppress.model import adapters
from stoppress.model.signature_schemes import BadScheme, check as check_scheme
from stoppress.model.site import explain_each

Action: TypeAlias = Literal["publish", "update", "unpublish", "delete"]
REMOVALS: tuple[Action, ...] = ("unpublish", "delete")

# The fields of our own contract, and those that only say how a delivery is to be taken.
OF_ARTICLES = (
    "id", "url", "title", "published_at", "updated_at", "version", "sequence", "language", "publication", "section",
    "keywords", "access", "noindex", "news", "canonical_url", "previous_urls", "type", "flags", "images", "videos",
    "alternates", "changefreq", "priority",
)  # fmt: skip
OF_DELIVERIES = ("timestamp", "hold_until", "site", "page")
# What the kinds of content that are articles are called: each CMS has its own word.
OF_TYPES = ("types", "content_types", "models")
# What an expression sees besides `types` and the variables.
ROOT = ("body", "headers", "item", "query", "settings")
# How mappings write nothing at all: a name that nothing ever has. (`true` and `false` without backticks mean nothing too.)
NOTHING = "null"
# All that a removal says: what else it carries is not to be trusted (a kill's headline is "Kill notice").
OF_REMOVALS = ("id", "version", "sequence", "updated_at", "timestamp", "site")


class UnknownAdapter(LookupError):
    """No mapping file has this name."""


class BadMapping(ValueError):
    """A mapping file that cannot be used; the text says where and why, a line each."""


def _expression(text: str) -> str:
    try:
        jmespath.compile(text)
    except JMESPathError as error:
        raise ValueError(f"{text[:200]!r} is no JMESPath: {' '.join(str(error).split())[:200]}") from None
    if "!" in text and (trap := _negated_path(text)):
        raise ValueError(f"{trap!r} means (!a).b: write !(a.b)")
    if faults := list(dict.fromkeys(function_faults(text))):
        raise ValueError("; ".join(faults))
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
        raise ValueError(error.reason) from None
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

    def expressions(self, field: str) -> tuple[str, ...]:
        """Where a field's value may stand, the best first."""
        if field in self.fields:
            return self.fields[field]
        return (f"({self.data}).{field}",) if self.data and field in OF_ARTICLES else ()


def load(name: str) -> MappingFile:
    """The mapping of a CMS, kept for the life of the process. Raises UnknownAdapter, BadMapping."""
    return _load(adapters.MAPPINGS, name)


@cache
def _load(folder: Path, name: str) -> MappingFile:
    if name not in (known := adapters.names(folder)):
        raise UnknownAdapter(f"{name[:80]!r} is no adapter: give one of {', '.join(known)}")
    return read_file(folder / f"{name}.toml")


def read_file(path: Path) -> MappingFile:
    """The mapping that a file holds. Raises BadMapping."""
    try:
        text = path.read_text(encoding="utf-8")
        mapping = MappingFile.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadMapping(f"{path.name}: is no TOML: {error}") from None
    except ValidationError as error:
        raise _bad(path, text, explain_each(error)) from None
    if mapping.name != path.stem:
        raise BadMapping(f"{path.name}: name: is {mapping.name}; a file is called by its mapping's name")
    if faults := [*_unknown_keys(mapping), *_unknown_names(mapping)]:
        raise _bad(path, text, faults)
    return mapping


# Where something is wrong, what stands there (None: nothing does), and why it is wrong.
_Fault: TypeAlias = tuple[tuple[int | str, ...], object, str]


def _bad(path: Path, text: str, faults: Iterable[_Fault]) -> BadMapping:
    return BadMapping(
        "\n".join(
            f"{path.name}{_line_in(text, place, value)}: {'.'.join(map(str, place))}: {reason}"
            for place, value, reason in faults
        )
    )


def _line_in(text: str, place: tuple[int | str, ...], value: object) -> str:
    """`:12` for what stands in line 12, by its value or else by its key; empty where neither is found."""
    if value is None:
        return ""
    if isinstance(value, str) and value:
        # TOML writes a quotation mark in a text as \" and leaves it as it is in a text of several lines.
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        for written in (f'"{escaped}"', f"'{value}'", value, escaped):
            if (start := text.find(written)) >= 0:
                return f":{text.count(chr(10), 0, start) + 1}"
    key = next((part for part in reversed(place) if isinstance(part, str)), "")
    match = re.search(rf"""^[ \t\["'\w.-]*\b{re.escape(key)}["']?[ \t]*[=\]]""", text, re.MULTILINE) if key else None
    return f":{text.count(chr(10), 0, match.start()) + 1}" if match else ""


def _unknown_keys(mapping: MappingFile) -> Iterator[_Fault]:
    fields = OF_ARTICLES + OF_DELIVERIES
    for name in mapping.fields:
        if name not in fields:
            yield ("fields", name), mapping.fields[name], f"is not known here: give one of {', '.join(fields)}"
    for name in mapping.required:
        if name not in OF_ARTICLES:
            yield ("required",), mapping.required, f"{name} is not known here: give some of {', '.join(OF_ARTICLES)}"
    for part, given in (("settings", mapping.settings), ("defaults", mapping.defaults)):
        for name, value in given.items():
            if name not in adapters.SETTINGS:
                yield (part, name), value, f"is not known here: give one of {', '.join(adapters.SETTINGS)}"


def _unknown_names(mapping: MappingFile) -> Iterator[_Fault]:
    """Names that an expression reads and that nothing ever has: what compares with them keeps nothing out."""
    settings = {*mapping.settings, *mapping.defaults}
    known = {*ROOT, *(["types"] if settings & {*OF_TYPES} else [])}
    for place, expression in _all_expressions(mapping):
        for name in sorted(root_names(expression) - known - {NOTHING}):
            yield place, expression, f"there is no {name}: give one of {', '.join(sorted(known))}"
        for name in members(expression, "settings"):
            if name not in settings and name not in adapters.OF_SIGNATURES:
                declared = f"give one of {', '.join(sorted(settings))}, or declare it" if settings else "declare it"
                yield place, expression, f"there is no settings.{name}: {declared} under [settings]"
        for name in members(expression, "headers"):
            if name != (seen := name.lower().replace("-", "_")):
                yield place, expression, f"there is no headers.{name}: write headers.{seen}"
        if place[0] == "vars":
            known.add(str(place[1]))


def _all_expressions(mapping: MappingFile) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Every expression of a mapping and where it stands, the variables first and in their order."""
    yield from ((("vars", name), expression) for name, expression in mapping.variables.items())
    yield from ((("when", number, "if"), when.condition) for number, when in enumerate(mapping.when))
    yield ("action", "from"), mapping.action.source
    for name in ("items", "data", "base"):
        if name in mapping.model_fields_set and (expression := getattr(mapping, name)):
            yield (name,), expression
    for name, expressions in mapping.fields.items():
        yield from ((("fields", name, number), expression) for number, expression in enumerate(expressions))
