"""Reads the images and videos of an article from what a CMS sends. An invalid one is left out, with a reason.

`page` is the page's URL, the base of relative URLs. URLs become canonical but keep all parameters, because the URL of
an image or a video may be signed. Dates become the text that the sitemap shows, so that JSON, the table and the sitemap agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from stoppress.model.media_values import READERS, media_url, read_date

# Google: at most 1,000 image:image in a url (R3.1).
IMAGES_MAX = 1_000
# No rule limits the videos of a page (R4.4). No page has so many.
VIDEOS_MAX = 100
# Ten times IMAGES_MAX. Limits the work that a sender can cause with a long list.
ITEMS_READ_MAX = 10_000

# Other names for a video's values, schema.org's among them.
_ALIASES = {
    "thumbnail_url": "thumbnail_loc",
    "content_url": "content_loc",
    "player_url": "player_loc",
    "embed_url": "player_loc",
    "duration_s": "duration",
    "tag": "tags",
}
_NAMES = {key.replace("_", ""): name for key, name in (*zip(READERS, READERS, strict=True), *_ALIASES.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """A video of a page, with a field for each tag. Dates are texts: `2026-11-20` or `2026-11-20T08:00:00Z`.

    `restriction` and `platform` hold a relationship and codes, such as `allow GB IE` or `deny tv`.
    """

    thumbnail_loc: str
    title: str
    description: str
    content_loc: str | None = None
    player_loc: str | None = None
    duration_s: int | None = None
    expiration_date: str | None = None
    rating: str | None = None
    view_count: int | None = None
    publication_date: str | None = None
    family_friendly: bool | None = None
    restriction: str | None = None
    platform: str | None = None
    requires_subscription: bool | None = None
    uploader: str | None = None
    uploader_info: str | None = None
    live: bool | None = None
    tags: tuple[str, ...] = ()


def read_images(value: object, page: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the different URLs of a page's images, oldest first by `published_at`, and the reasons for what is left out.

    Images without a date come before those with a date, in the order of the list. Beyond IMAGES_MAX the
    oldest are left out.
    """
    reasons: list[str] = []
    dates: dict[str, str] = {}
    for place, item in items_of("images", value, reasons):
        try:
            url, published = _image(item, page)
        except ValueError as error:
            reasons.append(f"{place}: {error}")
            continue
        try:
            date = read_date(published) if published else ""
        except ValueError as error:
            reasons.append(f"{place}.published_at: {error}; the image is kept as one without a date")
            date = ""
        dates[url] = max(date, dates.get(url, ""))
    urls = sorted(dates, key=lambda url: dates[url])
    if len(urls) > IMAGES_MAX:
        reasons.append(f"images: a page takes {IMAGES_MAX:,}; the oldest {len(urls) - IMAGES_MAX:,} were left out")
    return tuple(urls[-IMAGES_MAX:]), reasons


def read_videos(value: object, page: str) -> tuple[tuple[Video, ...], list[str]]:
    """Return the different videos of a page, in their order, and the reasons for what is left out or cut."""
    reasons: list[str] = []
    videos: dict[str | None, Video] = {}
    for place, item in items_of("videos", value, reasons):
        if not isinstance(item, dict):
            reasons.append(f"{place}: give an object: thumbnail_loc, title, description, content_loc or player_loc")
            continue
        values = _values(item, page, place, reasons)
        missing = [name for name in ("thumbnail_loc", "title", "description") if name not in values]
        if "content_loc" not in values and "player_loc" not in values:
            missing.append("content_loc or player_loc")
        if missing:
            reasons.append(f"{place}: is left out without {', '.join(missing)}: give what is missing")
            continue
        video = Video(**values)
        # Google identifies a video by its file, else by its player.
        if videos.setdefault(video.content_loc or video.player_loc, video) != video:
            reasons.append(f"{place}: is left out: a video before it has the same file or player")
    if len(videos) > VIDEOS_MAX:
        reasons.append(f"videos: a page takes {VIDEOS_MAX}; the last {len(videos) - VIDEOS_MAX:,} were left out")
    return tuple(videos.values())[:VIDEOS_MAX], reasons


def video_json(video: Video) -> dict[str, Any]:
    """Return a video for JSON: texts, integers, booleans, a list. Absent values are left out."""
    values = {field.name: getattr(video, field.name) for field in fields(video)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value != ()
    }


def items_of(name: str, value: object, reasons: list[str]) -> Iterator[tuple[str, Any]]:
    """Return the items of a list, or a single item without a list, each with its place, such as `images[3]`."""
    if not isinstance(value, list):
        yield from [] if value in (None, "", {}) else [(name, value)]
        return
    start = max(0, len(value) - ITEMS_READ_MAX)
    if start:
        reasons.append(f"{name}: {len(value):,} were given, of which only the last {ITEMS_READ_MAX:,} are looked at")
    yield from ((f"{name}[{start + number}]", item) for number, item in enumerate(value[start:]))


def _image(item: object, page: str) -> tuple[str, object]:
    """Return the URL and the date of an image. Raises ValueError."""
    if isinstance(item, dict):
        named = next((item[name] for name in ("url", "loc", "src") if item.get(name) is not None), None)
        return media_url(named, page), item.get("published_at")
    return media_url(item, page), None


def _values(item: dict[str, Any], page: str, place: str, reasons: list[str]) -> dict[str, Any]:
    """Return the readable fields of a video. Adds a reason for each other field."""
    values: dict[str, Any] = {}
    for name, value in _by_tag(item).items():
        notes: list[str] = []
        try:
            values[name] = READERS[name](value, page, notes)
        except ValueError as error:
            notes.append(str(error))
        reasons += (f"{place}.{name}: {note}" for note in notes)
    if "uploader" not in values and values.pop("uploader_info", None):
        reasons.append(f"{place}.uploader_info: is left out without an uploader: give the uploader's name")
    if "duration" in values:
        values["duration_s"] = values.pop("duration")
    return values


def _by_tag(item: dict[str, Any]) -> dict[str, Any]:
    """The values of an item by tag. Accepts names in snake case and camel case; a tag's own name overrules its aliases."""
    uploader = item.get("uploader")
    if isinstance(uploader, dict):
        item = {**item, "uploader": uploader.get("name"), "uploader_info": uploader.get("info", uploader.get("url"))}
    values: dict[str, Any] = {}
    for key, value in item.items():
        name = _NAMES.get(key.replace("_", "").lower())
        if name and value not in (None, "", []) and (key == name or name not in values):
            values[name] = value
    return values
