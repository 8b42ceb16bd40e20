"""`stoppress send`: the stages of a test article, the output for an unreached stage, and the printed programs."""

import base64
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress_cli.app import app
from tests.cli.test_commands_as_typed import _get, serving

pytestmark = pytest.mark.moto

HOST, STRICT, SHUT = "www.example.com", "strict.example.com", "shut.example.com"
SECRET, OTHER = (
    "whsec_c3RvcHByZXNzLXNlY3JldC0yNGJ5dGU=",
    base64.b64encode(b"more bytes than a block of SHA-256" * 3).decode(),
)
SITES: list[dict[str, Any]] = [
    {
        "host": HOST,
        "publication": "News",
        "sources": {"cms": {"secret": "cms"}, "bus": {}, "ghost": {"adapter": "ghost", "secret": "cms"}},
    },
    {
        "host": STRICT,
        "publication": "News",
        "sources": {
            "cms": {"secret": "cms"},
            "token": {"secret": "cms", "settings": {"signature": "query-token"}},
            "lost": {"secret": "lost"},
        },
        "rules": [{"exclude": "news", "path": "/stoppress-test-*"}],
    },
    {
        "host": SHUT,
        "publication": "News",
        "sources": {"cms": {"secret": "cms"}},
        "rules": [{"exclude": "all", "path": "/stoppress-test-*"}],
    },
]
LISTED = ["recorded", "listed in sitemap-news.xml", "named in the index"]


