"""Sitemap files: their entries, their exact bytes.

A file is a pure function of its entries, the site's configuration and, for the news sitemap, the clock.
One `<url>` a line, sorted, no generation time, no comment: equal entries give equal bytes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from io import BytesIO
from itertools import islice
from operator import attrgetter

from stoppress.model.alternates import DEFAULT, Alternate, hreflang_of
from stoppress.model.file_names import permanent_files
from stoppress.model.media import Video
from stoppress.model.rules import NO_TRAITS, Traits, excluding_rule
from stoppress.model.site import ChangeFreq, Site
from stoppress.primitives.instants import TWO_DIGITS, iso
from stoppress.primitives.text import escaped
from stoppress.primitives.urls import host_of, identity
from stoppress.sitemaps.tags import (
    IMAGE_NAMESPACE,
    VIDEO_NAMESPACE,
    XHTML_NAMESPACE,
    alternate_tags,
    image_tags,
    video_tags,
)

# sitemaps.org: at most 50,000 URLs and 50 MiB uncompressed in a file (R1.10), 50,000 sitemaps in an index (R1.11).
URLS_MAX = 50_000
INDEX_ENTRIES_MAX = 50_000
BYTES_MAX = 52_428_800
# Google: at most 1,000 news:news in a sitemap (R2.4), only articles of the last two days (R2.5).
NEWS_ENTRIES_MAX = 1_000
NEWS_WINDOW = timedelta(hours=48)

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
_NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
# What a file declares if one of its lines uses it.
_EXTENSIONS = {"xhtml": XHTML_NAMESPACE, "image": IMAGE_NAMESPACE, "video": VIDEO_NAMESPACE}
# More than declaration, root element and name spaces take, and a byte for each page whose scheme becomes https, so that
# counted lines never add up to a file over the limit.
FRAME_BYTES_MAX = 65_536
# So many lines are made, joined and encoded at a time: a file of 50 MB is never there as text as well.
_LINES_AT_ONCE = 50

# The form of the lines. It stands with each file: raise it with every change of the bytes that an entry becomes, and of which
# entries a file lists, so that files of the form before are made anew from all their entries, not from those alone that changed.
RENDERER = 1


class FileTooLarge(ValueError):
    """A file would break a limit of the protocol. Nothing is written; the last good file stands."""


@dataclass(frozen=True, slots=True)
class GeneralEntry:
    """One page in a shard. `language` is that of the page where it is not its section's, edition's or site's."""

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
    """One article in the news sitemap. Without publication or language of its own it has its section's, edition's or site's."""

    loc: str
    title: str
    published: datetime
    lastmod: datetime | None = None
    publication: str | None = None
    language: str | None = None
    traits: Traits = NO_TRAITS

    @property
    def expires_at(self) -> datetime:
        """When it leaves the window, whether or not anything happens then."""
        return self.published + NEWS_WINDOW


