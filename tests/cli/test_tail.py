"""`stoppress tail`: each delivery is printed once, with its source, signature, outcome and reason."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from stoppress.aws import refusals
from stoppress.aws.refusals import Report
from stoppress_cli.app import app
from stoppress_cli.commands import tail
from stoppress_cli.commands.tail import Delivery, Watch
from stoppress_cli.local.stack import Stack
from tests.support.operated import HOST, event, later, on_the_bus, operated, pretend_deployed, publish, url

pytestmark = pytest.mark.moto

BAD = on_the_bus(id="7", url=url("bad"), version="x")


def rows(deliveries: list[Delivery]) -> list[tuple[str, str, str, str]]:
    return [
        (item.source, item.signature, item.received.outcome, (item.received.url or "").rpartition("/")[2])
        for item in deliveries
    ]


def read(stack: Stack, watch: Watch) -> list[tuple[str, str, str, str]]:
    return rows(watch.read_new(stack.clock.now()))


def test_each_delivery_is_returned_once_with_its_outcome(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood"), BAD], tmp_path) as stack:
        watch = Watch(None)
        assert set(read(stack, watch)) == {("cms", "valid", "listed", "flood"), ("", "none", "quarantined", "")}
        assert read(stack, watch) == []

        later(stack, 1)
        publish(stack, "1", "flood", title="Flood recedes")
        publish(stack, "2", "ball", noindex=True)
        later(stack, 1)
        publish(stack, "1", "flood", kind="article.deleted")
        publish(stack, "3", "fire", published_at="2026-11-21T12:00:00Z")
        later(stack, 1)
        new = {
            ("cms", "valid", "excluded", "ball"),
            ("cms", "valid", "removed", "flood"),
            ("cms", "valid", "held", "fire"),
        }
        assert set(read(stack, watch)) == new  # the news no longer lists the flood, so its update is not found


def test_an_update_of_an_old_story_is_found_before_deliveries_of_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoppress.show.read_page.STORIES_QUERIED_MAX", 1)
    with operated(
        [event(1, "1", "flood"), event(2, "2", "ball", published_at="2026-11-20T12:01:00Z")], tmp_path
    ) as stack:
        watch = Watch(HOST)
        read(stack, watch)
        later(stack, 10)
        publish(stack, "1", "flood", published_at="2026-11-20T12:00:00Z", updated_at="2026-11-20T12:09:00Z")
        later(stack, 1)
        assert read(stack, watch)[-1] == ("cms", "valid", "listed", "flood")


def test_wrong_signatures_of_the_day_appear_again_when_there_are_more(tmp_path: Path) -> None:
    with operated([], tmp_path) as stack:
        watch = Watch(HOST)
        for number, in_all in ((3, 3), (4, 7)):
            refusals.keep([Report(site=HOST, source="cms", at=stack.clock.now(), unverified=number)])
            [wrong] = watch.read_new(stack.clock.now())
            assert (wrong.source, wrong.signature) == ("cms", "wrong")
            assert wrong.received.reason.startswith(
                f"at least {in_all} deliveries from cms had a wrong signature today"
            )
        assert watch.read_new(stack.clock.now()) == []


def test_an_imported_or_audited_story_had_no_signature(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood")], tmp_path) as stack:
        [delivery] = Watch(HOST).read_new(stack.clock.now())
        imported = replace(delivery, received=replace(delivery.received, reason="imported"))
        assert (delivery.signature, imported.signature) == ("valid", "none")


@pytest.mark.parametrize("options", [["--json"], []])
def test_the_command_prints_a_line_for_each_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    pretend_deployed(monkeypatch)
    with operated([event(1, "1", "flood"), event(2, "2", "ball", noindex=True)], tmp_path) as stack:
        done = CliRunner().invoke(app, ["tail", HOST, "--seconds", "0", "--stack", stack.name, *options])
    first, second = done.stdout.splitlines()
    assert done.exit_code == 0
    if options:
        assert json.loads(first)["outcome"] == "listed"
        assert json.loads(second)["at"] == "2026-11-20T12:02:00Z"
    else:
        assert first.startswith(
            "2026-11-20 12:01:00 +00:00  cms       valid  listed       publish  Flood closes the harbour"
        )
        assert "excluded" in second


def test_tail_continues_when_the_stack_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[BaseException | None] = [None, typer.Exit(2), None, KeyboardInterrupt()]

    def look(_watch: Any) -> None:
        if error := looks.pop(0):
            raise error

    pretend_deployed(monkeypatch)
    monkeypatch.setattr(tail, "_print_new", look)
    monkeypatch.setattr(tail, "LOOKS_EVERY_S", 0)
    done = CliRunner().invoke(app, ["tail", "--stack", "stoppress"])
    assert (done.exit_code, looks) == (0, [])
