"""Cooperative tasks: one runs at a time, until it pauses, so that a seed can choose the next task."""

from collections.abc import Callable

from greenlet import getcurrent, greenlet


class Task:
    """Work that `pause` suspends and `step` resumes. Greenlets switch faster than threads."""

    def __init__(self, name: str, work: Callable[[], object], priority: float = 0.0) -> None:
        self.name, self.priority = name, priority
        self._greenlet = greenlet(work)

    @property
    def done(self) -> bool:
        return bool(self._greenlet.dead)

    def step(self) -> None:
        """Run the task until it pauses or ends. Raises the task's exception."""
        self._greenlet.parent = getcurrent()
        self._greenlet.switch()

    def pause(self) -> None:
        """Suspend the task; called from within its work."""
        self._greenlet.parent.switch()

    def end(self) -> None:
        """End the task at its current position."""
        self._greenlet.parent = getcurrent()
        while not self.done:
            self._greenlet.throw()
