"""`stoppress adapters` and `stoppress adapters try`: the output, the forms of a delivery, and unreadable input."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress_cli.app import app
from tests.support.own_mapping import GAZETTE

CURRENT = {
    "id": "1", "url": "https://www.example.com/a/", "title": "Ähre [1]", "status": "published",
    "published_at": "2026-11-20T08:00:00Z", "updated_at": "soon",
}  # fmt: skip
BODY = {"post": {"current": CURRENT, "previous": {"status": "draft"}}}
CREATED = {"request": {"headers": {}, "body": BODY}, "now": "2026-11-20T09:00:00Z"}


def run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["adapters", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def try_delivery(tmp_path: Path, document: Any, *options: str, name: str = "ghost") -> list[dict[str, Any]]:
    file = tmp_path / "delivery.json"
    file.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    code, out, err = run("try", name, str(file), "--json", *options)
    assert (code, err) == (0, "")
    verdicts: list[dict[str, Any]] = json.loads(out)
    return verdicts


def test_a_delivery_is_shown_field_by_field_with_the_origin_of_each_value(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(CREATED))
    code, out, _ = run("try", "ghost", str(tmp_path / "a.json"))
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (code, lines[0]) == (0, "apply publish")
    assert "title Ähre [1] from current.title" in lines
    assert any(line.startswith("left out: updated_at: 'soon'") for line in lines)


@pytest.mark.parametrize(
    "document",
    [
        CREATED,
        {"request": {"headers": {"X-A": "b"}, "body": json.dumps(BODY)}, "now": CREATED["now"]},
        {"request": {"headers": {}, "body_base64": base64.b64encode(json.dumps(BODY).encode()).decode()}},
        {"headers": {}, "body": BODY},
        BODY,
    ],
    ids=["recorded", "text", "base64", "flat", "bare"],
)  # fmt: skip
def test_a_delivery_may_be_given_in_any_of_these_forms(tmp_path: Path, document: Any) -> None:
    [shown] = try_delivery(tmp_path, document)
    assert (shown["disposition"], shown["action"], shown["id"], shown["title"]) == ("apply", "publish", "1", "Ähre [1]")
    assert [reason.partition(":")[0] for reason in shown["dropped"]] == ["updated_at", "version"]


def test_a_form_body_the_query_and_the_settings_are_read(tmp_path: Path) -> None:
    form = b"hook=publish_post&ID=5&post_title=T&post_url=https%3A%2F%2Fwww.example.com%2Ft&post_date=2026-11-20+09%3A00%3A00"
    [shown] = try_delivery(tmp_path, form, "--settings", '{"timezone": "Europe/Paris"}', name="wordpress-com")
    assert shown["published_at"] == "2026-11-20T08:00:00.000000Z"
    [without] = try_delivery(tmp_path, form, name="wordpress-com")
    assert without["missing"] == ["published_at"]
    body = {"post": {"current": {"id": 1}}}
    delivery = {"request": {"path": "/hooks/ghost?event=post.unpublished", "headers": {}, "body": body}}
    assert [verdict["action"] for verdict in try_delivery(tmp_path, delivery)] == ["unpublish"]


def test_a_sites_configuration_sets_host_and_zone_and_spells_the_url(tmp_path: Path) -> None:
    site = tmp_path / "site.json"
    site.write_text(json.dumps({"host": "www.example.com", "publication": "A", "timezone": "Europe/Paris"}))
    body = {"id": 1, "title": "T", "url": "http://www.example.com/a", "date": {"raw": "2026-11-20 09:00:00"}}
    [shown] = try_delivery(tmp_path, body, "--site-config", str(site), name="wedevs")
    assert (shown["url"], shown["published_at"]) == ("https://www.example.com/a", "2026-11-20T08:00:00.000000Z")


def test_a_local_mapping_file_can_be_tried(tmp_path: Path) -> None:
    (tmp_path / "gazette.toml").write_text(GAZETTE)
    body = {"stories": [{"event": "story.gone", "story": {"number": 7}}]}
    [shown] = try_delivery(tmp_path, body, name=str(tmp_path / "gazette.toml"))
    assert (shown["action"], shown["id"]) == ("delete", "7")


def test_a_setting_that_the_mapping_does_not_have_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(CREATED | {"config": {"site_urls": {}}}))
    code, out, err = run("try", "ghost", str(tmp_path / "a.json"), "--json")
    assert (code, json.loads(out)[0]["disposition"]) == (0, "apply")
    assert err.startswith("ghost has no setting site_urls: its settings are base_url, language")


def test_a_lone_surrogate_does_not_prevent_the_output(tmp_path: Path) -> None:
    [shown] = try_delivery(tmp_path, {"post": {"current": CURRENT | {"id": "\ud800", "url": None}}})
    assert shown["disposition"] == "incomplete"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("try", "gohst", "{file}"), "'gohst' is no adapter: give one of"),
        (("try", "ghost", "{folder}/none.json"), "No such file"),
        (("try", "ghost", "{file}", "--settings", "{"), "Expecting"),
        (("try", "ghost", "{file}", "--now", "yesterday"), "is not an ISO 8601 instant"),
        (("try", "{folder}/none.toml", "{file}"), "No such file"),
        (("try", "ghost", "{file}", "--site-config", "{file}"), "host: is missing"),
    ],
)
def test_unreadable_input_exits_with_2_and_a_reason(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(CREATED))
    places = {"{file}": str(tmp_path / "a.json"), "{folder}": str(tmp_path)}
    typed = list(arguments)
    for name, path in places.items():
        typed = [argument.replace(name, path) for argument in typed]
    code, out, err = run(*typed)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("ghost", b"{"),
        ("standard", b"no recorded delivery"),
        ("cloudevents", b"\xff"),
        ("ghost", {"request": {"headers": {}, "body": "{"}}),
    ],
    ids=["bare", "text", "bytes", "recorded"],
)
def test_a_body_that_cannot_be_read_is_incomplete(tmp_path: Path, document: Any, name: str) -> None:
    [shown] = try_delivery(tmp_path, document, name=name)
    assert (shown["disposition"], shown["action"], shown["missing"]) == ("incomplete", None, ["body"])
    assert shown["reason"].startswith("the body is not ")
    code, out, _ = run("try", name, str(tmp_path / "delivery.json"))
    assert (code, out.split()[:5]) == (0, ["incomplete", "the", "body", "is", "not"])
