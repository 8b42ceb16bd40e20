"""Gives a command access to the stack that it works on, and prints why there is none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from stoppress_cli.commands.exit_codes import FAILED, OK
from stoppress_cli.printing import counted, errors


@contextmanager
def open_stack(stack: str | None, endpoint: str, template: Path | None) -> Iterator[None]:
    """While the block runs, `stoppress.aws` talks to the stack.

    `stack` names a deployed stack; without it the stack is the one served at `endpoint`. An error of the stack or of AWS in
    the block is printed, and the command exits with FAILED.
    """
    # A local import: `stoppress --help` does without boto3.
    from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

    from stoppress.aws.queues import SendError
    from stoppress.aws.sites import UnknownSite
    from stoppress.aws.table import Conflict
    from stoppress.model.site import BadConfiguration
    from stoppress.show.read_story import Unclear
    from stoppress_cli.local.template import TemplateError, find
    from stoppress_cli.stack.find import BadRequest, in_words, opened

    try:
        with opened(stack, endpoint, find(template)):
            yield
    except (
        BadRequest,
        Unclear,
        TemplateError,
        UnknownSite,
        BadConfiguration,
        SendError,
        Conflict,
        TimeoutError,
    ) as error:
        text = str(error)
    except (ClientError, BotoCoreError) as error:
        text = in_words(error)
        if stack is None and isinstance(error, EndpointConnectionError):
            text = f"nobody answers at {endpoint}; start `stoppress up`, or name a deployed stack with --stack"
    else:
        return
    errors.print(f"stoppress: {text}")
    raise typer.Exit(FAILED)


@contextmanager
def open_sites(host: str | None, stack: str | None, endpoint: str, template: Path | None) -> Iterator[None]:
    """`open_stack` for a command over one site, or over all sites (None).

    If a parameter cannot be used, warns before the block runs, and exits with FAILED after it. Such a site keeps the
    configuration that was last applied. A site to which none was ever applied is left out.
    """
    with open_stack(stack, endpoint, template):
        from stoppress.aws import sites

        unusable = [site for site in sites.load_all()[1] if host in (None, site.host)]
        warn_of_unreadable([(site.name, site.reason) for site in unusable])
        code = OK
        try:
            yield
        except typer.Exit as end:
            code = end.exit_code
        raise typer.Exit(FAILED if unusable else code)


def warn_of_unreadable(parameters: Sequence[tuple[str, str]]) -> None:
    """Names on stderr the parameters that cannot be used, each with its reason. Prints nothing if there are none."""
    if parameters:
        errors.print(
            f"stoppress: cannot read {counted(len(parameters), 'site')}: correct the parameters below. Until then the"
            " configurations that were last applied are used."
        )
    for name, reason in parameters:
        errors.print(f"  {name}: {'; '.join(reason.splitlines())}")
