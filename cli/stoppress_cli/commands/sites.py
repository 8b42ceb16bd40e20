import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stoppress_cli.commands.access import open_sites, open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import (
    HERE,
    LOCAL,
    READS,
    WRITES,
    Commands,
    DryRun,
    Endpoint,
    Json,
    Stack,
    Template,
    Yes,
)
from stoppress_cli.printing import confirmed, console, counted, errors, print_json, printer, text_console

if TYPE_CHECKING:
    from stoppress_cli.inputs.site_file import SiteFile

Host = Annotated[str, typer.Argument(metavar="HOST", help="Host of the site.")]
File = Annotated[
    str, typer.Argument(metavar="FILE", help="JSON document of one site, with all its feeds; - for stdin.")
]

sites = Commands(help="Sites and their configurations: list, show, check, change, remove.")


@sites.command("list", effect=READS, example="stoppress sites list --stack stoppress")
def list_sites(
    stack: Stack = None, local: Endpoint = LOCAL, as_json: Json = False, template: Template = None,
) -> None:  # fmt: skip
    """List the sites, and whether each configuration is applied to the files.

    Exit code 0: all are applied; 1: one is not yet applied, or a site is without its parameter; 2: the stack cannot be reached,
    or a site's parameter cannot be used.
    """
    with open_sites(None, stack, local, template):
        from stoppress_cli.stack.sites import APPLIED, listing

        rows = listing()
        if as_json:
            print_json([{name: getattr(row, name) for name in row.__slots__} for row in rows])
        else:
            table = Table("host", "state", "version", "feeds", "sources", box=None, padding=(0, 2, 0, 0))
            for row in rows:
                numbers = ("" if number is None else str(number) for number in (row.version, row.feeds))
                table.add_row(row.host, row.state, *numbers, ", ".join(row.sources or ()))
            text_console().print(table, soft_wrap=False)
        raise typer.Exit(OK if all(row.state == APPLIED for row in rows) else ATTENTION)


@sites.command("show", effect=READS, example="stoppress sites show www.example.com --stack stoppress")
def show(
    host: Host,
    full: Annotated[bool, typer.Option("--full", help="Add each setting that is not given, with its default.")] = False,
    stack: Stack = None, local: Endpoint = LOCAL, as_json: Json = False, template: Template = None,
) -> None:  # fmt: skip
    """Print a site's configuration with all its feeds, as `put` takes it; with --json also its version and state.

    Exit code 0: printed; 2: there is no such site, its parameter cannot be used, or the stack cannot be reached. A parameter that
    cannot be used is printed as it is.
    """
    with open_stack(stack, local, template):
        from stoppress.model.site import BadConfiguration
        from stoppress_cli.stack.sites import report, stored

        try:
            known = report(host)
        except BadConfiguration:
            for parameter in stored(host).values():
                console.print(parameter.value)
            raise
        everything = known.pop("full")
        if full:
            known["configuration"] = everything
        print_json(known if as_json else known["configuration"])


@sites.command("check", effect=READS, example="stoppress sites check site.json --stack stoppress")
def check(file: File, stack: Stack = None, as_json: Json = False, template: Template = None) -> None:
    """Check a site's document as the functions read it. With --stack, also look for the secrets of its sources.

    Exit code 0: the document can be put; 1: it has errors, or a secret does not exist; 2: there is no such file, or the stack cannot be
    reached.
    """
    from stoppress.model.site import BadConfiguration

    faults, missing = [], []
    try:
        read = _read(file)
    except BadConfiguration as error:
        faults = str(error).splitlines()
    else:
        if stack is not None:
            with open_stack(stack, LOCAL, template):
                from stoppress_cli.stack.secrets import missing as missing_secrets

                missing = missing_secrets(read.site)
    if as_json:
        secrets = [{"source": source, "secret": secret} for source, secret in missing]
        print_json({"errors": faults, "missing_secrets": secrets})
    else:
        for fault in faults:
            console.print(fault)
        for source, secret in missing:
            console.print(f"sources.{source}: there is no secret {secret}: `stoppress secrets put` makes it")
        if not faults and not missing:
            console.print(f"{read.site.host}: {counted(len(read.site.feeds), 'feed')}, no errors")
    raise typer.Exit(ATTENTION if faults or missing else OK)


