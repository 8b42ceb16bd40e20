"""`stoppress listen`: deliveries are printed and saved without secrets."""

import base64
import json
import re
import urllib.request
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import NAMED
from stoppress.signatures.verify import verify
from stoppress_cli.app import app
from stoppress_cli.inputs.delivery import REPLACED, record_of, recorded_in, without_secrets
from stoppress_cli.scenario import signing
from tests.cli.test_commands_as_typed import BARE_ENVIRONMENT, Serving, serving
from tests.support.signature_senders import MORNING, SENDERS, Sender

SECRET = "whsec_c3RvcHByZXNzLXNlY3JldC0yNGJ5dGU="
BODY = json.dumps({"type": "article.deleted", "data": {"id": "1", "url": "https://www.example.com/a"}}).encode()
CMS, NOBODY = "webhooks/www.example.com/cms", "webhooks/www.example.com/nobody"


def listening(*options: str, folder: Path) -> AbstractContextManager[Serving]:
    """Run `stoppress listen` in the folder until Ctrl-C."""
    return serving("listen", "--port", "0", *options, cwd=folder, env=BARE_ENVIRONMENT | {"CMS_SECRET": SECRET})


def post(url: str, body: bytes | None, headers: dict[str, str] | None = None) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, body, headers or {}), timeout=30) as answer:  # noqa: S310 - loopback
        return json.loads(answer.read())


def test_deliveries_are_printed_and_saved_for_adapters_try(tmp_path: Path) -> None:
    signature = dict(signing.signed(Request({}, BODY), "standard", SECRET, "m1", datetime.now(UTC)).headers)
    with listening("--out", "saved", "--secret-env", "CMS_SECRET", folder=tmp_path) as served:
        url = served.url
        assert post(url + CMS, BODY, signature) == {"status": "printed"}
        post(f"{url}{NOBODY}?token={SECRET}", b"caf\xe9", {"authorization": f"Bearer {SECRET}", "x-note": SECRET})
        post(url + CMS, None)  # a request without a body is not saved

    printed = served.printed
    first, _, empty = re.split(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", printed, flags=re.MULTILINE)[2:]
    assert first.startswith(f"POST /{CMS}  {len(BODY)} bytes\n")
    assert "  webhook-id: m1\n" in first
    assert empty.startswith(f"GET /{CMS}  0 bytes\n")
    saved, other = sorted((tmp_path / "saved").iterdir())
    assert f"stoppress adapters try <adapter> saved/{saved.name}\n" in first
    assert json.loads(saved.read_text())["request"]["body"] == BODY.decode()
    assert base64.b64decode(json.loads(other.read_text())["request"]["body_base64"]) == b"caf\xe9"
    assert SECRET not in printed + other.read_text()
    tried = CliRunner().invoke(app, ["adapters", "try", "standard", str(saved)])
    assert (tried.exit_code, tried.stdout.splitlines()[0]) == (0, "apply delete")


def test_a_variable_that_is_not_set_is_reported() -> None:
    result = CliRunner().invoke(app, ["listen", "--secret-env", "NOT_THERE"])

    assert result.exit_code == 2
    assert "the environment variable NOT_THERE is not set" in result.stderr


# ── what is recorded ──


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.scheme)
def test_a_recorded_request_contains_no_secret_and_keeps_its_signature(sender: Sender) -> None:
    secret = "hush-hush-hush" if sender.secret == "token" else sender.secret
    request = sender.request(secret)
    text = json.dumps(record_of(without_secrets(request), MORNING))
    read = recorded_in(text.encode())

    assert (read.settings, read.now) == ({}, MORNING)
    assert secret not in text
    assert base64.b64encode(secret.encode()).decode() not in text
    if sender.scheme in NAMED and sender.scheme not in {"contentful", "hygraph", "kontent"}:
        assert REPLACED in text
    else:
        assert (read.received.headers, read.received.body) == (request.headers, request.body)
        again = Request(read.received.headers, read.received.body, request.method, request.path, request.query)
        verify(sender.scheme, again, [secret], MORNING)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"a": {"b": [{"apiKey": "hush"}]}, "title": "kept"}', "application/json"),
        (b'{"resetPasswordToken": "hush", "title": "kept"}', "application/x-www-form-urlencoded"),
        (b"title=kept&api%5Fkey=hush", "application/x-www-form-urlencoded"),
    ],
)
def test_a_secret_is_detected_by_its_field_name_anywhere_in_a_body(body: bytes, content_type: str) -> None:
    clean = without_secrets(Request({"content-type": content_type}, body))

    assert b"hush" not in clean.body
    assert b"kept" in clean.body
    assert REPLACED.encode() in clean.body


def test_a_body_without_secrets_keeps_its_bytes() -> None:
    body = b'{ "tokens": 3, "password": "",\n "title" :"\\u00e9" }'

    assert without_secrets(Request({}, body)).body == body


def test_a_known_secret_is_replaced_in_every_part_of_a_request() -> None:
    secret = "long/secret+"
    request = Request({"x": secret}, f"<a>{secret}</a>".encode(), path="/hooks/long%2Fsecret%2B", query=f"k={secret}")

    clean = without_secrets(request, [secret])

    assert (clean.headers["x"], clean.path, clean.query) == (REPLACED, f"/hooks/{REPLACED}", f"k={REPLACED}")
    assert clean.body == f"<a>{REPLACED}</a>".encode()
