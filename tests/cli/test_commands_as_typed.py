"""Every command of `--help`, with arguments as a user would type them.

Commands for a stack use the one that `stoppress up` serves.
"""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer.main
from typer.testing import CliRunner

from stoppress.aws import clients
from stoppress_cli.app import app
from stoppress_cli.local.template import REGION
from stoppress_cli.options import EFFECTS
from tests.support.check_good_site import BASE, NOW, good

pytestmark = pytest.mark.moto

ROOT = Path(__file__).parents[2]
HOST = "www.example.com"
OTHER = {"host": "www.example.org", "publication": "Another", "sources": {"wire": {"secret": "wire"}}}
PAGE = f"https://{HOST}/news/flood"
# Far more than a loaded machine needs: a command that hangs must end.
STARTED_S_MAX = 300
WRITTEN_S_MAX = 300
BARE_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
    "HOME": os.devnull,
    "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("shared", "cli")),
}
FEED = "<rss version='2.0'><channel><item><title>A</title><link>/a</link></item></channel></rss>"
FETCHED = '66.249.66.1 - - [20/Nov/2026:12:00:00 +0000] "GET /sitemap.xml HTTP/1.1" 304 0 "-" "Googlebot/2.1"\n'
SIGNED = {
    "id": "a request",
    "scheme": "bearer",
    "secrets": ["secret"],
    "headers": {"authorization": "Bearer secret"},
    "body": "{}",
    "now": NOW,
}


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def typed(*arguments: object, cwd: Path, env: Mapping[str, str] = BARE_ENVIRONMENT) -> Answer:
    """Run `stoppress …` in a folder and return its answer."""
    command = [sys.executable, "-m", "stoppress_cli", *map(str, arguments)]
    ended = subprocess.run(  # noqa: S603 - our own code
        command, cwd=cwd, env=dict(env), capture_output=True, text=True, timeout=120, check=False
    )
    return Answer(ended.returncode, ended.stdout, ended.stderr)


@dataclass
class Serving:
    """A command that serves: its URL, its output until it served and after it ended, and the id of a quarantined event."""

    url: str
    printed: str
    quarantined: str = ""


