"""`stoppress check`: what is to be checked, lines or JSON out, the exit code."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from stoppress.check import checker
from stoppress.check.findings import Finding, Findings
from stoppress.check.rulebook import Severity
from stoppress_cli.checking.fetching import fetching
from stoppress_cli.checking.folders import Unreadable, collect
from stoppress_cli.printing import text_console
from stoppress_cli.wording import counted

CLEAN, FOUND, UNREADABLE = 0, 1, 2

_STYLES = {"error": "red", "warning": "yellow"}


def check(
    target: str, base_url: str | None, now: str | None, *, as_json: bool, each_max: int, errors_only: bool
) -> int:
    """Checks a folder, a file or a URL and prints what it found. Returns the exit code."""
    console, errors = text_console(), text_console(stderr=True)
    severities: frozenset[Severity] = frozenset({"error"} if errors_only else {"error", "warning"})
    findings = Findings(each_max, severities)
    notes: list[str] = []
    try:
        instant = _instant(now)
        if target.lower().startswith(("http://", "https://")):
            with fetching(findings, notes) as fetcher:
                source = fetcher.first(target, base_url)
                checked = checker.check([source], findings, instant, is_all=False, follow=fetcher.follow)
        else:
            collected = collect(Path(target), base_url)
            notes = collected.notes
            checked = checker.check(collected.sources, findings, instant, is_all=collected.is_all)
    except (Unreadable, OSError) as error:
        errors.print(f"stoppress: {error}")
        return UNREADABLE
    for note in notes:
        errors.print(f"stoppress: {note}")
    if as_json:
        sys.stdout.write(json.dumps(_report(findings), ensure_ascii=False, indent=2) + "\n")
    else:
        _print(console, findings, checked)
    return FOUND if findings else CLEAN


def _instant(now: str | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    try:
        given = datetime.fromisoformat(now.strip())
    except ValueError:
        raise Unreadable(f"--now {now!r} is no ISO 8601 instant such as 2026-11-20T08:00:00Z") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _report(findings: Findings) -> dict[str, object]:
    report: dict[str, object] = {"findings": [_row(found) for found in findings]}
    if findings.omitted:
        report["omitted"] = dict(findings.omitted)
    return report


def _row(found: Finding) -> dict[str, object]:
    return {
        "rule": found.rule.id,
        "name": found.rule.name,
        "severity": found.rule.severity,
        "file": found.file,
        "line": found.line,
        "message": found.message,
        "source": found.rule.source,
    }


def _print(console: Console, findings: Findings, checked: checker.Checked) -> None:
    for found in findings:
        where = f"{found.file}:{found.line}" if found.line else found.file
        console.print(f"{where}: ", end="")
        console.print(found.rule.severity, end="", style=_STYLES[found.rule.severity])
        console.print(f" {found.rule.id} {found.message}")
    counts = findings.counts()
    if counts:
        console.print()
    for rule, count in counts.items():
        console.print(f"{count:>7,}  {rule.id:<6} {rule.name:<24} {rule.text} ({rule.source})")
    if left := sum(findings.omitted.values()):
        console.print(f"{left:,} more of the same are not shown; --max shows more")
    total = sum(counts.values())
    looked_at = f"{counted(len(checked.files), 'file')}, {counted(checked.urls, 'URL')}"
    console.print(f"{looked_at}, {counted(total, 'finding') if total else 'no findings'}")
