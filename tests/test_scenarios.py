"""Every scenario, played: what it expects holds, and all files that it saves keep the rules of sitemaps."""

from pathlib import Path

import pytest

from tests import playing


@pytest.mark.parametrize("path", sorted(playing.SCENARIOS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_scenario_ends_as_it_says(path: Path, tmp_path: Path) -> None:
    played = playing.play(playing.read(path), tmp_path)

    assert played.failures == []
    assert played.findings() == []
