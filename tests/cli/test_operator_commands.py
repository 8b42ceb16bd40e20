"""The operator's commands on stacks of their own: what is forgotten, what they say, and that a dry run changes nothing."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from typer.testing import CliRunner, Result

from stoppress.aws import refusals, table
from stoppress.aws.refusals import Refusal, Report
from stoppress_cli.app import app
from stoppress_cli.local import queues
from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from stoppress_cli.stack import forget as erasure, quarantine
from stoppress_cli.stack.find import in_words
from tests.support.event_files import items, objects, on_queue
from tests.support.operated import HOST, SITE, arn, event, everything, later, on_the_bus, operated, url
from tests.support.playing import Step

pytestmark = pytest.mark.moto

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
UNKNOWN = "www.example.org"
# No title: nobody can apply it.
BAD: Step = on_the_bus(id="7", url=url("flood"), version="x")
LOST: Step = on_the_bus(
    site=UNKNOWN, id="8", url=f"https://{UNKNOWN}/a", title="A", published_at="2026-11-20T12:00:00Z"
)


def test_quarantine_lists_every_site_and_what_names_none_and_drops_what_it_is_told_to(tmp_path: Path) -> None:
    with operated([BAD, LOST], tmp_path):
        kept = quarantine.kept()
        kept.sort(key=lambda one: one.site, reverse=True)
        assert [one.site for one in kept] == [HOST, "unknown"]
        assert "title" in kept[0].reason
        assert [one.id for one in quarantine.kept(reason="NO PARAMETER")] == [kept[1].id]
        assert [one.id for one in quarantine.kept(HOST)] == [kept[0].id]
        assert [one.id for one in quarantine.kept(ids=[kept[1].id[:12]])] == [kept[1].id]
        with pytest.raises(
            ValueError, match=r"^no id in quarantine begins with 'zzz': `stoppress quarantine list` has the"
        ):
            quarantine.kept(ids=["zzz"])
        with pytest.raises(ValueError, match=r"^2 ids in quarantine begin with '': give more of the id"):
            quarantine.kept(ids=[""])

        assert quarantine.drop([kept[0]]) == 1
        assert quarantine.kept() == [kept[1]]


def test_what_was_of_an_unknown_site_is_applied_once_the_site_is_there(tmp_path: Path) -> None:
    with operated([LOST], tmp_path) as stack:
        [(one, why)] = quarantine.retry(quarantine.kept(), NOON, dry_run=False)
        assert "it would come back: no parameter" in why
        assert "put the parameter of its site" in why
        assert on_queue(stack, "ArticlesQueue") == []

        parameter = json.dumps({**SITE, "host": UNKNOWN})
        stack.client("ssm").put_parameter(
            Name=f"{stack.variable('SITES_PATH')}/{UNKNOWN}", Value=parameter, Type="String"
        )
        before = everything(stack)
        assert quarantine.retry(quarantine.kept(), NOON, dry_run=True) == [(one, "")]
        assert everything(stack) == before
        assert quarantine.retry(quarantine.kept(), NOON, dry_run=False) == [(one, "")]
        assert quarantine.kept() == []
        stack.rest()
        assert f"https://{UNKNOWN}/a".encode() in objects(stack)[f"{UNKNOWN}/sitemap-news.xml"]


# ── forgetting ──


def forget(stack: Stack, target: str) -> tuple[list[str], erasure.Traces]:
    said: list[str] = []
    later(stack, 1)  # moto shows a message again a moment later only
    left = erasure.forget(target, None, stack.clock.now(), show=said.append, pause=lambda _: later(stack, 1))
    later(stack, 1)
    return said, left


def anywhere(stack: Stack, text: str) -> list[str]:
    """Where a text stands: items by their key, objects and their older versions, messages."""
    client, bucket = stack.client("s3"), stack.only("AWS::S3::Bucket").ref
    found = [f"{item['pk']} {item['sk']}" for kind in items(stack).values() for item in kind if text in str(item)]
    for row in client.list_object_versions(Bucket=bucket).get("Versions", []):
        got = client.get_object(Bucket=bucket, Key=row["Key"], VersionId=row["VersionId"])
        found += [row["Key"]] if text.encode() in got["Body"].read() else []
    for name in ("ArticlesQueue", "ArticlesDeadLetters", "Failures"):
        found += [name for body in on_queue(stack, name) if text in body]
    return sorted(set(found))


TOLD = [
    event(1, "1042", "named-person"),
    event(2, "7", "flood"),
    event(3, "1042", "named-person", title="Named person, again"),
    on_the_bus(id="1042", url=url("named-person"), version="x"),
]


REFUSED = Refusal(at=NOON, source="cms", outcome="refused", reason="title: is empty", url=url("named-person"))
REPORTED = Report(site=HOST, source="cms", at=NOON, refusals=(REFUSED,))


def test_what_is_forgotten_stands_nowhere_and_the_rest_stays(tmp_path: Path) -> None:
    refused = [event(50, "1042", "named-person", title=""), event(51, "7", "flood", title="")]
    with operated([*TOLD, *refused], tmp_path, versioned=True) as stack:
        letter = json.dumps({"detail-type": "article.published", "detail": {"site": HOST, "url": url("named-person")}})
        queues.send(arn(stack, "ArticlesDeadLetters"), letter)
        queues.send(arn(stack, "ArticlesDeadLetters"), letter.replace("named-person", "flood"))
        queues.send(arn(stack, "ArticlesDeadLetters"), REPORTED.message())
        assert len(anywhere(stack, "named-person")) > 6
        before = everything(stack)
        planned = list(erasure.gather(url("named-person"), None).lines())
        assert everything(stack) == before

        said, left = forget(stack, url("named-person"))
        assert said == planned
        assert anywhere(stack, "named-person") == []
        assert anywhere(stack, "Named person") == []
        assert not left.anything
        assert url("flood").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]
        assert len(on_queue(stack, "ArticlesDeadLetters")) == 1
        assert [refusal.url for _, refusal in refusals.stored(HOST)] == [url("flood")]


def test_a_late_publish_does_not_bring_back_what_was_forgotten(tmp_path: Path) -> None:
    with operated(TOLD, tmp_path) as stack:
        later(stack, 10)
        forget(stack, "1042")
        before = everything(stack)
        for said in ({"published_at": "2026-11-20T12:00:00Z"}, {}):
            detail = {"site": HOST, "id": "1042", "url": url("named-person"), "title": "Named person", **said}
            late = json.dumps(detail | {"version": "2026-11-20T12:02:00Z"})
            entry = {
                "Source": "cms",
                "DetailType": "article.published",
                "Detail": late,
                "Time": datetime(2026, 11, 20, 12, 2, tzinfo=UTC),
            }
            bus = stack.only("AWS::Events::EventBus").ref
            stack.client("events").put_events(Entries=[entry | {"EventBusName": bus}])
        stack.rest()
        assert stack.metrics["EventsLate"] == 2
        assert everything(stack) == before
        assert anywhere(stack, "named-person") == []


def test_an_article_is_forgotten_by_its_id_whatever_its_version_is_of(tmp_path: Path) -> None:
    with operated([event(1, "5", "numbered", version=10**6)], tmp_path) as stack:
        assert len(erasure.gather("cms#5", None).listed) == 1
        forget(stack, "cms#5")
        assert anywhere(stack, "numbered") == []
        with pytest.raises(ValueError, match="has no article '6'"):
            erasure.gather("6", None)


def test_nothing_is_erased_while_the_files_still_list_the_page(tmp_path: Path) -> None:
    with operated(TOLD, tmp_path) as stack:
        left = erasure.forget(url("named-person"), None, stack.clock.now(), show=lambda _: None, pause=lambda _: None)
        assert [one.name for one in left.listed] == ["cms#1042"]
        assert url("named-person").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]
        assert table.get(f"article#{HOST}#cms#1042") is not None
        stack.rest()
        _, left = forget(stack, url("named-person"))
        assert not left.anything


# ── as they are typed ──


UNREADABLE = {
    "broken.example.com": "{",
    "empty.example.com": "{}",
    "misspelt.example.com": '{"host": "misspelt.example.com", "publicatoin": "News"}',
}


class Run(Protocol):
    """Runs a command as it is typed."""

    def __call__(self, *words: str) -> Result: ...


@contextmanager
def served(stack: Stack) -> Iterator[Run]:
    """Runs commands against the stack as it is served."""
    server = Server(stack, "127.0.0.1", 0)
    thread = threading.Thread(target=server._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()

    def run(*words: str) -> Result:
        done = CliRunner().invoke(app, [*words, "--local", server.url.rstrip("/")])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    try:
        yield run
    finally:
        server.stop()
        thread.join()
        server.close()


@contextmanager
def typed(steps: list[Step], tmp_path: Path) -> Iterator[Any]:
    """Runs commands against a stack of their own."""
    with operated(steps, tmp_path) as stack, served(stack) as type_in:

        def run(*words: str) -> tuple[int, str]:
            done = type_in(*words)
            return done.exit_code, done.output

        run.stack = stack  # type: ignore[attr-defined]
        yield run


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A stack with an article, an item in quarantine, and three parameters that cannot be used."""
    with operated([event(1, "1", "flood"), BAD], tmp_path_factory.mktemp("broken")) as stack, served(stack) as run:
        for host, text in UNREADABLE.items():
            name = f"{stack.variable('SITES_PATH')}/{host}"
            stack.client("ssm").put_parameter(Name=name, Value=text, Type="String")
        yield run


