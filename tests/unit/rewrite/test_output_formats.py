"""The other outputs of a file (gzip, text, Atom, indexes, robots.txt) are written and deleted with the file."""

import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import bucket, table
from stoppress.aws.clients import client
from stoppress.aws.items import file_pk, mark_item, read_mark, series_item
from stoppress.aws.queues import RewriteRequest, read_request
from stoppress.model.entries import Mark
from stoppress.model.file_names import Series, Used
from stoppress.rewrite import publish
from stoppress.rewrite.publish import EMPTIED_KEPT
from stoppress.rewrite.sitemaps import rewrite, rewrite_all
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING
from tests.support.moto_aws import MotoAws, failing, once_before
from tests.support.partitions import DAY, HOUR, INDEX, MINUTE, NEWS, NOON, SHARD, put_news, put_page, take_page

pytestmark = pytest.mark.moto

ROBOTS = "robots.txt"
PACKED, TEXT, FEED = f"{SHARD}.gz", "sitemap-2026-11.txt", "sitemap-news.atom"
EVERY_FORM = {"gzip": True, "text": True, "atom": True}


@pytest.fixture(autouse=True)
def aws() -> Iterator[MotoAws]:
    with moto_aws.opened(NOON) as opened:
        opened.site(outputs=EVERY_FORM)
        yield opened


def run(file: str = SHARD, now: datetime = NOON, **options: Any) -> str:
    return rewrite(RewriteRequest(HOST, file, **options), now).outcome


def names() -> list[str]:
    rows = client("s3").list_objects_v2(Bucket=moto_aws.BUCKET).get("Contents", [])
    return sorted(row["Key"].partition("/")[2] for row in rows)


def mark(file: str = SHARD) -> Mark:
    item = table.get(file_pk(HOST, INDEX), file)
    assert item
    return read_mark(item)


def agree(aws: MotoAws, file: str = SHARD) -> bool:
    """Return True if a shard's outputs have the content of the shard."""
    body, packed = aws.file(file).body, aws.file(f"{file}.gz").body
    text = aws.file(f"{file.removesuffix('.xml')}.txt").body.decode()
    return gzip.decompress(packed) == body and text.split() == re.findall(r"<loc>(.*?)</loc>", body.decode())


# ── written with their file ──


