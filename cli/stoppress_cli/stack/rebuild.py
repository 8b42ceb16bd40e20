"""Requests to write files again from the table."""

from stoppress.aws import sites, table
from stoppress.aws.inventory import all_files
from stoppress.aws.items import file_pk
from stoppress.aws.queues import RewriteRequest
from stoppress.model.site import Site
from stoppress_cli.stack.find import BadRequest


def chosen_sites(host: str | None) -> list[Site]:
    """One site, or all sites. A site whose parameter cannot be used keeps the configuration that was last applied.

    Raises UnknownSite and BadConfiguration.
    """
    if host:
        return [sites.load_kept(host)]
    return sites.load_all_usable()[0]


def requests(host: str | None, file: str | None) -> list[RewriteRequest]:
    """A request for each file of a site or of all sites, the index last; or for one file.

    Raises BadRequest for a file that no site has, or that several have, and as `chosen_sites`.
    """
    candidates = chosen_sites(host)
    if file is None:
        return [_request(site, name) for site in candidates for name in all_files(site)]
    having = [
        site for site in candidates if file in all_files(site) or next(table.query(file_pk(site.host, file)), None)
    ]
    if len(having) == 1:
        return [_request(having[0], file)]
    if having:
        raise BadRequest(
            f"{len(having)} sites have a file {file!r}; give --site, one of {', '.join(site.host for site in having)}"
        )
    known = f"; {candidates[0].host} has {', '.join(all_files(candidates[0])[:20])}" if len(candidates) == 1 else ""
    raise BadRequest(f"no site has a file {file!r}{known}")


def _request(site: Site, file: str) -> RewriteRequest:
    return RewriteRequest(site.host, file, site.version, repair_forms=True)