def test_commands_tell_what_they_did_by_their_exit_code(tmp_path: Path) -> None:
    with typed([event(1, "1", "flood"), BAD], tmp_path) as run:
        before = everything(run.stack)
        code, said = run("quarantine", "list", "--json")
        [kept] = json.loads(said)
        assert (code, kept["site"]) == (1, HOST)
        shown, said = run("quarantine", "show", kept["id"][:8])
        assert shown == 0
        assert '"version": "x"' in said
        retried, said = run("quarantine", "retry", "--all", "--dry-run")
        assert retried == 1
        assert "it would come back: " in said
        assert run("quarantine", "retry")[0] == 2
        assert run("quarantine", "drop", kept["id"], "--dry-run")[0] == 0
        assert run("redrive", "--dry-run") == (0, "0 dealt with, 0 there\n")
        rebuilt, said = run("rebuild", "--dry-run")
        assert rebuilt == 0
        assert "3 files would be sent" in said
        assert run("rebuild", "sitemap-1999.xml")[0] == 2
        assert run("reconcile", "--dry-run") == (0, "0 repaired, 0 seen once\n")
        forgotten, said = run("forget", url("flood"), "--dry-run")
        assert forgotten == 1
        assert "article cms#1 is listed: it is removed first" in said
        assert run("forget", url("never-heard-of"))[0] == 0
        assert everything(run.stack) == before
        assert run("quarantine", "drop", kept["id"], "--yes")[0] == 0
        assert run("quarantine", "list")[0] == 0
        assert run("rebuild", "sitemap-news.xml")[0] == 0
        assert len(on_queue(run.stack, "RewritesQueue")) == 1


