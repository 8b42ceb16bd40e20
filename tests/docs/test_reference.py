"""A reference page has each key that the code reads and each item that it writes, and no other key."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from stoppress.cms.contract_fields import Publication
from stoppress.model import site, site_parts
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.file import KINDS, Secret
from tests.docs.pages import table_rows, text_of
from tests.support import playing

Models = tuple[type[BaseModel], ...]
SITE: Models = tuple(
    model
    for module in (site, site_parts)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
)
# The kinds of steps whose keys a page lists; scenario/file.py documents the others.
SCENARIO: Models = (
    *(KINDS[kind] for kind in ("site", "secret", "post", "event", "save", "expect")),
    Secret,
)


@pytest.mark.parametrize(
    ("page", "heading", "models"),
    [
        ("reference/site.md", "\n", SITE),
        ("contributing/local-stack.md", "\n## Scenario files\n", SCENARIO),
        ("reference/webhook.md", "\n## Fields of data\n", (Publication,)),
    ],
)
def test_the_page_has_each_key_and_no_other(page: str, heading: str, models: Models) -> None:
    text = text_of(f"docs/{page}").partition(heading)[2]
    text = text.partition("\n## ")[0] if heading.strip() else text
    first_cells = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    keys = {name for cell in first_cells for name in re.findall(r"`([a-z_]+)`", cell)}
    fields = {name for model in models for name, field in model.model_fields.items() if not field.exclude}

    assert keys - (KINDS.keys() if models is SCENARIO else set()) <= fields
    assert {name for name in fields if not re.search(rf'[`"]{name}[`"]', text)} == set()


@pytest.mark.moto
@pytest.mark.parametrize("scenario", ["an-old-sitemap-beside-the-feed", "slug-swap", "bad-bus-events"])
def test_the_page_of_the_table_has_a_row_for_each_item(scenario: str, tmp_path: Path) -> None:
    rows = table_rows(text_of("docs/reference/table.md"), "| pk | sk | contents |")
    documented = {re.split(r"[`#]", row[0])[1] for row in rows}
    written: set[str] = set()

    def look(stack: Stack) -> None:
        table = stack.only("AWS::DynamoDB::Table").ref
        for page in stack.client("dynamodb").get_paginator("scan").paginate(TableName=table):
            written.update(item["pk"]["S"].partition("#")[0] for item in page["Items"])

    path = playing.SCENARIOS / f"{scenario}.jsonl"
    playing.play(playing.read(path), tmp_path, path=path, kind=Stack, watch=look)

    assert written
    assert written <= documented
