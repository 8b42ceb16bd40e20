"""The operator's commands on stacks of their own: what is forgotten, what they say, and that a dry run changes nothing."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress import table
from stoppress_cli import forgetting, quarantine, queues
from stoppress_cli.app import app
from stoppress_cli.serving import Server
from stoppress_cli.stack import Stack
from tests.event_files import items, objects, on_queue
from tests.operated import HOST, SITE, arn, event, everything, later, on_the_bus, operated, url
from tests.playing import Step

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
        with pytest.raises(ValueError, match=r"names 0 items .*quarantine list"):
            quarantine.kept(ids=["no-such-id"])

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


def forget(stack: Stack, target: str) -> tuple[list[str], forgetting.Traces]:
    said: list[str] = []
    later(stack, 1)  # moto shows a message again a moment later only
    left = forgetting.forget(target, None, stack.clock.now(), say=said.append, pause=lambda _: later(stack, 1))
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


def test_what_is_forgotten_stands_nowhere_and_the_rest_stays(tmp_path: Path) -> None:
    with operated(TOLD, tmp_path, versioned=True) as stack:
        letter = json.dumps({"detail-type": "article.published", "detail": {"site": HOST, "url": url("named-person")}})
        queues.send(arn(stack, "ArticlesDeadLetters"), letter)
        queues.send(arn(stack, "ArticlesDeadLetters"), letter.replace("named-person", "flood"))
        assert len(anywhere(stack, "named-person")) > 6
        before = everything(stack)
        planned = list(forgetting.gather(url("named-person"), None).lines())
        assert everything(stack) == before

        said, left = forget(stack, url("named-person"))
        assert said == planned
        assert anywhere(stack, "named-person") == []
        assert anywhere(stack, "Named person") == []
        assert not left.anything
        assert url("flood").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]
        assert len(on_queue(stack, "ArticlesDeadLetters")) == 1


def test_a_late_publish_does_not_bring_back_what_was_forgotten(tmp_path: Path) -> None:
    with operated(TOLD, tmp_path) as stack:
        later(stack, 10)
        forget(stack, "1042")
        before = everything(stack)
        for said in ({"published_at": "2026-11-20T12:00:00Z"}, {}):
            detail = {"site": HOST, "id": "1042", "url": url("named-person"), "title": "Named person", **said}
            late = json.dumps(detail | {"version": "2026-11-20T12:02:00Z"})
            entry = {"Source": "cms", "DetailType": "article.published", "Detail": late}
            bus = stack.only("AWS::Events::EventBus").ref
            stack.client("events").put_events(Entries=[entry | {"EventBusName": bus}])
        stack.rest()
        assert stack.metrics["EventsLate"] == 2
        assert everything(stack) == before
        assert anywhere(stack, "named-person") == []


def test_an_article_is_forgotten_by_its_id_whatever_its_version_is_of(tmp_path: Path) -> None:
    with operated([event(1, "5", "numbered", version=10**6)], tmp_path) as stack:
        assert len(forgetting.gather("cms#5", None).listed) == 1
        forget(stack, "cms#5")
        assert anywhere(stack, "numbered") == []
        with pytest.raises(ValueError, match="knows no article '6'"):
            forgetting.gather("6", None)


def test_nothing_is_erased_while_the_files_still_list_the_page(tmp_path: Path) -> None:
    with operated(TOLD, tmp_path) as stack:
        left = forgetting.forget(url("named-person"), None, stack.clock.now(), say=lambda _: None, pause=lambda _: None)
        assert [one.name for one in left.listed] == ["cms#1042"]
        assert url("named-person").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]
        assert table.get(f"article#{HOST}#cms#1042") is not None
        stack.rest()
        _, left = forget(stack, url("named-person"))
        assert not left.anything


# ── as they are typed ──


@contextmanager
def typed(steps: list[Step], tmp_path: Path) -> Iterator[Any]:
    """Runs commands against the stack as it is served."""
    with operated(steps, tmp_path) as stack:
        server = Server(stack, "127.0.0.1", 0)
        thread = threading.Thread(target=server._server.serve_forever, daemon=True)
        thread.start()

        def run(*words: str) -> tuple[int, str]:
            done = CliRunner().invoke(app, [*words, "--local", server.url.rstrip("/")])
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
            return done.exit_code, done.output

        try:
            run.stack = stack  # type: ignore[attr-defined]
            yield run
        finally:
            server.stop()
            thread.join()
            server.close()


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
        assert "3 files would be named" in said
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


def test_a_site_without_a_parameter_is_listed_and_retired_on_purpose_only(tmp_path: Path) -> None:
    gone: Step = {"at": "2026-11-20T12:05:00Z", "site": {"host": HOST}, "gone": True}
    with typed([event(1, "1", "flood")], tmp_path) as run:
        stack: Stack = run.stack
        before = everything(stack)
        assert run("retire") == (0, "every site has its parameter\n")
        code, said = run("retire", HOST, "--yes")
        assert code == 2
        assert f"{HOST} has its parameter: delete /stoppress/" in said
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
