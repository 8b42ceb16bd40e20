"""`stoppress reconcile`: compares table, index and bucket now, as reconcile_sites does each night."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import typer

from stoppress.model.site import Site
from stoppress.reconcile.drift import Report
from stoppress.reconcile.look import Look
from stoppress.reconcile.sites import LOOKS_APART, reconcile as compare
from stoppress_cli.commands.rebuild import chosen_sites
from stoppress_cli.options import WRITES, Commands, DryRun, SiteOption
from stoppress_cli.output import end, track

app = Commands()

_ADVICE = (
    "A difference that was seen once may be work in progress. A second comparison repairs it: run this again in two"
    " minutes, or give --wait; otherwise reconcile_sites does it at night."
)
_ADVICE_DRY = "A difference that was seen once may be a file that is being written at this moment."


@app.command(effect=WRITES, example="stoppress reconcile --site www.example.com --stack stoppress", is_over_sites=True)
def reconcile(
    site: SiteOption = None,
    dry_run: DryRun = False,
    wait: Annotated[bool, typer.Option("--wait", help="Compare again after two minutes.")] = False,
) -> None:
    """Compare table, index and bucket, as reconcile_sites does each night, and repair differences.

    A difference is repaired when two comparisons, two minutes apart, both find it. Exit code 1: there are differences.
    """
    chosen = chosen_sites(site)
    reports = _compare(chosen, "units", dry_run=dry_run)
    if wait and not dry_run and any(report.suspected for _, report in reports):
        for _ in track(range(int(LOOKS_APART.total_seconds()) + 1), "seconds of two minutes between the comparisons"):
            time.sleep(1)
        # The second look repairs what the first one suspected, or no longer sees it.
        repaired = [(host, replace(report, suspected=[])) for host, report in reports if report.repaired]
        reports = repaired + _compare(chosen, "suspects")
    rows: list[dict[str, object]] = []
    for host, report in reports:
        failed = list(map(str, report.failed))
        rows.append({"site": host, "repaired": report.repaired, "suspected": report.suspected, "failed": failed})
    lines = _lines(reports, dry_run=dry_run)
    is_known = not any(report.failed for _, report in reports)
    end(rows, lines, is_ok=not any(report.repaired or report.suspected for _, report in reports), is_known=is_known)


def _compare(
    sites: Sequence[Site], units: Literal["units", "suspects"], *, dry_run: bool = False
) -> list[tuple[str, Report]]:
    looks = ((site.host, Look(site)) for site in sites)
    return [
        (host, compare(look, track(sorted(getattr(look, units)), f"files of {host}"), dry_run=dry_run))
        for host, look in looks
    ]


def _lines(reports: Sequence[tuple[str, Report]], *, dry_run: bool) -> Iterator[str]:
    for host, report in reports:
        rows = [("repaired", finding) for finding in report.repaired]
        rows += [("seen once", finding) for finding in report.suspected]
        for state, finding in rows:
            unit = finding.unit.lstrip("*")
            yield f"{host}  {state}  {finding.kind}  {finding.name} ({unit}): {finding.reason}"
        yield from (f"{host}  cannot be compared: {error!r}" for error in report.failed)
    suspected = sum(len(report.suspected) for _, report in reports)
    yield f"{sum(len(report.repaired) for _, report in reports)} repaired, {suspected} seen once"
    if suspected:
        yield _ADVICE_DRY if dry_run else _ADVICE
