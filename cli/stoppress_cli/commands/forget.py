from datetime import UTC, datetime
from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Json, Site, Stack, Template, Yes
from stoppress_cli.printing import confirmed, print_json, printer

OUT_OF_REACH = (
    "Out of reach: point-in-time recovery keeps the old table for 35 days, the logs keep URLs for LogRetentionDays"
    " (30 days), CDNs and browsers keep the old files for five minutes. Make sure that the CMS and its feed do not send"
    " the article again. Name earlier URLs of the article to this command too."
)


def forget(
    target: Annotated[str, typer.Argument(metavar="URL|ID", help="URL of the page, or the article's id in its source.")],
    site: Site = None,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Remove a page and erase what is known of it: table, quarantine, dead letters, older versions of its files.

    Exit code 0: only a tombstone without content is left; 1: more is left, run the command again; 2: the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress_cli.stack import forget as erasure

        show = printer(as_json=as_json)
        left = erasure.gather(target, site)
        urls, is_known = left.urls, left.anything
        if not is_known:
            show("the stack has nothing about it")
        is_agreed = (
            is_known
            and not dry_run
            and confirmed(f"Forget {', '.join(urls) or target} for good?", yes=yes, as_json=as_json)
        )
        if is_agreed:
            left = erasure.forget(target, site, datetime.now(UTC), show=show)
            if left.anything:
                show("not erased yet, run the command again:")
        if is_agreed or dry_run:
            for line in [*left.lines(), OUT_OF_REACH] if is_known else []:
                show(line)
        if as_json:
            print_json({"urls": list(urls), "left": list(left.lines()) if left.anything else [], "done": is_agreed})
        raise typer.Exit(ATTENTION if left.anything else OK)
