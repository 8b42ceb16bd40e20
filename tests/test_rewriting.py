"""Rewriting: a file ends as its partition says, whoever else writes, whatever crashes and whatever the clocks show."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import md5
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stoppress import bucket, files, queues, rewriting, sites, table
from stoppress.aws import client
from stoppress.bucket import Overtaken, StoredFile
from stoppress.files import GeneralEntry, NewsEntry, render_general, render_index, render_news
from stoppress.formats import content_type
from stoppress.instants import exact
from stoppress.places import Place
from stoppress.queues import Rewrite, read_rewrite
from stoppress.records import changed_entry, file_pk, general_item, news_item, read_mark
from stoppress.rewriting import BrokenFile, hand_over, rewrite, rewrite_all
from stoppress.site import Site
from stoppress.table import Busy, Conflict
from stoppress.urls import key_of
from tests import doors
from tests.doors import Doors, failed_ones, failing, once_before, queue_batch
from tests.ledger import HOST, MORNING, SITE, page

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOON = MORNING + 4 * HOUR
SHARD, NEWS, INDEX = "sitemap-2026-11.xml", "sitemap-news.xml", "sitemap.xml"


@pytest.fixture(autouse=True)
def behind() -> Iterator[Doors]:
    with doors.opened(NOON) as opened:
        opened.site()
        yield opened


def put_page(path: str = "a", lastmod: datetime | None = None, file: str = SHARD) -> None:
    table.put_if(general_item(HOST, file, GeneralEntry(page(path), lastmod)))


def take_page(path: str = "a", file: str = SHARD) -> None:
    item = general_item(HOST, file, GeneralEntry(page(path)))
    table.delete(item["pk"], item["sk"])


def put_news(path: str = "a", published: datetime = MORNING, title: str = "A") -> None:
    table.put_if(news_item(HOST, Place("news", 1, 400), NewsEntry(page(path), title, published)))


def shard(now: datetime = NOON, **said: Any) -> str:
    return rewrite(Rewrite(HOST, SHARD, **said), now).outcome


def mark(file: str = SHARD) -> files.Mark | None:
    item = table.get(file_pk(HOST, INDEX), file)
    return read_mark(item) if item else None


def said(behind: Doors) -> list[dict[str, Any]]:
    """The items, but for how often they were written."""
    return [{name: value for name, value in item.items() if name != "rev"} for item in behind.items()]


def announced(behind: Doors) -> list[tuple[str, int]]:
    return [(event["detail"]["file"], event["detail"]["urls"]) for event in behind.announced]


# ── one rewriter ──


def test_a_file_is_written_announced_and_marked(behind: Doors) -> None:
    put_page("a", MORNING)
    assert shard() == "written"

    stored = behind.file(SHARD)
    assert stored.body == render_general([GeneralEntry(page("a"), MORNING)], SITE).body
    assert (stored.changed, stored.config_version) == (NOON, 1)
    (event,) = behind.announced
    assert (event["source"], event["detail-type"]) == ("stoppress", "sitemap rewritten")
    assert event["detail"] == {"site": HOST, "file": SHARD, "urls": 1, "changed": exact(NOON)}
    marked = mark()
    assert marked
    assert (marked.changed, marked.urls, marked.size_bytes) == (NOON, 1, len(stored.body))


@pytest.mark.parametrize(("file", "age"), [(SHARD, 300), (NEWS, 60), (INDEX, 60), ("sitemap-news-2.xml", 60)])
def test_a_file_says_what_it_is_and_how_long_it_may_be_kept(behind: Doors, file: str, age: int) -> None:
    put_page("a")
    table.put_if(news_item(HOST, Place("news", 2, 400), NewsEntry(page("a"), "A", MORNING)))
    rewrite_all([Rewrite(HOST, SHARD), Rewrite(HOST, file)], NOON)
    answer = client("s3").get_object(Bucket=doors.BUCKET, Key=f"{HOST}/{file}")
    assert answer["ContentType"] == "application/xml; charset=utf-8"
    assert answer["CacheControl"] == f"public, max-age={age}"
    assert "ContentEncoding" not in answer


def test_a_file_that_would_break_the_protocol_is_not_written_and_the_last_good_one_stands(behind: Doors) -> None:
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


def test_equal_bytes_are_not_put_again_nor_announced(behind: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    shard()
    before = said(behind), behind.file(SHARD)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was written although nothing had changed")

    monkeypatch.setattr(bucket, "write", never)
    assert shard(NOON + HOUR) == "unchanged"
    assert (said(behind), behind.file(SHARD)) == before
    assert len(behind.announced) == 1


def test_the_news_file_changes_with_the_clock_alone(behind: Doors) -> None:
    put_news()
    news = Rewrite(HOST, NEWS)
    assert rewrite(news, NOON).outcome == "written"
    assert rewrite(news, MORNING + 48 * HOUR - timedelta(seconds=1)).outcome == "unchanged"
    assert rewrite(news, MORNING + 48 * HOUR).outcome == "written"
    assert behind.file(NEWS).body == render_news([], SITE, NOON).body


def test_a_partition_of_many_pages_is_read_whole(behind: Doors) -> None:
    for number in range(30):
        item = general_item(HOST, SHARD, GeneralEntry(page(f"{number:02}")))
        table.put_if(item | {"filler": "x" * 90_000})
    assert rewrite(Rewrite(HOST, SHARD), NOON).urls == 30


# ── other rewriters ──


def test_a_file_changed_between_read_and_put_is_read_again(behind: Doors) -> None:
    put_page("a")

    def other_writer() -> None:
        put_page("b")
        shard(NOON + MINUTE)
        put_page("c")  # which the other one does not know of

    with once_before(bucket, "write", other_writer):
        assert shard() == "written"
    assert behind.file(SHARD).body == render_general([GeneralEntry(page(path)) for path in "abc"], SITE).body
    assert behind.file(SHARD).changed > NOON + MINUTE


def test_a_file_made_by_another_meanwhile_is_read_again(behind: Doors) -> None:
    put_page("a")
    with once_before(bucket, "write", lambda: shard(NOON + MINUTE)):
        assert shard() == "unchanged"
    assert behind.file(SHARD).changed == NOON + MINUTE


def test_a_file_taken_away_meanwhile_is_made_anew(behind: Doors) -> None:
    put_page("a")
    shard()
    put_page("b")
    with once_before(bucket, "write", lambda: bucket.delete(HOST, SHARD, behind.file(SHARD))):
        assert shard(NOON + MINUTE) == "written"
    assert b"/b<" in behind.file(SHARD).body


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "PreconditionFailed", "NoSuchKey"])
def test_what_s3_says_of_another_writer_is_taken_as_that(behind: Doors, code: str) -> None:
    put_page()
    with failing("s3", "PutObject", code=code):
        assert shard() == "written"


def test_other_errors_of_s3_are_themselves(behind: Doors) -> None:
    put_page()
    with failing("s3", "PutObject", code="AccessDenied"), pytest.raises(ClientError):
        shard()
    with failing("s3", "GetObject", code="AccessDenied"), pytest.raises(ClientError):
        shard()
    assert behind.announced == []


def test_a_rewriter_that_is_always_overtaken_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    with failing("s3", "PutObject", code="PreconditionFailed", times=8), pytest.raises(Overtaken, match="8 attempts"):
        shard()


def test_a_put_whose_answer_was_lost_is_found_and_marked(behind: Doors) -> None:
    put_page()
    with failing("s3", "PutObject", code="InternalError", applied=True), pytest.raises(ClientError):
        shard()
    assert (mark(), behind.announced) == (None, [])
    assert shard(NOON + MINUTE) == "unchanged"
    marked = mark()
    assert marked
    assert marked.changed == NOON
    assert announced(behind) == [(SHARD, 1)]


def test_an_object_that_somebody_else_has_put_is_written_anew_with_its_headers(behind: Doors) -> None:
    put_page()
    shard()
    body = behind.file(SHARD).body
    client("s3").put_object(Bucket=doors.BUCKET, Key=f"{HOST}/{SHARD}", Body=body)
    assert not behind.file(SHARD).ours
    assert shard(NOON + HOUR) == "written"
    assert behind.file(SHARD).ours
    assert client("s3").head_object(Bucket=doors.BUCKET, Key=f"{HOST}/{SHARD}")["ContentType"] == content_type(SHARD)
    assert shard(NOON + 2 * HOUR) == "unchanged"


# ── crashes ──


def test_a_crash_between_put_and_mark_is_repaired_by_the_next_rewrite(behind: Doors) -> None:
    put_page()
    with failing("dynamodb", "PutItem"), pytest.raises(ClientError):
        shard()
    assert mark() is None

    assert shard(NOON + HOUR) == "unchanged"
    marked = mark()
    assert marked
    assert marked.changed == NOON
    assert announced(behind) == [(SHARD, 1), (SHARD, 1)]


def test_a_mark_at_which_a_transaction_is_busy_is_not_taken_for_written(behind: Doors) -> None:
    """A shard without a mark would be in no index until it changes again."""
    put_page("a")
    with failing("dynamodb", "PutItem", code="TransactionConflictException"):
        rewrite(Rewrite(HOST, SHARD), NOON)

    assert behind.item(file_pk(HOST, INDEX), SHARD)


def test_a_crash_before_the_announcement_announces_and_marks_later(behind: Doors) -> None:
    put_page()
    with failing("events", "PutEvents"), pytest.raises(ClientError):
        shard()
    assert mark() is None
    shard(NOON + HOUR)
    assert announced(behind) == [(SHARD, 1)]
    assert mark()


def test_the_bus_that_takes_nothing_keeps_the_mark_back(behind: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    answer = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}]}
    with monkeypatch.context() as patch:
        patch.setattr(client("events"), "put_events", lambda **_: answer)
        with pytest.raises(queues.SendError, match="the bus did not take 'sitemap rewritten': slow down"):
            shard()
    assert mark() is None
    assert shard() == "unchanged"
    assert mark()


def test_a_crash_after_an_edit_leaves_the_older_mark_to_be_repaired(behind: Doors) -> None:
    put_page("a")
    shard()
    put_page("b")
    with failing("dynamodb", "PutItem"), pytest.raises(ClientError):
        shard(NOON + MINUTE)
    marked = mark()
    assert marked
    assert marked.urls == 1
    shard(NOON + HOUR)
    marked = mark()
    assert marked
    assert (marked.urls, marked.changed) == (2, NOON + MINUTE)


# ── marks and clocks ──


def test_a_mark_never_goes_back_to_an_older_file(behind: Doors) -> None:
    put_page("a")

    def another_edit_is_written_and_marked() -> None:
        put_page("b")
        shard(NOON + MINUTE)

    with once_before(queues, "announce", another_edit_is_written_and_marked):
        shard()  # and only now it marks what has been overtaken
    marked = mark()
    assert marked
    assert (marked.urls, marked.changed) == (2, NOON + MINUTE)
    assert marked.size_bytes == len(behind.file(SHARD).body)


@pytest.mark.parametrize("back", [timedelta(), timedelta(microseconds=1), HOUR, timedelta(days=400)])
def test_the_change_of_a_file_is_always_later_than_the_one_before(behind: Doors, back: timedelta) -> None:
    put_page("a")
    shard(NOON)
    put_page("b")
    shard(NOON - back)

    assert behind.file(SHARD).changed == NOON + timedelta(microseconds=1)
    marked = mark()
    assert marked
    assert marked.urls == 2


def test_the_change_of_a_file_is_not_before_what_stands_in_it(behind: Doors) -> None:
    put_page("a", NOON + 3 * MINUTE)
    shard(NOON)
    assert behind.file(SHARD).changed == NOON + 3 * MINUTE


def test_a_file_that_somebody_else_put_without_our_metadata_is_replaced(behind: Doors) -> None:
    put_page()
    client("s3").put_object(Bucket=doors.BUCKET, Key=f"{HOST}/{SHARD}", Body=b"by hand")
    assert shard(NOON - HOUR) == "written"
    assert behind.file(SHARD).changed > NOON - HOUR
    assert b"/a<" in behind.file(SHARD).body


# ── configuration ──


def test_a_rewriter_that_meets_a_newer_configuration_reads_it_before_it_writes(behind: Doors) -> None:
    put_news()
    old = sites.load(HOST)
    behind.site(publication="Renamed News")
    rewrite(Rewrite(HOST, NEWS), NOON)
    sites._cache[next(iter(sites._cache))] = (NOON, old)  # another rewriter, which has it in memory
    put_news("b")
    assert rewrite(Rewrite(HOST, NEWS), NOON).outcome == "written"

    body = behind.file(NEWS).body
    assert body.count(b"Renamed News") == 2
    assert behind.file(NEWS).config_version == 2


def test_a_message_that_names_a_configuration_is_not_served_by_an_older_one(behind: Doors) -> None:
    put_news()
    old = sites.load(HOST)
    behind.site(publication="Renamed News")
    sites._cache[next(iter(sites._cache))] = (NOON, old)
    rewrite(Rewrite(HOST, NEWS, config_version=2), NOON)
    assert b"Renamed News" in behind.file(NEWS).body


def test_of_several_works_for_a_file_the_one_of_the_newest_configuration_is_done(behind: Doors) -> None:
    works = [Rewrite(HOST, NEWS), Rewrite(HOST, NEWS, 1), Rewrite(HOST, NEWS)]
    (result,) = rewrite_all(works, NOON)
    assert result.work.config_version == 1


def test_a_due_message_that_meets_another_of_its_file_is_done_with_it_or_in_the_next_minute(behind: Doors) -> None:
    retiring = emptied(behind)
    later = NOON + MINUTE + DAY
    (result,) = rewrite_all([Rewrite(HOST, SHARD, 1), retiring], later)
    assert result.outcome == "retired"
    rewrite_all([retiring], later + MINUTE)  # what is still due is sent again
    assert behind.items("due#") == []


# ── folding ──


def fold(file: str, *changed: tuple[str, str], now: datetime = NOON + MINUTE) -> str:
    return rewrite(Rewrite(HOST, file, entries=frozenset(changed)), now).outcome


def key(path: str) -> tuple[str, str]:
    return key_of(page(path)), page(path)


@pytest.fixture
def large_shard(behind: Doors) -> list[str]:
    """A shard that takes three units to read, written; the paths of its pages."""
    paths = [f"page-{number:03}" for number in range(240)]
    for path in paths:
        put_page(path)
    shard()
    assert len(behind.file(SHARD).body) > 3 * rewriting.READ_UNIT_BYTES
    return paths


def unread(*_: object, **__: object) -> None:
    raise AssertionError("the partition was read")


def test_what_changed_is_read_by_its_keys_and_nothing_else(
    behind: Doors, large_shard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_page("new", MORNING)
    put_page("page-007", MORNING + HOUR)
    take_page("page-001")
    monkeypatch.setattr(table, "query", unread)

    assert fold(SHARD, key("new"), key("page-007"), key("page-001")) == "written"
    dated = {"new": MORNING, "page-007": MORNING + HOUR}
    pages = [GeneralEntry(page(path), dated.get(path)) for path in [*large_shard, "new"] if path != "page-001"]
    assert behind.file(SHARD).body == render_general(pages, SITE).body
    marked = mark()
    assert marked
    assert (marked.changed, marked.urls) == (NOON + MINUTE, 240)
    assert fold(SHARD, key("new"), now=NOON + 2 * MINUTE) == "unchanged"


def test_what_changed_meanwhile_is_read_again_by_its_keys(behind: Doors, large_shard: list[str]) -> None:
    put_page("first")
    put_page("second")

    with once_before(bucket, "write", lambda: fold(SHARD, key("first"))):
        assert fold(SHARD, key("second")) == "written"
    pages = [GeneralEntry(page(path)) for path in [*large_shard, "first", "second"]]
    assert behind.file(SHARD).body == render_general(pages, SITE).body


def _without_metadata(stored: StoredFile) -> None:
    client("s3").put_object(Bucket=doors.BUCKET, Key=f"{HOST}/{SHARD}", Body=stored.body)


def _put_again(stored: StoredFile, version: int, form: str, whole: datetime) -> None:
    bucket.write(
        HOST, SHARD, stored.body, replaces=stored, changed=NOON, config_version=version, form=form, whole=whole
    )


def _of_another_renderer(stored: StoredFile) -> None:
    _put_again(stored, 1, f"{files.RENDERER + 1}.{stored.form.partition('.')[2]}", NOON)


def _of_another_configuration(stored: StoredFile) -> None:
    _put_again(stored, 0, stored.form, NOON)


def _of_another_first_configuration(stored: StoredFile) -> None:
    """As after a parameter that was deleted and made again."""
    _put_again(stored, 1, f"{files.RENDERER}.{SITE.model_copy(update={'scheme': 'http'}).digest}", NOON)


def _made_as_a_whole_long_ago(stored: StoredFile) -> None:
    _put_again(stored, 1, stored.form, NOON + MINUTE - rewriting.WHOLE_EVERY)


def _gone(stored: StoredFile) -> None:
    bucket.delete(HOST, SHARD, stored)


@pytest.mark.parametrize("happened", [
    _without_metadata, _of_another_renderer, _of_another_configuration, _of_another_first_configuration,
    _made_as_a_whole_long_ago, _gone,
])  # fmt: skip
def test_a_file_that_is_not_as_we_write_it_is_made_from_all_entries(
    behind: Doors, large_shard: list[str], monkeypatch: pytest.MonkeyPatch, happened: Callable[[StoredFile], None]
) -> None:
    happened(behind.file(SHARD))
    put_page("lost")  # nobody tells of it: who reads the partition finds it
    put_page("new")
    monkeypatch.setattr(table, "get_many", unread)

    assert fold(SHARD, key("new")) == "written"
    pages = [GeneralEntry(page(path)) for path in [*large_shard, "lost", "new"]]
    assert behind.file(SHARD).body == render_general(pages, SITE).body


def test_more_keys_than_the_whole_partition_costs_are_not_read(
    behind: Doors, large_shard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    units = len(behind.file(SHARD).body) // rewriting.READ_UNIT_BYTES
    monkeypatch.setattr(table, "query", unread)
    fold(SHARD, *[key(path) for path in large_shard[:units]])
    with pytest.raises(AssertionError, match="the partition was read"):
        fold(SHARD, *[key(path) for path in large_shard[: units + 1]])


def test_a_file_that_one_of_its_works_names_without_entries_is_made_from_all(
    behind: Doors, large_shard: list[str]
) -> None:
    put_page("lost")
    put_page("new")
    works = [Rewrite(HOST, SHARD, entries=frozenset([key("new")])), Rewrite(HOST, SHARD)]
    (result,) = rewrite_all(works, NOON + MINUTE)

    assert result.urls == len(large_shard) + 2


def test_the_entries_of_several_works_for_a_file_are_folded_in_together(
    behind: Doors, large_shard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_page("first")
    put_page("second")
    monkeypatch.setattr(table, "query", unread)
    works = [Rewrite(HOST, SHARD, entries=frozenset([key(path)])) for path in ("first", "second")]
    (result,) = rewrite_all(works, NOON + MINUTE)

    assert (result.outcome, result.urls) == ("written", len(large_shard) + 2)


def test_a_file_that_could_not_be_folded_into_is_made_from_all_entries_next(
    behind: Doors, large_shard: list[str]
) -> None:
    put_page("new")
    works = [Rewrite(HOST, SHARD, entries=frozenset([key("new")]))]
    with failing("s3", "PutObject", code="InternalError"):
        (result,) = rewrite_all(works, NOON + MINUTE)
    assert hand_over(result) is None

    assert [read_rewrite(body) for body in behind.taken("rewrites")] == [Rewrite(HOST, SHARD)]


def test_the_new_lines_of_a_file_are_held_to_the_rules(behind: Doors, large_shard: list[str]) -> None:
    before = behind.file(SHARD)
    table.put_if(general_item(HOST, SHARD, GeneralEntry("https://other.example.com/new")))

    with pytest.raises(BrokenFile, match=r"other\.example\.com"):
        fold(SHARD, (key_of("https://other.example.com/new"), "https://other.example.com/new"))
    assert behind.file(SHARD) == before


def test_the_stream_says_which_entries_changed(behind: Doors, large_shard: list[str]) -> None:
    behind.stream.read()
    put_page("page-003", MORNING)
    take_page("page-004")
    put_news()
    records = [record["dynamodb"] for record in stream(behind)["Records"]]

    assert [changed_entry(record) for record in records] == [
        key("page-003"),
        key("page-004"),
        (f"{MORNING:%Y-%m-%dT%H:%M:%SZ}#{key('a')[0]}", page("a")),
    ]


def test_a_record_without_images_has_its_file_made_from_all_entries(behind: Doors, large_shard: list[str]) -> None:
    put_page("new")
    put_page("lost")
    batch = stream(behind)
    record = next(one for one in batch["Records"] if one["dynamodb"]["Keys"]["sk"]["S"] == key("new")[0])
    del record["dynamodb"]["NewImage"]

    assert failed_ones(behind.call("rewrite_sitemaps", {"Records": [record]})) == []
    assert page("lost").encode() in behind.file(SHARD).body


# ── the index ──


def test_the_index_follows_the_marks_and_never_records_itself(behind: Doors) -> None:
    put_page("a")
    put_news()
    results = rewrite_all([Rewrite(HOST, INDEX), Rewrite(HOST, SHARD), Rewrite(HOST, NEWS)], NOON)

    assert [result.work.file for result in results] == [SHARD, NEWS, INDEX]
    assert [result.outcome for result in results] == ["written"] * 3
    assert [item["sk"] for item in behind.items(f"file#{HOST}/{INDEX}")] == [SHARD, NEWS]
    marks = [found for name in (SHARD, NEWS) if (found := mark(name))]
    assert behind.file(INDEX).body == render_index(marks, SITE)[0].body
    assert rewrite(Rewrite(HOST, INDEX), NOON + HOUR).outcome == "unchanged"
    assert announced(behind)[-1] == (INDEX, 2)
    assert len(behind.announced) == 3


def test_the_index_lists_an_empty_news_file_but_no_emptied_shard(behind: Doors) -> None:
    put_page("a")
    works = [Rewrite(HOST, SHARD), Rewrite(HOST, NEWS), Rewrite(HOST, INDEX)]
    rewrite_all(works, NOON)
    assert behind.file(INDEX).body.count(b"<loc>") == 2
    take_page("a")
    rewrite_all(works, NOON + MINUTE)

    body = behind.file(INDEX).body
    assert b"sitemap-news.xml" in body
    assert SHARD.encode() not in body
    assert behind.file(SHARD).body == behind.file(NEWS).body == render_general([], SITE).body


def test_a_crash_after_the_index_was_written_announces_it_no_more_than_needed(behind: Doors) -> None:
    rewrite_all([Rewrite(HOST, NEWS), Rewrite(HOST, INDEX)], NOON)
    rewrite(Rewrite(HOST, INDEX), NOON + HOUR)
    assert announced(behind) == [(NEWS, 0), (INDEX, 1)]


# ── emptied shards ──


def emptied(behind: Doors) -> Rewrite:
    put_page("a")
    shard(NOON)
    take_page("a")
    assert shard(NOON + MINUTE) == "written"
    (due,) = behind.items("due#")
    assert (due["queue"], due["sk"]) == ("rewrites", f"{exact(NOON + MINUTE + DAY)}#file#{SHARD}")
    return read_rewrite(due["message"])


def test_an_emptied_shard_is_taken_away_after_a_day(behind: Doors) -> None:
    retiring = emptied(behind)
    assert rewrite(retiring, NOON + MINUTE + DAY).outcome == "retired"
    assert bucket.read(HOST, SHARD) is None
    assert mark() is None
    assert behind.items("due#") == []
    assert rewrite(retiring, NOON + MINUTE + DAY).outcome == "retired"  # delivered again


def test_an_emptied_shard_stays_until_its_day_is_over(behind: Doors) -> None:
    emptied(behind)
    assert shard(NOON + MINUTE + DAY - timedelta(microseconds=1)) == "unchanged"
    assert behind.file(SHARD).body
    assert len(behind.items("due#")) == 1


def test_a_clock_that_is_behind_keeps_no_emptied_shard(behind: Doors) -> None:
    retiring = emptied(behind)
    assert rewrite(retiring, NOON + DAY).outcome == "retired"


def test_an_emptied_shard_that_was_filled_again_stays(behind: Doors) -> None:
    retiring = emptied(behind)
    put_page("b")
    shard(NOON + HOUR)
    assert rewrite(retiring, NOON + MINUTE + DAY).outcome == "unchanged"
    assert b"/b<" in behind.file(SHARD).body
    assert behind.items("due#") == []


def test_a_shard_that_was_emptied_twice_has_a_day_from_the_second_time(behind: Doors) -> None:
    first = emptied(behind)
    put_page("b")
    shard(NOON + HOUR)
    take_page("b")
    shard(NOON + 2 * HOUR)
    assert rewrite(first, NOON + MINUTE + DAY).outcome == "unchanged"
    (due,) = behind.items("due#")
    assert rewrite(read_rewrite(due["message"]), NOON + 2 * HOUR + DAY).outcome == "retired"


def test_a_shard_filled_while_it_is_taken_away_is_made_anew(behind: Doors) -> None:
    retiring = emptied(behind)
    later = NOON + MINUTE + DAY

    def filled() -> None:
        put_page("b")
        shard(later)

    with once_before(bucket, "delete", filled):
        assert rewrite(retiring, later).outcome == "unchanged"
    assert b"/b<" in behind.file(SHARD).body
    marked = mark()
    assert marked
    assert marked.urls == 1


def test_a_crash_while_a_shard_is_taken_away_is_finished_by_the_next_attempt(behind: Doors) -> None:
    retiring = emptied(behind)
    later = NOON + MINUTE + DAY
    with failing("dynamodb", "DeleteItem"), pytest.raises(ClientError):
        rewrite(retiring, later)
    assert rewrite(retiring, later).outcome == "retired"
    assert mark() is None
    assert behind.items("due#") == []


def test_a_crash_before_the_due_record_of_an_emptied_shard_is_repaired(behind: Doors) -> None:
    put_page("a")
    shard(NOON)
    take_page("a")
    with failing("dynamodb", "PutItem"), pytest.raises(ClientError):
        shard(NOON + MINUTE)
    assert behind.items("due#") == []
    assert shard(NOON + HOUR) == "unchanged"
    assert len(behind.items("due#")) == 1
    marked = mark()
    assert marked
    assert marked.urls == 0


def test_the_empty_news_file_is_never_taken_away(behind: Doors) -> None:
    rewrite(Rewrite(HOST, NEWS), NOON)
    assert rewrite(Rewrite(HOST, NEWS), NOON + 2 * DAY).outcome == "unchanged"
    assert behind.file(NEWS).body
    assert behind.items("due#") == []


def test_a_second_news_file_is_taken_away_like_a_shard(behind: Doors) -> None:
    second = news_item(HOST, Place("news", 2, 400), NewsEntry(page("a"), "A", MORNING))
    table.put_if(second)
    rewrite(Rewrite(HOST, "sitemap-news-2.xml"), NOON)
    table.delete(second["pk"], second["sk"])
    rewrite(Rewrite(HOST, "sitemap-news-2.xml"), NOON + MINUTE)
    (due,) = behind.items("due#")
    assert rewrite(read_rewrite(due["message"]), NOON + MINUTE + DAY).outcome == "retired"


def test_a_file_that_never_was_and_lists_nothing_is_not_made(behind: Doors) -> None:
    assert shard() == "retired"
    assert bucket.read(HOST, SHARD) is None
    assert (behind.items(), behind.announced) == ([], [])


# ── what fails ──


def test_a_file_over_its_limit_leaves_the_last_good_one(behind: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page("a")
    shard()
    before = behind.file(SHARD)
    put_page("b")
    with monkeypatch.context() as patch:
        patch.setattr(files, "URLS_MAX", 1)
        (result,) = rewrite_all([Rewrite(HOST, SHARD)], NOON + MINUTE)
    assert (result.outcome, type(result.error)) == ("failed", files.FileTooLarge)
    assert behind.file(SHARD) == before
    assert hand_over(result) is None
    assert [read_rewrite(body) for body in behind.taken("rewrites")] == [Rewrite(HOST, SHARD)]
    assert shard(NOON + HOUR) == "written"


def test_one_bad_file_stops_no_other(behind: Doors) -> None:
    put_page("a")
    put_news()
    works = [Rewrite("nowhere.example.com", NEWS), Rewrite(HOST, SHARD), Rewrite(HOST, NEWS), Rewrite(HOST, INDEX)]
    with failing("s3", "GetObject", code="InternalError"):
        results = rewrite_all(works, NOON)
    assert [(result.work.site, result.work.file, result.outcome) for result in results] == [
        ("nowhere.example.com", NEWS, "failed"),
        (HOST, SHARD, "failed"),
        (HOST, NEWS, "written"),
        (HOST, INDEX, "written"),
    ]


# ── the function ──


def stream(behind: Doors) -> dict[str, Any]:
    """What the stream has brought since the last call, filtered as the template says."""
    records = [one for one in behind.stream.read() if one["dynamodb"]["Keys"]["pk"]["S"].startswith("file#")]
    return {"Records": records}


def written_by_stream(behind: Doors) -> None:
    """Deliver the stream until it is quiet."""
    while (batch := stream(behind))["Records"]:
        assert failed_ones(behind.call("rewrite_sitemaps", batch)) == []


def test_a_burst_in_a_partition_is_one_rewrite(behind: Doors) -> None:
    for number in range(50):
        put_page(str(number))
    behind.call("rewrite_sitemaps", stream(behind))
    assert announced(behind) == [(SHARD, 50)]
    assert behind.metrics["FilesWritten"] == 1


def test_the_mark_wakes_the_index(behind: Doors) -> None:
    put_page()
    written_by_stream(behind)
    assert announced(behind) == [(SHARD, 1), (INDEX, 1)]
    assert SHARD.encode() in behind.file(INDEX).body


def test_a_stream_batch_that_comes_again_changes_nothing(behind: Doors) -> None:
    put_page()
    put_news()
    batch = stream(behind)
    behind.call("rewrite_sitemaps", batch)
    written_by_stream(behind)
    before = said(behind), [behind.file(name) for name in (SHARD, NEWS, INDEX)], behind.announced.copy()

    assert failed_ones(behind.call("rewrite_sitemaps", batch)) == []
    assert said(behind) == before[0]
    assert [behind.file(name) for name in (SHARD, NEWS, INDEX)] == before[1]
    assert behind.announced == before[2]


def test_a_file_that_fails_goes_to_the_queue_and_its_neighbours_are_written(behind: Doors) -> None:
    put_page("a")
    put_news()
    with failing("s3", "GetObject", code="InternalError"):
        assert failed_ones(behind.call("rewrite_sitemaps", stream(behind))) == []
    assert [read_rewrite(body).file for body in behind.taken("rewrites")] == [SHARD]
    assert behind.file(NEWS).body
    assert (behind.metrics["FilesFailed"], behind.metrics["FilesWritten"]) == (1, 1)
    assert any("InternalError" in line.get("reason", "") for line in behind.log)


def test_a_file_that_can_not_even_be_handed_over_is_reported_to_the_stream(behind: Doors) -> None:
    put_page("a")
    put_news()
    batch = stream(behind)
    number = {one["dynamodb"]["Keys"]["pk"]["S"]: one["dynamodb"]["SequenceNumber"] for one in batch["Records"]}
    with failing("s3", "GetObject", code="InternalError"), failing("sqs", "SendMessageBatch"):
        assert failed_ones(behind.call("rewrite_sitemaps", batch)) == [number[f"file#{HOST}/{SHARD}"]]
    assert behind.file(NEWS).body
    assert failed_ones(behind.call("rewrite_sitemaps", batch)) == []
    assert behind.file(SHARD).body


def test_a_record_of_a_site_that_is_gone_goes_to_the_queue_and_from_there_to_the_dead_letters(behind: Doors) -> None:
    item = general_item("gone.example.com", SHARD, GeneralEntry("https://gone.example.com/a"))
    table.put_if(item)
    assert failed_ones(behind.call("rewrite_sitemaps", stream(behind))) == []
    (body,) = behind.taken("rewrites")
    assert failed_ones(behind.call("rewrite_sitemaps", queue_batch([body], sent_at=NOON, queue="rewrites"))) == ["m0"]


def test_files_named_in_the_queue_are_written_and_bad_messages_come_again(behind: Doors) -> None:
    put_page("a")
    bodies = [Rewrite(HOST, SHARD, 1).message(), "not JSON", '{"site": "x"}', Rewrite(HOST, NEWS).message()]
    answer = behind.call("rewrite_sitemaps", queue_batch(bodies, sent_at=NOON, queue="rewrites"))
    assert failed_ones(answer) == ["m1", "m2"]
    assert behind.file(SHARD).body
    assert behind.file(NEWS).body


@pytest.mark.parametrize(("receives", "delay_s"), [(1, 10), (2, 20), (5, 160), (9, 900), (1_000, 900)])
def test_a_named_file_that_fails_comes_back_later_each_time(
    behind: Doors, monkeypatch: pytest.MonkeyPatch, receives: int, delay_s: int
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(client("sqs"), "change_message_visibility", lambda **said: asked.append(said))
    batch = queue_batch([Rewrite("gone.example.com", NEWS).message()], sent_at=NOON, queue="rewrites")
    batch["Records"][0]["attributes"]["ApproximateReceiveCount"] = str(receives)

    assert failed_ones(behind.call("rewrite_sitemaps", batch)) == ["m0"]
    assert [(said["ReceiptHandle"], said["VisibilityTimeout"]) for said in asked] == [("handle-0", delay_s)]


def test_a_visibility_that_cannot_be_changed_reports_its_record_all_the_same(behind: Doors) -> None:
    bodies = [Rewrite("gone.example.com", NEWS).message(), Rewrite(HOST, NEWS).message()]
    assert failed_ones(behind.call("rewrite_sitemaps", queue_batch(bodies, sent_at=NOON, queue="rewrites"))) == ["m0"]


# ── two rewriters at once, in every order of their steps ──


class Rewriter(threading.Thread):
    """A rewrite that stands still before each call of a door until it is told to go on."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work, self._go, self._stands = work, threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.error: BaseException | None = None

    def run(self) -> None:
        self.wait()
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - told to the test below
            self.error = error
        self.over = True
        self._stands.release()

    def wait(self) -> None:
        self._stands.release()
        self._go.acquire()

    def step(self) -> None:
        """Let it do one call."""
        self._go.release()
        self._stands.acquire()
        if self.error:
            raise self.error

    def begin(self) -> None:
        self.start()
        self._stands.acquire()


