from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.options import READS_URLS, Commands
from stoppress_cli.output import ATTENTION, OK, counted, errors, fail, print_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stoppress_cli.check.checker import Checked
    from stoppress_cli.check.findings import Finding, Findings

app = Commands()

_STYLES = {"error": "red", "warning": "yellow"}


@app.command(effect=READS_URLS, example="stoppress check https://www.example.com/robots.txt")
def check(
    target: Annotated[
        str, typer.Argument(help="Folder of sitemaps, one file, or the URL of an index, a sitemap or a robots.txt.")
    ],
    base_url: Annotated[
        str | None, typer.Option(help="URL of the folder in which the files are published.", metavar="URL")
    ] = None,
    now: Annotated[
        str | None, typer.Option(help="The instant to judge by, ISO 8601; default: this machine's clock.")
    ] = None,
    each_max: Annotated[int, typer.Option("--max", help="Findings shown of each kind in each file.", min=1)] = 20,
    errors_only: Annotated[bool, typer.Option("--errors-only", help="Leave warnings out.")] = False,
) -> None:
    """Check anybody's published sitemaps against the protocol and the documentation of the search engines.

    Exit code 0: no findings; 1: findings; 2: there is nothing to check.
    """
    from stoppress_cli.check import checker
    from stoppress_cli.check.findings import Findings
    from stoppress_cli.inputs.folder import Unreadable, collect
    from stoppress_cli.inputs.website import Fetcher

    findings = Findings(each_max, frozenset({"error"} if errors_only else {"error", "warning"}))
    try:
        instant = _instant(now)
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
    omitted = {"omitted": dict(findings.omitted)} if findings.omitted else {}
    print_answer({"findings": [_row(finding) for finding in findings], **omitted}, _lines(findings, checked))
    raise typer.Exit(ATTENTION if findings else OK)


def _instant(now: str | None) -> datetime:
    from stoppress_cli.inputs.folder import Unreadable

    if now is None:
        return datetime.now(UTC)
    try:
        instant = datetime.fromisoformat(now.strip())
    except ValueError:
        raise Unreadable(f"--now {now!r} is no ISO 8601 instant such as 2026-11-20T08:00:00Z") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _row(finding: "Finding") -> dict[str, object]:
    return {
        "rule": finding.rule.id,
        "name": finding.rule.name,
        "severity": finding.rule.severity,
        "file": finding.file,
        "line": finding.line,
        "message": finding.message,
        "source": finding.rule.source,
    }


def _lines(findings: "Findings", checked: "Checked") -> "Iterator[RenderableType]":
    from rich.text import Text

    for finding in findings:
        where = f"{finding.file}:{finding.line}" if finding.line else finding.file
        severity = (finding.rule.severity, _STYLES[finding.rule.severity])
        yield Text.assemble(f"{where}: ", severity, f" {finding.rule.id} {finding.message}")
    counts = findings.counts()
    if counts:
        yield ""
    for rule, count in counts.items():
        yield f"{count:>7,}  {rule.id:<6} {rule.name:<24} {rule.text} ({rule.source})"
    if left := sum(findings.omitted.values()):
        yield f"{left:,} more of the same are not shown; --max shows more"
    total = sum(counts.values())
    sizes = f"{counted(len(checked.files), 'file')}, {counted(checked.urls, 'URL')}"
    yield f"{sizes}, {counted(total, 'finding') if total else 'no findings'}"
