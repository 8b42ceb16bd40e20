"""Rewriting: a file ends as its partition says, by whoever is told of it: one rewriter, one configuration, one batch."""

import pytest

from stoppress.aws import bucket, sites, table
from stoppress.aws.clients import client
from stoppress.aws.items import general_item, news_item, read_mark
from stoppress.aws.queues import RewriteRequest, read_request
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.file_names import Place
from stoppress.rewrite.sitemaps import hand_over, rewrite, rewrite_all
from stoppress.sitemaps import render
from stoppress.sitemaps.render import BrokenFile, render_index
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, SITE, page
from tests.support.moto_aws import PUBLISHING, MotoAws, failed_ones, failing, put_site, queue_batch
from tests.support.partitions import (
    HOUR,
    INDEX,
    MINUTE,
    NEWS,
    NOON,
    SHARD,
    announced,
    mark,
    put_news,
    put_page,
    shard,
    stream,
)

pytestmark = [pytest.mark.moto, pytest.mark.usefixtures("behind")]


# ── one rewriter ──


@pytest.mark.parametrize(("file", "age"), [(SHARD, 300), (NEWS, 60), (INDEX, 60), ("sitemap-news-2.xml", 60)])
def test_a_file_has_its_type_and_how_long_it_may_be_cached(behind: MotoAws, file: str, age: int) -> None:
    put_page("a")
    table.put_if(news_item(HOST, Place("news", 2, 400), NewsEntry(page("a"), "A", MORNING)))
    rewrite_all([RewriteRequest(HOST, SHARD), RewriteRequest(HOST, file)], NOON)
    answer = client("s3").get_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{file}")
    assert answer["ContentType"] == "application/xml; charset=utf-8"
    assert answer["CacheControl"] == f"public, max-age={age}"
    assert "ContentEncoding" not in answer


def test_a_file_that_would_break_the_protocol_is_not_written_and_the_last_one_stays(behind: MotoAws) -> None:
    put_page("a")
    shard()
    before = behind.file(SHARD).body

    item = general_item(HOST, SHARD, GeneralEntry(page("b"), MORNING)) | {"loc": "https://www.example.org/b"}
    table.put_if(item)
    with pytest.raises(
        BrokenFile, match=r"sitemap-2026-11.xml would break the protocol, and is not written: line 4: R1\.7"
    ):
        shard()

    assert behind.file(SHARD).body == before
    assert mark() == read_mark(behind.items(f"file#{HOST}/{INDEX}")[0])


# ── configuration ──


def test_a_new_file_follows_a_configuration_that_was_replaced_in_the_cache(behind: MotoAws) -> None:
    sites.load(HOST)
    put_site(PUBLISHING | {"host": HOST, "scheme": "http"})
    put_page("a", MORNING)

    rewrite_all([RewriteRequest(HOST, SHARD)], NOON)

    assert b"<loc>http://" in behind.file(SHARD).body


def test_news_is_written_first_then_the_newest_shard_and_the_index_last(behind: MotoAws) -> None:
    """An import fills a batch with old shards. A new story must not wait for them."""
    files = [INDEX, "sitemap-2009-03.xml", SHARD, "sitemap-2024-12.xml", NEWS]
    results = rewrite_all([RewriteRequest(HOST, file) for file in files], NOON)
    assert [result.request.file for result in results] == [
        NEWS,
        SHARD,
        "sitemap-2024-12.xml",
        "sitemap-2009-03.xml",
        INDEX,
    ]


# ── the index ──


def test_the_index_follows_the_marks_and_never_records_itself(behind: MotoAws) -> None:
    put_page("a")
    put_news()
    results = rewrite_all([RewriteRequest(HOST, INDEX), RewriteRequest(HOST, SHARD), RewriteRequest(HOST, NEWS)], NOON)

    assert [result.outcome for result in results] == ["written"] * 3
    assert [item["sk"] for item in behind.items(f"file#{HOST}/{INDEX}")] == [SHARD, NEWS]
    marks = [stored for name in (SHARD, NEWS) if (stored := mark(name))]
    assert behind.file(INDEX).body == render_index(marks, SITE).body
    assert rewrite(RewriteRequest(HOST, INDEX), NOON + HOUR).outcome == "unchanged"
    assert announced(behind)[-1] == (INDEX, 2)
    assert len(behind.announced) == 3


# ── what fails ──


