"""Parametrize `seed` by `--seeds` and `--first-seed`, or by a module's SEEDS if `--seeds` has its default."""

import pytest

from tests.conftest import SEEDS_OF_EVERY_RUN


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "seed" in metafunc.fixturenames and "seed" not in chosen:
        first, count = metafunc.config.getoption("--first-seed"), metafunc.config.getoption("--seeds")
        own = getattr(metafunc.module, "SEEDS", ()) if count == SEEDS_OF_EVERY_RUN else ()
        metafunc.parametrize("seed", own or range(first, first + count))
