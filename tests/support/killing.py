"""Kills an import at random places: before or after a batch was accepted, before or after the checkpoint was written."""

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
    """While the block runs, an import is killed at random within each `steps` steps, `times` times at most.

    A step is a batch or a checkpoint. Yields a function that tells how often it was killed.
    """
    left = [chance.randrange(2 * steps) for _ in range(times)]

    def hazardous(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            _strike()
            function(*arguments)
            _strike()

        return run

    def _strike() -> None:
        if left:
            left[0] -= 1
            if left[0] < 0:
                left.pop(0)
                raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "send_imports", hazardous(queues.send_imports))
        patch.setattr(Checkpoint, "write", hazardous(Checkpoint.write))
        yield lambda: times - len(left)


def until_done(work: Callable[[], Any]) -> Any:
    """Runs the work again and again until nothing kills it."""
    while True:
        try:
            return work()
        except Killed:
            continue
