"""Reads single values of images and videos. An error says what to give instead.

A reader takes the value, the URL of its page, and a list of notes. Where it shortens a usable value, it adds a note. It raises
ValueError for an unusable value.
"""

import re
from collections.abc import Callable
from datetime import date
from typing import Any, TypeAlias

from stoppress.primitives.instants import iso, parse
from stoppress.primitives.text import COUNTRIES, TITLE_CHARACTERS_MAX, clean
from stoppress.primitives.urls import canonical, host_of, linked

# The schema's limit. Google no longer documents one, but our files keep to the schema (R4.1).
TITLE_MAX = 100
DESCRIPTION_MAX = 2_048  # R4.1
DURATION_S_MAX = 28_800  # R4.2, as the next three
RATING_MAX = 5
UPLOADER_MAX = 255
TAGS_MAX = 32
# No rule limits a tag's length. A tag is a word or two.
TAG_CHARACTERS_MAX = 200
# Limits the work that a sender can cause with a long list.
TAGS_READ_MAX = 1_000
CODES_SHOWN = 5
# Larger than any counter, and within the 38 digits of DynamoDB's numbers.
VIEW_COUNT_MAX = 2**63 - 1
# How much of a wrong value a reason repeats.
SHOWN_CHARACTERS_MAX = 60

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,19})?")
_ISO_DURATION = re.compile(
    r"P(?:(?P<days>[0-9]{1,9})D)?"
    r"(?:T(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?"
)
_UNITS_S = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
PLATFORMS = {"web", "mobile", "tv"}
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}


Reader: TypeAlias = Callable[[Any, str, list[str]], Any]


def shown(value: object) -> str:
    """Return a wrong value for a reason: shortened, on one line."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:SHOWN_CHARACTERS_MAX] if isinstance(value, str) else value)[: SHOWN_CHARACTERS_MAX + 2]


def media_url(value: object, page: str, notes: list[str] | None = None) -> str:
    """Return the URL of an image, a file or a player, with all its parameters. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no URL: give one, as a text")
    url = linked(value, page, keep_query=True)
    # The same page, apart from the scheme and tracking parameters.
    if canonical(url).partition(":")[2] == page.partition(":")[2]:
        raise ValueError("the URL is that of the page itself: give that of the file")
    return url


def _uploader_info(value: object, page: str, notes: list[str]) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no URL: give one, as a text")
    url = linked(value, page)
    if host_of(url) != host_of(page):
        raise ValueError(f"is on {host_of(url)}: give a page on {host_of(page)}, where the article is")
    return url


def _text(characters_max: int) -> Reader:
    def read(value: object, page: str, notes: list[str]) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is no text: give it in quotation marks")
        # `clean` cuts the text two characters after the limit, and removes a space there. So a text over the limit stays over it.
        plain = clean(value, max(characters_max + 2, TITLE_CHARACTERS_MAX))
        if not plain:
            raise ValueError("is empty: give it as readers see it")
        if len(plain) <= characters_max:
            return plain
        notes.append(f"was cut to {characters_max:,} characters: give a shorter one")
        return _shorten(plain, characters_max)

    return read


def _shorten(text: str, characters_max: int) -> str:
    """Cut a text after a word and add an ellipsis. A last word longer than half of the text is cut too."""
    words = text[:characters_max].rpartition(" ")[0]
    return f"{words if len(words) > characters_max // 2 else text[: characters_max - 1]}…"


def _number(value: object) -> float | None:
    """Return the value of a number, or of a text with a number; else None."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value) if "." in value else int(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _duration(value: object, page: str, notes: list[str]) -> int:
    parts = _ISO_DURATION.fullmatch(value.strip().upper()) if isinstance(value, str) else None
    if parts:
        seconds: float | None = sum(float(parts[unit] or 0) * length_s for unit, length_s in _UNITS_S.items())
    else:
        seconds = _number(value)
    if seconds is None or not 1 <= seconds <= DURATION_S_MAX:
        raise ValueError(
            f"{shown(value)} is no duration: give 1 to {DURATION_S_MAX} seconds, or a text such as PT2M30S"
        )
    return round(seconds)


def _rating(value: object, page: str, notes: list[str]) -> str:
    number = _number(value)
    if number is None or not 0 <= number <= RATING_MAX:
        raise ValueError(f"{shown(value)} is no rating: give a number from 0.0 to {RATING_MAX}.0")
    return str(abs(round(float(number), 2)))


def _view_count(value: object, page: str, notes: list[str]) -> int:
    number = _number(value)
    if not isinstance(number, int) or not 0 <= number <= VIEW_COUNT_MAX:
        raise ValueError(f"{shown(value)} is no count: give a whole number from 0 on")
    return number


def read_date(value: object, page: str = "", notes: list[str] | None = None) -> str:
    """Return a date for the sitemap: a day, or a day and a time in UTC. Such texts sort by time. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no date: give a text such as 2026-11-20T08:00:00Z")
    if not _DAY.fullmatch(value.strip()):
        return iso(parse(value))
    try:
        return date.fromisoformat(value.strip()).isoformat()
    except ValueError:
        raise ValueError(f"{shown(value)} is not in the calendar") from None


