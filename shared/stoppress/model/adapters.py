"""Names and settings of the adapters that a source in a site's configuration may have.

An adapter says how to read what a CMS sends. Each file of `cms/mappings/` is one. This module reads the file only for a
source that has settings.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from stoppress.model.signature_schemes import BadScheme, check_settings as check_signature
from stoppress.primitives.languages import language_code
from stoppress.primitives.urls import canonical

MAPPINGS = Path(__file__).parents[1] / "cms" / "mappings"

# Settings of the signature. A source may have them with any adapter.
OF_SIGNATURES = ("signature", "signed_path", "tolerance_s")
_TEXTS_MAX = 200
_TEXT_CHARACTERS_MAX = 500


def names(folder: Path | None = None) -> list[str]:
    """Every adapter that has a mapping file."""
    return sorted(path.stem for path in (folder or MAPPINGS).glob("*.toml"))


def check_name(name: str) -> None:
    """Raises ValueError, with the names that exist, if no mapping file has this name."""
    if name not in names():
        raise ValueError(f"{name[:80]!r} is no adapter: give one of {', '.join(names())}")


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raises ValueError, with a line for each setting that cannot be used or that the adapter does not have."""
    declared = _read_declarations(MAPPINGS / f"{name}.toml")
    if faults := [fault for setting, value in settings.items() for fault in _faults(setting, value, declared)]:
        raise ValueError("\n".join(faults))


def check_list(name: str) -> None:
    """Raises ValueError unless the adapter has a mapping file with a `[list]`. The error names the adapters that have one."""
    listed = [each for each in names() if "list" in _document(MAPPINGS / f"{each}.toml")]
    if name not in listed:
        raise ValueError(
            f"list: the adapter {name[:80]} cannot read a list: give the CMS's adapter in list.adapter: {', '.join(listed)}"
        )


def _read_declarations(path: Path) -> tuple[str, ...]:
    return tuple(_document(path).get("settings", ()))


@cache
def _document(path: Path) -> dict[str, Any]:
    import tomllib  # only sources with settings or a list need it

    return tomllib.loads(path.read_text("utf-8"))


def _faults(name: str, value: object, declared: tuple[str, ...]) -> list[str]:
    try:
        if name in OF_SIGNATURES:
            check_signature({name: value})
        elif name in declared:
            _CHECKS[name](value)
        else:
            known = ", ".join((*declared, *OF_SIGNATURES))
            return [f"settings.{name}: is not known here: correct its name, or take it out; there are {known}"]
    except ValueError as error:
        return [f"settings.{name}: {error.reason if isinstance(error, BadScheme) else error}"]
    return []


def _url(value: object) -> None:
    canonical(_text(value))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _TEXT_CHARACTERS_MAX:
        raise ValueError(f"give a text of at most {_TEXT_CHARACTERS_MAX} characters")
    return value


def _urls(value: object) -> None:
    for url in _read_names(value).values():
        _url(url)


def _read_names(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not value or len(value) > _TEXTS_MAX:
        raise ValueError(f"give an object, in curly brackets, of 1 to {_TEXTS_MAX} texts by name")
    for text in value.values():
        _text(text)
    return value


def _texts(value: object) -> None:
    if not isinstance(value, list) or not value or len(value) > _TEXTS_MAX:
        raise ValueError(f"give a list of 1 to {_TEXTS_MAX} texts, in square brackets")
    for text in value:
        _text(text)


def _template(value: object) -> None:
    text = _text(value)
    if text.count("{") != text.count("}"):
        raise ValueError("a name stands between { and }: give a template such as /news/{slug}")
    if not text.startswith("/"):
        _url(text)


def _language(value: object) -> None:
    if language_code(_text(value)) is None:
        raise ValueError("give a language code such as en, fr, zh-tw")


def _zone(value: object) -> None:
    try:
        ZoneInfo(_text(value))
    except (LookupError, ValueError, OSError):
        raise ValueError("give a name of the IANA time zone database, such as Europe/Paris") from None


_CHECKS: dict[str, Callable[[object], object]] = {
    "base_url": _url,
    "site_urls": _urls,
    "url_template": _template,
    "language": _language,
    "timezone": _zone,
    "content_types": _texts,
    "types": _texts,
    "models": _texts,
    "environments": _texts,
    "locales": _texts,
    "map": _read_names,
}
SETTINGS = tuple(_CHECKS)
