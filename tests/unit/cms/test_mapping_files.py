"""A CMS is added by a mapping file alone, and an invalid file is refused with the correction."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoppress.cms.mapping import BadMapping, load
from stoppress.model import adapters
from stoppress.model.event import ArticleEvent
from stoppress.model.http_request import Request
from stoppress.model.site import read_site
from stoppress.receive.queueing import take_delivery
from tests.support.adjacent_paths import SHARED
from tests.support.own_mapping import GAZETTE, mapping, story

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
ROOT = Path(__file__).parents[3]


def test_a_cms_is_added_by_a_mapping_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is valid in a site's configuration, its settings are checked, and its deliveries become articles."""
    for path in adapters.MAPPINGS.glob("*.toml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "gazette.toml").write_text(GAZETTE)
    monkeypatch.setattr(adapters, "MAPPINGS", tmp_path)
    source = {"adapter": "gazette", "secret": "cms", "settings": {"timezone": "Europe/Paris"}}
    site = read_site(json.dumps({"host": "www.example.com", "publication": "Gazette", "sources": {"cms": source}}), 1)

    body = {"stories": [story(), story("story.gone", number=8), story(kind="advert")]}
    request = Request(body=json.dumps(body).encode())
    taken = take_delivery(request, site, "cms", NOW, lambda host: site)

    assert "gazette" in adapters.names()
    assert [result.answer["status"] for result in taken] == ["queued", "queued", "ignored"]
    event = taken[0].message
    assert isinstance(event, ArticleEvent)
    assert (event.id, event.url, event.title) == ("7", "https://www.example.com/local/7", "Harbour & ferry")


def test_the_standard_contract_does_not_import_the_mapping_engine() -> None:
    """With `standard`, a cold start and a delivery import no mapping, TOML, engine or other scheme."""
    script = """
import json, sys
from datetime import UTC, datetime
sys.path[:0] = ["shared", "."]
import functions.receive_webhook.app
from stoppress.model.site import read_site
from stoppress.signatures.verify import *
read_site(json.dumps({"host": "www.example.com", "publication": "A", "sources": {"cms": {"adapter": "standard", "secret": "cms"}}}), 1)
try: verify("standard", Request({}, b""), ["whsec_AAAA"], datetime.now(UTC))
except BadSignature: pass
dear = ("stoppress.cms.engine", "stoppress.cms.mapping", "tomllib", "stoppress.signatures.canonical")
print([name for name in sys.modules if name in dear])
"""
    environment = {"METRICS_NAMESPACE": "x", "DASHBOARD": "no", "POWERTOOLS_SERVICE_NAME": "x", "PATH": "/usr/bin"}
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.strip() == "[]"


def test_a_misspelt_adapter_and_a_setting_it_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match=r"'gohst' is no adapter: give one of .*, ghost, "):
        adapters.check_name("gohst")
    with pytest.raises(ValueError, match=r"settings\.site_urls: is not known here"):
        adapters.check_settings("ghost", {"site_urls": {"a": "https://www.example.com"}})
    for name, value in {
        "base_url": "/news", "timezone": "Mars/Phobos", "language": "klingon", "types": "post", "url_template": "/{slug", "map": [],
        "site_urls": {"a": "b"},
    }.items():  # fmt: skip
        adapter = "arc-ifx" if name == "site_urls" else "wordpress" if name in ("types", "timezone") else "sanity"
        with pytest.raises(ValueError, match=rf"^settings\.{name}\b"):
            adapters.check_settings(adapter, {name: value})
    adapters.check_settings(
        "contentful", {"base_url": "https://www.example.com", "map": {"title": "headline"}, "locales": ["de"]}
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (('title = "The', 'titel = "The'), "gazette.toml: title: is missing: it has to be given\ngazette.toml:3: titel: is not known here"),
        (('"story.number"', '"story..number"'), "gazette.toml:26: fields.id.0: 'story..number' is no JMESPath"),
        (('"story.heading"', '"!story.heading"'), "'!story.heading' means (!a).b: write !(a.b)"),
        (("id = ", "ident = "), "gazette.toml:26: fields.ident: is not known here: give one of id, url"),
        (("base_url = ", "base = "), "gazette.toml:10: settings.base: is not known here: give one of base_url"),
        (('"delete"', '"destroy"'), "give one of these: 'publish', 'update', 'unpublish' or 'delete'"),
        (('name = "gazette"', 'name = "gazettes"'), "gazette.toml: name: is gazettes; a file is called by its mapping's name"),
        (("[vars]", "[vars"), "gazette.toml: is no TOML"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_file_is_refused_with_the_correction(
    tmp_path: Path, wrong: tuple[str, str], words: str
) -> None:
    assert wrong[0] in GAZETTE
    with pytest.raises(BadMapping) as caught:
        mapping(tmp_path, GAZETTE.replace(*wrong, 1))
    assert words in str(caught.value)


WHEN = "if = \"story.kind == 'advert'\""


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("!(isin(story.kind, types))", "there is no function isin; did you mean is_in?"),
        ("settings.language && isin(story.kind, types)", "there is no function isin; did you mean is_in?"),
        ("story.parts[?begins(@, 'ad')]", "there is no function begins: give one of abs, "),
        ("is_in(story.kind)", "Expected 2 arguments for function is_in(), received 1"),
        ("contains(story.kind, 'a', 'b')", "Expected 2 arguments for function contains(), received 3"),
        ("not_null()", "Expected at least 1 argument for function not_null(), received 0"),
        ("starts_with(story.kind, `1`)", "In function starts_with(), invalid type for value: 1, expected one of: ['string']"),
        ("is_in(story.kind, 'advert')", "In function is_in(), invalid type for value: advert, expected one of: ['array']"),
        ("join(`[1]`, story.words)", "In function join(), invalid type for value: [1], expected one of: ['string']"),
        ("max(`[true]`)", "In function max(), invalid type for value: True, expected one of: ['array-number', 'array-string']"),
        ("sort_by(story.parts, kind)", "sort_by takes an expression that begins with & as argument 2"),
        ("length(&kind)", "length takes a value as argument 1"),
        ("storry.kind == 'advert'", "there is no storry: give one of body, headers, item, query, settings, story"),
        ("story.is_advert == true", "there is no true: give one of body, "),
        ("kind == 'advert'", "there is no kind: give one of body, "),
        ('story.kind == \\"advert\\"', "there is no advert: give one of body, "),
        ("is_in(story.kind, settings.langauge)", "there is no settings.langauge: give one of base_url, "),
        ("is_in(story.kind, settings.locales)", "there is no settings.locales: give one of base_url, language, timezone"),
        ("headers.\\\"X-Kind\\\" == 'advert'", "there is no headers.X-Kind: write headers.x_kind"),
    ],
)  # fmt: skip
def test_an_expression_that_can_never_apply_is_refused_with_its_line(tmp_path: Path, written: str, words: str) -> None:
    """`isin(` for `is_in(` in a filter published excluded articles, because it evaluated to null."""
    types = 'language = "of its stories"\ntypes = "kinds of stories"' if "types" in written else 'language = "its own"'
    text = GAZETTE.replace('language = "of its stories"', types)
    line = text[: text.index(WHEN)].count("\n") + 1
    with pytest.raises(BadMapping) as caught:
        mapping(tmp_path, text.replace(WHEN, f'if = "{written}"'))
    assert str(caught.value).startswith(f"gazette.toml:{line}: when.0.if: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        ('items = "body.stories"', 'items = "of_typ(body.stories, types)"'),
        ('story = "item.story"', "story = \"loop_up(item, 'story')\""),
        ('from = "item.event"', 'from = "lowre(item.event)"'),
        ('title = "story.heading"', 'title = "slugs(story.heading)"'),
        ('"story.written"]', '"utcc(story.written)"]'),
        ("[settings]", 'base = "lowre(settings.base_url)"\n[settings]'),
        ("[settings]", 'data = "merg(body)"\n[settings]'),
    ],
)
def test_each_expression_of_a_mapping_is_checked(tmp_path: Path, wrong: tuple[str, str]) -> None:
    assert wrong[0] in GAZETTE
    with pytest.raises(BadMapping, match="there is no function"):
        mapping(tmp_path, GAZETTE.replace(*wrong, 1))