@sites.command("put", effect=WRITES, example="stoppress sites put site.json --stack stoppress")
def put(
    file: File,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Add a site or change its configuration. The command shows what would change in the files, then asks.

    The document replaces the whole configuration: feeds that it does not name are no longer polled. Exit code 0: done, or nothing
    to do; 1: you said no; 2: the document has errors, somebody else changed the site meanwhile, or the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress.model.limits import FileTooLarge
        from stoppress.rewrite.render import BrokenFile
        from stoppress_cli.stack import sites as stored
        from stoppress_cli.stack.find import BadRequest

        show = printer(as_json=as_json)
        change = stored.change(_read(file))
        report = {"site": change.host, "is_new": change.is_new, "version": change.version, "effects": [], "done": False}
        if not change.puts and not change.surplus:
            show(f"{change.host} has this configuration already, version {change.version}")
            if as_json:
                print_json(report)
            raise typer.Exit(OK)
        show(
            f"{change.host} is a new site"
            if change.is_new
            else f"{change.host} has version {change.version}; with the file:"
        )
        try:
            effects = list(stored.effects(change, datetime.now(UTC)))
        except (BrokenFile, FileTooLarge) as error:
            raise BadRequest(
                f"a file of {change.host} could not be written with this configuration: {error}"
            ) from error
        for line in effects:
            show(line)
        if file == "-" and not (dry_run or yes or sys.stdin.isatty()):
            raise BadRequest("the document came from standard input, which cannot answer the question: give --yes")
        is_agreed = not dry_run and confirmed(f"Put the configuration of {change.host}?", yes=yes, as_json=as_json)
        version = change.version
        if is_agreed:
            version = stored.put(change)
            show(f"{change.host} has version {version}; the files follow within a minute or two")
        if as_json:
            print_json(report | {"version": version, "effects": [line.strip() for line in effects], "done": is_agreed})
        raise typer.Exit(OK if dry_run or is_agreed else ATTENTION)


@sites.command("remove", effect=WRITES, example="stoppress sites remove www.example.com --stack stoppress")
def remove(
    host: Host,
    delete_files: Annotated[
        bool, typer.Option("--delete-files", help="Delete everything in the site's folder of the bucket.")
    ] = False,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """End a site: delete its configuration and retire it. Its files stay as they are, unless you say --delete-files.

    The command takes two and a half minutes, because functions cache the configuration. Exit code 0: done; 1: you said no; 2: there
    is no such site, or the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress_cli.stack import sites as stored

        show = printer(as_json=as_json)
        removal = stored.removal(host, delete_files=delete_files)
        for name in removal.parameters:
            show(f"{name}: is deleted")
        for name in removal.files:
            show(f"{removal.folder}{name}: {'is deleted' if delete_files else 'stays, and nothing changes it'}")
        is_agreed = not dry_run and confirmed(f"Remove {host}?", yes=yes, as_json=as_json)
        if is_agreed:
            stored.remove(removal, lambda: datetime.now(UTC), delete_files=delete_files, show=show)
            show(f"{host} is removed")
            if removal.files and not delete_files:
                show(f"Delete its files when nobody fetches them: aws s3 rm --recursive {removal.folder}")
            for name in removal.secrets:
                show(f"Its secret stays: aws secretsmanager delete-secret --secret-id {name}")
        if as_json:
            print_json(
                {
                    "site": host,
                    "parameters": removal.parameters,
                    "files": removal.files,
                    "deletes_files": delete_files,
                    "secrets": removal.secrets,
                    "done": is_agreed,
                }
            )
        raise typer.Exit(OK if dry_run or is_agreed else ATTENTION)


@sites.command("schema", effect=HERE, example="stoppress sites schema > site.schema.json")
def schema() -> None:
    """Print the JSON Schema of a site's document, for editors of JSON.

    Exit code 0.
    """
    from stoppress_cli.inputs.site_file import schema as made

    print_json(made())


def _read(file: str) -> "SiteFile":
    """The document. Raises BadConfiguration; exits with FAILED if there is no such file."""
    from stoppress_cli.inputs.site_file import read

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        errors.print(f"stoppress: {file}: {error}")
        raise typer.Exit(FAILED) from None
    return read(text)
