"""`stoppress forget`: a forgotten page is nowhere, and nothing else is lost."""

import json
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoppress.aws import refusals, table
from stoppress.aws.refusals import Refusal, Report
from stoppress_cli.app import app
from stoppress_cli.commands import forget as erasure
from stoppress_cli.commands.forget import gather
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from tests.support.event_files import items, objects, on_queue
from tests.support.operated import HOST, arn, event, everything, later, on_the_bus, operated, pretend_deployed, url
from tests.support.playing import Step

pytestmark = pytest.mark.moto

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def forget(stack: Stack, target: str) -> list[str]:
    """Erase a page, and return the lines of the traces that are left."""
    later(stack, 1)  # moto makes a message visible again only a moment later
    traces = gather(target, None)
    traces_left = erasure.erase(traces, stack.clock.now(), pause=lambda _: later(stack, 1))
    later(stack, 1)
    return [*traces_left.lines(), *gather(target, None).lines()]


def anywhere(stack: Stack, text: str) -> list[str]:
    """Return the places of a text: items by their key, objects and their older versions, messages."""
    client, bucket = stack.client("s3"), stack.only("AWS::S3::Bucket").ref
    places = [f"{item['pk']} {item['sk']}" for kind in items(stack).values() for item in kind if text in str(item)]
    for row in client.list_object_versions(Bucket=bucket).get("Versions", []):
        version = client.get_object(Bucket=bucket, Key=row["Key"], VersionId=row["VersionId"])
        places += [row["Key"]] if text.encode() in version["Body"].read() else []
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


def test_a_forgotten_page_is_nowhere_and_the_rest_stays(tmp_path: Path) -> None:
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


def test_the_command_reports_what_it_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_deployed(monkeypatch)
    with operated(STEPS, tmp_path, versioned=True) as stack:
        words = ["forget", "cms#1042", "--yes", "--json", "--stack", stack.name]
        erase = partial(erasure.erase, pause=lambda _: later(stack, 1))
        monkeypatch.setattr(erasure, "erase", lambda traces, _now: traces)  # nothing is erased yet
        failed = CliRunner().invoke(app, words)
        assert (failed.exit_code, json.loads(failed.stdout)["done"]) == (1, False), failed.output
        monkeypatch.setattr(erasure, "erase", erase)
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, json.loads(done.stdout)["done"]) == (0, True), done.output
        erased = json.loads(done.stdout)["erased"]
    assert erased[:3] == [
        "article cms#1042: removed; a tombstone stays",
        "sitemap-news.xml: written again without",
        "sitemap-2026-11.xml: written again without",
    ]
    assert f"the claim on {url('named-person')}: a tombstone stays, known by a hash of the URL" in erased
    assert {"1 item of quarantine", f"older versions of {HOST}/sitemap-2026-11.xml"} <= {*erased}


def test_other_pages_no_longer_mention_a_forgotten_page(tmp_path: Path) -> None:
    """Alternates list it mutually, from another shard, in a held article, and in a quarantined event."""
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
        assert sorted(item["pk"].partition("#")[0] for item in mentions) == [
            "due",
            "file",
            "file",
            "quarantine",
            "url",
            "url",
        ]
        assert url("old").encode() in objects(stack)[f"{HOST}/sitemap-2026-09.xml"]
        later(stack, 24 * 60)
        shard = objects(stack)[f"{HOST}/sitemap-2026-11.xml"].decode()
        assert url("later") in shard
        assert re.findall(r'(?:<loc>|href=")([^<"]*person[^<"]*)', shard) == [url("named-person-2")]


def test_a_late_publication_does_not_restore_a_forgotten_page(tmp_path: Path) -> None:
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


def test_a_repeated_delivery_of_a_forgotten_article_is_a_duplicate(tmp_path: Path) -> None:
    with operated(STEPS, tmp_path) as stack:
        later(stack, 10)
        [before] = gather("cms#1042", None).articles
        forget(stack, "cms#1042")
        [after] = gather("cms#1042", None).articles
        assert before.deliveries
        assert set(before.deliveries) <= set(after.deliveries)


def test_an_article_is_forgotten_by_its_id_for_any_kind_of_version(tmp_path: Path) -> None:
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
        traces_left = erasure.erase(traces, stack.clock.now(), pause=lambda _: None)
        assert [article.name for article in traces_left.listed] == ["cms#1042"]
        assert url("named-person").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]
        assert table.get(f"article#{HOST}#cms#1042") is not None
        stack.rest()
        assert forget(stack, url("named-person")) == []
