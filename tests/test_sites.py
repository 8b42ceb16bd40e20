"""The door to the sites' configuration, as far as no function's tests go."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from stoppress import sites
from stoppress.aws import client
from tests import doors
from tests.doors import ENVIRONMENT, Doors

PAGE_PARAMETERS = 10  # Parameter Store: at most so many in one answer


@pytest.fixture
def behind() -> Iterator[Doors]:
    with doors.opened(datetime(2026, 11, 20, 8, 0, tzinfo=UTC)) as opened:
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
