"""Retiring: a file that has become empty, and that the configuration does not name, is taken away when its day is over.

For committing. It goes before its other forms, and they before its mark: what a crash leaves is found by the mark, or by their names.
"""

from datetime import datetime, timedelta

from stoppress.aws import bucket, table
from stoppress.aws.bucket import Overtaken, StoredFile
from stoppress.aws.items import due_item, due_sk, file_pk, read_series, series_files
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, atom_name, is_news, series_of
from stoppress.model.site import Site
from stoppress.rewrite.forms import possible_forms, standing, take_away
from stoppress.sitemaps.render import Rendered

# An emptied file leaves the index at once; who still holds an old index finds it for another day.
EMPTIED_KEPT = timedelta(days=1)


def is_over(
    file: str, stored: StoredFile | None, rendered: Rendered, mark: Mark | None, digest: str, now: datetime
) -> bool:
    """Whether a file that does not stay goes now: its day is over, or it has none."""
    if stored is None or file == ROBOTS_FILE:
        return True
    # The mark of a file that was empty and permanent has the index name it, for however long: its day begins with the mark
    # that says it leaves.
    told = mark is None or mark.digest == digest
    since = max(mark.changed, stored.changed) if mark else stored.changed
    return told and stored.body == rendered.body and since + EMPTIED_KEPT <= now


def schedule_retirement(site: Site, file: str, emptied: datetime) -> None:
    """Have a file that was emptied at this instant come again when its day is over."""
    release = emptied + EMPTIED_KEPT
    message = RewriteRequest(site.host, file, release=release).message()
    table.put_if(due_item(site.host, release, _due_name(file), message, queue="rewrites"))


def clear_due(site: str, file: str, release: datetime) -> None:
    """What was due at this instant has been done."""
    table.delete(f"due#{site}", due_sk(release, _due_name(file)))


def _due_name(file: str) -> str:
    return f"file#{file}"


def retire(site: Site, file: str, mark: Mark | None, stored: StoredFile | None) -> str:
    """Take away a file that is as it was read, its other forms and its mark: what became of it. Raises Overtaken."""
    if file == ROBOTS_FILE and not (stored and stored.ours):
        return "unchanged"  # where none is kept, what is there is the site's own
    # Read before the file goes: whoever fills it from then on writes other forms than these.
    there = standing(site, (set(mark.also if mark else ()) | possible_forms(file)) - _others_forms(site, file))
    if stored:
        bucket.delete(site.host, file, stored)
    elif there and bucket.read(site.host, file):
        raise Overtaken(f"{site.host}/{file} was written meanwhile")
    take_away(site, there)
    if mark:
        try:
            table.delete(file_pk(site.host, INDEX_FILE), file, "digest = :digest", {":digest": mark.digest})
        except table.Busy:  # which says nothing of the mark: then the file comes again
            raise
        except table.Conflict:  # the file has been filled again meanwhile, and its mark is newer
            pass
    return "retired"


def _others_forms(site: Site, file: str) -> set[str]:
    """The feed of a news sitemap that is not the last of its series: it is the others' as well."""
    if not is_news(file):
        return set()
    name = series_of(file)
    series = read_series(name, table.get(f"places#{site.host}", name))
    others = (other for other in series_files(series) if other != file)
    return {atom_name(name)} if any(table.get(file_pk(site.host, INDEX_FILE), other) for other in others) else set()
