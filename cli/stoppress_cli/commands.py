"""What the commands do, and what they print: plain lines where the output is no terminal."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError
from rich.console import Console

from stoppress_cli import player as playing
from stoppress_cli.scenario import Line, ScenarioError, read
from stoppress_cli.sources import EndlessLoopError
from stoppress_cli.stack import Stack
from stoppress_cli.template import TemplateError
from stoppress_cli.wording import counted

T = TypeVar("T")

WELL, DIFFERENT, UNREADABLE = 0, 1, 2

WIDTH_COLUMNS = 120  # of tables where the output is no terminal

console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = WIDTH_COLUMNS
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def find_template(given: Path | None) -> Path:
    """The template: the one given, else of this checkout, else of the current folder. Raises TemplateError."""
    if given is not None and not given.is_file():
        raise TemplateError(f"there is no template {given}")
    places = [Path(__file__).resolve().parents[2] / "template.yaml", Path.cwd() / "template.yaml"]
    found = given or next((place for place in places if place.is_file()), None)
    if found is None:
        raise TemplateError("no template.yaml here; run in a checkout of Stoppress or give --template")
    return found


@contextlib.contextmanager
def opened(log: Path | None) -> Iterator[TextIO | None]:
    """The log file, if one is wanted."""
    if log is None:
        yield None
        return
    with log.open("w", encoding="utf-8") as file:
        yield file


def say_step(line: Line, text: str) -> None:
    """One line a step."""
    console.print(f"{line.number:>5}  {line.at:%Y-%m-%d %H:%M:%S}  {line.kind:<6}  {text}", markup=False)


def play_scenario(scenario: Path, out: Path, log: Path | None, dynamodb: str | None, template: Path | None) -> int:
    """Plays a scenario and prints the report. Returns the exit code."""
    began = time.perf_counter()
    if dynamodb is not None and not dynamodb.startswith(("http://", "https://")):
        errors.print(
            f"stoppress: --dynamodb {dynamodb!r} is no URL; give one such as http://127.0.0.1:8001", markup=False
        )
        return UNREADABLE
    try:
        lines = read(scenario)
        with opened(log) as file, Stack(
            find_template(template), dynamodb_url=dynamodb, log=file, start=lines[0].at
        ) as stack, playing.playing(stack, scenario, out, say_step) as player:  # fmt: skip
            player.play(lines)
            playing.count(stack, player.report)
            print_report(stack, player.report, time.perf_counter() - began)
    except (ScenarioError, TemplateError, EndlessLoopError) as error:
        errors.print(f"stoppress: {error}", markup=False)
        return UNREADABLE
    except OSError as error:  # a log or an output folder that cannot be written
        errors.print(f"stoppress: {error}; name another place with --log or --out", markup=False)
        return UNREADABLE
    except EndpointConnectionError as error:
        errors.print(f"stoppress: {error}; start it, or play without --dynamodb", markup=False)
        return UNREADABLE
    for failure in player.report.failures:
        errors.print(failure, style="red", markup=False)
    return DIFFERENT if player.report.failures else WELL


def print_report(stack: Stack, report: playing.Report, seconds: float) -> None:
    """The counts at the end of a run."""
    meter = stack.wire.meter
    operations = ", ".join(f"{name} {count:,}" for name, count in sorted(meter.operations().items()))
    metrics = ", ".join(f"{name} {value:,g}" for name, value in sorted(stack.metrics.items()))
    rows = {
        "steps": f"{report.steps:,} in {seconds:.1f} s, {counted(len(report.failures), 'difference')}",
        "articles": ", ".join(f"{state} {number:,}" for state, number in sorted(report.articles.items())) or "none",
        "files": ", ".join(f"{host} {number:,}" for host, number in sorted(report.files.items())) or "none",
        "API calls": f"{sum(meter.calls.values()):,}: {operations}" if meter.calls else "none",
        "capacity": f"{meter.write_units:,g} write units, {meter.read_units:,g} read units",
        "S3": f"{meter.s3_bytes_put:,} bytes put, {meter.s3_bytes_got:,} bytes got",
        "metrics": metrics or "none",
    }
    if failed := {name: function.errors for name, function in stack.functions.items() if function.errors}:
        rows["failed"] = ", ".join(f"{name} {counted(number, 'time')}" for name, number in failed.items())
    if reported := {mapping.name: mapping.reported for mapping in stack.sources.mappings() if mapping.reported}:
        rows["retried"] = ", ".join(f"{name} {counted(number, 'record')}" for name, number in reported.items())
    if refused := stack.wire.guard.refused:
        rows["refused"] = f"{counted(len(refused), 'call')}; the first: {refused[0]}"
    if left := [fault for fault in stack.wire.faults if fault.times > 0]:
        rows["faults"] = ", ".join(f"{fault.service}.{fault.operation} {fault.times:,} not met" for fault in left)
    if waiting := waiting_messages(stack):
        rows["queues"] = ", ".join(f"{name} {number:,}" for name, number in waiting.items())
    console.print()
    for name, text in rows.items():
        console.print(f"{name:<10} {text}", markup=False)


def waiting_messages(stack: Stack) -> dict[str, int]:
    """Messages that wait in the queues, by logical name: to be retried, delayed, or dead."""
    from stoppress_cli import queues

    found = {
        name: len(queues.queue(resource.arn)._messages)
        for name, resource in stack.resources.items()
        if resource.type == "AWS::SQS::Queue"
    }
    return {name: number for name, number in found.items() if number}


def serve_stack(scenario: Path | None, host: str, port: int, log: Path | None, template: Path | None) -> int:
    """Plays a scenario, if any, and serves until Ctrl-C. Returns the exit code."""
    from stoppress_cli.serving import PortInUse, Server

    try:
        lines = read(scenario) if scenario is not None else []
        with opened(log) as file, Stack(
            find_template(template), first_site=scenario is None, log=file, start=lines[0].at if lines else None
        ) as stack, playing.playing(stack, scenario or Path.cwd(), Path("out"), say_step) as player:  # fmt: skip
            server = Server(stack, host, port)
            player.play(lines)
            for failure in player.report.failures:
                errors.print(failure, style="red", markup=False)
            if scenario is None:
                console.print(_first_secret(stack), markup=False)
            console.print(f"serving on {server.url} (files, webhook, AWS endpoint); Ctrl-C ends it", markup=False)
            server.serve()
    except (ScenarioError, TemplateError, EndlessLoopError, PortInUse) as error:
        errors.print(f"stoppress: {error}", markup=False)
        return UNREADABLE
    return WELL


def _first_secret(stack: Stack) -> str:
    name = stack.only("AWS::SecretsManager::Secret").properties["Name"]
    value = stack.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"]
    return f"webhooks of the first site are signed with {value} (the secret {name})"


def run_demo(once: bool, host: str, port: int, log: Path | None, template: Path | None) -> int:
    """The demonstration. Returns the exit code."""
    from stoppress_cli.demo import demonstrate

    return demonstrate(once, host, port, log, template)


def explain_page(url: str, site: str | None, stack: str | None, endpoint: str, template: Path | None) -> int:
    """Prints a page's story. Returns the exit code."""
    from stoppress_cli import explaining

    facts = asked(lambda: explaining.gather(url, site), stack, endpoint, template)
    if facts is None:
        return UNREADABLE
    for line in explaining.explain(facts, datetime.now(UTC)):
        console.print(line, markup=False)
    return WELL if facts.standing else DIFFERENT


