"""`stoppress sites` and `stoppress secrets` on a stack: output, questions, changes and refusals."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from stoppress.aws import secrets as functions_secrets
from stoppress_cli.app import app
from stoppress_cli.commands import secrets as stored_secrets
from stoppress_cli.commands.sites import write_sites
from stoppress_cli.local.process import environment
from stoppress_cli.local.stack import Stack
from tests.support.event_files import items, objects
from tests.support.operated import HOST, SITE, event, everything, later, operated, pretend_deployed, url
from tests.support.playing import Step

pytestmark = pytest.mark.moto

NEW = "www.example.org"
Document = dict[str, Any]


class Operator:
    """Types commands against a deployed stack, with files in a folder."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack, self.folder = stack, folder

    def __call__(self, *words: object, typed: str = "") -> Result:
        done = CliRunner().invoke(app, [*map(str, words), "--stack", self.stack.name], input=typed)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    def file(self, document: object) -> Path:
        path = self.folder / "site.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document, indent=2))
        return path

    def document(self, host: str = HOST) -> Any:
        return json.loads(self("sites", "show", host).stdout)

    def put(self, document: Document) -> Result:
        return self("sites", "put", self.file(document), "--yes")


@contextmanager
def on_a_stack(steps: list[Step], folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Operator]:
    pretend_deployed(patch)
    with operated(steps, folder) as stack:
        yield Operator(stack, folder)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    with on_a_stack([event(1, "1", "flood", section="sport")], tmp_path, monkeypatch) as operator:
        yield operator


# ── list, show, history ──


def test_the_list_has_each_site_with_its_state(run: Operator) -> None:
    done = run("sites", "list")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].split() == [HOST, "applied", "1", "0", "bus,", "cms"]

    assert run.put({**SITE, "language": "fr"}).exit_code == 0
    run.stack.put_site("broken.example.com", "{")
    run.stack.put_site(NEW, json.dumps({**SITE, "host": NEW}))
    run.stack.put_site(NEW, '{"host": 1}')
    done = run("sites", "list", "--json")
    assert done.exit_code == 2
    assert "broken.example.com: version 1 cannot be read: " in done.stderr
    rows = {row["host"]: (row["state"], row["version"], row["feeds"]) for row in json.loads(done.stdout)}
    assert rows == {
        "broken.example.com": ("unreadable", None, None),
        HOST: ("not yet applied", 2, 0),
        NEW: ("unreadable", 1, 0),
    }
    later(run.stack, 2)
    assert [row["state"] for row in json.loads(run("sites", "list", "--json").stdout)][1] == "applied"


def test_an_unreadable_version_is_shown_unchanged(run: Operator) -> None:
    text = '{"host": "www.example.com", "publicatoin": "A"}'
    run.stack.put_site(HOST, text)
    shown = run("sites", "show", HOST)
    assert (shown.exit_code, shown.stdout) == (2, f"{text}\n")
    assert "publicatoin: is not known here" in shown.stderr
    run.stack.put_site(HOST, text.replace("A", "B"))
    assert run("sites", "rollback", HOST, "--yes").exit_code == 0
    assert run.document() == SITE
    refused = run("sites", "rollback", HOST, "2", "--yes")
    assert (refused.exit_code, "publicatoin: is not known here" in refused.stderr) == (2, True)


def test_the_history_shows_the_author_of_each_version(run: Operator) -> None:
    run.put({**SITE, "language": "fr"})
    run("sites", "remove", HOST, "--yes")
    rows = json.loads(run("sites", "history", HOST, "--json").stdout)
    assert [(row["version"], row["is_removal"]) for row in rows] == [(3, True), (2, False), (1, False)]
    assert rows[2]["author"] == "the scenario" != rows[0]["author"] == rows[1]["author"]
    assert run("sites", "history", HOST).stdout.splitlines()[1].split()[-1] == "removed"
    assert run("sites", "history", NEW).exit_code == 1


REFUSED: dict[tuple[str, ...], str] = {
    ("show", NEW): "unknown site",
    ("rollback", HOST, "--yes"): "no such earlier version",
    ("rollback", HOST, "7", "--yes"): "no such earlier version",
    ("rollback", NEW, "--yes"): "no such earlier version",
    **{
        ("remove", host, "--yes", "--delete-files"): f"unknown site {host!r}: choose one of {HOST}"
        for host in ("", "/", f"{HOST}/", f"{HOST}/sitemap.xml", "*")
    },
}


def test_an_unknown_site_or_version_is_refused_and_nothing_changes(run: Operator) -> None:
    before = everything(run.stack)
    for words, reason in REFUSED.items():
        done = run("sites", *words)
        assert (words, done.exit_code, reason in done.stderr) == (words, 2, True), done.output
    assert everything(run.stack) == before


