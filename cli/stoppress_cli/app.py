"""The command `stoppress`, put together from `commands/`.

A command imports what it needs when it runs, so that `stoppress --help` starts without boto3 and moto.
"""

from typing import Annotated

import typer

from stoppress_cli.commands.adapters import adapters
from stoppress_cli.commands.check import check
from stoppress_cli.commands.compare import compare
from stoppress_cli.commands.demo import demo
from stoppress_cli.commands.doctor import doctor
from stoppress_cli.commands.explain import explain
from stoppress_cli.commands.feeds import feeds
from stoppress_cli.commands.forget import forget
from stoppress_cli.commands.import_ import import_
from stoppress_cli.commands.listen import listen
from stoppress_cli.commands.options import HERE, READS, READS_ACCOUNT, READS_URLS, WRITES, Commands
from stoppress_cli.commands.page import page
from stoppress_cli.commands.play import play
from stoppress_cli.commands.preflight import preflight
from stoppress_cli.commands.quarantine import quarantine
from stoppress_cli.commands.rebuild import rebuild
from stoppress_cli.commands.reconcile import reconcile
from stoppress_cli.commands.redrive import redrive
from stoppress_cli.commands.restore import restore
from stoppress_cli.commands.retire import retire
from stoppress_cli.commands.robots import robots
from stoppress_cli.commands.secrets import secrets
from stoppress_cli.commands.send import send
from stoppress_cli.commands.sites import sites
from stoppress_cli.commands.status import status
from stoppress_cli.commands.up import up

app = Commands(
    help="Keeps the sitemaps of a newsroom up to date. Runs the whole stack on this machine, or works on a deployed stack.",
    add_completion=True,
)
# Each command with its effect and an example of its use.
for command, effect, example in (
    (check, READS_URLS, "stoppress check https://www.example.com/robots.txt"),
    (
        compare,
        READS,
        "stoppress compare https://www.example.com/old-sitemap.xml --site www.example.com --stack stoppress",
    ),
    (demo, HERE, "stoppress demo --once"),
    (doctor, READS, "stoppress doctor www.example.com --stack stoppress"),
    (explain, READS, "stoppress explain https://www.example.com/news/flood --stack stoppress"),
    (forget, WRITES, "stoppress forget https://www.example.com/news/flood --stack stoppress"),
    (
        import_,
        WRITES,
        "stoppress import https://www.example.com/old-sitemap.xml --site www.example.com --dry-run --stack stoppress",
    ),
    (listen, HERE, "stoppress listen --adapter ghost --out deliveries"),
    (page, READS, "stoppress page www.example.com --stack stoppress"),
    (play, HERE, "stoppress play tests/scenarios/publish.jsonl"),
    (preflight, READS_ACCOUNT, "stoppress preflight --region eu-west-1"),
    (rebuild, WRITES, "stoppress rebuild sitemap-news.xml --site www.example.com --stack stoppress"),
    (reconcile, WRITES, "stoppress reconcile --site www.example.com --stack stoppress"),
    (redrive, WRITES, "stoppress redrive articles --dry-run --stack stoppress"),
    (restore, WRITES, "stoppress restore stoppress-Table-restored --stack stoppress"),
    (retire, WRITES, "stoppress retire www.example.com --stack stoppress"),
    (robots, READS, "stoppress robots www.example.com --stack stoppress"),
    (send, WRITES, "stoppress send www.example.com cms --stack stoppress"),
    (status, READS, "stoppress status --stack stoppress"),
    (up, HERE, "stoppress up tests/scenarios/publish.jsonl"),
):
    app.command(command.__name__.strip("_"), effect=effect, example=example)(command)
app.add_typer(feeds, name="feeds")
app.add_typer(adapters, name="adapters")
app.add_typer(quarantine, name="quarantine")
app.add_typer(sites, name="sites")
app.add_typer(secrets, name="secrets")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"stoppress {version('stoppress')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
