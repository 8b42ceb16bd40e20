from pathlib import Path

import pytest

from tests.local_stack.toy import Toy


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)
