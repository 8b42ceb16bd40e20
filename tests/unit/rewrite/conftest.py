"""A site behind the doors, for the tests of the rewriter."""

from collections.abc import Iterator

import pytest

from tests.support import doors
from tests.support.doors import Doors
from tests.support.partitions import NOON


@pytest.fixture
def behind() -> Iterator[Doors]:
    with doors.opened(NOON) as opened:
        opened.site()
        yield opened
