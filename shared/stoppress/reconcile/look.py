"""One look at a site: where table, index and bucket differ."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import md5
from itertools import islice, zip_longest
from typing import Any

from stoppress.aws import bucket, items, table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.inventory import all_files, read_articles, read_claims, read_marks
from stoppress.aws.table import BATCH_KEYS_MAX
from stoppress.model import file_names
from stoppress.model.article import Article, Claim
from stoppress.model.entries import Mark
from stoppress.model.file_names import Series, Used
from stoppress.model.news_window import is_current
from stoppress.model.site import Site
from stoppress.reconcile.drift import Finding, read_suspects
from stoppress.rewrite.file_lines import mark_of, render
from stoppress.rewrite.output_formats import render_forms
from stoppress.rewrite.publish import EMPTIED_KEPT, digest_of, is_lasting
from stoppress.sitemaps.other_forms import unpacked
from stoppress.sitemaps.render import Rendered
from stoppress.sitemaps.tags import general_line, line_bytes

# The two units that are not files.
ORPHANS, _PLACES = "*orphans", "*places"


class Look:
    """One look at a site. Keeps in memory the names of its files, and the entries of one file at a time."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.files = all_files(site)
        self.listed = {listed.file: listed for listed in bucket.listed(site.host)}
        self.suspects = read_suspects(site.host)
        states = {item["sk"]: item for item in table.query(items.places_pk(site.host))}
        self.series = {name: items.read_series(name, item) for name, item in states.items() if "files" in item}

    @property
    def units(self) -> set[str]:
        """Return the parts of the site that are compared one by one."""
        return {ORPHANS, _PLACES, *self.files, *self.suspects}

    def at(self, unit: str, now: datetime) -> list[Finding]:
        self.now = now
        find = {ORPHANS: self._find_orphans, _PLACES: self._find_miscounts}.get(unit)
        return list(find() if find else self._compare_file(unit))

    def _compare_file(self, file: str) -> Iterator[Finding]:
        if file_names.is_indexed(file):
            yield from self._find_ownerless(file)
        mark = mark_of(self.site, file) if file != file_names.ROBOTS_FILE else None
        stored = bucket.read(self.site.host, file)  # before the entries, as a rewriter does
        rendered = render(self.site, file, self.now)
        if fault := self._find_fault(file, mark, stored, rendered):
            kind, reason = fault
            yield Finding(kind, file, file, stored.etag if stored else "", reason)
        elif stored:
            yield from self._compare_forms(file, mark, rendered)

    def _find_fault(
        self, file: str, mark: Mark | None, stored: StoredFile | None, rendered: Rendered
    ) -> tuple[str, str] | None:
        """Return kind and reason of a fault; None if the object has the right bytes and its mark agrees."""
        stays = is_lasting(self.site, file, rendered)
        if stored is None:
            if stays:
                return "missing", f"lists {rendered.urls} pages and is not in the bucket"
            return ("unmarked", "has a commit mark, but neither entries nor an object") if mark else None
        # An object of another program is written again even with the right bytes, because its headers may differ.
        if stored.body != rendered.body or not stored.ours:
            digests = {digest_of(self.site, file, stored.body, stays=stays) for stays in (True, False)}
            if not stored.ours or (mark and mark.digest not in digests):
                return "edited", "was not written by Stoppress"
            return "stale", "differs from its entries in the table"
        if not stays and stored.changed + 2 * EMPTIED_KEPT <= self.now:
            return "orphan", "has listed nothing for two days and was not deleted"
        digest = digest_of(self.site, file, rendered.body, stays=stays)
        if file_names.is_indexed(file) and (mark is None or mark.digest != digest):
            return "unmarked", "differs from its commit mark in the index's partition"
        return None

    def _compare_forms(self, file: str, mark: Mark | None, rendered: Rendered) -> Iterator[Finding]:
        bodies = render_forms(self.site, file, rendered, self.now)
        for name, body in bodies.items():
            listed = self.listed.get(name)
            if listed is None:
                if bucket.read(self.site.host, name) is None:
                    yield Finding("missing", file, name, "", f"belongs to {file} and is not in the bucket")
            elif listed.etag.strip('"') != md5(body, usedforsecurity=False).hexdigest():
                stored = bucket.read(self.site.host, name)
                if stored and unpacked(name, stored.body) != unpacked(name, body):
                    yield Finding("edited", file, name, stored.etag, f"differs from what belongs to {file}")
        if mark and set(mark.also) != bodies.keys():
            yield Finding("unmarked", file, file, mark.digest, "has other forms than its commit mark lists")

    def _find_ownerless(self, file: str) -> Iterator[Finding]:
        """Yield entries that contradict their article or claim, for example because the page was removed."""
        entries = table.query(items.file_pk(self.site.host, file), consistent=False)
        counted = Used()
        while batch := list(islice(entries, BATCH_KEYS_MAX)):
            owners = read_owners(self.site, [item["loc"] for item in batch])
            for item in batch:
                if reason := why_ownerless(file, item, *owners[item["loc"]], self.now):
                    yield Finding("ownerless", file, item["sk"], "", f"{item['loc']}: {reason}")
                elif not file_names.is_news(file):
                    entry = items.read_general(item)
                    counted = counted.with_room_for(line_bytes(general_line(entry, self.site)))
        yield from self._find_missing_places(file, counted)

    def _find_orphans(self) -> Iterator[Finding]:
        indexes, marks = read_marks(self.site.host)
        expected = {*self.files, *(name for mark in marks for name in (mark.file, *mark.also))}
        orphans = [
            listed
            for listed in self.listed.values()
            # Stoppress never writes other names, so objects with them stay.
            if listed.file not in expected
            and file_names.WRITTEN.fullmatch(listed.file)
            # An index that a restored table lacks still lists files, so it is deleted without waiting for a day.
            and (listed.put_at + EMPTIED_KEPT <= self.now or file_names.is_index(listed.file.removesuffix(".gz")))
        ]
        # An index that cannot be written may still list files without a mark.
        read = [bucket.read(self.site.host, index) for index in indexes.files] if orphans else []
        for orphan in orphans:
            if not any(index and f"/{orphan.file}</loc>".encode() in index.body for index in read):
                yield Finding("orphan", ORPHANS, orphan.file, orphan.etag, "no index, series or commit mark lists it")

    def _find_miscounts(self) -> Iterator[Finding]:
        """Yield news series whose count differs from their entries: a crash may have lost a reservation or a return."""
        lost = {file_names.series_of(file) for file in self.files if file_names.is_news(file)} - self.series.keys()
        for name in sorted({name for name in self.series if file_names.is_news_series(name)} | lost):
            series = self.series.get(name) or Series(name)
            yield from _check_count(_PLACES, series, self._count_news(series))

    def _count_news(self, series: Series) -> list[Used]:
        files = []
        for number in range(1, len(self.files) + 1):
            file = file_names.file_name(series.name, number)
            if number > len(series.files) and file not in self.files:
                break
            sizes = [
                items.read_news_place(item).size_bytes for item in table.query(items.file_pk(self.site.host, file))
            ]
            files.append(Used(len(sizes), sum(sizes)))
        return files

    def _find_missing_places(self, file: str, counted: Used) -> Iterator[Finding]:
        """Yield a shard with more pages than its series counts. Fewer are no fault, because a removed page keeps its place."""
        for series in self.series.values():
            names = items.series_files(series)
            if file in names and not file_names.is_news_series(series.name):
                index = names.index(file)
                stored = series.files[index]
                if counted.entries > stored.entries:
                    raised = Used(counted.entries, max(counted.size_bytes, stored.size_bytes))
                    yield from _check_count(file, series, [*series.files[:index], raised, *series.files[index + 1 :]])