def test_outputs_with_equal_bytes_are_not_written_again(aws: MotoAws, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    put_news()
    works = [RewriteRequest(HOST, file) for file in (SHARD, NEWS, INDEX)]
    rewrite_all(works, NOON)
    before = [aws.file(name) for name in names()]

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was written or taken away although nothing had changed")

    monkeypatch.setattr(bucket, "write", never)
    monkeypatch.setattr(bucket, "delete", never)
    assert [result.outcome for result in rewrite_all(works, NOON + HOUR)] == ["unchanged"] * 3
    assert [aws.file(name) for name in names()] == before


def test_each_output_has_its_content_type(aws: MotoAws) -> None:
    put_page()
    put_news()
    rewrite_all([RewriteRequest(HOST, SHARD), RewriteRequest(HOST, NEWS)], NOON)
    kinds = {
        name: client("s3").get_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{name}") for name in (PACKED, TEXT, FEED)
    }
    assert {name: kind["ContentType"] for name, kind in kinds.items()} == {
        PACKED: "application/gzip",
        TEXT: "text/plain; charset=utf-8",
        FEED: "application/atom+xml; charset=utf-8",
    }
    assert [kind.get("ContentEncoding") for kind in kinds.values()] == [None] * 3


# ── crashes ──


def test_outputs_of_an_emptied_file_are_deleted_despite_a_fast_clock(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_page("a")
    run()
    take_page("a")
    with monkeypatch.context() as patch:
        patch.setattr(publish, "replace_forms", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(now=NOON + MINUTE)  # the empty file is written, without its outputs and mark
    with failing("events", "PutEvents"), pytest.raises(ClientError):
        run(now=NOON + 3 * MINUTE)  # the outputs are written too, by a clock that is ahead
    put_page("b")

    assert run(now=NOON + 2 * MINUTE) == "written"
    assert agree(aws)


# ── turned off or deleted ──


def change(aws: MotoAws, **outputs: Any) -> None:
    """Change the site's outputs, and rewrite its files as the change does."""
    aws.site(outputs=outputs)
    rewrite_all([RewriteRequest(HOST, file, checks_all=True) for file in (SHARD, NEWS)], NOON + MINUTE)


def test_outputs_follow_a_file_that_regains_its_bytes_after_two_crashes(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of the first bytes does not show that the outputs of the second bytes were written."""
    put_page("a")
    run()
    put_page("b")
    with failing("events", "PutEvents"), pytest.raises(ClientError):
        run(now=NOON + MINUTE)  # the file and its outputs are written, without the mark
    take_page("b")
    read = bucket.read
    monkeypatch.setattr(bucket, "read", lambda site, file: read(site, file) if file == SHARD else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(now=NOON + 2 * MINUTE)
    monkeypatch.setattr(bucket, "read", read)

    assert run(now=NOON + 3 * MINUTE) == "unchanged"
    assert agree(aws)
    assert mark().changed == NOON + 2 * MINUTE


def test_outputs_that_are_turned_off_are_deleted_when_no_index_lists_them(aws: MotoAws) -> None:
    put_page()
    put_news()
    rewrite_all([RewriteRequest(HOST, file) for file in (SHARD, NEWS, INDEX)], NOON)
    assert names() == [TEXT, SHARD, PACKED, FEED, NEWS, f"{NEWS}.gz", INDEX, f"{INDEX}.gz"]

    change(aws, text=True)
    assert (mark().also, mark(NEWS).also) == ((TEXT,), ())
    assert names() == [TEXT, SHARD, PACKED, NEWS, f"{NEWS}.gz", INDEX, f"{INDEX}.gz"]
    waiting = [read_request(body) for body in aws.taken("rewrites")]
    assert {(request.file, request.checks_all) for request in waiting} == {(SHARD, True), (NEWS, True)}

    rewrite_all([RewriteRequest(HOST, INDEX, checks_all=True)], NOON + MINUTE)
    assert b".gz" not in aws.file(INDEX).body
    rewrite_all(waiting, NOON + 2 * MINUTE)
    assert names() == [TEXT, SHARD, NEWS, INDEX]
    assert aws.taken("rewrites") == []


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_gzip_file_without_a_mark_gets_a_new_etag_so_that_a_deletion_fails(aws: MotoAws, *, is_deleted: bool) -> None:
    put_page()
    run()
    pending = aws.file(PACKED)
    item = table.get(file_pk(HOST, INDEX), SHARD)
    assert item
    table.put(mark_item(HOST, replace(read_mark(item), also=())), int(item["rev"]))
    if is_deleted:
        bucket.delete(HOST, PACKED, pending)

    rewrite(RewriteRequest(HOST, SHARD, checks_all=True), NOON + MINUTE)

    with pytest.raises(bucket.Overtaken):
        bucket.delete(HOST, PACKED, pending)
    assert gzip.decompress(aws.file(PACKED).body) == aws.file(SHARD).body


def test_outputs_of_a_shard_that_is_filled_while_it_is_deleted_stay(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_page()
    run()
    take_page()
    run(now=NOON + MINUTE)
    deleted_at = NOON + MINUTE + EMPTIED_KEPT
    delete = bucket.delete

    def fill_after(site: str, file: str, stored: bucket.StoredFile) -> None:
        delete(site, file, stored)
        monkeypatch.setattr(bucket, "delete", delete)
        put_page("b")
        run(now=deleted_at)

    monkeypatch.setattr(bucket, "delete", fill_after)
    assert run(now=deleted_at) == "unchanged"
    assert names() == [TEXT, SHARD, PACKED]
    assert agree(aws)


def test_outputs_of_a_shard_that_is_filled_when_found_empty_stay(aws: MotoAws) -> None:
    def fill() -> None:
        put_page()
        run()

    with once_before(publish, "retire", fill):
        assert run(checks_all=True) == "unchanged"
    assert names() == [TEXT, SHARD, PACKED]


def test_the_feed_of_a_series_stays_when_its_second_file_goes(aws: MotoAws) -> None:
    table.put(series_item(HOST, Series("news", (Used(1, 400), Used(1, 400)))), None)
    put_news("a", MORNING + HOUR)
    put_news("b", number=2)
    second = "sitemap-news-2.xml"
    rewrite_all([RewriteRequest(HOST, NEWS), RewriteRequest(HOST, second)], NOON)
    assert aws.file(FEED).body.count(b"<entry>") == 2

    later = MORNING + 48 * HOUR
    run(second, later)
    assert aws.file(FEED).body.count(b"<entry>") == 1
    assert run(second, later + EMPTIED_KEPT) == "retired"
    assert names() == [FEED, NEWS, f"{NEWS}.gz"]


def test_the_file_of_a_removed_empty_edition_is_deleted_after_the_index_changes(aws: MotoAws) -> None:
    french = "sitemap-news-fr.xml"
    aws.site(editions=[{"prefix": "/fr/", "news": "fr"}], outputs=EVERY_FORM)
    rewrite_all([RewriteRequest(HOST, file) for file in (NEWS, french, INDEX)], NOON)
    others = set(names()) - {french, f"{french}.gz", "sitemap-news-fr.atom"}
    assert f"/{french}.gz</loc>".encode() in aws.file(INDEX).body

    aws.site(outputs=EVERY_FORM)
    assert run(french, NOON + 2 * DAY, checks_all=True) == "unchanged"
    assert {french, f"{french}.gz"} <= set(names())
    run(INDEX, NOON + 2 * DAY, checks_all=True)

    (due,) = aws.items("due#")
    assert rewrite_all([read_request(due["message"])], NOON + 2 * DAY + MINUTE)[0].outcome == "retired"
    assert (set(names()), aws.items("due#")) == (others, [])


def test_the_empty_file_of_an_edition_that_comes_back_stays(aws: MotoAws) -> None:
    french = "sitemap-news-fr.xml"
    editions = [{"prefix": "/fr/", "news": "fr"}]
    for number, configured in enumerate([editions, [], editions], 2):
        aws.site(editions=configured)
        run(french, NOON + number * MINUTE, checks_all=True)
    (due,) = aws.items("due#")
    assert rewrite_all([read_request(due["message"])], NOON + 2 * DAY)[0].outcome == "unchanged"
    assert (names(), aws.items("due#")) == ([french], [])


def test_the_feed_of_an_empty_window_follows_a_changed_publication(aws: MotoAws) -> None:
    run(NEWS)
    body = aws.file(NEWS).body
    aws.site(outputs=EVERY_FORM, publication="The Example", language="fr")
    run(NEWS, NOON + MINUTE, checks_all=True)

    assert aws.file(NEWS).body == body
    assert b'xml:lang="fr"' in aws.file(FEED).body
    assert b">The Example</title>" in aws.file(FEED).body
    assert run(NEWS, NOON + HOUR) == "unchanged"
    assert len(aws.announced) == 2


# ── robots.txt ──


def test_robots_txt_has_no_other_outputs_and_foreign_files_stay(aws: MotoAws) -> None:
    aws.site(robots="")
    foreign = ["robots.txt.gz", "robots.txt.txt"]
    for name in foreign:
        client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{name}", Body=b"")

    run(ROBOTS, checks_all=True)
    assert names() == [ROBOTS, *foreign]
    aws.site()
    run(ROBOTS, checks_all=True)
    assert names() == foreign


def test_a_foreign_robots_txt_is_not_changed_if_none_is_configured(aws: MotoAws) -> None:
    assert run(ROBOTS, checks_all=True) == "unchanged"
    foreign = b"User-agent: *"
    client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{ROBOTS}", Body=foreign)
    assert run(ROBOTS, checks_all=True) == "unchanged"
    assert aws.file(ROBOTS).body == foreign
