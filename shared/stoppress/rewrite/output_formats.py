"""The other formats (forms) of a file: gzip, plain text, feed. How they are rendered, written to the bucket and deleted.

They are written after the file and before its mark. A gzip file is deleted only when no index lists it any more.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from stoppress.aws import bucket, queues, sites, table
from stoppress.aws.bucket import Overtaken, StoredFile
from stoppress.aws.inventory import read_indexes
from stoppress.aws.items import file_pk, places_pk, read_news, read_series, series_files
from stoppress.aws.queues import RewriteRequest
from stoppress.model import file_names
from stoppress.model.file_names import headers
from stoppress.model.news_window import select_news
from stoppress.model.site import Site
from stoppress.rewrite.file_lines import Attempt
from stoppress.sitemaps.other_forms import atom_feed, compressed, same_gzip, text_sitemap, with_time
from stoppress.sitemaps.render import Rendered

# A mark that no longer lists a form reaches the index in a second or two. The retries of the rewrites queue cover longer delays.
UNLISTED_AFTER_SECONDS = 5


def render_forms(site: Site, file: str, rendered: Rendered, now: datetime) -> dict[str, bytes]:
    """Return the bytes of a file's other forms by name. A feed reads its whole series."""
    if file == file_names.ROBOTS_FILE:
        return {}
    bodies = {f"{file}.gz": compressed(rendered.body)} if site.outputs.gzip else {}
    if file_names.is_news(file):
        if site.outputs.atom:
            others = [table.query(file_pk(site.host, other)) for other in other_files(site, file)]
            entries = [*rendered.news, *(read_news(item) for items in others for item in items)]
            name = file_names.atom_name(file_names.series_of(file))
            bodies[name] = atom_feed(select_news(entries, site, now), site, file=name, hub=site.outputs.hub)
    elif not file_names.is_index(file) and site.outputs.text:
        bodies[file_names.text_name(file)] = text_sitemap(rendered.body)
    return bodies


def other_files(site: Site, file: str) -> list[str]:
    """Return the other files in the series of a news sitemap. They share its feed."""
    series = file_names.series_of(file)
    files = series_files(read_series(series, table.get(places_pk(site.host), series)))
    return [other for other in files if other != file]


def replace_forms(attempt: Attempt, bodies: Mapping[str, bytes], changed: datetime) -> tuple[str, ...]:
    """Write a file's other forms whose bytes differ, delete unwanted forms, and return the names for the file's mark. Raises Overtaken.

    Forms carry the file's own `changed`, not the time of writing: a form with a later instant belongs to a newer file and stays.
    """
    site, mark = attempt.site, attempt.mark
    for name, body in bodies.items():
        stored = bucket.read(site.host, name)
        if name.endswith(".gz") and mark and name in mark.also:
            body = stored.body if stored and same_gzip(stored.body, body) else body  # noqa: PLW2901
        elif name.endswith(".gz") and (mark or stored):
            # A rewriter with an older configuration may be about to delete a form that no mark lists, even one that another
            # has deleted since. Equal bytes have equal ETags, so only other bytes make its deletion fail.
            body = with_time(body, attempt.now)  # noqa: PLW2901
        # A feed contains several news sitemaps, so the instant of one sitemap does not show which feed is newer.
        is_shared = name.endswith(".atom")
        if stored is None or (stored.body != body and (is_shared or not stored.ours or stored.changed <= changed)):
            at = max(changed, stored.changed) if stored else changed
            bucket.write(site.host, name, body, *headers(name), replaces=stored, changed=at, config=site.digest)
    _delete_unwanted(attempt, bodies)
    return tuple(sorted(bodies))


def _delete_unwanted(attempt: Attempt, bodies: Mapping[str, bytes]) -> None:
    """Delete the forms of a file that the configuration in force does not include. Raises Overtaken."""
    site, mark = attempt.site, attempt.mark
    unwanted = set(mark.also if mark else ()) - bodies.keys()
    if attempt.request.checks_all:
        # A rewriter that was killed, or that used an older configuration, may have left forms that no mark lists.
        unwanted |= possible_forms(attempt.file) - bodies.keys()
    forms = stored_forms(site, unwanted)
    # Read after the forms, because a rewriter with a newer configuration may have written one of them since.
    in_force = sites.reload(site.host) if forms else None
    if in_force and in_force.digest != site.digest:
        raise Overtaken(f"the configuration of {site.host} was replaced: read and render {attempt.file} again")
    served = mark.served if mark and not file_names.is_index(mark.file) else None
    delete_forms(site, attempt.file, forms, served)


def possible_forms(file: str) -> set[str]:
    """Return the names of the other forms that a file may have."""
    if file == file_names.ROBOTS_FILE:
        return set()
    names = {f"{file}.gz"}
    if file_names.is_news(file):
        names.add(file_names.atom_name(file_names.series_of(file)))
    elif not file_names.is_index(file):
        names.add(file_names.text_name(file))
    return names


def stored_forms(site: Site, names: Iterable[str]) -> dict[str, StoredFile]:
    """Return the forms with these names that are in the bucket."""
    return {name: stored for name in sorted(names) if (stored := bucket.read(site.host, name))}


def delete_forms(site: Site, file: str, forms: Mapping[str, StoredFile], served: str | None = None) -> None:
    """Delete other forms of a file. Raises Overtaken if one has changed since it was read.

    A form that an index still lists stays, and so does the form that the file's mark has as `served`, because another
    configuration may soon list it. Then the file is requested again: by then its new mark has changed the index.
    """
    indexes = read_indexes(site.host).from_file(file) if forms else ()
    bodies = [index.body for name in indexes if (index := bucket.read(site.host, name))]
    listed = {name for name in forms if name == served or any(f"/{name}</loc>".encode() in body for body in bodies)}
    for name in sorted(forms.keys() - listed):
        bucket.delete(site.host, name, forms[name])
    if listed:
        queues.send_rewrites([RewriteRequest(site.host, file, checks_all=True)], UNLISTED_AFTER_SECONDS)
