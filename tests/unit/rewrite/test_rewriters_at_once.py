"""Two rewriters at once, in every order of their steps: the file is that of the table."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5
from typing import Any

import pytest

from stoppress.aws.bucket import Overtaken, StoredFile
from stoppress.aws.items import general_item
from stoppress.aws.queues import RewriteRequest
from stoppress.aws.table import Busy, Conflict
from stoppress.model.entries import GeneralEntry
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.rewrite import attempt, output_formats, publish, render, retire, sitemaps
from stoppress.rewrite.sitemaps import rewrite
from stoppress.sitemaps.render import render_general
from tests.support.ledger import HOST, SITE, page
from tests.support.partitions import HOUR, MINUTE, NOON, SHARD, key

pytestmark = pytest.mark.matrix


class Rewriter(threading.Thread):
    """A rewrite that stands still before each call of a door until it is told to go on."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work, self._go, self._stands = work, threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.error: BaseException | None = None

    def run(self) -> None:
        self.wait()
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - told to the test below
            self.error = error
        self.over = True
        self._stands.release()

    def wait(self) -> None:
        self._stands.release()
        self._go.acquire()

    def step(self) -> None:
        """Let it do one call."""
        self._go.release()
        self._stands.acquire()
        if self.error:
            raise self.error

    def begin(self) -> None:
        self.start()
        self._stands.acquire()


class World:
    """Object, table, mark and bus in memory; each call is a step that may stand between any two of the others."""

    Conflict, Busy = Conflict, Busy

    def __init__(self) -> None:
        self.pages = {"before"}
        self.object: StoredFile | None = None
        self.mark: dict[str, Any] | None = None
        self.announced = 0
        self.puts = 0

    def _stand(self) -> None:
        current = threading.current_thread()
        if isinstance(current, Rewriter):
            current.wait()

    def load_kept(self, host: str, at_least: int = 0) -> Site:
        return SITE

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        # Right before the object is read; a step of its own would double the orders and show nothing else.
        return self.mark

    def read(self, site: str, file: str) -> StoredFile | None:
        self._stand()
        return self.object

    def query(self, pk: str) -> list[dict[str, Any]]:
        self._stand()
        return self._items()

    def _items(self) -> list[dict[str, Any]]:
        return [general_item(HOST, SHARD, GeneralEntry(page(path))) for path in self.pages]

    def get_many(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        self._stand()
        items = {(item["pk"], item["sk"]): item for item in self._items()}
        return {key: items[key] for key in keys if key in items}

    def write(
        self,
        site: str,
        file: str,
        body: bytes,
        content_type: str,
        cache_control: str,
        *,
        replaces: StoredFile | None,
        changed: datetime,
        config_version: int,
        form: str,
        whole: datetime | None,
    ) -> None:
        self._stand()
        if (self.object and self.object.etag) != (replaces and replaces.etag):
            raise Overtaken
        self.puts += 1
        self.object = StoredFile(
            body, md5(body, usedforsecurity=False).hexdigest(), changed, config_version, form, whole
        )

    def announce(self, detail_type: str, detail: dict[str, Any]) -> None:
        self.announced += 1

    def put(self, item: dict[str, Any], expected_rev: int | None) -> None:
        self._stand()
        if (self.mark and self.mark["rev"]) != expected_rev:
            raise Conflict
        self.mark = item | {"rev": (expected_rev or 0) + 1}


@dataclass(frozen=True)
class Case:
    """Two edits, each of which wakes a rewriter: the second one with another clock. `knows`: who of them knows its edit alone."""

    pages: tuple[str, ...]
    clocks: tuple[datetime, datetime] = (NOON, NOON + MINUTE)
    knows: tuple[bool, bool] = (True, True)
    # The second edit takes back what the first has put.
    taken_back: bool = False


def told(order: list[int], case: Case, monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[int]]:
    """`order` says who goes next while it lasts, then the first who can.

    The world at the end, and how many could have gone next at each step.
    """
    world = World()
    doors = {
        sitemaps: ("sites",),
        attempt: ("bucket", "sites", "table"),
        render: ("table",),
        publish: ("bucket", "table", "queues"),
        output_formats: ("bucket", "queues"),
        retire: ("bucket", "table"),
    }
    for module, names in doors.items():
        for name in names:
            monkeypatch.setattr(module, name, world)
    if any(case.knows):
        rewrite(RewriteRequest(HOST, SHARD), NOON - HOUR / 2)
        world.puts = world.announced = 0

    def edited(number: int) -> Rewriter:
        path = "first" if case.taken_back else ("first", "second")[number]
        if number and case.taken_back:
            world.pages.remove(path)
        else:
            world.pages.add(path)
        entries = frozenset([key(path)]) if case.knows[number] else None
        rewriter = Rewriter(lambda: rewrite(RewriteRequest(HOST, SHARD, entries=entries), case.clocks[number]))
        rewriter.begin()
        return rewriter

    rewriters = [edited(0)]
    choices: list[int] = []
    while able := [*(one for one in rewriters if not one.over), *(["edit"] if len(rewriters) == 1 else [])]:
        turn = able[order[len(choices)] if len(choices) < len(order) else 0]
        choices.append(len(able))
        if isinstance(turn, Rewriter):
            turn.step()
        else:
            rewriters.append(edited(1))
    return world, choices


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(("before", "first", "second"), knows=(False, False)), id="whole"),
        pytest.param(Case(("before", "first", "second"), clocks=(NOON + MINUTE, NOON)), id="folding"),
        pytest.param(Case(("before",), knows=(False, True), taken_back=True), id="taken back"),
    ],
)
def test_two_rewriters_in_every_order_of_their_steps_end_with_the_tables_file(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "READ_UNIT_BYTES", 1)
    final = render_general([GeneralEntry(page(path)) for path in case.pages], SITE).body
    orders: list[list[int]] = [[]]
    tried = 0
    while orders:
        order = orders.pop()
        world, choices = told(order, case, monkeypatch)
        tried += 1
        assert world.object is not None, order
        assert world.object.body == final, order
        assert world.mark is not None, order
        assert world.mark["urls"] == len(case.pages), order
        assert case.taken_back or world.mark["changed"] == exact(world.object.changed), order
        assert world.puts <= (3 if case.taken_back else 2), order
        assert world.announced >= world.puts, order
        taken = order + [0] * (len(choices) - len(order))
        orders += [
            [*taken[:step], other] for step in range(len(order), len(choices)) for other in range(1, choices[step])
        ]
    assert tried > 100
