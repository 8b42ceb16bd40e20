"""Committing: a file is put while its object is as it was read; its other forms, its announcement and its commit mark follow.

For rewriting. An emptied file is taken away the same way, a day later. Whatever a crash leaves out, the next rewrite finds
missing by the mark.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from stoppress import bucket, queues, table
from stoppress.bucket import Overtaken, StoredFile
from stoppress.files import Mark, Rendered
from stoppress.formats import ROBOTS_FILE, atom_name
from stoppress.instants import exact
from stoppress.naming import INDEX_FILE, is_news, permanent_files, series_of
from stoppress.queues import Rewrite
from stoppress.records import due_item, due_sk, file_pk, mark_item, read_mark, read_series, series_files
from stoppress.rendering import Forms, form_of, hold_to_the_rules, text_name
from stoppress.site import Site
from stoppress.sites import SETTLED_AFTER

# An emptied file leaves the index at once; who still holds an old index finds it for another day.
EMPTIED_KEPT = timedelta(days=1)
# A packed file as the index names it, without its `.gz`.
_PACKED = re.compile(rb"/([^/<]+)\.gz</loc>")

REWRITTEN = "sitemap rewritten"

# They stand in no index, and so need no mark.
UNMARKED = (INDEX_FILE, ROBOTS_FILE)


def commit(
    site: Site,
    work: Rewrite,
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
    stays = bool(rendered.urls) or file == INDEX_FILE or file in permanent_files(site)
    digest = digest_of(site, file, rendered.body, stays=stays)
    if not stays and (stored is None or file == ROBOTS_FILE or _is_over(stored, rendered, mark, digest, now)):
        return _retire(site, file, mark, stored)
    changed, written = stored.changed if stored else now, False
    if stored is None or stored.body != rendered.body or not stored.ours:
        changed, written = _changed(stored, rendered, now), True
        # Put back after somebody's hand, it is what it was.
        if not (stored and stored.ours) and mark and mark.digest == digest:
            changed = mark.changed
        hold_to_the_rules(site, file, rendered, changed)
        _have_unnamed_looked_at(site, file, stored, rendered)
    # One that could be folded into and cannot any more has to say so, though not a byte of it changes.
    if written or (stored and stored.form and not rendered.by_line):
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
    # A file may come back to the bytes of an older mark: what was to follow the bytes between may still be to do.
    settled = mark is not None and mark.digest == digest and mark.changed >= changed
    told = written or (file not in UNMARKED and not settled)
    # The index never records itself, so that its other forms are looked at whenever it has any.
    if file == INDEX_FILE and mark is None and forms():
        mark = _mark_of(site, file)
    also = mark.also if mark else ()
    if told or work.thorough or work.config_version or file == INDEX_FILE:
        also = _replace_forms(site, work, mark, forms(), changed)
    if told:
        detail = {"site": site.host, "file": file, "urls": rendered.urls, "changed": exact(changed)}
        queues.announce(REWRITTEN, detail)
    if told and not stays:
        _have_retired(site, file, changed)
    now_known = Mark(file, changed, rendered.urls, len(rendered.body), digest, also)
    if told and file not in UNMARKED:
        _put_mark(site, now_known, mark)
    elif mark and file not in UNMARKED and (also != mark.also or not work.config_version):
        _put_mark(site, replace(mark, also=also), mark)
    elif file == INDEX_FILE and also != (mark.also if mark else ()):
        table.put_if(mark_item(site.host, now_known))
    return "written" if written else "unchanged"


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


def _replace_forms(
    site: Site, work: Rewrite, mark: Mark | None, forms: dict[str, bytes], changed: datetime
) -> tuple[str, ...]:
    """Put a file's other forms in the place of those that it had: the names for its mark. Raises Overtaken.

    By a changed configuration forms are written at once. What is new is named, and what is not wanted goes, when nobody goes by
    another configuration any more: else one of two would take away what the index names by the other.
    """
    _write_forms(site, forms, changed)
    had = set(mark.also) if mark else set()
    if work.thorough and work.config_version == site.version:
        # By another configuration a rewriter that was killed may have left what no mark tells of.
        _take_away(site, _stored(site, (had | _possible_forms(work.file)) - forms.keys()))
    elif work.file == INDEX_FILE:  # whose forms no index names: its mark tells of all that may be there
        return tuple(sorted(had | forms.keys()))
    elif mark:
        return tuple(sorted(had & forms.keys()))
    return tuple(sorted(forms))


def _write_forms(site: Site, forms: dict[str, bytes], changed: datetime) -> None:
    """Write a file's other forms. Raises Overtaken.

    They go by the instant of the file itself: what is newer is somebody else's, who has written the file since.
    """
    for name, body in forms.items():
        stored = bucket.read(site.host, name)
        # The feed of several news sitemaps is read anew from all of them: it goes by none of their instants.
        shared = name.endswith(".atom")
        if stored is None or (stored.body != body and (shared or not stored.ours or stored.changed <= changed)):
            at = max(changed, stored.changed) if stored else changed
            bucket.write(site.host, name, body, replaces=stored, changed=at, config_version=site.version)


def _possible_forms(file: str) -> set[str]:
    """The names of all other forms that a file may have."""
    if file == ROBOTS_FILE:
        return set()
    also = {f"{file}.gz"}
    if is_news(file):
        also.add(atom_name(series_of(file)))
    elif file != INDEX_FILE:
        also.add(text_name(file))
    return also


def _stored(site: Site, names: Iterable[str]) -> dict[str, StoredFile]:
    """Other forms as they stand, but for what a newer configuration has written: that one wants it."""
    found = {name: stored for name in sorted(names) if (stored := bucket.read(site.host, name))}
    return {name: stored for name, stored in found.items() if stored.config_version <= site.version}


def _take_away(site: Site, there: Mapping[str, StoredFile]) -> None:
    """Take away other forms of a file that are as they were read, but for those that the index still names. Raises Overtaken."""
    index = bucket.read(site.host, INDEX_FILE) if there else None
    named = {name for name in there if index and f"/{name}</loc>".encode() in index.body}
    for name in sorted(there.keys() - named):
        bucket.delete(site.host, name, there[name])


def _have_unnamed_looked_at(site: Site, file: str, stored: StoredFile | None, rendered: Rendered) -> None:
    """Where the index is about to name some packed files no more, have their files take them away when that has been done.

    Told before the index is put, and heard when whoever puts it is long done: a crash in between tells it again.
    """
    if file != INDEX_FILE or stored is None or not stored.ours:
        return
    unnamed = set(_PACKED.findall(stored.body)) - set(_PACKED.findall(rendered.body))
    works = [Rewrite(site.host, name.decode(), site.version, thorough=True) for name in sorted(unnamed)]
    queues.send_rewrites(works, int(SETTLED_AFTER.total_seconds()))


# ── commit marks ──


def mark_before(site: Site, work: Rewrite) -> Mark | None:
    """What is known of a file; of the index, that it has other forms, where it has or had them by another configuration."""
    unasked = work.file == INDEX_FILE and not (site.outputs.gzip or work.config_version)
    return None if unasked or work.file == ROBOTS_FILE else _mark_of(site, work.file)


def _mark_of(site: Site, file: str) -> Mark | None:
    item = table.get(file_pk(site.host, INDEX_FILE), file)
    return read_mark(item) if item else None


def _put_mark(site: Site, mark: Mark, before: Mark | None) -> None:
    """Write a file's mark while it is as it was read, before the file. Raises Overtaken.

    Who found nothing to change writes it too: another who read the table earlier may still put the file by what he has read, and
    no condition of S3 would stop him, since an ETag is made of the bytes. Of the two, who comes second goes over it again.
    """
    try:
        table.put(mark_item(site.host, mark), before.rev if before else None)
    except table.Conflict as error:
        raise Overtaken(f"the mark of {site.host}/{mark.file} was written meanwhile") from error


# ── emptied files ──


def _is_over(stored: StoredFile, rendered: Rendered, mark: Mark | None, digest: str, now: datetime) -> bool:
    # The mark of a file that was empty and permanent has the index name it, for however long.
    told = mark is None or mark.digest == digest
    return told and stored.body == rendered.body and stored.changed + EMPTIED_KEPT <= now


def _have_retired(site: Site, file: str, changed: datetime) -> None:
    release = changed + EMPTIED_KEPT
    message = Rewrite(site.host, file, release=release).message()
    table.put_if(due_item(site.host, release, _due_name(file), message, queue="rewrites"))


def done_due(site: str, file: str, release: datetime) -> None:
    """What was due at this instant has been done."""
    table.delete(f"due#{site}", due_sk(release, _due_name(file)))


def _due_name(file: str) -> str:
    return f"file#{file}"


def _retire(site: Site, file: str, mark: Mark | None, stored: StoredFile | None) -> str:
    if file == ROBOTS_FILE and not (stored and stored.ours):
        return "unchanged"  # where none is kept, what is there is the site's own
    # Read before the file goes: whoever fills it from then on writes other forms than these.
    there = _stored(site, (set(mark.also if mark else ()) | _possible_forms(file)) - _others_forms(site, file))
    if stored:
        bucket.delete(site.host, file, stored)
    elif there and bucket.read(site.host, file):
        raise Overtaken(f"{site.host}/{file} was written meanwhile")
    _take_away(site, there)
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