@contextmanager
def serving(*arguments: object, cwd: Path, env: Mapping[str, str] = BARE_ENVIRONMENT) -> Iterator[Serving]:
    """Run a command that serves until Ctrl-C, which ends it with status 0."""
    command = [sys.executable, "-m", "stoppress_cli", *map(str, arguments)]
    with subprocess.Popen(  # noqa: S603 - our own code
        command, cwd=cwd, env=dict(env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            served = wait_until_served(process)
            yield served
            process.send_signal(signal.SIGINT)
            assert process.wait(STARTED_S_MAX) == 0
            assert process.stdout
            served.printed += process.stdout.read()
        finally:
            process.kill()


def wait_until_served(process: "subprocess.Popen[str]") -> Serving:
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if served := re.search(r"http://127\.0\.0\.1:\d+/", line):
            _get(served[0])  # answered once Ctrl-C is waited for
            return Serving(served[0], printed)
    pytest.fail(f"it ended instead of serving: {printed}")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Run `stoppress up` with odd AWS settings, a second site, a published article and an event in quarantine."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "other.json").write_text(json.dumps(OTHER))
    with serving("up", "--port", 0, cwd=folder, env=BARE_ENVIRONMENT | odd_settings(folder)) as served:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _put_event(served, id="1", url=PAGE, title="Flood", published_at=now)
        _put_event(served, id="7", url=f"https://{HOST}/untitled", version="x")  # it cannot be applied
        assert typed("sites", "put", "other.json", "--yes", "--local", served.url, cwd=folder).code == 0
        deadline = time.monotonic() + WRITTEN_S_MAX
        while PAGE not in _get(f"{served.url}sitemap-news.xml") or not _get(f"{served.url}{OTHER['host']}/sitemap.xml"):
            assert time.monotonic() < deadline, "the article is in no file, or the second site has none"
            time.sleep(0.2)
        listed = typed("quarantine", "list", "--json", "--local", served.url, cwd=ROOT)
        [served.quarantined] = [item["id"] for item in json.loads(listed.out)]
        yield served


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return ""


def _put_event(served: Serving, **detail: str) -> None:
    session = boto3.session.Session("id", "key", region_name=REGION)
    client = session.client("events", endpoint_url=served.url)
    text = json.dumps({"site": HOST, **detail})
    [bus] = [bus["Name"] for bus in client.list_event_buses()["EventBuses"] if bus["Name"] != "default"]
    client.put_events(
        Entries=[{"Source": "bus", "DetailType": "article.published", "Detail": text, "EventBusName": bus}]
    )
    client.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the commands get."""
    site = tmp_path / "site"
    site.mkdir()
    for name, body in good().files.items():
        (site / name).write_bytes(body)
    (tmp_path / "feed.xml").write_text(FEED)
    (tmp_path / "old.xml").write_text(f"<urlset><url><loc>{PAGE}</loc></url></urlset>")
    (tmp_path / "site.json").write_text(json.dumps({"host": "new.example.org", "publication": "New"}))
    (tmp_path / "requests.json").write_text(json.dumps([SIGNED]))
    (tmp_path / "delivery.json").write_text(json.dumps({"type": "article.deleted", "data": {"id": "1"}}))
    (tmp_path / "access.log").write_text(FETCHED)
    (tmp_path / "publish.jsonl").write_text((ROOT / "tests/scenarios/publish.jsonl").read_text())
    return tmp_path


LOCAL: Any = ["--local", "UP"]
# By command: its arguments, the exit code, and words of what it prints. UP is where `stoppress up` serves, ID what is in quarantine.
CASES: dict[str, tuple[list[str], int, str]] = {
    "play": (["publish.jsonl", "--out", "out"], 0, "0 differences"),
    "preflight": (["--profile", "nobody"], 2, "unknown  credentials: there is no AWS profile 'nobody'"),
    "status": (LOCAL, 1, "stoppress quarantine list --site"),
    "doctor": ([HOST, "--connect", "127.0.0.1:1", *LOCAL], 1, "fault       certificate: the server cannot be reached"),
    "tail": ([HOST, "--seconds", "0", *LOCAL], 0, "  listed       publish  Flood  "),
    "explain": ([PAGE, *LOCAL], 0, "sitemap-news.xml"),
    "sites page": ([HOST, *LOCAL], 0, f"/sites/{HOST}/"),
    "send": ([HOST, "cms", *LOCAL], 0, "gone from sitemap-news.xml"),
    "sites robots": ([HOST, *LOCAL], 0, f"Sitemap: https://{HOST}/sitemap.xml"),
    "sites files": ([HOST, *LOCAL], 0, f"{HOST}/sitemap.xml"),
    "check": (["site", "--base-url", BASE, "--now", NOW], 0, "no findings"),
    "crawlers": (["access.log", "--site", HOST, *LOCAL], 0, "crawler Googlebot; files index; statuses 304×1"),
    "redrive": (LOCAL, 0, "0 stay"),
    "rebuild": (LOCAL, 0, "rewrites queue"),
    "reconcile": (["--dry-run", *LOCAL], 0, ""),
    "restore": (["stoppress-Table", "--dry-run", *LOCAL], 0, "0 items that it lacks"),
    "forget": ([PAGE, "--dry-run", *LOCAL], 1, PAGE),
    "import": (["old.xml", "--site", HOST, "--dry-run", *LOCAL], 0, "1 would be listed"),
    "compare": (["old.xml", "--site", HOST, *LOCAL], 0, "1 in both"),
    "feeds show": (LOCAL, 0, ""),
    "feeds try": (["feed.xml", "--url", f"{BASE}feed.xml"], 0, "1 entry"),
    "adapters": ([], 0, "standard"),
    "adapters try": (["standard", "delivery.json"], 0, "apply delete"),
    "adapters verify": (["requests.json"], 0, "valid    a request"),
    "quarantine list": (LOCAL, 1, "title: is missing"),
    "quarantine show": (["ID", *LOCAL], 0, "title: is missing"),
    "quarantine retry": (["--all", "--dry-run", *LOCAL], 1, "1 stay"),
    "quarantine drop": (["--all", "--dry-run", *LOCAL], 0, "1"),
    "sites list": (LOCAL, 0, HOST),
    "sites show": ([HOST, *LOCAL], 0, f'"host": "{HOST}"'),
    "sites check": (["site.json"], 0, "new.example.org: 0 feeds, no errors"),
    "sites put": (["site.json", "--dry-run", *LOCAL], 0, "new.example.org is a new site"),
    "sites remove": ([HOST, "--dry-run", *LOCAL], 0, f"{HOST}/sitemap.xml: stays"),
    "sites history": ([HOST, *LOCAL], 0, "1  "),
    "sites rollback": ([HOST, "1", "--dry-run", *LOCAL], 0, "has this configuration already"),
    "sites schema": ([], 0, '"$schema"'),
    "secrets put": ([str(OTHER["host"]), "wire", *LOCAL], 0, "webhook-signature"),
    "secrets rotate": ([str(OTHER["host"]), "wire", *LOCAL], 0, "the old one stays valid"),
}
# These serve and have their own tests.
SERVING = {"up", "demo", "listen"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every command by its words."""
    below = getattr(command, "commands", {})
    if path and (not below or command.invoke_without_command):
        yield " ".join(path)
    for name, child in below.items():
        yield from commands(child, (*path, name))


def command_of(command: Any, words: str) -> Any:
    for word in words.split():
        command = command.commands[word]
    return command


def invoke(command: str, up: Serving, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    texts = {"UP": up.url, "ID": up.quarantined}
    monkeypatch.chdir(folder)
    clients.forget()
    return CliRunner().invoke(app, [*command.split(), *(texts.get(word, word) for word in CASES[command][0]), *options])


# These print a stream, a schema that is JSON already, or the steps of a scenario.
WITHOUT_JSON = SERVING | {"play", "sites schema", "tail"}


@pytest.mark.parametrize("command", sorted(set(commands(typer.main.get_command(app))) - SERVING))
def test_every_command_works_and_can_print_json(
    command: str, up: Serving, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command in CASES, f"give `stoppress {command}` a case, with arguments as a user would type them"
    _, code, words = CASES[command]
    done = invoke(command, up, folder, monkeypatch)

    assert (done.exit_code, done.stderr) == (code, "")
    assert words in done.stdout
    if command not in WITHOUT_JSON | {"secrets put"}:  # a secret can be created once
        in_json = invoke(command, up, folder, monkeypatch, "--json")
        assert in_json.exit_code == code
        assert isinstance(json.loads(in_json.stdout), dict | list)


# Prints the modules that are imported until the first call.
STARTED = """
import sys
from stoppress_cli.app import app
import botocore.httpsession
def send(self, request):
    print(*sorted(name for name in sys.modules if "." not in name))
    raise SystemExit(9)
botocore.httpsession.URLLib3Session.send = send
app()
"""
LOCAL_STACK_ALONE = {"moto", "samtranslator", "flask", "werkzeug", "time_machine"}


def test_a_command_on_a_deployed_stack_makes_its_first_call_without_moto(tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"}
    ended = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", STARTED, "status", "--stack", "stoppress"],
        cwd=tmp_path,
        env=BARE_ENVIRONMENT | keys,
        capture_output=True,
        text=True,
        timeout=STARTED_S_MAX,
        check=False,
    )

    assert ended.returncode == 9, ended.stderr
    modules = set(ended.stdout.split())
    assert "botocore" in modules
    assert not modules & LOCAL_STACK_ALONE


def test_the_help_lists_the_commands_by_name_with_their_effects() -> None:
    help_text, *same = (CliRunner().invoke(app, words).output for words in (["--help"], ["-h"], []))
    rows = re.findall(r"^  ([a-z]+) +([a-z]+ [a-zA-Z]+)  ", help_text, re.MULTILINE)

    assert same == [help_text] * 2
    assert dict(rows).keys() == typer.main.get_command(app).commands.keys()  # type: ignore[attr-defined]
    assert rows == sorted(rows)
    assert {"play": "this machine", "status": "reads stack", "quarantine": "writes stack"}.items() <= dict(rows).items()


@pytest.mark.parametrize("words", sorted(set(commands(typer.main.get_command(app))) - {"adapters"}))
def test_the_example_in_the_help_can_be_typed(words: str) -> None:
    command = command_of(typer.main.get_command(app), words)
    example = command.example.partition(" > ")[0]

    assert command.effect in EFFECTS
    assert example.startswith(f"stoppress {words}")
    typed_words = shlex.split(example.removeprefix(f"stoppress {words}"))
    command.make_context(words, [*typed_words])
    assert ("--stack" in typed_words) == ("stack" in command.effect)


# ── a port that is taken ──


@pytest.mark.parametrize("command", ["up", "demo", "listen"])
def test_a_port_in_use_is_reported_with_the_option_for_another(command: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        answer = CliRunner().invoke(app, [command, "--port", str(taken)])

    assert answer.exit_code == 2
    assert f"port {taken} of 127.0.0.1 is in use" in answer.stderr
    assert "give another: --port 8000" in answer.stderr


# ── AWS settings of the user's ──

# A profile that is not there, endpoints where nobody answers, and a configuration that cannot be read.
ODD_SETTINGS = {
    "AWS_PROFILE": "nobody",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
    "AWS_REGION": "xx-nowhere-1",
    "AWS_DEFAULT_REGION": "xx-nowhere-1",
    "AWS_MAX_ATTEMPTS": "many",
}


def odd_settings(folder: Path) -> dict[str, str]:
    """Return ODD_SETTINGS with a malformed AWS configuration in the home folder."""
    config = folder / ".aws/config"
    config.parent.mkdir()
    config.write_text("region = eu-west-1\n[default\n", encoding="utf-8")
    return ODD_SETTINGS | {"HOME": str(folder), "AWS_CONFIG_FILE": str(config)}


@pytest.mark.parametrize(
    ("arguments", "code"), [(["play", "publish.jsonl"], 0), (["sites", "robots", HOST, *LOCAL], 0)]
)
def test_aws_settings_do_not_affect_local_commands(
    arguments: list[str], code: int, up: Serving, folder: Path, tmp_path: Path
) -> None:
    words = (word.replace("UP", up.url) for word in arguments)
    answer = typed(*words, cwd=folder, env=BARE_ENVIRONMENT | odd_settings(tmp_path))

    assert (answer.code, answer.err) == (code, "")
