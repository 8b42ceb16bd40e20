"""A file rendered from changed keys or from the whole partition is that of all its entries."""

from collections.abc import Callable
from datetime import datetime

import pytest

from stoppress.aws import bucket, table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.clients import client
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import GeneralEntry
from stoppress.model.file_names import headers
from stoppress.rewrite import file_lines
from stoppress.rewrite.sitemaps import changed_entry, rewrite, rewrite_all
from stoppress.sitemaps.render import render_general
from stoppress.sitemaps.tags import RENDERER
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, SITE, page
from tests.support.moto_aws import MotoAws, failed_ids
from tests.support.partitions import HOUR, MINUTE, NOON, SHARD, key, mark, put_news, put_page, shard, stream, take_page

pytestmark = [pytest.mark.moto, pytest.mark.usefixtures("aws")]


# ── folding ──


def fold(file: str, *changed: tuple[str, str], now: datetime = NOON + MINUTE) -> str:
    return rewrite(RewriteRequest(HOST, file, entries=frozenset(changed)), now).outcome


@pytest.fixture
def large_shard(aws: MotoAws) -> list[str]:
    """Write a shard that takes three units to read, and return the paths of its pages."""
    paths = [f"page-{number:03}" for number in range(240)]
    for path in paths:
        put_page(path)
    shard()
    assert len(aws.file(SHARD).body) > 3 * file_lines.READ_UNIT_BYTES
    return paths


def unread(*_: object, **__: object) -> None:
    raise AssertionError("the partition was read")


def test_only_changed_entries_are_read_by_their_keys(
    aws: MotoAws, large_shard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_page("new", MORNING)
    put_page("page-007", MORNING + HOUR)
    take_page("page-001")
    monkeypatch.setattr(table, "query", unread)

    assert fold(SHARD, key("new"), key("page-007"), key("page-001")) == "written"
    dated = {"new": MORNING, "page-007": MORNING + HOUR}
    pages = [GeneralEntry(page(path), dated.get(path)) for path in [*large_shard, "new"] if path != "page-001"]
    assert aws.file(SHARD).body == render_general(pages, SITE).body
    marked = mark()
    assert marked
    assert (marked.changed, marked.urls) == (NOON + MINUTE, 240)
    assert fold(SHARD, key("new"), now=NOON + 2 * MINUTE) == "unchanged"


def put_again(stored: StoredFile, config: str, whole: datetime) -> None:
    bucket.write(HOST, SHARD, stored.body, *headers(SHARD), replaces=stored, changed=NOON, config=config, whole=whole)


OF_HTTP = SITE.model_copy(update={"scheme": "http"}).digest
LONG_AGO = NOON + MINUTE - file_lines.WHOLE_EVERY
# By case: the change of the stored file.
HAPPENED: dict[str, Callable[[StoredFile], object]] = {
    "without metadata": lambda stored: client("s3").put_object(
        Bucket=moto_aws.BUCKET, Key=f"{HOST}/{SHARD}", Body=stored.body
    ),
    "of another renderer": lambda stored: put_again(stored, f"{RENDERER + 1}.{stored.config.partition('.')[2]}", NOON),
    "of another configuration": lambda stored: put_again(stored, f"{RENDERER}.{OF_HTTP}", NOON),
    "made as a whole long ago": lambda stored: put_again(stored, stored.config, LONG_AGO),
    "gone": lambda stored: bucket.delete(HOST, SHARD, stored),
}


@pytest.mark.parametrize("happened", HAPPENED)
def test_an_unexpected_file_is_rendered_from_all_entries(
    aws: MotoAws, large_shard: list[str], monkeypatch: pytest.MonkeyPatch, happened: str
) -> None:
    HAPPENED[happened](aws.file(SHARD))
    put_page("lost")  # no request names it: only a read of the partition finds it
    put_page("new")
    monkeypatch.setattr(table, "get_many", unread)

    assert fold(SHARD, key("new")) == "written"
    pages = [GeneralEntry(page(path)) for path in [*large_shard, "lost", "new"]]
    assert aws.file(SHARD).body == render_general(pages, SITE).body


def test_more_keys_than_the_whole_partition_costs_are_not_read(
    aws: MotoAws, large_shard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    units = len(aws.file(SHARD).body) // file_lines.READ_UNIT_BYTES
    monkeypatch.setattr(table, "query", unread)
    fold(SHARD, *[key(path) for path in large_shard[:units]])
    with pytest.raises(AssertionError, match="the partition was read"):
        fold(SHARD, *[key(path) for path in large_shard[: units + 1]])


def test_a_request_without_entries_renders_the_file_from_all(aws: MotoAws, large_shard: list[str]) -> None:
    put_page("lost")
    put_page("new")
    works = [RewriteRequest(HOST, SHARD, entries=frozenset([key("new")])), RewriteRequest(HOST, SHARD)]
    (result,) = rewrite_all(works, NOON + MINUTE)

    assert result.urls == len(large_shard) + 2


def test_the_stream_contains_the_changed_entries(aws: MotoAws, large_shard: list[str]) -> None:
    aws.read_stream()
    put_page("page-003", MORNING)
    take_page("page-004")
    put_news()
    records = [record["dynamodb"] for record in stream(aws)["Records"]]

    assert [changed_entry(record) for record in records] == [
        key("page-003"),
        key("page-004"),
        (f"{MORNING:%Y-%m-%dT%H:%M:%SZ}#{key('a')[0]}", page("a")),
    ]


def test_a_stream_record_without_images_renders_the_file_from_all_entries(aws: MotoAws, large_shard: list[str]) -> None:
    put_page("new")
    put_page("lost")
    batch = stream(aws)
    record = next(record_ for record_ in batch["Records"] if record_["dynamodb"]["Keys"]["sk"]["S"] == key("new")[0])
    del record["dynamodb"]["NewImage"]

    assert failed_ids(aws.call("rewrite_sitemaps", {"Records": [record]})) == []
    assert page("lost").encode() in aws.file(SHARD).body
