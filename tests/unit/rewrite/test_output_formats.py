"""Rewriting the other forms of a file: gzip, text, Atom, further indexes, robots.txt. They follow their file, and go with it."""

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
def behind() -> Iterator[MotoAws]:
    with moto_aws.opened(NOON) as opened:
        opened.site(outputs=EVERY_FORM)
        yield opened


def done(file: str = SHARD, now: datetime = NOON, **said: Any) -> str:
    return rewrite(RewriteRequest(HOST, file, **said), now).outcome


def names() -> list[str]:
    rows = client("s3").list_objects_v2(Bucket=moto_aws.BUCKET).get("Contents", [])
    return sorted(row["Key"].partition("/")[2] for row in rows)


def mark(file: str = SHARD) -> Mark:
    item = table.get(file_pk(HOST, INDEX), file)
    assert item
    return read_mark(item)


def agree(behind: MotoAws, file: str = SHARD) -> bool:
    """Whether a shard's forms say what the shard says."""
    body, packed = behind.file(file).body, behind.file(f"{file}.gz").body
    text = behind.file(f"{file.removesuffix('.xml')}.txt").body.decode()
    return gzip.decompress(packed) == body and text.split() == re.findall(r"<loc>(.*?)</loc>", body.decode())


# ── written with their file ──


