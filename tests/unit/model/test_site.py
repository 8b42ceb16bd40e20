"""A site's configuration: what may stand in it, and what its editor hears of every key that is wrong."""

import json
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from stoppress.model.site import BadConfiguration, Feed, Shards, Site, Source, read_site
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


def test_everything_that_may_be_said_is_understood() -> None:
    full = site(
        language="zh-Hant",
        timezone="Europe/Paris",
        scheme="http",
        feeds=["https://www.example.com/rss.xml", {"url": "https://www.example.com/atom.xml", "interval_minutes": 15}],
        sources={
            "cms": {"adapter": "standard", "secret": "cms", "settings": {"tolerance_s": 60}},
            "bus": {"adapter": "eventbridge"},
        },
        shards={"by": "day", "size": 500},
        rules=[{"path": "/sponsored/*"}, {"exclude": "news", "section": "horoscope", "keyword": "stars"}],
        republish="new-date",
    )

    assert full.language == "zh-tw"
    assert full.zone == ZoneInfo("Europe/Paris")
    assert full.home == "http://www.example.com/"
    assert full.feeds == (
        Feed(url="https://www.example.com/rss.xml", interval_minutes=1),
        Feed(url="https://www.example.com/atom.xml", interval_minutes=15),
    )
    assert full.sources["cms"] == Source(adapter="standard", secret="cms", settings={"tolerance_s": 60})
    assert full.sources["bus"].secret is None
    assert full.shards == Shards(by="day", size=500)
    assert full.rules[1].exclude == "news"


def test_the_version_is_the_parameters_and_cannot_be_said() -> None:
    assert site(version=99).version == 7
    assert "version" not in site().model_dump()


def test_names_of_hosts_that_are_not_of_two_parts_are_hosts() -> None:
    assert site(host="localhost").host == "localhost"
    assert site(host="xn--mller-kva.example").host == "xn--mller-kva.example"


