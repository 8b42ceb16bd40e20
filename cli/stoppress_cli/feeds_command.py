"""`stoppress feeds`: how a stack's feeds are, and what a feed would become. What a command needs is imported when it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _Feeds(TyperGroup):
    """`stoppress feeds www.example.com` is short for `stoppress feeds show www.example.com`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[:1] and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if named else ["show", *args])


feeds = typer.Typer(
    help="Looks at feeds as the stack does: how those of a stack are (show), what one would become (try).",
    cls=_Feeds,
    add_completion=False,
    rich_markup_mode=None,
)


@feeds.command("show")
def show(
    host: Annotated[str | None, typer.Argument(help="Host of a site; else all sites.", show_default=False)] = None,
    stack: Annotated[
        str | None,
        typer.Option("--stack", help="Name of a deployed stack; else the one on this machine.", show_default=False),
    ] = None,
    local: Annotated[str, typer.Option("--local", help="Where `stoppress up` or the demo serves.")] = (
        "http://127.0.0.1:8000"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    template: Annotated[
        Path | None, typer.Option("--template", help="Another template.yaml than this checkout's.", show_default=False)
    ] = None,
) -> None:
    """Tell how each feed is: last success, last new story, interval, failures, hub, next poll.

    Exit code 0: all are well; 1: some fail or are gone; 2: nobody could be asked, or a site's
    parameter cannot be used.
    """
    from stoppress_cli.commands import show_feeds

    raise typer.Exit(show_feeds(host, stack, local, template, as_json=as_json))


@feeds.command("try")
def try_feed(
    target: Annotated[str, typer.Argument(help="URL of a feed or an old sitemap, or a file that holds one.")],
    url: Annotated[
        str | None,
        typer.Option("--url", help="Where the file would be served: relative links stand on it.", show_default=False),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option("--site", help="Host of the site; entries of other hosts are then told.", show_default=False),
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone of dates that have none.")] = "UTC",
    take: Annotated[
        list[str] | None,
        typer.Option(help="What to take besides, as in the site's `feeds`: images, videos, …", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a feed would become, entry by entry, and why entries are left out.

    Nothing is recorded. Exit code 0: it can be read; 1: it cannot, a poll would fail; 2: there is nothing to read.
    """
    from stoppress_cli.trying import try_feed as run

    raise typer.Exit(run(target, url, site, timezone, take or [], as_json=as_json))
