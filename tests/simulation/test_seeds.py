"""The whole flow under crashes, repeats and reordering: each seed is one run, which must end with the oracle's pages.

.venv/bin/pytest tests/simulation/test_seeds.py --seeds 1000 --first-seed 1
"""

import hashlib
import os
import random
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from tests.simulation.arrivals import Arrivals
from tests.simulation.call_faults import CallFaults
from tests.simulation.checker import Checker
from tests.simulation.oracle import FEED, histories
from tests.simulation.run import Run
from tests.simulation.script import generate_script
from tests.support import saved_files

ROOT = Path(__file__).parents[2]
SAMPLE = [9, 20]


def test_files_list_what_the_newsroom_published(seed: int) -> None:
    Run(seed).play()


def digest(seed: int) -> str:
    """Return a digest of a run: its number of calls, and all objects at the end."""
    run = Run(seed)
    run.play()
    return hashlib.sha256(repr((run.world.steps, sorted(run.objects.items()))).encode()).hexdigest()


@pytest.mark.matrix
def test_a_seed_is_the_same_run_in_another_process() -> None:
    """A run does not depend on the order of sets, on memory addresses or on the machine's clock."""
    code = f"from tests.simulation.test_seeds import digest; print(*map(digest, {SAMPLE}))"
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "shared", "cli"))
    other = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert other.stdout.split() == [digest(seed) for seed in SAMPLE]


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(101, 104))
def test_the_files_of_a_seed_break_no_rule_of_the_protocol(seed: int, tmp_path: Path) -> None:
    """Apply the rules of `stoppress check` to the files of some seeds, after recovery."""
    run = Run(seed)
    saved: list[tuple[datetime, dict[str, bytes]]] = []
    judge = Checker.check

    def judge_and_save(self: Checker, **options: bool) -> None:
        judge(self, **options)
        saved.append((run.world.now, dict(run.world.backend.objects())))

    with mock.patch.object(Checker, "check", judge_and_save):
        run.play()
    at, objects = saved[0]
    for key, body in objects.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(body)

    latest = at + run.checker.skew  # by the most advanced clock of all functions
    for host in run.script.hosts:
        assert saved_files.broken_rules(tmp_path / host, latest) == []


def test_no_function_receives_an_event_that_it_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without faults and invalid messages, each event source of the template delivers only events that its function accepts."""
    monkeypatch.setattr(CallFaults, "draw", staticmethod(lambda rng: CallFaults()))
    run = next(run for seed in range(1, 50) if not (run := Run(seed)).script.poison)
    run.play()

    batches = [line for line in run.world.log if "RecordArticle" in line or "RewriteSitemaps" in line]
    assert batches
    assert [line for line in batches if "errorType" in line or "itemIdentifier" in line] == []
    assert not re.search("(Key|Type|Value|Attribute)Error", "".join(run.world.log))


@pytest.mark.matrix
def test_the_oracle_judges_nine_of_ten_articles() -> None:
    decidable = []
    for seed in range(150):
        script, arrivals = generate_script(random.Random(f"story {seed}")), Arrivals(timedelta(seconds=5))
        for delivery in script.deliveries:
            if delivery.act:
                arrivals.record_attempt(delivery.act, delivery.at, delivery.at, delivery.id)
        for host in script.hosts:
            of_cms = [acts for acts in histories(script.acts, host).values() if acts[0].source != FEED]
            decidable += [arrivals.last_act_is_known(acts) for acts in of_cms]

    assert sum(decidable) > 0.88 * len(decidable)