def test_a_publication_loses_its_parentheses() -> None:
    assert site(publication=" Example  News (subscription) ").publication == "Example News"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "https://www.example.com/"}, "host: give a bare host name in small letters, such as www.example.com"),
        ({"host": "WWW.example.com"}, "host: give a bare host name"),
        ({"host": "www.example.com:8443"}, "host: give a bare host name"),
        ({"host": "www.example.com."}, "host: give a bare host name"),
        ({"host": "müller.example"}, "host: give a bare host name"),
        ({"host": ""}, "host: give a bare host name"),
        ({"host": "a" * 300}, "host: give a bare host name"),
        ({"host": None}, "host: is missing: it has to be given"),
        ({"host": 7}, "host: give it as a text, in quotation marks"),
        ({"publication": ""}, "publication: give the name of the publication as news.google.com shows it"),
        ({"publication": "(beta)"}, "publication: give the name"),
        ({"language": "jp"}, "language: give a language code such as en, fr, zh-tw"),
        ({"language": "english"}, "language: give a language code such as en, fr, zh-tw"),
        ({"timezone": "Paris"}, "timezone: give a name of the IANA time zone database, such as Europe/Paris"),
        ({"timezone": ""}, "timezone: give a name"),
        ({"timezone": "../../etc/passwd"}, "timezone: give a name"),
        ({"timezone": "Europe"}, "timezone: give a name"),
        ({"timezone": "/etc/localtime"}, "timezone: give a name"),
        ({"timezone": "Europe/Paris\x00"}, "timezone: give a name"),
        ({"scheme": "ftp"}, "scheme: give one of these: 'https' or 'http'"),
        ({"feeds": "https://www.example.com/rss.xml"}, "feeds: give a list, in square brackets"),
        ({"feeds": ["rss.xml"]}, "feeds.0.url: is not of the form"),
        ({"feeds": ["ftp://www.example.com/rss.xml"]}, "feeds.0.url: is not of the form"),
        (
            {"feeds": [{"url": "https://a.example/", "interval_minutes": 0}]},
            "feeds.0.interval_minutes: give a number",
        ),
        (
            {"feeds": [{"url": "https://a.example/", "interval_minutes": 1_441}]},
            "feeds.0.interval_minutes: give",
        ),
        ({"feeds": [{"uri": "https://a.example/"}]}, "feeds.0.url: is missing: it has to be given"),
        (
            {"sources": {"feed": {}}},
            "sources: 'feed' is the source that all feeds form together: give the source another name",
        ),
        ({"sources": {"My CMS": {}}}, "sources: 'My CMS': a source's name is small letters, digits"),
        ({"sources": {"a#b": {}}}, "sources: 'a#b': a source's name"),
        ({"sources": {"a/b": {}}}, "sources: 'a/b': a source's name"),
        (
            {"sources": {"cms": {"adapter": "ghots"}}},
            "sources.cms.adapter: 'ghots' is no adapter: give one of arc-content-op, arc-ifx, cloudevents,",
        ),
        (
            {"sources": {"cms": {"adapter": "ghost", "settings": {"langauge": "fr"}}}},
            "sources.cms: settings.langauge: is not known here: correct its name, or take it out; there are base_url,",
        ),
        (
            {"sources": {"cms": {"adapter": "ghost", "settings": {"base_url": "example.com", "language": "klingon"}}}},
            "sources.cms: settings.base_url: 'example.com' is not an absolute http or https URL\nsettings.language: give a language",
        ),
        (
            {"sources": {"cms": {"settings": {"signature": "gohst"}}}},
            "sources.cms: settings.signature: the signature 'gohst' is not known",
        ),
        ({"sources": {"cms": {"secret": ""}}}, "sources.cms.secret: is not of the form"),
        ({"sources": {"cms": {"secret": "a b"}}}, "sources.cms.secret: is not of the form"),
        (
            {"sources": {"cms": {"secrets": "x"}}},
            "sources.cms.secrets: is not known here: correct its name, or take it out",
        ),
        ({"shards": {"by": "week"}}, "shards.by: give one of these: 'day', 'month' or 'year'"),
        ({"shards": {"size": 0}}, "shards.size: give a number that is 1 or more"),
        ({"shards": {"size": 50_001}}, "shards.size: give a number that is 50000 or less"),
        ({"rules": [{"exclude": "some"}]}, "rules.0.exclude: give one of these: 'all', 'general' or 'news'"),
        ({"rules": [{"exclude": "all", "include": "news", "path": "/a"}]}, "rules.0: say either exclude or include"),
        ({"rules": [{"include": "all"}]}, "rules.0: give a path, a section, a keyword, a type or a flag"),
        ({"editions": [{"prefix": "fr"}]}, "editions.0.prefix: is not of the form"),
        ({"editions": [{"prefix": "/a/"}, {"prefix": "/a/"}]}, "editions: two editions have '/a/'"),
        ({"editions": [{"prefix": "/a"}, {"prefix": "/a/"}]}, "editions: two editions have '/a/'"),
        ({"editions": [{"prefix": "/a/", "news": "2"}]}, "editions.0.news: is not of the form"),
        ({"sections": {"sport": {"language": "gibberish"}}}, "sections.sport.language: give a language code"),
        (
            {"pages": ["https://www.example.org/about"]},
            "the document: pages: https://www.example.org/about has another host",
        ),
        ({"pages": [{"url": "/a", "priority": 2}]}, "pages.0.priority: give a number from 0.0 to 1.0"),
        ({"write": ["genres"]}, "write.0: give one of these: 'keywords', 'changefreq' or 'priority'"),
        ({"robots": "User-agent: *\nDisallow: /\u0000"}, "robots: line 2 has a control character in it"),
        (
            {"robots": "User-agent: *\nSitemap: a b"},
            "robots: line 2: after `Sitemap:` give one URL, such as https://www.example.com/sitemap-video.xml, or take",
        ),
        ({"robots": "Sitemap:"}, "robots: line 1: after `Sitemap:` give one URL"),
        ({"robots": "\r\n site-map : # none"}, "robots: line 2: after `Sitemap:` give one URL"),
        ({"robots": "Sitemap: javascript:1"}, "robots: line 1: 'javascript:1' is not an absolute http or https URL"),
        ({"robots": "Sitemap: https://[broken/"}, "robots: line 1: "),
        ({"robots": f"Sitemap: /{'x' * 2_030}"}, "robots: line 1: "),
        ({"host": "?", "robots": "Sitemap:"}, "host: give a bare host name"),
        ({"outputs": {"hub": "hub.example.com"}}, "outputs.hub: is not of the form"),
        ({"republish": "always"}, "republish: give one of these: 'keep-date' or 'new-date'"),
        ({"publicaton": "Example"}, "publicaton: is not known here: correct its name, or take it out"),
    ],
)
def test_each_key_that_is_wrong_is_named_with_what_to_do(changes: dict[str, Any], words: str) -> None:
    assert refusal(**changes).startswith(words)


@pytest.mark.parametrize("prefix", ["/fr", "/fr/"])
def test_an_edition_is_the_pages_below_its_prefix_and_no_page_that_begins_with_the_same_letters(prefix: str) -> None:
    french = site(editions=[{"prefix": prefix}])

    taken = [
        path for path in ("/fr", "/fr/", "/fr/x", "/france", "/fr-ca/x", "/", "/x/fr/") if french.edition_of(at(path))
    ]
    assert taken == ["/fr", "/fr/", "/fr/x"]


