"""A running demo for the commands, programs and requests of several pages."""

from collections.abc import Iterator

import pytest

from tests.cli.test_commands_as_typed import Serving, serving


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving("demo", "--port", 0, cwd=tmp_path_factory.mktemp("demo")) as served:
        yield served
