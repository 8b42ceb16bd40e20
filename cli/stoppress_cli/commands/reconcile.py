import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.commands.access import open_sites
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Json, Site, Stack, Template
from stoppress_cli.printing import console, print_json

if TYPE_CHECKING:
    from stoppress.reconcile.findings import Report

_ADVICE = (
    "A difference that was seen once may be work in progress. A second comparison repairs it: run this again in two"
    " minutes, or give --wait; otherwise reconcile_sites does it at night."
)
_ADVICE_DRY = "A difference that was seen once may be a file that is being written at this moment."


def reconcile(
    site: Site = None,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, as_json: Json = False,
    wait: Annotated[bool, typer.Option("--wait", help="Compare again after two minutes.")] = False,
) -> None:  # fmt: skip
    """Compare table, index and bucket, as reconcile_sites does each night, and repair differences.

    A difference is repaired when two comparisons, two minutes apart, both find it: until then it may be work in progress.

    Exit code 0: no difference; 1: some differences; 2: the stack cannot be reached, or a site's parameter cannot be used.
    """
    with open_sites(site, stack, local, template):
        reports = _look(site, dry_run=dry_run, wait=wait)
        if as_json:
            print_json([_row(host, report) for host, report in reports])
        else:
            _print(reports, dry_run=dry_run)
        differ = any(report.repaired or report.suspected or report.failed for _, report in reports)
        raise typer.Exit(ATTENTION if differ else OK)


def _look(host: str | None, *, dry_run: bool, wait: bool) -> "list[tuple[str, Report]]":
    from stoppress.reconcile.sites import LOOKS_APART, reconcile as compare
    from stoppress_cli.stack.rebuild import chosen_sites

    chosen = chosen_sites(host)
    reports = [(site.host, compare(site, datetime.now(UTC), dry_run=dry_run, anew=True)) for site in chosen]
    if not wait or dry_run or not any(report.suspected for _, report in reports):
        return reports
    time.sleep(LOOKS_APART.total_seconds() + 1)
    # The second look repairs what the first one suspected, or no longer sees it.
    again = [(site.host, compare(site, datetime.now(UTC))) for site in chosen]
    return [(host, replace(report, suspected=())) for host, report in reports if report.repaired] + again


def _row(host: str, report: "Report") -> dict[str, object]:
    return {
        "site": host,
        "repaired": [asdict(finding) for finding in report.repaired],
        "suspected": [asdict(finding) for finding in report.suspected],
        "failed": [str(error) for error in report.failed],
    }


def _print(reports: "list[tuple[str, Report]]", *, dry_run: bool) -> None:
    for host, report in reports:
        rows = [("repaired", finding) for finding in report.repaired]
        rows += [("seen once", finding) for finding in report.suspected]
        for state, finding in rows:
            unit = finding.unit.lstrip("*")
            console.print(f"{host}  {state}  {finding.kind}  {finding.name} ({unit}): {finding.reason}")
        for error in report.failed:
            console.print(f"{host}  cannot be compared: {error!r}")
    suspected = sum(len(report.suspected) for _, report in reports)
    console.print(f"{sum(len(report.repaired) for _, report in reports)} repaired, {suspected} seen once")
    if suspected:
        console.print(_ADVICE_DRY if dry_run else _ADVICE)
