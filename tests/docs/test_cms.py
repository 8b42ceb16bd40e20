"""The pages of CMSs list every setting of each adapter, the table of signatures has each scheme, and the examples work."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress.cms.contract import read_delivery
from stoppress.cms.mapping import MappingFile, load
from stoppress.model.adapters import names
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import PRESETS, Hmac, names as schemes
from stoppress.model.site import read_site
from stoppress.receive.refused import take_event
from stoppress.signatures import verify
from stoppress_cli.app import app
from tests.docs.pages import DOCS, blocks, links, table_rows, text_of

WEBHOOK = text_of("docs/reference/webhook.md")
FOLDER = DOCS / "how-to/cms"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
OF_A_CMS = sorted(PAGES.keys() - {"index.md", "other-cms.md", "wordpress-other-plugins.md"})
HEADINGS = ["Add the source", "Set up the webhook", "Settings", "Limits"]
SECRET = "whsec_c3RvcHByZXNzLXNlY3JldC0yNGJ5dGU="

by_adapter = pytest.mark.parametrize("adapter", [load(name) for name in names()], ids=lambda adapter: adapter.name)
by_page = pytest.mark.parametrize("page", OF_A_CMS)


def text_about(name: str) -> str:
    """Return an adapter's page, or its row in a table of adapters, with the first page's text for all adapters."""
    [common] = re.findall(r"^- \*\*Settings\.\*\* .*$", PAGES["index.md"], re.MULTILINE)
    if rows := re.findall(rf"^\| `{name}` \|.*$", PAGES["other-cms.md"], re.MULTILINE):
        return "\n".join([*rows, common])
    mentions = re.compile(f"(adapter|or) `{name}`|`{name}` adapter")
    (text, *_) = [text for text in (*PAGES.values(), WEBHOOK) if mentions.search(text)]
    return f"{text}{common}"


@by_adapter
def test_its_page_lists_every_setting_of_a_cms(adapter: MappingFile) -> None:
    text = text_about(adapter.name)

    assert [name for name in adapter.settings if f"`{name}`" not in text] == []


@by_adapter
def test_its_page_explains_how_a_cms_that_cannot_sign_is_accepted(adapter: MappingFile) -> None:
    text = text_about(adapter.name)
    if adapter.signature == "query-token":
        assert "?token=<secret>" in text
    if adapter.signature == "bearer":
        assert re.search(r"Bearer <secret>|bearer token", text)


@by_page
def test_each_cms_has_the_same_headings_in_the_same_order(page: str) -> None:
    headings = [heading for heading in re.findall(r"^## (.*)$", PAGES[page], re.MULTILINE) if heading in HEADINGS]

    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert headings[:2] == HEADINGS[:2]


@by_page
def test_the_source_example_of_a_page_is_valid(page: str) -> None:
    (text,) = blocks(PAGES[page], "json")
    site = read_site(json.dumps({"host": "www.example.com", "publication": "Example News", **json.loads(text)}), 1)
    ((name, source),) = site.sources.items()

    assert re.search(f"adapter `{source.adapter}`|`{source.adapter}` adapter", PAGES[page])
    assert ("secrets", "put", "www.example.com", name) in {
        tuple(line.split()[1:5]) for line in "".join(blocks(PAGES[page], "sh")).splitlines()
    }


def test_the_choice_of_cms_links_to_each_page() -> None:
    assert set(PAGES) - {"index.md"} <= {link.partition("#")[0] for link in links(PAGES["index.md"])}


def test_the_mapping_of_15_lines_reads_a_delivery(tmp_path: Path) -> None:
    [example] = blocks(PAGES["other-cms.md"], "toml")
    (tmp_path / "acme.toml").write_text(example)
    url = "https://www.example.com/7"
    story = {"number": 7, "link": url, "heading": "Harbour", "live_since": "2026-11-20T08:00:00Z"}
    (tmp_path / "published.json").write_text(json.dumps({"event": "story.live", "story": story}))
    command = ["adapters", "try", str(tmp_path / "acme.toml"), str(tmp_path / "published.json"), "--json"]
    tried = CliRunner().invoke(app, command)

    assert len(example.splitlines()) == 15
    assert [(verdict["disposition"], verdict["url"]) for verdict in json.loads(tried.stdout)] == [("apply", url)]


def test_the_table_of_signatures_has_every_scheme_with_its_header() -> None:
    rows = table_rows(WEBHOOK, "| `signature` | header | what is signed |")
    headers = {name: row[1] for row in rows for name in re.findall(r"`([\w-]+)`", row[0])}
    signed = {name: row[2] for row in rows for name in re.findall(r"`([\w-]+)`", row[0])}

    assert sorted(headers) == schemes()
    for name, preset in PRESETS.items():
        assert f"`{preset.header}`" in headers[name]
        assert ("time" in signed[name]) == bool(preset.time or preset.time_header)


def test_the_event_to_copy_gets_the_answer_below_it() -> None:
    event, answer = map(json.loads, blocks(WEBHOOK, "json"))
    site = read_site(
        '{"host": "www.example.com", "publication": "Example News", "sources": {"cms": {"secret": "cms"}}}', 1
    )
    now = datetime(2026, 11, 20, 8, 0, 11, tzinfo=UTC)
    read, unknown = read_delivery(event, site, "cms", now)

    assert take_event(read, read.action, site, now, {}, unknown_fields=unknown).answer == answer


def test_the_example_of_a_custom_signature_is_valid() -> None:
    own = re.search(r'"signature": (\{.*\})`', WEBHOOK)
    assert own
    assert Hmac.of(json.loads(own[1])).header == "x-acme"


@pytest.mark.skipif(not shutil.which("node"), reason="node is not there, which runs the handler for Arc")
def test_the_handler_for_arc_passes_events_on_signed() -> None:
    handler = text_of("docs/arc-xp/stoppress.js")
    event = {"key": "story:update", "uuid": "f1b2", "body": {"_id": "ABC", "headlines": {"basic": "Überschwemmung"}}}
    script = f"""
    const module = {{}};
    let status = 200;
    globalThis.fetch = async (url, options) => {{ posted.push({{url, ...options}}); return {{status, json: async () => ({{}})}}; }};
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
    output: dict[str, Any] = json.loads(ran.stdout)

    assert output["again"]
    assert len(output["posted"]) == 3
    for posted in output["posted"]:
        request = Request(posted["headers"], posted["body"].encode(), posted["method"])
        verify.verify("standard", request, [SECRET], datetime.now(UTC))
    assert json.loads(output["posted"][0]["body"]) == event
    assert output["posted"][0]["headers"]["webhook-id"] == "msg_f1b2"


def test_the_recorded_delivery_and_the_signed_request_of_their_page_can_be_tried(tmp_path: Path) -> None:
    delivery, signed = blocks(text_of("docs/reference/deliveries.md"), "json")
    (tmp_path / "delivery.json").write_text(delivery)
    (tmp_path / "signed.json").write_text(signed)

    tried = CliRunner().invoke(app, ["adapters", "try", "ghost", str(tmp_path / "delivery.json"), "--json"])
    judged = CliRunner().invoke(app, ["adapters", "verify", str(tmp_path / "signed.json")])

    assert [verdict["disposition"] for verdict in json.loads(tried.stdout)] == ["apply"]
    assert (judged.exit_code, judged.stdout.split()) == (0, ["valid", "first"])
