"""Which files a site has: those that the configuration names, those with a commit mark, those that places were handed out of."""

from stoppress.aws import table
from stoppress.aws.items import file_pk, read_series, series_files
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, permanent_files
from stoppress.model.site import Site


def all_files(site: Site, *, robots: bool = False) -> list[str]:
    """Every file that the site has or may have, the index last; `robots`: its robots.txt even where none is kept any more."""
    # A shard whose first rewrite failed for good has no mark yet: its series knows it.
    series = (read_series(item["sk"], item) for item in table.query(f"places#{site.host}") if "files" in item)
    handed_out = (file for one in series for file in series_files(one))
    marked = (item["sk"] for item in table.query(file_pk(site.host, INDEX_FILE)) if item["sk"] != INDEX_FILE)
    kept = [ROBOTS_FILE] if robots or site.robots is not None else []
    return list(dict.fromkeys([*permanent_files(site), *marked, *handed_out, *kept, INDEX_FILE]))
