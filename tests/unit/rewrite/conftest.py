"""A site behind the doors, for the tests of the rewriter."""

from collections.abc import Iterator

import pytest

from tests.support import moto_aws
from tests.support.moto_aws import MotoAws
from tests.support.partitions import NOON


@pytest.fixture
def behind() -> Iterator[MotoAws]:
    with moto_aws.opened(NOON) as opened:
        opened.site()
        yield opened
