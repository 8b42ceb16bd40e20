"""The other formats (forms) of a file: gzip, plain text, feed. How they are made, put into the bucket and deleted.

They are put after the file and before its mark. A gzip file is deleted only when the index no longer lists it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoppress.aws import bucket, queues, sites, table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.items import file_pk, places_pk, read_news, read_series, series_files
from stoppress.aws.queues import RewriteRequest
from stoppress.aws.sites import SETTLED_AFTER
from stoppress.model import file_names
from stoppress.model.entries import NewsEntry
from stoppress.model.file_headers import headers
from stoppress.model.site import Site
from stoppress.rewrite.attempt import Attempt
from stoppress.sitemaps.atom import atom_feed
from stoppress.sitemaps.gzip_text import compressed, text_sitemap
from stoppress.sitemaps.render import Rendered, in_window

# A gzip file in the index, without its `.gz`.
_PACKED = re.compile(rb"/([^/<]+)\.gz</loc>")


@dataclass(frozen=True, slots=True)
class Forms:
    """The other forms of a rendered file, made on demand: most rewrites need none, and a feed reads its whole series.

    `more_indexes`: the parts of the index after the first. `news`: the entries of a news sitemap that was made from all
    of them.
    """

    site: Site
    file: str
    rendered: Rendered
    now: datetime
    more_indexes: Sequence[Rendered] = ()
    news: Sequence[NewsEntry] = ()

    def bodies(self) -> dict[str, bytes]:
        """The bytes of the forms by name."""
        file, outputs = self.file, self.site.outputs
        if file == file_names.ROBOTS_FILE:
            return {}
        bodies = {file_names.index_part_name(number): part.body for number, part in enumerate(self.more_indexes, 2)}
        if outputs.gzip:
            bodies |= {f"{name}.gz": compressed(body) for name, body in [(file, self.rendered.body), *bodies.items()]}
        if file_names.is_news(file):
            if outputs.atom:
                bodies |= self._feed()
        elif file != file_names.INDEX_FILE and outputs.text:
            bodies[file_names.text_name(file)] = text_sitemap(self.rendered.locs, self.site)
        return bodies

    def _feed(self) -> dict[str, bytes]:
        """The feed of a series of news sitemaps, from the entries of all its files."""
        series = file_names.series_of(self.file)
        files = series_files(read_series(series, table.get(places_pk(self.site.host), series)))
        others = [table.query(file_pk(self.site.host, other)) for other in files if other != self.file]
        entries = in_window([*self.news, *(read_news(item) for items in others for item in items)], self.site, self.now)
        name = file_names.atom_name(series)
        return {name: atom_feed(entries, self.site, file=name, hub=self.site.outputs.hub)}


def replace_forms(attempt: Attempt, bodies: Mapping[str, bytes], changed: datetime) -> tuple[str, ...]:
    """Put a file's other forms and delete unwanted ones. Returns the names for its mark. Raises Overtaken.

    A changed configuration adds forms at once. Forms are listed and deleted only when no function uses the old configuration
    any more (`repair_forms`). Until then a rewriter with the old one could delete what the index lists.
    """
    site, request = attempt.site, attempt.request
    _write_forms(site, bodies, changed)
    before = set(attempt.mark.also) if attempt.mark else set()
    if request.repair_forms and request.config_version == site.version:
        # A rewriter that was killed may have left forms that no mark names.
        delete_forms(site, stored_forms(site, (before | possible_forms(attempt.file)) - bodies.keys()))
    elif attempt.file == file_names.INDEX_FILE:
        # No index lists the index's forms, so its mark names all that may exist.
        return tuple(sorted(before | bodies.keys()))
    elif attempt.mark:
        return tuple(sorted(before & bodies.keys()))
    return tuple(sorted(bodies))


def _write_forms(site: Site, bodies: Mapping[str, bytes], changed: datetime) -> None:
    """Put other forms whose bytes differ. Raises Overtaken.

    Forms carry the file's own `changed`, not the time of writing: a form with a later instant belongs to a newer file and stays.
    """
    for name, body in bodies.items():
        stored = bucket.read(site.host, name)
        # A feed is made from several news sitemaps, so the instant of one does not show which feed is newer.
        is_shared = name.endswith(".atom")
        if stored is None or (stored.body != body and (is_shared or not stored.ours or stored.changed <= changed)):
            at = max(changed, stored.changed) if stored else changed
            bucket.write(
                site.host, name, body, *headers(name), replaces=stored, changed=at, config_version=site.version
            )


def possible_forms(file: str) -> set[str]:
    """The names of the other forms that a file may have, without the further parts of an index."""
    if file == file_names.ROBOTS_FILE:
        return set()
    names = {f"{file}.gz"}
    if file_names.is_news(file):
        names.add(file_names.atom_name(file_names.series_of(file)))
    elif file != file_names.INDEX_FILE:
        names.add(file_names.text_name(file))
    return names


def stored_forms(site: Site, names: Iterable[str]) -> dict[str, StoredFile]:
    """Other forms in the bucket by name, without those that a newer configuration wrote."""
    forms = {name: stored for name in sorted(names) if (stored := bucket.read(site.host, name))}
    highest = max((stored.config_version for stored in forms.values()), default=0)
    # Parameter versions restart at 1 after a deletion, so a version above the latest one is an older configuration's.
    latest = sites.load_kept(site.host, at_least=highest).version if highest > site.version else site.version
    return {name: stored for name, stored in forms.items() if not site.version < stored.config_version <= latest}


def delete_forms(site: Site, forms: Mapping[str, StoredFile]) -> None:
    """Delete other forms, except those that the index still lists. Raises Overtaken if one has changed since it was read."""
    # A form that is still listed is deleted later: see `requeue_unlisted_forms`.
    index = bucket.read(site.host, file_names.INDEX_FILE) if forms else None
    listed = {name for name in forms if index and f"/{name}</loc>".encode() in index.body}
    for name in sorted(forms.keys() - listed):
        bucket.delete(site.host, name, forms[name])


def requeue_unlisted_forms(attempt: Attempt, index: Rendered) -> None:
    """If the new index drops gzip files, have these files rewritten later, which deletes them.

    Requests are sent before the index is put, so that a crash in between sends them again. Their delay lets the rewriter of the
    index finish.
    """
    site, stored = attempt.site, attempt.stored
    if attempt.file != file_names.INDEX_FILE or stored is None or not stored.ours:
        return
    unlisted = set(_PACKED.findall(stored.body)) - set(_PACKED.findall(index.body))
    requests = [RewriteRequest(site.host, name.decode(), site.version, repair_forms=True) for name in sorted(unlisted)]
    queues.send_rewrites(requests, int(SETTLED_AFTER.total_seconds()))