def test_forms_of_equal_bytes_are_not_put_again(behind: MotoAws, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    put_news()
    works = [RewriteRequest(HOST, file) for file in (SHARD, NEWS, INDEX)]
    rewrite_all(works, NOON)
    before = [behind.file(name) for name in names()]

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was written or taken away although nothing had changed")

    monkeypatch.setattr(bucket, "write", never)
    monkeypatch.setattr(bucket, "delete", never)
    assert [result.outcome for result in rewrite_all(works, NOON + HOUR)] == ["unchanged"] * 3
    assert [behind.file(name) for name in names()] == before


def test_each_form_says_what_it_is(behind: MotoAws) -> None:
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


def test_forms_of_an_emptied_file_do_not_outlive_it_when_a_rewriter_with_a_fast_clock_wrote_them(
    behind: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_page("a")
    done()
    take_page("a")
    with monkeypatch.context() as patch:
        patch.setattr(publish, "replace_forms", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            done(now=NOON + MINUTE)  # the empty file is there, without its forms and its mark
    with failing("events", "PutEvents"), pytest.raises(ClientError):
        done(now=NOON + 3 * MINUTE)  # the forms are there too, written by a clock that is ahead
    put_page("b")

    assert done(now=NOON + 2 * MINUTE) == "written"
    assert agree(behind)


# ── turned off, and gone ──


def change(behind: MotoAws, **outputs: Any) -> None:
    """Change the forms that the site wants, and rewrite its files as the change does."""
    behind.site(outputs=outputs)
    rewrite_all([RewriteRequest(HOST, file, checks_all=True) for file in (SHARD, NEWS)], NOON + MINUTE)


def test_forms_follow_a_file_that_comes_back_to_its_bytes_of_before_after_two_crashes(
    behind: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of the first bytes is no word for what had to follow the second ones."""
    put_page("a")
    done()
    put_page("b")
    with failing("events", "PutEvents"), pytest.raises(ClientError):
        done(now=NOON + MINUTE)  # the file and its forms are there, and not its mark
    take_page("b")
    read = bucket.read
    monkeypatch.setattr(bucket, "read", lambda site, file: read(site, file) if file == SHARD else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        done(now=NOON + 2 * MINUTE)
    monkeypatch.setattr(bucket, "read", read)

    assert done(now=NOON + 3 * MINUTE) == "unchanged"
    assert agree(behind)
    assert mark().changed == NOON + 2 * MINUTE


def test_forms_that_are_turned_off_are_deleted_when_the_index_no_longer_lists_them(behind: MotoAws) -> None:
    put_page()
    put_news()
    rewrite_all([RewriteRequest(HOST, file) for file in (SHARD, NEWS, INDEX)], NOON)
    assert names() == [TEXT, SHARD, PACKED, FEED, NEWS, f"{NEWS}.gz", INDEX, f"{INDEX}.gz"]

    change(behind, text=True)
    assert (mark().also, mark(NEWS).also) == ((TEXT,), ())
    assert names() == [TEXT, SHARD, PACKED, NEWS, f"{NEWS}.gz", INDEX, f"{INDEX}.gz"]
    waiting = [read_request(body) for body in behind.taken("rewrites")]
    assert {(request.file, request.checks_all) for request in waiting} == {(SHARD, True), (NEWS, True)}

    rewrite_all([RewriteRequest(HOST, INDEX, checks_all=True)], NOON + MINUTE)
    assert b".gz" not in behind.file(INDEX).body
    rewrite_all(waiting, NOON + 2 * MINUTE)
    assert names() == [TEXT, SHARD, NEWS, INDEX]
    assert behind.taken("rewrites") == []


def test_a_gzip_form_without_a_mark_gets_another_etag_so_that_a_deletion_fails(behind: MotoAws) -> None:
    put_page()
    done()
    pending = behind.file(PACKED)
    item = table.get(file_pk(HOST, INDEX), SHARD)
    assert item
    table.put(mark_item(HOST, replace(read_mark(item), also=())), int(item["rev"]))

    rewrite(RewriteRequest(HOST, SHARD, checks_all=True), NOON + MINUTE)

    with pytest.raises(bucket.Overtaken):
        bucket.delete(HOST, PACKED, pending)
    assert gzip.decompress(behind.file(PACKED).body) == behind.file(SHARD).body


def test_the_forms_of_a_shard_that_is_filled_again_as_it_goes_stay(
    behind: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_page()
    done()
    take_page()
    done(now=NOON + MINUTE)
    gone = NOON + MINUTE + EMPTIED_KEPT
    delete = bucket.delete

    def fill_after(site: str, file: str, stored: bucket.StoredFile) -> None:
        delete(site, file, stored)
        monkeypatch.setattr(bucket, "delete", delete)
        put_page("b")
        done(now=gone)

    monkeypatch.setattr(bucket, "delete", fill_after)
    assert done(now=gone) == "unchanged"
    assert names() == [TEXT, SHARD, PACKED]
    assert agree(behind)


def test_the_forms_of_a_shard_that_is_filled_as_somebody_finds_it_empty_stay(behind: MotoAws) -> None:
    def fill() -> None:
        put_page()
        done()

    with once_before(publish, "retire", fill):
        assert done(checks_all=True) == "unchanged"
    assert names() == [TEXT, SHARD, PACKED]


def test_the_feed_of_a_series_stays_when_its_second_file_goes(behind: MotoAws) -> None:
    table.put(series_item(HOST, Series("news", (Used(1, 400), Used(1, 400)))), None)
    put_news("a", MORNING + HOUR)
    put_news("b", number=2)
    second = "sitemap-news-2.xml"
    rewrite_all([RewriteRequest(HOST, NEWS), RewriteRequest(HOST, second)], NOON)
    assert behind.file(FEED).body.count(b"<entry>") == 2

    later = MORNING + 48 * HOUR
    done(second, later)
    assert behind.file(FEED).body.count(b"<entry>") == 1
    assert done(second, later + EMPTIED_KEPT) == "retired"
    assert names() == [FEED, NEWS, f"{NEWS}.gz"]


def test_the_file_of_an_edition_that_was_empty_for_long_goes_when_the_index_names_it_no_more(behind: MotoAws) -> None:
    french = "sitemap-news-fr.xml"
    behind.site(editions=[{"prefix": "/fr/", "news": "fr"}], outputs=EVERY_FORM)
    rewrite_all([RewriteRequest(HOST, file) for file in (NEWS, french, INDEX)], NOON)
    others = set(names()) - {french, f"{french}.gz", "sitemap-news-fr.atom"}
    assert f"/{french}.gz</loc>".encode() in behind.file(INDEX).body

    behind.site(outputs=EVERY_FORM)
    assert done(french, NOON + 2 * DAY, checks_all=True) == "unchanged"
    assert {french, f"{french}.gz"} <= set(names())
    done(INDEX, NOON + 2 * DAY, checks_all=True)

    (due,) = behind.items("due#")
    assert rewrite_all([read_request(due["message"])], NOON + 2 * DAY + MINUTE)[0].outcome == "retired"
    assert (set(names()), behind.items("due#")) == (others, [])


def test_the_empty_file_of_an_edition_that_comes_back_stays(behind: MotoAws) -> None:
    french = "sitemap-news-fr.xml"
    editions = [{"prefix": "/fr/", "news": "fr"}]
    for number, said in enumerate([editions, [], editions], 2):
        behind.site(editions=said)
        done(french, NOON + number * MINUTE, checks_all=True)
    (due,) = behind.items("due#")
    assert rewrite_all([read_request(due["message"])], NOON + 2 * DAY)[0].outcome == "unchanged"
    assert (names(), behind.items("due#")) == ([french], [])


def test_the_feed_of_an_empty_window_follows_a_changed_publication(behind: MotoAws) -> None:
    done(NEWS)
    body = behind.file(NEWS).body
    behind.site(outputs=EVERY_FORM, publication="The Example", language="fr")
    done(NEWS, NOON + MINUTE, checks_all=True)

    assert behind.file(NEWS).body == body
    assert b'xml:lang="fr"' in behind.file(FEED).body
    assert b">The Example</title>" in behind.file(FEED).body
    assert done(NEWS, NOON + HOUR) == "unchanged"
    assert len(behind.announced) == 2


# ── robots.txt ──


def test_robots_has_no_other_forms_and_what_is_called_like_one_is_somebody_elses(behind: MotoAws) -> None:
    behind.site(robots="")
    theirs = ["robots.txt.gz", "robots.txt.txt"]
    for name in theirs:
        client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{name}", Body=b"")

    done(ROBOTS, checks_all=True)
    assert names() == [ROBOTS, *theirs]
    behind.site()
    done(ROBOTS, checks_all=True)
    assert names() == theirs


def test_a_robots_txt_of_somebody_elses_is_left_alone_where_none_is_kept(behind: MotoAws) -> None:
    assert done(ROBOTS, checks_all=True) == "unchanged"
    theirs = b"User-agent: *"
    client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{ROBOTS}", Body=theirs)
    assert done(ROBOTS, checks_all=True) == "unchanged"
    assert behind.file(ROBOTS).body == theirs
