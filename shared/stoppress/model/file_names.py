"""Names of files: the series of a page, the files of a series, and the kind of a file by its name."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from stoppress.model.site import Site

INDEX_FILE = "sitemap.xml"
NEWS_SERIES = "news"
NEWS_FILE = "sitemap-news.xml"
PAGES_SERIES = "pages"
PAGES_FILE = "sitemap-pages.xml"
ROBOTS_FILE = "robots.txt"

# By the end of the file's name. A .gz file is served as it is, without Content-Encoding (R9.1, R9.2).
CONTENT_TYPES: Mapping[str, str] = {
    ".xml": "application/xml; charset=utf-8",
    ".xml.gz": "application/gzip",
    ".txt": "text/plain; charset=utf-8",  # robots.txt too (RFC 9309, 2.3)
    ".atom": "application/atom+xml; charset=utf-8",
}
# Crawlers see new articles after a minute (R9.3), an edited page of a shard after five.
CACHE_FRESH = "public, max-age=60"
CACHE_SHARD = "public, max-age=300"

# The longest section name in a file name: a longer one is cut.
CATEGORY_CHARACTERS_MAX = 40

# The first number that could be read as a day or a month.
_DAY_LIKE = 10


def content_type(file: str) -> str:
    """The Content-Type of a file."""
    return next(kind for suffix, kind in CONTENT_TYPES.items() if file.endswith(suffix))


def headers(file: str) -> tuple[str, str]:
    """The Content-Type and Cache-Control of a file."""
    return content_type(file), CACHE_SHARD if is_shard(file) else CACHE_FRESH


def file_name(series: str, number: int) -> str:
    """The n-th file of a series: sitemap-2026-11.xml, sitemap-2026-11-2.xml, …

    Numbers from 10 on have three digits: sitemap-2026-11-10.xml is the first file of a day.
    """
    if number == 1:
        return f"sitemap-{series}.xml"
    return f"sitemap-{series}-{number}.xml" if number < _DAY_LIKE else f"sitemap-{series}-{number:03}.xml"


def period_of(instant: datetime, by: Literal["day", "month", "year"]) -> str:
    """The series of shards that an instant (UTC) falls into: 2026-11-20, 2026-11 or 2026."""
    return instant.date().isoformat()[: {"day": 10, "month": 7, "year": 4}[by]]


def shard_series(site: Site, instant: datetime, section: str | None) -> str:
    """The shard series of a page by its first publication: the period, with the section if `per_section` is set."""
    period = period_of(instant, site.shards.by)
    plain = unicodedata.normalize("NFKD", section or "").encode("ascii", "ignore").decode().lower()
    category = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:CATEGORY_CHARACTERS_MAX]
    # The section must not look like a file's number: `formula-2` would be the second file of `formula`.
    category = re.sub(r"-(?=[0-9-]*$)", "", category)
    return f"{period}-{category}" if site.shards.per_section and category[:1].isalpha() else period


def is_news(file: str) -> bool:
    """Whether a file is a news sitemap."""
    return file == NEWS_FILE or file.startswith("sitemap-news-")


def is_shard(file: str) -> bool:
    """Whether a file is a shard, in any form: its name begins with a year or with `pages`."""
    return re.match(r"sitemap-(?:[0-9]{4}|pages)\b", file) is not None


def is_pages(file: str) -> bool:
    """Whether a file lists pages that are not articles."""
    return file == PAGES_FILE


def series_of(file: str) -> str:
    """The series of a news sitemap: `news`, or an edition's, such as `news-fr`."""
    return re.sub(r"-[0-9]+$", "", file.removeprefix("sitemap-").removesuffix(".xml"))


def is_news_series(series: str) -> bool:
    """Whether a series holds news sitemaps: the site's or an edition's."""
    return series == NEWS_SERIES or series.startswith(f"{NEWS_SERIES}-")


def news_series(site: Site, url: str) -> str:
    """The news series for an article at this URL."""
    edition = site.edition_of(url)
    return f"{NEWS_SERIES}-{edition.news}" if edition and edition.news else NEWS_SERIES


def permanent_files(site: Site) -> list[str]:
    """Files that exist even if they list nothing, because search engines know their names. The index is not among them."""
    editions = [file_name(f"{NEWS_SERIES}-{edition.news}", 1) for edition in site.editions if edition.news]
    return [NEWS_FILE, *editions, *([PAGES_FILE] if site.pages else [])]


def atom_name(series: str) -> str:
    """The feed of a series of news sitemaps: sitemap-news.atom, or an edition's sitemap-news-fr.atom."""
    return f"sitemap-{series}.atom"


def text_name(file: str) -> str:
    """The plain-text form of a shard."""
    return f"{file.removesuffix('.xml')}.txt"


def index_part_name(number: int) -> str:
    """The n-th index of a site that has more files than one index can list."""
    return f"sitemap-index-{number}.xml"
