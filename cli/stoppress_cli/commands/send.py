from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, Endpoint, Json, Stack, Template
from stoppress_cli.printing import console, errors, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoppress.show.site import Access
    from stoppress_cli.stack.send import Sample, Stage


def send(
    site: Annotated[str | None, typer.Argument(help="Host of the site; default: the only one.", show_default=False)] = None,
    source: Annotated[
        str | None,
        typer.Argument(help="A source with the adapter standard; default: the only one of the site.", show_default=False),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the article in the files.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", help="Seconds to wait for the article to arrive, and again to leave.", min=1)
    ] = 120,
    api: Annotated[
        str | None,
        typer.Option("--api", help="Address before /webhooks/; default: that of the stack's API.", show_default=False),
    ] = None,
    program: Annotated[
        Literal["curl", "node", "php", "python"] | None,
        typer.Option("--print", help="Print a program that sends such an article, and send nothing.", show_default=False),
    ] = None,
    as_json: Json = False,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
) -> None:  # fmt: skip
    """Send a signed test article through the webhook, wait until the files list it, and remove it again.

    The secret is read from Secrets Manager. Exit code 0: the article reached every stage; 1: it did not reach one in time, or the
    webhook refused it; 2: the stack or its webhook cannot be reached, or the source cannot be tested.
    """
    with open_stack(stack, local, template):
        from stoppress.show.site import Access
        from stoppress_cli.stack.send import NotReached, Sample, program as text_of, target_of

        target = target_of(site, source, api)
        if program is not None:
            console.print(text_of(program, target), end="")
            return
        sample = Sample(target, timeout_s)
        stages: list[Stage] = []
        missed: list[str] = []
        access = Access(stack, None if local == LOCAL else local)

        def follow(reached: "Iterator[Stage]") -> None:
            try:
                for stage in reached:
                    stages.append(stage)
                    if not as_json:
                        console.print(f"{stage.ms:>8,} ms  {stage.name}")
            except NotReached as error:
                missed.append(str(error))
                if not as_json:
                    console.print(f"not reached  {error}")

        if not as_json:
            console.print(f"{sample.url}\n")
        try:
            follow(sample.arrive())
        finally:  # after Ctrl-C too
            if sample.may_be_taken and not keep:
                with _warning_of_what_stays(sample, access):
                    follow(sample.leave())
        if as_json:
            print_json({"url": sample.url, "stages": [asdict(stage) for stage in stages], "missed": missed})
        elif missed:
            console.print(f"\nsee why: {access.command(f'explain {sample.url}')}; {access.command('status')}")
        elif keep:
            console.print(
                "\nthe article stays: remove it with `stoppress forget`, or let it leave the news sitemap in 48 hours"
            )
        raise typer.Exit(ATTENTION if missed else OK)


@contextmanager
def _warning_of_what_stays(sample: "Sample", access: "Access") -> "Iterator[None]":
    """Prints how to remove the article if the block ends before the webhook takes the removal."""
    try:
        yield
    finally:
        if not sample.is_removed:
            forget = access.command(f"forget {sample.url}")
            errors.print(f"stoppress: the test article may stay in the files: remove it with `{forget}`")
