"""Retiring: an emptied file that is not permanent is deleted after a day.

The file is deleted first, then its other forms, then its mark. After a crash the mark or the forms' names show what is left.
"""

from datetime import datetime, timedelta

from stoppress.aws import bucket, due, table
from stoppress.aws.bucket import Overtaken
from stoppress.aws.items import due_item, due_pk, due_sk, file_pk, places_pk, read_series, series_files
from stoppress.aws.queues import RewriteRequest
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, atom_name, is_news, series_of
from stoppress.model.site import Site
from stoppress.rewrite.attempt import Attempt
from stoppress.rewrite.output_formats import delete_forms, possible_forms, stored_forms
from stoppress.sitemaps.render import Rendered

# An emptied file leaves the index at once. Crawlers with an older index can still fetch it for a day.
EMPTIED_KEPT = timedelta(days=1)


def is_over(attempt: Attempt, rendered: Rendered, digest: str) -> bool:
    """Return True if a file that does not stay is deleted now.

    It is deleted at once if it has no object or is robots.txt, else a day after it was emptied.
    """
    stored, mark = attempt.stored, attempt.mark
    if stored is None or attempt.file == ROBOTS_FILE:
        return True
    # The index lists a permanent file even while it is empty. The day begins with the mark that takes it out of the index.
    leaves = mark is None or mark.digest == digest
    since = max(mark.changed, stored.changed) if mark else stored.changed
    return leaves and stored.body == rendered.body and since + EMPTIED_KEPT <= attempt.now


def schedule_retirement(site: Site, file: str, emptied: datetime) -> None:
    """Have a file that was emptied at this instant rewritten a day later."""
    release = emptied + EMPTIED_KEPT
    message = RewriteRequest(site.host, file, release=release).message()
    # In this order a crash leaves a record without a message, which roll_window deletes, and no message without a record.
    due.write(due.messages(site.host, release))
    table.put_if(due_item(site.host, release, _due_name(file), message, queue="rewrites"))


def clear_due(site: str, file: str, release: datetime) -> None:
    """Delete the due record of this instant: its work is done."""
    table.delete(due_pk(site), due_sk(release, _due_name(file)))


def _due_name(file: str) -> str:
    return f"file#{file}"


def retire(attempt: Attempt) -> str:
    """Delete a file, its other forms and its mark. Returns the outcome.

    Raises Overtaken if the file has changed since it was read.
    """
    site, file, mark, stored = attempt.site, attempt.file, attempt.mark, attempt.stored
    if file == ROBOTS_FILE and not attempt.has_own_object:
        return "unchanged"  # the site keeps its own robots.txt
    # Read before the file is deleted: a rewriter that fills the file later replaces these forms, so deleting them fails.
    names = set(mark.also if mark else ()) | possible_forms(file)
    forms = stored_forms(site, names - _shared_forms(site, file))
    if stored:
        bucket.delete(site.host, file, stored)
    elif forms and bucket.read(site.host, file):
        raise Overtaken(f"another rewriter wrote {site.host}/{file}: read and render the file again")
    delete_forms(site, file, forms)
    if mark:
        try:
            table.delete(file_pk(site.host, INDEX_FILE), file, "digest = :digest", {":digest": mark.digest})
        except table.Busy:  # a transaction holds the mark: the file is tried again
            raise
        except table.Conflict:  # the file was filled again, and its mark is newer
            pass
    return "retired"


def _shared_forms(site: Site, file: str) -> set[str]:
    """Return the feed of a news sitemap, if other files of its series have marks: it is their feed too."""
    if not is_news(file):
        return set()
    name = series_of(file)
    series = read_series(name, table.get(places_pk(site.host), name))
    others = (other for other in series_files(series) if other != file)
    return {atom_name(name)} if any(table.get(file_pk(site.host, INDEX_FILE), other) for other in others) else set()
