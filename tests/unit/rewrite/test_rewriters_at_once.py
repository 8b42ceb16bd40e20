"""Concurrent rewriters in every order of their steps end with the files of the table and of the configuration in force.

A rewriter may begin with a configuration that is replaced meanwhile, and may be killed before any of its calls. A run that was killed is
delivered again, as a stream and a queue do.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import md5
from typing import Any

import pytest

from stoppress.aws import due, inventory, sites
from stoppress.aws.bucket import Overtaken, StoredFile
from stoppress.aws.items import INDEXES_SK, general_item, mark_item, read_mark
from stoppress.aws.queues import RewriteRequest
from stoppress.aws.table import Conflict
from stoppress.model.entries import GeneralEntry
from stoppress.model.file_names import INDEX_FILE
from stoppress.model.site import Site
from stoppress.model.site_parts import Outputs
from stoppress.rewrite import file_lines, output_formats, publish, sitemaps
from stoppress.rewrite.sitemaps import rewrite_all
from stoppress.sitemaps.other_forms import compressed, text_sitemap, unpacked
from stoppress.sitemaps.render import render_general
from tests.simulation.interleaving import Task
from tests.support.article_events import HOST, SITE, page
from tests.support.partitions import MINUTE, NOON, SHARD, key

pytestmark = pytest.mark.matrix

# All orders of two rewriters are tried if there are at most this many, otherwise this many random orders.
ORDERS_MAX = 100
GZIP, TEXT = f"{SHARD}.gz", SHARD.replace(".xml", ".txt")
PLAIN = SITE
PACKED = SITE.model_copy(update={"outputs": Outputs(gzip=True, text=True)})
INSECURE = SITE.model_copy(update={"scheme": "http"})
REMOVED, DELETED = "removed", "removed with its files"
State = Site | str


class Rewriter(Task):
    """A run that pauses before each of its calls until its next step. `cached` is the configuration in its memory."""

    def __init__(self, world: "World", work: Callable[[], object], cached: State) -> None:
        super().__init__("rewriter", work)
        self._world, self.cached = world, cached

    def step(self) -> None:
        self._world.running = self
        super().step()

    def end(self) -> None:
        self._world.running = self
        super().end()


class World:
    """Objects, table, marks and configuration in memory. Each call is a step that may come between any two others."""

    Conflict = Conflict
    UnknownSite = sites.UnknownSite
    CACHE_AGE_MAX = sites.CACHE_AGE_MAX

    def __init__(self, state: State) -> None:
        self.pages = {"before"}
        self.state: State = state
        self.objects: dict[str, StoredFile] = {}
        self.mark: dict[str, Any] | None = None
        self.queued: list[RewriteRequest] = []
        self.puts = self.announced = 0
        self.running: Rewriter | None = None

    def _wait(self) -> None:
        if self.running:
            self.running.pause()

    # ── aws.sites ──

    def load(self, host: str, age_max: timedelta) -> Site:
        state, current = self.state, self.running
        if current and age_max:
            state = current.cached
        elif current:
            current.pause()
            state = current.cached = self.state
        if isinstance(state, str):
            raise sites.UnknownSite
        return state

    def reload(self, host: str) -> Site | None:
        current = self.running
        if current:
            current.pause()
            current.cached = self.state
        return None if isinstance(self.state, str) else self.state

    def read_current(self, host: str) -> sites.Current:
        return sites.Current(1, "", isinstance(self.state, str), self.state == DELETED)

    # ── aws.table, aws.due ──

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        # Read just before the object; a separate step would double the orders and find nothing more.
        return None if sk == INDEXES_SK else self.mark

    def query(self, pk: str) -> list[dict[str, Any]]:
        self._wait()
        return self._items()

    def get_many(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        self._wait()
        items = {(item["pk"], item["sk"]): item for item in self._items()}
        return {key: items[key] for key in keys if key in items}

    def _items(self) -> list[dict[str, Any]]:
        return [general_item(HOST, SHARD, entry) for entry in self.entries()]

    def entries(self) -> list[GeneralEntry]:
        return [GeneralEntry(page(path)) for path in sorted(self.pages)]

    def put(self, item: dict[str, Any], expected_rev: int | None) -> None:
        self._wait()
        if (self.mark and self.mark["rev"]) != expected_rev:
            raise Conflict
        self.mark = item | {"rev": (expected_rev or 0) + 1}

    # ── aws.bucket ──

    def read(self, site: str, file: str) -> StoredFile | None:
        if file == INDEX_FILE:  # as its own rewriter writes it, immediately after each mark
            body = f"/{read_mark(self.mark).served}</loc>" if self.mark else ""
            return StoredFile(body.encode(), "index", NOON)
        self._wait()
        return self.objects.get(file)

    def write(
        self,
        site: str,
        file: str,
        body: bytes,
        content_type: str,
        cache_control: str,
        *,
        replaces: StoredFile | None,
        **metadata: Any,
    ) -> None:
        self._wait()
        stored = self.objects.get(file)
        if (stored and stored.etag) != (replaces and replaces.etag):
            raise Overtaken
        self.puts += file == SHARD
        self.objects[file] = StoredFile(body, md5(body, usedforsecurity=False).hexdigest(), **metadata)

    def delete(self, site: str, file: str, stored: StoredFile | str, values: dict[str, Any] | None = None) -> None:
        self._wait()
        if isinstance(stored, str):  # the condition of a mark
            assert values
            if self.mark and self.mark["changed"] != values[":changed"]:
                raise Conflict
            self.mark = None
            return
        there = self.objects.get(file)
        if there and there.etag != stored.etag:
            raise Overtaken
        self.objects.pop(file, None)

    # ── aws.queues ──

    def announce(self, detail_type: str, detail: dict[str, Any]) -> None:
        self.announced += 1

    def send_rewrites(self, requests: Sequence[RewriteRequest], delay_seconds: int = 0) -> None:
        self.queued += requests

    def expected(self) -> dict[str, bytes]:
        """Return the files of the table and the configuration in force."""
        assert isinstance(self.state, Site)
        rendered = render_general(self.entries(), self.state)
        outputs = self.state.outputs
        packed = {GZIP: compressed(rendered.body)} if outputs.gzip else {}
        text = {TEXT: text_sitemap(rendered.body)} if outputs.text else {}
        return {SHARD: rendered.body, **packed, **text}


@dataclass(frozen=True)
class Case:
    """An edit with concurrent changes: a second edit (None), or another configuration and the requests that it causes.

    `kills`: a run may be killed before any of its calls, once.
    """

    begin: State = PLAIN
    changes: tuple[State | None, ...] = (None,)
    folds: bool = True
    is_reverted: bool = False
    kills: bool = False


def edit(world: World, case: Case, number: int) -> RewriteRequest:
    path = "first" if number == 0 or case.is_reverted else "second"
    if number and case.is_reverted:
        world.pages.remove(path)
    else:
        world.pages.add(path)
    return RewriteRequest(HOST, SHARD, entries=frozenset([key(path)]) if case.folds else None)


def replace_aws(world: World, patch: pytest.MonkeyPatch) -> None:
    names_by_module = {
        sitemaps: ("sites", "bucket", "queues", "table"),
        file_lines: ("bucket", "sites", "table"),
        publish: ("bucket", "table", "queues"),
        output_formats: ("bucket", "queues", "sites"),
        inventory: ("table",),
    }
    for module, names in names_by_module.items():
        for name in names:
            patch.setattr(module, name, world)
    patch.setattr(due, "table", world)
    patch.setattr(sitemaps, "clear_due", lambda *_: None)


def play(case: Case, choose: Callable[[int], int], patch: pytest.MonkeyPatch) -> World:
    """Play a case to its end. `choose` gets the number of possible steps and returns the index of the next."""
    world = World(case.begin)
    replace_aws(world, patch)
    rewrite_all([RewriteRequest(HOST, SHARD)], NOON - MINUTE)
    world.puts = world.announced = 0
    requests: dict[Rewriter, RewriteRequest] = {}

    def start(request: RewriteRequest, cached: State) -> None:
        minute = NOON + len(requests) * MINUTE
        rewriter = Rewriter(world, lambda: queue_failed(world, rewrite_all([request], minute)), cached)
        requests[rewriter] = request

    start(edit(world, case, 0), world.state)
    waiting = list(case.changes)
    may_kill = case.kills
    while True:
        active = [rewriter for rewriter in requests if not rewriter.done]
        steps: list[Callable[[], None]] = [rewriter.step for rewriter in active]
        if waiting:
            steps.append(lambda: happen(waiting.pop(0)))
        if may_kill:
            steps += [lambda rewriter=rewriter: kill(rewriter) for rewriter in active]  # type: ignore[misc]

        def happen(change: State | None) -> None:
            if change is None:
                start(edit(world, case, 1), world.state)
                return
            before, world.state = world.state, change
            if isinstance(change, Site):
                start(RewriteRequest(HOST, SHARD, checks_all=True), change)
            elif change == DELETED:  # what `sites remove` does
                world.objects.clear()
                world.mark = None
            assert before is not change

        def kill(rewriter: Rewriter) -> None:
            nonlocal may_kill
            may_kill = False
            rewriter.end()
            again = requests[rewriter]
            start(RewriteRequest(again.site, again.file, checks_all=True), rewriter.cached)

        if not steps:
            if not world.queued:
                return world
            start(world.queued.pop(0), world.state)
            continue
        steps[choose(len(steps))]()


def queue_failed(world: World, results: Iterable[sitemaps.Result]) -> None:
    """Request failed files again, as the stream and the queue do."""
    world.queued += [RewriteRequest(HOST, result.request.file, checks_all=True) for result in results if result.error]


def orders() -> Iterator[tuple[Callable[[int], int], Callable[[], None]]]:
    """Yield choosers for every order, up to ORDERS_MAX, and then for random orders."""
    pending: list[list[int]] = [[]]
    for _ in range(ORDERS_MAX):
        if not pending:
            return
        order = pending.pop()
        choices: list[int] = []

        def choose(count: int, order: list[int] = order, choices: list[int] = choices) -> int:
            number = order[len(choices)] if len(choices) < len(order) else 0
            choices.append(count)
            return number

        def played(order: list[int] = order, choices: list[int] = choices) -> None:
            taken = order + [0] * (len(choices) - len(order))
            pending.extend(
                [*taken[:step], other] for step in range(len(order), len(choices)) for other in range(1, choices[step])
            )

        yield choose, played
    chance = random.Random(ORDERS_MAX)
    for _ in range(ORDERS_MAX):
        yield chance.randrange, lambda: None


def contents(bodies: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files unpacked, because a gzip file may have either of two times in its header."""
    return {name: unpacked(name, body) for name, body in bodies.items()}


