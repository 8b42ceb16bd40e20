"""docs/reference/mappings.md lists every key of a mapping file, and its example works."""

import json
import re
import tomllib
from datetime import UTC, datetime

from stoppress.cms.engine import read_delivery
from stoppress.cms.functions import Functions
from stoppress.cms.mapping import OF_DELIVERIES, OF_LISTED, OF_LISTS, Listing, MappingFile, load
from stoppress.model.adapters import SETTINGS, names
from stoppress.model.http_request import Request
from tests.docs.pages import blocks, text_of

DOCUMENT = text_of("docs/reference/mappings.md")
NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


def test_its_example_reads_the_delivery_that_it_describes() -> None:
    [example] = blocks(DOCUMENT, "toml")
    mapping = MappingFile.model_validate(tomllib.loads(example))
    live = {"number": 7, "heading": "Harbour", "section": "local", "live_since": "2026-11-20T08:00:00Z"}
    body = {"stories": [{"event": "story.live", "story": live}, {"event": "story.live", "story": {"kind": "advert"}}]}
    verdicts = read_delivery(
        mapping, Request(body=json.dumps(body).encode()), {"base_url": "https://www.example.com"}, None, NOW
    )

    assert [verdict.disposition for verdict in verdicts] == ["apply", "ignore"]
    assert verdicts[0].shown(NOW)["url"] == "https://www.example.com/local/7"


def test_the_page_lists_every_key_setting_and_function() -> None:
    keys = {field.alias or name for name, field in MappingFile.model_fields.items()}
    functions = {name.removeprefix("_func_") for name in vars(Functions) if name.startswith("_func_")}

    of_lists = {*Listing.model_fields, *OF_LISTS, *OF_LISTED}

    assert [key for key in sorted(keys | of_lists) if f"`{key}`" not in DOCUMENT] == []
    assert [name for name in (*SETTINGS, *OF_DELIVERIES) if f"`{name}`" not in DOCUMENT] == []
    assert [name for name in sorted(functions) if f"| `{name}(" not in DOCUMENT] == []
    assert set(re.findall(r"^\| `(\w+)\(", DOCUMENT, re.MULTILINE)) == functions


def test_the_guide_has_the_address_of_each_list() -> None:
    guide = text_of("docs/how-to/audit.md")
    listings = {name: listing for name in names() if (listing := load(name).listing)}

    assert {name for name, listing in listings.items() if f"`{listing.url}`" not in guide} == set()
    assert {name for name in listings if f"`{name}` |" not in guide} == set()
