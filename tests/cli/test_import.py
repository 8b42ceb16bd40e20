"""`stoppress import`: from an archive to the imports queue. tests/local_stack/test_import.py tests the way to the files."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from stoppress.aws import queues, sites, table
from stoppress.http import client as http
from stoppress.model.event import ListingError, StaleCheckpoint
from stoppress.model.site import Site
from stoppress.model.site_parts import Source
from stoppress_cli.app import app
from stoppress_cli.commands import import_ as archive
from stoppress_cli.commands.import_ import Checkpoint, checkpoint_of, run
from stoppress_cli.connect import BadRequest
from stoppress_cli.inputs.archive import listing_of
from stoppress_cli.output import FAILED
from tests.support.apis import Blog
from tests.support.killing import killed, until_done

HOST = "www.example.com"
ROOT = f"https://{HOST}"
LIST = {"url": f"{ROOT}/wp-json/wp/v2/posts"}
SITE = Site(
    host=HOST,
    publication="Example News",
    sources={
        "cms": Source.model_validate({"adapter": "wordpress", "secret": "x", "list": LIST}),
        "own": Source.model_validate({"secret": "x"}),
    },
)
FAST = 1e9


class Queue:
    """SQS in memory, which counts the messages of each article's URL."""

    def __init__(self) -> None:
        self.urls: dict[str, int] = {}
        self.batches: list[int] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's
        self.batches.append(len(Entries))
        assert sum(len(entry["MessageBody"]) for entry in Entries) < 1_048_576
        for entry in Entries:
            self.take(json.loads(entry["MessageBody"]))
        return {}

    def take(self, event: dict[str, Any]) -> None:
        self.urls[event["url"]] = self.urls.get(event["url"], 0) + 1


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    fake = Queue()
    monkeypatch.setattr(queues, "client", lambda _service: fake)
    monkeypatch.setattr(table, "get_many", lambda _keys: {})
    monkeypatch.setenv("IMPORTS_QUEUE_URL", "https://sqs/imports")
    return fake


def lines(path: Path, number: int) -> Path:
    with path.open("w") as file:
        for n in range(number):
            file.write(json.dumps({"id": n, "url": f"{ROOT}/{n}", "title": "Flood closes the harbour"}) + "\n")
    return path


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(folder / "checkpoint.json")


def test_an_import_sends_every_article_in_full_batches_and_deletes_its_checkpoint(tmp_path: Path, queue: Queue) -> None:
    path = lines(tmp_path / "archive.jsonl", 250)
    tally = run(listing_of(str(path), SITE, "own"), SITE, checkpoint(tmp_path), rate=FAST)
    assert (tally.listed, tally.refused, tally.ignored) == (250, 0, 0)
    assert queue.urls == {f"{ROOT}/{n}": 1 for n in range(250)}
    assert queue.batches == [10] * 25
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_dry_run_sends_nothing_and_counts_each_row_once_by_its_reason(tmp_path: Path, queue: Queue) -> None:
    rows = ["id,url,title,noindex,colour", f"1,{ROOT}/1,A,,red", f"2,{ROOT}/2,B,true,red"]
    rows += [f"{n},https://other.example.net/{n},C,,red" for n in range(3, 8)]
    rows += ["8,nowhere,D,,red", "9,nothing,D,,red", f"10,{ROOT}/10,E,,red,more", f"11,{ROOT}/11"]
    path = tmp_path / "archive.csv"
    path.write_text("\n".join(rows))
    report = run(listing_of(str(path), SITE, "own"), SITE, None, rate=FAST).report()
    assert queue.batches == []
    assert (report["listed"], report["refused"], report["ignored"]) == (1, 9, 1)
    assert [(row["kind"], row["number"], row["examples"][-1][:7]) for row in report["reasons"]] == [
        ("refused", 5, "line 6:"), ("refused", 2, "line 10"), ("ignored", 1, "line 3:"), ("refused", 1, "line 11"),
        ("refused", 1, "line 12"), ("note", 1, "line 2"),
    ]  # fmt: skip
    run(listing_of(str(path), SITE, "own"), SITE, checkpoint(tmp_path), rate=FAST)
    assert list(queue.urls) == [f"{ROOT}/1", f"{ROOT}/2"]  # noindex is recorded, another host is not