@dataclass(frozen=True, slots=True)
class Mark:
    """What the index knows of a file: the commit mark of its last rewrite."""

    file: str
    changed: datetime
    urls: int
    size_bytes: int
    digest: str
    # The names of the other forms that were written with it.
    also: tuple[str, ...] = ()
    # How often it was written.
    rev: int | None = field(default=None, compare=False)

    @property
    def served(self) -> str:
        """The name under which the index has it."""
        packed = f"{self.file}.gz"
        return packed if packed in self.also else self.file


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file's bytes, how many pages it lists, the newest instant that stands in it, and the pages of a shard that has a text.

    `by_line`: each line depends on its own entry alone, so that the next change can be folded into the file. `fresh`: after
    that has been done, a file of the lines that were made anew.
    """

    body: bytes
    urls: int
    newest: datetime | None
    locs: tuple[str, ...] = ()
    by_line: bool = False
    fresh: bytes | None = None


def render_general(entries: Iterable[GeneralEntry], site: Site) -> Rendered:
    """A shard of the pages that the site's rules let in; where none is left, the home page (R2.8). Raises FileTooLarge.

    A page of the site's configuration is in the file of those, and nowhere else.
    """
    if site.rules or site.pages:  # most sites have neither, and their entries are not asked one by one
        entries = [entry for entry in entries if lists_in_general(entry, site)]
    return _general(entries, site)


def lists_in_general(entry: GeneralEntry, site: Site) -> bool:
    """Whether a shard lists a page: no rule keeps it out, and it is none of the pages that have a file of their own."""
    return identity(entry.loc) not in site.pages_by_url and not excluding_rule(
        site.rules, "general", entry.loc, entry.traits
    )


def render_pages(entries: Iterable[GeneralEntry], site: Site) -> Rendered:
    """The pages that are not articles: those of the configuration, and those that events told of. Raises FileTooLarge."""
    told = {identity(entry.loc): entry for entry in entries}
    listed = {
        url: replace(told.get(url, GeneralEntry(url)), changefreq=page.changefreq or None, priority=page.priority)
        for url, page in site.pages_by_url.items()
    }
    others = [
        entry
        for url, entry in told.items()
        if url not in listed and not excluding_rule(site.rules, "general", entry.loc, entry.traits)
    ]
    return _general([*listed.values(), *others], site)


def _general(entries: Iterable[GeneralEntry], site: Site) -> Rendered:
    entries = list(entries)
    versions = any(map(attrgetter("alternates"), entries))
    backlinks = _backlinks(entries, site) if versions else {}
    # Asked of the entries, because the root element stands before the lines, and those are never there all at once.
    used = {
        "xhtml": versions and any(_alternates(entry, site, backlinks.get(entry.loc, ())) for entry in entries),
        "image": any(map(attrgetter("images"), entries)),
        "video": any(map(attrgetter("videos"), entries)),
    }
    newest = newest_of(map(attrgetter("lastmod"), entries))
    listed, home = sorted(entries, key=attrgetter("loc")), [GeneralEntry(site.home)]
    locs = tuple(map(attrgetter("loc"), listed)) if site.outputs.text else ()
    if versions or site.write or any(used.values()):
        lines: Iterator[str] = (general_line(entry, site, backlinks.get(entry.loc, ())) for entry in listed or home)
    else:  # what none has is not asked of each
        lines = _plain_lines(listed or home, site)
    body = _shard(lines, [prefix for prefix, is_used in used.items() if is_used])
    return checked(Rendered(body, len(listed), newest, locs, by_line=bool(listed) and not versions), URLS_MAX)


def general_file(lines: Sequence[str]) -> bytes:
    """A shard of these lines; the namespaces of extensions are declared where one of them is used (R1.2)."""
    # What is text is escaped, so that a tag is a tag.
    return _shard(lines, [prefix for prefix in _EXTENSIONS if any(f"<{prefix}:" in line for line in lines)])


def _shard(lines: Iterable[str], used: Collection[str]) -> bytes:
    extensions = {f"xmlns:{prefix}": namespace for prefix, namespace in _EXTENSIONS.items() if prefix in used}
    return _frame("urlset", {"xmlns": _SITEMAP} | extensions, lines)


def in_window(entries: Iterable[NewsEntry], site: Site, now: datetime) -> list[NewsEntry]:
    """The articles of the window at `now` that the site's rules let in, newest first."""
    expired = now - NEWS_WINDOW
    current = [entry for entry in entries if entry.published > expired]
    if site.rules:
        current = [entry for entry in current if not excluding_rule(site.rules, "news", entry.loc, entry.traits)]
    return sorted(sorted(current, key=attrgetter("loc")), key=attrgetter("published"), reverse=True)


def render_news(entries: Iterable[NewsEntry], site: Site, now: datetime) -> Rendered:
    """A news sitemap of the entries in the window at `now`, newest first; an empty window lists the home page.

    Raises FileTooLarge.
    """
    listed = in_window(entries, site, now)
    if not listed:
        return Rendered(_general([], site).body, 0, None)
    body = news_file(news_line(entry, site) for entry in listed)
    newest = newest_of([listed[0].published, *(entry.lastmod for entry in listed)])
    return checked(Rendered(body, len(listed), newest, by_line=True), NEWS_ENTRIES_MAX)


def news_file(lines: Iterable[str]) -> bytes:
    """A news sitemap of these lines."""
    return _frame("urlset", {"xmlns": _SITEMAP, "xmlns:news": _NEWS}, lines)


def render_index(marks: Iterable[Mark], site: Site) -> list[Rendered]:
    """The index of every file that lists a page, and of the permanent ones always; further ones where one cannot hold all.

    Raises FileTooLarge.
    """
    permanent = permanent_files(site)
    listed = sorted((mark for mark in marks if in_index(mark, permanent)), key=lambda mark: mark.file)
    parts = [listed[start : start + INDEX_ENTRIES_MAX] for start in range(0, len(listed), INDEX_ENTRIES_MAX)] or [[]]
    return [_index(part, site) for part in parts]


