"""The clock of a stack: virtual while a scenario plays, the machine's while `up` serves."""

from datetime import UTC, datetime, timedelta
from typing import Any

import time_machine


class Clock:
    """The clock of the whole process, moto included: this machine's, until `move` or `jump` sets another time.

    Monotonic clocks are not changed.
    """

    def __init__(self) -> None:
        self._travel: time_machine.travel | None = None
        self._coordinates: Any = None

    @property
    def virtual(self) -> bool:
        """Whether the clock shows another time than this machine's."""
        return self._travel is not None

    def now(self) -> datetime:
        """The instant that the whole process sees, in UTC."""
        return datetime.now(UTC)

    def move(self, instant: datetime) -> None:
        """Sets the clock to `instant`, where it stands still until the next call."""
        if self._coordinates is not None:
            self._coordinates.move_to(instant, tick=False)
            return
        self._travel = time_machine.travel(instant, tick=False)
        self._coordinates = self._travel.start()

    def jump(self, distance: timedelta) -> None:
        """Moves the clock on by `distance`, and lets it run from there."""
        instant = self.now() + distance
        self.release()
        self._travel = time_machine.travel(instant, tick=True)
        self._coordinates = self._travel.start()

    def release(self) -> None:
        """From now on the clock is the machine's."""
        if self._travel is not None:
            self._travel.stop()
        self._travel = self._coordinates = None
