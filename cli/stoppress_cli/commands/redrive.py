from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stoppress_cli.commands.access import open_sites
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Json, Stack, Template
from stoppress_cli.printing import console, print_json

if TYPE_CHECKING:
    from stoppress_cli.stack.redrive import Dead

_ACTIONS = {
    "articles": "back to the articles queue",
    "rewrites": "back to the rewrites queue",
    "rebuild": "every file is sent to the rewrites queue",
    "nowhere": "deleted, there is nothing to send",
    "": "it stays",
}


def redrive(
    queue: Annotated[
        Literal["articles", "rewrites", "failures"] | None,
        typer.Argument(help="One queue: articles, rewrites or failures; default: all.", show_default=False),
    ] = None,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Show the dead letters with their reasons, and send back those that would not fail again.

    Exit code 0: no dead letter is left; 1: some stay (with --dry-run: there are some); 2: the stack cannot be reached,
    or a site's parameter cannot be used.
    """
    with open_sites(None, stack, local, template):
        from stoppress_cli.stack import redrive as dead_letters

        def show(letter: "Dead") -> None:
            if not as_json:
                console.print(f"{letter.queue}  {letter.sent_at:%Y-%m-%d %H:%M:%S}  {letter.what}")
                console.print(f"  {letter.why}")
                console.print(f"  {'would be: ' if dry_run else ''}{_ACTIONS[letter.goes]}")

        now = datetime.now(UTC)
        letters = [
            letter
            for name in ([queue] if queue else dead_letters.NAMES)
            for letter in dead_letters.redrive(name, now, dry_run=dry_run, show=show)
        ]
        stay = sum(dry_run or not letter.goes for letter in letters)
        if as_json:
            print_json([{**asdict(letter), "sent_at": letter.sent_at.isoformat()} for letter in letters])
        else:
            console.print(f"{len(letters) - stay} dealt with, {stay} {'there' if dry_run else 'stay'}")
        raise typer.Exit(ATTENTION if stay else OK)
