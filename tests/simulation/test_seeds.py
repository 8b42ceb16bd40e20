"""The whole flow under crashes, repeats and reordering: each seed is one run, and must end as the oracle says.

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

from tests.simulation import story as stories
from tests.simulation.call_faults import CallFaults
from tests.simulation.judgement import Judge
from tests.simulation.knowable import Arrivals
from tests.simulation.oracle import FEED, histories
from tests.simulation.run import Run
from tests.support import saved_files

ROOT = Path(__file__).parents[2]
SOME = [9, 20]


def test_what_the_newsroom_published_is_what_the_files_list(seed: int) -> None:
    Run(seed).play()


def digest(seed: int) -> str:
    """What a run came to, in short: its calls, and every object at the end."""
    run = Run(seed)
    run.play()
    return hashlib.sha256(repr((run.world.steps, sorted(run.objects.items()))).encode()).hexdigest()


@pytest.mark.matrix
def test_a_seed_is_the_same_run_in_another_process() -> None:
    """What a seed decides does not depend on the order of a set, on an address or on the machine's clock."""
    code = f"from tests.simulation.test_seeds import digest; print(*map(digest, {SOME}))"
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "shared", "cli"))
    other = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert other.stdout.split() == [digest(seed) for seed in SOME]


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(101, 104))
def test_the_files_of_a_seed_break_no_rule_of_the_protocol(seed: int, tmp_path: Path) -> None:
    """The checker, on the files of some seeds, at the end of the faults."""
    run = Run(seed)
    saved: list[tuple[datetime, dict[str, bytes]]] = []
    judge = Judge.judge

    def judge_and_save(self: Judge, **options: bool) -> None:
        judge(self, **options)
        saved.append((run.world.now, dict(run.world.backend.objects())))

    with mock.patch.object(Judge, "judge", judge_and_save):
        run.play()
    at, objects = saved[0]
    for key, body in objects.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(body)

    latest = at + run.judge.skew  # by the clock of the function that is ahead most
    for host in run.story.hosts:
        assert saved_files.broken_rules(tmp_path / host, latest) == []


def test_no_function_is_fed_what_it_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing fails and nobody sends nonsense, each event source of the template brings its function only what that takes."""
    monkeypatch.setattr(CallFaults, "of", staticmethod(lambda chance: CallFaults()))
    run = next(run for seed in range(1, 50) if not (run := Run(seed)).story.poison)
    run.play()

    batches = [line for line in run.world.log if "RecordArticle" in line or "RewriteSitemaps" in line]
    assert batches
    assert [line for line in batches if "errorType" in line or "itemIdentifier" in line] == []
    assert not re.search("(Key|Type|Value|Attribute)Error", "".join(run.world.log))


@pytest.mark.matrix
def test_nine_of_ten_articles_are_judged() -> None:
    judged = []
    for seed in range(150):
        story, arrivals = stories.tell(random.Random(f"story {seed}")), Arrivals(timedelta(seconds=5))
        for delivery in story.deliveries:
            if delivery.act:
                arrivals.note(delivery.act, delivery.at, delivery.at, delivery.id)
        for host in story.hosts:
            of_cms = [acts for acts in histories(story.acts, host).values() if acts[0].source != FEED]
            judged += [arrivals.last_word_is_known(acts) for acts in of_cms]

    assert sum(judged) > 0.88 * len(judged)
