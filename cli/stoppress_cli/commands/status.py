import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.commands.access import open_stack, warn_of_unreadable
from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import LOCAL, Endpoint, Json, Stack, Template
from stoppress_cli.printing import console, print_json

if TYPE_CHECKING:
    from stoppress.show.site import StackStatus

WATCH_S = 10


def status(
    host: Annotated[str | None, typer.Argument(help="Host of a site; default: all sites.", show_default=False)] = None,
    stack: Stack = None,
    local: Endpoint = LOCAL,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help=f"Look again every {WATCH_S} seconds, until Ctrl-C.")] = False,
    template: Template = None,
) -> None:
    """Show whether all is well: sites, feeds, files, queues and alarms, and for each problem the command that helps.

    Exit code 0: all is well; 1: there are problems; 2: the stack cannot be reached, or a part of it cannot be read.
    """
    code = _look(host, stack, local, template, as_json=as_json)
    try:
        while watch:
            time.sleep(WATCH_S)
            if sys.stdout.isatty():
                console.clear()
            try:
                code = _look(host, stack, local, template, as_json=as_json)
            except typer.Exit as failed:  # AWS may answer the next time
                code = failed.exit_code
    except KeyboardInterrupt:
        console.print()
    raise typer.Exit(code)


def _look(host: str | None, stack: str | None, local: str, template: Path | None, *, as_json: bool) -> int:
    """Reads and prints the status once. Returns the exit code."""
    with open_stack(stack, local, template):
        from stoppress.show.read_site import read_stack
        from stoppress.show.site import Access, stack_status
        from stoppress_cli.stack.status import as_lines

        now = datetime.now(UTC)
        # The ARN of a stack ends with stack/<name>/<id>. The names of alarms and secrets contain <name>.
        name = stack.split("/")[1] if stack and "/" in stack else stack
        facts = read_stack(host, now, name)
        warn_of_unreadable([(site.parameter, site.reason) for site in facts.unreadable])
        answer = stack_status(facts, now, Access(name, None if local == LOCAL else local))
        if as_json:
            print_json(answer.report())
        else:
            for line in as_lines(answer, in_detail=host is not None):
                console.print(line)
        return _exit_code(answer)


def _exit_code(answer: "StackStatus") -> int:
    return {"well": OK, "attention": ATTENTION, "unknown": FAILED}[answer.verdict]
