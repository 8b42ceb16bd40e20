"""The files of a site: those of its configuration, those with a commit mark, and those of its series."""

from stoppress.aws import table
from stoppress.aws.items import file_pk, places_pk, read_news, read_series, series_files
from stoppress.model.entries import NewsEntry
from stoppress.model.file_names import INDEX_FILE, NEWS_SERIES, ROBOTS_FILE, permanent_files
from stoppress.model.site import Site


def all_files(site: Site, *, robots: bool = False) -> list[str]:
    """Every file that the site has or may have, the index last; with `robots`, robots.txt even if it is not configured."""
    # A shard whose first rewrite failed has no mark yet; only its series counts it.
    items = (item for item in table.query(places_pk(site.host)) if "files" in item)
    handed_out = (file for item in items for file in series_files(read_series(item["sk"], item)))
    marked = (item["sk"] for item in table.query(file_pk(site.host, INDEX_FILE)) if item["sk"] != INDEX_FILE)
    kept = [ROBOTS_FILE] if robots or site.robots is not None else []
    return list(dict.fromkeys([*permanent_files(site), *marked, *handed_out, *kept, INDEX_FILE]))


def news_entries(host: str) -> list[NewsEntry]:
    """The entries of all news sitemaps of a site: one query for their names, and one for each."""
    series = [
        read_series(item["sk"], item) for item in table.query(places_pk(host), prefix=NEWS_SERIES, consistent=False)
    ]
    files = [file for each in series for file in series_files(each)]
    return [read_news(item) for file in files for item in table.query(file_pk(host, file), consistent=False)]
