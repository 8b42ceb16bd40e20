"""The custom functions of mappings, which JMESPath lacks.

For a value that is missing or of another type, a function returns null or an empty list, and does not raise.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlsplit, urlunsplit

from jmespath import Options, functions

# No slug, name or path is longer.
TEXT_CHARACTERS_MAX = 2_000
_PLACE = re.compile(r"\{([A-Za-z0-9_]{1,60})\}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAIVE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?")
_LIGATURES = str.maketrans(
    {"ß": "ss", "æ": "ae", "ø": "o", "œ": "oe", "đ": "d", "ł": "l", "þ": "th", "ð": "d", "ı": "i"}
)


_Method = TypeVar("_Method", bound=Callable[..., Any])
_TYPES = {"string": str, "object": dict, "array": list, "": object}


def _accept(*kinds: str, otherwise: Any = None) -> Callable[[_Method], _Method]:
    """Declare a function's arguments. It returns `otherwise` for an argument of another type, and for a text that is too long."""
    parameters = [{"types": [], "constants": [kind] if kind else []} for kind in kinds]

    def declare(method: _Method) -> _Method:
        @wraps(method)
        def checked(self: functions.Functions, *values: Any) -> Any:
            fits = all(
                isinstance(value, _TYPES[kind]) and (kind != "string" or len(str(value)) <= TEXT_CHARACTERS_MAX)
                for value, kind in zip(values, kinds, strict=True)
            )
            return method(self, *values) if fits else otherwise

        return cast("_Method", functions.signature(*parameters)(checked))

    return declare


class Functions(functions.Functions):  # type: ignore[misc]
    """The custom functions. `_func_slug` is `slug` in an expression."""

    @_accept("object", "string")
    def _func_lookup(self, table: dict[str, Any], key: str) -> Any:
        """`lookup({"members": "registration"}, visibility)`: the value under a key."""
        return table.get(key)

    @_accept("object", otherwise=[])
    def _func_entries(self, table: dict[str, Any]) -> list[dict[str, Any]]:
        """Return an object as a list of {key, value}; an empty list for anything else, such as PHP's empty arrays."""
        return [{"key": key, "value": value} for key, value in table.items()]

    @_accept("object", "", otherwise={})
    def _func_localized(self, fields: dict[str, Any], locales: Any) -> dict[str, Any]:
        """Return an object of {field: {locale: value}} as {field: value}. Each value is from the first locale that has one."""
        texts = [locale for locale in locales if isinstance(locale, str)] if isinstance(locales, list) else []
        return {name: _in_locale(values, texts) for name, values in fields.items()}

    @_accept("string", "object")
    def _func_fill(self, template: str, values: dict[str, Any]) -> str | None:
        """`fill('/news/{slug}', {slug: 'a b'})` -> `/news/a%20b`; null if a value is missing, or neither text nor number.

        An object as a value counts as its `slug` or `current`.
        """
        parts = _PLACE.split(template)
        for place in range(1, len(parts), 2):
            value = _slug_of(values.get(parts[place]))
            text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
            if not isinstance(text, str) or not text.strip() or len(text) > TEXT_CHARACTERS_MAX:
                return None
            try:
                parts[place] = quote(text.strip().strip("/"), safe="%/:@!$'()*,~")
            except UnicodeEncodeError:  # a lone surrogate
                return None
        return "".join(parts)

    @_accept("string")
    def _func_slug(self, text: str) -> str | None:
        """`Climate-smart food` -> `climate-smart-food`. Letters of scripts other than Latin stay."""
        letters = "".join(_slug_letter(letter) for letter in text.lower().translate(_LIGATURES))
        slug = "-".join(part for part in letters.split("-") if part)
        return slug or None

    @_accept("string", "string", "string")
    def _func_sibling(self, url: str, slug: str, other: str) -> str | None:
        """Return the URL with another slug at its end; null if it does not end in the slug, or if both slugs are equal."""
        if not (url and slug and other) or slug == other:
            return None
        try:
            parts = urlsplit(url)
        except ValueError:
            return None
        head, _, last = parts.path.rstrip("/").rpartition("/")
        if last != slug:
            return None
        tail = "/" if parts.path.endswith("/") else ""
        return str(urlunsplit((parts.scheme, parts.netloc, f"{head}/{other}{tail}", parts.query, "")))

    @_accept("string", "string", otherwise=[])
    def _func_split(self, text: str, separator: str) -> list[str]:
        """Return the parts of a text between separators; an empty list for other values."""
        return [part.strip() for part in text.split(separator)] if separator else []

    @_accept("string")
    def _func_words(self, text: str) -> str | None:
        """`com.example.ArticlePublished` -> `com example article published`."""
        return " ".join(word.lower() for word in _WORD.findall(text)) or None

    @_accept("")
    def _func_utc(self, text: Any) -> Any:
        """Add Z to a date and time without a zone; other values stay as they are."""
        return f"{text.strip()}Z" if isinstance(text, str) and _NAIVE.fullmatch(text.strip()) else text

    @_accept("string")
    def _func_lower(self, text: str) -> str:
        """Return a text in lower case."""
        return text.lower()

    @_accept("array", "array", otherwise=[])
    def _func_of_type(self, items: list[Any], types: list[Any]) -> list[Any]:
        """Return the JSON-LD objects that have one of the types: as `A`, `schema:A` or `https://schema.org/A`, or in a list."""
        names = {name.lower() for name in types if isinstance(name, str)}
        return [item for item in items if isinstance(item, dict) and _bare_types(item.get("@type")) & names]

    @_accept("", "array", otherwise=True)
    def _func_is_in(self, value: Any, values: list[Any]) -> bool:
        """Return True if a list has the value; true if there is no list, because the setting was left out."""
        return value in values


OPTIONS = Options(custom_functions=Functions())


def _slug_letter(letter: str) -> str:
    """Return a Latin letter or digit without accents, another script's letter as it is, or a dash for anything else."""
    bare = unicodedata.normalize("NFKD", letter)[:1]
    if bare.isascii() and bare.isalnum():
        return bare
    return letter if letter.isalnum() or unicodedata.combining(letter) else "-"


def _slug_of(value: Any) -> Any:
    """Return the text that a URL has for an object such as a category: its `slug`, or the `current` of that."""
    for name in ("slug", "current"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value


def _bare_types(types: Any) -> set[str]:
    """Return JSON-LD types in lower case, without the prefixes of schema.org."""
    names = [name.lower() for name in (types if isinstance(types, list) else [types]) if isinstance(name, str)]
    return {re.sub(r"^(schema:)?(https:)?(http:)?(//schema\.org/)?", "", name) for name in names}


def _in_locale(values: Any, locales: list[str]) -> Any:
    if not isinstance(values, dict):
        return values
    if not locales:
        return next(iter(values.values()), None)
    return next((values[locale] for locale in locales if values.get(locale) is not None), None)
