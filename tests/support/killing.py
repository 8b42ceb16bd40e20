"""Kill an import at random: before or after a batch is accepted, or before or after the checkpoint is written."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stoppress.aws import queues
from stoppress_cli.commands.import_ import Checkpoint


class Killed(BaseException):
    """The process ends here: no handler of the product catches this."""


@contextmanager
def killed(chance: random.Random, times: int, steps: int) -> Iterator[Callable[[], int]]:
    """Kill an import at random within each `steps` steps while the block runs, at most `times` times.

    A step is a batch or a checkpoint. Yields a function that returns how often the import was killed.
    """
    countdowns = [chance.randrange(2 * steps) for _ in range(times)]

    def hazardous(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            _strike()
            function(*arguments)
            _strike()

        return run

    def _strike() -> None:
        if countdowns:
            countdowns[0] -= 1
            if countdowns[0] < 0:
                countdowns.pop(0)
                raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "send_imports", hazardous(queues.send_imports))
        patch.setattr(Checkpoint, "write", hazardous(Checkpoint.write))
        yield lambda: times - len(countdowns)


def until_done(work: Callable[[], Any]) -> Any:
    """Repeat the work until it is not killed."""
    while True:
        try:
            return work()
        except Killed:
            continue
