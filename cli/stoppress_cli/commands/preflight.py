"""`stoppress preflight`: checks an AWS account before the first deployment."""

from dataclasses import asdict
from typing import Annotated

import typer

from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import Json, Template
from stoppress_cli.printing import console, errors, print_json


def preflight(
    stack: Annotated[str, typer.Option("--stack", help="Name of the future stack.")] = "stoppress",
    template: Template = None,
    as_json: Json = False,
) -> None:
    """Check an AWS account before the first deployment: credentials, quotas, and whether the stack's names are free.

    Changes nothing. Exit code 0: all checks passed; 1: a check failed, and its line says what to do; 2: something could not be
    checked.
    """
    # Local imports: `stoppress --help` does not load boto3.
    from stoppress_cli.local.template import TemplateError, find
    from stoppress_cli.stack.find import account
    from stoppress_cli.stack.preflight import checks

    made = []
    try:
        with account():
            for check in checks(stack, find(template)):
                made.append(check)
                if not as_json:
                    console.print(f"{check.outcome:<8} {check.text}", soft_wrap=True)
    except TemplateError as error:
        errors.print(f"stoppress: {error}")
        raise typer.Exit(FAILED) from None
    if as_json:
        print_json([asdict(check) for check in made])
    outcomes = {check.outcome for check in made}
    raise typer.Exit(ATTENTION if "fault" in outcomes else FAILED if "unknown" in outcomes else OK)
