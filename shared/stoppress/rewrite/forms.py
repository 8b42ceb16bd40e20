"""Outputs: the other forms of a file, put beside it, and taken away when nobody wants or names them any more.

For committing: after the file that they are made of, before its mark. What is packed the index names, and only then does it go.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from stoppress.aws import bucket, queues, sites
from stoppress.aws.bucket import StoredFile
from stoppress.aws.queues import RewriteRequest
from stoppress.aws.sites import SETTLED_AFTER
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, atom_name, is_news, series_of, text_name
from stoppress.model.site import Site
from stoppress.sitemaps.render import Rendered

# A packed file as the index names it, without its `.gz`.
_PACKED = re.compile(rb"/([^/<]+)\.gz</loc>")


def replace_forms(
    site: Site, work: RewriteRequest, mark: Mark | None, forms: dict[str, bytes], changed: datetime
) -> tuple[str, ...]:
    """Put a file's other forms in the place of those that it had: the names for its mark. Raises Overtaken.

    By a changed configuration forms are written at once. What is new is named, and what is not wanted goes, when nobody goes by
    another configuration any more: else one of two would take away what the index names by the other.
    """
    _write_forms(site, forms, changed)
    had = set(mark.also) if mark else set()
    if work.repair_forms and work.config_version == site.version:
        # By another configuration a rewriter that was killed may have left what no mark tells of.
        take_away(site, standing(site, (had | possible_forms(work.file)) - forms.keys()))
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


def possible_forms(file: str) -> set[str]:
    """The names of all other forms that a file may have."""
    if file == ROBOTS_FILE:
        return set()
    also = {f"{file}.gz"}
    if is_news(file):
        also.add(atom_name(series_of(file)))
    elif file != INDEX_FILE:
        also.add(text_name(file))
    return also


def standing(site: Site, names: Iterable[str]) -> dict[str, StoredFile]:
    """Other forms as they stand, but for what a newer configuration has written: that one wants it.

    A parameter that was deleted and made again counts from 1 again: a version above its latest is older than all of its own.
    """
    found = {name: stored for name in sorted(names) if (stored := bucket.read(site.host, name))}
    highest = max((stored.config_version for stored in found.values()), default=0)
    latest = sites.load_kept(site.host, at_least=highest).version if highest > site.version else site.version
    return {name: stored for name, stored in found.items() if not site.version < stored.config_version <= latest}


def take_away(site: Site, there: Mapping[str, StoredFile]) -> None:
    """Take away other forms of a file that are as they were read, but for those that the index still names. Raises Overtaken."""
    index = bucket.read(site.host, INDEX_FILE) if there else None
    named = {name for name in there if index and f"/{name}</loc>".encode() in index.body}
    for name in sorted(there.keys() - named):
        bucket.delete(site.host, name, there[name])


def requeue_unlisted_forms(site: Site, file: str, stored: StoredFile | None, rendered: Rendered) -> None:
    """Where the index is about to name some packed files no more, have their files take them away when that has been done.

    Told before the index is put, and heard when whoever puts it is long done: a crash in between tells it again.
    """
    if file != INDEX_FILE or stored is None or not stored.ours:
        return
    unnamed = set(_PACKED.findall(stored.body)) - set(_PACKED.findall(rendered.body))
    works = [RewriteRequest(site.host, name.decode(), site.version, repair_forms=True) for name in sorted(unnamed)]
    queues.send_rewrites(works, int(SETTLED_AFTER.total_seconds()))