# ── check ──


def test_check_lists_all_errors_with_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    path.write_text(json.dumps({"host": HOST, "publicatoin": "A", "feeds": ["a", {"url": "https://a/", "own": 3}]}))
    done = CliRunner().invoke(app, ["sites", "check", str(path)])
    assert done.exit_code == 1
    places = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert places == ["publication", "feeds.0.url", "feeds.1.own", "publicatoin"]
    done = CliRunner().invoke(app, ["sites", "check", str(path), "--json"])
    assert [line.partition(":")[0] for line in json.loads(done.stdout)["errors"]] == places
    assert CliRunner().invoke(app, ["sites", "check", str(tmp_path / "none.json")]).exit_code == 2
    path.write_text(json.dumps(SITE), encoding="utf-8-sig")  # as some editors of Windows write
    assert CliRunner().invoke(app, ["sites", "check", str(path)]).exit_code == 0
    piped = CliRunner().invoke(app, ["sites", "check", "-"], input=json.dumps(SITE))
    assert (piped.exit_code, piped.stdout) == (0, f"{HOST}: 0 feeds, no errors\n")


def test_check_with_a_stack_looks_for_the_secrets(run: Operator) -> None:
    sources = {"cms": {"secret": "newsroom"}, "wire": {"secret": "wire"}, "all": {"secret": "shared/all"}, "bus": {}}
    done = run("sites", "check", run.file({**SITE, "sources": sources}), "--json")
    assert done.exit_code == 1
    prefix = run.stack.variable("SECRETS_PATH")
    assert json.loads(done.stdout) == {
        "errors": [],
        "missing_secrets": [
            {"source": "wire", "secret": f"{prefix}/webhooks/{HOST}/wire"},
            {"source": "all", "secret": f"{prefix}/webhooks/shared/all"},
        ],
    }
    assert run("sites", "check", run.file(SITE)).exit_code == 0


# ── put ──


def test_put_shows_the_changes_and_writes_only_if_confirmed(run: Operator) -> None:
    before = everything(run.stack)
    rules = [{"exclude": "news", "section": "sport"}]
    document = {**SITE, "rules": rules, "outputs": {"gzip": True}, "timezone": "Europe/Paris"}
    for words in (["--dry-run"], []):
        done = run("sites", "put", run.file(document), *words, typed="n\n")
        assert done.exit_code == (0 if words else 1)
        assert done.stdout.splitlines()[:9] == [
            f"{HOST} has version 1; with the document:",
            "1 story leaves the news sitemap, 0 enter",
            "  sitemap-2026-11.xml.gz: new",
            "  sitemap-news.xml: 1 line enters, 1 line leaves",
            "  sitemap-news.xml.gz: new",
            "  sitemap.xml: 2 lines change",
            "  sitemap.xml.gz: new",
            "For later events alone: timezone",
            *([] if words else ["Put the configuration of www.example.com? [y/N]: n"]),
        ]  # fmt: skip
    assert everything(run.stack) == before

    done = run.put(document)
    last_line = f"{HOST} has version 2; the files follow within a minute"
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, last_line)
    assert run.document() == document
    later(run.stack, 1)
    assert url("flood").encode() not in objects(run.stack)[f"{HOST}/sitemap-news.xml"]
    assert f"{HOST}/sitemap.xml.gz" in objects(run.stack)
    again = run("sites", "put", run.file(document))
    assert (again.exit_code, again.stdout) == (0, f"{HOST} has this configuration already, version 2\n")


def test_a_piped_document_requires_the_yes_option(run: Operator) -> None:
    document = json.dumps({**SITE, "publication": "Another"})
    done = run("sites", "put", "-", typed=document)
    assert done.exit_code == 2
    assert "give --yes" in done.stderr
    assert run("sites", "put", "-", "--dry-run", typed=document).exit_code == 0
    assert run.document() == SITE
    assert run("sites", "put", "-", "--yes", typed=document).exit_code == 0
    assert run.document()["publication"] == "Another"
    assert run("sites", "put", "-", typed=document).exit_code == 0  # nothing to ask


def test_a_document_with_errors_is_not_put(run: Operator) -> None:
    long = [f"https://{HOST}/{number:05}/{'a' * 90}.xml" for number in range(999)]
    for setting, reason in (({"language": "klingon"}, "language: give a language code"), ({"feeds": long}, "102,400")):
        done = run.put({**SITE, **setting})
        assert (done.exit_code, reason in done.stderr) == (2, True), done.stderr
    shown = json.loads(run("sites", "show", HOST, "--json").stdout)
    assert (shown["version"], shown["author"], run.document()) == (1, "the scenario", SITE)


