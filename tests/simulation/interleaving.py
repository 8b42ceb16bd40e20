"""Tasks of which one runs at a time: each goes on only when it is handed the turn, so that a seed can decide who is next."""

from collections.abc import Callable

from greenlet import getcurrent, greenlet


class Task:
    """Work that stops wherever it calls `pause`, and goes on with `step`. Threads would wait for a processor at every turn."""

    def __init__(self, name: str, work: Callable[[], object], urgency: float = 0.0) -> None:
        self.name, self.urgency = name, urgency
        self._greenlet = greenlet(work)

    @property
    def done(self) -> bool:
        return bool(self._greenlet.dead)

    def step(self) -> None:
        """Let it run until it pauses or ends. Raises what it raised."""
        self._greenlet.parent = getcurrent()
        self._greenlet.switch()

    def pause(self) -> None:
        """Called by the work itself: hand the turn back."""
        self._greenlet.parent.switch()

    def end(self) -> None:
        """Have it end where it stands."""
        self._greenlet.parent = getcurrent()
        while not self.done:
            self._greenlet.throw()
