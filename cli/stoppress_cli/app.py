"""The command line: `stoppress play`, `up`, `demo`, `explain`, `robots`, `check`; those of adapters, feeds and the operator are added.

What a command needs is imported when it runs. Those that run the stack here import moto, which reads the AWS settings of the
user as it is imported: these are undone first.
"""

from pathlib import Path
from typing import Annotated

import typer

from stoppress_cli import adapters_app, operator_app
from stoppress_cli.feeds_command import feeds
from stoppress_cli.local.functions import environment, no_aws_settings

app = typer.Typer(
    help="Keeps a newsroom's sitemaps. The commands here run the whole stack of template.yaml on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(feeds, name="feeds")


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


_Scenario = Annotated[Path, typer.Argument(help="Scenario file: JSON Lines, one step a line.")]
_Template = Annotated[
    Path | None, typer.Option("--template", help="Another template.yaml than this checkout's.", show_default=False)
]
_Log = Annotated[Path | None, typer.Option("--log", help="File for all that the functions print.", show_default=False)]
_Dynamodb = Annotated[
    str | None,
    typer.Option("--dynamodb", help="URL of another DynamoDB endpoint, e.g. of DynamoDB Local.", show_default=False),
]
_Port = Annotated[int, typer.Option(help="Port to serve on.", min=0, max=65_535)]
_Host = Annotated[str, typer.Option(help="Address to serve on.")]


@app.command()
def play(
    scenario: _Scenario,
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder that `save` steps write into.")] = Path("out"),
    log: _Log = None,
    dynamodb: _Dynamodb = None,
    template: _Template = None,
) -> None:
    """Play a scenario on a stack of its own and report.

    The clock is the scenario's; nothing leaves this machine. Exit code 0: all expectations hold; 1: some do not;
    2: the scenario cannot be read or a step cannot be done.
    """
    with environment(no_aws_settings()):
        from stoppress_cli.local_commands import play_scenario

        raise typer.Exit(play_scenario(scenario, out, log, dynamodb, template))


@app.command()
def up(
    scenario: Annotated[Path | None, typer.Argument(help="Scenario to play first.", show_default=False)] = None,
    port: _Port = 8000,
    host: _Host = "127.0.0.1",
    log: _Log = None,
    template: _Template = None,
) -> None:
    """Serve the stack until Ctrl-C: files, webhook and AWS endpoint on one port.

    A scenario is played first, on its own clock; from then on the clock is this machine's. Without one the
    template's first site is made, with a secret of its own.
    """
    with environment(no_aws_settings()):
        from stoppress_cli.local_commands import serve_stack

        raise typer.Exit(serve_stack(scenario, host, port, log, template))


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="Print the table and exit instead of serving.")] = False,
    port: _Port = 8000,
    host: _Host = "127.0.0.1",
    log: _Log = None,
    template: _Template = None,
) -> None:
    """Publish, edit, unpublish and let expire a few articles; show what became of each; then serve.

    Exit code of --once: 0 if the files are what the table says, else 1.
    """
    with environment(no_aws_settings()):
        from stoppress_cli.demo import demonstrate

        raise typer.Exit(demonstrate(once, host, port, log, template))


_Stack = Annotated[
    str | None,
    typer.Option("--stack", help="Name of a deployed stack; else the one on this machine.", show_default=False),
]
_Endpoint = Annotated[str, typer.Option("--local", help="Where `stoppress up` or the demo serves.")]


@app.command()
def explain(
    url: Annotated[str, typer.Argument(help="The page, as readers see its URL.")],
    site: Annotated[
        str | None, typer.Option("--site", help="Host of the site to look in, if not the URL's.", show_default=False)
    ] = None,
    stack: _Stack = None,
    local: _Endpoint = "http://127.0.0.1:8000",
    template: _Template = None,
) -> None:
    """Tell a page's whole story: where it is listed, which event or rule decided that, and when.

    Exit code 0: it is listed; 1: it is not; 2: nobody could be asked.
    """
    from stoppress_cli.commands import explain_page

    raise typer.Exit(explain_page(url, site, stack, local, template))


@app.command()
def robots(
    host: Annotated[str, typer.Argument(help="Host of the site.")],
    stack: _Stack = None,
    local: _Endpoint = "http://127.0.0.1:8000",
    template: _Template = None,
) -> None:
    """Print the `Sitemap:` lines for a site's robots.txt."""
    from stoppress_cli.commands import print_robots

    raise typer.Exit(print_robots(host, stack, local, template))


@app.command()
def check(
    target: Annotated[
        str, typer.Argument(help="Folder of sitemaps, one file, or the URL of an index, a sitemap or a robots.txt.")
    ],
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Folder in which readers find the file, or the files of the folder.", metavar="URL", show_default=False
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(help="The instant to judge by, ISO 8601; else this machine's clock.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    each_max: Annotated[int, typer.Option("--max", help="Findings shown of each kind in each file.", min=1)] = 20,
    errors_only: Annotated[bool, typer.Option("--errors-only", help="Leave warnings out.")] = False,
) -> None:
    """Check published sitemaps, anybody's, against the protocol and what the engines document.

    Exit code 0: nothing found; 1: findings; 2: there is nothing that could be checked.
    """
    from stoppress_cli.checking.command import check as check_target

    code = check_target(target, base_url, now, as_json=as_json, each_max=each_max, errors_only=errors_only)
    raise typer.Exit(code)


adapters_app.add_to(app)
operator_app.add_to(app)


def main() -> None:
    """Entry point of `python -m stoppress_cli`."""
    app()
