"""`stoppress adapters verify`: the signatures of recorded requests."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress_cli.app import app
from stoppress_cli.inputs.delivery import invalid_because
from tests.support.adjacent_paths import SHARED, needs_shared
from tests.support.signature_senders import BODY, MORNING, PATH, sender_of

NOW_MS = round(MORNING.timestamp() * 1_000)


def vector(kind: str = "ghost", /, **changed: Any) -> dict[str, Any]:
    """Return a valid recorded request with some changes; None removes a key."""
    sender = sender_of(kind)
    request = sender.request()
    recorded: dict[str, Any] = {
        "id": kind,
        "scheme": kind,
        "secrets": [sender.secret],
        "method": "POST",
        "path": f"{PATH}?{request.query}",
        "headers": dict(request.headers),
        "body": request.body.decode(),
        "now_ms": NOW_MS,
        "tolerance_s": 300,
    }
    return {name: value for name, value in (recorded | changed).items() if value is not None}


def verdict(**recorded: Any) -> bool:
    return not invalid_because(recorded)


def run_verify(tmp_path: Path, text: str) -> tuple[int, str]:
    path = tmp_path / "vectors.json"
    path.write_text(text)
    result = CliRunner().invoke(app, ["adapters", "verify", str(path)])
    return result.exit_code, result.stdout


@needs_shared
def test_the_vectors_that_vendors_published_have_the_published_verdicts() -> None:
    path = SHARED / "deliveries" / "signature-vectors.json"
    vectors = json.loads(path.read_text())
    assert len(vectors) >= 12

    judged = {vector["id"]: "valid" if verdict(**vector) else "invalid" for vector in vectors}

    assert judged == {vector["id"]: vector["expected"] for vector in vectors}


@pytest.mark.parametrize(
    "changed",
    [
        {"secrets": ["another", sender_of("ghost").secret]},
        {"secrets": None, "secret": sender_of("ghost").secret},
        {"headers": {name.upper(): value for name, value in sender_of("ghost").request().headers.items()}},
        {"body": None, "body_base64": base64.b64encode(BODY).decode()},
        {"body": json.loads(BODY)},
        {"now_ms": None, "now": MORNING.isoformat()},
        {"now_ms": NOW_MS + 300_000},
        {"now_ms": NOW_MS + 900_000, "tolerance_s": 900},
        {"tolerance_s": 0},
        {"tolerance_s": None},
        {"method": None, "path": None},
    ],
    ids=str,
)
def test_a_recorded_request_may_be_written_in_several_ways(changed: dict[str, Any]) -> None:
    assert verdict(**vector(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"secrets": []},
        {"secrets": None},
        {"secrets": 7},
        {"headers": {}},
        {"headers": "x-ghost-signature"},
        {"headers": {"x-ghost-signature": None}},
        {"scheme": "unreceived-of"},
        {"scheme": None},
        {"scheme": {"signed": "{body}"}},
        {"body": ""},
        {"body": BODY.decode() + "\n"},
        {"body": None, "body_base64": "no base64"},
        {"now_ms": NOW_MS + 300_001},
        {"now_ms": "today"},
        {"now_ms": 10**30},
        {"now_ms": None},
        {"tolerance_s": -1},
        {"tolerance_s": "300"},
        {"tolerance_s": 0, "now_ms": NOW_MS + 1},
        {"request": 7},
    ],
    ids=str,
)
def test_missing_or_unreadable_parts_are_invalid(changed: dict[str, Any]) -> None:
    assert not verdict(**vector(**changed))


def test_query_and_request_may_have_the_form_of_recorded_deliveries() -> None:
    recorded = vector("token", path=PATH, query={"token": sender_of("token").secret, "x": "1"})
    assert verdict(**recorded)
    request = {name: recorded.pop(name) for name in ("method", "path", "query", "headers", "body")}
    assert verdict(**recorded, request=request)
    assert not verdict(**recorded, request={**request, "query": {"token": "other"}})


def test_one_invalid_request_of_several_sets_the_exit_code(tmp_path: Path) -> None:
    code, out = run_verify(tmp_path, json.dumps([vector(), vector(id="old", now_ms=NOW_MS + 301_000)]))
    assert (code, [line.split()[:2] for line in out.splitlines()]) == (1, [["valid", "ghost"], ["invalid", "old"]])


@pytest.mark.parametrize("document", ["", "{", "7", "[]", '["vector"]', "[" * 100_000])
def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, document: str) -> None:
    assert run_verify(tmp_path, document) == (2, "")
    result = CliRunner().invoke(app, ["adapters", "verify", str(tmp_path / "absent.json")])
    assert result.exit_code == 2
    assert "absent.json" in result.stderr
