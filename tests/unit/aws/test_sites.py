"""The door to the sites' configuration, as far as no function's tests go."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import sites, table
from stoppress.aws.clients import client
from stoppress.aws.items import due_pk
from stoppress.model.site import BadConfiguration, Site
from stoppress.primitives.instants import exact
from stoppress.roll.window import roll
from tests.support import doors
from tests.support.doors import ENVIRONMENT, Doors, counted, failing
from tests.support.ledger import HOST

pytestmark = pytest.mark.moto

EIGHT = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
PAGE_PARAMETERS = 10  # Parameter Store: at most so many in one answer


@pytest.fixture
def behind() -> Iterator[Doors]:
    with doors.opened(EIGHT) as opened:
        yield opened


@pytest.mark.parametrize("count", [0, 1, PAGE_PARAMETERS, 2 * PAGE_PARAMETERS + 1])
def test_the_sites_of_a_stack_are_read_over_all_pages(behind: Doors, count: int) -> None:
    hosts = [f"{number}.example.com" for number in range(count)]
    for host in hosts:
        value = json.dumps({"host": host, "publication": "Example News"})
        client("ssm").put_parameter(Name=f"{ENVIRONMENT['SITES_PATH']}/{host}", Value=value, Type="String")

    good, bad = sites.load_all()

    assert sorted(site.host for site in good) == sorted(hosts)
    assert not bad


def put(host: str = HOST) -> None:
    """A site's parameter is made, and nobody is told."""
    value = json.dumps({"host": host, "publication": "Example News"})
    client("ssm").put_parameter(Name=f"{ENVIRONMENT['SITES_PATH']}/{host}", Value=value, Type="String")


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def unknown(host: str) -> None:
    with pytest.raises(sites.UnknownSite, match=f"no parameter /stoppress/test/sites/{host}: create it"):
        sites.load_registered(host)


def test_500_made_up_hosts_within_five_seconds_make_one_call(behind: Doors) -> None:
    with counted("ssm", "GetParameter") as parameters, counted("dynamodb", "Query") as queries:
        for number in range(500):
            behind.clock.move_to(EIGHT + number * SECOND / 100)
            unknown(f"{number}.example.net")
    assert (len(parameters), len(queries)) == (0, 1)


def test_a_new_site_is_known_five_seconds_after_it_was_registered(behind: Doors) -> None:
    unknown(HOST)
    put()
    sites.register(HOST)
    behind.clock.move_to(EIGHT + 4 * SECOND)
    unknown(HOST)
    behind.clock.move_to(EIGHT + 5 * SECOND)
    assert sites.load_registered(HOST).host == HOST


def test_a_registered_site_costs_one_query_and_one_parameter_a_minute(behind: Doors) -> None:
    put()
    sites.register(HOST)
    with counted("ssm", "GetParameter") as parameters, counted("dynamodb", "Query") as queries:
        for number in range(60):
            behind.clock.move_to(EIGHT + number * SECOND)
            sites.load_registered(HOST)
    assert (len(parameters), len(queries)) == (1, 1)


def test_a_site_whose_parameter_is_gone_costs_no_call_of_parameter_store(behind: Doors) -> None:
    sites.register(HOST, gone=True)
    with counted("ssm", "GetParameter") as parameters:
        unknown(HOST)
    assert parameters == []


def test_100_requests_for_a_registered_site_without_a_usable_parameter_make_one_call(behind: Doors) -> None:
    sites.register(HOST)
    client("ssm").put_parameter(Name=sites.parameter_name(HOST), Value="{}", Type="String")
    with counted("ssm", "GetParameter") as parameters:
        for number in range(100):
            behind.clock.move_to(EIGHT + number * SECOND / 25)
            with pytest.raises(BadConfiguration):
                sites.load_registered(HOST)
    assert len(parameters) == 1
    client("ssm").delete_parameters(Names=[sites.parameter_name(HOST)])
    put()
    behind.clock.move_to(EIGHT + 5 * SECOND)
    assert sites.load_registered(HOST).host == HOST


def test_a_site_whose_parameter_is_created_again_is_known_at_once(behind: Doors) -> None:
    sites.register(HOST)
    with pytest.raises(sites.UnknownSite):
        sites.load_registered(HOST)
    put()
    assert sites.load_registered(HOST).host == HOST


def test_an_unusable_parameter_leaves_the_cached_configuration_to_those_who_need_no_newer_one(behind: Doors) -> None:
    put()
    sites.register(HOST)
    sites.load_registered(HOST)
    client("ssm").put_parameter(Name=sites.parameter_name(HOST), Value="{}", Type="String", Overwrite=True)
    behind.clock.move_to(EIGHT + 6 * SECOND)
    with pytest.raises(BadConfiguration):
        sites.load_registered(HOST, age_max=sites.MISSED_AGE_MAX)
    assert sites.load_registered(HOST).host == HOST


def test_a_table_that_does_not_answer_refuses_no_site(behind: Doors, caplog: pytest.LogCaptureFixture) -> None:
    put()
    with failing("dynamodb", "Query"):
        assert sites.load_registered(HOST).host == HOST
    assert "the registry of sites cannot be read" in caplog.text


