"""`stoppress feeds`: what a feed would become. What a command needs is imported when it runs."""

from typing import Annotated

import typer

feeds = typer.Typer(
    help="Looks at feeds as the stack does.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


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
