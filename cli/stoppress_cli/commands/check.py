from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stoppress_cli.check.findings import Finding, Findings
from stoppress_cli.check.report import Format, Group, group_findings, print_report
from stoppress_cli.options import READS_URLS, Commands, Now
from stoppress_cli.output import ATTENTION, OK, counted, errors, fail

app = Commands()


@app.command(effect=READS_URLS, example="stoppress check https://www.example.com/robots.txt")
def check(
    target: Annotated[
        str, typer.Argument(help="Folder of sitemaps, one file, or URL of an index, sitemap or robots.txt.")
    ],
    base_url: Annotated[str | None, typer.Option(help="URL at which the folder is published.", metavar="URL")] = None,
    now: Now = None,
    each_max: Annotated[
        int,
        typer.Option("--max", help="Maximum number of findings per kind and file in JSON, CSV and HTML.", min=1),
    ] = 20,
    errors_only: Annotated[bool, typer.Option("--errors-only", help="Leave warnings out.")] = False,
    form: Annotated[Format, typer.Option("--format", help="Format of the report: text, json, csv or html.")] = "text",
) -> None:
    """Check any site's published sitemaps against the protocol and the documentation of search engines.

    Exit code 1: there are findings.
    """
    from stoppress_cli.check import checker
    from stoppress_cli.inputs.folder import Unreadable, collect
    from stoppress_cli.inputs.website import Fetcher

    findings = Findings(each_max, frozenset({"error"} if errors_only else {"error", "warning"}))
    try:
        instant = datetime.now(UTC) if now is None else datetime.fromisoformat(now)
    except ValueError:
        fail(f"--now: {now!r} is not an ISO 8601 instant such as 2026-11-20T08:00:00Z")
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    try:
        if target.lower().startswith(("http://", "https://")):
            fetcher = Fetcher(findings)
            source = fetcher.first(target, base_url)
            checked = checker.check([source], findings, instant, is_all=False, follow=fetcher.follow)
            notes = fetcher.notes
        else:
            collected = collect(Path(target), base_url)
            notes = collected.notes
            checked = checker.check(collected.sources, findings, instant, is_all=collected.is_all)
    except (Unreadable, OSError) as error:
        fail(error)
    for note in notes:
        errors.print(f"stoppress: {note}")
    rows = [_row(finding) for finding in findings]
    further = {"omitted": dict(findings.omitted), "unchecked": checked.unchecked}
    value = {"findings": rows, **{name: numbers for name, numbers in further.items() if numbers}}
    groups = [*group_findings(findings), *(Group("not checked", text) for text in checked.unchecked_texts)]
    summary = f"{_summary(findings)} in {counted(len(checked.files), 'file')}, {checked.checked_urls} checked"
    print_report(f"stoppress check {target}", groups, lambda: (summary, value, rows), form)
    raise typer.Exit(ATTENTION if rows else OK)


def _row(finding: Finding) -> dict[str, object]:
    rule, file, line, message = finding.rule, finding.file, finding.line, finding.message
    of_rule: dict[str, object] = {"rule": rule.id, "name": rule.name, "severity": rule.severity}
    return of_rule | {"file": file, "line": line, "message": message, "source": rule.source}


def _summary(findings: Findings) -> str:
    totals = {"error": 0, "warning": 0}
    for rule, count in findings.counts().items():
        totals[rule.severity] += count
    return ", ".join(counted(total, severity) for severity, total in totals.items() if total) or "no findings"
