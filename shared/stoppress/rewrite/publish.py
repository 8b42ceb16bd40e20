"""Committing: a file is put while its object is as it was read; its other forms, its announcement and its commit mark follow.

For rewriting. What is to be done is planned first, by values alone; then it is done in an order that may end anywhere: whatever
a crash leaves out, the next rewrite finds missing by the mark.
"""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoppress.aws import bucket, queues, table
from stoppress.aws.bucket import Overtaken, StoredFile
from stoppress.aws.items import file_pk, mark_item, read_mark
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, is_news, permanent_files
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.rewrite.forms import replace_forms, requeue_unlisted_forms
from stoppress.rewrite.render import Forms, assert_valid, form_of
from stoppress.rewrite.retire import is_over, retire, schedule_retirement
from stoppress.sitemaps.render import Rendered

REWRITTEN = "sitemap rewritten"

# They stand in no index, and so need no mark.
UNMARKED = (INDEX_FILE, ROBOTS_FILE)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done about a file; `changed` and `digest` are what its mark is to say of it.

    `file_changed`: the instant that the file itself has, which its other forms take over; earlier than `changed` where a file
    keeps its bytes and leaves the index.
    `is_written`: other bytes than those that are there, or others' than ours; `is_put`: so, or what the object says beside its
    bytes. `must_announce`: announced and marked, where it has a mark. One that does not stay goes when it has been empty for a day.
    """

    changed: datetime
    file_changed: datetime
    digest: str
    stays: bool
    is_over: bool
    is_written: bool
    is_put: bool
    must_announce: bool
    has_forms_looked_at: bool


def commit(
    site: Site,
    work: RewriteRequest,
    mark: Mark | None,
    stored: StoredFile | None,
    rendered: Rendered,
    forms: Forms,
    now: datetime,
) -> str:
    """Have a file stand as it was rendered, or go if it is over. `mark` and `stored` are what was there before.

    The file, then its other forms and its announcement, then its mark: what became of it, as in `Result`. Raises Overtaken,
    BrokenFile, and what the doors raise.
    """
    file = work.file
    if file == INDEX_FILE and not rendered.urls:
        # An index has to name a file. That of a new site waits for the first one, whose mark wakes it.
        return "unchanged"
    plan = _planned(site, work, mark, stored, rendered, now)
    if plan.is_over:
        return retire(site, file, mark, stored)
    if plan.is_written:
        assert_valid(site, file, rendered, plan.changed)
        requeue_unlisted_forms(site, file, stored, rendered)
    if plan.is_put:
        _put(site, file, stored, rendered, plan.changed, now)
    # The index never records itself, so that its other forms are looked at whenever it has any.
    if file == INDEX_FILE and mark is None and forms():
        mark = _mark_of(site, file)
    also = mark.also if mark else ()
    if plan.has_forms_looked_at:
        also = replace_forms(site, work, mark, forms(), plan.file_changed)
    if plan.must_announce:
        detail = {"site": site.host, "file": file, "urls": rendered.urls, "changed": exact(plan.changed)}
        queues.announce(REWRITTEN, detail)
        if not plan.stays:
            schedule_retirement(site, file, plan.changed)
    now_known = Mark(file, plan.changed, rendered.urls, len(rendered.body), plan.digest, also)
    _have_marked(site, work, now_known, mark, must_announce=plan.must_announce)
    return "written" if plan.is_written else "unchanged"


# ── what is to be done ──


def _planned(
    site: Site, work: RewriteRequest, mark: Mark | None, stored: StoredFile | None, rendered: Rendered, now: datetime
) -> _Plan:
    file = work.file
    stays = bool(rendered.urls) or file == INDEX_FILE or file in permanent_files(site)
    digest = digest_of(site, file, rendered.body, stays=stays)
    marked_at = mark.changed if mark and mark.digest == digest else None
    if stored and stored.ours and stored.body == rendered.body:
        changed, is_written = stored.changed, False
    elif marked_at and not (stored and stored.ours):  # put back after somebody's hand, it is what it was
        changed, is_written = marked_at, True
    else:
        changed, is_written = _changed(stored, rendered, now), True
    if not stays and not is_written and mark and marked_at is None:
        changed = max(now, changed)  # it was empty for long, and leaves the index now
    # One that could be folded into and cannot any more has to say so, though not a byte of it changes.
    unfolded = stored is not None and stored.form != "" and not rendered.by_line
    # A file may come back to the bytes of an older mark: what was to follow the bytes between may still be to do.
    settled = marked_at is not None and marked_at >= changed
    must_announce = is_written or (file not in UNMARKED and not settled)
    is_put = is_written or unfolded
    return _Plan(
        changed,
        changed if is_put or stored is None else stored.changed,
        digest,
        stays,
        is_over=not stays and is_over(file, stored, rendered, mark, digest, now),
        is_written=is_written,
        is_put=is_put,
        must_announce=must_announce,
        has_forms_looked_at=must_announce or work.repair_forms or bool(work.config_version) or file == INDEX_FILE,
    )


def digest_of(site: Site, file: str, body: bytes, *, stays: bool) -> str:
    """What a commit mark says of a file's bytes, and of the other forms that the site wants beside them."""
    # An empty file that the configuration does not name any more has to be told of once, so that it goes after its day.
    # A feed names the publication even when it has no entry.
    named = f" {site.publication} {site.language}" if site.outputs.atom and is_news(file) else ""
    wanted = f"{site.outputs.model_dump_json()}{named}{'' if stays else ' leaving'}"
    return hashlib.sha256(body + wanted.encode()).hexdigest()[:32]


