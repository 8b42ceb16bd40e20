"""Mapping files: TOML with JMESPath expressions, checked once when a file is loaded.

    name = "example"
    title = "Example CMS"
    [action]
    from = "body.event"
    map = {"story.live" = "publish", "story.gone" = "unpublish"}
    [fields]
    id = "body.story.id"
    url = ["body.story.url", "fill(settings.url_template, body.story)"]

An expression sees `body`, `headers` (lower case, `_` for `-`), `query`, `settings` and the variables above it. It also sees
`types` (the setting `types`, `content_types` or `models`) and, in a delivery of several items, `item`. The first of a field's
expressions that returns a usable value counts; for `hold_until` the latest instant counts. `functions` has the functions
that JMESPath lacks.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from stoppress.cms.expressions import function_faults, members, root_names
from stoppress.model import adapters
from stoppress.model.signature_schemes import Signature
from stoppress.model.validation import Part, explain_each
from stoppress.primitives.text import did_you_mean

Action: TypeAlias = Literal["publish", "update", "unpublish", "delete"]
REMOVALS: tuple[Action, ...] = ("unpublish", "delete")

# The fields of the contract, and those that only set how to treat a delivery.
OF_ARTICLES = (
    "id", "url", "title", "published_at", "updated_at", "version", "sequence", "language", "publication", "section",
    "keywords", "access", "noindex", "news", "canonical_url", "previous_urls", "type", "flags", "images", "videos",
    "alternates", "changefreq", "priority",
)  # fmt: skip
OF_DELIVERIES = ("timestamp", "hold_until", "site", "page")
# The settings that list the article types: each CMS has its own word for a type.
OF_TYPES = ("types", "content_types", "models")
# The names that every expression sees.
ROOT = ("body", "headers", "item", "query", "settings")
# The names that the expressions of a request for a listing see, and those that the expressions for its answer see.
OF_LISTS = ("settings", "types", "secret", "since", "until", "size", "page", "offset", "cursor")
OF_LISTED = ("settings", "types", "body", "headers", "item")
# Mappings write `null` for a missing value. Without backticks it is the name of a field, and no delivery has that field.
NOTHING = "null"
# The fields that are read of a removal. Its other fields may be wrong: the headline of a kill is "Kill notice".
OF_REMOVALS = ("id", "version", "sequence", "updated_at", "timestamp", "site")


class BadMapping(ValueError):
    """A mapping file that cannot be used; each line of the text has a place and a reason."""


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
    """Return a part such as `!a.b`, the most frequent mistake: it is null whatever a.b is. Empty if there is none."""
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


class When(Part):
    """A filter: the condition under which an item is ignored, and the reason."""

    ignore: str
    condition: Expression = Field(alias="if")


class Actions(Part):
    """The text that identifies what happened, and the action for each text.

    With `suffix`, the text's last words are enough: `com.example.article.published`.
    """

    source: Expression = Field(alias="from")
    map: dict[str, Action]
    suffix: bool = False
    otherwise: str = "is no event that changes an article's page"


class Listing(Part):
    """How to list the articles of a CMS by its API: `[list]` in a mapping file. `listing` documents what the expressions see."""

    # The value of `list.url` in the source's configuration.
    url: str
    # The query's parameters and the headers. One that is null is left out.
    parameters: dict[str, Expression] = Field(default={})
    headers: dict[str, Expression] = Field(default={})
    # Where the items of an answer are, and how many there are in all.
    items: Expression
    total: Expression | None = None
    # How pages follow one another: by number from 1, by the number of items before them, by the `Link` header, or by a cursor.
    next: Literal["page", "offset", "link", "cursor"]
    cursor: Expression | None = None
    # The API's limit of items in a page.
    size: int = Field(ge=1)
    # The body and the headers of the webhook that the CMS would send for the item. The rest of the mapping file reads them.
    delivery: Expression
    delivery_headers: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _cursor_where_it_is_used(self) -> "Listing":
        if (self.cursor is not None) != (self.next == "cursor"):
            raise ValueError('cursor: give it with next = "cursor", and only then')
        return self


class MappingFile(Part):
    """A mapping: how to read the deliveries of one CMS."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")
    title: str
    reads: str
    # What verifies this mapping: real deliveries (and whose), or the vendor's documentation alone.
    verified: str
    # What the CMS does not send, and the consequence.
    lacks: str = ""
    # The signature's scheme: a name, or a table that describes a scheme.
    signature: Signature = "standard"
    envelope: Literal["json", "form", "auto", "cloudevents"] = "json"
    # The adapter's settings, each with its purpose, and their default values.
    settings: dict[str, str] = Field(default={})
    defaults: dict[str, Any] = Field(default={})
    variables: dict[str, Expression] = Field(default={}, alias="vars")
    items: Expression | None = None
    without_items: str = "there is no item in it"
    # Whether a body that is a list is one delivery. Otherwise each element is a delivery.
    whole_lists: bool = False
    when: tuple[When, ...] = ()
    action: Actions
    # An object with the contract's field names. `fields` overrides it.
    data: Expression | None = None
    # Whether title, section and keywords are HTML, not plain text: tags are removed and entities resolved.
    html: bool = False
    # The base of relative URLs.
    base: Expression = "settings.base_url"
    # Whether any bad field makes the delivery incomplete, even one that is not needed. The contract is strict.
    strict: bool = False
    required: tuple[str, ...] = ("id", "url", "title", "published_at")
    fields: dict[str, Expressions] = Field(default={})
    listing: Listing | None = Field(default=None, alias="list")

    def expressions(self, field: str) -> tuple[str, ...]:
        """Return the expressions of a field, the best first."""
        if field in self.fields:
            return self.fields[field]
        return (f"({self.data}).{field}",) if self.data and field in OF_ARTICLES else ()


