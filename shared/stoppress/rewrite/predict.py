"""Predict the files of a changed configuration, with the plan of the rewriters. This module writes nothing."""

import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, filterfalse

from stoppress.aws import bucket
from stoppress.aws.inventory import all_files, read_indexes
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.file_names import ROBOTS_FILE, is_index, is_indexed, is_news
from stoppress.model.index_ranges import Indexes
from stoppress.model.site import Site
from stoppress.rewrite.file_lines import Attempt, mark_of, render, render_marks
from stoppress.rewrite.output_formats import possible_forms, render_forms
from stoppress.rewrite.publish import plan_of
from stoppress.sitemaps.other_forms import unpacked
from stoppress.sitemaps.render import assert_valid

# Files that are read and rendered concurrently. More would need more memory, and more connections than boto3 keeps.
FILES_AT_ONCE = 8
_LOC = re.compile(r"<loc>([^<]*)</loc>")
_NEWS_TAG = "<news:news>"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file's bytes now and after the change. None if the file does not exist."""

    file: str
    before: bytes | None
    after: bytes | None

    @property
    def is_change(self) -> bool:
        # Another zlib version may compress the same file to other bytes.
        before, after = (body and unpacked(self.file, body) for body in (self.before, self.after))
        return before != after

    def lines(self) -> dict[str, int]:
        """Return how many lines of an XML file enter, leave and change. Lines with the same URL, under either scheme, are one line."""
        before, after = _lines_by_url(self.before), _lines_by_url(self.after)
        changed = sum(before[url] != after[url] for url in before.keys() & after.keys())
        return {
            "enter": len(after.keys() - before.keys()),
            "leave": len(before.keys() - after.keys()),
            "change": changed,
        }

    def stories(self) -> tuple[set[str], set[str]]:
        """Return the articles that a news sitemap lists before and after; none for any other file."""
        if not (is_news(self.file) and self.file.endswith(".xml")):
            return set(), set()
        before, after = (
            {url for url, line in _lines_by_url(body).items() if _NEWS_TAG in line}
            for body in (self.before, self.after)
        )
        return before, after


def predict(site: Site, now: datetime) -> Iterator[FileChange]:
    """Yield every file of the site: its bytes now, and its bytes once this configuration has been applied at `now`.

    Other forms that are no longer configured are then deleted. A file that the change empties stays for a day. Raises BrokenFile
    if a file could not be written, and the errors of bucket and table.
    """
    stored = {listed.file for listed in bucket.listed(site.host)}
    marks: dict[str, Mark] = {}
    kept: set[str] = set()
    unwanted: set[str] = set()

    def predict_file(file: str) -> tuple[Attempt, list[FileChange]]:
        mark = None if file == ROBOTS_FILE else mark_of(site, file)
        before = bucket.read(site.host, file) if file in stored else None
        attempt = Attempt(site, RewriteRequest(site.host, file, checks_all=True), mark, before, now)
        bodies = _render_files(attempt, marks, site_indexes)
        return attempt, [FileChange(name, _read_body(site, name, stored), bodies[name]) for name in sorted(bodies)]

    site_indexes = read_indexes(site.host)
    files = list(filterfalse(is_index, all_files(site, robots=True)))
    with ThreadPoolExecutor(FILES_AT_ONCE) as executor:
        batches = [files[start : start + FILES_AT_ONCE] for start in range(0, len(files), FILES_AT_ONCE)]
        # The indexes need the marks of all other files.
        predicted = chain.from_iterable(executor.map(predict_file, batch) for batch in [*batches, site_indexes.files])
        for attempt, changes in predicted:
            if attempt.file == ROBOTS_FILE and not changes and not attempt.has_own_object:
                continue  # the site keeps its own robots.txt
            # The feed of a news series is a form of each of its files.
            yield from (change for change in changes if change.file not in kept)
            kept |= {change.file for change in changes}
            unwanted |= {attempt.file, *possible_forms(attempt.file), *(attempt.mark.also if attempt.mark else ())}
    for name in sorted(unwanted & stored - kept):
        yield FileChange(name, _read_body(site, name, stored), None)


def _render_files(attempt: Attempt, marks: dict[str, Mark], site_indexes: Indexes) -> dict[str, bytes]:
    """Return the file and its other forms by name; empty if the file is deleted. Add the file's next mark to `marks`."""
    site, file = attempt.site, attempt.file
    if is_index(file):
        rendered = render_marks(site, file, site_indexes, marks.values(), attempt.now)
    else:
        rendered = render(site, file, attempt.now)
    plan = plan_of(attempt, rendered)
    if plan.is_over:
        return {}
    if plan.is_written:
        assert_valid(file, rendered, site.origin)
    others = render_forms(site, file, rendered, attempt.now)
    if is_indexed(file):
        mark = plan.mark if plan.must_announce or attempt.mark is None else attempt.mark
        marks[file] = replace(mark, also=tuple(sorted(others)))
    return {file: rendered.body} | others


def _read_body(site: Site, name: str, stored: Collection[str]) -> bytes | None:
    file = bucket.read(site.host, name) if name in stored else None
    return file.body if file else None


def _lines_by_url(body: bytes | None) -> dict[str, str]:
    """Return the lines of an XML file by the URL that they list, without its scheme and `.gz`."""
    lines = (body or b"").decode(errors="replace").split("\n")
    return {match[1].partition(":")[2].removesuffix(".gz"): line for line in lines if (match := _LOC.search(line))}
