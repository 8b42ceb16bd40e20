"""Threads of which one runs at a time: each goes on only when it is handed the turn, so that a seed can decide who is next."""

import threading
from collections.abc import Callable

# Threads that have nothing to do; making one costs more than most of what they run.
_idle: list["_Worker"] = []


class Over(BaseException):
    """The run is over: whoever still waits for the turn ends."""


class _Worker:
    def __init__(self) -> None:
        self.go = threading.Lock()
        self.go.acquire()
        self.job: Callable[[], None] = lambda: None
        threading.Thread(target=self._work, daemon=True, name="simulated").start()

    def _work(self) -> None:
        while True:
            self.go.acquire()
            self.job()


class Task:
    """Work that stops wherever it calls `pause`, and goes on with `step`. What it raised is in `error`."""

    def __init__(self, name: str, work: Callable[[], object], urgency: float = 0.0) -> None:
        self.name, self.urgency, self.done = name, urgency, False
        self.error: BaseException | None = None
        self._work = work
        self._over = False
        self._back = threading.Lock()
        self._back.acquire()
        self._worker = _idle.pop() if _idle else _Worker()
        self._worker.job = self._run

    def step(self) -> None:
        """Let it run until it pauses or ends. Raises what it raised."""
        self._worker.go.release()
        self._back.acquire()
        if self.error is not None:
            raise self.error

    def pause(self) -> None:
        """Called by the work itself: hand the turn back."""
        self._back.release()
        self._worker.go.acquire()
        if self._over:
            raise Over

    def end(self) -> None:
        """Have it end where it stands."""
        self._over = True
        while not self.done:
            self._worker.go.release()
            self._back.acquire()

    def _run(self) -> None:
        try:
            self._work()
        except Over:
            pass
        except BaseException as error:  # noqa: BLE001 - it is the main thread's to hear
            self.error = error
        self.done = True
        _idle.append(self._worker)
        self._back.release()
