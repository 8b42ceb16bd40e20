"""What the commands that ask a stack do, and what they print: plain lines where the output is no terminal.

Nothing here imports moto: it reads the AWS settings of the user, and takes a second to load.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from stoppress_cli.local.template import TemplateError
from stoppress_cli.printing import text_console

T = TypeVar("T")

WELL, DIFFERENT, UNREADABLE = 0, 1, 2

console = text_console()
errors = text_console(stderr=True)


def find_template(given: Path | None) -> Path:
    """The template: the one given, else of this checkout, else of the current folder. Raises TemplateError."""
    if given is not None and not given.is_file():
        raise TemplateError(f"there is no template {given}")
    places = [Path(__file__).resolve().parents[2] / "template.yaml", Path.cwd() / "template.yaml"]
    found = given or next((place for place in places if place.is_file()), None)
    if found is None:
        raise TemplateError("no template.yaml here; run in a checkout of Stoppress or give --template")
    return found


def explain_page(url: str, site: str | None, stack: str | None, endpoint: str, template: Path | None) -> int:
    """Prints a page's story. Returns the exit code."""
    from stoppress_cli.stack import explain

    facts = asked(lambda: explain.gather(url, site), stack, endpoint, template)
    if facts is None:
        return UNREADABLE
    for line in explain.explain(facts, datetime.now(UTC)):
        console.print(line, markup=False)
    return WELL if facts.standing else DIFFERENT


def print_robots(host: str, stack: str | None, endpoint: str, template: Path | None) -> int:
    """Prints the lines of a site's robots.txt. Returns the exit code."""
    from stoppress_cli.stack import explain

    lines = asked(lambda: explain.robots(host), stack, endpoint, template)
    for line in lines or []:
        console.print(line, markup=False)
    return WELL if lines else UNREADABLE


def show_feeds(host: str | None, stack: str | None, endpoint: str, template: Path | None, *, as_json: bool) -> int:
    """Prints how the feeds are. Returns the exit code."""
    return over_sites(
        host, lambda: _show_feeds(host, stack, endpoint, template, as_json=as_json), stack, endpoint, template
    )


def _show_feeds(host: str | None, stack: str | None, endpoint: str, template: Path | None, *, as_json: bool) -> int:
    from stoppress_cli.stack import feeds as feed_health

    feeds = asked(lambda: feed_health.health(host), stack, endpoint, template)
    if feeds is None:
        return UNREADABLE
    now = datetime.now(UTC)
    for line in [feed_health.as_json(feeds, now)] if as_json else feed_health.as_lines(feeds, now):
        console.print(line, markup=False)
    return DIFFERENT if any(one.condition in {"failing", "gone"} for one in feeds) else WELL


def asked(question: Callable[[], T], stack: str | None, endpoint: str, template: Path | None) -> T | None:
    """What a stack answers; None, and the reason printed, where it cannot be asked."""
    from stoppress.aws.queues import SendError
    from stoppress.aws.sites import UnknownSite
    from stoppress.aws.table import Conflict
    from stoppress.model.site import BadConfiguration
    from stoppress_cli.stack.find import NoStack, in_words, looked_at

    try:
        with looked_at(stack, endpoint, find_template(template)):
            return question()
    except EndpointConnectionError:
        errors.print(
            f"stoppress: nobody answers at {endpoint}; start `stoppress up`, or name a deployed stack with --stack",
            markup=False,
        )
    except (
        ValueError,
        UnknownSite,
        BadConfiguration,
        NoStack,
        SendError,
        Conflict,
        TimeoutError,
    ) as error:
        errors.print(f"stoppress: {error}", markup=False)
    except (ClientError, BotoCoreError) as error:
        errors.print(f"stoppress: {in_words(error)}")
    return None


def over_sites(
    host: str | None, command: Callable[[], int], stack: str | None, endpoint: str, template: Path | None
) -> int:
    """Runs a command over one site, or over all. Returns its exit code; UNREADABLE where a site's parameter cannot be used.

    Each such parameter is named first: such a site is taken as it was last applied, or left out.
    """
    from stoppress.aws import sites

    bad = asked(lambda: sites.load_all()[1], stack, endpoint, template)
    if bad is None:
        return UNREADABLE
    unreadable = [site for site in bad if host in (None, site.host)]
    for site in unreadable:
        errors.print(
            f"stoppress: the parameter {site.name} cannot be used: {site.reason}\n  Correct it. Until then its feeds are not"
            " polled, and its files are kept by the configuration that was last applied."
        )
    code = command()
    return UNREADABLE if unreadable else code
