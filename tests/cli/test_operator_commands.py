"""The operator's commands on stacks of their own: what is restored and forgotten, what they print, and that a dry run changes nothing."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from typer.testing import CliRunner, Result

from stoppress.aws import bucket, queues as aws_queues, refusals, sites, table
from stoppress.aws.refusals import Refusal, Report
from stoppress.reconcile.look import Look
from stoppress.reconcile.sites import reconcile
from stoppress_cli.app import app
from stoppress_cli.commands import forget as erasure, quarantine, rebuild, restore
from stoppress_cli.commands.forget import gather
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from tests.support.event_files import items, objects, on_queue
from tests.support.operated import (
    HOST,
    SITE,
    arn,
    copy_table,
    event,
    everything,
    later,
    on_the_bus,
    operated,
    served,
    url,
)
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
        kept = quarantine.find_events()
        kept.sort(key=lambda one: one.site, reverse=True)
        assert [one.site for one in kept] == [HOST, "unknown"]
        assert "title" in kept[0].reason
        assert [one.id for one in quarantine.find_events(reason="UNKNOWN SITE")] == [kept[1].id]
        assert [one.id for one in quarantine.find_events(HOST)] == [kept[0].id]
        assert [one.id for one in quarantine.find_events(ids=[kept[1].id[:12]])] == [kept[1].id]
        with pytest.raises(
            ValueError, match=r"^no id in quarantine begins with 'zzz': `stoppress quarantine list` has the"
        ):
            quarantine.find_events(ids=["zzz"])
        with pytest.raises(ValueError, match=r"^2 ids in quarantine begin with '': give more of the id"):
            quarantine.find_events(ids=[""])

        assert quarantine.delete([kept[0]]) == 1
        assert quarantine.find_events() == [kept[1]]


def test_what_was_of_an_unknown_site_is_applied_once_the_site_is_there(tmp_path: Path) -> None:
    with operated([LOST], tmp_path) as stack:
        [(one, why)] = quarantine.send_again(quarantine.find_events(), dry_run=False)
        assert "it would come back: unknown site" in why
        assert on_queue(stack, "ArticlesQueue") == []

        stack.put_site(UNKNOWN, json.dumps({**SITE, "host": UNKNOWN}))
        later(stack, 1)
        before = everything(stack)
        assert quarantine.send_again(quarantine.find_events(), dry_run=True) == [(one, "")]
        assert everything(stack) == before
        assert quarantine.send_again(quarantine.find_events(), dry_run=False) == [(one, "")]
        assert quarantine.find_events() == []
        stack.rest()
        assert f"https://{UNKNOWN}/a".encode() in objects(stack)[f"{UNKNOWN}/sitemap-news.xml"]


# ── restoring ──


NEWS, SHARD = "sitemap-news.xml", "sitemap-2026-11.xml"


def test_a_table_restored_to_an_earlier_instant_brings_the_files_of_that_instant_back(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood"), event(2, "2", "ferry")], tmp_path) as stack:
        copy_table(stack, "restored")
        then = objects(stack)
        later(stack, 10)
        for sk in ("cms#1", "cms#2"):
            body = {"source": "cms", "detail-type": "article.deleted", "detail": {"site": HOST, "id": sk[-1]}}
            stack.client("sqs").send_message(
                QueueUrl=stack.variable("ARTICLES_QUEUE_URL"), MessageBody=json.dumps(body)
            )
        stack.rest()
        newer = bucket.read(HOST, SHARD)
        assert newer
        assert objects(stack)[f"{HOST}/{SHARD}"] != then[f"{HOST}/{SHARD}"]

        before = everything(stack)
        items, surplus = restore.differences("restored")
        assert surplus > 0
        assert everything(stack) == before
        assert restore.replace_items("restored") == (items, surplus)
        assert restore.differences("restored") == (items, 0)
        aws_queues.send_rewrites(rebuild.requests(None, None))
        stack.rest()
        assert {name: objects(stack)[f"{HOST}/{name}"] for name in (NEWS, SHARD)} == {
            name: then[f"{HOST}/{name}"] for name in (NEWS, SHARD)
        }
        older = bucket.read(HOST, SHARD)
        assert older
        assert older.changed > newer.changed  # a reader sees that it has changed
        look = Look(sites.load(HOST))
        assert reconcile(look, look.units, dry_run=True).suspected == []


# ── forgetting ──


def forget(stack: Stack, target: str) -> list[str]:
    """Erase a page, and return the lines of what is left."""
    later(stack, 1)  # moto shows a message again a moment later only
    traces = gather(target, None)
    left = erasure.erase(traces, stack.clock.now(), pause=lambda _: later(stack, 1))
    later(stack, 1)
    return [*left.lines(), *gather(target, None).lines()]


def anywhere(stack: Stack, text: str) -> list[str]:
    """Where a text stands: items by their key, objects and their older versions, messages."""
    client, bucket = stack.client("s3"), stack.only("AWS::S3::Bucket").ref
    places = [f"{item['pk']} {item['sk']}" for kind in items(stack).values() for item in kind if text in str(item)]
    for row in client.list_object_versions(Bucket=bucket).get("Versions", []):
        got = client.get_object(Bucket=bucket, Key=row["Key"], VersionId=row["VersionId"])
        places += [row["Key"]] if text.encode() in got["Body"].read() else []
    for name in ("ArticlesQueue", "ArticlesDeadLetters", "Failures"):
        places += [name for body in on_queue(stack, name) if text in body]
    return sorted(set(places))


STEPS = [
    event(1, "1042", "named-person"),
    event(2, "7", "flood"),
    event(3, "1042", "named-person", title="Named person, again"),
    on_the_bus(id="1042", url=url("named-person"), version="x"),
]


REFUSED = Refusal(at=NOON, source="cms", outcome="refused", reason="title: is empty", url=url("named-person"))
REPORTED = Report(site=HOST, source="cms", at=NOON, refusals=(REFUSED,))


def test_what_is_forgotten_stands_nowhere_and_the_rest_stays(tmp_path: Path) -> None:
    refused = [event(50, "1042", "named-person", title=""), event(51, "7", "flood", title="")]
    with operated([*STEPS, *refused], tmp_path, versioned=True) as stack:
        letter = json.dumps({"detail-type": "article.published", "detail": {"site": HOST, "url": url("named-person")}})
        local_queues.send(arn(stack, "ArticlesDeadLetters"), letter)
        local_queues.send(arn(stack, "ArticlesDeadLetters"), letter.replace("named-person", "flood"))
        local_queues.send(arn(stack, "ArticlesDeadLetters"), REPORTED.message())
        assert len(anywhere(stack, "named-person")) > 6
        before = everything(stack)
        assert list(gather(url("named-person"), None).lines())
        assert everything(stack) == before

        assert forget(stack, url("named-person")) == []
        assert anywhere(stack, "named-person") == []
        assert anywhere(stack, "Named person") == []
        assert url("flood").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]
        assert len(on_queue(stack, "ArticlesDeadLetters")) == 1
        assert [refusal.url for _, refusal in refusals.stored(HOST)] == [url("flood")]


def test_other_pages_no_longer_mention_what_was_forgotten(tmp_path: Path) -> None:
    """One lists it both ways, one in another shard on its own, one is held, and one waits in quarantine."""
    person, versions = url("named-person"), {"en": url("flood"), "fr": url("named-person")}
    steps: list[Step] = [
        event(1, "1042", "named-person", alternates=versions),
        event(2, "7", "flood", alternates=versions),
        event(3, "8", "old", published_at="2026-09-01T00:00:00Z", alternates={"fr": person, "x-default": url("old")}),
        event(4, "9", "later", published_at="2026-11-21T00:00:00Z", alternates=[{"hreflang": "fr", "url": person}]),
        on_the_bus(id="10", url=url("bad"), title="", alternates=versions),
        event(6, "11", "named-person-2", alternates={"fr": url("named-person-2")}),
    ]
    with operated(steps, tmp_path, versioned=True) as stack:
        mentions = gather(person, None).mentions
        assert forget(stack, person) == []
        assert anywhere(stack, person) == anywhere(stack, url("named-person-2"))
        assert sorted(item["pk"].partition("#")[0] for item in mentions) == ["due", "file", "file", "quarantine"]
        assert url("old").encode() in objects(stack)[f"{HOST}/sitemap-2026-09.xml"]
        later(stack, 24 * 60)
        shard = objects(stack)[f"{HOST}/sitemap-2026-11.xml"].decode()
        assert url("later") in shard
        assert re.findall(r'(?:<loc>|href=")([^<"]*person[^<"]*)', shard) == [url("named-person-2")] * 2


def test_a_late_publish_does_not_bring_back_what_was_forgotten(tmp_path: Path) -> None:
    with operated(STEPS, tmp_path) as stack:
        later(stack, 10)
        forget(stack, "cms#1042")
        before = everything(stack)
        for dates in ({"published_at": "2026-11-20T12:00:00Z"}, {}):
            detail = {"site": HOST, "id": "1042", "url": url("named-person"), "title": "Named person", **dates}
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
        assert len(gather("cms#5", None).listed) == 1
        forget(stack, "cms#5")
        assert anywhere(stack, "numbered") == []
        with pytest.raises(ValueError, match="has no article 'cms#6'"):
            gather("cms#6", None)
        for fragment in ("5", "numb", "A page#numbered"):
            with pytest.raises(ValueError, match="neither a URL nor an article"):
                gather(fragment, None)


def test_nothing_is_erased_while_the_files_still_list_the_page(tmp_path: Path) -> None:
    with operated(STEPS, tmp_path) as stack:
        traces = gather(url("named-person"), None)
        left = erasure.erase(traces, stack.clock.now(), pause=lambda _: None)
        assert [one.name for one in left.listed] == ["cms#1042"]
        assert url("named-person").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]
        assert table.get(f"article#{HOST}#cms#1042") is not None
        stack.rest()
        assert forget(stack, url("named-person")) == []


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
def typing(stack: Stack) -> Iterator[Run]:
    """Run commands against the stack as it is served."""
    with served(stack) as endpoint:

        def run(*words: str) -> Result:
            done = CliRunner().invoke(app, [*words, "--local", endpoint])
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
            return done

        yield run


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A stack with an article, an item in quarantine, and three sites whose only version cannot be read."""
    with operated([event(1, "1", "flood"), BAD], tmp_path_factory.mktemp("broken")) as stack, typing(stack) as run:
        for host, text in UNREADABLE.items():
            stack.put_site(host, text)
        yield run


