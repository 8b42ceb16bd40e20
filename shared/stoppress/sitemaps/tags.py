"""The tags of one entry: the `<url>` of a page with its images, videos and alternates, of an article, the `<sitemap>` of a file.

The tags of a page have no line breaks, and the order of their schemas. The root element declares their prefixes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from stoppress.model.entries import Alternate, GeneralEntry, Mark, NewsEntry, Video, excluding_rule
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.text import LANGUAGES, escaped
from stoppress.primitives.urls import host_of

# Line-format version, stored with each object. Raise it when an entry would render differently, or when a file would list
# other entries; older files are then rebuilt whole.
RENDERER = 1
# news:language and hreflang have different codes for Chinese (R5.3).
_OF_NEWS = {"zh-cn": "zh-Hans", "zh-tw": "zh-Hant"}


def general_line(entry: GeneralEntry, site: Site) -> str:
    """Return the `<url>` of a page in a shard."""
    return next(general_lines([entry], site))


def general_lines(entries: Sequence[GeneralEntry], site: Site) -> Iterator[str]:
    """Yield the `<url>` of each page in a shard."""
    # Most pages of the largest files have nothing beyond URL and date, and hardly any URL needs an escape. So each call per page that
    # can be avoided saves a twentieth of a file's time.
    has_hints, locs = bool(site.write), [entry.loc for entry in entries]
    # The table keeps the site's own URLs under https.
    own_url = re.compile(rf"(?<=loc>)https:(?=//{re.escape(site.host)}/)")
    if escaped(text := "".join(locs)) != text:
        locs = [escaped(loc) for loc in locs]
    for entry, loc in zip(entries, locs, strict=True):
        lastmod = entry.lastmod
        is_rich = has_hints or entry.alternates or entry.images or entry.videos
        more = _more(entry, site) if is_rich else ""
        line = f"<url><loc>{loc}</loc>{f'<lastmod>{iso(lastmod)}</lastmod>' if lastmod else ''}{more}</url>"
        yield line if site.scheme == "https" else own_url.sub("http:", line)


def _more(entry: GeneralEntry, site: Site) -> str:
    """Return the tags after lastmod: hints, alternates, images and videos."""
    hints = "".join(
        f"<{name}>{value}</{name}>"
        for name, value in (("changefreq", entry.changefreq), ("priority", entry.priority))
        if value and name in site.write
    )
    alternates = alternate_tags(alternates_of(entry, site))
    return f"{hints}{alternates}{image_tags(entry.images)}{video_tags(entry.videos)}"


def news_line(entry: NewsEntry, site: Site) -> str:
    """Return the `<url>` of an article in the news sitemap, its elements in the schema's order (R2.3)."""
    keywords = ", ".join(entry.traits.keywords) if "keywords" in site.write else ""
    lastmod = f"<lastmod>{iso(entry.lastmod)}</lastmod>" if entry.lastmod else ""
    return (
        f"<url><loc>{escaped(under_scheme(entry.loc, site))}</loc>{lastmod}<news:news>"
        f"<news:publication><news:name>{escaped(publication_of(entry, site))}</news:name>"
        f"<news:language>{escaped(language_of(entry, site))}</news:language></news:publication>"
        f"<news:publication_date>{iso(entry.published)}</news:publication_date>"
        f"<news:title>{escaped(entry.title)}</news:title>"
        f"{f'<news:keywords>{escaped(keywords)}</news:keywords>' if keywords else ''}</news:news>"
        f"{alternate_tags(alternates_of(entry, site))}</url>"
    )


def index_line(mark: Mark, site: Site) -> str:
    """Return the `<sitemap>` of a file in the index: of its gzip form if the site has that output and the form exists.

    A mark lists a form until after the form is deleted.
    """
    url = escaped(f"{site.origin}/{mark.served if site.outputs.gzip else mark.file}")
    return f"<sitemap><loc>{url}</loc><lastmod>{iso(mark.changed)}</lastmod></sitemap>"


