"""Reconciling: table, index and bucket compared, and put right where they have drifted apart. It never writes a sitemap itself.

What differs may only be on its way: a finding counts when two looks, minutes apart, have seen the same. The first keeps what
it saw beside the site's places, the second repairs it. A look that runs out of time goes on where it stopped.
"""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import md5
from itertools import islice
from typing import Any

from stoppress.aws import bucket, queues, table
from stoppress.aws.bucket import Listed, Overtaken, StoredFile
from stoppress.aws.inventory import all_files
from stoppress.aws.items import (
    article_key,
    claim_key,
    file_pk,
    read_article,
    read_claim,
    read_general,
    read_mark,
    read_news,
    read_news_place,
    read_series,
    series_files,
    series_item,
)
from stoppress.aws.queues import RewriteRequest
from stoppress.aws.table import BATCH_KEYS_MAX, Check, Conflict, Delete
from stoppress.model.article import Article, Claim
from stoppress.model.entries import Mark
from stoppress.model.file_names import (
    INDEX_FILE,
    ROBOTS_FILE,
    file_name,
    is_news,
    is_news_series,
    permanent_files,
    series_of,
)
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.places import Series, Used
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, parse
from stoppress.rewrite.publish import UNMARKED, digest_of
from stoppress.rewrite.render import Forms, render
from stoppress.rewrite.retire import EMPTIED_KEPT
from stoppress.sitemaps.lines import general_line, line_bytes
from stoppress.sitemaps.render import Rendered

# Longer than any function runs: what was on its way at the first look has arrived, or never will.
LOOKS_APART = timedelta(minutes=2)
# A look begins anew on the next night, not half an hour later.
PASS_EVERY = timedelta(hours=12)
# What one item of the table can keep of a look; the look stops there, and goes on after the repair.
SUSPECTS_MAX = 1_000
# roll_window takes an expired entry out within a minute or two; one that is there after this was forgotten.
EXPIRED_FORGOTTEN = timedelta(minutes=15)

# Each kind of drift, and the metric that counts it.
KINDS: Mapping[str, str] = {
    "missing": "ObjectsMissing",
    "edited": "ObjectsEdited",
    "stale": "ObjectsStale",
    "unmarked": "MarksWrong",
    "orphan": "ObjectsOrphaned",
    "ownerless": "EntriesOwnerless",
    "miscounted": "PlacesMiscounted",
}
DRIFT = "DriftFound"

