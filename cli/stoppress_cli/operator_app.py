"""The operator's commands: `stoppress quarantine`, `redrive`, `rebuild`, `reconcile`, `restore`, `forget`, `retire`. What they need is imported when they run."""

from pathlib import Path
from typing import Annotated, Literal

import typer

_Site = Annotated[str | None, typer.Option("--site", help="Host of the site; else all.", show_default=False)]
_Stack = Annotated[
    str | None,
    typer.Option("--stack", help="Name of a deployed stack; else the one on this machine.", show_default=False),
]
_Endpoint = Annotated[str, typer.Option("--local", help="Where `stoppress up` or the demo serves.")]
_Template = Annotated[
    Path | None, typer.Option("--template", help="Another template.yaml than this checkout's.", show_default=False)
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_Reason = Annotated[
    str, typer.Option("--reason", help="Only those with this text in their reason.", show_default=False)
]
_Ids = Annotated[
    list[str] | None, typer.Argument(help="Ids as `list` has them, or how they begin.", show_default=False)
]
_Queue = Annotated[
    Literal["articles", "rewrites", "failures"] | None, typer.Argument(help="One queue; else all.", show_default=False)
]
_LOCAL = "http://127.0.0.1:8000"

quarantine = typer.Typer(help="What could not be applied: see it, send it again, drop it.", no_args_is_help=True)


@quarantine.command("list")
def list_quarantine(
    site: _Site = None, reason: _Reason = "", stack: _Stack = None, local: _Endpoint = _LOCAL,
    template: _Template = None, as_json: _Json = False,
) -> None:  # fmt: skip
    """List what is in quarantine, oldest first, and count the reasons.

    Exit code 0: nothing is there; 1: something is; 2: nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.operator_commands import Target, list_quarantine

    target = Target(stack, local, template)
    raise typer.Exit(target.over_sites(site, lambda: list_quarantine(target, site, reason, as_json=as_json)))


@quarantine.command("show")
def show_quarantine(
    ids: _Ids = None, site: _Site = None, stack: _Stack = None, local: _Endpoint = _LOCAL,
    template: _Template = None, as_json: _Json = False,
) -> None:  # fmt: skip
    """Show items whole, and whether they would be understood by now.

    Exit code 0: shown; 2: there is no such item, or nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.operator_commands import Target, show_quarantine

    target = Target(stack, local, template)
    raise typer.Exit(target.over_sites(site, lambda: show_quarantine(target, site, ids or [], as_json=as_json)))


@quarantine.command("retry")
def retry_quarantine(
    ids: _Ids = None, every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    site: _Site = None, reason: _Reason = "", stack: _Stack = None, local: _Endpoint = _LOCAL,
    template: _Template = None, dry_run: _DryRun = False,
) -> None:  # fmt: skip
    """Send events to the articles queue again: those that would be understood by now. The others stay, with what to do.

    Exit code 0: all were sent; 1: some stay; 2: there is no such item, or nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.operator_commands import Target, retry_quarantine

    target = Target(stack, local, template)
    raise typer.Exit(
        target.over_sites(site, lambda: retry_quarantine(target, site, reason, ids or [], every=every, dry_run=dry_run))
    )


@quarantine.command("drop")
def drop_quarantine(
    ids: _Ids = None, every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    site: _Site = None, reason: _Reason = "", stack: _Stack = None, local: _Endpoint = _LOCAL,
    template: _Template = None, dry_run: _DryRun = False, yes: _Yes = False,
) -> None:  # fmt: skip
    """Take items out for good.

    Exit code 0: they are gone; 1: you said no; 2: there is no such item, or nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.operator_commands import Target, drop_quarantine

    target = Target(stack, local, template)
    raise typer.Exit(
        target.over_sites(
            site, lambda: drop_quarantine(target, site, reason, ids or [], every=every, dry_run=dry_run, yes=yes)
        )
    )


def redrive(
    queue: _Queue = None, stack: _Stack = None, local: _Endpoint = _LOCAL, template: _Template = None,
    dry_run: _DryRun = False, as_json: _Json = False,
) -> None:  # fmt: skip
    """Show the dead letters with their reasons, and send back what would not fail again.

    Exit code 0: none is left; 1: some stay (or, dry, are there); 2: nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.operator_commands import Target, redrive

    target = Target(stack, local, template)
    raise typer.Exit(target.over_sites(None, lambda: redrive(target, queue, dry_run=dry_run, as_json=as_json)))


def rebuild(
    file: Annotated[str | None, typer.Argument(help="Name of a file; else all of a site.", show_default=False)] = None,
    site: _Site = None, stack: _Stack = None, local: _Endpoint = _LOCAL, template: _Template = None,
    dry_run: _DryRun = False,
) -> None:  # fmt: skip
    """Have files written again from the table, with their other forms. Equal bytes are not put again.

    Exit code 0: they are on the rewrites queue; 2: there is no such file or site, or nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.operator_commands import Target, rebuild

    target = Target(stack, local, template)
    raise typer.Exit(target.over_sites(site, lambda: rebuild(target, site, file, dry_run=dry_run)))


def reconcile(
    site: _Site = None, stack: _Stack = None, local: _Endpoint = _LOCAL, template: _Template = None,
    dry_run: _DryRun = False, as_json: _Json = False,
    wait: Annotated[bool, typer.Option("--wait", help="Take the second look too, two minutes later.")] = False,
) -> None:  # fmt: skip
    """Compare table, index and bucket, as each night does; repair what two looks, two minutes apart, have both seen.

    Exit code 0: nothing was found; 1: something was; 2: nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.operator_commands import Target, reconcile

    target = Target(stack, local, template)
    raise typer.Exit(
        target.over_sites(site, lambda: reconcile(target, site, dry_run=dry_run, as_json=as_json, wait=wait))
    )


def restore(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table that point-in-time recovery has made.")],
    stack: _Stack = None, local: _Endpoint = _LOCAL, template: _Template = None, dry_run: _DryRun = False, yes: _Yes = False,
) -> None:  # fmt: skip
    """Make the stack's table what another one is: every item is copied, what the other does not have is taken out.

    Stop the functions first and rebuild the files afterwards, as docs/how-to/operate.md says. Exit code 0: done; 1: you said no;
    2: nobody could be asked.
    """
    from stoppress_cli.operator_commands import Target, restore

    raise typer.Exit(restore(Target(stack, local, template), table, dry_run=dry_run, yes=yes))


def forget(
    target: Annotated[str, typer.Argument(metavar="URL|ID", help="The page, or the article's id in its source.")],
    site: _Site = None, stack: _Stack = None, local: _Endpoint = _LOCAL, template: _Template = None,
    dry_run: _DryRun = False, yes: _Yes = False,
) -> None:  # fmt: skip
    """Remove a page and erase what is known of it: table, quarantine, dead letters, older versions of its files.

    Exit code 0: nothing of it is left but a tombstone without content; 1: something is, run it again; 2: nobody could be asked.
    """
    from stoppress_cli.operator_commands import Target, forget

    raise typer.Exit(forget(Target(stack, local, template), target, site, dry_run=dry_run, yes=yes))


def retire(
    host: Annotated[str | None, typer.Argument(help="Site to retire; else list those without a parameter.", show_default=False)] = None,
    stack: _Stack = None, local: _Endpoint = _LOCAL, template: _Template = None, dry_run: _DryRun = False, yes: _Yes = False,
) -> None:  # fmt: skip
    """List the sites whose parameter is gone, or retire one of them: its stories do not expire any more, its files stay as they are.

    Exit code 0: every site has its parameter, or the site is retired; 1: a site has none, or you said no; 2: the site must not be
    retired, or nobody could be asked.
    """
    from stoppress_cli.operator_commands import Target, list_gone, retire

    target = Target(stack, local, template)
    raise typer.Exit(list_gone(target) if host is None else retire(target, host, dry_run=dry_run, yes=yes))


def add_to(app: typer.Typer) -> None:
    """Gives an app these commands."""
    app.add_typer(quarantine, name="quarantine")
    for command in (redrive, rebuild, reconcile, restore, forget, retire):
        app.command()(command)
