"""Each row of docs/explanation/promises.md lists existing tests. Tests of promises without another file are here."""

import ast
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoppress.aws.items import QUARANTINE_KEPT, quarantine_item
from stoppress_cli.local.template import parse_yaml
from stoppress_cli.scenario import player
from tests.docs.pages import table_rows
from tests.support import playing
from tests.support.operated import HOST, event, operated, url

ROOT = Path(__file__).parents[2]
PROMISES = (ROOT / "docs/explanation/promises.md").read_text(encoding="utf-8")


def names_of_tests() -> set[str]:
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_each_promise_lists_tests_that_exist() -> None:
    rows = table_rows(PROMISES, "| promise | tests |")
    tests = names_of_tests()

    assert len(rows) > 10
    for promise, *held in rows:
        named = re.findall(r"`(\w+)`", held[0])
        assert named, promise
        assert not set(named) - tests, promise


@pytest.mark.moto
def test_a_published_article_is_in_the_files_after_one_read_of_queue_and_stream(tmp_path: Path) -> None:
    mapped = {
        name: mapping["Properties"]["MaximumBatchingWindowInSeconds"]
        for resource in parse_yaml((ROOT / "template.yaml").read_text(encoding="utf-8"))["Resources"].values()
        for name, mapping in resource.get("Properties", {}).get("Events", {}).items()
        if "MaximumBatchingWindowInSeconds" in mapping["Properties"]
    }
    assert mapped == {"ChangedPartitions": 1, "Changed": 1}  # the last one notifies engines, afterwards

    with operated([], tmp_path) as stack:
        [articles] = [source for source in stack.sources.queue_mappings if source.name == "RecordArticleArticles"]
        [stream] = stack.sources.stream_mappings
        [post] = playing.written([event(0, "1", "flood")])
        with player.playing(stack, tmp_path / "made.jsonl", tmp_path, lambda _line, _text: None) as opened:
            opened.sites[HOST] = {"sources": {"cms": {"secret": "newsroom"}}}
            opened._secrets["newsroom"] = "whsec_c3RvcHByZXNz"
            opened.step(post)
        assert articles.deliver(stack.sources.invoke)
        assert stream.deliver(stack.sources.invoke, stack.clock.now())
        bucket = stack.only("AWS::S3::Bucket").ref
        for name in ("sitemap-news.xml", "sitemap-2026-11.xml"):
            body = stack.client("s3").get_object(Bucket=bucket, Key=f"{HOST}/{name}")["Body"].read()
            assert url("flood").encode() in body


def test_a_quarantined_event_is_kept_for_thirty_days() -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    item = quarantine_item(HOST, "m1", "why", "{}", now)

    assert QUARANTINE_KEPT.days == 30
    assert item["ttl"] == int(now.timestamp()) + 30 * 24 * 60 * 60
