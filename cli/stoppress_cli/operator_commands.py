"""What the operator's commands print, and their exit codes."""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import typer

from stoppress.aws import sites
from stoppress.reconcile import sites as reconciling
from stoppress.reconcile.findings import Report
from stoppress_cli.commands import DIFFERENT, UNREADABLE, WELL, asked, console, errors, over_sites
from stoppress_cli.stack import (
    forget as forgetting,
    quarantine,
    rebuild as rebuilding,
    redrive as redriving,
    restore as restoring,
    retire as retiring,
)
from stoppress_cli.stack.quarantine import Kept
from stoppress_cli.wording import counted

T = TypeVar("T")

# What no command can reach, and until when it is there.
OUT_OF_REACH = (
    "Not within reach: point-in-time recovery keeps what the table was for 35 days, the logs URLs for as long as"
    " LogRetentionDays says (30 days), CDNs and browsers the old files for five minutes. The CMS and its feed"
    " must not tell of it anew, and earlier URLs of the article are to be named themselves."
)


@dataclass(frozen=True)
class Target:
    """The stack that is meant: a deployed one by its name, or what is served at an endpoint."""

    stack: str | None
    endpoint: str
    template: Path | None

    def asked(self, question: Callable[[], T]) -> T | None:
        """What it answers; None, and the reason printed, where it cannot be asked."""
        return asked(question, self.stack, self.endpoint, self.template)

    def over_sites(self, host: str | None, command: Callable[[], int]) -> int:
        """Runs a command over one site, or over all. Returns the exit code, UNREADABLE where a parameter cannot be used."""
        return over_sites(host, command, self.stack, self.endpoint, self.template)


def _say(text: str) -> None:
    console.print(text, markup=False)


def _print_json(said: object) -> None:
    console.print(json.dumps(said, indent=2, ensure_ascii=False), markup=False)


# ── quarantine ──


def list_quarantine(target: Target, site: str | None, reason: str, *, as_json: bool) -> int:
    """Prints what is there. Returns the exit code."""
    kept = target.asked(lambda: quarantine.kept(site, reason))
    if kept is None:
        return UNREADABLE
    if as_json:
        _print_json([quarantine.as_json(one) for one in kept])
        return DIFFERENT if kept else WELL
    for one in kept:
        _say(_line(one))
    if not kept:
        _say("nothing is in quarantine")
        return WELL
    _say("")
    for (where, why), number in Counter((one.site, one.reason) for one in kept).most_common():
        _say(f"{number:>7,}  {where}  {why}")
    return DIFFERENT


def _line(one: Kept) -> str:
    return f"{one.id}  {one.at:%Y-%m-%d %H:%M:%S}  {one.site}  {one.kind}  {one.reason}"


def show_quarantine(target: Target, site: str | None, ids: Sequence[str], *, as_json: bool) -> int:
    """Prints items whole. Returns the exit code."""
    if not _chosen(ids, every=False):
        return UNREADABLE
    now = datetime.now(UTC)
    kept = target.asked(lambda: [(one, quarantine.hindrance(one, now)) for one in quarantine.kept(site, "", ids)])
    if kept is None:
        return UNREADABLE
    if as_json:
        _print_json([{**quarantine.as_json(one, whole=True), "hindrance": why} for one, why in kept])
        return WELL
    for one, why in kept:
        _say(_line(one))
        _say(f"  {why or 'it would be understood now: stoppress quarantine retry'}")
        _say(one.event)
    return WELL


def _chosen(ids: Sequence[str], *, every: bool) -> bool:
    if bool(ids) == every:
        errors.print("stoppress: give ids, as `stoppress quarantine list` has them, or --all", markup=False)
        return False
    return True


def retry_quarantine(
    target: Target, site: str | None, reason: str, ids: Sequence[str], *, every: bool, dry_run: bool
) -> int:
    """Sends again what can be. Returns the exit code."""
    if not _chosen(ids, every=every):
        return UNREADABLE
    now = datetime.now(UTC)
    done = target.asked(lambda: quarantine.retry(quarantine.kept(site, reason, ids), now, dry_run=dry_run))
    if done is None:
        return UNREADABLE
    for one, why in done:
        _say(f"{one.id}  {why or ('would be sent' if dry_run else 'sent')}")
    stay = sum(bool(why) for _, why in done)
    _say(f"{len(done) - stay} {'would be ' if dry_run else ''}sent to the articles queue, {stay} stay")
    return DIFFERENT if stay else WELL


