"""Files to be written again: named to the rewrites queue, all of a site or one."""

from stoppress.aws import queues, sites, table
from stoppress.aws.inventory import all_files
from stoppress.aws.items import file_pk
from stoppress.aws.queues import RewriteRequest
from stoppress.model.site import Site


def chosen_sites(host: str | None) -> list[Site]:
    """One site, or all that can be used, a misspelt one as it was last applied. Raises UnknownSite and BadConfiguration."""
    if host:
        return [sites.load_kept(host)]
    good, bad = sites.load_all()
    return good + [applied for one in bad if (applied := sites.last_applied(one.host))]


def files(host: str | None, file: str | None) -> list[RewriteRequest]:
    """What there is to name, each file of each site, the index last. Raises ValueError for a file that no site has."""
    found = chosen_sites(host)
    if file is None:
        return [
            RewriteRequest(site.host, name, site.version, repair_forms=True)
            for site in found
            for name in all_files(site)
        ]
    having = [site for site in found if file in all_files(site) or next(table.query(file_pk(site.host, file)), None)]
    if len(having) != 1:
        others = f"; give --site, one of {', '.join(site.host for site in having)}" if having else ""
        known = ", ".join(all_files(found[0])[:20]) if len(found) == 1 else ""
        raise ValueError(
            f"{len(having) or 'no'} site{'s have' if having else ' has'} a file {file!r}{others}"
            + (f"; {found[0].host} has {known}" if known else "")
        )
    return [RewriteRequest(having[0].host, file, having[0].version, repair_forms=True)]


def rebuild(works: list[RewriteRequest]) -> int:
    """Have them written again from their partitions; equal bytes are not put again. How many were named."""
    queues.send_rewrites(works)
    return len(works)
