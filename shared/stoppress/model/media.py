"""Reads the images and videos of an article from the values of a CMS or a feed. An invalid value is left out, with a reason.

`page` is the page's URL, the base of relative URLs. URLs become canonical but keep all parameters, because the URL of
an image or a video may be signed. Dates become the text that the sitemap shows, so that JSON, the table and the sitemap agree.

A reader of a single value takes the value, the URL of its page, and a list of notes. It returns the text of a tag, or several
texts. Where it shortens a usable value, it adds a note. For an unusable value it raises ValueError, with what to send instead.
"""

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import date, timedelta
from typing import Any, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError

from stoppress.model.entries import Video
from stoppress.primitives.instants import iso, parse
from stoppress.primitives.text import COUNTRIES, TITLE_CHARACTERS_MAX, clean, shown
from stoppress.primitives.urls import canonical, host_of, linked

# Google: at most 1,000 image:image in a url (R3.1).
IMAGES_MAX = 1_000
# No rule limits the videos of a page (R4.4). No page has this many.
VIDEOS_MAX = 100
# Ten times IMAGES_MAX. Limits the work that a sender can cause with a long list.
ITEMS_READ_MAX = 10_000

# The schema's limit. Google no longer documents a limit, but our files follow the schema (R4.1).
TITLE_MAX = 100
DESCRIPTION_MAX = 2_048  # R4.1
DURATION_S_MAX = 28_800  # R4.2, as the next three
RATING_MAX = 5
UPLOADER_MAX = 255
TAGS_MAX = 32
# No rule limits a tag's length. A tag is a word or two.
TAG_CHARACTERS_MAX = 200
CODES_SHOWN = 5
# Larger than any counter, and within the 38 digits of DynamoDB's numbers.
VIEW_COUNT_MAX = 2**63 - 1

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,19})?")
_DURATIONS: TypeAdapter[timedelta] = TypeAdapter(timedelta, config=ConfigDict(defer_build=True))
PLATFORMS = {"web", "mobile", "tv"}
_YES_NO = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}

Reader: TypeAlias = Callable[[Any, str, list[str]], str | tuple[str, ...]]


