"""`stoppress reconcile`: compares table, index and bucket now, as reconcile_sites does each night."""

from collections.abc import Iterator, Sequence

from stoppress.reconcile.drift import Report
from stoppress.reconcile.look import Look
from stoppress.reconcile.sites import reconcile as compare
from stoppress_cli.commands.rebuild import chosen_sites
from stoppress_cli.options import WRITES, Commands, DryRun, SiteOption
from stoppress_cli.output import end, track

app = Commands()

_ADVICE = (
    "A difference that was seen once may be work in progress. A second comparison repairs it: run this again in two"
    " minutes; otherwise reconcile_sites does it at night."
)
_ADVICE_DRY = "A difference that was seen once may be a file that is being written at this moment."


@app.command(effect=WRITES, example="stoppress reconcile --site www.example.com --stack stoppress", is_over_sites=True)
def reconcile(site: SiteOption = None, dry_run: DryRun = False) -> None:
    """Compare the table with the bucket, as reconcile_sites does each night, and repair differences that an earlier run also found.

    Exit code 1: there are differences.
    """
    reports: list[tuple[str, Report]] = []
    for look in map(Look, chosen_sites(site)):
        units = track(sorted(look.units), f"files of {look.site.host}")
        reports.append((look.site.host, compare(look, units, dry_run=dry_run)))
    rows: list[dict[str, object]] = []
    for host, report in reports:
        failed = list(map(str, report.failed))
        rows.append({"site": host, "repaired": report.repaired, "suspected": report.suspected, "failed": failed})
    lines = _lines(reports, dry_run=dry_run)
    is_known = not any(report.failed for _, report in reports)
    end(rows, lines, is_ok=not any(report.repaired or report.suspected for _, report in reports), is_known=is_known)


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
