"""A test for each seed: those of `--seeds` and `--first-seed`, or a module's own few SEEDS where nobody asks for a number."""

import pytest

from tests.conftest import SEEDS_OF_EVERY_RUN


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first, count = metafunc.config.getoption("--first-seed"), metafunc.config.getoption("--seeds")
        own = getattr(metafunc.module, "SEEDS", ()) if count == SEEDS_OF_EVERY_RUN else ()
        metafunc.parametrize("seed", own or range(first, first + count))
