"""The tags of a page's images, videos and language versions, without line breaks and in the order of their schemas.

They follow `<lastmod>`. The root element declares the prefixes image, video and xhtml.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from stoppress.model.alternates import Alternate
from stoppress.model.media import Video
from stoppress.primitives.text import escaped

_T = TypeVar("_T")


def image_tags(images: Iterable[str]) -> str:
    """Return one `image:image` per image, with its URL only: the other tags are deprecated (R3.2)."""
    return "".join(f"<image:image><image:loc>{escaped(url)}</image:loc></image:image>" for url in images)


def video_tags(videos: Iterable[Video]) -> str:
    return "".join(f"<video:video>{_video(video)}</video:video>" for video in videos)


def alternate_tags(alternates: Iterable[Alternate]) -> str:
    """Return one `xhtml:link` per language version (R5.1)."""
    return "".join(
        f'<xhtml:link rel="alternate" hreflang="{escaped(alternate.hreflang)}" href="{escaped(alternate.href)}"/>'
        for alternate in alternates
    )


def fit(
    images: tuple[str, ...], videos: tuple[Video, ...], alternates: tuple[Alternate, ...], size_bytes_max: int
) -> tuple[tuple[str, ...], tuple[Video, ...], tuple[Alternate, ...], list[str]]:
    """Return the tags of a page that fit into `size_bytes_max` bytes of UTF-8, and a reason for each kind that was shortened.

    Language versions come first: without one of them a search engine sends readers to the wrong page. Videos follow, because
    each is a search result of its own. The newest images, which are the last ones, get the rest.
    """
    kept_alternates, room = _fitting(alternates, alternate_tags, size_bytes_max)
    kept_videos, room = _fitting(videos, video_tags, room)
    newest, _ = _fitting(images[::-1], image_tags, room)
    counts = {
        "images: the oldest": (len(newest), len(images)),
        "videos: the last": (len(kept_videos), len(videos)),
        "alternates: the last": (len(kept_alternates), len(alternates)),
    }
    reasons = [
        f"{which} {given - kept:,} of {given:,} were left out: a page's tags take {size_bytes_max:,} bytes at most"
        for which, (kept, given) in counts.items()
        if kept < given
    ]
    return newest[::-1], kept_videos, kept_alternates, reasons


def _fitting(items: tuple[_T, ...], tags: Callable[[tuple[_T, ...]], str], room: int) -> tuple[tuple[_T, ...], int]:
    """Return the first items whose tags fit, and the bytes left after them."""
    for number, item in enumerate(items):
        size_bytes = len(tags((item,)).encode())
        if size_bytes > room:
            return items[:number], room
        room -= size_bytes
    return items, room


def _video(video: Video) -> str:
    return "".join(
        (
            _tag("thumbnail_loc", video.thumbnail_loc),
            _tag("title", video.title),
            _tag("description", video.description),
            _tag("content_loc", video.content_loc),
            _tag("player_loc", video.player_loc),
            _tag("duration", video.duration_s),
            _tag("expiration_date", video.expiration_date),
            _tag("rating", video.rating),
            _tag("view_count", video.view_count),
            _tag("publication_date", video.publication_date),
            *(_tag("tag", tag) for tag in video.tags),
            _tag("family_friendly", video.family_friendly),
            _relation("restriction", video.restriction),
            _tag("requires_subscription", video.requires_subscription),
            _tag("uploader", video.uploader, {"info": video.uploader_info} if video.uploader_info else {}),
            _relation("platform", video.platform),
            _tag("live", video.live),
        )
    )


def _relation(name: str, relation: str | None) -> str:
    if not relation:
        return ""
    relationship, _, codes = relation.partition(" ")
    return _tag(name, codes or None, {"relationship": relationship})


def _tag(name: str, value: str | int | None, attributes: dict[str, str] | None = None) -> str:
    """Return a tag of a video; empty without a value."""
    if value is None:
        return ""
    text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
    pairs = "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items()) if attributes else ""
    return f"<video:{name}{pairs}>{escaped(text)}</video:{name}>"
