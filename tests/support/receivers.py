"""A CDN and a hub that hear of files: marks in moto, messages of the engines queue at their time, and what was noted of the answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import items, queues, table
from stoppress.model.entries import Mark
from stoppress.model.file_names import atom_name, is_news, series_of
from stoppress.tell.engines import Told, file_message, sweep, tell_engines
from stoppress.tell.state import ENGINE, told_pk
from tests.support import doors
from tests.support.doors import Doors
from tests.support.ledger import HOST, MORNING

FAILED_AGAIN_AFTER = timedelta(seconds=10)


@dataclass
class Receivers:
    """A site whose files change. `messages` are those of the engines queue: when each arrives, and its body."""

    behind: Doors
    messages: list[tuple[datetime, str]] = field(default_factory=list)
    runs: list[Told] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def send(self, messages: Any) -> None:
        """Stands for `queues.send_engines`."""
        self.messages += [(self.now + timedelta(seconds=min(delay, 900)), body) for body, delay in messages]

    def write(self, file: str = "sitemap-news.xml", *also: str, host: str = HOST) -> None:
        """Write a file's mark, and handle the event about it."""
        self.mark(file, *also, host=host)
        self.hear(file, host)

    def mark(self, file: str, *also: str, host: str = HOST) -> None:
        """Write a file's mark."""
        forms = also or ((atom_name(series_of(file)),) if is_news(file) else ())
        mark = Mark(file, self.now, 1, 100, f"digest of {self.now}", forms)
        table.put_if(items.mark_item(host, mark))

    def hear(self, file: str = "sitemap-news.xml", host: str = HOST) -> None:
        """Handle the event about a file."""
        self.handle(file_message(host, file))

    def handle(self, *bodies: str) -> Told:
        """Handle messages in one run. Those that fail come again."""
        done = tell_engines({str(number): body for number, body in enumerate(bodies)}, self.now)
        self.messages += [(self.now + FAILED_AGAIN_AFTER, bodies[int(id_)]) for id_ in done.failed]
        self.runs.append(done)
        return done

    def wait(self, **period: float) -> None:
        """Let time pass, and handle each message when it arrives."""
        end = self.now + timedelta(**period)
        while self.messages and min(self.messages)[0] <= end:
            at, body = min(self.messages)
            self.messages.remove((at, body))
            self.behind.clock.move_to(max(at, self.now))
            self.handle(body)
        self.behind.clock.move_to(end)

    def sweep(self, site: Any) -> None:
        """The hourly sweep."""
        assert sweep([site], self.now) == {}

    def refusal(self, name: str) -> dict[str, Any]:
        """What was noted of a receiver's refusal."""
        return table.get(told_pk(HOST), f"{ENGINE}{name}") or {}

    @property
    def receivers_waiting(self) -> list[str]:
        """The names of the receivers whose messages wait."""
        return [json.loads(body)["receiver"] for _, body in self.messages if "receiver" in json.loads(body)]


@contextmanager
def opened() -> Iterator[Receivers]:
    """An empty stack in the morning."""
    with doors.opened(MORNING) as behind, pytest.MonkeyPatch.context() as patch:
        room = Receivers(behind)
        patch.setattr(queues, "send_engines", room.send)
        yield room
