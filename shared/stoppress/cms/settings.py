"""What a source's `settings` may say for an adapter, each checked when the site's configuration is read."""

from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from stoppress.primitives.languages import language_code
from stoppress.primitives.urls import canonical

# What the signature of a source takes from its settings (`signatures.check_settings`); the adapter does not look at them.
OF_SIGNATURES = ("signature", "signed_path", "tolerance_s")
_TEXTS_MAX = 200
_TEXT_CHARACTERS_MAX = 500


def check(settings: Mapping[str, Any], declared: Mapping[str, str]) -> None:
    """Raises ValueError, a line for each setting that cannot be used or that the mapping does not know."""
    faults = []
    for name, value in settings.items():
        if name in OF_SIGNATURES:
            faults += _of_signature(name, value)
            continue
        if name not in declared:
            known = ", ".join((*declared, *OF_SIGNATURES))
            faults.append(f"settings.{name}: is not known here: correct its name, or take it out; there are {known}")
            continue
        try:
            _READERS[name](value)
        except ValueError as error:
            faults.append(f"settings.{name}: {error}")
    if faults:
        raise ValueError("\n".join(faults))


def _of_signature(name: str, value: object) -> list[str]:
    from stoppress.signatures.verify import check_settings

    try:
        check_settings({name: value})
    except ValueError as error:
        return [f"settings.{name}: {str(error).removeprefix(f'{name}: ')}"]
    return []


def _url(value: object) -> None:
    canonical(_text(value))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _TEXT_CHARACTERS_MAX:
        raise ValueError(f"give a text of at most {_TEXT_CHARACTERS_MAX} characters")
    return value


def _urls(value: object) -> None:
    for url in _named(value).values():
        _url(url)


def _named(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not value or len(value) > _TEXTS_MAX:
        raise ValueError("give an object, in curly brackets, of texts by name")
    for text in value.values():
        _text(text)
    return value


def _texts(value: object) -> None:
    if not isinstance(value, list) or not value or len(value) > _TEXTS_MAX:
        raise ValueError("give a list of texts, in square brackets")
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


_READERS: dict[str, Callable[[object], object]] = {
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
    "map": _named,
}
NAMES = tuple(_READERS)
