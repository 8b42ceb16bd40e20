"""Publish a rendered file in five steps (plan, put, forms, announce, mark), or retire it: an emptied file is deleted after a day.

The file is put only if its object has not changed since it was read. After a crash between the steps, the mark
shows the next rewrite which steps are missing. A retired file is deleted first, then its other forms, then its mark.

A new cut is written with its index, which lists the home page until its day is over. Then the index lists its range, then the cut
comes into force, and then the previous index drops the range. So a file is in two indexes for seconds, and never in none.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import bucket, due, queues, table
from stoppress.aws.bucket import Overtaken
from stoppress.aws.items import due_item, due_pk, due_sk, file_pk, indexes_item, mark_item, read_indexes
from stoppress.aws.queues import RewriteRequest
from stoppress.model import index_ranges
from stoppress.model.entries import Mark
from stoppress.model.file_names import (
    INDEX_ENTRIES_MAX,
    INDEX_FILE,
    ROBOTS_FILE,
    atom_name,
    headers,
    is_index,
    is_indexed,
    is_news,
    permanent_files,
    series_of,
)
from stoppress.model.index_ranges import Indexes
from stoppress.model.news_window import window_end
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.rewrite.file_lines import INDEXES_ENTRY, Attempt, config_of, mark_of
from stoppress.rewrite.output_formats import (
    UNLISTED_AFTER_SECONDS,
    delete_forms,
    other_files,
    possible_forms,
    render_forms,
    replace_forms,
    stored_forms,
)
from stoppress.sitemaps.fold import listed_files
from stoppress.sitemaps.render import Rendered, assert_valid

REWRITTEN = "sitemap rewritten"

# An emptied file leaves the index immediately. Crawlers with an older index can still fetch it for a day.
EMPTIED_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that a rewrite takes for a file.

    `mark`: the file's next mark, at first without other forms and expiry.
    `file_changed`: when the object changed. Its other forms carry the same instant. The mark has a later one if a file with
    unchanged bytes leaves the index.
    `stays`: the file lists a page, or is permanent. A file that does not stay is deleted after a day (`is_over`).
    `is_written`: the bytes differ, or another program wrote the object. `is_put`: the bytes or the metadata differ.
    `must_announce`: an event about the file goes to the bus, and its mark is written if it has one.
    """

    mark: Mark
    file_changed: datetime
    stays: bool
    is_over: bool
    is_written: bool
    is_put: bool
    must_announce: bool


def commit(attempt: Attempt, rendered: Rendered) -> str:
    """Publish a file as it was rendered, or delete it if it is over. Returns the outcome, as in `Result`.

    Raises Overtaken, BrokenFile, and the errors of bucket, table and queues.
    """
    if attempt.file == INDEX_FILE and not rendered.urls:
        return "unchanged"  # It must list a file. The first file's mark triggers the rewrite of a new site's index.
    if is_index(attempt.file) and rendered.urls > INDEX_ENTRIES_MAX:
        return "unchanged"  # First other indexes must list some of its files: see `write_indexes`.
    plan = plan_of(attempt, rendered)
    if plan.is_over:
        return retire(attempt)
    _request_moved(attempt, rendered)
    _put(attempt, plan, rendered)
    checks_forms = plan.must_announce or attempt.request.checks_all or is_index(attempt.file)
    bodies = render_forms(attempt.site, attempt.file, rendered, attempt.now) if checks_forms else {}
    also = attempt.mark.also if attempt.mark else ()
    if checks_forms:
        also = replace_forms(attempt, bodies, plan.file_changed)
    if plan.must_announce:
        mark, host = plan.mark, attempt.site.host
        queues.announce(REWRITTEN, {"site": host, "file": mark.file, "urls": mark.urls, "changed": exact(mark.changed)})
        if not plan.stays:
            schedule_rewrite(attempt.site, mark.file, mark.changed + EMPTIED_KEPT)
    mark = replace(plan.mark, also=also, expires=_schedule_expiry(attempt, rendered))
    _write_mark(attempt, mark, is_new=plan.must_announce)
    return "written" if plan.is_written else "unchanged"


