"""What a feed holds: entries and deletions, as its document says them and nobody has judged yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoppress.feeds import documents
from stoppress.model.site import FEED_SOURCE


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `guid` as the feed has it, `url` absolute but not yet canonical, `title` plain text, dates in UTC.

    What comes besides is as a CMS would send it, and not yet judged. `source` is whose word it is: that of the feeds, or, of
    a page without title or date of publication, that of a sitemap.
    """

    guid: str | None
    url: str | None
    title: str
    published_at: datetime | None
    updated_at: datetime | None
    language: str | None = None
    keywords: tuple[str, ...] = ()
    images: tuple[dict[str, Any], ...] = ()
    videos: tuple[dict[str, Any], ...] = ()
    alternates: tuple[dict[str, Any], ...] = ()
    source: str = FEED_SOURCE


@dataclass(frozen=True, slots=True)
class Deletion:
    """An entry that its feed says is deleted: the guid that it had, and since when."""

    guid: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a feed holds. `incomplete` says why it may be less than there is, `left_out` what was left out for its number."""

    entries: tuple[Entry, ...] = ()
    deleted: tuple[Deletion, ...] = ()
    incomplete: str | None = None
    left_out: tuple[str, ...] = ()


def joined(readings: Sequence[Reading], failures: Sequence[str]) -> Reading:
    """What the sitemaps of one index say together; `failures` are the reasons why others of them could not be read."""
    incomplete = [reading.incomplete for reading in readings if reading.incomplete]
    entries = [entry for reading in readings for entry in reading.entries]
    most = documents.ENTRIES_MAX
    left_out = tuple(reason for reading in readings for reason in reading.left_out)
    if len(entries) > most:
        left_out += (f"{len(entries) - most} pages after the first {most:,}",)
    return Reading(
        tuple(entries[:most]),
        incomplete="; ".join([*failures, *incomplete]) or None,
        left_out=left_out,
    )
