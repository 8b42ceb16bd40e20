"""A cut comes into force while marks change, in every order of the rewriters' steps: no file is ever in no index, and at rest each is in one."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import md5
from typing import Any

import pytest

from stoppress.aws import inventory, table
from stoppress.aws.bucket import Overtaken, StoredFile
from stoppress.aws.codec import to_attribute
from stoppress.aws.items import INDEXES_SK, indexes_item, mark_item, read_indexes
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.index_ranges import CUT_WAITS, Cut, Indexes
from stoppress.rewrite import file_lines, indexes, output_formats, publish, sitemaps
from stoppress.rewrite.sitemaps import rewrite_all
from stoppress.sitemaps.fold import listed_files
from tests.support.article_events import HOST, SITE
from tests.support.partitions import INDEX, MINUTE, NOON
from tests.unit.rewrite.test_rewriters_at_once import Rewriter, World, orders

pytestmark = pytest.mark.matrix

SECOND = "sitemap-index-2.xml"
OLD, OLDER, NEW = "sitemap-2001.xml", "sitemap-2000.xml", "sitemap-2002.xml"
DUE = RewriteRequest(HOST, SECOND, release=NOON)
CHANGES = [Mark(OLD, NOON, 2, 200, "changed"), Mark(OLDER, NOON, 1, 200, "new"), Mark(OLD, NOON, 0, 200, "emptied")]


class IndexWorld(World):
    """The marks of three files, and a cut that is due: it moves the two older ones."""

    def __init__(self) -> None:
        super().__init__(SITE)
        self.marks = {name: Mark(name, NOON - MINUTE, 1, 200, "first") for name in (OLD, NEW, "sitemap-news.xml")}
        self.cuts: dict[str, Any] = indexes_item(HOST, Indexes((Cut("sitemap", NEW, SECOND, NOON - CUT_WAITS),)))
        self.cuts["rev"] = 1
        self.read_item = table.read_item

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        if sk != INDEXES_SK:
            return None
        self._wait()
        return self.cuts

    def query(self, pk: str, *, start: str = "", below: str = "~", page_size: int = 0) -> list[dict[str, Any]]:
        self._wait()
        return [item for item in self._items() if start <= item["sk"] <= below]

    def _items(self) -> list[dict[str, Any]]:
        return [self.cuts, *(mark_item(HOST, self.marks[name]) for name in sorted(self.marks))]

    def put(self, item: dict[str, Any], expected_rev: int | None) -> None:
        self._wait()
        if self.cuts["rev"] != expected_rev:
            raise table.Conflict
        images = [
            {name: to_attribute(value) for name, value in image.items()} for image in (self.cuts, item | {"rev": 2})
        ]
        self.cuts = item | {"rev": expected_rev + 1}
        self.queued += indexes.requests_of_cuts(HOST, {"OldImage": images[0], "NewImage": images[1]})

    def read(self, site: str, file: str) -> StoredFile | None:
        self._wait()
        return self.objects.get(file)

    def write(self, site: str, file: str, body: bytes, *_: str, replaces: StoredFile | None, **metadata: Any) -> None:
        self._wait()
        stored = self.objects.get(file)
        if (stored and stored.etag) != (replaces and replaces.etag):
            raise Overtaken
        self.objects[file] = StoredFile(body, md5(body, usedforsecurity=False).hexdigest(), **metadata)
        assert {OLD, NEW} - self.emptied() <= {name for names in self.listed().values() for name in names}

    def emptied(self) -> set[str]:
        return {name for name, mark in self.marks.items() if not mark.urls}

    def listed(self) -> dict[str, list[str]]:
        return {file: listed_files(stored.body) for file, stored in self.objects.items() if file != "robots.txt"}


def play(changes: Sequence[Mark], choose: Callable[[int], int], patch: pytest.MonkeyPatch) -> IndexWorld:
    """Play the due cut and changed marks to their end; a run may be killed once, and is then delivered again."""
    world = IndexWorld()
    doors = {
        sitemaps: ("sites", "bucket", "queues"),
        file_lines: ("bucket", "sites", "table"),
        publish: ("bucket", "table", "queues"),
        output_formats: ("bucket", "queues", "sites"),
        indexes: ("table",),
        inventory: ("table",),
    }
    for module, names in doors.items():
        for name in names:
            patch.setattr(module, name, world)
    patch.setattr(sitemaps, "clear_due", lambda *_: None)
    rewrite_all([RewriteRequest(HOST, INDEX)], NOON - 2 * MINUTE)
    runs: dict[Rewriter, RewriteRequest] = {}
    waiting, may_kill = list(changes), True

    def start(request: RewriteRequest) -> None:
        def run() -> None:
            results = rewrite_all([request], NOON + len(runs) * MINUTE)
            world.queued += [result.request for result in results if result.error]

        runs[Rewriter(world, run, SITE)] = request

    def change() -> None:
        mark = waiting.pop(0)
        world.marks[mark.file] = mark
        start(RewriteRequest(HOST, INDEX, entries=frozenset([(mark.file, mark.file)])))

    def kill(run: Rewriter) -> None:
        nonlocal may_kill
        may_kill = False
        run.end()
        start(runs[run])

    start(DUE)
    while True:
        able = [run for run in runs if not run.done]
        steps: list[Callable[[], object]] = [run.step for run in able]
        steps += [change] if waiting else []
        steps += [lambda: start(world.queued.pop(0))] if world.queued else []
        steps += [lambda run=run: kill(run) for run in able] if may_kill else []  # type: ignore[misc]
        if not steps:
            return world
        steps[choose(len(steps))]()


def taken_by(choose: Callable[[int], int], taken: list[int]) -> Callable[[int], int]:
    def remember(count: int) -> int:
        taken.append(choose(count))
        return taken[-1]

    return remember


@pytest.mark.parametrize("changes", [CHANGES[:1], CHANGES[1:2], CHANGES[:2], CHANGES[2:], []], ids=len)
def test_in_every_order_of_their_steps_rewriters_end_with_each_file_in_its_index(changes: Iterable[Mark]) -> None:
    for choose, played in orders():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_lines, "READ_UNIT_BYTES", 1)
            taken: list[int] = []
            world = play(list(changes), taken_by(choose, taken), patch)
            played()
            assert read_indexes(world.cuts).cuts[0].is_in_force, taken
            old = sorted({OLD, OLDER} & world.marks.keys() - world.emptied())
            assert world.listed() == {INDEX: [NEW, "sitemap-news.xml"], SECOND: old}, taken
            for name in old:
                assert f"{name}</loc><lastmod>{world.marks[name].changed:%Y-%m-%dT%H:%M:%SZ}" in str(
                    world.objects[SECOND].body
                ), taken
