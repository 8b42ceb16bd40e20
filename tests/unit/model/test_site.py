"""A site's configuration: valid documents, and the error for every invalid key."""

import json
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from stoppress.model.site import BadConfiguration, Shards, Site, read_site
from stoppress.model.site_parts import Feed
from stoppress.sitemaps.robots import robots_txt

LEAST = {"host": "www.example.com", "publication": "Example News"}


def site(**keys: Any) -> Site:
    return read_site(json.dumps(LEAST | keys), 7)


def at(path: str) -> str:
    return f"https://www.example.com{path}"


def refusal(**keys: Any) -> str:
    with pytest.raises(BadConfiguration) as refused:
        site(**keys)
    return str(refused.value)


def test_host_and_publication_are_enough() -> None:
    least = site()

    assert (least.language, least.timezone, least.scheme, least.republish) == ("en", "UTC", "https", "keep-date")
    assert (least.feeds, least.sources, least.rules) == ((), {}, ())
    assert least.shards == Shards(by="month", size=2_000)
    assert (least.origin, least.home) == ("https://www.example.com", "https://www.example.com/")
    assert least.version == 7


def test_a_feed_may_be_given_by_its_url_and_a_language_in_any_spelling() -> None:
    feed = page = "https://www.example.com/atom.xml"
    full = site(language="zh-Hant", timezone="Europe/Paris", scheme="http", feeds=[feed, {"url": feed}], pages=[page])

    assert (full.language, full.zone, full.home) == ("zh-tw", ZoneInfo("Europe/Paris"), "http://www.example.com/")
    assert full.feeds == (Feed(url=feed, interval_minutes=1),) * 2
    assert full.pages[0].url == page


def test_a_document_does_not_contain_its_version() -> None:
    assert "version" not in site().model_dump()


def test_host_names_may_have_any_number_of_labels() -> None:
    assert site(host="localhost").host == "localhost"
    assert site(host="xn--mller-kva.example").host == "xn--mller-kva.example"


def console(property_: str = "https://www.example.com/", secret: str = "google") -> dict[str, Any]:  # noqa: S107
    return {"engines": {"search_console": {"property": property_, "secret": secret}}}