def read_images(value: object, page: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the different URLs of a page's images, oldest first by `published_at`, and the reasons for values that are left out.

    Images without a date come before those with a date, in the order of the list. Beyond IMAGES_MAX the
    oldest are left out.
    """
    reasons: list[str] = []
    dates: dict[str, str] = {}
    for place, item in items_of("images", value, reasons):
        image = item if isinstance(item, dict) else {"url": item}
        try:
            url = media_url(first_of(image, "url", "loc", "src"), page)
        except ValueError as error:
            reasons.append(f"{place}: {error}")
            continue
        try:
            date = read_date(image["published_at"]) if image.get("published_at") else ""
        except ValueError as error:
            reasons.append(f"{place}.published_at: {error}; the image is kept as one without a date")
            date = ""
        dates[url] = max(date, dates.get(url, ""))
    urls = sorted(dates, key=lambda url: dates[url])
    if len(urls) > IMAGES_MAX:
        reasons.append(f"images: a page takes {IMAGES_MAX:,}; the oldest {len(urls) - IMAGES_MAX:,} were left out")
    return tuple(urls[-IMAGES_MAX:]), reasons


def read_videos(value: object, page: str) -> tuple[tuple[Video, ...], list[str]]:
    """Return the different videos of a page, in their order, and the reasons for values that are left out or cut."""
    reasons: list[str] = []
    videos: dict[str, Video] = {}
    for place, item in items_of("videos", value, reasons):
        if not isinstance(item, dict):
            reasons.append(f"{place}: give an object: thumbnail_loc, title, description, content_loc or player_loc")
            continue
        tags = _tags(item, page, place, reasons)
        values = dict(tags)
        missing = [name for name in ("thumbnail_loc", "title", "description") if name not in values]
        # Google identifies a video by its file, else by its player.
        url = values.get("content_loc") or values.get("player_loc")
        if url is None:
            missing.append("content_loc or player_loc")
        if url is None or missing:
            reasons.append(f"{place}: is left out without {', '.join(missing)}: give what is missing")
        elif videos.setdefault(url, tags) != tags:
            reasons.append(f"{place}: is left out: a video before it has the same file or player")
    if len(videos) > VIDEOS_MAX:
        reasons.append(f"videos: a page takes {VIDEOS_MAX}; the last {len(videos) - VIDEOS_MAX:,} were left out")
    return tuple(videos.values())[:VIDEOS_MAX], reasons


def items_of(name: str, value: object, reasons: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, or a single item without a list, each with its place, such as `images[3]`."""
    if not isinstance(value, list):
        yield from [] if value in (None, "", {}) else [(name, value)]
        return
    start = max(0, len(value) - ITEMS_READ_MAX)
    if start:
        reasons.append(f"{name}: {len(value):,} were given, of which only the last {ITEMS_READ_MAX:,} are looked at")
    yield from ((f"{name}[{start + number}]", item) for number, item in enumerate(value[start:]))


def _tags(item: dict[str, Any], page: str, place: str, reasons: list[str]) -> Video:
    """Return the tags of the readable fields of a video. Adds a reason for each other field."""
    tags: list[tuple[str, str]] = []
    for name, value in _named_fields(item):
        notes: list[str] = []
        try:
            texts = READERS[name](value, page, notes)
        except ValueError as error:
            reasons.append(f"{place}.{name}: {error}")
            continue
        tags += [(name, texts)] if isinstance(texts, str) else [("tag", text) for text in texts]
        reasons += (f"{place}.{name}: {note}" for note in notes)
    if "uploader_info" in dict(tags) and "uploader" not in dict(tags):
        reasons.append(f"{place}.uploader_info: is left out without an uploader: give the uploader's name")
        tags = [(name, text) for name, text in tags if name != "uploader_info"]
    return tuple(tags)


def _named_fields(item: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a video that have a value, with our names and in the order of the tags."""
    uploader = item.get("uploader")
    if isinstance(uploader, dict):
        item = {**item, "uploader": uploader.get("name"), "uploader_info": first_of(uploader, "info", "url")}
    by_name = {_NAMES.get(key.replace("_", "").lower()): value for key, value in item.items()}
    for name in READERS:
        if (value := item.get(name, by_name.get(name))) not in (None, "", []):
            yield name, value


def first_of(item: dict[str, Any], *names: str) -> object:
    """Return the first value that is not None among those of `names`; else None."""
    return next((item[name] for name in names if item.get(name) is not None), None)


def url_on(page: str, value: object, *, keep_query: bool = False) -> str:
    """Return the canonical URL of a page. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no URL: give one, as a text")
    return linked(value, page, keep_query=keep_query)


def media_url(value: object, page: str, notes: list[str] | None = None) -> str:
    """Return the URL of an image, a file or a player, with all its parameters. Raises ValueError."""
    url = url_on(page, value, keep_query=True)
    # The same page, apart from the scheme and tracking parameters.
    if canonical(url).partition(":")[2] == page.partition(":")[2]:
        raise ValueError("the URL is that of the page itself: give that of the file")
    return url


def _uploader_info(value: object, page: str, notes: list[str]) -> str:
    url = url_on(page, value)
    if host_of(url) != host_of(page):
        raise ValueError(f"is on {host_of(url)}: give a page on {host_of(page)}, where the article is")
    return url


def _text(characters_max: int) -> Reader:
    def read(value: object, page: str, notes: list[str]) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is no text: give it in quotation marks")
        # `clean` cuts the text two characters after the limit, and removes a space there, so that a text over the limit stays over it.
        plain = clean(value, max(characters_max + 2, TITLE_CHARACTERS_MAX))
        if not plain:
            raise ValueError("is empty: give it as readers see it")
        if len(plain) <= characters_max:
            return plain
        notes.append(f"was cut to {characters_max:,} characters: give a shorter one")
        # Cut after a word. A last word longer than half of the text is cut too.
        words = plain[:characters_max].rpartition(" ")[0]
        return f"{words if len(words) > characters_max // 2 else plain[: characters_max - 1]}…"

    return read


def _number(value: object) -> float | None:
    """Return the value of a number, or of a text with a number; else None."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value) if "." in value else int(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _duration(value: object, page: str, notes: list[str]) -> str:
    seconds = _number(value)
    if seconds is None and isinstance(value, str) and value.strip()[:1] in ("P", "p"):
        with suppress(ValidationError):  # ISO 8601; pydantic reads 02:30 too, as hours
            seconds = _DURATIONS.validate_python(value.strip().upper()).total_seconds()
    if seconds is None or not 1 <= seconds <= DURATION_S_MAX:
        raise ValueError(
            f"{shown(value)} is no duration: give 1 to {DURATION_S_MAX} seconds, or a text such as PT2M30S"
        )
    return str(round(seconds))


def _rating(value: object, page: str, notes: list[str]) -> str:
    number = _number(value)
    if number is None or not 0 <= number <= RATING_MAX:
        raise ValueError(f"{shown(value)} is no rating: give a number from 0.0 to {RATING_MAX}.0")
    return str(abs(round(float(number), 2)))


def _view_count(value: object, page: str, notes: list[str]) -> str:
    number = _number(value)
    if not isinstance(number, int) or not 0 <= number <= VIEW_COUNT_MAX:
        raise ValueError(f"{shown(value)} is no count: give a whole number from 0 on")
    return str(number)


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


def _yes_or_no(value: object, page: str, notes: list[str]) -> str:
    answer = _YES_NO.get(str(value).strip().lower())
    if answer is None:
        raise ValueError(f"{shown(value)} is neither yes nor no: give one of them")
    return answer


def _relation(example: str, spell: Callable[[str], str], allowed: Collection[str]) -> Reader:
    """Return the reader of `{"allow": ["GB", "IE"]}`, and of the text `allow GB IE` that it becomes."""

    def read(value: object, page: str, notes: list[str]) -> str:
        relationship, *codes = _words(value) or [""]
        if relationship not in ("allow", "deny") or not codes:
            raise ValueError(f'give {{"allow": {example}}}, or the same with "deny"')
        good = dict.fromkeys(code for code in map(spell, codes) if code in allowed)
        if not good:
            raise ValueError(f"is left out, none of its codes is known: give some such as {example}")
        if wrong := [shown(code) for code in codes if spell(code) not in allowed]:
            notes.append(f"{', '.join(wrong[:CODES_SHOWN])}: left out, not known; give codes such as {example}")
        return " ".join([relationship, *good])

    return read


def _words(value: object) -> list[str]:
    """Return the words of `allow GB IE`, `{"allow": ["GB", "IE"]}` or `{"relationship": "allow", "codes": ["GB", "IE"]}`."""
    if not isinstance(value, dict):
        return value.replace(",", " ").split() if isinstance(value, str) else []
    relationship = next((name for name in ("allow", "deny") if name in value), str(value.get("relationship")).lower())
    codes = first_of(value, relationship, "countries", "platforms", "codes")
    return [relationship, *(map(str.strip, map(str, codes)) if isinstance(codes, list) else _words(str(codes or "")))]


def _country(code: str) -> str:
    # Two wrong codes with a clear meaning. Without them a video would be shown where it is forbidden.
    return {"UK": "GB", "EL": "GR"}.get(code.upper(), code.upper())


def _tag_texts(value: object, page: str, notes: list[str]) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list):
        raise ValueError(f"{shown(value)} is no list: give texts, in square brackets")
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) < len(words):
        notes.append("some are no texts and were left out: give them in quotation marks")
    tags = tuple(dict.fromkeys(plain for word in texts if (plain := clean(word, TAG_CHARACTERS_MAX))))
    if len(tags) > TAGS_MAX:
        notes.append(f"a video takes {TAGS_MAX}; those after the first {TAGS_MAX} were left out")
    return tags[:TAGS_MAX]


# The fields of a video, in the order of the schema's tags.
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
    "tags": _tag_texts,
    "family_friendly": _yes_or_no,
    "restriction": _relation('["GB", "IE"]', _country, COUNTRIES),
    "requires_subscription": _yes_or_no,
    "uploader": _text(UPLOADER_MAX),
    "uploader_info": _uploader_info,
    "platform": _relation('["web", "mobile", "tv"]', str.lower, PLATFORMS),
    "live": _yes_or_no,
}
# Other names for a video's values: those of schema.org's VideoObject, and those of CMSs. Any of them may be in camel case.
_ALIASES = {
    "thumbnail_url": "thumbnail_loc", "content_url": "content_loc", "player_url": "player_loc", "embed_url": "player_loc",
    "duration_s": "duration", "tag": "tags",
}  # fmt: skip
_NAMES = {key.replace("_", ""): name for key, name in (*zip(READERS, READERS, strict=True), *_ALIASES.items())}