def _changed(stored: StoredFile | None, rendered: Rendered, now: datetime) -> datetime:
    """When the bytes change: later than the change before, whatever the clocks say, and than all that stands in them."""
    after_last = stored.changed + timedelta(microseconds=1) if stored else now
    return max(now, after_last, rendered.newest or now)


# ── the file ──


def _put(
    site: Site, file: str, stored: StoredFile | None, rendered: Rendered, changed: datetime, now: datetime
) -> None:
    bucket.write(
        site.host,
        file,
        rendered.body,
        replaces=stored,
        changed=changed,
        config_version=site.version,
        form=form_of(site) if rendered.by_line else "",
        whole=stored.whole if stored and rendered.fresh is not None else now,
    )


# ── commit marks ──


def mark_before(site: Site, work: RewriteRequest) -> Mark | None:
    """What is known of a file; of the index, that it has other forms, where it has or had them by another configuration."""
    unasked = work.file == INDEX_FILE and not (site.outputs.gzip or work.config_version)
    return None if unasked or work.file == ROBOTS_FILE else _mark_of(site, work.file)


def _mark_of(site: Site, file: str) -> Mark | None:
    item = table.get(file_pk(site.host, INDEX_FILE), file)
    return read_mark(item) if item else None


def _have_marked(
    site: Site, work: RewriteRequest, now_known: Mark, before: Mark | None, *, must_announce: bool
) -> None:
    """Write what is known of a file now, where it has a mark; of the index, that it has other forms. Raises Overtaken."""
    if work.file == ROBOTS_FILE:
        return
    if work.file == INDEX_FILE:
        if now_known.also != (before.also if before else ()):
            table.put_if(mark_item(site.host, now_known))
    elif must_announce:
        _put_mark(site, now_known, before)
    elif before and (now_known.also != before.also or not work.config_version):
        _put_mark(site, replace(before, also=now_known.also), before)


def _put_mark(site: Site, mark: Mark, before: Mark | None) -> None:
    """Write a file's mark while it is as it was read, before the file. Raises Overtaken.

    Who found nothing to change writes it too: another who read the table earlier may still put the file by what he has read, and
    no condition of S3 would stop him, since an ETag is made of the bytes. Of the two, who comes second goes over it again.
    """
    try:
        table.put(mark_item(site.host, mark), before.rev if before else None)
    except table.Conflict as error:
        raise Overtaken(f"the mark of {site.host}/{mark.file} was written meanwhile") from error
