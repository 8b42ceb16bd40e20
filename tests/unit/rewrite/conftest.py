"""A site in moto, for the tests of the rewriter."""

from collections.abc import Iterator

import pytest

from tests.support import moto_aws
from tests.support.moto_aws import MotoAws
from tests.support.partitions import NOON


@pytest.fixture
def aws() -> Iterator[MotoAws]:
    with moto_aws.opened(NOON) as opened:
        opened.site()
        yield opened
