"""A site's configuration in versions: the version in force, its author, and unreadable versions."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from stoppress.aws import site_versions, sites, table
from stoppress.aws.clients import client
from stoppress.model.site import BadConfiguration
from tests.support.article_events import HOST
from tests.support.moto_aws import PUBLISHING, MotoAws, counted, opened, put_site
from tests.support.partitions import NOON

OTHER = "blog.example.com"
FEED = "https://www.example.com/rss.xml"


@pytest.fixture(autouse=True)
def aws() -> Iterator[MotoAws]:
    with opened(NOON) as aws:
        yield aws


def document(host: str = HOST, **settings: Any) -> str:
    return json.dumps(PUBLISHING | {"host": host} | settings)


def put(host: str = HOST, expected: int = 0, **settings: Any) -> int:
    return site_versions.put(document(host, **settings), expected, "arn:aws:iam::1:user/ann", NOON)


def unreadable(text: str = '{"publication": 1}', host: str = HOST) -> int:
    current = table.get(sites.site_pk(host), sites.CURRENT)
    return site_versions.put_unchecked(host, text, int(current["rev"]) if current else 0, "by hand", NOON)


def test_a_written_site_is_in_force_and_listed() -> None:
    assert put(feeds=[FEED]) == 1
    assert put(OTHER) == 1

    site = sites.load(HOST)
    assert (site.host, site.version, site.fault, len(site.feeds)) == (HOST, 1, "", 1)
    assert sites.hosts() == [OTHER, HOST]
    assert [site.host for site in sites.load_all()[0]] == [OTHER, HOST]
    assert [site.host for site in sites.load_all(sites.POLLS)[0]] == [HOST]
    put(expected=1)
    assert sites.load_all(sites.POLLS) == ([], [])


@pytest.mark.parametrize("host", ["nobody.example.net", "WWW.example.com", ""])
def test_a_host_without_a_version_is_unknown(host: str) -> None:
    put()
    with pytest.raises(sites.UnknownSite):
        sites.load(host)


def test_a_removed_site_is_unknown_and_its_version_numbers_continue() -> None:
    put(feeds=[FEED])
    assert site_versions.remove(HOST, 1, "ann", NOON, deletes_files=True) == 2

    with pytest.raises(sites.UnknownSite):
        sites.load(HOST)
    current = sites.read_current(HOST)
    assert current
    assert (current.is_removed, current.deletes_files) == (True, True)
    assert (sites.hosts(), sites.load_all(), sites.load_all(sites.POLLS)) == ([], ([], []), ([], []))
    assert put(expected=2) == 3
    assert [version.document is None for version in site_versions.history(HOST)] == [False, True, False]


def test_the_version_before_an_unreadable_version_is_in_force() -> None:
    put(publication="Good")
    unreadable("no JSON")
    assert unreadable() == 3

    site = sites.load(HOST)
    assert (site.publication, site.version) == ("Good", 1)
    assert site.fault.startswith("version 3 cannot be read")
    good, bad = sites.load_all()
    assert ([site.version for site in good], [site.host for site in bad]) == ([1], [HOST])


@pytest.mark.parametrize("removed", [False, True])
def test_without_a_readable_version_the_site_cannot_be_used(removed: bool) -> None:
    if removed:  # a version before a removal is not in force again
        put()
        site_versions.remove(HOST, 1, "ann", NOON, deletes_files=False)
    unreadable()

    with pytest.raises(BadConfiguration, match="cannot be read"):
        sites.load(HOST)
    good, bad = sites.load_all()
    assert (good, [site.host for site in bad]) == ([], [HOST])


def test_a_version_of_another_host_is_not_in_force() -> None:
    unreadable(document(OTHER))
    with pytest.raises(BadConfiguration, match=OTHER):
        sites.load(HOST)


def test_a_document_that_is_too_large_or_wrong_is_not_written(aws: MotoAws) -> None:
    feeds = [f"https://www.example.com/{'x' * 500}/{number}.xml" for number in range(220)]
    for settings in ({"feeds": feeds}, {"langauge": "en"}):
        with pytest.raises(BadConfiguration):
            put(**settings)

    assert aws.items() == []


@pytest.mark.parametrize(("seconds", "is_new"), [(59, False), (61, True)])
def test_a_configuration_is_kept_for_a_minute(aws: MotoAws, seconds: int, *, is_new: bool) -> None:
    put(publication="Old")
    sites.load(HOST)
    put(expected=1, publication="New")
    aws.clock.shift(timedelta(seconds=seconds))

    assert (sites.load(HOST).publication == "New") == is_new
    assert sites.load(HOST, age_max=timedelta()).publication == "New"


def test_a_version_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    put()
    sites.load(HOST)
    monkeypatch.setattr(sites, "read_document", lambda *_: pytest.fail("the version was parsed again"))

    assert sites.load(HOST, age_max=timedelta()).version == 1
    assert sites.load_all()[0][0].version == 1


def test_a_restored_table_may_have_another_version_with_the_same_number() -> None:
    put(publication="One")
    put(expected=1, publication="Two")
    sites.load(HOST)
    for sk in ("current", "v000002"):
        table.delete(f"site#{HOST}", sk)
    table.put({"pk": f"site#{HOST}", "sk": "current", "digest": "older", "due": "-"}, None)
    put(expected=1, publication="Another two")

    assert sites.load(HOST, age_max=timedelta()).publication == "Another two"


def test_a_cached_site_is_used_while_the_table_does_not_answer(aws: MotoAws) -> None:
    put()
    sites.load(HOST)
    aws.clock.shift(timedelta(hours=1))
    client("dynamodb").delete_table(TableName="stoppress-table")

    assert sites.load(HOST).version == 1
    with pytest.raises(client("dynamodb").exceptions.ResourceNotFoundException):
        sites.reload(HOST)


def test_any_number_of_made_up_hosts_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "CACHED_MAX", 10)
    for number in range(50):
        with pytest.raises(sites.UnknownSite):
            sites.load(f"site-{number}.example.net")

    assert len(sites._cache.current) == 10


def test_more_sites_than_one_call_reads_or_the_cache_keeps_are_all_listed(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "CACHED_MAX", 10)
    for number in range(130):
        put_site(PUBLISHING | {"host": f"site-{number:03}.example.com"})
    sites.forget()
    with counted("dynamodb", "BatchGetItem") as reads:
        assert len(sites.load_all()[0]) == 130

    assert len(reads) == 2
