"""`stoppress status`: reports the health of a stack, as text."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from rich.text import Text

from stoppress.primitives.instants import local_time
from stoppress.show.read_site import read_stack
from stoppress.show.stack_status import Access, StackStatus, stack_status
from stoppress.show.timeline import DELAYS
from stoppress_cli.connect import DEPLOYED_COMMIT, print_unreadable
from stoppress_cli.options import READS, Commands, HostArgument
from stoppress_cli.output import Part, Row, Table, age, ago, counted, end, fields_of, state, verbatim

app = Commands()

# How many files of a site are shown.
FILES_SHOWN = 10
# The signs of a sparkline, from zero to the greatest number.
SPARKS = "▁▂▃▄▅▆▇█"


@app.command(effect=READS, example="stoppress status --stack stoppress")
def status(
    access: Access,
    host: HostArgument = None,
) -> None:
    """Report the stack's health, with a command for each problem.

    Exit code 1: there are problems.
    """
    now = datetime.now(UTC)
    facts = read_stack(host, now, access.stack)
    print_unreadable(facts.unreadable)
    answer = replace(stack_status(facts, now, access), commit=os.environ.get(DEPLOYED_COMMIT))
    verdict, lines = answer.verdict, as_lines(answer, in_detail=host is not None)
    end(answer, lines, is_ok=verdict == "healthy", is_known=verdict != "unknown")


def as_lines(answer: StackStatus, *, in_detail: bool) -> Iterator[Part]:
    """Yield the answer for people: the verdict, the problems with their commands, the sites, the stack."""
    now = answer.at
    zones = {site["host"]: ZoneInfo(site["timezone"]) for site in answer.sites}
    # Times of the whole stack are in the zone of its sites, if they have one.
    stack_zone = next(iter(zones.values())) if len(set(zones.values())) == 1 else ZoneInfo("UTC")
    problems = Text(counted(len(answer.problems), "problem"), "red")
    unread = Text("no problem is known, but not everything could be read", "yellow")
    yield {"healthy": state("healthy"), "attention": problems, "unknown": unread}[answer.verdict]
    for problem in answer.problems:
        yield ""
        yield f"{problem.site}: {problem.what}" if problem.site else problem.what
        if problem.since:
            yield f"  since {ago(problem.since, now, zones.get(problem.site or '', stack_zone))}"
        yield verbatim(f"  {problem.mend}")
    for unknown in answer.unknown:
        yield ""
        yield f"unknown: {unknown.what}: {unknown.reason}"
    yield ""
    yield from _overview(answer)
    if in_detail:
        yield from (part for site in answer.sites for part in _details(site, now, zones[site["host"]]))
    yield ""
    yield from _stack(answer, stack_zone)


def _overview(answer: StackStatus) -> Iterator[Part]:
    rows: list[Row] = []
    medians: list[Row] = []
    for site in answer.sites:
        host, window, feeds, newest = site["host"], site["window"], site["feeds"], site["newest_file"]
        healthy = sum(feed["condition"] == "healthy" for feed in feeds)
        file = f"{age(newest, answer.at)} ago" if newest else "no file yet"
        of_feeds = f"{healthy} of {len(feeds):,}" if feeds else ""
        rows.append((host, window["stories"], draw_numbers(window["published_by_hour"]), file, of_feeds))
        if (delays := site["delays"]) and delays["pages"]:
            medians.append((host, delays["pages"], *(_period(delays[name]) for name in DELAYS)))
    yield Table(("site", "news", "last 24 hours", "newest file", "healthy feeds"), rows)
    if medians:
        yield ""
        yield Table(("medians of 24 hours", "pages", "received", "listed", "page ready", "notified"), medians)


def draw_numbers(by_hour: Sequence[int]) -> str:
    """Return numbers as a sparkline with a sign for each two hours. Zero, and no other number, is the lowest sign."""
    numbers = [sum(pair) for pair in zip(by_hour[::2], by_hour[1::2], strict=True)]
    return "".join(SPARKS[ceil(number * (len(SPARKS) - 1) / max(*numbers, 1))] for number in numbers)


def _period(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _details(site: Mapping[str, Any], now: datetime, zone: ZoneInfo) -> Iterator[Part]:
    window, quarantine, last = site["window"], site["quarantine"], site["last_event"]
    fields: dict[str, str] = {}
    if window["stories"]:
        fields["news of"] = f"{local_time(window['oldest'], zone)} to {local_time(window['newest'], zone)}"
        fields["next to leave"] = f"{window['next_to_leave']} at {local_time(window['leaves_at'], zone)}"
    fields["last event"] = ago(last, now, zone) if last else ""
    fields["quarantine"] = counted(quarantine.events, "event") + (" or more" if quarantine.more else "")
    yield ""
    yield fields_of(fields, indent=0)
    sources = [row for source in site["sources"] for row in _source(source, now, zone)]
    feeds: list[Row] = []
    for feed in site["feeds"]:
        feeds += [(feed["url"], state(feed["condition"])), Text(f"last success {ago(feed['last_success'], now, zone)}")]
    newest = sorted(site["files"], key=itemgetter("changed"), reverse=True)
    files = [
        (file["name"], file["entries"], file["size_bytes"], local_time(file["changed"], zone))
        for file in newest[:FILES_SHOWN]
    ]
    sitemaps: list[Row] = []
    for sitemap in site["sitemaps"]:
        read = local_time(sitemap["read"], zone) if sitemap["read"] else "not yet"
        wait = _period(sitemap["wait_s"]) if sitemap["wait_s"] is not None else None
        sitemaps.append((sitemap["name"], read, wait, sitemap["urls"], sitemap["errors"], sitemap["warnings"]))
    for headings, rows in (
        (("source", "adapter", "secret", "refused or ignored today", "wrong signatures"), sources),
        (("feed", "condition"), feeds),
        (("in Search Console", "read by Google", "median wait", "URLs", "errors", "warnings"), sitemaps),
        (("file", "entries", "bytes", "changed"), files),
    ):
        if rows:
            yield ""
            yield Table(headings, rows)
    if len(newest) > FILES_SHOWN:
        yield f"and {counted(len(newest) - FILES_SHOWN, 'older file')}"
    if site["robots_lines"]:
        yield ""
        yield "the site's robots.txt needs these lines:"
        yield from map(verbatim, site["robots_lines"])


def _source(source: Mapping[str, Any], now: datetime, zone: ZoneInfo) -> Iterator[Row]:
    unverified = f"at least {source['unverified_today']:,}" if source["unverified_today"] else "0"
    yield source["name"], source["adapter"], state(source["secret"]), source["refused_today"], unverified
    if source["audited"]:
        listed, missed = counted(source["listed"], "article"), counted(source["missed"], "webhook")
        yield Text(f"audited {ago(source['audited'], now, zone)}: {listed} listed, {missed} missed in 24 hours")


def _stack(answer: StackStatus, zone: ZoneInfo) -> Iterator[Part]:
    messages = {(queue.name, queue.dead): queue.messages for queue in answer.queues}
    names = dict.fromkeys(queue.name for queue in answer.queues)
    rows = [(name, messages.get((name, False)), messages.get((name, True))) for name in names]
    yield Table(("queue", "messages", "dead letters"), rows)
    yield ""
    rolled = ago(answer.rolled_at, answer.at, zone)
    reconciled = ago(answer.reconciled_at, answer.at, zone) if answer.reconciled_at else None
    fields = {"roll_window ran": rolled, "reconcile_sites ran": reconciled, "deployed commit": answer.commit}
    yield fields_of(fields, indent=0)
