import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Json, Stack, Template
from stoppress_cli.printing import counted, errors, print_json, text_console

if TYPE_CHECKING:
    from stoppress_cli.stack.import_ import Tally

# Seconds between two lines of progress.
_EACH_S = 5.0


def import_(
    source: Annotated[
        str,
        typer.Argument(
            help="A source of the site that has `list`; or URL or file of a sitemap, index or robots.txt; or a CSV or JSON Lines file."
        ),
    ],
    site: Annotated[str, typer.Option("--site", help="Host of the site.")],
    belongs_to: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Source of the site whose ids the CSV or JSON Lines file has; default: read each row as a page of a sitemap.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Upper limit of articles sent a second.", min=0.1)] = 50,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="File that records how far the import came; default: in the working directory, named after site and source.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False, as_json: Json = False,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
) -> None:  # fmt: skip
    """Import the archive of a site. After an interruption, run the same command again: it continues from its checkpoint.

    Exit code 0: every article was sent; 1: some were refused, the report has the reasons; 2: the stack or the source cannot be
    read, and the checkpoint stays.
    """
    with open_stack(stack, local, template):
        from stoppress.model.listed import ListingError
        from stoppress_cli.stack.import_ import checkpoint_of, listing_of, run, site_of

        target = site_of(site)
        listing = listing_of(source, target, belongs_to)
        kept = None if dry_run else checkpoint_of(checkpoint, target.host, source, belongs_to)
        if kept and kept.path.exists():
            errors.print(f"stoppress: continuing from the checkpoint {kept.path}")
        try:
            tally = run(listing, target, kept, rate=rate, show=_Progress())
        except ListingError as error:
            advice = f"; run the command again to continue from {kept.path}" if kept and kept.path.exists() else ""
            errors.print(f"stoppress: {error}{advice}")
            raise typer.Exit(FAILED) from None
        if as_json:
            print_json({"dry_run": dry_run, **tally.report()})
        else:
            _print(tally.report(), dry_run=dry_run)
        raise typer.Exit(ATTENTION if tally.refused else OK)


class _Progress:
    """Prints a line to standard error every few seconds: items, rate, and if the total is known the time left."""

    def __init__(self) -> None:
        self._began = self._shown = time.monotonic()
        self._before: int | None = None

    def __call__(self, tally: "Tally", total: int | None) -> None:
        now = time.monotonic()
        if self._before is None:
            self._began, self._before = now, tally.handled
        if now - self._shown < _EACH_S:
            return
        self._shown = now
        rate = (tally.handled - self._before) / max(now - self._began, 0.001)
        left = ""
        if total and rate and total > tally.handled:
            seconds = (total - tally.handled) / rate
            left = (
                f" of about {total:,}, {seconds / 60:,.0f} min left"
                if seconds >= 90
                else f" of about {total:,}, {seconds:.0f} s left"
            )
        errors.print(f"{tally.handled:,} items{left}, {rate:,.0f} a second")


def _print(report: dict[str, Any], *, dry_run: bool) -> None:
    console = text_console()
    for row in report["reasons"]:
        console.print(f"{row['kind']}  {counted(row['number'], 'time')}  {row['reason']}")
        for example in row["examples"]:
            console.print(f"    {example}")
    listed = "would be listed" if dry_run else "sent to the imports queue"
    console.print(f"{report['listed']:,} {listed}, {report['refused']:,} refused, {report['ignored']:,} ignored")