def plan_of(attempt: Attempt, rendered: Rendered) -> Plan:
    """Return the plan for a file with these rendered bytes. Pure, so that `predict` gets the same plan."""
    site, file, mark, stored = attempt.site, attempt.file, attempt.mark, attempt.stored
    stays = is_lasting(site, file, rendered)
    digest = digest_of(site, file, rendered.body, stays=stays)
    marked_at = mark.changed if mark and mark.digest == digest else None
    changed, is_written = _find_change(attempt, rendered, marked_at)
    if not stays and not is_written and mark and marked_at is None:
        changed = max(attempt.now, changed)  # it was empty before, and leaves the index now
    # A file that can no longer be folded into needs new metadata, even if its bytes stay.
    is_put = is_written or bool(stored and stored.whole and not rendered.by_line)
    # A file may have the bytes of an older mark again, while steps for the bytes in between are unfinished.
    is_settled = marked_at is not None and marked_at >= changed
    must_announce = is_written or (is_indexed(file) and not is_settled)
    return Plan(
        Mark(file, changed, rendered.urls, len(rendered.body), digest),
        changed if is_put or stored is None else stored.changed,
        stays,
        is_over=not stays and is_over(attempt, rendered, digest),
        is_written=is_written,
        is_put=is_put,
        must_announce=must_announce,
    )


def is_lasting(site: Site, file: str, rendered: Rendered) -> bool:
    """Return True if a file lists a page, or is permanent. Any other file is deleted after a day."""
    is_known_index = rendered.indexes is not None and file in rendered.indexes.files
    return bool(rendered.urls) or is_known_index or file in permanent_files(site)


def _find_change(attempt: Attempt, rendered: Rendered, marked_at: datetime | None) -> tuple[datetime, bool]:
    """Return when the file's bytes change, and whether they must be written."""
    stored, now = attempt.stored, attempt.now
    if stored and stored.ours and stored.body == rendered.body:
        return stored.changed, False
    # The file as it was before another program replaced or deleted it. The mark of an index may be older than its last write.
    if marked_at and not attempt.has_own_object and is_indexed(attempt.file):
        return marked_at, True
    # At least a microsecond later, so that of two rewriters in one instant the later PUT also has the later mark.
    after_last = stored.changed + timedelta(microseconds=1) if stored else now
    return max(now, after_last, rendered.newest or now), True


def digest_of(site: Site, file: str, body: bytes, *, stays: bool) -> str:
    """Return the digest in a commit mark: of the file's bytes and of the site's settings for other forms."""
    # A feed contains the publication even without entries. The suffix " leaving" changes the digest of an empty file that
    # is no longer permanent, so that the change is announced.
    voice = f" {site.publication} {site.language}" if site.outputs.atom and is_news(file) else ""
    settings = f"{site.outputs.model_dump_json()}{voice}{'' if stays else ' leaving'}"
    return hashlib.sha256(body + settings.encode()).hexdigest()[:32]


def _put(attempt: Attempt, plan: Plan, rendered: Rendered) -> None:
    """Write the file if its bytes or metadata differ. Raises BrokenFile, Overtaken."""
    site, file, stored = attempt.site, attempt.file, attempt.stored
    if plan.is_written:
        assert_valid(file, rendered, site.origin)
    if plan.is_put:
        whole = stored.whole if stored and rendered.fresh is not None else attempt.now
        bucket.write(
            site.host,
            file,
            rendered.body,
            *headers(file),
            replaces=stored,
            changed=plan.file_changed,
            config=config_of(site),
            whole=whole if rendered.by_line else None,
        )


def _schedule_expiry(attempt: Attempt, rendered: Rendered) -> datetime | None:
    """Schedule roll_window for the instant when a news sitemap's oldest entry expires. Return that instant, for the mark.

    Afterwards roll_window itself writes the next instant. Then only new entries need a record.
    """
    before = attempt.mark.expires if attempt.mark else None
    before = before if before and before > attempt.now else None
    oldest = min((window_end(entry.published) for entry in rendered.news), default=None)
    if oldest is None or (before and before <= oldest):
        return before
    due.write(due.expiry(attempt.site.host, attempt.file, oldest))
    return oldest


def _write_mark(attempt: Attempt, mark: Mark, *, is_new: bool) -> None:
    """Write the file's commit mark if it has not changed since it was read. Raises Overtaken.

    An index has a mark only for its other forms. If the mark of another file is not new, only its forms and its expiry change. An
    unchanged file's mark is written too, because another rewriter that read the table earlier may still write the file: S3 would
    not stop it, because equal bytes have equal ETags. The second of the two writers of the mark starts again.
    """
    host, before = attempt.site.host, attempt.mark
    if is_index(attempt.file):
        if mark.also != (before.also if before else ()):
            table.put_if(mark_item(host, mark))
    elif attempt.file != ROBOTS_FILE and (is_new or before):
        if before and not is_new:
            mark = replace(before, also=mark.also, expires=mark.expires)
        try:
            table.put(mark_item(host, mark), before.rev if before else None)
        except table.Conflict as error:
            reason = f"another rewriter wrote the mark of {host}/{mark.file}: read and render the file again"
            raise Overtaken(reason) from error


