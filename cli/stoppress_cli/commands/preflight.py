"""`stoppress preflight`: checks an AWS account before the first deployment."""

from typing import Annotated

import typer

from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import Template
from stoppress_cli.printing import console, errors


def preflight(
    stack: Annotated[str, typer.Option("--stack", help="Name of the future stack.")] = "stoppress",
    template: Template = None,
) -> None:
    """Check an AWS account before the first deployment: credentials, quotas, and whether the stack's names are free.

    Changes nothing. Exit code 0: all checks passed; 1: a check failed, and its line says what to do; 2: something could not be
    checked.
    """
    # Local imports: `stoppress --help` does not load boto3.
    from stoppress_cli.local.template import TemplateError, find
    from stoppress_cli.stack.find import account
    from stoppress_cli.stack.preflight import checks

    outcomes = set()
    try:
        with account():
            for check in checks(stack, find(template)):
                outcomes.add(check.outcome)
                console.print(f"{check.outcome:<8} {check.text}", soft_wrap=True)
    except TemplateError as error:
        errors.print(f"stoppress: {error}")
        raise typer.Exit(FAILED) from None
    raise typer.Exit(ATTENTION if "fault" in outcomes else FAILED if "unknown" in outcomes else OK)
