"""Entries of sitemaps and of the index, as the table holds them."""

from dataclasses import dataclass, field
from datetime import datetime

from stoppress.model.alternates import Alternate
from stoppress.model.media import Video
from stoppress.model.rules import NO_TRAITS, Traits
from stoppress.model.validation import ChangeFreq


@dataclass(frozen=True, slots=True)
class GeneralEntry:
    """A page in a shard. `language` is set only if it differs from that of the page's section, edition or site."""

    loc: str
    lastmod: datetime | None = None
    traits: Traits = NO_TRAITS
    images: tuple[str, ...] = ()
    videos: tuple[Video, ...] = ()
    alternates: tuple[Alternate, ...] = ()
    language: str | None = None
    changefreq: ChangeFreq | None = None
    priority: str | None = None


@dataclass(frozen=True, slots=True)
class NewsEntry:
    """An article in a news sitemap. Publication and language default to those of its section, edition or site."""

    loc: str
    title: str
    published: datetime
    lastmod: datetime | None = None
    publication: str | None = None
    language: str | None = None
    traits: Traits = NO_TRAITS


@dataclass(frozen=True, slots=True)
class Mark:
    """Commit mark: what the index records about the last rewrite of a file.

    `digest` is a hash of the file's bytes and of the settings of its other forms. `also` names these forms (gzip, text, feed).
    `expires`: the next instant at which `roll_window` looks for expired entries of a news sitemap.
    `rev` counts the writes of the mark.
    """

    file: str
    changed: datetime
    urls: int
    size_bytes: int
    digest: str
    also: tuple[str, ...] = ()
    expires: datetime | None = None
    rev: int | None = field(default=None, compare=False)

    @property
    def served(self) -> str:
        """Return the name that the index lists: the gzip form if there is one."""
        packed = f"{self.file}.gz"
        return packed if packed in self.also else self.file
