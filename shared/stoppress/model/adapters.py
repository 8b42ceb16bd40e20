"""Names and settings of the adapters that a source in a site's configuration may have.

An adapter describes how to read the deliveries of a CMS. Each file of `cms/mappings/` is an adapter. This module reads the file
only for a source that has settings.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from stoppress.model.signature_schemes import SIGNATURE_SETTINGS
from stoppress.model.validation import Language, WebUrl, Zone, explain_each
from stoppress.primitives.text import did_you_mean
from stoppress.primitives.urls import canonical

MAPPINGS = Path(__file__).parents[1] / "cms" / "mappings"
_TEXTS_MAX = 200
_TEXT_CHARACTERS_MAX = 500


def _text(text: str) -> str:
    if not text.strip() or len(text) > _TEXT_CHARACTERS_MAX:
        raise ValueError(f"give a text of at most {_TEXT_CHARACTERS_MAX} characters")
    return text


def _template(text: str) -> str:
    if text.count("{") != text.count("}"):
        raise ValueError("a name stands between { and }: give a template such as /news/{slug}")
    if not text.startswith("/"):
        canonical(text)
    return text


_T = TypeVar("_T")
_Text: TypeAlias = Annotated[str, AfterValidator(_text)]
_Url: TypeAlias = Annotated[WebUrl, AfterValidator(_text)]
_Texts: TypeAlias = Annotated[tuple[_Text, ...], Field(min_length=1, max_length=_TEXTS_MAX)]


_Table: TypeAlias = Annotated[dict[str, _T], Field(min_length=1, max_length=_TEXTS_MAX)]
# The settings of all adapters, each with the type of its values.
_KINDS: dict[str, Any] = {
    "base_url": _Url,
    "site_urls": _Table[_Url],
    "url_template": Annotated[_Text, AfterValidator(_template)],
    "language": Language,
    "timezone": Zone,
    "content_types": _Texts,
    "types": _Texts,
    "models": _Texts,
    "environments": _Texts,
    "locales": _Texts,
    "map": _Table[_Text],
}
SETTINGS = tuple(_KINDS)
# Settings of the signature. A source may have them with any adapter.
OF_SIGNATURES = tuple(SIGNATURE_SETTINGS)


def names() -> list[str]:
    """Return every adapter that has a mapping file."""
    return sorted(path.stem for path in MAPPINGS.glob("*.toml"))


def check_name(name: str) -> None:
    """Raise ValueError, with the names that exist, if no mapping file has this name."""
    if name not in names():
        meant = did_you_mean(name, names())
        raise ValueError(f"{name[:80]!r} is no adapter: give one of {', '.join(names())}{meant}")


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raise ValueError, with a line for each setting that cannot be used or that the adapter does not have."""
    allowed = (*_document(MAPPINGS / f"{name}.toml").get("settings", ()), *OF_SIGNATURES)
    unknown = "is not known here: correct its name, or take it out; there are " + ", ".join(allowed)
    faults: dict[str, str] = {}
    for setting, value in settings.items():
        if setting not in allowed:
            faults[setting] = unknown + did_you_mean(setting, allowed)
            continue
        try:
            TypeAdapter((_KINDS | SIGNATURE_SETTINGS)[setting]).validate_python(value)
        except ValidationError as error:
            faults |= {".".join(map(str, (setting, *place))): reason for place, _, reason in explain_each(error)}
    if faults:
        raise ValueError("\n".join(f"settings.{place}: {reason}" for place, reason in faults.items()))


def check_list(name: str) -> None:
    """Raise ValueError unless the adapter has a mapping file with a `[list]`. The error lists the adapters that have one."""

    def has_list(adapter: str) -> bool:
        return "list" in _document(MAPPINGS / f"{adapter}.toml")

    if name not in names() or not has_list(name):
        listed = ", ".join(filter(has_list, names()))
        raise ValueError(
            f"list: the adapter {name[:80]} cannot read a list: give the CMS's adapter in list.adapter: {listed}"
        )


@cache
def _document(path: Path) -> dict[str, Any]:
    import tomllib  # only sources with settings or a list need it

    return tomllib.loads(path.read_text("utf-8"))
