"""`stoppress demo`: two days of a newsroom on a local stack."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress.primitives.instants import iso
from stoppress_cli.commands.play import open_player, print_failures, print_report
from stoppress_cli.options import HERE, Commands, Host, Log, Port, Template
from stoppress_cli.output import ATTENTION, OK, console

if TYPE_CHECKING:
    from stoppress_cli.local.stack import Stack
    from stoppress_cli.scenario.file import Line

app = Commands()

SCENARIO = Path(__file__).parents[1] / "demo.jsonl"
HOST = "www.example.com"

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# What happened to each article, by the last part of its URL.
_STORIES = {
    "flood-closes-the-harbour": "webhook, over 48 hours ago",
    "market-hall-reopens": "webhook; edited since",
    "concert-called-off": "webhook; unpublished since",
    "council-passes-the-budget": "event on the bus",
    "ferry-sails-again": "entry of the feed",
}


@app.command(effect=HERE, has_json=False, example="stoppress demo --once")
def demo(
    once: Annotated[
        bool, typer.Option("--once", help="Print the results and exit, instead of serving the stack.")
    ] = False,
    port: Port = 8000,
    host: Host = "127.0.0.1",
    log: Log = None,
    template: Template = None,
) -> None:
    """Publish, edit, unpublish and expire a few articles, show the result of each, then serve the stack.

    Exit code 1: the files are not as expected.
    """
    with open_player(SCENARIO, log, template, read_lines=_read_moved) as (player, lines):
        from stoppress_cli.local.server import Server

        # The port is bound first, so that a port in use is reported before the run.
        server = None if once else Server(player.stack, host, port)
        console.print("Playing two days of a newsroom on this machine, with a virtual clock …\n")
        began = time.perf_counter()
        player.play(lines)
        seconds = time.perf_counter() - began
        _print_table(player.stack)
        print_report(player, seconds)
        print_failures(player.failures)
        if server is not None:
            console.print(f"""
Serving until Ctrl-C. The page for editors:
  {" ".join(server.pages())}
All files, and buttons that move the clock:
  {server.url}

Send a signed webhook yourself (in another terminal), and look again:
  .venv/bin/stoppress send {HOST} cms --keep --local {server.url}""")
            server.serve()
    raise typer.Exit(ATTENTION if player.failures else OK)


def _read_moved(scenario: Path) -> "list[Line]":
    """Return the scenario's lines, with every instant moved so that the last one is now."""
    from stoppress_cli.scenario.file import parse

    text = scenario.read_text(encoding="utf-8")
    shift = datetime.now(UTC).replace(microsecond=0) - max(map(datetime.fromisoformat, _INSTANT.findall(text)))
    moved = _INSTANT.sub(lambda match: iso(datetime.fromisoformat(match[0]) + shift), text)
    return parse(moved.split("\n"), scenario)


def _print_table(stack: "Stack") -> None:
    from rich import box
    from rich.table import Table

    from stoppress_cli.scenario import listed_pages

    listed = listed_pages.listed(list(listed_pages.read(stack, HOST)))
    news = {url.rsplit("/", 1)[-1] for url in listed.news}
    shards = {url.rsplit("/", 1)[-1]: name for url, name in listed.found_in.items()}
    table = Table(box=box.SIMPLE_HEAD, title=f"The articles of {HOST}", title_justify="left", title_style="bold")
    for heading in ("Article", "What happened", "News sitemap", "Shard"):
        table.add_column(heading, no_wrap=True)
    for slug, happened in _STORIES.items():
        table.add_row(slug, happened, "yes" if slug in news else "no", shards.get(slug, "none"))
    console.print(table)
