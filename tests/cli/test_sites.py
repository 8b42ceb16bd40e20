"""`stoppress sites` and `stoppress secrets` on a stack of their own: what they show, ask, change and refuse."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from stoppress.aws import secrets as functions_secrets, sites
from stoppress.aws.clients import client
from stoppress_cli.app import app
from stoppress_cli.inputs.site_file import PARAMETER_BYTES_MAX
from stoppress_cli.local.functions import environment
from stoppress_cli.local.stack import Stack
from stoppress_cli.stack import find, secrets as stored_secrets, sites as commands
from tests.support.event_files import objects
from tests.support.operated import HOST, SITE, event, everything, later, operated, url
from tests.support.playing import Step

pytestmark = pytest.mark.moto

NEW = "www.example.org"
Document = dict[str, Any]


class Operator:
    """Types commands against a deployed stack, with files in a folder of their own."""

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

    def parameter(self, host: str, part: str = "") -> Any:
        name = f"{self.stack.variable('SITES_PATH')}/{host}{part}"
        return json.loads(self.stack.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])

    def put_by_hand(self, host: str, text: str, part: str = "") -> None:
        name = f"{self.stack.variable('SITES_PATH')}/{host}{part}"
        self.stack.client("ssm").put_parameter(Name=name, Value=text, Type="String", Overwrite=True)


@contextmanager
def on_a_stack(steps: list[Step], folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Operator]:
    @contextmanager
    def connected(_stack: str) -> Iterator[None]:
        yield

    def described(_stack: str) -> Any:
        address = "https://api.example.net/webhooks/www.example.com/cms"
        return {"Outputs": [{"OutputKey": "WebhookUrl", "OutputValue": address}]}

    patch.setattr(find, "deployed", connected)
    patch.setattr(find, "described", described)
    with operated(steps, folder) as stack:
        yield Operator(stack, folder)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    with on_a_stack([event(1, "1", "flood", section="sport")], tmp_path, monkeypatch) as operator:
        yield operator


# ── list, show ──


def test_the_list_has_each_site_with_its_state(run: Operator) -> None:
    done = run("sites", "list")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].split() == [HOST, "applied", "1", "0", "bus,", "cms"]

    run.put_by_hand(HOST, json.dumps({**SITE, "language": "fr"}))
    run.put_by_hand("broken.example.com", "{")
    done = run("sites", "list", "--json")
    assert done.exit_code == 2
    assert "cannot read 1 site" in done.stderr
    assert "broken.example.com: the value is not JSON" in done.stderr
    rows = {row["host"]: row for row in json.loads(done.stdout)}
    assert rows["broken.example.com"] == {
        "host": "broken.example.com", "state": "unreadable", "version": None, "sources": None, "feeds": None,
    }  # fmt: skip
    assert (rows[HOST]["state"], rows[HOST]["version"]) == ("not yet applied", 2)

    run.stack.client("ssm").delete_parameter(Name=f"{run.stack.variable('SITES_PATH')}/{HOST}")
    run.stack.client("ssm").delete_parameter(Name=f"{run.stack.variable('SITES_PATH')}/broken.example.com")
    later(run.stack, 1)
    done = run("sites", "list")
    assert done.exit_code == 1
    assert f"{HOST}  without its parameter" in done.stdout


def test_a_site_is_shown_as_put_takes_it(run: Operator) -> None:
    run.put_by_hand(HOST, json.dumps(["https://www.example.com/a.xml"]), "/feeds-10")
    run.put_by_hand(HOST, json.dumps(["https://www.example.com/b.xml"]), "/feeds-2")
    shown = run("sites", "show", HOST)
    assert shown.exit_code == 0
    feeds = ["https://www.example.com/b.xml", "https://www.example.com/a.xml"]
    assert json.loads(shown.stdout) == {**SITE, "feeds": feeds}
    full = json.loads(run("sites", "show", HOST, "--full").stdout)
    assert (full["timezone"], full["shards"]["size"], full["publication"]) == ("UTC", 2_000, "Example News")
    later(run.stack, 1)
    known = json.loads(run("sites", "show", HOST, "--json").stdout)
    assert (known["state"], known["version"], len(known["parameters"])) == ("applied", 1, 3)
    assert run("sites", "show", NEW).exit_code == 2


def test_a_parameter_that_cannot_be_used_is_shown_as_it_is(run: Operator) -> None:
    run.put_by_hand(HOST, '{"host": "www.example.com", "publicatoin": "A"}')
    shown = run("sites", "show", HOST)
    assert shown.exit_code == 2
    assert shown.stdout == '{"host": "www.example.com", "publicatoin": "A"}\n'
    assert "publicatoin: is not known here" in shown.stderr


# ── check ──


def test_check_names_all_errors_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    path.write_text(json.dumps({"host": HOST, "publicatoin": "A", "feeds": ["a", {"url": "https://a/", "own": 3}]}))
    done = CliRunner().invoke(app, ["sites", "check", str(path)])
    assert done.exit_code == 1
    places = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert places == ["publication", "feeds.0.url", "feeds.1.own", "publicatoin"]
    done = CliRunner().invoke(app, ["sites", "check", str(path), "--json"])
    assert [line.partition(":")[0] for line in json.loads(done.stdout)["errors"]] == places
    assert CliRunner().invoke(app, ["sites", "check", str(tmp_path / "none.json")]).exit_code == 2
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
            {"source": "wire", "secret": f"{prefix}/{HOST}/wire"},
            {"source": "all", "secret": f"{prefix}/shared/all"},
        ],
    }
    assert run("sites", "check", run.file(SITE)).exit_code == 0


# ── put ──


def test_put_shows_what_changes_in_the_files_and_changes_nothing_unless_confirmed(run: Operator) -> None:
    before = everything(run.stack)
    document = {
        **SITE,
        "rules": [{"exclude": "news", "section": "sport"}],
        "outputs": {"gzip": True},
        "timezone": "Europe/Paris",
    }
    for words in (["--dry-run"], []):
        done = run("sites", "put", run.file(document), *words, typed="n\n")
        assert done.exit_code == (0 if words else 1)
        assert done.stdout.splitlines()[:9] == [
            f"{HOST} has version 1; with the file:",
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
    assert run.parameter(HOST) == SITE

    done = run("sites", "put", run.file(document), "--yes")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (
        0, f"{HOST} has version 2; the files follow within a minute or two",
    )  # fmt: skip
    assert run.parameter(HOST) == document
    later(run.stack, 6)
    assert url("flood").encode() not in objects(run.stack)[f"{HOST}/sitemap-news.xml"]
    assert f"{HOST}/sitemap.xml.gz" in objects(run.stack)
    again = run("sites", "put", run.file(document))
    assert (again.exit_code, again.stdout) == (0, f"{HOST} has this configuration already, version 2\n")


def test_a_new_host_is_shown_as_new(run: Operator) -> None:
    done = run("sites", "put", run.file({"host": NEW, "publication": "Another", "robots": ""}), "--yes")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{NEW} is a new site",
        "  robots.txt: new",
        "  sitemap-news.xml: new, 1 line",
        "  sitemap.xml: new, 1 line",
        f"{NEW} has version 1; the files follow within a minute or two",
    ]
    later(run.stack, 1)
    assert sites.load(NEW).publication == "Another"
    assert f"{NEW}/robots.txt" in objects(run.stack)


def test_a_document_with_errors_is_not_put(run: Operator) -> None:
    done = run("sites", "put", run.file({**SITE, "language": "klingon"}), "--yes")
    assert done.exit_code == 2
    assert "language: give a language code" in done.stderr
    assert run.parameter(HOST) == SITE


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(
    run: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = json.dumps({**SITE, "language": "de"})

    def answered(*_: object, **__: object) -> bool:
        run.put_by_hand(HOST, theirs)
        return True

    monkeypatch.setattr("typer.confirm", answered)
    done = run("sites", "put", run.file({**SITE, "language": "fr"}))
    assert done.exit_code == 2
    assert f"somebody else has changed {HOST} since it was read" in done.stderr
    assert run.parameter(HOST) == json.loads(theirs)


def test_feeds_that_do_not_fit_go_into_further_parameters_and_come_back(run: Operator) -> None:
    feeds = [f"https://www.example.com/sections/{number:04}/a-feed-of-this-section/é.xml" for number in range(400)]
    assert run("sites", "put", run.file({**SITE, "feeds": feeds}), "--yes").exit_code == 0
    parts = commands.stored(HOST)
    assert list(parts) == ["", "feeds-1", "feeds-2", "feeds-3"]
    assert all(len(part.value.encode()) <= PARAMETER_BYTES_MAX for part in parts.values())
    assert [feed.url for feed in sites.load_all(HOST)[0][0].feeds] == feeds
    assert json.loads(run("sites", "show", HOST).stdout)["feeds"] == feeds

    assert run("sites", "put", run.file({**SITE, "feeds": feeds[:3]}), "--yes").exit_code == 0
    assert list(commands.stored(HOST)) == [""]
    assert run.parameter(HOST)["feeds"] == feeds[:3]


def test_lists_of_feeds_that_were_left_behind_do_not_come_back(run: Operator) -> None:
    run.put_by_hand(NEW, json.dumps([f"https://{NEW}/old.xml"]), "/feeds-1")
    assert run("sites", "put", run.file({"host": NEW, "publication": "Another"}), "--yes").exit_code == 0
    assert list(commands.stored(NEW)) == [""]


def test_a_document_that_no_parameter_holds_is_refused(run: Operator) -> None:
    done = run("sites", "check", run.file({**SITE, "robots": "# " + "é" * 5_000}))
    assert done.exit_code == 1
    assert "bytes without its feeds, and a parameter holds 8,192" in done.stdout
    done = run(
        "sites",
        "check",
        run.file({**SITE, "feeds": [f"https://{HOST}/{number:05}/rss.xml" for number in range(4_000)]}),
    )
    assert done.exit_code == 1
    assert "fit into an item of the table: name fewer feeds" in done.stdout


# ── remove ──


def waiting(run: Operator, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that `remove` makes; the stack's time goes by in them."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        later(run.stack, seconds / 60)

    removing = commands.remove
    monkeypatch.setattr(commands, "remove", lambda *given, **options: removing(*given, **options, pause=pause))
    return pauses


@pytest.mark.parametrize("delete_files", [False, True])
def test_a_removed_site_is_gone_and_its_files_stay_unless_told_otherwise(
    run: Operator, monkeypatch: pytest.MonkeyPatch, *, delete_files: bool
) -> None:
    pauses = waiting(run, monkeypatch)
    run.put_by_hand(HOST, "[]", "/feeds-1")
    before = everything(run.stack)
    words = ["--delete-files"] if delete_files else []
    done = run("sites", "remove", HOST, "--dry-run", *words)
    assert done.exit_code == 0
    assert f"/{HOST}/feeds-1: is deleted" in done.stdout
    assert f"/{HOST}/sitemap.xml: {'is deleted' if delete_files else 'stays, and nothing changes it'}" in done.stdout
    assert run("sites", "remove", HOST, *words, typed="n\n").exit_code == 1
    assert everything(run.stack) == before

    done = run("sites", "remove", HOST, "--yes", *words)
    assert done.exit_code == 0
    assert pauses == [150]
    assert (
        f"aws secretsmanager delete-secret --secret-id {run.stack.variable('SECRETS_PATH')}/{HOST}/newsroom"
        in done.stdout
    )
    later(run.stack, 3 * 24 * 60)
    assert objects(run.stack) == ({} if delete_files else before[1])
    assert run("retire").stdout == "every site has its parameter\n"
    assert run("sites", "list").stdout.split() == ["host", "state", "version", "feeds", "sources"]
    assert run("sites", "remove", HOST, "--yes").exit_code == 2


def test_a_removal_that_was_interrupted_goes_on(run: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    run.stack.client("ssm").delete_parameter(Name=f"{run.stack.variable('SITES_PATH')}/{HOST}")
    later(run.stack, 1)
    pauses = waiting(run, monkeypatch)
    assert run("sites", "remove", HOST, "--yes").exit_code == 0
    assert pauses == []
    assert run("retire").stdout == "every site has its parameter\n"


def test_a_site_that_somebody_puts_again_meanwhile_stays(run: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    before = objects(run.stack)
    removing = commands.remove

    def put_again(_seconds: float) -> None:
        run.put_by_hand(HOST, json.dumps(SITE))

    monkeypatch.setattr(commands, "remove", lambda *given, **options: removing(*given, **options, pause=put_again))
    done = run("sites", "remove", HOST, "--yes", "--delete-files")
    assert done.exit_code == 2
    assert f"somebody else has put {HOST} again" in done.stderr
    later(run.stack, 2)
    assert objects(run.stack) == before
    assert run("sites", "list").exit_code == 0


def test_files_that_a_removal_left_can_still_be_deleted(run: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(run, monkeypatch)
    assert run("sites", "remove", HOST, "--yes").exit_code == 0
    assert objects(run.stack)
    assert run("sites", "remove", HOST, "--yes", "--delete-files").exit_code == 0
    assert objects(run.stack) == {}
    assert run("sites", "remove", HOST, "--yes", "--delete-files").exit_code == 2


@pytest.mark.parametrize("host", ["", "/", f"{HOST}/", f"{HOST}/feeds-1", "*"])
def test_only_a_whole_host_is_removed(run: Operator, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    waiting(run, monkeypatch)
    run.put_by_hand(HOST, "[]", "/feeds-1")
    done = run("sites", "remove", host, "--yes", "--delete-files")
    assert done.exit_code == 2
    assert f"there is no site {host!r}: give one of {HOST}" in done.stderr


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


@pytest.mark.parametrize(("source", "start", "words"), SCHEMES, ids=lambda value: str(value)[:40])
def test_a_secret_is_made_in_the_form_that_the_source_needs(
    run: Operator, source: Document, start: str, words: str
) -> None:
    run("sites", "put", run.file({**SITE, "sources": {"wire": {"secret": "wire"} | source}}), "--yes")
    done = run("secrets", "put", HOST, "wire")
    assert done.exit_code == 0
    [value] = valid(run, f"{HOST}/wire")
    assert value.startswith(start)
    assert f"  secret   {value}\n" in done.stdout
    assert f"  address  https://api.example.net/webhooks/{HOST}/wire\n" in done.stdout
    assert words in done.stdout

    again = run("secrets", "put", HOST, "wire")
    assert again.exit_code == 2
    assert f"stoppress secrets rotate {HOST} wire" in again.stderr
    assert value not in again.output


def test_a_value_that_the_operator_brings_is_not_shown(run: Operator) -> None:
    run("sites", "put", run.file({**SITE, "sources": {"wire": {"secret": "wire", "adapter": "ghost"}}}), "--yes")
    for wrong in ("", " \n"):
        assert run("secrets", "put", HOST, "wire", "--stdin", typed=wrong).exit_code == 2
    done = run("secrets", "put", HOST, "wire", "--stdin", typed="a phrase with spaces\n")
    assert done.exit_code == 0
    assert "a phrase with spaces" not in done.stdout
    assert valid(run, f"{HOST}/wire") == ["a phrase with spaces"]
    run("secrets", "rotate", HOST, "wire", "--stdin", typed="[another")
    assert valid(run, f"{HOST}/wire") == ["[another", "a phrase with spaces"]


@pytest.mark.parametrize(
    ("settings", "value"), [({}, "not base64!"), ({"signature": "basic"}, "a-password-without-user")], ids=str
)
def test_a_value_that_the_signature_cannot_use_is_refused(run: Operator, settings: Document, value: str) -> None:
    run("sites", "put", run.file({**SITE, "sources": {"wire": {"secret": "wire", "settings": settings}}}), "--yes")
    done = run("secrets", "put", HOST, "wire", "--stdin", typed=value)
    assert done.exit_code == 2
    assert "the secret is not" in done.stderr
    assert value not in done.output


def test_both_secrets_are_valid_until_the_rotation_ends(run: Operator) -> None:
    old = valid(run, f"{HOST}/newsroom")
    done = run("secrets", "rotate", HOST, "cms")
    new, *rest = valid(run, f"{HOST}/newsroom")
    assert rest == old
    assert new in done.stdout
    assert old[0] not in done.stdout
    assert run("secrets", "rotate", HOST, "cms", "--finish", typed="n\n").exit_code == 1
    assert valid(run, f"{HOST}/newsroom") == [new, *old]
    done = run("secrets", "rotate", HOST, "cms", "--finish", "--yes")
    assert "1 old value taken out" in done.stdout
    assert valid(run, f"{HOST}/newsroom") == [new]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["put", NEW, "cms"], "no parameter"),
        (["put", HOST, "cmss"], "its sources are cms, bus"),
        (["put", HOST, "bus"], "takes no webhooks"),
    ],
    ids=str,
)
def test_a_secret_belongs_to_a_source_that_needs_one(run: Operator, words: list[str], reason: str) -> None:
    done = run("secrets", *words)
    assert done.exit_code == 2
    assert reason in done.stderr


@pytest.mark.parametrize("words", [("put", NEW), ("rotate", HOST)], ids=["put", "rotate"])
def test_a_generated_value_is_stored_only_if_it_can_be_shown(
    run: Operator, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    run.put_by_hand(NEW, json.dumps({**SITE, "host": NEW}))
    before = valid(run, f"{HOST}/newsroom")

    def expired(_stack: str) -> Any:
        raise find.BadRequest("the AWS credentials have expired: sign in again")

    with monkeypatch.context() as patched:
        patched.setattr(find, "described", expired)
        assert run("secrets", *words, "cms").exit_code == 2
    assert valid(run, f"{HOST}/newsroom") == before
    assert run("secrets", "put", NEW, "cms").exit_code == 0


@pytest.mark.parametrize("words", [[], ["--finish", "--yes"]], ids=["rotate", "finish"])
def test_a_rotation_that_meets_another_one_says_so(
    run: Operator, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    name = f"{run.stack.variable('SECRETS_PATH')}/{HOST}/newsroom"
    manager = run.stack.client("secretsmanager")
    assert run("secrets", "rotate", HOST, "cms").exit_code == 0
    writing = stored_secrets._text

    def write_after_another(values: list[str]) -> str:
        manager.put_secret_value(SecretId=name, SecretString="whsec_c29tZWJvZHktZWxzZS1yb3RhdGVzLWl0")
        return writing(values)

    monkeypatch.setattr(stored_secrets, "_text", write_after_another)
    done = run("secrets", "rotate", HOST, "cms", *words)
    assert done.exit_code == 2
    assert f"somebody else wrote the secret {name} in the same moment" in done.stderr


def test_a_secret_that_is_not_there_cannot_be_rotated(run: Operator) -> None:
    client("secretsmanager").delete_secret(
        SecretId=f"{run.stack.variable('SECRETS_PATH')}/{HOST}/newsroom", ForceDeleteWithoutRecovery=True
    )
    done = run("secrets", "rotate", HOST, "cms")
    assert done.exit_code == 2
    assert f"`stoppress secrets put {HOST} cms` makes it" in done.stderr