def print_robots(host: str, stack: str | None, endpoint: str, template: Path | None) -> int:
    """Prints the lines of a site's robots.txt. Returns the exit code."""
    from stoppress_cli import explaining

    lines = asked(lambda: explaining.robots(host), stack, endpoint, template)
    for line in lines or []:
        console.print(line, markup=False)
    return WELL if lines else UNREADABLE


def show_feeds(host: str | None, stack: str | None, endpoint: str, template: Path | None, *, as_json: bool) -> int:
    """Prints how the feeds are. Returns the exit code."""
    return over_sites(
        host, lambda: _show_feeds(host, stack, endpoint, template, as_json=as_json), stack, endpoint, template
    )


def _show_feeds(host: str | None, stack: str | None, endpoint: str, template: Path | None, *, as_json: bool) -> int:
    from stoppress_cli import feed_health

    feeds = asked(lambda: feed_health.health(host), stack, endpoint, template)
    if feeds is None:
        return UNREADABLE
    now = datetime.now(UTC)
    for line in [feed_health.as_json(feeds, now)] if as_json else feed_health.as_lines(feeds, now):
        console.print(line, markup=False)
    return DIFFERENT if any(one.condition in {"failing", "gone"} for one in feeds) else WELL


def asked(question: Callable[[], T], stack: str | None, endpoint: str, template: Path | None) -> T | None:
    """What a stack answers; None, and the reason printed, where it cannot be asked."""
    from stoppress.queues import SendError
    from stoppress.site import BadConfiguration
    from stoppress.sites import UnknownSite
    from stoppress.table import Conflict
    from stoppress_cli.operating import NoStack, in_words, looked_at

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
        errors.print(f"stoppress: {in_words(error)}", markup=False)
    return None


def over_sites(
    host: str | None, command: Callable[[], int], stack: str | None, endpoint: str, template: Path | None
) -> int:
    """Runs a command over one site, or over all. Returns its exit code; UNREADABLE where a site's parameter cannot be used.

    Each such parameter is named first: such a site is taken as it was last applied, or left out.
    """
    from stoppress import sites

    bad = asked(lambda: sites.load_all()[1], stack, endpoint, template)
    if bad is None:
        return UNREADABLE
    unreadable = [site for site in bad if host in (None, site.host)]
    for site in unreadable:
        errors.print(
            f"stoppress: the parameter {site.name} cannot be used: {site.reason}\n  Correct it. Until then its feeds are not"
            " polled, and its files are kept by the configuration that was last applied.",
            markup=False,
        )
    code = command()
    return UNREADABLE if unreadable else code