@pytest.mark.parametrize(
    "changes",
    [
        console(),
        console("sc-domain:www.example.com"),
        console("sc-domain:example.com", "shared/google"),
        console("http://www.example.com/") | {"scheme": "http"},
    ],
)
def test_a_property_of_search_console_has_the_site(changes: dict[str, Any]) -> None:
    assert site(**changes).engines is not None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "https://www.example.com/"}, "host: give a bare host name in small letters, such as www.example.com"),
        ({"host": "WWW.example.com"}, "host: give a bare host name"),
        ({"host": "www.example.com:8443"}, "host: give a bare host name"),
        ({"host": "müller.example"}, "host: give a bare host name"),
        ({"host": None}, "host: is missing: it has to be given"),
        ({"host": 7}, "host: give it as text, in quotation marks"),
        ({"publication": "(beta)"}, "publication: give the name"),
        ({"language": "jp"}, "language: give a language code such as en, fr, zh-tw"),
        ({"timezone": "Paris"}, "timezone: give a name of the IANA time zone database, such as Europe/Paris"),
        ({"timezone": "../../etc/passwd"}, "timezone: give a name"),
        ({"feeds": "https://www.example.com/rss.xml"}, "feeds: give a list, in square brackets"),
        ({"feeds": ["rss.xml"]}, "feeds.0.url: is not of the form"),
        ({"feeds": [{"url": "https://a.example/", "interval_minutes": 0}]}, "feeds.0.interval_minutes: give a number"),
        ({"sources": {"feed": {}}},
         "sources: 'feed' is the source that all feeds form together: give the source another name"),
        ({"sources": {"sitemap": {}}}, "sources: 'sitemap' is the source that all"),
        ({"sources": {"My CMS": {}}}, "sources: 'My CMS': a source's name is small letters, digits"),
        ({"sources": {"cms": {"adapter": "ghots"}}},
         "sources.cms.adapter: 'ghots' is no adapter: give one of arc-content-op, arc-ifx, cloudevents,"),
        ({"sources": {"cms": {"adapter": "ghost", "settings": {"langauge": "fr"}}}},
         "sources.cms: settings.langauge: is not known here: correct its name, or take it out; there are base_url,"),
        (
            {"sources": {"cms": {"adapter": "ghost", "settings": {"base_url": "example.com", "language": "klingon"}}}},
            "sources.cms: settings.base_url: 'example.com' is not an absolute http or https URL\nsettings.language: give a language",
        ),
        ({"sources": {"cms": {"settings": {"signature": "gohst"}}}},
         "sources.cms: settings.signature: the signature 'gohst' is not supported"),
        ({"sources": {"cms": {"secret": "a b"}}}, "sources.cms.secret: is not of the form"),
        ({"shards": {"size": 0}}, "shards.size: give a number that is 1 or more"),
        ({"shards": {"size": 50_001}}, "shards.size: give a number that is 50000 or less"),
        ({"rules": [{"exclude": "all", "include": "news", "path": "/a"}]}, "rules.0: set either exclude or include"),
        ({"rules": [{}]}, "rules.0: give a path, a section, a keyword, a type or a flag"),
        ({"editions": [{"prefix": "fr"}]}, "editions.0.prefix: is not of the form"),
        ({"editions": [{"prefix": "/a"}, {"prefix": "/a/"}]}, "editions: two editions have '/a/'"),
        ({"editions": [{"prefix": "/a/", "news": "2"}]}, "editions.0.news: is not of the form"),
        ({"sections": {"sport": {"language": "gibberish"}}}, "sections.sport.language: give a language code"),
        ({"pages": ["https://www.example.org/about"]},
         "the document: pages: https://www.example.org/about has another host"),
        ({"pages": [{"url": "/a", "priority": 2}]}, "pages.0.priority: give a number from 0.0 to 1.0"),
        ({"robots": "User-agent: *\nDisallow: /\u0000"}, "robots: line 2 has a control character in it"),
        ({"robots": "User-agent: *\nSitemap: a b"},
         "robots: line 2: after `Sitemap:` give one URL, such as https://www.example.com/sitemap-video.xml, or take"),
        ({"robots": "\r\n site-map : # none"}, "robots: line 2: after `Sitemap:` give one URL"),
        ({"robots": "Sitemap: https://[broken/"}, "robots: line 1: "),
        (
            console("https://www.example.org/"),
            "the document: engines.search_console.property: https://www.example.org/ does not have www.example.com; give https://www.example.com/",
        ),
        (console("sc-domain:ample.com"), "the document: engines.search_console.property: sc-domain:ample.com"),
        (console(secret="a key"), "engines.search_console.secret: is not of the form"),
        ({"republish": "always"}, "republish: give one of these: 'keep-date' or 'new-date'"),
        ({"publicaton": "Example"}, "publicaton: is not known here: correct its name, or take it out"),
        ({"version": 7, "fault": "x"}, "fault: is not known here: take it out\nversion: is not known here"),
    ],
)  # fmt: skip
def test_each_wrong_key_is_reported_with_what_to_do(changes: dict[str, Any], words: str) -> None:
    assert refusal(**changes).startswith(words)


@pytest.mark.parametrize(
    ("changes", "meant"),
    [
        ({"langauge": "fr"}, "language"),
        ({"sources": {"feeds": {"adaptor": "ghost"}}}, "adapter"),
        ({"sources": {"cms": {"adapter": "wordpres"}}}, "wordpress"),
        ({"sources": {"cms": {"adapter": "ghost", "settings": {"langauge": "fr"}}}}, "language"),
        ({"sources": {"cms": {"settings": {"signature": "gohst"}}}}, "ghost"),
        ({"sources": {"cms": {"list": {"ulr": "https://www.example.com"}}}}, "url"),
        ({"robots": {"serach": True}}, "search"),
        ({"pages": [{"prority": 1, "url": "/a"}]}, "priority"),
        ({"robots": {"ptefix": "/a"}}, None),
        ({"colour": "red"}, None),
    ],
)
def test_a_misspelt_key_or_adapter_gets_a_valid_suggestion(changes: dict[str, Any], meant: str | None) -> None:
    reasons = refusal(**changes)
    assert ("did you mean" in reasons) == (meant is not None)
    assert meant is None or f"did you mean {meant}?" in reasons