@pytest.mark.parametrize(
    ("ending", "has_checkpoint", "reason", "continues"),
    [
        (KeyboardInterrupt(), True, "interrupted", True),
        (KeyboardInterrupt(), False, "interrupted", False),
        (ListingError("the server answers 503"), True, "the server answers 503", True),
        (StaleCheckpoint("has changed"), True, "has changed", False),
    ],
    ids=["interrupted", "interrupted early", "not listed", "stale"],
)
def test_a_command_that_ended_early_reports_whether_it_can_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    ending: BaseException, has_checkpoint: bool, reason: str, continues: bool,
) -> None:  # fmt: skip
    if has_checkpoint:
        checkpoint(tmp_path).write("{}", archive.Tally())
    monkeypatch.setattr(archive, "run", Mock(side_effect=ending))
    monkeypatch.setattr(sites, "load", lambda _: SITE)
    monkeypatch.setattr(archive, "checkpoint_of", lambda *_: checkpoint(tmp_path))
    path = lines(tmp_path / "archive.jsonl", 1)
    result = CliRunner().invoke(app, ["import", str(path), "--site", HOST, "--as", "own"])

    assert (result.exit_code, reason in result.stderr) == (FAILED, True)
    assert ("again to continue" in result.stderr) == continues


def test_an_invalid_checkpoint_file_is_refused(tmp_path: Path) -> None:
    kept = checkpoint(tmp_path)
    kept.path.write_text("{")
    with pytest.raises(BadRequest, match="not a checkpoint"):
        kept.read()


def test_checkpoints_are_named_after_site_source_and_its_source_of_the_site() -> None:
    names = {
        checkpoint_of(HOST, source, name).path.name
        for source, name in [("a.csv", "cms"), ("a.csv", None), ("a/csv", None), (f"{ROOT}/s.xml?a=1", None)]
    }
    assert len(names) == 4
    assert all(name.startswith(f"stoppress-import-{HOST}-") for name in names)


def test_the_rate_is_kept_on_average(tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    run(listing_of(str(lines(tmp_path / "a.jsonl", 1_000)), SITE, "own"), SITE, checkpoint(tmp_path), rate=50)
    assert clock[0] == pytest.approx(20, abs=0.5)


@pytest.mark.parametrize(
    ("source", "name", "reason"),
    [
        ("own", None, "cannot be listed"),
        ("cms", "own", "leave --as out"),
        ("nothing.csv", None, "neither a source of"),
        ("{}", None, "neither a source of"),
        ("list.json", None, "JSON object on each line"),
        ("a.csv", "other", "no source 'other'"),
        (f"{ROOT}/s.xml", "own", "CSV and JSON Lines"),
        ("empty.xml", None, "empty.xml is empty"),
        ("empty.csv", "own", "empty.csv is empty"),
        ("binary.xml", None, "neither a sitemap nor JSON Lines nor CSV"),
        ("prose.xml", None, "neither a sitemap nor JSON Lines nor CSV"),
    ],
)
def test_input_that_cannot_be_imported_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str | None, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,url\n")
    (tmp_path / "list.json").write_text("[{}]")
    (tmp_path / "empty.xml").write_text("")
    (tmp_path / "empty.csv").write_text("\n\n")
    (tmp_path / "binary.xml").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (tmp_path / "prose.xml").write_text("Nothing is here.\nurl")
    with pytest.raises(BadRequest, match=reason):
        listing_of(source, SITE, name)


def test_without_the_queue_the_command_reports_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMPORTS_QUEUE_URL", raising=False)
    with pytest.raises(BadRequest, match="Listing=yes"):
        run(listing_of(str(lines(tmp_path / "a.jsonl", 1)), SITE, "own"), SITE, checkpoint(tmp_path), rate=FAST)


def test_a_sources_api_is_listed_and_then_the_changes_made_meanwhile(
    tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    blog = Blog()
    monkeypatch.setattr(http, "fetch", blog.fetch)
    now = datetime.now(UTC)
    for id_ in range(1, 251):
        blog.publish(id_, now.replace(year=2020))

    blog.publish(
        250, now - timedelta(hours=3)
    )  # the second walk lists it too, for blogs that read an instant in their own zone

    def run_on() -> archive.Tally:
        return run(listing_of("cms", SITE, None), SITE, checkpoint(tmp_path), rate=FAST)

    with killed(random.Random(7), 5, 20) as kills:
        until_done(run_on)
        assert kills() == 5
    assert len(queue.urls) == 250
    blog.requests.clear()
    blog.publish(251, now - timedelta(hours=2))
    assert run_on().listed == 251
    assert len(queue.urls) == 251
    assert sum("modified_after" in url for url in blog.requests) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_import_misses_nothing_and_repeats_little(tmp_path: Path, queue: Queue, seed: int) -> None:
    path = lines(tmp_path / "archive.jsonl", 2_000)
    with killed(random.Random(seed), 10, 15) as kills:
        tally = until_done(lambda: run(listing_of(str(path), SITE, "own"), SITE, checkpoint(tmp_path), rate=FAST))
        assert kills() == 10
    assert tally.listed == 2_000
    assert len(queue.urls) == 2_000
    assert sum(queue.urls.values()) <= 2_000 + 10 * 100
