"""Names of files: which series a page goes into, which file of it, and what kind of file a name is of."""

import re
import unicodedata
from datetime import datetime
from typing import Literal

from stoppress.model.site import Site

INDEX_FILE = "sitemap.xml"
NEWS_SERIES = "news"
NEWS_FILE = "sitemap-news.xml"
PAGES_SERIES = "pages"
PAGES_FILE = "sitemap-pages.xml"

# Of a section's name in a file's: names stay short enough to be read.
CATEGORY_CHARACTERS_MAX = 40

# The first number that could be read as a day or a month.
_DAY_LIKE = 10


def file_name(series: str, number: int) -> str:
    """The n-th file of a series: sitemap-2026-11.xml, sitemap-2026-11-2.xml, …

    From the tenth on with three digits: sitemap-2026-11-10.xml is the first file of a day, where a site cuts by days.
    """
    if number == 1:
        return f"sitemap-{series}.xml"
    return f"sitemap-{series}-{number}.xml" if number < _DAY_LIKE else f"sitemap-{series}-{number:03}.xml"


def period_of(instant: datetime, by: Literal["day", "month", "year"]) -> str:
    """The series of shards that an instant (UTC) falls into: 2026-11-20, 2026-11 or 2026."""
    return instant.date().isoformat()[: {"day": 10, "month": 7, "year": 4}[by]]


def shard_series(site: Site, instant: datetime, section: str | None) -> str:
    """The series of shards for a page first published at an instant: its period, and its section where the site says so."""
    period = period_of(instant, site.shards.by)
    plain = unicodedata.normalize("NFKD", section or "").encode("ascii", "ignore").decode().lower()
    category = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:CATEGORY_CHARACTERS_MAX]
    # Nothing that could be a shard's number: it begins with a letter, and `formula-2` would be the second file of `formula`.
    category = re.sub(r"-(?=[0-9-]*$)", "", category)
    return f"{period}-{category}" if site.shards.per_section and category[:1].isalpha() else period


def is_news(file: str) -> bool:
    """Whether a file is a news sitemap."""
    return file == NEWS_FILE or file.startswith("sitemap-news-")


def is_shard(file: str) -> bool:
    """Whether a file is a shard, in whatever form: its name begins with a year, or with `pages`."""
    return re.match(r"sitemap-(?:[0-9]{4}|pages)\b", file) is not None


def is_pages(file: str) -> bool:
    """Whether a file lists pages that are not articles."""
    return file == PAGES_FILE


def series_of(file: str) -> str:
    """The series that a news sitemap belongs to: `news`, or `news-fr` of an edition."""
    return re.sub(r"-[0-9]+$", "", file.removeprefix("sitemap-").removesuffix(".xml"))


def is_news_series(series: str) -> bool:
    """Whether a series is one of news sitemaps: the site's, or an edition's."""
    return series == NEWS_SERIES or series.startswith(f"{NEWS_SERIES}-")


def news_series(site: Site, url: str) -> str:
    """The series of news sitemaps that a page's article goes into."""
    edition = site.edition_of(url)
    return f"{NEWS_SERIES}-{edition.news}" if edition and edition.news else NEWS_SERIES


def permanent_files(site: Site) -> list[str]:
    """The files that stand whether or not they list anything, but for the index: search engines were told their names."""
    editions = [file_name(f"{NEWS_SERIES}-{edition.news}", 1) for edition in site.editions if edition.news]
    return [NEWS_FILE, *editions, *([PAGES_FILE] if site.pages else [])]