def drop_quarantine(
    target: Target, site: str | None, reason: str, ids: Sequence[str], *, every: bool, dry_run: bool, yes: bool
) -> int:
    """Takes items out. Returns the exit code."""
    if not _chosen(ids, every=every):
        return UNREADABLE
    kept = target.asked(lambda: quarantine.kept(site, reason, ids))
    if kept is None:
        return UNREADABLE
    for one in kept:
        _say(_line(one))
    if dry_run or not kept:
        _say(f"{len(kept)} would be dropped")
        return WELL
    if not yes and not typer.confirm(f"Drop these {len(kept)} for good?"):
        return DIFFERENT
    if target.asked(lambda: quarantine.drop(kept)) is None:
        return UNREADABLE
    _say(f"{len(kept)} dropped")
    return WELL


# ── queues and files ──

_MEANS = {
    "articles": "back to the articles queue",
    "rewrites": "back to the rewrites queue",
    "rebuild": "every file is named to the rewrites queue",
    "nowhere": "deleted, there is nothing to send",
    "": "it stays",
}


def redrive(target: Target, queue: redriving.Name | None, *, dry_run: bool, as_json: bool) -> int:
    """Shows dead letters and sends them back. Returns the exit code."""
    now = datetime.now(UTC)

    def say(dead: redriving.Dead) -> None:
        if not as_json:
            _say(f"{dead.queue}  {dead.sent_at:%Y-%m-%d %H:%M:%S}  {dead.what}")
            _say(f"  {dead.why}")
            _say(f"  {'would be: ' if dry_run else ''}{_MEANS[dead.goes]}")

    names = [queue] if queue else redriving.NAMES
    found = target.asked(
        lambda: [dead for name in names for dead in redriving.redrive(name, now, dry_run=dry_run, say=say)]
    )
    if found is None:
        return UNREADABLE
    if as_json:
        _print_json([{**asdict(dead), "sent_at": dead.sent_at.isoformat()} for dead in found])
    stay = [dead for dead in found if dry_run or not dead.goes]
    if not as_json:
        _say(f"{len(found) - len(stay)} dealt with, {len(stay)} {'there' if dry_run else 'stay'}")
    return DIFFERENT if stay else WELL


def rebuild(target: Target, site: str | None, file: str | None, *, dry_run: bool) -> int:
    """Names files to the rewrites queue. Returns the exit code."""
    works = target.asked(lambda: rebuilding.files(site, file))
    if works is None:
        return UNREADABLE
    for work in works:
        _say(f"{work.site}/{work.file}")
    if not dry_run and target.asked(lambda: rebuilding.rebuild(works)) is None:
        return UNREADABLE
    _say(f"{counted(len(works), 'file')} {'would be ' if dry_run else ''}named to the rewrites queue")
    return WELL


def reconcile(target: Target, site: str | None, *, dry_run: bool, as_json: bool, wait: bool) -> int:
    """Looks at sites, once or twice. Returns the exit code."""
    reports = target.asked(lambda: _look(site, dry_run=dry_run, wait=wait))
    if reports is None:
        return UNREADABLE
    found = any(report.repaired or report.suspected or report.failed for _, report in reports)
    if as_json:
        _print_json(
            [
                {
                    "site": host,
                    "repaired": [asdict(one) for one in report.repaired],
                    "suspected": [asdict(one) for one in report.suspected],
                    "failed": [str(error) for error in report.failed],
                }
                for host, report in reports
            ]
        )
        return DIFFERENT if found else WELL
    for host, report in reports:
        for word, findings in (("repaired", report.repaired), ("seen once", report.suspected)):
            for one in findings:
                _say(f"{host}  {word}  {one.kind}  {one.name} ({one.unit.lstrip('*')}): {one.reason}")
        for error in report.failed:
            _say(f"{host}  cannot be looked at: {error!r}")
    suspected = sum(len(report.suspected) for _, report in reports)
    _say(f"{sum(len(report.repaired) for _, report in reports)} repaired, {suspected} seen once")
    if suspected:
        _say(
            "What was seen once may only be on its way. What a second look sees too is repaired: run it again in two minutes,"
            " give --wait, or leave it to the night."
            if not dry_run
            else "What is being written at this moment may be among it."
        )
    return DIFFERENT if found else WELL


