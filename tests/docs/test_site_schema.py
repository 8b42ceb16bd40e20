"""The JSON Schema of a site's configuration is the published one, and it accepts the same documents as the functions."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stoppress.model.site import BadConfiguration, Site, read_site, schema
from tests.docs.generated import SCHEMA, schema_text
from tests.docs.pages import PAGES, blocks
from tests.simulation.configurations import SETTINGS, case
from tests.support import playing
from tests.support.playing import SCENARIOS

VALIDATOR = Draft202012Validator(schema())
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def faults(document: object) -> list[str]:
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in VALIDATOR.iter_errors(document)]


def test_the_published_schema_is_that_of_the_model() -> None:
    Draft202012Validator.check_schema(schema())
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "run: .venv/bin/python -m tests.docs.generated"


def test_each_setting_has_a_description() -> None:
    parts = [schema(), *schema()["$defs"].values()]
    assert [
        name for part in parts for name, setting in part["properties"].items() if "description" not in setting
    ] == []
    assert set(schema()["properties"]) == {name for name, field in Site.model_fields.items() if not field.exclude}


def test_the_examples_of_the_pages_and_the_sites_of_the_scenarios_are_valid() -> None:
    # Some examples show only some keys.
    examples = [
        {"host": "www.example.com", "publication": "Example News"} | json.loads(block)
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"), "json")
        if block.startswith(('{"host"', '{"feeds"', '{"sources"'))
    ]
    steps = (
        line.step for path in sorted(SCENARIOS.glob("*.jsonl")) for line in playing.read(path) if line.kind == "site"
    )
    sites = [step.site for step in steps if is_readable(step.site)]
    assert len(examples) > 3
    assert len(sites) > 100
    for document in examples + sites:
        assert faults(document) == [], document


def is_readable(document: Any) -> bool:
    try:
        read_site(json.dumps(document), 1)
    except BadConfiguration:
        return False
    return "publication" in document


def test_a_document_that_the_functions_accept_is_valid() -> None:
    for seed in range(40):
        document = case(seed, NOW).after
        read_site(json.dumps(document), 1)
        assert faults(document) == [], seed


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"publicatoin": "A"}, ""),
        ({"scheme": "ftp"}, "scheme"),
        ({"feeds": [{"url": "https://a.example/", "interval_minutes": 0}]}, "feeds.0"),
        ({"shards": {"by": "week"}}, "shards.by"),
        ({"rules": [{"exclude": "some", "path": "/a"}]}, "rules.0.exclude"),
        ({"editions": [{"prefix": "fr"}]}, "editions.0.prefix"),
        ({"outputs": {"gzip": "maybe"}}, "outputs.gzip"),
        ({"pages": [3]}, "pages.0"),
    ],
    ids=str,
)
def test_a_refused_document_has_an_error_at_the_wrong_key(change: dict[str, Any], place: str) -> None:
    document = {"host": "www.example.com", "publication": "A"} | change
    with pytest.raises(BadConfiguration):
        read_site(json.dumps(document), 1)
    [fault] = faults(document)
    assert fault.startswith(f"{place}: ")


def test_the_random_documents_use_every_setting() -> None:
    chance = random.Random("schema")
    drawn = {name: make(chance) for name, make in SETTINGS.items()}
    assert set(drawn) == schema()["properties"].keys() - {"host", "sources", "feeds"}