def in_index(mark: Mark, permanent: Sequence[str]) -> bool:
    """Whether the index names a file: it lists a page, or it is one of those that always stand."""
    return bool(mark.urls) or mark.file in permanent


def _index(marks: list[Mark], site: Site) -> Rendered:
    body = index_file([index_line(mark, site) for mark in marks])
    newest = newest_of(mark.changed for mark in marks)
    return checked(Rendered(body, len(marks), newest, by_line=bool(marks)), INDEX_ENTRIES_MAX)


def index_file(lines: Sequence[str]) -> bytes:
    """An index of these lines."""
    return _frame("sitemapindex", {"xmlns": _SITEMAP}, lines)


def index_line(mark: Mark, site: Site) -> str:
    """The `<sitemap>` of a file in the index."""
    url = escaped(f"{site.origin}/{mark.served}")
    return f"<sitemap><loc>{url}</loc><lastmod>{iso(mark.changed)}</lastmod></sitemap>"


def general_line(entry: GeneralEntry, site: Site, backlinks: Sequence[Alternate] = ()) -> str:
    """The `<url>` of a page in a shard; `backlinks` are the pages of the shard that name it as their alternate."""
    hints = "".join(
        f"<{name}>{value}</{name}>"
        for name, value in (("changefreq", entry.changefreq), ("priority", entry.priority))
        if value and name in site.write
    )
    alternates = alternate_tags(_alternates(entry, site, backlinks)) if entry.alternates or backlinks else ""
    images = image_tags(_ours(url, site) for url in entry.images)
    videos = video_tags(_our_video(video, site) for video in entry.videos)
    return _url(entry, site, f"{hints}{alternates}{images}{videos}")


def _url(entry: GeneralEntry, site: Site, more: str = "") -> str:
    """The `<url>` of a page with what stands behind its lastmod."""
    loc = entry.loc if site.scheme == "https" else under_scheme(entry.loc, site)
    lastmod = f"<lastmod>{iso(entry.lastmod)}</lastmod>" if entry.lastmod else ""
    return f"<url><loc>{escaped(loc)}</loc>{lastmod}{more}</url>"


def _plain_lines(entries: Sequence[GeneralEntry], site: Site) -> Iterator[str]:
    """What `_url` makes of pages of which nothing more is said, in two thirds of the time: the largest files are of these.

    So many URLs at a time are asked whether one has to be escaped, and `iso` is spelt out.
    """
    two = TWO_DIGITS
    for start in range(0, len(entries), _LINES_AT_ONCE):
        some = entries[start : start + _LINES_AT_ONCE]
        locs: list[str] = list(map(attrgetter("loc"), some))
        if site.scheme != "https":
            locs = [under_scheme(loc, site) for loc in locs]
        together = "".join(locs)
        if escaped(together) != together:
            locs = list(map(escaped, locs))
        for entry, loc in zip(some, locs, strict=True):
            if at := entry.lastmod:
                year = at.year
                yield (
                    f"<url><loc>{loc}</loc><lastmod>{two[year // 100]}{two[year % 100]}-{two[at.month]}-{two[at.day]}"
                    f"T{two[at.hour]}:{two[at.minute]}:{two[at.second]}Z</lastmod></url>"
                )
            else:
                yield f"<url><loc>{loc}</loc></url>"


def _backlinks(entries: Sequence[GeneralEntry], site: Site) -> dict[str, list[Alternate]]:
    """Who names a page of the shard as an alternate without being named by it: links count where they are mutual (R5.1)."""
    there = {entry.loc for entry in entries}
    found: dict[str, list[Alternate]] = defaultdict(list)
    for entry in entries:
        own = _own_code(entry, site) if entry.alternates else None
        for alternate in entry.alternates:
            if own and alternate.href != entry.loc and alternate.href in there:
                found[alternate.href].append(Alternate(own, entry.loc))
    return found


def _own_code(entry: GeneralEntry, site: Site) -> str | None:
    """The code under which a page names itself, else that of its language."""
    said = (one.hreflang for one in entry.alternates if one.href == entry.loc and one.hreflang != DEFAULT)
    return next(said, None) or hreflang_of(language_of(entry, site))