def test_a_variable_can_be_used_only_below_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(BadMapping, match=r"gazette\.toml:15: vars\.kind: there is no story"):
        mapping(tmp_path, GAZETTE.replace("[vars]", '[vars]\nkind = "story.kind"', 1))


@pytest.mark.parametrize("name", adapters.names())
def test_every_mapping_file_can_be_used_and_states_how_it_was_verified(name: str) -> None:
    file = load(name)
    assert file.title
    assert file.reads
    assert file.verified
    adapters.check_settings(name, {**file.defaults})
    names = {expression for expressions in file.fields.values() for expression in expressions}
    expressions = " ".join(
        [*names, *file.variables.values(), file.items or "", *(when.condition for when in file.when), file.base]
    )
    used = {setting for setting in file.settings if f"settings.{setting}" in expressions}
    indirect = {"types", "content_types", "models"} if "types" in expressions else set()
    # Dates need a zone, and URLs a base.
    assert file.settings.keys() - used - indirect <= {"timezone", "base_url"}


@pytest.mark.skipif(
    not (SHARED / "deliveries").is_dir(), reason="the recorded deliveries are not beside the repository"
)
def test_the_adapters_are_those_that_deliveries_were_recorded_of() -> None:
    recorded = {json.loads(path.read_text())["mapping"] for path in (SHARED / "deliveries").glob("*/*.json")}
    assert recorded <= set(adapters.names())
