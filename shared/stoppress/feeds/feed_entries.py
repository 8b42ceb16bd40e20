"""The entries and deletions of a feed, as its document has them, not yet checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoppress.feeds import feed_documents
from stoppress.model.site import FEED_SOURCE


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `guid` as the feed has it, `url` absolute but not canonical, `title` plain text, dates in UTC.

    Media, keywords and alternates have the form that a CMS would send. `source` is `feed`. For a page of a sitemap that lacks
    a title or a publication date, it is `sitemap`.
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
    """A tombstone: the guid of a deleted entry, and when it was deleted."""

    guid: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a feed. `incomplete`: why entries may be missing. `left_out`: texts that say how many are over the limit."""

    entries: tuple[Entry, ...] = ()
    deleted: tuple[Deletion, ...] = ()
    incomplete: str | None = None
    left_out: tuple[str, ...] = ()


def joined(readings: Sequence[Reading], failures: Sequence[str]) -> Reading:
    """Join the sitemaps of one index. `failures` are the reasons why other sitemaps of it could not be read."""
    incomplete = [reading.incomplete for reading in readings if reading.incomplete]
    entries = [entry for reading in readings for entry in reading.entries]
    left_out = tuple(reason for reading in readings for reason in reading.left_out)
    if len(entries) > feed_documents.ENTRIES_MAX:
        left_out += (
            f"{len(entries) - feed_documents.ENTRIES_MAX} pages after the first {feed_documents.ENTRIES_MAX:,}",
        )
    return Reading(
        tuple(entries[: feed_documents.ENTRIES_MAX]),
        incomplete="; ".join([*failures, *incomplete]) or None,
        left_out=left_out,
    )