@pytest.mark.parametrize("prefix", ["/straße", "/stra%c3%9fe", "/stra%C3%9Fe/"])
@pytest.mark.parametrize("path", ["/stra%C3%9Fe/x", "/stra%c3%9fe/x", "/a/../stra%C3%9Fe/x"])
def test_an_edition_has_its_pages_however_prefix_and_url_are_spelt(prefix: str, path: str) -> None:
    assert site(editions=[{"prefix": prefix}]).edition_of(at(path))


def test_of_several_editions_the_one_with_the_longest_prefix_speaks() -> None:
    nested = site(editions=[{"prefix": "/"}, {"prefix": "/fr"}, {"prefix": "/fr/sport/"}])
    prefixes = {
        path: edition.prefix
        for path in ("/a", "/fr/a", "/fr/sport", "/fr/sports")
        if (edition := nested.edition_of(at(path)))
    }

    assert prefixes == {"/a": "/", "/fr/a": "/fr", "/fr/sport": "/fr/sport/", "/fr/sports": "/fr"}


ROBOTS_LINE = st.sampled_from(
    ["User-agent: *", "Disallow: /a", "", "Sitemap: /a.xml", "Sitemap: a.xml # ours", "sitemap: https://x.example/a.xml",
     "Sitemap:", "Sitemap: a b", "Sitemap: http://[x/", "Sitemap: ftp://x/", "Sitemap: //", "Sitemap: https:///a"]
)  # fmt: skip


@given(st.lists(ROBOTS_LINE | st.text(max_size=20).map("Sitemap: {}".format), max_size=4).map("\n".join))
def test_rules_of_a_robots_txt_that_are_taken_can_be_written(rules: str) -> None:
    try:
        accepted = site(robots=rules)
    except BadConfiguration:
        return
    assert robots_txt(accepted, ["sitemap.xml"], rules).startswith(b"Sitemap: https://www.example.com/sitemap.xml\n")


@pytest.mark.parametrize(
    "rules", ["Sitemap: /a.xml", "Sitemap: a.xml # ours", "# Sitemap:", "Disallow: /sitemap: x", ""]
)
def test_rules_of_a_robots_txt_may_name_sitemaps(rules: str) -> None:
    assert site(robots=rules).robots == rules


def test_all_that_is_wrong_is_said_at_once_a_line_each() -> None:
    lines = refusal(host="WWW", language="english", shards={"size": 0}, timezon="UTC").splitlines()

    assert [line.partition(":")[0] for line in lines] == ["host", "language", "shards.size", "timezon"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the value is not JSON"),
        ("{", "the value is not JSON"),
        ("[]", "the value is not a JSON object"),
        ("null", "the value is not a JSON object"),
        ('"www.example.com"', "the value is not a JSON object"),
        ("{}", "host: is missing: it has to be given\npublication: is missing: it has to be given"),
    ],
)
def test_a_value_that_is_no_configuration_says_so(text: str, words: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        read_site(text, 1)
    assert str(refused.value).startswith(words)


def test_a_value_that_is_nested_too_deeply_is_no_configuration() -> None:
    with pytest.raises(BadConfiguration):
        read_site("[" * 100_000, 1)


def test_a_rule_without_a_condition_would_keep_every_article_out_and_is_refused() -> None:
    assert "rules.0" in refusal(rules=[{}])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(Site.model_fields)), JSON, max_size=12))
def test_no_value_brings_more_than_a_bad_configuration(document: dict[str, Any]) -> None:
    try:
        assert read_site(json.dumps(LEAST | document), 3).version == 3
    except BadConfiguration as refused:
        assert str(refused)  # noqa: PT017 - any other error ends the test


def test_a_source_whose_adapter_has_no_list_names_another_adapter_for_it() -> None:
    def read(**values: str) -> Site:
        source = {"list": {"url": "https://www.example.com/wp-json/wp/v2/posts"} | values}
        return Site.model_validate({"host": "www.example.com", "publication": "News", "sources": {"cms": source}})

    assert read(adapter="wordpress").sources["cms"].list_adapter == "wordpress"
    for adapter in ({}, {"adapter": "wedevs"}, {"adapter": "../x"}):
        with pytest.raises(
            ValueError, match=r"cannot read a list: give the CMS's adapter in list\.adapter: contentful"
        ):
            read(**adapter)


def test_a_key_is_sent_to_a_list_over_https_only() -> None:
    def read(**values: str) -> Site:
        source = {"adapter": "ghost", "list": values}
        return Site.model_validate({"host": "www.example.com", "publication": "News", "sources": {"cms": source}})

    assert read(url="http://www.example.com/ghost").sources["cms"].list
    with pytest.raises(ValueError, match="https"):
        read(url="http://www.example.com/ghost", secret="list-key")