CASES = {
    "two edits of a whole file": Case(folds=False),
    "two edits that are folded": Case(),
    "an edit that is reverted": Case(is_reverted=True),
    "a killed edit beside another": Case(kills=True),
    "another scheme": Case(changes=(INSECURE,)),
    "another scheme and back": Case(changes=(INSECURE, PLAIN)),
    "forms turned on": Case(changes=(PACKED,)),
    "forms turned off and on": Case(begin=PACKED, changes=(PLAIN, PACKED)),
    "forms turned on and off, killed": Case(changes=(PACKED, PLAIN), kills=True),
    "forms turned off, killed": Case(begin=PACKED, changes=(PLAIN,), kills=True),
    "forms turned off beside an edit, killed": Case(begin=PACKED, changes=(PLAIN, None), kills=True),
    "removed with its files, killed": Case(begin=PACKED, changes=(DELETED,), kills=True),
    "removed, and put again": Case(changes=(REMOVED, INSECURE), kills=True),
    "removed with its files, and put again": Case(begin=PACKED, changes=(DELETED, PLAIN), kills=True),
}


@pytest.mark.parametrize("name", CASES)
def test_concurrent_rewriters_end_with_the_files_of_table_and_configuration(name: str) -> None:
    case = CASES[name]
    for choose, played in orders():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_lines, "READ_UNIT_BYTES", 1)
            taken: list[int] = []

            def remember(count: int, choose: Callable[[int], int] = choose, taken: list[int] = taken) -> int:
                taken.append(choose(count))
                return taken[-1]

            world = play(case, remember, patch)
            played()
            bodies = {name: stored.body for name, stored in world.objects.items()}
            if world.state == DELETED:
                assert (bodies, world.mark) == ({}, None), taken
                continue
            assert contents(bodies) == contents(world.expected()), taken
            assert world.mark is not None, taken
            mark = read_mark(world.mark)
            assert (mark.urls, set(mark.also)) == (len(world.pages), set(bodies) - {SHARD}), taken
            assert world.announced >= world.puts - case.kills, taken
            assert mark_item(HOST, mark)["digest"], taken