NESTED = ("/", "/fr", "/fr/sport/")


@pytest.mark.parametrize(
    ("prefixes", "path", "edition"),
    [
        (["/fr"], "/fr", "/fr"),
        (["/fr/"], "/fr", "/fr/"),
        (["/fr/"], "/fr/x", "/fr/"),
        (["/fr"], "/france", None),
        (["/fr"], "/x/fr/", None),
        (["/straße"], "/stra%c3%9fe/x", "/straße"),
        (["/stra%c3%9fe"], "/a/../stra%C3%9Fe/x", "/stra%c3%9fe"),
        (NESTED, "/a", "/"),
        (NESTED, "/fr/sport", "/fr/sport/"),
        (NESTED, "/fr/sports", "/fr"),
    ],
)
def test_the_edition_with_the_longest_prefix_of_whole_segments_applies(
    prefixes: Sequence[str], path: str, edition: str | None
) -> None:
    applying = site(editions=[{"prefix": prefix} for prefix in prefixes]).edition_of(at(path))
    assert (applying.prefix if applying else None) == edition


ROBOTS_LINE = st.sampled_from(
    ["User-agent: *", "Disallow: /a", "", "Sitemap: /a.xml", "Sitemap: a.xml # ours", "sitemap: https://x.example/a.xml",
     "Sitemap:", "Sitemap: a b", "Sitemap: http://[x/", "Sitemap: ftp://x/", "Sitemap: //", "Sitemap: https:///a"]
)  # fmt: skip


@given(st.lists(ROBOTS_LINE | st.text(max_size=20).map("Sitemap: {}".format), max_size=4).map("\n".join))
def test_accepted_rules_of_a_robots_txt_can_be_written(rules: str) -> None:
    try:
        accepted = site(robots=rules)
    except BadConfiguration:
        return
    assert robots_txt(accepted).startswith(b"Sitemap: https://www.example.com/sitemap.xml\n")


@pytest.mark.parametrize("rules", ["Sitemap: a.xml # ours", "# Sitemap:", "Disallow: /sitemap: x"])
def test_rules_of_a_robots_txt_may_list_sitemaps(rules: str) -> None:
    assert site(robots=rules).robots == rules


def test_every_error_is_reported_on_its_own_line() -> None:
    lines = refusal(host="WWW", language="english", shards={"size": 0}, timezon="UTC").splitlines()

    assert [line.partition(":")[0] for line in lines] == ["host", "language", "shards.size", "timezon"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the document is not JSON"),
        ("[" * 100_000, "the document is not JSON"),
        ("null", "the document is not a JSON object"),
        ("{}", "host: is missing: it has to be given\npublication: is missing: it has to be given"),
    ],
)
def test_a_text_that_is_no_configuration_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        read_site(text, 1)
    assert str(refused.value).startswith(words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(Site.model_fields)), JSON, max_size=12))
def test_no_value_raises_more_than_a_bad_configuration(document: dict[str, Any]) -> None:
    try:
        assert read_site(json.dumps(LEAST | document), 3).version == 3
    except BadConfiguration as refused:
        assert str(refused)  # noqa: PT017 - any other error ends the test


def listed(adapter: str = "standard", **values: str) -> Site:
    """Return a site whose source has a list."""
    return site(sources={"cms": {"adapter": adapter, "list": {"url": at("/wp-json/wp/v2/posts")} | values}})


def test_a_source_whose_adapter_has_no_list_needs_another_adapter_for_it() -> None:
    assert listed(adapter="ghost").sources["cms"].list_adapter == "ghost"
    for adapter in ("standard", "wedevs"):
        with pytest.raises(
            BadConfiguration, match=r"cannot read a list: give the CMS's adapter in list\.adapter: cont"
        ):
            listed(adapter)


def test_a_key_is_sent_to_a_list_over_https_only() -> None:
    assert listed("ghost", url="http://www.example.com/ghost").sources["cms"].list
    with pytest.raises(BadConfiguration, match="https"):
        listed("ghost", url="http://www.example.com/ghost", secret="key")