def line_bytes(line: str) -> int:
    """Return the UTF-8 bytes of a line in the file, including its line end."""
    return len(line.encode()) + 1


def publication_of(entry: NewsEntry, site: Site) -> str:
    """Return the publication of an article: its own, its section's, its edition's, or the site's."""
    return entry.publication or site.voice_of(entry.loc, entry.traits.section)[0]


def language_of(entry: NewsEntry | GeneralEntry, site: Site) -> str:
    """Return the language of an entry: its own, its section's, its edition's, or the site's."""
    return entry.language or site.voice_of(entry.loc, entry.traits.section)[1]


def hreflang_of(language: str) -> str | None:
    """Return the hreflang code for a code of news:language; None if there is none, as for `haw`."""
    code = _OF_NEWS.get(language, language)
    return code if code[:2] in LANGUAGES and (len(code) == 2 or "-" in code) else None


def under_scheme(loc: str, site: Site) -> str:
    """Return a URL, if it is the site's, under the site's scheme. The table keeps pages under https, so that the scheme can change."""
    return loc if site.scheme == "https" or host_of(loc) != site.host else loc.replace("https:", "http:", 1)


def alternates_of(entry: GeneralEntry | NewsEntry, site: Site) -> list[Alternate]:
    """Return the alternates that an entry lists under the site's rules, which apply to other pages by their path alone."""
    alternates = list(entry.alternates)
    if alternates and site.rules:
        is_hidden = bool(excluding_rule(site.rules, "general", entry.loc, entry.traits))
        alternates = [link for link in alternates if not (is_hidden or _is_hidden(link.href, site))]
    is_alone = all(link.href == entry.loc for link in alternates)
    return [] if is_alone else [Alternate(link.hreflang, under_scheme(link.href, site)) for link in alternates]


def _is_hidden(href: str, site: Site) -> bool:
    return host_of(href) == site.host and bool(excluding_rule(site.rules, "general", href, None))


def image_tags(images: Iterable[str]) -> str:
    """Return one `image:image` per image, with its URL only: the other tags are deprecated (R3.2)."""
    return "".join(f"<image:image><image:loc>{escaped(url)}</image:loc></image:image>" for url in images)


def video_tags(videos: Iterable[Video]) -> str:
    return "".join(f"<video:video>{''.join(_video(video))}</video:video>" for video in videos)


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
    each is a separate search result. The newest images, which are the last ones, get the rest.
    """
    kinds: tuple[tuple[str, Sequence[Any], Callable[[Sequence[Any]], str]], ...] = (
        ("alternates: the last", alternates, alternate_tags),
        ("videos: the last", videos, video_tags),
        ("images: the oldest", images[::-1], image_tags),
    )
    fitting: list[tuple[Any, ...]] = []
    reasons: list[str] = []
    bytes_left = size_bytes_max
    for which, items, tags in kinds:
        sizes = [len(tags([item]).encode()) for item in items]
        number = sum(size_bytes <= bytes_left for size_bytes in accumulate(sizes))
        bytes_left -= sum(sizes[:number])
        fitting.append(tuple(items[:number]))
        if number < len(items):
            left_out = f"{len(items) - number:,} of {len(items):,} were left out"
            reasons.append(f"{which} {left_out}: a page's tags take {size_bytes_max:,} bytes at most")
    return fitting[2][::-1], fitting[1], fitting[0], reasons


def _video(video: Video) -> Iterator[str]:
    info = dict(video).get("uploader_info")
    for name, text in video:
        attribute, value = "", text
        if name in ("restriction", "platform"):
            relationship, _, value = text.partition(" ")
            attribute = f' relationship="{relationship}"'
        elif name == "uploader" and info:
            attribute = f' info="{escaped(info)}"'
        if name != "uploader_info":
            yield f"<video:{name}{attribute}>{escaped(value)}</video:{name}>"
