"""Names of files: the series of an article, the files of a series, the kind of a file by its name, and its headers.

A series is the files that list one kind of page: the shards of a period (`2026-11`), or the news sitemaps (`news`).
"""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime

from stoppress.model.site import Site

INDEX_FILE = "sitemap.xml"
NEWS_SERIES = "news"
NEWS_FILE = "sitemap-news.xml"
PAGES_SERIES = "pages"
PAGES_FILE = "sitemap-pages.xml"
ROBOTS_FILE = "robots.txt"
# Matches the name of every file that rewrite_sitemaps writes, except robots.txt. The key file of IndexNow (`notify.indexnow`) is left out.
WRITTEN = re.compile(r"sitemap(?!-indexnow-)(-[a-z0-9-]+)?\.(xml|xml\.gz|txt|atom)")

# From this number on, two digits could be read as a day or a month.
_DAY_LIKE = 10

# A section's part of a file name, so that the name stays readable.
CATEGORY_CHARACTERS_MAX = 40

# The XML namespaces of sitemaps, their extensions and Atom.
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO = "http://www.google.com/schemas/sitemap-video/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
ATOM = "http://www.w3.org/2005/Atom"

# By the end of the file's name. Gzip is the file itself, not an encoding of it: no Content-Encoding (R9.1, R9.2).
CONTENT_TYPES: Mapping[str, str] = {
    ".xml": "application/xml; charset=utf-8",
    ".xml.gz": "application/gzip",
    ".txt": "text/plain; charset=utf-8",  # robots.txt too (RFC 9309, 2.3)
    ".atom": "application/atom+xml; charset=utf-8",
}
# Crawlers see new articles after a minute (R9.3), an edited page of a shard after five.
CACHE_FRESH = "public, max-age=60"
CACHE_SHARD = "public, max-age=300"


def file_name(series: str, number: int) -> str:
    """Return the n-th file of a series: sitemap-2026-11.xml, sitemap-2026-11-2.xml, …

    Numbers from 10 on have three digits: sitemap-2026-11-10.xml is the first file of a day.
    """
    if number == 1:
        return f"sitemap-{series}.xml"
    return f"sitemap-{series}-{number}.xml" if number < _DAY_LIKE else f"sitemap-{series}-{number:03}.xml"


def is_news(file: str) -> bool:
    return file == NEWS_FILE or file.startswith("sitemap-news-")


def is_shard(file: str) -> bool:
    """Return True if a file is a shard, in any form: its name begins with a year or with `pages`."""
    return re.match(r"sitemap-(?:[0-9]{4}|pages)\b", file) is not None


def is_pages(file: str) -> bool:
    """Return True if a file lists pages that are not articles."""
    return file == PAGES_FILE


def series_of(file: str) -> str:
    """Return the series of a news sitemap: `news`, or an edition's, such as `news-fr`."""
    return re.sub(r"-[0-9]+$", "", file.removeprefix("sitemap-").removesuffix(".xml"))


def is_news_series(series: str) -> bool:
    """Return True if a series holds news sitemaps: the site's or an edition's."""
    return series == NEWS_SERIES or series.startswith(f"{NEWS_SERIES}-")


def news_series(site: Site, url: str) -> str:
    """Return the news series for an article at this URL."""
    edition = site.edition_of(url)
    return f"{NEWS_SERIES}-{edition.news}" if edition and edition.news else NEWS_SERIES


def permanent_files(site: Site) -> list[str]:
    """Files that exist even if they list nothing, because search engines know their names. The index is not among them."""
    editions = [file_name(f"{NEWS_SERIES}-{edition.news}", 1) for edition in site.editions if edition.news]
    return [NEWS_FILE, *editions, *([PAGES_FILE] if site.pages else [])]


def atom_name(series: str) -> str:
    """Return the feed of a series of news sitemaps: sitemap-news.atom, or an edition's sitemap-news-fr.atom."""
    return f"sitemap-{series}.atom"


def text_name(file: str) -> str:
    return f"{file.removesuffix('.xml')}.txt"


def index_part_name(number: int) -> str:
    """Return the n-th index of a site that has more files than one index can list."""
    return f"sitemap-index-{number}.xml"


def shard_series(site: Site, instant: datetime, section: str | None) -> str:
    """The shard series of a page first published at an instant: its period, plus its section if the site configures that."""
    period = instant.date().isoformat()[: {"day": 10, "month": 7, "year": 4}[site.shards.by]]
    plain = unicodedata.normalize("NFKD", section or "").encode("ascii", "ignore").decode().lower()
    category = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:CATEGORY_CHARACTERS_MAX]
    # The section must not look like a file's number: `formula-2` would be the second file of `formula`.
    category = re.sub(r"-(?=[0-9-]*$)", "", category)
    return f"{period}-{category}" if site.shards.per_section and category[:1].isalpha() else period


def content_type(file: str) -> str:
    return next(kind for suffix, kind in CONTENT_TYPES.items() if file.endswith(suffix))


def headers(file: str) -> tuple[str, str]:
    return content_type(file), CACHE_SHARD if is_shard(file) else CACHE_FRESH