def _alternates(entry: GeneralEntry, site: Site, backlinks: Iterable[Alternate]) -> list[Alternate]:
    """The alternates of a page with itself among them (R5.1), the default last; what it says itself outweighs the others.

    None where it cannot be named itself: hreflang has no code for its language, or another page has that language.
    """
    known = {alternate.hreflang: alternate.href for alternate in entry.alternates}
    for alternate in backlinks:
        if alternate.href not in known.values():
            known.setdefault(alternate.hreflang, alternate.href)
    if not known:
        return []
    if entry.loc not in (href for name, href in known.items() if name != DEFAULT):
        own = _own_code(entry, site)
        if own is None or known.setdefault(own, entry.loc) != entry.loc:
            return []
    return [
        Alternate(name, _ours(known[name], site)) for name in sorted(known, key=lambda name: (name == DEFAULT, name))
    ]


def _ours(url: str, site: Site) -> str:
    """A URL of any host, under the site's scheme where it is the site's."""
    return under_scheme(url, site) if site.scheme == "http" and host_of(url) == site.host else url


def _our_video(video: Video, site: Site) -> Video:
    if site.scheme == "https":
        return video
    return replace(
        video,
        thumbnail_loc=_ours(video.thumbnail_loc, site),
        content_loc=video.content_loc and _ours(video.content_loc, site),
        player_loc=video.player_loc and _ours(video.player_loc, site),
    )


def news_line(entry: NewsEntry, site: Site) -> str:
    """The `<url>` of an article in the news sitemap, its elements in the schema's order (R2.3)."""
    keywords = ", ".join(entry.traits.keywords) if "keywords" in site.write else ""
    lastmod = f"<lastmod>{iso(entry.lastmod)}</lastmod>" if entry.lastmod else ""
    return (
        f"<url><loc>{escaped(under_scheme(entry.loc, site))}</loc>{lastmod}<news:news>"
        f"<news:publication><news:name>{escaped(publication_of(entry, site))}</news:name>"
        f"<news:language>{escaped(language_of(entry, site))}</news:language></news:publication>"
        f"<news:publication_date>{iso(entry.published)}</news:publication_date>"
        f"<news:title>{escaped(entry.title)}</news:title>"
        f"{f'<news:keywords>{escaped(keywords)}</news:keywords>' if keywords else ''}</news:news></url>"
    )


def publication_of(entry: NewsEntry, site: Site) -> str:
    """The publication that an article is of: its own, its section's, its edition's, or the site's."""
    if entry.publication or not site.speaks_in_parts:
        return entry.publication or site.publication
    return _first(voice.publication for voice in site.voices(entry.loc, entry.traits.section))


def language_of(entry: NewsEntry | GeneralEntry, site: Site) -> str:
    """The language that an article is in: its own, its section's, its edition's, or the site's."""
    if entry.language or not site.speaks_in_parts:
        return entry.language or site.language
    return _first(voice.language for voice in site.voices(entry.loc, entry.traits.section))


def _first(said: Iterable[str | None]) -> str:
    return next(one for one in said if one)


def line_bytes(line: str) -> int:
    """What a line takes in the file, its line end included, in UTF-8 bytes."""
    return len(line.encode()) + 1


def under_scheme(loc: str, site: Site) -> str:
    """A page's URL as the site has it. Inside, pages are known under https, so that a site can change over."""
    return loc if site.scheme == "https" else loc.replace("https:", "http:", 1)


def newest_of(instants: Iterable[datetime | None]) -> datetime | None:
    """The latest of the instants that there are."""
    return max(filter(None, instants), default=None)


def _frame(root: str, namespaces: dict[str, str], lines: Iterable[str]) -> bytes:
    attributes = "".join(f' {name}="{value}"' for name, value in namespaces.items())
    file, lines = BytesIO(), iter(lines)
    file.write(f"{_DECLARATION}<{root}{attributes}>\n".encode())
    while some := list(islice(lines, _LINES_AT_ONCE)):
        file.write("\n".join([*some, ""]).encode())
    file.write(f"</{root}>\n".encode())
    return file.getvalue()


def checked(file: Rendered, entries_max: int) -> Rendered:
    """The file, if it stays within the limits of the protocol. Raises FileTooLarge."""
    if not is_within_limits(file, entries_max):
        raise FileTooLarge(
            f"{file.urls} entries, at most {entries_max}, and {len(file.body)} bytes, at most {BYTES_MAX}: "
            "`places` gave out more than a file takes"
        )
    return file


def is_within_limits(file: Rendered, entries_max: int) -> bool:
    """Whether a file has no more entries and bytes than the protocol lets it have (R1.10, R1.11, R2.4)."""
    return file.urls <= entries_max and len(file.body) <= BYTES_MAX