# Objects of the folder that can only be ours; what else somebody keeps there is left alone.
_OURS = re.compile(r"sitemap(-[a-z0-9-]+)?\.(xml|xml\.gz|txt|atom)")
# The site's own units of a look; every other unit is a file.
_ORPHANS, _PLACES = "*orphans", "*places"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    `unit` is the part of the look that finds it again, `name` the object, entry or series; `seen` what it was like: another look
    has to see the same. `reason` is for people.
    """

    kind: str
    unit: str
    name: str
    seen: str
    reason: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Report:
    """What a look came to: what was seen twice and is repaired, what was seen for the first time, what could not be looked at.

    `whole`: all was seen, by this look or by those that it went on from.
    """

    repaired: tuple[Finding, ...] = ()
    suspected: tuple[Finding, ...] = ()
    failed: tuple[Exception, ...] = ()
    units: int = 0
    whole: bool = False

    @property
    def counts(self) -> Counter[str]:
        """The metrics."""
        kinds = Counter(KINDS[one.kind] for one in self.repaired)
        return kinds + Counter({DRIFT: len(self.repaired), "FilesCompared": self.units})


# Sorts after every unit.
_END = "~"


@dataclass(frozen=True, slots=True)
class _Past:
    """What earlier looks left: when the last pass began, the unit after which it goes on, and what it suspected."""

    began: datetime | None = None
    stopped_after: str = ""
    suspects: tuple[Finding, ...] = ()
    seen_at: datetime | None = None

    def goes_on(self, now: datetime, *, anew: bool) -> tuple[datetime, str]:
        """When the pass began that goes on now, and after which unit: where the last one is over and another is due, a new one."""
        if self.began is None or (self.stopped_after == _END and (anew or self.began + PASS_EVERY <= now)):
            return now, ""
        return self.began, self.stopped_after


def reconcile(
    site: Site,
    now: datetime,
    *,
    may_go_on: Callable[[], bool] = lambda: True,
    dry_run: bool = False,
    anew: bool = False,
) -> Report:
    """Look at a site, repair what an earlier look has seen too, and keep what is suspected for the next one.

    `dry_run` looks at all of it, repairs and keeps nothing; `anew` begins a pass whether or not the night's is over. Raises what
    the doors raise; a file that cannot be looked at keeps no other from it.
    """
    if not may_go_on():
        return Report()
    past = _Past() if dry_run else _read_past(site)
    if past.suspects and past.seen_at and now < past.seen_at + LOOKS_APART:
        return Report(suspected=past.suspects)  # too soon to tell
    look = _Look(site, now)
    again = {one.unit for one in past.suspects}
    found = [one for unit in sorted(again) for one in look.at(unit)]
    repaired = [one for one in found if one in past.suspects]
    suspects = [one for one in found if one not in past.suspects]
    if not dry_run:
        _repair(site, repaired, now)
    began, stopped_after = past.goes_on(now, anew=anew)
    units = 0
    for unit in look.units_after(stopped_after):
        if not may_go_on() or len(suspects) >= SUSPECTS_MAX:
            break
        suspects += look.at(unit) if unit not in again else []
        stopped_after, units = unit, units + 1
    else:
        stopped_after = _END
    if not dry_run:
        _keep(site, _Past(began, stopped_after, tuple(suspects[:SUSPECTS_MAX]), now))
    return Report(tuple(repaired), tuple(suspects), tuple(look.failed), units, whole=stopped_after == _END)


def in_turn(sites: Iterable[Site]) -> list[Site]:
    """Sites in the order in which their last pass began, so that each has its turn where one night is not enough."""
    return sorted(sites, key=lambda site: (_read_past(site).began or datetime.min.replace(tzinfo=UTC), site.host))


def _key(site: Site) -> tuple[str, str]:
    return f"places#{site.host}", "reconciliation"


def _read_past(site: Site) -> _Past:
    item = table.get(*_key(site))
    if item is None:
        return _Past()
    suspects = tuple(Finding(kind, unit, name, seen, "seen before") for kind, unit, name, seen in item["suspects"])
    return _Past(parse(item["began"]), item["stopped_after"], suspects, parse(item["seen_at"]))


def _keep(site: Site, past: _Past) -> None:
    pk, sk = _key(site)
    suspects = [[one.kind, one.unit, one.name, one.seen] for one in past.suspects]
    assert past.began
    assert past.seen_at
    said = {"began": exact(past.began), "stopped_after": past.stopped_after, "seen_at": exact(past.seen_at)}
    table.put_if({"pk": pk, "sk": sk, "suspects": suspects} | said)


# ── looking ──


class _Look:
    """One look at a site. Memory holds the names of its files, and the entries of one at a time."""

    def __init__(self, site: Site, now: datetime) -> None:
        self.site, self.now = site, now
        self.files = all_files(site)
        self.listed = {one.file: one for one in bucket.listed(site.host)}
        self.failed: list[Exception] = []
        items = {item["sk"]: item for item in table.query(f"places#{site.host}")}
        self.series = {name: read_series(name, item) for name, item in items.items() if "files" in item}
        applied = items.get("configuration", {})
        self.settled = applied.get("settled") and applied["version"] == site.version

    def units_after(self, stopped_after: str) -> list[str]:
        """The parts of the site that are still to be looked at, in their order."""
        return [unit for unit in sorted({_ORPHANS, _PLACES, *self.files}) if unit > stopped_after]

    def at(self, unit: str) -> list[Finding]:
        """What is wrong with one part of the site."""
        look = {_ORPHANS: self._orphans, _PLACES: self._places}.get(unit, partial(self._file, unit))
        try:
            return list(look())
        except Exception as error:  # noqa: BLE001 - a file that cannot be rendered must not hide the others
            error.add_note(f"while {self.site.host}/{unit} was looked at")
            self.failed.append(error)
            return []

    # ── a file ──

    def _file(self, file: str) -> Iterator[Finding]:
        if file not in UNMARKED:
            yield from self._ownerless(file)
        mark = self._mark(file)
        stored = bucket.read(self.site.host, file)  # the object first, as who rewrites it does
        rendered, forms = render(self.site, file, self.now)
        if fault := self._fault(file, mark, stored, rendered):
            kind, reason = fault
            yield Finding(kind, file, file, stored.etag if stored else "", reason)
        elif stored and self.settled:  # else forms that were turned on or off are on their way
            yield from self._forms(file, mark, forms)

    def _mark(self, file: str) -> Mark | None:
        item = table.get(file_pk(self.site.host, INDEX_FILE), file) if file != ROBOTS_FILE else None
        return read_mark(item) if item else None

    def _fault(
        self, file: str, mark: Mark | None, stored: StoredFile | None, rendered: Rendered
    ) -> tuple[str, str] | None:
        """The kind and the reason; None where the object is the file, and its mark says so."""
        stays = bool(rendered.urls) or file == INDEX_FILE or file in permanent_files(self.site)
        if stored is None:
            if stays:
                return "missing", f"lists {rendered.urls} and is not in the bucket"
            return ("unmarked", "has a commit mark, and neither entries nor an object") if mark else None
        right = digest_of(self.site, file, rendered.body, stays=stays)
        if stored.body != rendered.body or not stored.ours:
            was = {digest_of(self.site, file, stored.body, stays=one) for one in (True, False)}
            if not stored.ours or (mark and mark.digest not in was):
                return "edited", "is not what was written there last"
            return "stale", "is not what its partition says"
        if not stays and stored.changed + 2 * EMPTIED_KEPT <= self.now:
            return "orphan", "has listed nothing for two days, and is still there"
        if file not in UNMARKED and (mark is None or mark.digest != right):
            return "unmarked", "is not what its commit mark in the index's partition says"
        return None

    def _forms(self, file: str, mark: Mark | None, forms: Forms) -> Iterator[Finding]:
        wanted = forms()
        for name, body in wanted.items():
            found = self.listed.get(name)
            if found is None:
                if name != file and bucket.read(self.site.host, name) is None:
                    yield Finding("missing", file, name, "", f"belongs to {file} and is not in the bucket")
            elif found.etag.strip('"') != md5(body, usedforsecurity=False).hexdigest():
                stored = bucket.read(self.site.host, name)
                if stored and _unpacked(name, stored.body) != _unpacked(name, body):
                    yield Finding("edited", file, name, stored.etag, f"is not what belongs to {file}")
        if mark and set(mark.also) != wanted.keys():
            yield Finding("unmarked", file, file, mark.digest, "has other forms than its commit mark names")

    # ── entries ──

    def _ownerless(self, file: str) -> Iterator[Finding]:
        """Entries of pages whose article or claim says otherwise: a reader would be sent to what was removed."""
        items = table.query(file_pk(self.site.host, file), consistent=False)
        counted = Used()
        while some := list(islice(items, BATCH_KEYS_MAX)):
            owners = _owners(self.site, [item["loc"] for item in some])
            for item in some:
                if reason := _disowned(file, item, *owners[item["loc"]], self.now):
                    yield Finding("ownerless", file, item["sk"], "", f"{item['loc']}: {reason}")
                elif not is_news(file):
                    counted = counted.with_room_for(line_bytes(general_line(read_general(item), self.site)))
        yield from self._too_few(file, counted)

    # ── objects that nothing names ──

    def _orphans(self) -> Iterator[Finding]:
        marks = map(read_mark, table.query(file_pk(self.site.host, INDEX_FILE)))
        named = {*self.files, *(name for mark in marks for name in (mark.file, *mark.also))}
        orphans = [
            one
            for one in self.listed.values()
            if one.file not in named and _OURS.fullmatch(one.file) and one.put_at + EMPTIED_KEPT <= self.now
        ]
        # While the index cannot be written it may name what no mark does any more.
        index = bucket.read(self.site.host, INDEX_FILE) if orphans else None
        for one in orphans:
            if index is None or f"/{one.file}</loc>".encode() not in index.body:
                yield Finding("orphan", _ORPHANS, one.file, one.etag, "is named by no index, series or commit mark")

    # ── places ──

    def _places(self) -> Iterator[Finding]:
        """News series whose count is not that of their entries: a crash may have lost what it had reserved or taken out."""
        lost = {series_of(file) for file in self.files if is_news(file)} - self.series.keys()
        for name in sorted({name for name in self.series if is_news_series(name)} | lost):
            series = self.series.get(name) or Series(name)
            counted = self._counted(series)
            if any(a != b for a, b in _pairs(series, counted)):
                yield self._miscounted(_PLACES, series, counted)

    def _counted(self, series: Series) -> Series:
        files = []
        for number in range(1, len(self.files) + 1):
            file = file_name(series.name, number)
            if number > len(series.files) and file not in self.files:
                break
            sizes = [read_news_place(item).size_bytes for item in table.query(file_pk(self.site.host, file))]
            files.append(Used(len(sizes), sum(sizes)))
        return replace(series, files=tuple(files))

    def _too_few(self, file: str, counted: Used) -> Iterator[Finding]:
        """A shard that has more pages than places were handed out. (Pages keep their places when they go: fewer is no fault.)"""
        for series in self.series.values():
            names = series_files(series)
            if file in names and not is_news_series(series.name):
                index = names.index(file)
                before = series.files[index]
                if counted.entries > before.entries:
                    raised = Used(counted.entries, max(counted.size_bytes, before.size_bytes))
                    files = (*series.files[:index], raised, *series.files[index + 1 :])
                    yield self._miscounted(file, series, replace(series, files=files))

    def _miscounted(self, unit: str, series: Series, counted: Series) -> Finding:
        # What is written after the second look is this very count, while nobody has reserved or given back a place since.
        seen = json.dumps([series.rev, [[used.entries, used.size_bytes] for used in counted.files]])
        said = ", ".join(f"{a.entries} entries where {b.entries} are" for a, b in _pairs(series, counted) if a != b)
        return Finding("miscounted", unit, series.name, seen, f"places were handed out for {said}")


def _disowned(file: str, item: Mapping[str, Any], claim: Claim | None, article: Article | None, now: datetime) -> str:
    """Why an entry does not belong where it stands; empty where it does."""
    published = read_news(item).published if is_news(file) else None
    if published and published + NEWS_WINDOW <= now:
        forgotten = published + NEWS_WINDOW + EXPIRED_FORGOTTEN <= now
        return "48 hours are over, and nobody took it out" if forgotten else ""
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


def _pairs(one: Series, other: Series) -> list[tuple[Used, Used]]:
    """The files of two series side by side."""
    most = max(len(one.files), len(other.files))
    padded = [files + (Used(),) * (most - len(files)) for files in (one.files, other.files)]
    return list(zip(*padded, strict=True))


def _unpacked(name: str, body: bytes) -> bytes:
    """What a reader gets of a form: two versions of zlib pack the same file otherwise."""
    with suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(body) if name.endswith(".gz") else body
    return body


def _owners(
    site: Site, urls: Sequence[str], *, consistent: bool = False
) -> dict[str, tuple[Claim | None, Article | None]]:
    """The claim on each URL and the article that it names."""
    claims = table.get_many((claim_key(site.host, url) for url in urls), consistent=consistent)
    read = {url: read_claim(item, url) for url in urls if (item := claims.get(claim_key(site.host, url)))}
    owners = dict.fromkeys(article_key(site.host, claim.owner) for claim in read.values())
    articles = table.get_many(owners, consistent=consistent)
    named = {url: articles.get(article_key(site.host, claim.owner)) for url, claim in read.items()}
    return {url: (read.get(url), read_article(item) if (item := named.get(url)) else None) for url in urls}


# ── putting right ──


def _repair(site: Site, findings: Iterable[Finding], now: datetime) -> None:
    files: dict[str, None] = {}
    for one in findings:
        if one.kind == "ownerless":
            _take_out(site, one, now)
        elif one.kind == "miscounted":
            _recount(site, one)
        elif one.unit == _ORPHANS:
            # A partition that has entries all the same lost its mark and its places: it is written again, and has one.
            if next(table.query(file_pk(site.host, one.name)), None):
                files[one.name] = None
            else:
                with suppress(Overtaken):  # somebody has put it anew: then the next look sees it
                    bucket.delete(site.host, one.name, Listed(one.name, one.seen, now))
        else:
            files[one.unit] = None
    queues.send_rewrites([RewriteRequest(site.host, file, site.version, repair_forms=True) for file in files])


def _take_out(site: Site, found: Finding, now: datetime) -> None:
    """Take an entry out while its article and claim still say that it does not belong there."""
    pk = file_pk(site.host, found.unit)
    item = table.get(pk, found.name)
    if item is None:
        return
    claim, article = _owners(site, [item["loc"]], consistent=True)[item["loc"]]
    if not _disowned(found.unit, item, claim, article, now):
        return
    checks = [Check(*claim_key(site.host, item["loc"]), claim.rev if claim else None)]
    if claim:
        checks.append(Check(*article_key(site.host, claim.owner), article.rev if article else None))
    with suppress(Conflict):  # the article has just been written: the next look sees what came of it
        table.transact([*checks, Delete(pk, found.name)])


def _recount(site: Site, found: Finding) -> None:
    """Write the count that both looks have made, if nobody has reserved or given back a place since the first."""
    rev, files = json.loads(found.seen)
    series = Series(found.name, tuple(Used(entries, size_bytes) for entries, size_bytes in files))
    with suppress(Conflict):
        table.put(series_item(site.host, series), rev)