def test_exit_codes_report_what_commands_did_and_dry_runs_change_nothing(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood"), BAD], tmp_path) as stack, typing(stack) as run:
        before = everything(stack)
        [kept] = json.loads(run("quarantine", "list", "--json").stdout)
        unchanging: list[tuple[list[str], int, str]] = [
            (["quarantine", "show", kept["id"][:8]], 0, '"version": "x"'),
            (["quarantine", "retry", "--all", "--dry-run"], 1, "it would come back: "),
            (["quarantine", "retry"], 2, ""),
            (["quarantine", "drop", kept["id"], "--dry-run"], 0, ""),
            (["redrive", "--dry-run"], 0, "0 dealt with, 0 there\n"),
            (["rebuild", "--dry-run"], 0, "3 files would be sent"),
            (["rebuild", "sitemap-1999.xml"], 2, ""),
            (["reconcile", "--dry-run"], 0, "0 repaired, 0 seen once\n"),
            (["forget", url("flood"), "--dry-run"], 1, "article cms#1 is listed: it is removed first"),
            (["forget", url("unknown")], 0, ""),
        ]
        for words, code, text in unchanging:
            done = run(*words)
            assert (words, done.exit_code, text in done.output) == (words, code, True), done.output
        assert everything(stack) == before
        for words in (
            ["quarantine", "drop", kept["id"], "--yes"],
            ["quarantine", "list"],
            ["rebuild", "sitemap-news.xml"],
        ):
            assert (words, run(*words).exit_code) == (words, 0)
        assert len(on_queue(stack, "RewritesQueue")) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["quarantine", "list", "--json"],
        ["quarantine", "show", "{id}"],
        ["quarantine", "retry", "--all", "--dry-run"],
        ["quarantine", "drop", "--all", "--dry-run"],
        ["redrive", "--dry-run"],
        ["rebuild", "--dry-run"],
        ["rebuild", "sitemap-1999.xml"],
        ["reconcile", "--dry-run"],
        ["feeds", "show", "--json"],
        ["status"],
    ],
    ids=" ".join,
)
def test_a_command_over_all_sites_lists_those_that_cannot_be_read_and_fails(broken: Run, words: list[str]) -> None:
    [kept] = quarantine.find_events(HOST)
    done = broken(*(word.format(id=kept.id) for word in words))
    assert done.exit_code == (1 if "status" in words else 2)
    assert done.stderr.startswith("stoppress: cannot read 3 sites: ")
    for host, reason in zip(UNREADABLE, ("not JSON", "publication: ", "publicatoin: "), strict=True):
        [line] = [line for line in done.stderr.splitlines() if host in line]
        assert line.startswith(f"  {host}: version 1 cannot be read: ")
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


def test_a_table_that_is_not_there_is_told_in_words(broken: Run) -> None:
    done = broken("restore", "foo")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "stoppress: there is no table 'foo' here: name the one that point-in-time recovery has"
    )
    assert "Exception" not in done.stderr