@dataclass
class Served:
    url: str

    def send(self, *arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, ["send", *arguments, "--local", self.url])
        return result.exit_code, result.stdout, result.stderr

    def lists(self, page: str) -> bool:
        """Return True if a news sitemap or a shard of the page's site lists it."""
        host = page.split("/")[2]
        names = ("sitemap-news.xml", f"sitemap-{datetime.now(UTC):%Y-%m}.xml")
        return any(page in _get(f"{self.url}{host}/{name}") for name in names)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a stack with the sites from its own process."""
    folder = tmp_path_factory.mktemp("up")
    secrets = [{"secret": {"name": f"webhooks/{site['host']}/cms", "value": f"{SECRET} {OTHER}"}} for site in SITES]
    steps: list[dict[str, Any]] = [*secrets, *({"site": site} for site in SITES)]
    steps[0] = {"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"} | steps[0]
    (folder / "sites.jsonl").write_text("\n".join(map(json.dumps, steps)), encoding="utf-8")
    with serving("up", "sites.jsonl", "--port", 0, cwd=folder) as up:
        yield Served(up.url)


@contextmanager
def answering(*statuses: int, kinds: list[str] | None = None) -> Iterator[str]:
    """Yield the URL of a server that returns these statuses in turn and then 200.

    The status 0 closes the connection without an answer. `kinds` gets the type of each event.
    """
    remaining = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if kinds is not None:
                kinds.append(json.loads(body)["type"])
            if status := remaining.pop(0) if remaining else 200:
                self.send_response(status)
                self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def stages(out: str) -> list[str]:
    """Return the names of the stages that are printed with their milliseconds."""
    return re.findall(r"^ *[\d,]+ ms  (.*)$", out, re.MULTILINE)


def test_the_article_is_followed_into_the_files_and_out_of_them(served: Served) -> None:
    code, out, err = served.send(HOST)

    assert (code, err) == (0, "")
    assert f"2 values are valid: the old one ends with `stoppress secrets rotate {HOST} cms --finish --local" in out
    reached = stages(out)
    assert reached[0] == "answered 200 to article.published"
    assert set(LISTED) < set(reached)
    assert any(re.fullmatch(r"listed in sitemap-\d{4}-\d\d\.xml", stage) for stage in reached)
    assert "gone from sitemap-news.xml" in reached[-2:]
    [url] = re.findall(rf"https://{HOST}/stoppress-test-\w+", out)
    assert not served.lists(url)


def test_an_article_that_is_kept_stays_in_the_files(served: Served) -> None:
    code, out, _ = served.send(HOST, "cms", "--keep", "--json")

    printed = json.loads(out)
    assert (code, printed["missed"]) == (0, [])
    assert set(LISTED) < {stage["name"] for stage in printed["stages"]}
    assert [stage["ms"] for stage in printed["stages"]] == sorted(stage["ms"] for stage in printed["stages"])
    assert served.lists(printed["url"])


def test_a_source_with_a_token_can_be_tested_and_a_rule_keeps_a_file_out(served: Served) -> None:
    code, out, err = served.send(STRICT, "token")

    assert (code, err) == (0, "")
    reached = stages(out)
    assert "listed in sitemap-news.xml" not in reached
    assert any(stage.startswith("kept out of the news sitemap by rule 1 of the site") for stage in reached)
    assert any(re.fullmatch(r"listed in sitemap-\d{4}-\d\d\.xml", stage) for stage in reached)


def test_a_stage_that_is_not_reached_is_reported_with_reason_and_next_command(served: Served) -> None:
    code, out, err = served.send(SHUT)

    assert (code, err) == (1, "")
    assert "not reached  listed in any file: rule 1 of the site" in out
    assert re.search(
        rf"^see why: stoppress explain https://{SHUT}/stoppress-test-\w+ --local {served.url}; ", out, re.MULTILINE
    )
    assert "answered 200 to article.deleted" in stages(out)  # it is removed all the same


def test_an_article_is_retried_and_reported_missing_after_the_given_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoppress_cli.commands.send._POSTS_EVERY_S", 0.2)
    with answering(404, 503) as elsewhere:
        code, out, _ = served.send(HOST, "--timeout-s", "3", "--api", elsewhere)

    assert (code, stages(out)) == (1, ["answered 200 to article.published", "answered 200 to article.deleted"])
    assert "not reached  recorded" in out


@pytest.mark.parametrize(
    ("answers", "code", "is_named"),
    [([0], 2, False), ([503], 1, False), ([200, 0], 2, True), ([200, 401], 1, True)],
    ids=str,
)
def test_an_article_that_may_be_listed_is_removed_or_reported_with_the_command(
    answers: list[int], code: int, is_named: bool, served: Served
) -> None:
    kinds: list[str] = []
    with answering(*answers, kinds=kinds) as elsewhere:
        ended, out, err = served.send(HOST, "--timeout-s", "1", "--api", elsewhere)

    assert (ended, kinds) == (code, ["article.published", "article.deleted"])
    [url] = re.findall(rf"^(https://{HOST}/stoppress-test-\w+)$", out, re.MULTILINE)
    assert (f"`stoppress forget {url} --local {served.url}`" in err) is is_named


def test_a_refusal_of_the_webhook_is_quoted(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoppress.aws.secrets.load", lambda _: [OTHER.lower()])

    code, out, _ = served.send(HOST)

    assert (code, stages(out)) == (1, [])
    assert f"{served.url}webhooks/{HOST}/cms answers 401" in out
    assert "webhook-signature does not match" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "this stack has 3 sites: give the host of one. The stack's sites: "),
        (["www.example.org"], "`stoppress sites put` adds a site"),
        ([STRICT], f"name a source of {STRICT} to test, one of cms, token, lost"),
        ([HOST, "nope"], f"name a source of {HOST} to test, one of cms"),
        ([HOST, "ghost"], f"name a source of {HOST} to test, one of cms"),
        ([STRICT, "lost"], f"the secret stoppress/stoppress/webhooks/{STRICT}/lost cannot be read"),
        ([HOST, "--api", "http://127.0.0.1:9"], "no answer from http://127.0.0.1:9/webhooks/"),
        ([HOST, "--api", "hooks'example"], "is no address of an API"),
        ([STRICT, "token", "--print", "curl"], "--print supports Standard Webhooks only"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_source_that_cannot_be_tested_is_reported(arguments: list[str], words: str, served: Served) -> None:
    code, _, err = served.send(*arguments)

    assert code == 2
    assert words in err


# How each program is run.
PROGRAMS = {"curl": "sh", "node": "node", "php": "php", "python": "python3"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_printed_program_posts_a_valid_event(program: str, served: Served, tmp_path: Path) -> None:
    needed = [PROGRAMS[program], *(["curl", "openssl"] if program == "curl" else [])]
    if missing := [name for name in needed if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed, so the program for {program} was not run")
    code, text, _ = served.send(HOST, "cms", "--print", program)
    assert code == 0
    assert SECRET not in text
    (tmp_path / "send").write_text(text, encoding="utf-8")

    def answer(secret: str, *arguments: str) -> tuple[bool, str]:
        ended = subprocess.run(  # noqa: S603 - our own program
            [PROGRAMS[program], tmp_path / "send", *arguments],
            env=os.environ | {"STOPPRESS_SECRET": secret}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert SECRET not in ended.stdout + ended.stderr
        return ended.returncode == 0, ended.stdout

    for arguments, action in (([], "publish"), (["article.deleted"], "remove")):
        succeeded, printed = answer(SECRET, *arguments)
        assert succeeded, printed
        assert '"status": "queued"' in printed
        assert f'"action": "{action}"' in printed
    for secret in (SECRET.rstrip("="), OTHER):
        succeeded, printed = answer(secret)
        assert succeeded, printed
    succeeded, printed = answer("whsec_c29tZWJvZHktZWxzZXMtc2VjcmV0")
    assert not succeeded
    assert "webhook-signature does not match" in printed


def test_the_program_for_curl_passes_the_key_to_no_other_program_as_an_argument(served: Served, tmp_path: Path) -> None:
    if missing := [name for name in ("curl", "openssl") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed, so the program was not run")
    _, text, _ = served.send(HOST, "cms", "--print", "curl")
    (tmp_path / "send").write_text(text, encoding="utf-8")
    for name in ("curl", "openssl"):
        wrapper = tmp_path / name
        wrapper.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\nexec {shutil.which(name)} "$@"\n')
        wrapper.chmod(0o755)
    environment = os.environ | {"STOPPRESS_SECRET": SECRET, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", tmp_path / "send"], env=environment, check=True, timeout=60)  # noqa: S603, S607 - our own program

    arguments = (tmp_path / "arguments").read_text()
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    assert "webhook-signature" in arguments
    assert key.hex() not in arguments
    assert SECRET.removeprefix("whsec_") not in arguments
