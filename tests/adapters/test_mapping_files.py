"""A CMS is added by a mapping file alone, and a wrong file is refused with what to change."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoppress import adapters
from stoppress.adapters import Received
from stoppress.adapters.mapping import BadMapping, load
from stoppress.adapters.taking import Taker
from stoppress.article import ArticleEvent
from stoppress.site import read_site
from tests.adapters.gazette import GAZETTE, mapping, story
from tests.beside import SHARED

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


def test_a_cms_is_added_by_a_mapping_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is then good in a site's configuration, its settings are checked, and its deliveries become articles."""
    for path in adapters.MAPPINGS.glob("*.toml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "gazette.toml").write_text(GAZETTE)
    monkeypatch.setattr(adapters, "MAPPINGS", tmp_path)
    said = {"adapter": "gazette", "secret": "cms", "settings": {"timezone": "Europe/Paris"}}
    site = read_site(json.dumps({"host": "www.example.com", "publication": "Gazette", "sources": {"cms": said}}), 1)

    body = {"stories": [story(), story("story.gone", number=8), story(kind="advert")]}
    verdicts = adapters.read("gazette", Received(json.dumps(body).encode()), site.sources["cms"].settings, site, NOW)
    taken = Taker(site, "cms", NOW, lambda host: site).take(verdicts)

    assert "gazette" in adapters.names()
    assert [one.answer["status"] for one in taken] == ["queued", "queued", "ignored"]
    event = taken[0].message
    assert isinstance(event, ArticleEvent)
    assert (event.id, event.url, event.title) == ("7", "https://www.example.com/local/7", "Harbour & ferry")


def test_only_our_own_contract_costs_nothing_of_the_engine() -> None:
    """What a cold start of a site with `standard` loads has no mapping, no TOML and no engine in it."""
    script = """
import json, sys
sys.path[:0] = ["shared", "."]
import functions.receive_webhook.app
from stoppress.site import read_site
read_site(json.dumps({"host": "www.example.com", "publication": "A", "sources": {"cms": {"adapter": "standard", "secret": "cms"}}}), 1)
print([name for name in sys.modules if name.startswith("stoppress.adapters") or name == "tomllib"])
"""
    environment = {"POWERTOOLS_METRICS_NAMESPACE": "x", "POWERTOOLS_SERVICE_NAME": "x", "PATH": "/usr/bin"}
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.strip() == "[]"


def test_a_misspelt_adapter_and_a_setting_it_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match=r"'gohst' is no adapter: give one of arc-content-op, .*, ghost, "):
        adapters.check_name("gohst")
    with pytest.raises(ValueError, match=r"settings\.site_urls: is not known here"):
        adapters.check_settings("ghost", {"site_urls": {"a": "https://www.example.com"}})
    for name, value in {
        "base_url": "/news", "timezone": "Mars/Phobos", "language": "klingon", "types": "post", "url_template": "/{slug", "map": [],
        "site_urls": {"a": "b"},
    }.items():  # fmt: skip
        adapter = "arc-ifx" if name == "site_urls" else "wordpress" if name in ("types", "timezone") else "sanity"
        with pytest.raises(ValueError, match=rf"^settings\.{name}: "):
            adapters.check_settings(adapter, {name: value})
    adapters.check_settings(
        "contentful", {"base_url": "https://www.example.com", "map": {"title": "headline"}, "locales": ["de"]}
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (('title = "The', 'titel = "The'), "gazette.toml: title: is missing: it has to be given\ntitel: is not known here"),
        (('"story.number"', '"story..number"'), "fields.id.0: 'story..number' is no JMESPath"),
        (('"story.heading"', '"!story.heading"'), "'!story.heading' means (!a).b: write !(a.b)"),
        (("id = ", "ident = "), "fields: ident: there are id, url"),
        (("base_url = ", "base = "), "settings: base: there are base_url"),
        (('"delete"', '"destroy"'), "give one of these: 'publish', 'update', 'unpublish' or 'delete'"),
        (('name = "gazette"', 'name = "gazettes"'), "gazette.toml: name: is gazettes; a file is called by its mapping's name"),
        (("[vars]", "[vars"), "gazette.toml: is no TOML"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_file_is_refused_with_what_to_change(
    tmp_path: Path, wrong: tuple[str, str], words: str
) -> None:
    assert wrong[0] in GAZETTE
    with pytest.raises(BadMapping) as caught:
        mapping(tmp_path, GAZETTE.replace(*wrong, 1))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", adapters.names())
def test_every_mapping_file_can_be_used_and_says_what_it_is_held_by(name: str) -> None:
    made = load(name)
    assert made.title
    assert made.reads
    assert made.verified
    adapters.check_settings(name, {**made.defaults})
    names = {expression for expressions in made.fields.values() for expression in expressions}
    said = " ".join(
        [*names, *made.variables.values(), made.items or "", *(when.condition for when in made.when), made.base]
    )
    asked = {setting for setting in made.settings if f"settings.{setting}" in said}
    untold = {"types", "content_types", "models"} if "types" in said else set()
    # A zone is asked for by the dates, a base by the URLs.
    assert made.settings.keys() - asked - untold <= {"timezone", "base_url"}


@pytest.mark.skipif(
    not (SHARED / "deliveries").is_dir(), reason="the recorded deliveries are not beside the repository"
)
def test_the_adapters_are_those_that_deliveries_were_recorded_of() -> None:
    recorded = {json.loads(path.read_text())["mapping"] for path in (SHARED / "deliveries").glob("*/*.json")}
    assert recorded <= set(adapters.names())
