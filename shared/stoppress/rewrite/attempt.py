"""One attempt to rewrite a file: what is read before its entries, and what its lines depend on besides them."""

from dataclasses import dataclass
from datetime import datetime

from stoppress.aws import bucket, sites, table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.items import file_pk, read_mark
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE
from stoppress.model.site import Site
from stoppress.sitemaps.tags import RENDERER


@dataclass(frozen=True, slots=True)
class Attempt:
    """The site, the request, the file's commit mark and object as they were read, and the time."""

    site: Site
    request: RewriteRequest
    mark: Mark | None
    stored: StoredFile | None
    now: datetime

    @property
    def file(self) -> str:
        return self.request.file

    @property
    def has_own_object(self) -> bool:
        """Return True if there is an object and Stoppress put it."""
        return self.stored is not None and self.stored.ours


def begin(site: Site, request: RewriteRequest, now: datetime) -> Attempt:
    """Read a file's mark, then its object. If another configuration wrote the object, the one in force is read.

    In this order an unchanged file costs a read unit and not a write unit. And if an emptied file is filled again meanwhile, its
    mark is not deleted.
    """
    mark = None if _needs_no_mark(site, request) else mark_of(site, request.file)
    stored = bucket.read(site.host, request.file)
    if stored and stored.ours and stored.config != site.digest:
        site = sites.reload(request.site) or site
    return Attempt(site, request, mark, stored, now)


def _needs_no_mark(site: Site, request: RewriteRequest) -> bool:
    """Return True if no mark needs to be read. robots.txt never has one; an index may have one for its gzip form, present or past."""
    if request.file == INDEX_FILE:
        return not (site.outputs.gzip or request.checks_all)
    return request.file == ROBOTS_FILE


def mark_of(site: Site, file: str) -> Mark | None:
    """Return a file's commit mark as the table has it."""
    item = table.get(file_pk(site.host, INDEX_FILE), file)
    return read_mark(item) if item else None


def form_of(site: Site) -> str:
    """Return what a line depends on besides its entry: the line format and the site's configuration."""
    return f"{RENDERER}.{site.digest}"
