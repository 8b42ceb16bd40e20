"""The door to the sites' configuration, as far as no function's tests go."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import sites, table
from stoppress.aws.clients import client
from stoppress.model.site import Site
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


def at_the_door(host: str = HOST) -> Site:
    """As `receive_webhook` loads a site."""
    return sites.load(host, unknown_age_max=sites.MISSED_AGE_MAX)


def test_a_host_that_is_no_site_is_looked_up_once_in_five_seconds_and_a_new_site_is_there_then(behind: Doors) -> None:
    with counted("ssm", "GetParameter") as calls:
        for _ in range(20):
            with pytest.raises(sites.UnknownSite, match=f"no parameter /stoppress/test/sites/{HOST}: add it"):
                at_the_door()
    put()

    behind.clock.move_to(EIGHT + timedelta(seconds=4))
    with pytest.raises(sites.UnknownSite):
        at_the_door()
    behind.clock.move_to(EIGHT + timedelta(seconds=5))

    assert at_the_door().host == HOST
    assert len(calls) == 1


def test_who_cannot_be_asked_again_takes_no_old_answer(behind: Doors) -> None:
    """Recording would put an event into quarantine for it."""
    with pytest.raises(sites.UnknownSite):
        at_the_door()
    put()

    assert sites.load(HOST).version == 1


def test_a_call_that_failed_says_nothing_of_whether_there_is_a_site(behind: Doors) -> None:
    put()
    with failing("ssm", "GetParameter"), pytest.raises(ClientError):
        at_the_door()

    assert at_the_door().host == HOST


def test_of_a_flood_of_made_up_hosts_no_more_than_some_are_remembered(
    behind: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "UNKNOWN_MAX", 3)
    put()
    at_the_door()
    for number in range(5):
        with pytest.raises(sites.UnknownSite):
            at_the_door(f"{number}.example.net")

    assert len(sites._cache) == 4
    with counted("ssm", "GetParameter") as calls:
        at_the_door()
    assert calls == []


def test_an_applied_configuration_that_cannot_be_read_any_more_is_none(behind: Doors) -> None:
    """It was written by an older version of the stack. One such site must not stop the clock of the others."""
    put()
    roll(sites.load(HOST), EIGHT)
    assert sites.last_applied(HOST) == sites.load(HOST)
    applied = behind.item(f"places#{HOST}", "configuration")
    table.put_if(applied | {"document": json.dumps(json.loads(applied["document"]) | {"setting_of_old": True})})

    assert sites.last_applied(HOST) is None
