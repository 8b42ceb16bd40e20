"""What Stoppress writes breaks no rule that `stoppress check` knows, at any save of a scenario."""

import json
from pathlib import Path

import pytest

from stoppress.check import checker
from stoppress.check.findings import Findings
from stoppress_cli.inputs.folder import collect
from tests.support import playing


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name",
    [
        "publish", "titles-come-out-clean", "empty-window", "emptied-shard", "shard-overflowing", "two-sites", "http-site",
        "urls-in-one-spelling", "an-article-in-another-language-and-publication", "gzip-text-and-atom", "robots-kept",
        "alternates-are-mutual", "sections-and-editions", "pages-that-are-not-articles",
        "shards-per-section", "changed-rules",
    ],
)  # fmt: skip
def test_a_scenario_s_saves_have_no_findings(name: str, tmp_path: Path) -> None:
    path = playing.SCENARIOS / f"{name}.jsonl"
    played = playing.play(playing.read(path), tmp_path, path=path)

    for save, at in played.saves.items():
        report = Findings(each_max=20)
        checked = checker.check(collect(tmp_path / save, None).sources, report, at)

        assert json.loads((tmp_path / f"{save}.meta.json").read_text()).keys() == {
            facts.name for facts in checked.files.values()
        }
        assert list(report) == []
