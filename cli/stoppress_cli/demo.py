"""The demonstration: demo.jsonl played so that it ends now, a table of what became of each article, then serving."""

import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich import box
from rich.table import Table

from stoppress_cli.commands import DIFFERENT, UNREADABLE, WELL, console, errors, find_template
from stoppress_cli.local.serving import PortInUse, Server
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import TemplateError
from stoppress_cli.local_commands import opened, print_report
from stoppress_cli.scenario import files, player as playing
from stoppress_cli.scenario.file import Line, parse

SCENARIO = Path(__file__).with_name("demo.jsonl")
HOST = "www.example.com"
SECRET = "c3RvcHByZXNzLWRlbW8tc2VjcmV0LTI0Yg=="

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_STORIES = {
    "flood-closes-the-harbour": "webhook, over 48 hours ago",
    "market-hall-reopens": "webhook; edited since",
    "concert-called-off": "webhook; unpublished since",
    "council-passes-the-budget": "event on the bus",
    "ferry-sails-again": "entry of the feed",
}


def lines(now: datetime) -> list[Line]:
    """The scenario's lines, every instant in them moved so that the last one is `now`."""
    text = SCENARIO.read_text(encoding="utf-8")
    last = max(datetime.fromisoformat(found) for found in _INSTANT.findall(text))
    shift = now.replace(microsecond=0) - last

    def moved(match: re.Match[str]) -> str:
        return (datetime.fromisoformat(match[0]) + shift).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    return parse(_INSTANT.sub(moved, text).split("\n"), SCENARIO)


def demonstrate(once: bool, host: str, port: int, log: Path | None, template: Path | None) -> int:
    """Plays, prints the table, and serves unless `once`. Returns the exit code."""
    try:
        script = lines(datetime.now(UTC))
        with ExitStack() as opening:
            file = opening.enter_context(opened(log))
            stack = opening.enter_context(Stack(find_template(template), log=file, start=script[0].at))
            # The port is taken first: better to hear that it is in use before the show than after it.
            server = None if once else Server(stack, host, port)
            player = opening.enter_context(playing.playing(stack, SCENARIO, Path("out"), lambda line, text: None))
            console.print("Playing two days of a newsroom on this machine, on a clock of its own …\n")
            began = time.perf_counter()
            took_ms = _play(player, script)
            seconds = time.perf_counter() - began
            _print_table(stack, took_ms)
            playing.count(stack, player.report)
            print_report(stack, player.report, seconds)
            for failure in player.report.failures:
                errors.print(failure, style="red", markup=False)
            if server is not None:
                _print_invitation(server.url)
                server.serve()
    except (TemplateError, PortInUse) as error:
        errors.print(f"stoppress: {error}", markup=False)
        return UNREADABLE
    return DIFFERENT if player.report.failures else WELL


def _play(player: playing.Player, script: list[Line]) -> dict[str, float]:
    """Plays every line; returns the milliseconds from each article's last event to its file, by the slug of its URL."""
    took_ms: dict[str, float] = {}
    slugs: dict[str, str] = {}  # by article id
    for line in script:
        player.stack.rest()
        if line.at > player.stack.clock.now():
            player.stack.advance(line.at)  # what the hours brought is not this event's
        began = time.perf_counter()
        player.step(line)
        if line.kind == "feed":  # its event is the poll of the next minute
            began = time.perf_counter()
            player.stack.advance(line.at + timedelta(minutes=1))
        player.stack.rest()
        slug = _slug(line, slugs)
        if slug is not None:
            took_ms[slug] = (time.perf_counter() - began) * 1000
    return took_ms


def _slug(line: Line, slugs: dict[str, str]) -> str | None:
    """Which article a line is about."""
    if line.kind == "feed":
        return "ferry-sails-again"
    if line.kind not in ("post", "event"):
        return None
    data = line.step.body["data"] if line.kind == "post" else line.step.event["detail"]
    if "url" in data:
        slugs[data["id"]] = data["url"].rsplit("/", 1)[-1]
    return slugs[data["id"]]


def _print_table(stack: Stack, took_ms: Mapping[str, float]) -> None:
    listed = files.listed(list(files.read(stack, HOST)))
    news, shards = {url.rsplit("/", 1)[-1] for url in listed.news}, {
        url.rsplit("/", 1)[-1]: name for url, name in listed.found_in.items()
    }  # fmt: skip
    table = Table(box=box.SIMPLE_HEAD, title=f"The articles of {HOST}", title_justify="left", title_style="bold")
    for heading in ("Article", "What happened", "News sitemap", "Shard"):
        table.add_column(heading, no_wrap=True)
    table.add_column("Event to file", justify="right", no_wrap=True)
    for slug, happened in _STORIES.items():
        table.add_row(
            slug, happened, "yes" if slug in news else "no", shards.get(slug, "none"), f"{took_ms.get(slug, 0):.0f} ms"
        )
    console.print(table)


def _print_invitation(url: str) -> None:
    console.print(f"""
Serving until Ctrl-C. Look at
  {url}
  {url}sitemap.xml
  {url}sitemap-news.xml

Publish something yourself (paste into another terminal), and look again:
""", markup=False)  # fmt: skip
    console.print(snippet(url), markup=False)


def snippet(url: str) -> str:
    """A command that publishes an article through the webhook, signature computed."""
    return f"""python3 - <<'END'
import base64, hashlib, hmac, json, time, urllib.request
now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
body = json.dumps({{"type": "article.published", "timestamp": now, "data": {{
    "id": "hello", "url": "https://{HOST}/news/hello", "title": "Hello from the terminal", "published_at": now}}}}).encode()
head = f"msg_{{time.time_ns()}}.{{int(time.time())}}"
key = base64.b64decode("{SECRET}")
signature = base64.b64encode(hmac.new(key, head.encode() + b"." + body, hashlib.sha256).digest()).decode()
print(urllib.request.urlopen(urllib.request.Request("{url}webhooks/{HOST}/cms", body, {{
    "content-type": "application/json", "webhook-id": head.split(".")[0], "webhook-timestamp": head.split(".")[1],
    "webhook-signature": "v1," + signature}})).read().decode())
END"""