def is_over(attempt: Attempt, rendered: Rendered, digest: str) -> bool:
    """Return True if a file that does not stay is deleted now.

    It is deleted immediately if it has no object or is robots.txt, else a day after it was emptied.
    """
    stored, mark = attempt.stored, attempt.mark
    if stored is None or attempt.file == ROBOTS_FILE:
        return True
    # The index lists a permanent file even while it is empty. The day begins with the mark that takes it out of the index.
    leaves = mark is None or mark.digest == digest
    since = max(mark.changed, stored.changed) if mark else stored.changed
    return leaves and stored.body == rendered.body and since + EMPTIED_KEPT <= attempt.now


def _request_moved(attempt: Attempt, rendered: Rendered) -> None:
    """Request the indexes to which files of this index move, because a mark may have changed since they were written.

    After the PUT of this index, a changed mark leads to the new one.
    """
    after = rendered.next_indexes
    if after and after.files != [attempt.file] and attempt.stored and attempt.has_own_object and rendered.fresh is None:
        indexes = set(map(after.index_of, listed_files(attempt.stored.body))) - {attempt.file}
        requests = [RewriteRequest(attempt.site.host, index) for index in sorted(indexes)]
        queues.send_rewrites(requests, UNLISTED_AFTER_SECONDS)


def write_indexes(attempt: Attempt, rendered: Rendered) -> None:
    """Write the indexes of the site if this index changes them: new cuts, after their due records, or a cut that comes into force.

    Raises Overtaken.
    """
    site, before, after = attempt.site, rendered.indexes, rendered.next_indexes
    if before is None or after is None or after == before:
        return
    for cut in after.cuts:
        if cut not in before.cuts and not cut.is_in_force:
            schedule_rewrite(site, cut.index, attempt.now + index_ranges.CUT_WAITS)
    try:
        table.put(indexes_item(site.host, after), before.rev)
    except table.Conflict as error:
        raise Overtaken(f"another rewriter wrote the indexes of {site.host}: read and render again") from error


def find_other_indexes(request: RewriteRequest, indexes: Indexes | None) -> list[RewriteRequest]:
    """Return a request for each other index that lists some of the changed files. None: the index of the request lists them all."""
    if indexes is None or request.entries is None:
        return []
    by_index: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for entry in request.entries - {INDEXES_ENTRY}:
        by_index[indexes.index_of(entry[0])].add(entry)
    by_index.pop(request.file, None)
    return [replace(request, file=index, entries=frozenset(entries)) for index, entries in by_index.items()]


def requests_of_cuts(host: str, change: Mapping[str, Any]) -> list[RewriteRequest]:
    """Return the requests that follow from a stream record of the indexes: robots.txt, and each index that a changed cut affects."""
    before, after = (read_indexes(table.read_item(change.get(image, {}))) for image in ("OldImage", "NewImage"))
    starts = [cut.start for cut in after.cuts if cut not in before.cuts]
    files = {ROBOTS_FILE, *(index for start in starts for index in after.from_file(start))}
    return [RewriteRequest(host, file, entries=frozenset([INDEXES_ENTRY])) for file in sorted(files)]


def schedule_rewrite(site: Site, file: str, release: datetime) -> None:
    message = RewriteRequest(site.host, file, release=release).message()
    # In this order a crash leaves a record without a message, which roll_window deletes, but never a message without a record.
    due.write(due.messages(site.host, release))
    table.put_if(due_item(site.host, release, _due_name(file), message, queue="rewrites"))


def clear_due(site: str, file: str, releases: Iterable[datetime | None]) -> None:
    """Delete the due records of these instants, because their work is done."""
    for release in filter(None, releases):
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
    # Other files of a news series that have marks share its feed.
    if is_news(file) and any(mark_of(site, other) for other in other_files(site, file)):
        names -= {atom_name(series_of(file))}
    forms = stored_forms(site, names)
    if stored:
        bucket.delete(site.host, file, stored)
    elif forms and bucket.read(site.host, file):
        raise Overtaken(f"another rewriter wrote {site.host}/{file}: read and render the file again")
    delete_forms(site, file, forms)
    if mark:
        try:
            table.delete(file_pk(site.host, INDEX_FILE), file, "digest = :digest", {":digest": mark.digest})
        except table.Conflict as error:  # the file was filled again, and its mark is newer
            raise Overtaken(f"another rewriter wrote the mark of {site.host}/{file}") from error
    return "retired"
