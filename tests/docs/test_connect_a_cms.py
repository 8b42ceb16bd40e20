"""The page about CMSs names every setting of each adapter, the table of signatures has each scheme, their examples work."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress.cms.mapping import MappingFile, load
from stoppress.model.adapters import names
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import PRESETS, Hmac, names as schemes
from stoppress.model.site import read_site
from stoppress.signatures import verify
from stoppress_cli.app import app
from tests.docs.pages import blocks, table_rows, text_of

PAGE = text_of("docs/how-to/connect-a-cms.md")
WEBHOOK = text_of("docs/reference/webhook.md")
SECRET = "whsec_c3RvcHByZXNzLXNlY3JldC0yNGJ5dGU="

by_adapter = pytest.mark.parametrize("adapter", [load(name) for name in names()], ids=lambda adapter: adapter.name)


def section_of(name: str) -> str:
    """The text about an adapter: from its name to the next one's, or to the next heading."""
    (_, rest) = PAGE.split(f"Adapter `{name}`")
    return re.split(r"^Adapter `|^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


@by_adapter
def test_the_page_names_every_setting_of_a_cms(adapter: MappingFile) -> None:
    section = section_of(adapter.name)

    assert [name for name in adapter.settings if f"`{name}`" not in section] == []


@by_adapter
def test_the_page_says_how_a_cms_that_cannot_sign_is_let_in(adapter: MappingFile) -> None:
    section = section_of(adapter.name)
    if adapter.signature == "query-token":
        assert "?token=<secret>" in section
    if adapter.signature == "bearer":
        assert re.search(r"Bearer <secret>|bearer token", section)


def test_the_table_of_signatures_has_every_scheme_with_its_header() -> None:
    rows = table_rows(WEBHOOK, "| `signature` | header | what is signed | time |")
    headers = {name: row[1] for row in rows for name in re.findall(r"`([\w-]+)`", row[0])}
    times = {name: row[3] for row in rows for name in re.findall(r"`([\w-]+)`", row[0])}

    assert sorted(headers) == schemes()
    for name, preset in PRESETS.items():
        assert f"`{preset.header}`" in headers[name]
        assert bool(times[name].strip()) == bool(preset.time or preset.time_header)


def test_the_examples_are_what_a_site_and_a_source_take() -> None:
    [site] = blocks(PAGE, "json")
    assert read_site(site, 1).sources["ghost"].adapter == "ghost"
    own = re.search(r'"signature": (\{.*\})`', WEBHOOK)
    assert own
    assert Hmac.of(json.loads(own[1])).header == "x-acme"


@pytest.mark.skipif(not shutil.which("node"), reason="node is not there, which runs the handler for Arc")
def test_the_handler_for_arc_passes_events_on_signed() -> None:
    (handler,) = blocks(PAGE, "js")
    event = {"key": "story:update", "uuid": "f1b2", "body": {"_id": "ABC", "headlines": {"basic": "Überschwemmung"}}}
    script = f"""
    const module = {{}};
    let status = 200;
    globalThis.fetch = async (url, asked) => {{ posted.push({{url, ...asked}}); return {{status, json: async () => ({{}})}}; }};
    const posted = [];
    process.env.STOPPRESS_URL = 'https://api.example.com/webhooks/www.example.com/arc';
    process.env.STOPPRESS_SECRET = '{SECRET}';
    {handler}
    (async () => {{
      await module.exports({json.dumps(event)});
      status = 400; await module.exports({{}});
      status = 503; const again = await module.exports({{}}).then(() => false, () => true);
      console.log(JSON.stringify({{posted, again}}));
    }})();
    """
    ran = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)  # noqa: S603, S607 - the document's
    found: dict[str, Any] = json.loads(ran.stdout)

    assert found["again"]
    assert len(found["posted"]) == 3
    for posted in found["posted"]:
        request = Request(posted["headers"], posted["body"].encode(), posted["method"])
        verify.verify("standard", request, [SECRET], datetime.now(UTC))
    assert json.loads(found["posted"][0]["body"]) == event
    assert found["posted"][0]["headers"]["webhook-id"] == "msg_f1b2"


def test_the_recorded_delivery_and_the_signed_request_of_their_page_can_be_tried(tmp_path: Path) -> None:
    delivery, signed = blocks(text_of("docs/reference/deliveries.md"), "json")
    (tmp_path / "delivery.json").write_text(delivery)
    (tmp_path / "signed.json").write_text(signed)

    tried = CliRunner().invoke(app, ["adapters", "try", "ghost", str(tmp_path / "delivery.json"), "--json"])
    judged = CliRunner().invoke(app, ["adapters", "verify", str(tmp_path / "signed.json")])

    assert [verdict["disposition"] for verdict in json.loads(tried.stdout)] == ["apply"]
    assert (judged.exit_code, judged.stdout.split()) == (0, ["valid", "first"])
