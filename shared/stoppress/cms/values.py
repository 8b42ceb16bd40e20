"""Read the fields of one item separately, so that a bad field does not affect the others.

Dates of every kind, languages by name and relative URLs become the contract's values. A reader raises ValueError with the reason.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin
from zoneinfo import ZoneInfo

from stoppress.cms.contract_fields import read_field
from stoppress.cms.expressions import search
from stoppress.cms.mapping import OF_ARTICLES, OF_DELIVERIES, OF_REMOVALS, REMOVALS, Action, MappingFile
from stoppress.cms.verdicts import HELD, Reading
from stoppress.primitives.instants import parse, utc
from stoppress.primitives.text import clean, clean_html, language_code, shown
from stoppress.primitives.urls import canonical

# In seconds, the year 2286. A larger number counts milliseconds.
_SECONDS_MAX = 10**10
_DAY = re.compile(r"\d{4}-\d\d-\d\d|\d{8}", re.ASCII)
_EPOCH = re.compile(r"\d{9,13}(\.\d{1,9})?", re.ASCII)
_ZONELESS = re.compile(r"[\d\s:./,T-]+", re.ASCII)
# UTC+14, ahead of all other zones, and without an abbreviation.
_FAR_ZONE = "Pacific/Kiritimati"
# The zero values of MySQL, of PHP (which WordPress sends for a draft) and of .NET and Go.
_NO_DATE = re.compile(r"0000-00-00.*|-0001-.*|0001-01-01.*|0+")
_DATES = {"published_at", "updated_at", "timestamp", "hold_until", "version"}
_YES, _NO = {"1", "true", "yes", "on", "noindex"}, {"0", "false", "no", "off", "index", "2", ""}
# The directives for robots that allow a page. "none" is left out, because a CMS may send it for a missing value.
_SHOWN = {"all", "follow", "index", "noarchive", "nofollow", "noimageindex", "nosnippet", "notranslate"}
_ROBOTS_PARTED = re.compile(r"[,;\s]+")
_ROBOTS_CHARACTERS_MAX = 500
# The names of languages in English, which Arc XP sends in place of codes.
_LANGUAGES = {
    "albanian": "sq", "arabic": "ar", "armenian": "hy", "basque": "eu", "bengali": "bn", "bulgarian": "bg",
    "burmese": "my", "catalan": "ca", "chinese": "zh-cn", "croatian": "hr", "czech": "cs", "danish": "da",
    "dutch": "nl", "english": "en", "estonian": "et", "finnish": "fi", "french": "fr", "galician": "gl",
    "georgian": "ka", "german": "de", "greek": "el", "gujarati": "gu", "hebrew": "he", "hindi": "hi",
    "hungarian": "hu", "icelandic": "is", "indonesian": "id", "irish": "ga", "italian": "it", "japanese": "ja",
    "kannada": "kn", "kazakh": "kk", "khmer": "km", "korean": "ko", "latvian": "lv", "lithuanian": "lt",
    "macedonian": "mk", "malay": "ms", "malayalam": "ml", "maltese": "mt", "marathi": "mr", "mongolian": "mn",
    "nepali": "ne", "norwegian": "no", "pashto": "ps", "persian": "fa", "polish": "pl", "portuguese": "pt",
    "punjabi": "pa", "romanian": "ro", "russian": "ru", "serbian": "sr", "sinhala": "si", "slovak": "sk",
    "slovene": "sl", "slovenian": "sl", "somali": "so", "spanish": "es", "swahili": "sw", "swedish": "sv",
    "tagalog": "tl", "tamil": "ta", "telugu": "te", "thai": "th", "turkish": "tr", "ukrainian": "uk",
    "urdu": "ur", "uzbek": "uz", "vietnamese": "vi", "welsh": "cy", "zulu": "zu",
}  # fmt: skip
# ISO 639-2: undetermined, no linguistic content, several, uncoded.
_NO_LANGUAGES = {"und", "zxx", "mul", "mis"}
# The keys under which the object of a tag or a section has its name, the best first.
_NAMES = ("name", "title", "label", "text", "value")


class NoZone(ValueError):
    """A date and time that lacks only its zone. The text of the error is the date."""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a value: the base of relative URLs, the zone of dates without one, whether texts are HTML."""

    base: str | None = None
    zone: ZoneInfo | None = None
    html: bool = False