def _check_count(unit: str, series: Series, counted: Sequence[Used]) -> Iterator[Finding]:
    """Yield a finding if a series counts other places than these. `counted` has at least the files of the series."""
    pairs = zip_longest(series.files, counted, fillvalue=Used())
    wrong = [f"{stored.entries} entries instead of {actual.entries}" for stored, actual in pairs if stored != actual]
    if wrong:
        # The repair writes this count only if the series still has this revision: no place was reserved or returned since.
        seen = json.dumps([series.rev, [[used.entries, used.size_bytes] for used in counted]])
        yield Finding("miscounted", unit, series.name, seen, f"the series counts {', '.join(wrong)}")


def read_owners(
    site: Site, urls: Sequence[str], *, consistent: bool = False
) -> dict[str, tuple[Claim | None, Article | None]]:
    """Return the claim on each URL, and the article that owns it."""
    claims = read_claims(site.host, urls, consistent=consistent)
    owners = read_articles(site.host, {claim.owner for claim in claims.values()}, consistent=consistent)
    return {url: (claim, owners.get(claim.owner) if claim else None) for url in urls for claim in [claims.get(url)]}


def why_ownerless(
    file: str, item: Mapping[str, Any], claim: Claim | None, article: Article | None, now: datetime
) -> str:
    """Return why an entry does not belong in its file; empty if it does."""
    published = items.read_news(item).published if file_names.is_news(file) else None
    if published and not is_current(published, now):
        return ""  # roll_window removes it
    if claim is None or not claim.live:
        return "no live claim on the URL"
    if article is None or not article.has_entries or article.url != item["loc"]:
        return f"{claim.owner} does not have this page"
    place = article.news if published else article.shard
    if place is None or place.file != file:
        return f"{article.name} is in {place.file if place else 'no file of this kind'}"
    if published and article.first_published != published:
        return f"{article.name} was first published at {article.first_published}"
    return ""
