from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from stoppress_cli.commands.access import open_sites
from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import LOCAL, READS, READS_URLS, Commands, Endpoint, Group, Json, Stack, Template
from stoppress_cli.printing import console, errors, print_json, text_console


class _Feeds(Group):
    """`stoppress feeds www.example.com` is short for `stoppress feeds show www.example.com`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = args[:1] and (args[0] in self.commands or args[0] in {"-h", "--help"})
        return super().parse_args(ctx, args if is_named else ["show", *args])


feeds = Commands(
    help="Feeds: the state of a stack's feeds (show), and which articles a feed would give (try).",
    no_args_is_help=False,
    cls=_Feeds,
)


@feeds.command("show", effect=READS, example="stoppress feeds show www.example.com --stack stoppress")
def show(
    host: Annotated[str | None, typer.Argument(help="Host of a site; default: all sites.", show_default=False)] = None,
    stack: Stack = None,
    local: Endpoint = LOCAL,
    as_json: Json = False,
    template: Template = None,
) -> None:
    """Show the state of each feed: last success, last new story, interval, failures, hub, next poll.

    Exit code 0: every feed works; 1: a feed fails or is gone; 2: the stack cannot be reached, or a site's parameter cannot be
    used.
    """
    with open_sites(host, stack, local, template):
        from stoppress_cli.stack.feeds import as_lines, states_of

        now = datetime.now(UTC)
        states = states_of(host)
        if as_json:
            print_json({"feeds": [state.report(now) for state in states]})
        else:
            for line in as_lines(states, now):
                console.print(line)
        raise typer.Exit(ATTENTION if any(state.condition in {"failing", "gone"} for state in states) else OK)


@feeds.command("try", effect=READS_URLS, example="stoppress feeds try https://www.example.com/feed.xml")
def try_feed(
    target: Annotated[str, typer.Argument(help="URL of a feed or an old sitemap, or a file that holds one.")],
    url: Annotated[
        str | None,
        typer.Option("--url", help="URL of the file, against which relative links are resolved.", show_default=False),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option("--site", help="Host of the site; entries of other hosts are then left out.", show_default=False),
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone of dates that have none.")] = "UTC",
    take: Annotated[
        list[str] | None,
        typer.Option(
            help="What to read besides page, title and dates, as `take` in the site's `feeds`: images, videos, …",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which article each entry of a feed would give, or why the entry is left out.

    Nothing is recorded. Exit code 0: the feed can be read; 1: it cannot, a poll would fail; 2: there is nothing to read.
    """
    from stoppress_cli.inputs.feed import Unreadable, as_lines, as_report, configuration, read

    now = datetime.now(UTC)
    try:
        configured = configuration(target, url, site, timezone, take or [])
        trial = read(target, url, *configured, now)
    except Unreadable as error:
        errors.print(f"stoppress: {error}")
        raise typer.Exit(FAILED) from None
    if as_json:
        print_json(as_report(trial))
    else:
        for line in as_lines(trial, configured[0], now):
            text_console().print(line)
    raise typer.Exit(ATTENTION if trial.outcome == "reject" else OK)
