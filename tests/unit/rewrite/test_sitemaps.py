"""Rewriting makes a file equal to its partition, for any request: one rewriter, one configuration, one batch."""

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
from tests.support.moto_aws import PUBLISHING, MotoAws, failed_ids, failing, put_site, queue_batch
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

pytestmark = [pytest.mark.moto, pytest.mark.usefixtures("aws")]


# ── one rewriter ──


@pytest.mark.parametrize(("file", "age"), [(SHARD, 300), (NEWS, 60), (INDEX, 60), ("sitemap-news-2.xml", 60)])
def test_a_file_has_its_content_type_and_cache_control(aws: MotoAws, file: str, age: int) -> None:
    put_page("a")
    table.put_if(news_item(HOST, Place("news", 2, 400), NewsEntry(page("a"), "A", MORNING)))
    rewrite_all([RewriteRequest(HOST, SHARD), RewriteRequest(HOST, file)], NOON)
    answer = client("s3").get_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{file}")
    assert answer["ContentType"] == "application/xml; charset=utf-8"
    assert answer["CacheControl"] == f"public, max-age={age}"
    assert "ContentEncoding" not in answer


def test_a_file_that_would_break_the_protocol_is_not_written_and_the_last_one_stays(aws: MotoAws) -> None:
    put_page("a")
    shard()
    before = aws.file(SHARD).body

    item = general_item(HOST, SHARD, GeneralEntry(page("b"), MORNING)) | {"loc": "https://www.example.org/b"}
    table.put_if(item)
    with pytest.raises(
        BrokenFile, match=r"sitemap-2026-11.xml would break the protocol, and is not written: line 4: R1\.7"
    ):
        shard()

    assert aws.file(SHARD).body == before
    assert mark() == read_mark(aws.items(f"file#{HOST}/{INDEX}")[0])


# ── configuration ──


def test_a_new_file_follows_a_configuration_that_was_replaced_in_the_cache(aws: MotoAws) -> None:
    sites.load(HOST)
    put_site(PUBLISHING | {"host": HOST, "scheme": "http"})
    put_page("a", MORNING)

    rewrite_all([RewriteRequest(HOST, SHARD)], NOON)

    assert b"<loc>http://" in aws.file(SHARD).body


def test_news_is_written_first_then_the_newest_shard_and_the_index_last(aws: MotoAws) -> None:
    """An import fills a batch with old shards, for which a new story must not wait."""
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


def test_the_index_follows_the_marks_and_never_records_itself(aws: MotoAws) -> None:
    put_page("a")
    put_news()
    results = rewrite_all([RewriteRequest(HOST, INDEX), RewriteRequest(HOST, SHARD), RewriteRequest(HOST, NEWS)], NOON)

    assert [result.outcome for result in results] == ["written"] * 3
    assert [item["sk"] for item in aws.items(f"file#{HOST}/{INDEX}")] == [SHARD, NEWS]
    marks = [stored for name in (SHARD, NEWS) if (stored := mark(name))]
    assert aws.file(INDEX).body == render_index(marks, SITE).body
    assert rewrite(RewriteRequest(HOST, INDEX), NOON + HOUR).outcome == "unchanged"
    assert announced(aws)[-1] == (INDEX, 2)
    assert len(aws.announced) == 3


# ── failures ──


def test_a_file_over_its_limit_keeps_the_last_good_one(aws: MotoAws, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page("a")
    shard()
    before = aws.file(SHARD)
    put_page("b")
    with monkeypatch.context() as patch:
        patch.setattr(render, "URLS_MAX", 1)
        (result,) = rewrite_all([RewriteRequest(HOST, SHARD)], NOON + MINUTE)
    assert (result.outcome, type(result.error)) == ("failed", BrokenFile)
    assert aws.file(SHARD) == before
    assert hand_over([result]) is None
    assert [read_request(body) for body in aws.taken("rewrites")] == [RewriteRequest(HOST, SHARD, checks_all=True)]
    assert shard(NOON + HOUR) == "written"


def test_one_bad_file_stops_no_other(aws: MotoAws) -> None:
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


def test_many_changes_in_a_partition_cause_one_rewrite(aws: MotoAws) -> None:
    for number in range(50):
        put_page(str(number))
    aws.call("rewrite_sitemaps", stream(aws))
    assert announced(aws) == [(SHARD, 50)]
    assert aws.metrics["FilesWritten"] == 1


@pytest.mark.parametrize("before", [None, b"<sitemapindex/>"])
def test_the_index_of_a_new_site_waits_for_the_first_file_without_a_failure(aws: MotoAws, before: bytes | None) -> None:
    """An index has to list a file, so it is written only after the first file's mark requests it."""
    if before:  # the site's own sitemap.xml
        client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{INDEX}", Body=before)
    index, news = (RewriteRequest(HOST, file).message() for file in (INDEX, NEWS))
    assert failed_ids(aws.call("rewrite_sitemaps", queue_batch([index], sent_at=NOON, queue="rewrites"))) == []
    stored = bucket.read(HOST, INDEX)
    assert (stored and stored.body) == before
    assert (aws.metrics["FilesFailed"], aws.metrics["FilesUnchanged"]) == (0, 1)
    assert {line["level"] for line in aws.log} == {"INFO"}
    assert aws.taken("rewrites") == []

    assert failed_ids(aws.call("rewrite_sitemaps", queue_batch([news], sent_at=NOON, queue="rewrites"))) == []
    while (batch := stream(aws))["Records"]:
        assert failed_ids(aws.call("rewrite_sitemaps", batch)) == []
    assert f"/{NEWS}</loc>".encode() in aws.file(INDEX).body
    assert aws.metrics["FilesFailed"] == 0


@pytest.mark.parametrize(("seconds", "written"), [(170, True), (190, False)])
def test_the_files_of_a_delayed_batch_are_sent_to_the_queue(aws: MotoAws, seconds: int, written: bool) -> None:
    for slug in "abc":
        put_page(slug)
    aws.clock.shift(seconds)
    assert failed_ids(aws.call("rewrite_sitemaps", stream(aws))) == []
    assert [read_request(body).file for body in aws.taken("rewrites")] == ([] if written else [SHARD])
    assert (bucket.read(HOST, SHARD) is not None) == written


def test_files_requested_by_the_queue_are_written_and_bad_messages_counted(aws: MotoAws) -> None:
    put_page("a")
    bodies = [RewriteRequest(HOST, SHARD).message(), "not JSON", '{"site": "x"}', RewriteRequest(HOST, NEWS).message()]
    answer = aws.call("rewrite_sitemaps", queue_batch(bodies, sent_at=NOON, queue="rewrites"))
    assert failed_ids(answer) == []
    assert (aws.metrics["FilesUnreadable"], aws.metrics["WorkFailed"]) == (2, 2)
    assert aws.file(SHARD).body
    assert aws.file(NEWS).body


def test_a_record_is_reported_even_if_its_visibility_cannot_be_changed(aws: MotoAws) -> None:
    bodies = [RewriteRequest(HOST, NEWS).message(), RewriteRequest("gone.example.com", NEWS).message()]
    with failing("s3", "PutObject"):
        answer = aws.call("rewrite_sitemaps", queue_batch(bodies, sent_at=NOON, queue="rewrites"))
    assert failed_ids(answer) == ["m0"]