@cache
def load(name: str) -> MappingFile:
    """Return the mapping of a CMS, kept for the life of the process. Raises ValueError, BadMapping."""
    adapters.check_name(name)
    return read_file(adapters.MAPPINGS / f"{name}.toml")


def read_file(path: Path) -> MappingFile:
    """Return the mapping in a file. Raises BadMapping."""
    try:
        text = path.read_text(encoding="utf-8")
        mapping = MappingFile.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadMapping(f"{path.name}: is no TOML: {error}") from None
    except ValidationError as error:
        raise _bad_mapping(path, text, explain_each(error, MappingFile)) from None
    if mapping.name != path.stem:
        raise BadMapping(f"{path.name}: name: is {mapping.name}; a file is called by its mapping's name")
    if faults := [*_unknown_keys(mapping), *_unknown_names(mapping)]:
        raise _bad_mapping(path, text, faults)
    return mapping


# A place in the file, the value there (None where it is missing), and the fault.
_Fault: TypeAlias = tuple[tuple[int | str, ...], object, str]


def _bad_mapping(path: Path, text: str, faults: Iterable[_Fault]) -> BadMapping:
    return BadMapping(
        "\n".join(
            f"{path.name}{_line_in(text, place, value)}: {'.'.join(map(str, place))}: {reason}"
            for place, value, reason in faults
        )
    )


def _line_in(text: str, place: tuple[int | str, ...], value: object) -> str:
    """Return `:12` if the value, or else the key, is in line 12; empty where neither is in the text."""
    if value is None:
        return ""
    if isinstance(value, str) and value:
        # TOML escapes a quotation mark in a text of one line, not in a text of several lines.
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        for spelling in (f'"{escaped}"', f"'{value}'", value, escaped):
            if (start := text.find(spelling)) >= 0:
                return f":{text.count(chr(10), 0, start) + 1}"
    key = next((part for part in reversed(place) if isinstance(part, str)), "")
    match = re.search(rf"""^[ \t\["'\w.-]*\b{re.escape(key)}["']?[ \t]*[=\]]""", text, re.MULTILINE) if key else None
    return f":{text.count(chr(10), 0, match.start()) + 1}" if match else ""


def _unknown_keys(mapping: MappingFile) -> Iterator[_Fault]:
    allowed = {"fields": OF_ARTICLES + OF_DELIVERIES, "required": OF_ARTICLES}
    for part in ("fields", "required", "settings", "defaults"):
        values, names = getattr(mapping, part), allowed.get(part, adapters.SETTINGS)
        for name in values:
            if name not in names:
                value = values[name] if isinstance(values, dict) else name
                hint = did_you_mean(name, names)
                yield (part, name), value, f"is not known here: give one of {', '.join(names)}{hint}"


def _unknown_names(mapping: MappingFile) -> Iterator[_Fault]:
    """Yield names that no delivery can have. An expression that reads them is always null, so a filter would filter nothing."""
    settings = {*mapping.settings, *mapping.defaults}
    for place, expression, names in _expressions(mapping, settings):
        for name in sorted(root_names(expression) - {*names, NOTHING}):
            yield place, expression, f"there is no {name}: give one of {', '.join(names)}"
        yield from ((place, expression, fault) for fault in _unknown_members(expression, settings))


def _unknown_members(expression: str, settings: set[str]) -> Iterator[str]:
    for name in members(expression, "settings"):
        if name not in settings and name not in adapters.OF_SIGNATURES:
            declared = f"give one of {', '.join(sorted(settings))}, or declare it" if settings else "declare it"
            yield f"there is no settings.{name}: {declared} under [settings]"
    for name in members(expression, "headers"):
        if name != (spelled := name.lower().replace("-", "_")):
            yield f"there is no headers.{name}: write headers.{spelled}"


def _expressions(
    mapping: MappingFile, settings: set[str]
) -> Iterator[tuple[tuple[int | str, ...], str, Iterable[str]]]:
    """Yield every expression of a mapping, its place, and the names it may read; the variables first and in their order."""
    names = sorted({*ROOT, *(["types"] if settings & {*OF_TYPES} else [])})
    for name, expression in mapping.variables.items():
        yield ("vars", name), expression, names
        names = sorted({*names, name})
    yield from ((("when", number, "if"), when.condition, names) for number, when in enumerate(mapping.when))
    yield ("action", "from"), mapping.action.source, names
    for name in ("items", "data", "base"):
        if name in mapping.model_fields_set and (expression := getattr(mapping, name)):
            yield (name,), expression, names
    for name, expressions in mapping.fields.items():
        yield from ((("fields", name, number), expression, names) for number, expression in enumerate(expressions))
    if listing := mapping.listing:
        for part, part_expressions in (("parameters", listing.parameters), ("headers", listing.headers)):
            yield from ((("list", part, name), expression, OF_LISTS) for name, expression in part_expressions.items())
        for name in ("items", "total", "cursor", "delivery"):
            if expression := getattr(listing, name):
                yield ("list", name), expression, OF_LISTED