@pytest.mark.parametrize("words", [["put"], ["rollback"], ["remove"]], ids=str)
def test_a_concurrent_change_is_not_overwritten(
    run: Operator, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    concurrent = {**SITE, "language": "de"}
    run.put({**SITE, "language": "es"})

    def answered(*_: object, **__: object) -> bool:
        run.stack.put_site(HOST, json.dumps(concurrent))
        return True

    monkeypatch.setattr("typer.confirm", answered)
    done = run("sites", *words, run.file({**SITE, "language": "fr"}) if words == ["put"] else HOST)
    assert done.exit_code == 2
    assert HOST in done.stderr
    assert "again" in done.stderr
    assert ("the scenario wrote version 3" in done.stderr and "language" in done.stderr) or words == ["remove"]
    assert run.document() == concurrent


def test_a_rollback_puts_an_earlier_version_again(run: Operator) -> None:
    run.put({**SITE, "language": "de"})
    run.put({**SITE, "language": "fr"})
    for words, before, language in (([HOST], 3, "de"), ([HOST, 1], 4, None), ([HOST, 2], 5, "de")):
        dry = run("sites", "rollback", *words, "--dry-run")
        assert (dry.exit_code, dry.stdout.splitlines()[0]) == (0, f"{HOST} has version {before}; with the document:")
        done = run("sites", "rollback", *words, "--yes")
        assert (done.exit_code, run.document().get("language")) == (0, language)
        later(run.stack, 1)
        written = f"<news:language>{language or 'en'}<".encode()
        assert written in objects(run.stack)[f"{HOST}/sitemap-news.xml"]


# ── remove ──


def test_a_printed_command_for_a_local_stack_cannot_reach_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    assert write_sites.aws_command() == "aws"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:8000")
    assert write_sites.aws_command() == "aws --endpoint-url http://127.0.0.1:8000"


@pytest.mark.parametrize("delete_files", [False, True])
def test_the_files_of_a_removed_site_stay_unless_they_are_to_be_deleted(run: Operator, *, delete_files: bool) -> None:
    before = everything(run.stack)
    words = ["--delete-files"] if delete_files else []
    done = run("sites", "remove", HOST, "--dry-run", *words)
    assert done.exit_code == 0
    assert f"/{HOST}/sitemap.xml: {'is deleted' if delete_files else 'stays, and nothing changes it'}" in done.stdout
    assert run("sites", "remove", HOST, *words, typed="n\n").exit_code == 1
    assert everything(run.stack) == before

    done = run("sites", "remove", HOST, "--yes", *words)
    assert done.exit_code == 0
    secret = f"{run.stack.variable('SECRETS_PATH')}/webhooks/{HOST}/newsroom"
    assert f"aws secretsmanager delete-secret --secret-id {secret}" in done.stdout
    later(run.stack, 60)
    assert objects(run.stack) == ({} if delete_files else before[1])
    assert run("sites", "list").stdout.split() == ["host", "state", "version", "feeds", "sources"]
    assert run("sites", "remove", HOST, "--yes").exit_code == 2

    assert run("sites", "remove", HOST, "--yes", "--delete-files").exit_code == (2 if delete_files else 0)
    assert objects(run.stack) == {}
    assert [item for item in items(run.stack).get("file", []) if item["pk"] == f"file#{HOST}/sitemap.xml"] == [], (
        "commit marks"
    )
    assert run("sites", "rollback", HOST, "--yes").exit_code == 0
    later(run.stack, 1)
    assert objects(run.stack).keys() == before[1].keys()


# ── secrets ──

SCHEMES: list[tuple[Document, str, str]] = [
    ({}, "whsec_", "webhook-id, webhook-timestamp, webhook-signature"),
    ({"adapter": "ghost"}, "", "x-ghost-signature"),
    ({"adapter": "strapi"}, "", "Authorization: Bearer <secret>"),
    ({"settings": {"signature": "query-token"}}, "", "?token=<secret>"),
    ({"settings": {"signature": "basic"}}, "stoppress:", "user:password"),
    ({"settings": {"signature": {"header": "X-Acme", "key": "base64"}}}, "", "x-acme"),
    ({"adapter": "contentful"}, "", "the signature contentful"),
]


def valid(run: Operator, name: str) -> list[str]:
    functions_secrets.forget()
    with environment({"SECRETS_PATH": run.stack.variable("SECRETS_PATH")}):
        return functions_secrets.load(name)


def test_a_secret_is_generated_in_the_form_that_the_source_needs(run: Operator) -> None:
    sources = {f"wire-{number}": {"secret": f"wire-{number}"} | source for number, (source, _, _) in enumerate(SCHEMES)}
    assert run.put({**SITE, "sources": sources}).exit_code == 0
    for name, (_, start, words) in zip(sources, SCHEMES, strict=True):
        done = run("secrets", "put", HOST, name)
        assert done.exit_code == 0
        [value] = valid(run, f"webhooks/{HOST}/{name}")
        assert value.startswith(start)
        assert f"  secret   {value}\n" in done.stdout
        assert f"  address  https://api.example.net/webhooks/{HOST}/{name}\n" in done.stdout
        assert words in done.stdout

    again = run("secrets", "put", HOST, name)
    assert again.exit_code == 2
    assert f"stoppress secrets rotate {HOST} {name}" in again.stderr
    assert value not in again.output


def test_a_value_that_the_operator_enters_is_checked_and_not_shown(run: Operator) -> None:
    wire, basic = {"secret": "wire"}, {"secret": "basic", "settings": {"signature": "basic"}}
    sources = SITE["sources"] | {"wire": wire, "basic": basic, "ghost": {"secret": "ghost", "adapter": "ghost"}}
    run.put({**SITE, "sources": sources})
    refused: list[tuple[list[str], str, str]] = [
        ([HOST, "ghost", "--stdin"], "", "is empty"),
        ([HOST, "ghost", "--stdin"], " \n", "is empty"),
        ([HOST, "wire", "--stdin"], "not base64!", "the secret is not"),
        ([HOST, "basic", "--stdin"], "a-password-without-user", "the secret is not"),
        ([NEW, "cms"], "", "unknown site"),
        ([HOST, "cmss"], "", "its sources are cms, bus"),
        ([HOST, "bus"], "", "takes no webhooks"),
    ]
    for words, value, reason in refused:
        done = run("secrets", "put", *words, typed=value)
        assert (words, done.exit_code, reason in done.stderr) == (words, 2, True), done.output
        assert not value.strip() or value not in done.output
    assert f"`stoppress secrets put {HOST} wire` creates it" in run("secrets", "rotate", HOST, "wire").stderr
    done = run("secrets", "put", HOST, "ghost", "--stdin", typed="a phrase with spaces\n")
    assert (done.exit_code, "a phrase with spaces" in done.stdout) == (0, False)
    assert valid(run, f"webhooks/{HOST}/ghost") == ["a phrase with spaces"]
    run("secrets", "rotate", HOST, "ghost", "--stdin", typed="[another")
    assert valid(run, f"webhooks/{HOST}/ghost") == ["[another", "a phrase with spaces"]


def test_both_secrets_are_valid_until_the_rotation_ends(run: Operator) -> None:
    old = valid(run, f"webhooks/{HOST}/newsroom")
    done = run("secrets", "rotate", HOST, "cms")
    new, *rest = valid(run, f"webhooks/{HOST}/newsroom")
    assert rest == old
    assert new in done.stdout
    assert old[0] not in done.stdout
    assert f"stoppress secrets rotate {HOST} cms --finish --stack {run.stack.name}\n" in done.stdout
    assert run("secrets", "rotate", HOST, "cms", "--finish", typed="n\n").exit_code == 1
    assert valid(run, f"webhooks/{HOST}/newsroom") == [new, *old]
    done = run("secrets", "rotate", HOST, "cms", "--finish", "--yes", "--json")
    assert "1 old value taken out" in done.stderr
    ends_at = datetime.fromisoformat(json.loads(done.stdout)["old_valid_until"])
    assert timedelta(minutes=4) < ends_at - datetime.now(UTC) <= timedelta(minutes=5)
    assert valid(run, f"webhooks/{HOST}/newsroom") == [new]


@pytest.mark.parametrize("words", [[], ["--finish", "--yes"]], ids=["rotate", "finish"])
def test_a_concurrent_rotation_is_reported(run: Operator, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    name = f"{run.stack.variable('SECRETS_PATH')}/webhooks/{HOST}/newsroom"
    manager = run.stack.client("secretsmanager")
    assert run("secrets", "rotate", HOST, "cms").exit_code == 0
    writing = stored_secrets._text

    def write_after_another(values: list[str]) -> str:
        manager.put_secret_value(SecretId=name, SecretString="whsec_c29tZWJvZHktZWxzZS1yb3RhdGVzLWl0")
        return writing(values)

    monkeypatch.setattr(stored_secrets, "_text", write_after_another)
    done = run("secrets", "rotate", HOST, "cms", *words)
    assert done.exit_code == 2
    assert f"another user wrote the secret {name} at the same moment" in done.stderr
