from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.commands.access import open_sites
from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import (
    LOCAL,
    READS,
    WRITES,
    Commands,
    DryRun,
    Endpoint,
    Json,
    Site,
    Stack,
    Template,
    Yes,
)
from stoppress_cli.printing import confirmed, console, errors, print_json, printer

if TYPE_CHECKING:
    from stoppress_cli.stack.quarantine import Kept

_Reason = Annotated[
    str, typer.Option("--reason", help="Only events with this text in their reason.", show_default=False)
]
_Ids = Annotated[
    list[str] | None, typer.Argument(help="Ids as `list` prints them, or their beginnings.", show_default=False)
]
_All = Annotated[bool, typer.Option("--all", help="All events.")]

quarantine = Commands(help="Events that could not be applied: show them, send them again, drop them.")


@quarantine.command("list", effect=READS, example="stoppress quarantine list --stack stoppress")
def list_items(
    site: Site = None, reason: _Reason = "", stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """List the events in quarantine, oldest first, and count the reasons.

    Exit code 0: quarantine is empty; 1: it is not; 2: the stack cannot be reached, or a site's parameter cannot be used.
    """
    with open_sites(site, stack, local, template):
        from stoppress_cli.stack import quarantine as store

        kept = store.kept(site, reason)
        if as_json:
            print_json([store.as_json(item) for item in kept])
        elif not kept:
            console.print("nothing is in quarantine")
        else:
            for item in kept:
                console.print(_line(item))
            console.print()
            for (host, why), number in Counter((item.site, item.reason) for item in kept).most_common():
                console.print(f"{number:>7,}  {host}  {why}")
        raise typer.Exit(ATTENTION if kept else OK)


@quarantine.command("show", effect=READS, example="stoppress quarantine show 01J9 --stack stoppress")
def show(
    ids: _Ids = None, site: Site = None, stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show events with their whole content, and whether each can be applied now.

    Exit code 0: shown; 2: there is no such event, the stack cannot be reached, or a site's parameter cannot be used.
    """
    _require_choice(ids, every=False)
    with open_sites(site, stack, local, template):
        from stoppress_cli.stack import quarantine as store

        now = datetime.now(UTC)
        items = [(item, store.hindrance(item, now)) for item in store.kept(site, "", ids or ())]
        if as_json:
            print_json([{**store.as_json(item, whole=True), "hindrance": why} for item, why in items])
            raise typer.Exit(OK)
        for item, why in items:
            console.print(_line(item))
            console.print(f"  {why or 'it can be applied now: stoppress quarantine retry'}")
            console.print(item.event)


@quarantine.command("retry", effect=WRITES, example="stoppress quarantine retry --all --stack stoppress")
def retry(
    ids: _Ids = None, every: _All = False, site: Site = None, reason: _Reason = "", stack: Stack = None,
    local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Send events back to the articles queue, if they can be applied now. The others stay; for each, say what it needs.

    Exit code 0: all were sent; 1: some stay; 2: there is no such event, the stack cannot be reached, or a site's parameter
    cannot be used.
    """
    _require_choice(ids, every=every)
    with open_sites(site, stack, local, template):
        from stoppress_cli.stack import quarantine as store

        items = store.retry(store.kept(site, reason, ids or ()), datetime.now(UTC), dry_run=dry_run)
        stay = sum(bool(why) for _, why in items)
        if as_json:
            events = [{**store.as_json(item), "hindrance": why} for item, why in items]
            print_json({"events": events, "done": not dry_run})
            raise typer.Exit(ATTENTION if stay else OK)
        for item, why in items:
            console.print(f"{item.id}  {why or ('would be sent' if dry_run else 'sent')}")
        console.print(f"{len(items) - stay} {'would be ' if dry_run else ''}sent to the articles queue, {stay} stay")
        raise typer.Exit(ATTENTION if stay else OK)


@quarantine.command("drop", effect=WRITES, example="stoppress quarantine drop 01J9 --stack stoppress")
def drop(
    ids: _Ids = None, every: _All = False, site: Site = None, reason: _Reason = "", stack: Stack = None,
    local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Delete events from quarantine for good.

    Exit code 0: the events are deleted; 1: you said no; 2: there is no such event, the stack cannot be reached, or a site's parameter
    cannot be used.
    """
    _require_choice(ids, every=every)
    with open_sites(site, stack, local, template):
        from stoppress_cli.stack import quarantine as store

        kept = store.kept(site, reason, ids or ())
        show = printer(as_json=as_json)
        for item in kept:
            show(_line(item))
        is_for_show = dry_run or not kept
        if is_for_show:
            show(f"{len(kept)} would be dropped")
        is_agreed = not is_for_show and confirmed(f"Drop these {len(kept)} for good?", yes=yes, as_json=as_json)
        if is_agreed:
            store.drop(kept)
            show(f"{len(kept)} dropped")
        if as_json:
            print_json({"events": [store.as_json(item) for item in kept], "done": is_agreed})
        raise typer.Exit(OK if is_for_show or is_agreed else ATTENTION)


def _line(item: "Kept") -> str:
    return f"{item.id}  {item.at:%Y-%m-%d %H:%M:%S}  {item.site}  {item.kind}  {item.reason}"


def _require_choice(ids: Sequence[str] | None, *, every: bool) -> None:
    if bool(ids) == every:
        errors.print("stoppress: give ids, as `stoppress quarantine list` has them, or --all")
        raise typer.Exit(FAILED)