def test_a_table_that_does_not_answer_any_more_leaves_the_hosts_that_were_known(behind: Doors) -> None:
    put()
    sites.register(HOST)
    unknown("made-up.example.net")
    behind.clock.move_to(EIGHT + timedelta(hours=1))
    with failing("dynamodb", "Query"), counted("ssm", "GetParameter") as parameters:
        unknown("made-up.example.net")
    assert parameters == []
    assert sites.load_registered(HOST).host == HOST


def test_a_call_that_failed_says_nothing_of_whether_there_is_a_site(behind: Doors) -> None:
    put()
    sites.register(HOST)
    with failing("ssm", "GetParameter"), pytest.raises(ClientError):
        sites.load_registered(HOST)
    assert sites.load_registered(HOST).host == HOST


def test_an_applied_configuration_that_cannot_be_read_any_more_is_none(behind: Doors) -> None:
    """It was written by an older version of the stack. One such site must not stop the clock of the others."""
    put()
    roll(sites.load(HOST), EIGHT)
    assert sites.last_applied(HOST) == sites.load(HOST)
    applied = behind.item(f"places#{HOST}", "configuration")
    table.put_if(applied | {"document": json.dumps(json.loads(applied["document"]) | {"setting_of_old": True})})

    assert sites.last_applied(HOST) is None


# ── further feeds ──


def put_feeds(part: str, value: Any, host: str = HOST) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    name = f"{ENVIRONMENT['SITES_PATH']}/{host}/{part}"
    client("ssm").put_parameter(Name=name, Value=text, Type="String", Overwrite=True)


def urls(site: Site) -> list[str]:
    return [feed.url for feed in site.feeds]


def test_further_feeds_are_appended_in_the_order_of_their_numbers(behind: Doors) -> None:
    behind.site(feeds=["https://www.example.com/0.xml"])
    behind.site("other.example.com")
    for number in (10, 2, 1):
        put_feeds(f"feeds-{number}", [{"url": f"https://www.example.com/{number}.xml", "interval_minutes": 5}])
    (site,) = [site for site in sites.load_all()[0] if site.host == HOST]
    assert urls(site) == [f"https://www.example.com/{number}.xml" for number in (0, 1, 2, 10)]
    assert sites.load_all(HOST) == ([site], [])
    assert sites.load(HOST).feeds == site.feeds[:1]


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("feeds-1", "{", f"{HOST}/feeds-1: the value is not JSON: "),
        ("feeds-1", {}, f"{HOST}/feeds-1: feeds: give a list, in square brackets"),
        ("feeds-2", ["https://a.example/", {"url": "ftp"}], f"{HOST}/feeds-2: feeds.1.url: is not of the form "),
        ("feeds-0", [], f"{HOST}/feeds-0: a site's further parameters are called feeds-1, feeds-2, …: delete this one"),
        ("more", [], f"{HOST}/more: a site's further parameters are called feeds-1, feeds-2, …: delete this one"),
        ("feeds-1/a", [], f"{HOST}/feeds-1/a: a site's further parameters are called feeds-1, feeds-2, …: delete this"),
    ],
)
def test_a_further_parameter_that_cannot_be_used_is_named(behind: Doors, part: str, value: Any, reason: str) -> None:
    behind.site()
    put_feeds(part, value)
    good, (bad,) = sites.load_all()
    assert (good, bad.name) == ([], f"/stoppress/test/sites/{HOST}")
    assert bad.reason.startswith(reason)


def test_further_feeds_without_a_site_are_no_site(behind: Doors) -> None:
    put_feeds("feeds-1", [])
    assert sites.load_all() == sites.load_all(HOST) == ([], [])


def test_the_version_of_the_feeds_changes_with_every_parameter_that_names_feeds(behind: Doors) -> None:
    def version() -> int:
        return sites.load_all()[0][0].feeds_version

    behind.site()
    versions = [version()]
    assert versions == [1]
    for part in ("feeds-1", "feeds-1", "feeds-2"):
        put_feeds(part, [])
        versions.append(version())
    client("ssm").delete_parameter(Name=f"{ENVIRONMENT['SITES_PATH']}/{HOST}/feeds-1")
    versions.append(version())
    behind.site()
    versions.append(version())
    assert len(set(versions)) == len(versions)


# ── what poll_feeds polls ──

TICK = {"source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": "{}"}
FEEDS = [f"https://www.example.com/sections/{number}/rss.xml" for number in range(200)]


def minute(behind: Doors, at: datetime) -> None:
    behind.clock.move_to(at)
    behind.call("roll_window", TICK)


def test_200_feeds_of_a_site_are_polled_from_parameters_of_4_kb(behind: Doors) -> None:
    behind.site(feeds=FEEDS[:20])
    for number, start in ((1, 20), (2, 110)):
        put_feeds(f"feeds-{number}", FEEDS[start : start + 90])
    minute(behind, EIGHT)
    with counted("ssm", "GetParametersByPath") as pages:
        (site,), bad = sites.load_polled(EIGHT)
    assert (urls(site), bad, pages) == (FEEDS, [], [])
    assert site == sites.load_all()[0][0]


