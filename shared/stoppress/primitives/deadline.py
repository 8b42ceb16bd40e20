"""How long a function may continue before Lambda ends it."""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant at which work stops: `reserve_s` seconds before Lambda ends the function.

    `remaining_ms` is `get_remaining_time_in_millis` of Lambda's context. The reserve is the time to hand unfinished work back.
    """

    remaining_ms: Callable[[], float]
    reserve_s: float = 0.0

    @property
    def seconds_left(self) -> float:
        """The seconds until work stops; 0 afterwards."""
        return max(0.0, self.remaining_ms() / 1_000 - self.reserve_s)

    def is_over(self) -> bool:
        return self.seconds_left <= 0


NEVER = Deadline(lambda: math.inf)
OVER = Deadline(lambda: 0)