def test_watching_ends_with_the_exit_code_of_the_last_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_seconds: float) -> None:
        if quarantine.drop(quarantine.kept()) == 0:
            raise KeyboardInterrupt

    with typed([event(1, "1", "flood"), BAD], tmp_path) as run:
        monkeypatch.setattr("stoppress_cli.commands.status.time", SimpleNamespace(sleep=wait))
        code, printed = run("status", "--watch")

    assert code == 0
    assert re.findall("^1 problem$|^all is well$", printed, re.MULTILINE) == ["1 problem", "all is well"]


def test_a_site_without_a_parameter_is_listed_and_retired_on_purpose_only(tmp_path: Path) -> None:
    gone: Step = {"at": "2026-11-20T12:05:00Z", "site": {"host": HOST}, "gone": True}
    with typed([event(1, "1", "flood")], tmp_path) as run:
        stack: Stack = run.stack
        before = everything(stack)
        assert run("retire") == (0, "every site has its parameter\n")
        code, said = run("retire", HOST, "--yes")
        assert code == 2
        assert f"`stoppress sites remove {HOST}`" in said
        assert run("retire", UNKNOWN, "--yes")[0] == 2
        assert everything(stack) == before
    with typed([event(1, "1", "flood"), gone], tmp_path) as run:
        stack = run.stack
        before = everything(stack)
        code, said = run("retire")
        assert code == 1
        assert f"{HOST}  has no parameter. Put /stoppress/" in said
        assert f"stoppress retire {HOST}" in said
        code, said = run("retire", HOST, "--dry-run")
        assert code == 0
        assert "/www.example.com/sitemap-news.xml\n" in said
        assert "3 files of www.example.com stay in the bucket" in said
        assert run("rebuild", "--site", HOST, "--dry-run")[0] == 0
        assert everything(stack) == before

        assert run("retire", HOST, "--yes")[0] == 0
        assert run("retire") == (0, "every site has its parameter\n")
        assert run("retire", HOST, "--yes")[0] == 2
        assert objects(stack) == before[1]
        later(stack, 3 * 24 * 60)
        assert objects(stack) == before[1]
        assert stack.metrics["SitesGone"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["quarantine", "list"],
        ["quarantine", "list", "--json"],
        ["quarantine", "show", "{id}"],
        ["quarantine", "retry", "--all", "--dry-run"],
        ["quarantine", "drop", "--all", "--dry-run"],
        ["redrive", "--dry-run"],
        ["rebuild", "--dry-run"],
        ["rebuild", "sitemap-1999.xml"],
        ["reconcile", "--dry-run"],
        ["feeds"],
        ["feeds", "show", "--json"],
        ["retire"],
        ["status"],
        ["status", "--json"],
    ],
    ids=" ".join,
)
def test_a_command_over_all_sites_names_each_parameter_that_cannot_be_used_and_fails(
    broken: Run, words: list[str]
) -> None:
    [kept] = quarantine.kept(HOST)
    done = broken(*(word.format(id=kept.id) for word in words))
    assert done.exit_code == (1 if "status" in words else 2)
    assert done.stderr.startswith("stoppress: cannot read 3 sites: ")
    for host, reason in zip(UNREADABLE, ("not JSON", "publication: ", "publicatoin: "), strict=True):
        [line] = [line for line in done.stderr.splitlines() if host in line]
        assert line.startswith(f"  /stoppress/stoppress/sites/{host}: ")
        assert reason in line
    if "--json" in words:
        json.loads(done.stdout)


