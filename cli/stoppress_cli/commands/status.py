"""`stoppress status`: reports the health of a stack, as text."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Any

import typer

from stoppress.show.read_site import read_stack
from stoppress.show.stack_status import Access, StackStatus, stack_status
from stoppress.show.timeline import Delays
from stoppress_cli.connect import DEPLOYED_COMMIT, exit_on_error, print_unreadable
from stoppress_cli.options import LOCAL, READS, Commands
from stoppress_cli.output import ATTENTION, FAILED, OK, age, ago, at, console, counted, print_answer

app = Commands()

WATCH_S = 10
# How many files of a site are shown.
FILES_SHOWN = 10


@app.command(effect=READS, example="stoppress status --stack stoppress")
def status(
    access: Access,
    host: Annotated[str | None, typer.Argument(help="Host of a site; default: all sites.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help=f"Look again every {WATCH_S} seconds, until Ctrl-C.")] = False,
) -> None:
    """Report the stack's health: sites, feeds, files, queues and alarms, and for each problem the command that helps.

    Exit code 0: healthy; 1: there are problems; 2: the stack cannot be reached, or a part of it cannot be read.
    """
    code = _look(host, access)
    try:
        while watch:
            time.sleep(WATCH_S)
            if sys.stdout.isatty():
                console.clear()
            try:
                with exit_on_error(access.stack, access.endpoint or LOCAL):
                    code = _look(host, access)
            except typer.Exit as failed:  # AWS may answer the next time
                code = failed.exit_code
    except KeyboardInterrupt:
        console.print()
    raise typer.Exit(code)


def _look(host: str | None, access: Access) -> int:
    """Read and print the status once. Return the exit code."""
    now = datetime.now(UTC)
    facts = read_stack(host, now, access.stack)
    print_unreadable([(site.host, site.reason) for site in facts.unreadable])
    answer = replace(stack_status(facts, now, access), commit=os.environ.get(DEPLOYED_COMMIT))
    print_answer(answer, as_lines(answer, in_detail=host is not None))
    return {"healthy": OK, "attention": ATTENTION, "unknown": FAILED}[answer.verdict]


def as_lines(answer: StackStatus, *, in_detail: bool) -> Iterator[str]:
    """Yield the answer for people: the verdict, the problems with their commands, the sites, the stack."""
    now = answer.at
    problems = counted(len(answer.problems), "problem")
    unknown_text = "no problem is known, but not everything could be read"
    yield {"healthy": "healthy", "attention": problems, "unknown": unknown_text}[answer.verdict]
    for problem in answer.problems:
        yield ""
        yield f"{problem.site}: {problem.what}" if problem.site else problem.what
        if problem.since:
            yield f"  since {ago(problem.since, now)}"
        yield f"  {problem.mend}"
    for unknown in answer.unknown:
        yield ""
        yield f"unknown: {unknown.what}: {unknown.reason}"
    yield ""
    for site in answer.sites:
        yield f"{site['host']}  {_summary(site, now)}"
        if site["delays"] and site["delays"].pages:
            yield f"  {_delays(site['delays'])}"
        if in_detail:
            yield from (f"  {line}" for line in _details(site, now))
    yield ""
    yield from _stack(answer)


def _summary(site: Mapping[str, Any], now: datetime) -> str:
    window, feeds, quarantine = site["window"], site["feeds"], site["quarantine"]
    parts = [f"{window['stories']:,} in the news"]
    if window["leaves_at"]:
        parts.append(f"next leaves {at(window['leaves_at'])}")
    parts.append(f"newest file {age(site['newest_file'], now)} old" if site["newest_file"] else "no file yet")
    if site["last_event"]:
        parts.append(f"last event {age(site['last_event'], now)} ago")
    if feeds:
        well = sum(feed["condition"] == "healthy" for feed in feeds)
        parts.append(f"{well} of {counted(len(feeds), 'feed')} well")
    more = " or more" if quarantine.more else ""
    return ", ".join([*parts, f"{quarantine.events}{more} in quarantine"])


def _delays(delays: Delays) -> str:
    stops = (
        ("received", delays.received_s, "publication"),
        ("listed", delays.listed_s, "that"),
        ("page ready", delays.page_ready_s, "that"),
        ("engines notified", delays.notified_s, "that"),
    )
    parts = [f"{stop} {_period(seconds)} after {before}" for stop, seconds, before in stops if seconds is not None]
    return f"medians of {counted(delays.pages, 'page')} in 24 h: {', '.join(parts) or 'unknown'}"


def _period(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _details(site: Mapping[str, Any], now: datetime) -> Iterator[str]:
    if (window := site["window"])["stories"]:
        dates = f"{at(window['oldest'])} to {at(window['newest'])}"
        yield f"news of {dates}; the next to leave is {window['next_to_leave']}"
    for source in site["sources"]:
        today = f"{source['refused_today']:,} refused or ignored, {source['unverified_today']:,} wrong signatures"
        line = f"source {source['name']} ({source['adapter']}), secret {source['secret']}; today {today}"
        if source["audited"]:
            articles = counted(source["listed"], "article")
            line += f"; audited {ago(source['audited'], now)}: {articles} listed, {source['missed']:,} webhooks missed in 24 h"
        yield line
    for feed in site["feeds"]:
        yield f"feed {feed['url']}  {feed['condition']}, last success {ago(feed['last_success'], now)}"
    for sitemap in site["sitemaps"]:
        counts = ", ".join(counted(sitemap[f"{noun.lower()}s"], noun) for noun in ("URL", "error", "warning"))
        submitted = f"submitted {ago(sitemap['submitted'], now)}, not read yet"
        read = f"read by Google {ago(sitemap['read'], now)}: {counts}" if sitemap["read"] else submitted
        yield f"{sitemap['name']} in Search Console  {read}"
    newest = sorted(site["files"], key=itemgetter("changed"), reverse=True)
    for file in newest[:FILES_SHOWN]:
        size = f"{counted(file['entries'], 'entry', 'entries')}, {counted(file['size_bytes'], 'byte')}"
        yield f"{file['name']}  {size}, changed {ago(file['changed'], now)}"
    if len(newest) > FILES_SHOWN:
        yield f"and {counted(len(newest) - FILES_SHOWN, 'older file')}"


def _stack(answer: StackStatus) -> Iterator[str]:
    for name, dead in (("queues", False), ("dead letters", True)):
        numbers = [f"{queue.messages:,} in {queue.name}" for queue in answer.queues if queue.dead == dead]
        yield f"{name}: {', '.join(numbers) or 'unknown'}"
    yield f"roll_window ran: {ago(answer.rolled_at, answer.at)}"
    if answer.reconciled_at:
        yield f"reconcile_sites ran: {at(answer.reconciled_at)}"
    if answer.commit:
        yield f"deployed commit: {answer.commit}"
