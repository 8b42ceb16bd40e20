"""`stoppress up`: serves a local stack."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.commands.play import open_player, print_failures
from stoppress_cli.options import HERE, Commands, Host, Log, Port, Template
from stoppress_cli.output import console

if TYPE_CHECKING:
    from stoppress_cli.local.stack import Stack

app = Commands()


@app.command(effect=HERE, has_json=False, example="stoppress up tests/scenarios/publish.jsonl")
def up(
    scenario: Annotated[
        Path | None,
        typer.Argument(help="Scenario to play first; default: none, so the stack has only the template's first site."),
    ] = None,
    port: Port = 8000,
    host: Host = "127.0.0.1",
    log: Log = None,
    template: Template = None,
) -> None:
    """Serve the stack until Ctrl-C: files, webhook and AWS endpoint on one port."""
    with open_player(scenario, log, template) as (player, lines):
        from stoppress_cli.local.server import Server

        stack = player.stack
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
    from stoppress_cli.local.resources import is_given

    secrets = (resource for resource in stack.resources.values() if resource.type == "AWS::SecretsManager::Secret")
    [name] = [secret.properties["Name"] for secret in secrets if is_given(secret)]
    value = stack.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"]
    return f"webhooks of the first site are signed with {value} (the secret {name})"