def _look(host: str | None, *, dry_run: bool, wait: bool) -> list[tuple[str, Report]]:
    chosen = rebuilding.chosen_sites(host)
    reports = [
        (site.host, reconciling.reconcile(site, datetime.now(UTC), dry_run=dry_run, anew=True)) for site in chosen
    ]
    if not wait or dry_run or not any(report.suspected for _, report in reports):
        return reports
    time.sleep(reconciling.LOOKS_APART.total_seconds() + 1)
    # What the first look suspected is what the second one has repaired, or was on its way.
    again = [(site.host, reconciling.reconcile(site, datetime.now(UTC))) for site in chosen]
    return [(host, replace(report, suspected=())) for host, report in reports if report.repaired] + again


def restore(target: Target, name: str, *, dry_run: bool, yes: bool) -> int:
    """Copies a table into the stack's. Returns the exit code."""
    found = target.asked(lambda: restoring.differences(name))
    if found is None:
        return UNREADABLE
    _say(
        f"{name} has {counted(found.there, 'item')}; the stack's table has {counted(found.extra, 'item')} that it has not"
    )
    if dry_run:
        return WELL
    if not yes and not typer.confirm("Make the stack's table what that one is?"):
        return DIFFERENT
    done = target.asked(lambda: restoring.restore(name))
    if done is None:
        return UNREADABLE
    _say(
        f"{counted(done.there, 'item')} copied, {done.extra:,} taken out; now start the functions and run stoppress rebuild"
    )
    return WELL


# ── forgetting ──


def forget(target: Target, what: str, site: str | None, *, dry_run: bool, yes: bool) -> int:
    """Removes and erases. Returns the exit code."""
    traces = target.asked(lambda: forgetting.gather(what, site))
    if traces is None:
        return UNREADABLE
    if not traces.anything:
        _say("nothing is known of it")
        return WELL
    if dry_run:
        for line in traces.lines():
            _say(line)
        _say(OUT_OF_REACH)
        return DIFFERENT
    if not yes and not typer.confirm(f"Forget {', '.join(traces.urls) or what} for good?"):
        return DIFFERENT
    left = target.asked(lambda: forgetting.forget(what, site, datetime.now(UTC), say=_say))
    if left is None:
        return UNREADABLE
    if left.anything:
        _say("left, run it again:")
        for line in left.lines():
            _say(line)
    _say(OUT_OF_REACH)
    return DIFFERENT if left.anything else WELL


# ── sites without a parameter ──


def list_gone(target: Target) -> int:
    """Prints the sites whose parameter is gone, and what to do. Returns the exit code."""
    gone = target.asked(lambda: {host: sites.parameter_name(host) for host in retiring.without_parameter()})
    if gone is None:
        return UNREADABLE
    for host, parameter in gone.items():
        _say(f"{host}  has no parameter. Put {parameter} again, or give the site up: stoppress retire {host}")
    if not gone:
        _say("every site has its parameter")
        return WELL
    _say("Until then their stories go on expiring, as they were last configured. Their webhooks are answered 404.")
    return DIFFERENT


def retire(target: Target, host: str, *, dry_run: bool, yes: bool) -> int:
    """Retires a site without a parameter. Returns the exit code."""
    files = target.asked(lambda: retiring.files_left(host))
    if files is None:
        return UNREADABLE
    for file in files:
        _say(file)
    _say(f"{len(files)} files of {host} stay in the bucket, and nothing changes them any more")
    if dry_run:
        return WELL
    if not yes and not typer.confirm(f"Retire {host}?"):
        return DIFFERENT
    if target.asked(lambda: retiring.retire(host, datetime.now(UTC))) is None:
        return UNREADABLE
    _say(f"{host} is retired")
    if files:
        folder = files[0].rpartition("/")[0]
        _say(f"Delete its files when nobody fetches them any more: aws s3 rm --recursive {folder}/")
    return WELL