def test_a_command_over_one_site_is_about_that_site_alone(broken: Run) -> None:
    assert broken("rebuild", "--dry-run", "--site", HOST).exit_code == 0
    assert broken("reconcile", "--dry-run", "--site", HOST).stderr == ""
    done = broken("quarantine", "list", "--site", "broken.example.com")
    assert done.exit_code == 2
    assert "broken.example.com" in done.stderr
    assert "empty.example.com" not in done.stderr


def test_one_is_no_plural(broken: Run) -> None:
    assert "1 file would be sent to the rewrites queue" in broken("rebuild", "sitemap.xml", "--dry-run").stdout
    assert "1 item of the page's story" in broken("forget", url("flood"), "--dry-run").stdout


def test_a_table_that_is_not_there_is_told_in_words(broken: Run) -> None:
    done = broken("restore", "foo")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "stoppress: there is no table 'foo' here: name the one that point-in-time recovery has"
    )
    assert "Exception" not in done.stderr


def test_a_stack_that_is_not_there_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    cloudformation = boto3.client("cloudformation", region_name="eu-west-1")
    with Stubber(cloudformation) as answers:
        answers.add_client_error("describe_stacks", "ValidationError", "Stack with id gone does not exist")
        monkeypatch.setattr(boto3, "client", lambda _service, **_options: cloudformation)
        done = CliRunner().invoke(app, ["rebuild", "--stack", "gone"])
    assert done.exit_code == 2
    assert done.stderr == (
        "stoppress: there is no stack 'gone' in eu-west-1: give another name, region (--region) or profile (--profile)\n"
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("ExpiredTokenException", "the AWS credentials have expired: sign in again"),
        ("AccessDeniedException", "these AWS credentials may not call GetParametersByPath: "),
        ("UnrecognizedClientException", "AWS does not know these credentials: "),
        ("ResourceNotFoundException", "GetParametersByPath names something that is not there"),
        ("ThrottlingException", "AWS had too many requests: run the command again in a minute"),
        ("InternalServerError", "AWS could not do GetParametersByPath (InternalServerError): No."),
    ],
)
def test_what_aws_refuses_is_told_in_words(code: str, reason: str) -> None:
    assert in_words(ClientError({"Error": {"Code": code, "Message": "No."}}, "GetParametersByPath")).startswith(reason)
