"""`stoppress doctor`: checks from outside what a host serves to search engines.

With a stack, the checks also compare with the files in the bucket, the site's configuration and its webhooks.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Annotated
from urllib.parse import urlsplit

import typer

from stoppress.model.site import HOST
from stoppress.show.stack_status import Access
from stoppress_cli.check.report import EXAMPLES_MAX, Ending, Format, Group, print_report
from stoppress_cli.inputs.host_checks import Doctor
from stoppress_cli.inputs.served import Served, Server, load_known
from stoppress_cli.options import READS, Commands
from stoppress_cli.output import ATTENTION, OK, Check, counted, fail

app = Commands()


@app.command(effect=READS, example="stoppress doctor www.example.com --stack stoppress", may_lack_stack=True)
def doctor(
    access: Access | None,
    host: Annotated[str, typer.Argument(help="Host as readers see it, including `www.`.")],
    connect: Annotated[
        str | None, typer.Option(help="Server to connect to, instead of the host's own.", metavar="ADDRESS:PORT")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(help="URL of one of the site's webhooks; default: one in the stack.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="Format of the report: text, json, html, or csv, which lists the pages.")
    ] = "text",
) -> None:
    """Check a host's robots.txt, sitemaps, listed pages, certificate and webhook from the outside.

    Exit code 1: there are faults, or something could not be checked.
    """
    if not HOST.fullmatch(host):
        fail(f"{host!r} is not a host: give a name in small letters, such as www.example.com")
    server = _server(connect)
    facts = load_known(host) if access else None
    webhook = webhook or (facts.webhook if facts else None)
    doctor, checks = Doctor(Served(host, datetime.now(UTC), facts, server), webhook), list[Check]()
    print_report(f"stoppress doctor {host}", _group_checks(doctor, checks), partial(_end, doctor, checks), form)
    raise typer.Exit(ATTENTION if {"fault", "not checked"} & {check.outcome for check in checks} else OK)


def _server(connect: str | None) -> Server | None:
    if connect is None:
        return None
    with suppress(ValueError):
        parts = urlsplit(f"//{connect}")
        if parts.hostname and parts.port and parts.netloc == connect and "@" not in connect:
            return parts.hostname, parts.port
    return fail(f"--connect {connect!r}: give an address and a port, such as 127.0.0.1:8443")


def _group_checks(doctor: Doctor, checks: list[Check]) -> Iterator[Group]:
    """Run the checks, and append them. Join the results of one check that have the same outcome and fix."""
    kinds = groupby(doctor.checks(), key=lambda check: (check.check, check.outcome, check.fix))
    for (name, outcome, fix), results in kinds:
        checks += (group := list(results))
        if len(group) == 1:
            yield Group(outcome, f"{name}: {group[0].text}", fix=fix)
        else:
            yield Group(outcome, name, [check.text for check in group[:EXAMPLES_MAX]], len(group), fix)


def _end(doctor: Doctor, checks: list[Check]) -> Ending:
    totals = Counter(check.outcome for check in checks)
    kinds = [counted(totals[outcome], outcome) for outcome in ("fault", "hint") if totals[outcome]]
    rest = [f"{totals['not checked']:,} not checked"] if totals["not checked"] else []
    states = doctor.pages.states if "states" in vars(doctor.pages) else []
    summary = f"{', '.join(kinds + rest) or 'no faults'} in {counted(len(states), 'page')} and {counted(len(doctor.served.files), 'file')}"
    return summary, checks, [asdict(state) for state in states]