def _yes_or_no(value: object, page: str, notes: list[str]) -> bool:
    answer = _YES_NO.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(answer, bool):
        raise ValueError(f"{shown(value)} is neither yes nor no: give one of them")
    return answer


def _country(code: str) -> str | None:
    # Two wrong codes with a clear meaning. Dropping them would show a video where it is forbidden.
    spelled = {"UK": "GB", "EL": "GR"}.get(code.upper(), code.upper())
    return spelled if spelled in COUNTRIES else None


def _platform(code: str) -> str | None:
    return code.lower() if code.lower() in PLATFORMS else None


def _relation(codes_name: str, example: str, spelled: Callable[[str], str | None]) -> Reader:
    def read(value: object, page: str, notes: list[str]) -> str:
        relationship, codes = _relationship(value, codes_name)
        if relationship is None:
            raise ValueError(f'give {{"relationship": "allow" or "deny", "{codes_name}": {example}}}')
        spellings = [spelled(code.strip()) if isinstance(code, str) else None for code in codes]
        good = dict.fromkeys(spelling for spelling in spellings if spelling)
        if not good:
            raise ValueError(f"is left out, none of its codes is known: give some such as {example}")
        if wrong := [shown(code) for code, spelling in zip(codes, spellings, strict=True) if not spelling]:
            notes.append(f"{', '.join(wrong[:CODES_SHOWN])}: left out, not known; give codes such as {example}")
        return " ".join([relationship, *good])

    return read


def _relationship(value: object, codes_name: str) -> tuple[str | None, list[Any]]:
    """The relationship and the codes of `{"relationship": "allow", "countries": […]}`, `{"allow": […]}`, "allow GB IE"."""
    relationship: Any = None
    codes: Any = None
    if isinstance(value, str):
        relationship, _, codes = value.strip().partition(" ")
    elif isinstance(value, dict):
        named = next((name for name in ("allow", "deny") if name in value), None)
        relationship = named or value.get("relationship")
        codes = value[named] if named else value.get(codes_name, value.get("codes"))
    words = codes.replace(",", " ").split() if isinstance(codes, str) else codes
    if not isinstance(relationship, str) or not isinstance(words, list):
        return None, []
    relationship = relationship.strip().lower()
    return (relationship if relationship in ("allow", "deny") else None), words


def _tags(value: object, page: str, notes: list[str]) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list):
        raise ValueError(f"{shown(value)} is no list: give texts, in square brackets")
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) < len(words):
        notes.append("some are no texts and were left out: give them in quotation marks")
    tags = tuple(dict.fromkeys(plain for word in texts[:TAGS_READ_MAX] if (plain := clean(word, TAG_CHARACTERS_MAX))))
    if len(tags) > TAGS_MAX:
        notes.append(f"a video takes {TAGS_MAX}; those after the first {TAGS_MAX} were left out")
    return tags[:TAGS_MAX]


READERS: dict[str, Reader] = {
    "thumbnail_loc": media_url,
    "title": _text(TITLE_MAX),
    "description": _text(DESCRIPTION_MAX),
    "content_loc": media_url,
    "player_loc": media_url,
    "duration": _duration,
    "expiration_date": read_date,
    "rating": _rating,
    "view_count": _view_count,
    "publication_date": read_date,
    "family_friendly": _yes_or_no,
    "restriction": _relation("countries", '["GB", "IE"]', _country),
    "platform": _relation("platforms", '["web", "mobile", "tv"]', _platform),
    "requires_subscription": _yes_or_no,
    "uploader": _text(UPLOADER_MAX),
    "uploader_info": _uploader_info,
    "live": _yes_or_no,
    "tags": _tags,
}