def test_a_file_over_its_limit_leaves_the_last_good_one(behind: MotoAws, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page("a")
    shard()
    before = behind.file(SHARD)
    put_page("b")
    with monkeypatch.context() as patch:
        patch.setattr(render, "URLS_MAX", 1)
        (result,) = rewrite_all([RewriteRequest(HOST, SHARD)], NOON + MINUTE)
    assert (result.outcome, type(result.error)) == ("failed", BrokenFile)
    assert behind.file(SHARD) == before
    assert hand_over([result]) is None
    assert [read_request(body) for body in behind.taken("rewrites")] == [RewriteRequest(HOST, SHARD, checks_all=True)]
    assert shard(NOON + HOUR) == "written"


def test_one_bad_file_stops_no_other(behind: MotoAws) -> None:
    put_page("a")
    put_news()
    works = [
        RewriteRequest("nowhere.example.com", NEWS),
        RewriteRequest(HOST, SHARD),
        RewriteRequest(HOST, NEWS),
        RewriteRequest(HOST, INDEX),
    ]
    with failing("s3", "GetObject", code="InternalError"):
        results = rewrite_all(works, NOON)
    assert [(result.request.site, result.request.file, result.outcome) for result in results] == [
        ("nowhere.example.com", NEWS, "ignored"),
        (HOST, NEWS, "failed"),
        (HOST, SHARD, "written"),
        (HOST, INDEX, "written"),
    ]


# ── the function ──


def test_a_burst_in_a_partition_is_one_rewrite(behind: MotoAws) -> None:
    for number in range(50):
        put_page(str(number))
    behind.call("rewrite_sitemaps", stream(behind))
    assert announced(behind) == [(SHARD, 50)]
    assert behind.metrics["FilesWritten"] == 1


@pytest.mark.parametrize("stands", [None, b"<sitemapindex/>"])
def test_the_index_of_a_new_site_waits_for_the_first_file_and_no_failure_is_told(
    behind: MotoAws, stands: bytes | None
) -> None:
    """An index has to name a file, so that there is none before the first one. Its mark wakes the index."""
    if stands:  # what the site had there before
        client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{INDEX}", Body=stands)
    index, news = (RewriteRequest(HOST, file).message() for file in (INDEX, NEWS))
    assert failed_ones(behind.call("rewrite_sitemaps", queue_batch([index], sent_at=NOON, queue="rewrites"))) == []
    stored = bucket.read(HOST, INDEX)
    assert (stored and stored.body) == stands
    assert (behind.metrics["FilesFailed"], behind.metrics["FilesUnchanged"]) == (0, 1)
    assert {line["level"] for line in behind.log} == {"INFO"}
    assert behind.taken("rewrites") == []

    assert failed_ones(behind.call("rewrite_sitemaps", queue_batch([news], sent_at=NOON, queue="rewrites"))) == []
    while (batch := stream(behind))["Records"]:
        assert failed_ones(behind.call("rewrite_sitemaps", batch)) == []
    assert f"/{NEWS}</loc>".encode() in behind.file(INDEX).body
    assert behind.metrics["FilesFailed"] == 0


@pytest.mark.parametrize(("seconds", "written"), [(170, True), (190, False)])
def test_the_files_of_a_batch_that_waited_for_minutes_go_to_the_queue(
    behind: MotoAws, seconds: int, written: bool
) -> None:
    for slug in "abc":
        put_page(slug)
    behind.clock.shift(seconds)
    assert failed_ones(behind.call("rewrite_sitemaps", stream(behind))) == []
    assert [read_request(body).file for body in behind.taken("rewrites")] == ([] if written else [SHARD])
    assert (bucket.read(HOST, SHARD) is not None) == written


def test_files_named_in_the_queue_are_written_and_bad_messages_are_counted(behind: MotoAws) -> None:
    put_page("a")
    bodies = [RewriteRequest(HOST, SHARD).message(), "not JSON", '{"site": "x"}', RewriteRequest(HOST, NEWS).message()]
    answer = behind.call("rewrite_sitemaps", queue_batch(bodies, sent_at=NOON, queue="rewrites"))
    assert failed_ones(answer) == []
    assert (behind.metrics["FilesUnreadable"], behind.metrics["WorkFailed"]) == (2, 2)
    assert behind.file(SHARD).body
    assert behind.file(NEWS).body


def test_a_visibility_that_cannot_be_changed_reports_its_record_all_the_same(behind: MotoAws) -> None:
    bodies = [RewriteRequest(HOST, NEWS).message(), RewriteRequest("gone.example.com", NEWS).message()]
    with failing("s3", "PutObject"):
        answer = behind.call("rewrite_sitemaps", queue_batch(bodies, sent_at=NOON, queue="rewrites"))
    assert failed_ones(answer) == ["m0"]
