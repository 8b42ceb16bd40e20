"""A cut comes into force while marks change: in any order of steps, no file is missing, and at rest each is in one index."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import md5
from typing import Any

import pytest

from stoppress.aws import table
from stoppress.aws.bucket import Overtaken, StoredFile
from stoppress.aws.codec import to_attribute
from stoppress.aws.items import INDEXES_SK, indexes_item, mark_item, read_indexes
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.index_ranges import CUT_WAITS, Cut, Indexes
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.rewrite import file_lines, publish
from stoppress.rewrite.sitemaps import rewrite_all
from stoppress.sitemaps.fold import listed_files
from tests.support.article_events import HOST, SITE
from tests.support.partitions import INDEX, MINUTE, NOON
from tests.unit.rewrite.test_rewriters_at_once import Rewriter, World, replace_aws

pytestmark = pytest.mark.matrix

ORDERS = 200
SECOND = "sitemap-index-2.xml"
OLD, OLDER, NEW = "sitemap-2001.xml", "sitemap-2000.xml", "sitemap-2002.xml"
DUE = RewriteRequest(HOST, SECOND, release=NOON)
CHANGES = [Mark(OLD, NOON, 2, 200, "changed"), Mark(OLDER, NOON, 1, 200, "new"), Mark(OLD, NOON, 0, 200, "emptied")]


class IndexWorld(World):
    """The marks of some files, and the cuts."""

    def __init__(self, site: Site, files: Iterable[str], *cuts: Cut) -> None:
        super().__init__(site)
        self.marks = {name: Mark(name, NOON - MINUTE, 1, 200, "first") for name in files}
        self.cuts: dict[str, Any] | None = indexes_item(HOST, Indexes(cuts)) | {"rev": 1} if cuts else None
        self.read_item = table.read_item
        self.live = {OLD, NEW} & self.marks.keys()
        self.missing: set[str] = set()  # files that some version of the indexes did not list

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        if sk != INDEXES_SK:
            return None
        self._wait()
        return self.cuts

    def query(self, pk: str, *, start: str = "", below: str = "~", page_size: int = 0) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        self._wait()
        if self.cuts and start <= INDEXES_SK:
            yield dict(self.cuts)
        for name in sorted(name for name in self.marks if start <= name <= below):
            yield mark_item(HOST, self.marks[name])

    def get_many(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        self._wait()
        return {(pk, name): mark_item(HOST, self.marks[name]) for pk, name in keys if name in self.marks}

    def put(self, item: dict[str, Any], expected_rev: int | None) -> None:
        self._wait()
        if (self.cuts and self.cuts["rev"]) != expected_rev:
            raise table.Conflict
        before, self.cuts = self.cuts, item | {"rev": (expected_rev or 0) + 1}
        images = {"OldImage": before or {}, "NewImage": self.cuts}
        self.queued += publish.requests_of_cuts(
            HOST, {name: {key: to_attribute(part) for key, part in image.items()} for name, image in images.items()}
        )

    def put_if(self, item: dict[str, Any]) -> None:
        """Ignore due records, because the test requests due work itself."""

    def read(self, site: str, file: str) -> StoredFile | None:
        self._wait()
        return self.objects.get(file)

    def write(self, site: str, file: str, body: bytes, *_: str, replaces: StoredFile | None, **metadata: Any) -> None:
        self._wait()
        stored = self.objects.get(file)
        if (stored and stored.etag) != (replaces and replaces.etag):
            raise Overtaken
        self.objects[file] = StoredFile(body, md5(body, usedforsecurity=False).hexdigest(), **metadata)
        self.missing |= self.live - self.emptied() - {name for names in self.listed().values() for name in names}

    def emptied(self) -> set[str]:
        return {name for name, mark in self.marks.items() if not mark.urls}

    def listed(self) -> dict[str, list[str]]:
        return {file: listed_files(stored.body) for file, stored in self.objects.items() if file != "robots.txt"}


def play(changes: Sequence[Mark], chance: random.Random, patch: pytest.MonkeyPatch) -> IndexWorld:
    """Play a due cut and changed marks to their end; a run may be killed once, and is then delivered again."""
    world = IndexWorld(SITE, (OLD, NEW, "sitemap-news.xml"), Cut("sitemap", NEW, 2, NOON - CUT_WAITS))
    replace_aws(world, patch)
    rewrite_all([RewriteRequest(HOST, INDEX)], NOON - 2 * MINUTE)
    runs: dict[Rewriter, RewriteRequest] = {}
    waiting, may_kill = list(changes), True
    weights = {kind: chance.choice((0.02, 0.1, 1)) for kind in ("change", "queue", "kill")}

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
        active = [run for run in runs if not run.done]
        steps: list[tuple[float, Callable[[], object]]] = [(1, run.step) for run in active]
        steps += [(weights["change"], change)] if waiting else []
        steps += [(weights["queue"], lambda: start(world.queued.pop(0)))] if world.queued else []
        if may_kill and active:
            steps.append((weights["kill"], partial(kill, chance.choice(active))))
        if not steps:
            return world
        chance.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()


@pytest.mark.parametrize("changes", [CHANGES[:1], CHANGES[1:2], CHANGES[:2], CHANGES[2:], []], ids=len)
def test_concurrent_rewriters_leave_each_file_in_its_index(changes: list[Mark]) -> None:
    for order in range(ORDERS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_lines, "READ_UNIT_BYTES", 1)
            world = play(changes, random.Random(order), patch)
            assert read_indexes(world.cuts).cuts[0].is_in_force, order
            assert world.missing == set(), order
            old = sorted({OLD, OLDER} & world.marks.keys() - world.emptied())
            assert world.listed() == {INDEX: [NEW, "sitemap-news.xml"], SECOND: old}, order
            second = world.objects[SECOND].body.decode()
            for name in old:
                assert f"{name}</loc><lastmod>{iso(world.marks[name].changed)}" in second, order
