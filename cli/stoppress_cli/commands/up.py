"""`stoppress up`: serves a local stack."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.commands.play import on_this_machine, open_log, print_failures, print_step
from stoppress_cli.options import HERE, Commands, Host, Log, Port, Template
from stoppress_cli.output import console

if TYPE_CHECKING:
    from stoppress_cli.local.stack import Stack

app = Commands()


@app.command(effect=HERE, example="stoppress up tests/scenarios/publish.jsonl")
def up(
    scenario: Annotated[Path | None, typer.Argument(help="Scenario to play first.", show_default=False)] = None,
    port: Port = 8000,
    host: Host = "127.0.0.1",
    log: Log = None,
    template: Template = None,
) -> None:
    """Serve the stack until Ctrl-C: files, webhook and AWS endpoint on one port.

    A scenario is played first, on its own clock; after that the clock is this machine's. Without a scenario the stack has
    the template's first site, with a new secret.
    """
    with on_this_machine():
        from stoppress_cli.local.server import Server
        from stoppress_cli.local.stack import Stack
        from stoppress_cli.local.template import find
        from stoppress_cli.scenario.file import read
        from stoppress_cli.scenario.player import playing

        lines = read(scenario) if scenario is not None else []
        start = lines[0].at if lines else None
        with (
            open_log(log) as file,
            Stack(find(template), first_site=scenario is None, log=file, start=start) as stack,
            playing(stack, scenario or Path.cwd(), Path("out"), print_step) as player,
        ):
            server = Server(stack, host, port)
            print_failures(player.play(lines))
            if scenario is None:
                stack.come_due(every_schedule=True)  # the first run of roll_window adds the first site
                console.print(_first_secret(stack))
            for page in server.pages():
                console.print(f"page for editors: {page}")
            console.print(f"serving on {server.url} (files, webhook, AWS endpoint); Ctrl-C ends it")
            server.serve()


def _first_secret(stack: "Stack") -> str:
    from stoppress_cli.local.creation import is_given

    secrets = (resource for resource in stack.resources.values() if resource.type == "AWS::SecretsManager::Secret")
    [name] = [secret.properties["Name"] for secret in secrets if is_given(secret)]
    value = stack.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"]
    return f"webhooks of the first site are signed with {value} (the secret {name})"
