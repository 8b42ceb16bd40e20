"""`stoppress rebuild`: requests to write files again from the table."""

from typing import Annotated

import typer

from stoppress.aws import sites, table
from stoppress.aws.inventory import all_files
from stoppress.aws.items import file_pk
from stoppress.aws.queues import BATCH_MESSAGES_MAX, RewriteRequest, send_rewrites
from stoppress.model.site import Site
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, Commands, DryRun, SiteOption
from stoppress_cli.output import counted, print_answer, track

app = Commands()


@app.command(effect=WRITES, example="stoppress rebuild sitemap-news.xml --stack stoppress", is_over_sites=True)
def rebuild(
    file: Annotated[str | None, typer.Argument(help="Name of a file; default: all files.")] = None,
    site: SiteOption = None,
    dry_run: DryRun = False,
) -> None:
    """Render files again from the table, through the rewrites queue."""
    files = requests(site, file)
    if not dry_run:
        for start in track(range(0, len(files), BATCH_MESSAGES_MAX), "batches of ten files"):
            send_rewrites(files[start : start + BATCH_MESSAGES_MAX])
    total = f"{counted(len(files), 'file')} {'would be ' if dry_run else ''}sent to the rewrites queue"
    report = {"files": [{"site": request.site, "file": request.file} for request in files], "done": not dry_run}
    print_answer(report, [*(f"{request.site}/{request.file}" for request in files), total])


def chosen_sites(host: str | None) -> list[Site]:
    """Return one site, or all sites. The version before is in force while the newest version of a site cannot be read.

    Raises UnknownSite and BadConfiguration.
    """
    return [sites.load(host)] if host else sites.load_all()[0]


def requests(host: str | None, file: str | None) -> list[RewriteRequest]:
    """Return a request for each file of a site or of all sites, the index last; or for one file.

    Raises BadRequest for a file that no site has, or that several have, and as `chosen_sites`.
    """
    candidates = chosen_sites(host)
    if file is None:
        return [RewriteRequest(site.host, name, checks_all=True) for site in candidates for name in all_files(site)]
    owners = [
        site for site in candidates if file in all_files(site) or next(table.query(file_pk(site.host, file)), None)
    ]
    if len(owners) == 1:
        return [RewriteRequest(owners[0].host, file, checks_all=True)]
    if owners:
        raise BadRequest(
            f"{len(owners)} sites have a file {file!r}; give --site, one of {', '.join(site.host for site in owners)}"
        )
    hint = f"; {candidates[0].host} has {', '.join(all_files(candidates[0])[:20])}" if len(candidates) == 1 else ""
    raise BadRequest(f"no site has a file {file!r}{hint}")