def test_feeds_that_do_not_fit_into_an_item_of_the_table_cannot_be_used(behind: Doors) -> None:
    last = behind.site(feeds=FEEDS[:1])
    minute(behind, EIGHT)
    long = [f"https://www.example.com/{number:04}/{'x' * 1_700}" for number in range(240)]
    for start in range(0, 200, 40):
        put_feeds(f"feeds-{start // 40 + 1}", long[start : start + 40])
    minute(behind, EIGHT + MINUTE)
    (fitting,), bad = sites.load_polled(EIGHT + MINUTE)
    assert (bad, urls(fitting)) == ([], FEEDS[:1] + long[:200])

    put_feeds("feeds-6", long[200:])
    minute(behind, EIGHT + 2 * MINUTE)
    good, (unusable,) = sites.load_all()
    assert (good, behind.metrics["SitesUnreadable"]) == ([], 1)
    assert unusable.reason.startswith(f"{HOST}: its configuration with all feeds has ")
    assert sites.load_polled(EIGHT + 2 * MINUTE) == ([fitting], [])
    assert sites.load(HOST).feeds == last.feeds


def test_the_sites_to_poll_cost_no_call_of_parameter_store(behind: Doors) -> None:
    for number in range(120):
        behind.site(f"{number}.example.com", feeds=[f"https://{number}.example.com/rss.xml"])
    minute(behind, EIGHT)
    with (
        counted("ssm", "GetParametersByPath") as pages,
        counted("dynamodb", "Query") as queries,
        counted("dynamodb", "BatchGetItem") as reads,
    ):
        polled, _ = sites.load_polled(EIGHT + SECOND)
    assert len(polled) == 120
    assert (len(pages), len(queries), len(reads)) == (0, 1, 2)


def test_a_site_that_cannot_be_read_is_polled_as_it_was_last_applied(behind: Doors) -> None:
    before = behind.site(feeds=FEEDS[:1])
    minute(behind, EIGHT)
    client("ssm").put_parameter(Name=f"{ENVIRONMENT['SITES_PATH']}/{HOST}", Value="{}", Type="String", Overwrite=True)
    minute(behind, EIGHT + timedelta(minutes=1))
    assert sites.load_polled(EIGHT + timedelta(minutes=1)) == ([before], [])


def test_a_site_without_its_parameter_is_not_polled_until_it_has_one_again(behind: Doors) -> None:
    site = behind.site(feeds=FEEDS[:1])
    minute(behind, EIGHT)
    client("ssm").delete_parameter(Name=f"{ENVIRONMENT['SITES_PATH']}/{HOST}")
    minute(behind, EIGHT + timedelta(minutes=1))
    assert sites.load_polled(EIGHT + timedelta(minutes=1)) == ([], [])
    behind.site(feeds=FEEDS[:1])
    minute(behind, EIGHT + timedelta(minutes=2))
    assert sites.load_polled(EIGHT + timedelta(minutes=2)) == ([site], [])


def test_when_roll_window_stops_a_changed_configuration_is_polled_after_ten_minutes(behind: Doors) -> None:
    before = behind.site(feeds=FEEDS[:1])
    minute(behind, EIGHT)
    behind.site("other.example.com", feeds=[])
    after = behind.site(feeds=FEEDS[:2])
    assert sites.load_polled(EIGHT + sites.CONFIRMED_AGE_MAX)[0] == [before]
    polled, bad = sites.load_polled(EIGHT + sites.CONFIRMED_AGE_MAX + SECOND)
    assert (bad, [site for site in polled if site.host == HOST], len(polled)) == ([], [after], 2)


def test_a_configuration_that_roll_window_cannot_apply_is_not_confirmed(behind: Doors) -> None:
    before = behind.site(feeds=FEEDS[:1])
    minute(behind, EIGHT)
    after = behind.site(feeds=FEEDS[:2])
    for minutes in range(1, 12):
        with failing("sqs", "SendMessageBatch"), pytest.raises(ExceptionGroup):
            minute(behind, EIGHT + timedelta(minutes=minutes))
        polled = sites.load_polled(EIGHT + timedelta(minutes=minutes))[0]
        assert polled == [before if minutes <= 10 else after]


def test_a_site_whose_work_keeps_failing_does_not_make_poll_feeds_read_parameter_store(behind: Doors) -> None:
    site = behind.site(feeds=FEEDS[:1])
    table.put_if({"pk": due_pk(HOST), "sk": exact(EIGHT), "queue": "articles", "message": "not JSON"})
    for minutes in range(15):
        with pytest.raises(ExceptionGroup):
            minute(behind, EIGHT + timedelta(minutes=minutes))
    with counted("ssm", "GetParametersByPath") as pages:
        assert sites.load_polled(EIGHT + timedelta(minutes=15)) == ([site], [])
    assert pages == []
