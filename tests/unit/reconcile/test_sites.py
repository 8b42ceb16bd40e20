"""Reconciliation repairs drift only after two looks have found it."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from stoppress.aws import bucket, queues, sites, table
from stoppress.aws.items import read_series
from stoppress.aws.queues import read_request
from stoppress.reconcile.drift import Report, counts_of, keep_suspects, read_suspects
from stoppress.reconcile.look import Look
from stoppress.reconcile.sites import LOOKS_APART, reconcile
from stoppress_cli.commands import rebuild
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from tests.support.event_files import objects, on_queue
from tests.support.operated import HOST, SITE, event, everything, later, operated, url

pytestmark = pytest.mark.moto

NEWS, SHARD, INDEX = "sitemap-news.xml", "sitemap-2026-11.xml", "sitemap.xml"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with operated([event(1, "1", "flood"), event(2, "2", "ferry")], tmp_path_factory.mktemp("shared")) as stack:
        yield stack


@pytest.fixture
def stack(shared: Stack) -> Iterator[Stack]:
    """Yield a stack without drift, and repair it after each test."""
    later(shared, 5)
    for unit in read_suspects(HOST):
        keep_suspects(HOST, unit, [], shared.clock.now())
    before = [item for item in table.query(f"places#{HOST}") if "files" in item]
    yield shared
    for item in before:
        table.put_if(item)
    queues.send_rewrites(rebuild.requests(None, None))
    later(shared, 1)


def look(**options: Any) -> Report:
    looking = Look(sites.load(HOST))
    return reconcile(looking, sorted(looking.units), **options)


def kinds(report: Report) -> tuple[list[str], list[str]]:
    """Return the kinds of the suspected and of the repaired findings."""
    return sorted(finding.kind for finding in report.suspected), sorted(finding.kind for finding in report.repaired)


def put(stack: Stack, name: str, body: bytes | None) -> None:
    where = {"Bucket": stack.only("AWS::S3::Bucket").ref, "Key": f"{HOST}/{name}"}
    client = stack.client("s3")
    client.delete_object(**where) if body is None else client.put_object(**where, Body=body)


def change(pk: str, sk: str, **attributes: Any) -> None:
    """Change an item without its stream record."""
    item = table.get(pk, sk)
    assert item is not None
    table.put_if(item | attributes)


def test_a_dry_run_or_a_single_look_repairs_nothing(stack: Stack) -> None:
    body = objects(stack)[f"{HOST}/{NEWS}"]
    put(stack, NEWS, None)
    before = everything(stack)
    assert kinds(look(dry_run=True)) == (["missing"], [])
    assert everything(stack) == before
    assert kinds(look()) == (["missing"], [])
    put(stack, NEWS, body)
    queues.send_rewrites(rebuild.requests(HOST, NEWS))
    later(stack, 2)
    assert kinds(look()) == ([], [])


def test_a_file_that_was_written_between_two_looks_is_another_finding(stack: Stack) -> None:
    for body in (b"<a/>", b"<b/>"):
        put(stack, NEWS, body)
        stack.clock.move(stack.clock.now() + LOOKS_APART)
        assert kinds(look()) == (["edited"], [])


def test_each_kind_of_drift_is_reported_and_repaired_by_a_rewrite(stack: Stack) -> None:
    before = objects(stack)
    entry = next(iter(table.query(f"file#{HOST}/{SHARD}")))
    local_queues.read_stream(stack.sources.stream_mappings[0].arn)
    table.delete(entry["pk"], entry["sk"])
    local_queues.read_stream(stack.sources.stream_mappings[0].arn)  # the record is lost
    mark = table.get(f"file#{HOST}/sitemap.xml", NEWS)
    assert mark
    change(mark["pk"], mark["sk"], digest="of another day")
    local_queues.read_stream(stack.sources.stream_mappings[0].arn)
    put(stack, "sitemap.xml", b"by hand")

    assert kinds(look()) == (["edited", "stale", "unmarked"], [])
    later(stack, 3)
    report = look()
    assert kinds(report) == ([], ["edited", "stale", "unmarked"])
    assert counts_of(report) == {
        "ObjectsEdited": 1, "ObjectsStale": 1, "MarksWrong": 1, "DriftFound": 3, "FilesCompared": report.units, "NeedsAttention": 3,
    }  # fmt: skip
    assert all(read_request(body).checks_all for body in on_queue(stack, "RewritesQueue"))
    stack.rest()
    later(stack, 3)
    assert kinds(look()) == ([], [])
    assert entry["loc"].encode() not in objects(stack)[f"{HOST}/{SHARD}"]

    table.put_if(entry)
    stack.rest()
    assert objects(stack)[f"{HOST}/{SHARD}"] == before[f"{HOST}/{SHARD}"]


def test_places_are_not_recounted_while_another_worker_reserves_them(stack: Stack) -> None:
    key = (f"places#{HOST}", "news")

    def entries() -> tuple[int, int | None]:
        series = read_series("news", table.get(*key))
        return series.files[0].entries, series.rev

    change(*key, files=[[7, 7000]])
    assert kinds(look()) == (["miscounted"], [])
    table.put({"pk": key[0], "sk": key[1], "files": [[8, 8000]]}, entries()[1])  # a place was reserved meanwhile
    later(stack, 3)
    assert kinds(look()) == (["miscounted"], [])
    assert entries()[0] == 8
    later(stack, 3)
    assert kinds(look()) == ([], ["miscounted"])
    assert entries()[0] == 2


def test_a_place_that_is_reserved_while_the_count_is_written_stays_counted(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (f"places#{HOST}", "news")
    change(*key, files=[[7, 7000]])
    look()
    later(stack, 3)
    written = table.put

    def overtaken(item: Any, rev: int | None) -> None:
        change(*key, files=[[8, 8000]], rev=(rev or 0) + 1)
        written(item, rev)

    monkeypatch.setattr(table, "put", overtaken)
    assert kinds(look())[1] == ["miscounted"]
    assert read_series("news", table.get(*key)).files[0].entries == 8


def test_an_entry_whose_article_changed_after_the_look_stays(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    article = table.get(f"article#{HOST}#cms#1")
    assert article
    change(article["pk"], "-", state="removed")
    look()
    later(stack, 3)

    transact, called = table.transact, []

    def last_moment(operations: Any) -> None:
        called.append(1)
        change(article["pk"], "-", state="listed", rev=int(article["rev"]) + 1)
        transact(operations)

    monkeypatch.setattr(table, "transact", last_moment)
    assert kinds(look())[1] == ["ownerless"]  # the article was back before the look at the news
    assert called
    assert url("flood") in [item["loc"] for item in table.query(f"file#{HOST}/{SHARD}")]


def test_an_unreadable_file_hides_no_other(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    put(stack, "sitemap.xml", b"by hand")
    read = bucket.read

    def failing(site: str, file: str) -> Any:
        if file == NEWS:
            raise TimeoutError("no answer")
        return read(site, file)

    monkeypatch.setattr(bucket, "read", failing)
    report = look()
    assert kinds(report) == (["edited"], [])
    assert [(str(error), error.__notes__) for error in report.failed] == [
        ("no answer", [f"while looking at {HOST}/{NEWS}"])
    ]


def test_an_object_whose_partition_has_entries_is_rewritten_not_deleted(stack: Stack) -> None:
    name = "sitemap-2026-11-2.xml"
    entry = next(iter(table.query(f"file#{HOST}/{SHARD}")))
    table.put_if(entry | {"pk": f"file#{HOST}/{name}"})
    local_queues.read_stream(stack.sources.stream_mappings[0].arn)
    put(stack, name, b"by hand")
    later(stack, 24 * 60)
    look()
    later(stack, 3)
    report = look()
    assert [(item.kind, item.name) for item in report.repaired] == [("orphan", name)]
    assert [json.loads(body)["file"] for body in on_queue(stack, "RewritesQueue")] == [name]
    table.delete(f"file#{HOST}/{name}", entry["sk"])
    put(stack, name, None)


def test_an_object_that_the_index_lists_is_no_orphan_for_any_marks(stack: Stack) -> None:
    """The site has turned gzip off, and its index could not be written since."""
    packed = f"{SHARD}.gz"
    put(stack, packed, b"packed")
    put(stack, INDEX, f"<loc>https://{HOST}/{packed}</loc>".encode())
    stack.clock.move(stack.clock.now() + timedelta(days=2))
    for index_names_it in (True, False):
        if not index_names_it:
            put(stack, INDEX, b"<loc>https://www.example.com/other.gz</loc>")
        assert (packed in {item.name for item in look(dry_run=True).suspected}) is not index_names_it
    put(stack, packed, None)


def test_an_index_missing_in_a_restored_table_is_deleted_immediately(stack: Stack) -> None:
    lost = {"sitemap-index-7.xml", "sitemap-index-7.xml.gz"}
    for name in lost:
        put(stack, name, b"written since")
    look()
    later(stack, 3)
    assert {(item.kind, item.name) for item in look().repaired} == {("orphan", name) for name in lost}
    assert [bucket.read(HOST, name) for name in lost] == [None, None]


def test_output_formats_that_were_just_turned_on_are_no_drift(stack: Stack) -> None:
    for site, more in ((SITE | {"outputs": {"gzip": True}}, f"{SHARD}.gz"), (SITE, None)):
        stack.put_site(HOST, json.dumps(site))
        later(stack, 1)
        sites.forget()
        for _ in range(2):
            assert kinds(look()) == ([], [])
            stack.clock.move(stack.clock.now() + LOOKS_APART)
        later(stack, 5)
        sites.forget()
        assert kinds(look()) == ([], [])
        mark = table.get(f"file#{HOST}/{INDEX}", SHARD)
        assert mark
        assert mark.get("also", []) == ([more] if more else [])


def test_a_shard_with_more_pages_than_places_is_counted_up_and_never_down(stack: Stack) -> None:
    key = (f"places#{HOST}", "2026-11")
    for before, after in ((1, 2), (5, 5)):
        change(*key, files=[[before, 100]])
        look()
        later(stack, 3)
        look()
        assert read_series("2026-11", table.get(*key)).files[0].entries == after
