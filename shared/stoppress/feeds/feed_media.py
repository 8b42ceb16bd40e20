"""Read an entry's images, videos, language, keywords and language versions.

They come from Media RSS, enclosures and Dublin Core, as feedparser parses them. The results have the same form
as a CMS's values, and are not validated yet.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from stoppress.model.media import DESCRIPTION_MAX
from stoppress.primitives.text import clean_html

# Returns a feed's URL as an absolute one; None if it is not an http or https URL.
Absolute: TypeAlias = Callable[[Any], str | None]
Item: TypeAlias = Mapping[str, Any]

PAGE_TYPES = {"text/html", "application/xhtml+xml"}
# Three spellings of the same relation (RFC 4287, 4.2.7.2).
_ALTERNATE = {"alternate", "http://www.iana.org/assignments/relation/alternate", ""}
# Hosts of author pictures, which WordPress lists before the story's pictures.
_AVATARS = {"gravatar.com", "0.gravatar.com", "1.gravatar.com", "2.gravatar.com", "secure.gravatar.com"}
# Types of players, not of files. YouTube uses the first.
_FLASH = "application/x-shockwave-flash"
_PLAYERS = {_FLASH, "text/html"}
# The kind of an item without a medium and a type, by the extension of its file name.
_ENDINGS = {
    **dict.fromkeys(("jpg", "jpeg", "png", "gif", "webp", "avif"), "image"),
    **dict.fromkeys(("mp4", "m4v", "mov", "webm", "mpg", "mpeg", "ogv"), "video"),
}


def images(entry: Item, absolute: Absolute) -> tuple[dict[str, Any], ...]:
    """Return the images of an entry, each once. Of an image in several widths, only the widest is taken.

    A thumbnail counts only if the entry has no larger image and no video.
    """
    items = _items_of(entry, "image", absolute)
    if not items and not _items_of(entry, "video", absolute):
        thumbnails = _with_urls(entry.get("media_thumbnail", ()), absolute)
        items = [max(thumbnails, key=_width)] if thumbnails else []
    renditions: dict[str, list[Item]] = {}
    for item in items:
        renditions.setdefault(item["url"].partition("?")[0], []).append(item)
    kept = (
        [max(group, key=_width)] if len({_width(item) for item in group}) == len(group) else group
        for group in renditions.values()
    )
    return tuple({"url": item["url"]} for group in kept for item in group)


def videos(entry: Item, absolute: Absolute) -> tuple[dict[str, Any], ...]:
    """Return the videos of an entry. Files of the same duration count as forms of one video, and so do files without a duration.

    Of each video one form is taken: the feed's default, else the one of the highest bit rate, else the first.
    """
    forms: dict[Any, list[Item]] = {}
    for item in _items_of(entry, "video", absolute):
        forms.setdefault(item.get("duration"), []).append(item)
    pictures = _with_urls(entry.get("media_thumbnail", ()), absolute) or _items_of(entry, "image", absolute)
    title = clean_html(entry.get("title") or "")
    texts = {"title": title, "description": clean_html(entry.get("summary") or "", DESCRIPTION_MAX) or title}
    videos: list[dict[str, Any]] = []
    for number, group in enumerate(forms.values()):
        item = max(group, key=lambda form: (form.get("isdefault") == "true", _number(form.get("bitrate"))))
        place = "player_loc" if item.get("type") in _PLAYERS else "content_loc"
        video = {**texts, place: item["url"]}
        if pictures:
            video["thumbnail_loc"] = pictures[min(number, len(pictures) - 1)]["url"]
        if seconds := _number(item.get("duration")):
            video["duration"] = seconds
        videos.append(video)
    player = absolute(entry.get("media_player", {}).get("url"))
    if player and len(videos) == 1:
        videos[0].setdefault("player_loc", player)
    return tuple(videos)


def language(entry: Item, feed: Item) -> str | None:
    """Return the language of an entry, else of its title, else of the feed."""
    languages = (entry.get("language"), entry.get("title_detail", {}).get("language"), feed.get("language"))
    return next((text for text in languages if text), None)


def keywords(entry: Item) -> tuple[str, ...]:
    """Return the labels of an entry's categories, else their terms."""
    names = (clean_html(tag.get("label") or tag.get("term") or "", 200) for tag in entry.get("tags", ()))
    return tuple(dict.fromkeys(name for name in names if name))


def alternates(entry: Item, page: str | None, absolute: Absolute) -> tuple[dict[str, Any], ...]:
    """Return the language versions of an entry's page; none if the only one is the page itself."""
    links = [link for link in pages_of(entry) if link.get("hreflang")]
    versions = tuple(
        {"hreflang": link["hreflang"], "url": url} for link in links if (url := absolute(link.get("href")))
    )
    return versions if any(version["url"] != page for version in versions) else ()


def pages_of(entry: Item) -> list[Item]:
    """Return an entry's links to web pages: the alternates of type HTML, or without a valid type."""
    return [
        link
        for link in entry.get("links", ())
        if (relation := link.get("rel")) is not None
        and not _ALTERNATE.isdisjoint(relation.lower().split() or [""])
        and ("/" not in (type_ := link.get("type", "")) or type_.partition(";")[0].strip().lower() in PAGE_TYPES)
    ]


def _items_of(entry: Item, kind: str, absolute: Absolute) -> list[Item]:
    enclosures = [
        {**link, "url": link.get("href")} for link in entry.get("links", ()) if link.get("rel") == "enclosure"
    ]
    return [
        item
        for item in _with_urls([*entry.get("media_content", ()), *enclosures], absolute)
        if _kind(item) == kind and urlsplit(item["url"]).hostname not in _AVATARS
    ]


def _with_urls(items: Iterable[Item], absolute: Absolute) -> list[Item]:
    """Return the items that have a URL, each URL once, in their order."""
    located: dict[str, Item] = {}
    for item in items:
        url = absolute(item.get("url"))
        if url:
            located.setdefault(url, {**item, "url": url})
    return list(located.values())


def _kind(item: Item) -> str:
    medium, type_ = item.get("medium"), item.get("type") or ""
    if medium in ("image", "video", "audio"):
        return str(medium)
    if type_ == _FLASH:
        return "video"
    return type_.partition("/")[0] or _ENDINGS.get(urlsplit(item["url"]).path.rpartition(".")[2].lower(), "")


def _width(item: Item) -> int:
    return _number(item.get("width"))


def _number(value: object) -> int:
    """Return the whole part of a number as feeds write it (`185`, `29.97`); 0 if there is no number."""
    whole = str(value or "").partition(".")[0].strip()
    return int(whole[:9]) if whole.isascii() and whole.isdigit() else 0