class World:
    """Object, table, mark and bus in memory; each call is a step that may stand between any two of the others."""

    Conflict, Busy = Conflict, Busy

    def __init__(self) -> None:
        self.pages = {"before"}
        self.object: StoredFile | None = None
        self.mark: dict[str, Any] | None = None
        self.announced = 0
        self.puts = 0

    def _stand(self) -> None:
        current = threading.current_thread()
        if isinstance(current, Rewriter):
            current.wait()

    def load_usable(self, host: str, at_least: int = 0) -> Site:
        return SITE

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        # Right before the object is read; a step of its own would double the orders and show nothing else.
        return self.mark

    def read(self, site: str, file: str) -> StoredFile | None:
        self._stand()
        return self.object

    def query(self, pk: str) -> list[dict[str, Any]]:
        self._stand()
        return self._items()

    def _items(self) -> list[dict[str, Any]]:
        return [general_item(HOST, SHARD, GeneralEntry(page(path))) for path in self.pages]

    def get_many(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        self._stand()
        items = {(item["pk"], item["sk"]): item for item in self._items()}
        return {key: items[key] for key in keys if key in items}

    def write(
        self,
        site: str,
        file: str,
        body: bytes,
        *,
        replaces: StoredFile | None,
        changed: datetime,
        config_version: int,
        form: str,
        whole: datetime | None,
    ) -> None:
        self._stand()
        if (self.object and self.object.etag) != (replaces and replaces.etag):
            raise Overtaken
        self.puts += 1
        self.object = StoredFile(
            body, md5(body, usedforsecurity=False).hexdigest(), changed, config_version, form, whole
        )

    def announce(self, detail_type: str, detail: dict[str, Any]) -> None:
        self.announced += 1

    def put(self, item: dict[str, Any], expected_rev: int | None) -> None:
        self._stand()
        if (self.mark and self.mark["rev"]) != expected_rev:
            raise Conflict
        self.mark = item | {"rev": (expected_rev or 0) + 1}


@dataclass(frozen=True)
class Case:
    """Two edits, each of which wakes a rewriter: the second one with another clock. `knows`: who of them knows its edit alone."""

    pages: tuple[str, ...]
    clocks: tuple[datetime, datetime] = (NOON, NOON + MINUTE)
    knows: tuple[bool, bool] = (True, True)
    # The second edit takes back what the first has put.
    taken_back: bool = False


def told(order: list[int], case: Case, monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[int]]:
    """`order` says who goes next while it lasts, then the first who can.

    The world at the end, and how many could have gone next at each step.
    """
    world = World()
    for name in ("bucket", "table", "queues", "sites"):
        monkeypatch.setattr(rewriting, name, world)
    if any(case.knows):
        rewrite(Rewrite(HOST, SHARD), NOON - HOUR / 2)
        world.puts = world.announced = 0

    def edited(number: int) -> Rewriter:
        path = "first" if case.taken_back else ("first", "second")[number]
        if number and case.taken_back:
            world.pages.remove(path)
        else:
            world.pages.add(path)
        entries = frozenset([(key_of(page(path)), page(path))]) if case.knows[number] else None
        rewriter = Rewriter(lambda: rewrite(Rewrite(HOST, SHARD, entries=entries), case.clocks[number]))
        rewriter.begin()
        return rewriter

    rewriters = [edited(0)]
    choices: list[int] = []
    while able := [*(one for one in rewriters if not one.over), *(["edit"] if len(rewriters) == 1 else [])]:
        turn = able[order[len(choices)] if len(choices) < len(order) else 0]
        choices.append(len(able))
        if isinstance(turn, Rewriter):
            turn.step()
        else:
            rewriters.append(edited(1))
    return world, choices


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(("before", "first", "second"), knows=(False, False)), id="whole"),
        pytest.param(Case(("before", "first", "second"), clocks=(NOON + MINUTE, NOON)), id="folding"),
        pytest.param(Case(("before",), knows=(False, True), taken_back=True), id="taken back"),
    ],
)
def test_two_rewriters_in_every_order_of_their_steps_end_with_the_tables_file(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "READ_UNIT_BYTES", 1)
    final = render_general([GeneralEntry(page(path)) for path in case.pages], SITE).body
    orders: list[list[int]] = [[]]
    tried = 0
    while orders:
        order = orders.pop()
        world, choices = told(order, case, monkeypatch)
        tried += 1
        assert world.object is not None, order
        assert world.object.body == final, order
        assert world.mark is not None, order
        assert world.mark["urls"] == len(case.pages), order
        assert case.taken_back or world.mark["changed"] == exact(world.object.changed), order
        assert world.puts <= (3 if case.taken_back else 2), order
        assert world.announced >= world.puts, order
        taken = order + [0] * (len(choices) - len(order))
        orders += [
            [*taken[:step], other] for step in range(len(order), len(choices)) for other in range(1, choices[step])
        ]
    assert tried > 100