def is_absent(field: str, value: object) -> bool:
    """Return whether a value is missing: null, an empty text, list or object, false as PHP sends it, or a zero date."""
    if isinstance(value, str):
        text = value.strip()
        return not text or (field in _DATES and bool(_NO_DATE.fullmatch(text)))
    return value is None or (value is False and field != "news") or value in ([], {})


def date_of(value: object, context: Context) -> datetime:
    """Return the instant of a text, or of a number of seconds or milliseconds since 1970. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{shown(value)} is no date")
    text = value.strip() if isinstance(value, str) else ""
    if _EPOCH.fullmatch(text):
        return _of_epoch(float(text) if "." in text else int(text))
    if not isinstance(value, str):
        return _of_epoch(value)
    if _DAY.fullmatch(text):  # a day without a zone counts as a day in UTC: a few hours do not matter
        text = f"{text}T00:00:00" + ("" if context.zone else "Z")
    try:
        naive = datetime.fromisoformat(text.replace(" ", "T", 1))
    except ValueError:
        return _of_other_form(text, context)
    if naive.tzinfo is None:
        if context.zone is None:
            raise NoZone(shown(text))
        return utc(naive.replace(tzinfo=context.zone))
    return parse(text)


def _of_other_form(text: str, context: Context) -> datetime:
    """Return the instant of a text in a form that feeds use: `Fri, 20 Nov 2026 08:00:00 GMT`, `2026-11-20 08:00:00 UTC`.

    An ambiguous abbreviation of a zone is refused. Raises ValueError, NoZone.
    """
    try:
        return parse(text)
    except ValueError:
        from stoppress.primitives import dates  # few deliveries need it

        instant = dates.instant(text, context.zone or dates.UTC_ZONE)
        if instant is None:
            raise
        # The text contains its zone if reading it in a zone far away results in the same instant.
        if instant == dates.instant(text, ZoneInfo(_FAR_ZONE)):
            return instant
        if not _ZONELESS.fullmatch(text):
            raise
        if context.zone is None:
            raise NoZone(shown(text)) from None
        return instant


def _of_epoch(number: float) -> datetime:
    if not 0 < number <= _SECONDS_MAX * 1_000:
        raise ValueError(f"{shown(number)} is no date")
    return utc(datetime.fromtimestamp(number if number <= _SECONDS_MAX else number / 1_000, UTC))


def _id(value: object, context: Context) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _version(value: object, context: Context) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return value.strip()
    return date_of(value, context)


def _url(value: object, context: Context) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no URL: give one, as a text")
    text = value.strip()
    if context.base and "\n" not in text and "\r" not in text and "\t" not in text:
        try:
            text = urljoin(context.base, text)
        except ValueError as error:
            raise ValueError(f"{shown(value)} is not a URL: {error}") from None
    return canonical(text)


def _urls(value: object, context: Context) -> list[str]:
    urls = []
    for item in (value if isinstance(value, list) else [value])[:100]:
        with suppress(ValueError):  # only a hint: the article's id also leads to its earlier URL
            urls.append(_url(item, context))
    return urls


def _language(value: object, context: Context) -> str:
    if isinstance(value, str) and len(value) <= 100:
        code = _LANGUAGES.get(value.strip().lower()) or language_code(value)
        if code and code not in _NO_LANGUAGES:
            return code
    raise ValueError(f"{shown(value)} is no language code, and no language's name: give one such as en or fr")


def _texts(value: object, context: Context) -> object:
    if not isinstance(value, list):
        return _text(value, context)
    return [_text(text, context) for text in map(_name_of, value) if isinstance(text, str)]


def _text(value: object, context: Context) -> object:
    return clean_html(value) if context.html and isinstance(value, str) else value


def _section(value: object, context: Context) -> object:
    return _text(_name_of(value[0] if isinstance(value, list) and value else value), context)


def _name_of(value: object) -> object:
    """Return the name of an object that has one; other values as they are."""
    if not isinstance(value, dict):
        return value
    return next((value[name] for name in _NAMES if isinstance(value.get(name), str) and value[name].strip()), value)


def _read_truth(value: object, context: Context) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    text = str(first).strip().lower() if isinstance(first, str | int) else None
    if text in _YES or text in _NO:
        return text in _YES
    raise ValueError(f"{shown(value)} is neither true nor false")


def _read_noindex(value: object, context: Context) -> bool:
    """Return `noindex` as a truth value, or as directives for robots: `noindex, nofollow`, in one text or several."""
    texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    words = {word for text in texts for word in _ROBOTS_PARTED.split(text[:_ROBOTS_CHARACTERS_MAX].lower()) if word}
    if "noindex" in words:
        return True
    if words & _SHOWN or any(word.startswith("max-") for word in words):
        return False
    return _read_truth(value, context)


READERS: dict[str, Callable[[Any, Context], Any]] = {
    "id": _id,
    "title": _text,
    "url": _url,
    "published_at": date_of,
    "updated_at": date_of,
    "timestamp": date_of,
    "hold_until": date_of,
    "version": _version,
    "language": _language,
    "section": _section,
    "keywords": _texts,
    "canonical_url": _url,
    "previous_urls": _urls,
    "noindex": _read_noindex,
    "news": _read_truth,
    "page": _read_truth,
}


class Fields:
    """The fields of one item: the values in `data`, the faults in `faults`, each attempt in `readings`."""

    def __init__(
        self,
        mapping: MappingFile,
        root: Mapping[str, Any],
        faults: Mapping[str, str],
        context: Context,
        now: datetime,
        action: Action,
    ) -> None:
        self.readings: list[Reading] = []
        self.data: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        # Fields where a text or a number was unreadable, reported even if another expression gave a value. An unreadable
        # object is not reported: the mapping has another expression for it.
        self.misread: set[str] = set()
        self.context = context
        self._mapping, self._root, self._variable_faults, self._now = mapping, root, faults, now
        names = OF_REMOVALS if action in REMOVALS else OF_ARTICLES + OF_DELIVERIES
        for name in names:
            for expression in mapping.expressions(name):
                if self._read(name, expression):
                    break

    def _read(self, name: str, expression: str) -> bool:
        """Read one expression of a field. Return True if the field's other expressions are not needed."""
        # A failed variable counts as absent, except in an embargo, which must not be lost.
        result, fault = search(expression, self._root, self._variable_faults if name == HELD else {})
        if not fault and is_absent(name, result):
            self.readings.append(Reading(name, expression))
            return False
        value: Any = None
        final = False
        if not fault:
            try:
                value = self._convert(name, result)
            except NoZone as error:
                # A date of another expression would hide that the zone is missing.
                has_setting = "timezone" in self._mapping.settings
                advice = "give the source the setting timezone" if has_setting else "add Z, or an offset such as +01:00"
                fault, final = f"{error} has no zone: {advice}", name in self._mapping.required
            except ValueError as error:
                fault = str(error)
            except (TypeError, OverflowError, RecursionError) as error:  # a value that no reader expects
                fault = f"{shown(result)} cannot be read: {type(error).__name__}"
        self.readings.append(Reading(name, expression, value, fault))
        if fault:
            self.faults.setdefault(name, clean(fault, 300))
            if isinstance(result, str | int | float):
                self.misread.add(name)
            return final
        if name == HELD:  # the latest instant counts
            self.data[name] = max(value, self.data.get(name, value))
            return False
        self.data[name] = value
        return True

    def _convert(self, name: str, result: Any) -> Any:
        """Return the value as an event keeps it. Raises ValueError."""
        # A strict mapping accepts the contract's fields exactly as the contract does.
        is_own = self._mapping.strict and name not in self._mapping.fields
        reader = None if is_own else READERS.get(name)
        value = reader(result, self.context) if reader else result
        if name in OF_ARTICLES:
            return read_field(name, value)
        if name == "site" and not isinstance(value, str):
            raise ValueError(f"{shown(value)} is no text")
        return value
