"""Names of files: the series of an article, the files of a series, and the kind of a file by its name.

A series is the files that list one kind of page: the shards of a period (`2026-11`), or the news sitemaps (`news`).
"""

import re

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


def file_name(series: str, number: int) -> str:
    """The n-th file of a series: sitemap-2026-11.xml, sitemap-2026-11-2.xml, …

    Numbers from 10 on have three digits: sitemap-2026-11-10.xml is the first file of a day.
    """
    if number == 1:
        return f"sitemap-{series}.xml"
    return f"sitemap-{series}-{number}.xml" if number < _DAY_LIKE else f"sitemap-{series}-{number:03}.xml"


def is_news(file: str) -> bool:
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
    return f"{file.removesuffix('.xml')}.txt"


def index_part_name(number: int) -> str:
    """The n-th index of a site that has more files than one index can list."""
    return f"sitemap-index-{number}.xml"
