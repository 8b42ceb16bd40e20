"""Twelve ways in which a system of this kind was seen to lose or spoil pages, each told small: none of them happens here.

The order is that in which they were found, by running the nearest peer. The simulation looks for the rest of their kind.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stoppress.aws import bucket, table
from stoppress.aws.items import file_pk
from stoppress.aws.queues import read_rewrite
from stoppress.model import file_names, places
from stoppress.model.event import ArticleEvent
from stoppress.model.file_names import INDEX_FILE
from stoppress.sitemaps import render
from stoppress_cli.local.mappings import StreamMapping
from tests.simulation.run import Run
from tests.simulation.weather import Weather
from tests.simulation.wiring import wiring
from tests.support import doors
from tests.support.doors import Doors, failed_ones, failing, queue_batch
from tests.support.ledger import HOST, MORNING, page, publish, remove

pytestmark = pytest.mark.moto

MINUTE = timedelta(minutes=1)
SHARD, NEWS = "sitemap-2026-11.xml", "sitemap-news.xml"


@pytest.fixture(autouse=True)
def behind() -> Iterator[Doors]:
    with doors.opened(MORNING) as opened:
        opened.site(shards={"by": "month", "size": 50})
        yield opened


def told(behind: Doors, said: Iterable[str | ArticleEvent]) -> list[str]:
    """One batch of the articles queue; the messages that come again."""
    return failed_ones(behind.call("record_article", queue_batch(said, sent_at=MORNING)))


def written(behind: Doors) -> list[str]:
    """What the stream brings, until it brings nothing; the records that come again."""
    failed: list[str] = []
    mapping = StreamMapping(STREAM, wiring().functions["RewriteSitemaps"], behind.stream)
    while records := [record for record in behind.stream.read() if mapping.passes(record)]:
        failed += failed_ones(behind.call("rewrite_sitemaps", {"Records": records}))
    return failed


STREAM = next(
    one for one in wiring().of("AWS::Lambda::EventSourceMapping") if "/stream/" in str(one.properties["EventSourceArn"])
)


def locs(body: bytes) -> list[str]:
    return re.findall(r"<loc>(.*?)</loc>", body.decode())


def in_index(behind: Doors) -> list[str]:
    return [url.rpartition("/")[2] for url in locs(behind.file(INDEX_FILE).body)]


def listed(behind: Doors) -> list[str]:
    """Every page in every shard that the index names, as often as it stands there."""
    return sorted(loc for name in in_index(behind) if file_names.is_shard(name) for loc in locs(behind.file(name).body))


def stories(count: int, **said: Any) -> list[ArticleEvent]:
    return [publish(f"{number}", f"{number}", **said) for number in range(count)]


def pages(count: int) -> list[str]:
    return sorted(page(f"{number}") for number in range(count))


@pytest.mark.parametrize("count", [1, 10, 24, 40])
def test_a_batch_of_nothing_but_updates_is_not_dropped(behind: Doors, count: int) -> None:
    told(behind, stories(count))
    written(behind)
    later = MORNING + MINUTE
    told(behind, [replace(one, title="Edited", timestamp=later, updated_at=later) for one in stories(count)])
    behind.clock.move_to(later)
    written(behind)

    assert behind.file(NEWS).body.count(b"<news:title>Edited</news:title>") == count


def test_a_file_that_did_not_arrive_is_not_said_to_be_written(behind: Doors) -> None:
    written(behind)  # the new site's files are requested
    behind.taken("rewrites")
    told(behind, stories(30))
    with failing("s3", "PutObject"):
        written(behind)
    missing = [read_rewrite(body) for body in behind.taken("rewrites")]

    assert [one.file for one in missing] == [NEWS]
    assert table.get(file_pk(HOST, INDEX_FILE), NEWS) is None
    behind.call("rewrite_sitemaps", queue_batch([missing[0].message()], sent_at=MORNING, queue="rewrites"))
    written(behind)
    assert listed(behind) == pages(30)


@pytest.mark.parametrize("applied", [False, True])
def test_a_delivery_that_comes_again_after_a_failed_write_does_not_list_pages_twice(
    behind: Doors, *, applied: bool
) -> None:
    with failing("dynamodb", "TransactWriteItems", times=5, applied=applied):
        again = told(behind, stories(10))
    assert len(again) == 5
    assert told(behind, stories(10)) == []
    written(behind)

    assert listed(behind) == pages(10)


def test_a_stall_between_table_and_file_does_not_lose_the_pages_of_the_batch(behind: Doors) -> None:
    told(behind, stories(5))
    written(behind)
    told(behind, stories(45))
    records = [one for one in behind.stream.read() if one["dynamodb"]["Keys"]["pk"]["S"].startswith("file#")]
    with failing("s3", "GetObject", times=2), failing("sqs", "SendMessageBatch", times=1):
        stalled = failed_ones(behind.call("rewrite_sitemaps", {"Records": records}))
    assert told(behind, stories(45)) == []
    assert stalled
    behind.call("rewrite_sitemaps", {"Records": records})
    written(behind)

    assert listed(behind) == pages(45)


def test_one_bad_date_does_not_hold_up_the_others(behind: Doors) -> None:
    bad = {
        "detail-type": "article.published",
        "source": "bus",
        "time": "2026-11-20T08:00:00Z",
        "detail": {"site": HOST, "id": "bad", "url": page("bad"), "title": "A", "updated_at": "next tuesday"},
    }
    assert told(behind, [json.dumps(bad), *stories(9)]) == []
    written(behind)

    assert listed(behind) == pages(9)
    assert "updated_at" in behind.items("quarantine#")[0]["reason"]


@pytest.mark.parametrize(
    "bad",
    [
        "one record that is no JSON",
        json.dumps({"site": HOST, "source": "cms", "action": "publish", "timestamp": "2026-11-20T08:00:00Z"}),
        json.dumps({"detail-type": "article.published", "source": "bus", "detail": {"site": HOST, "url": "http://[", "id": "x"}}),
        json.dumps({"detail-type": "article.published", "source": "bus", "detail": {"site": HOST, "url": page("x"), "title": "A"}}),
    ],
    ids=["no JSON", "no id", "no URL", "no id on the bus"],
)  # fmt: skip
def test_one_bad_record_does_not_take_its_batch_along(behind: Doors, bad: str) -> None:
    two_by_case = [publish("Story", "upper"), publish("story", "lower")]

    assert told(behind, [*stories(3), bad, *two_by_case]) == []
    written(behind)
    assert listed(behind) == sorted([*pages(3), page("upper"), page("lower")])
    assert len(behind.items("quarantine#")) == 1


def test_an_index_that_failed_is_not_taken_for_written(behind: Doors) -> None:
    told(behind, stories(1))
    put = bucket.write

    def failing_index(site: str, file: str, body: bytes, *headers: str, **said: Any) -> None:
        if file == INDEX_FILE:
            raise ConnectionError("S3 is away")
        put(site, file, body, *headers, **said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket, "write", failing_index)
        written(behind)
    [again] = {body for body in behind.taken("rewrites") if INDEX_FILE in body}
    behind.call("rewrite_sitemaps", queue_batch([again], sent_at=MORNING, queue="rewrites"))

    assert listed(behind) == pages(1)


def test_a_file_is_not_over_its_limit_because_its_letters_take_three_bytes(
    behind: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (render, places):
        monkeypatch.setattr(module, "BYTES_MAX", 6_000)
    monkeypatch.setattr(places, "FRAME_BYTES_MAX", 500)
    told(behind, stories(30, title="東京の港が洪水で閉鎖された" * 4))
    written(behind)

    news = [name for name in in_index(behind) if file_names.is_news(name)]
    assert len(news) > 1
    assert all(len(behind.file(name).body) <= 6_000 for name in news)
    assert sorted(loc for name in news for loc in locs(behind.file(name).body)) == pages(30)


def test_a_file_does_not_outgrow_its_limit_from_batch_to_batch(behind: Doors) -> None:
    behind.site(shards={"by": "month", "size": 10})
    for batch in range(4):
        told(behind, [publish(f"{number}", f"{number}") for number in range(8 * batch, 8 * batch + 8)])
        written(behind)

    counts = [len(locs(behind.file(name).body)) for name in in_index(behind) if file_names.is_shard(name)]
    assert max(counts) <= 10
    assert listed(behind) == pages(32)


def test_pages_that_were_removed_do_not_stay_in_the_live_file(behind: Doors) -> None:
    told(behind, stories(10))
    written(behind)
    told(behind, [remove(f"{number}") for number in range(7)])
    behind.clock.move_to(MORNING + MINUTE)
    written(behind)

    assert listed(behind) == [page("7"), page("8"), page("9")]


def test_no_function_is_fed_what_it_cannot_read(behind: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """In fair weather and without nonsense, each event source of the template brings its function only what that takes."""
    monkeypatch.setattr(Weather, "of", staticmethod(lambda chance: Weather()))
    run = next(run for seed in range(1, 50) if not (run := Run(seed)).story.poison)
    run.play()

    batches = [line for line in run.world.log if "RecordArticle" in line or "RewriteSitemaps" in line]
    assert batches
    assert [line for line in batches if "errorType" in line or "itemIdentifier" in line] == []
    assert not re.search("(Key|Type|Value|Attribute)Error", "".join(run.world.log))


def test_an_article_without_date_or_title_is_not_written_with_empty_tags(behind: Doors) -> None:
    nameless = {
        "detail-type": "article.published",
        "source": "bus",
        "detail": {"site": HOST, "id": "2", "url": page("2")},
    }
    told(behind, [publish("1", "1", published_at=None), json.dumps(nameless)])
    written(behind)

    assert listed(behind) == [page("1")]
    assert bucket.read(HOST, NEWS) is None
    assert "title" in behind.items("quarantine#")[0]["reason"]
