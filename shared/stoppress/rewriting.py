"""Rewriting: files brought up to date with their partitions. Nothing else ever writes a sitemap.

Rewriters may run at once. Each reads the object first, then the partition, then puts the file only if the object is still
the one that was read: who read the partition earlier loses, and starts again.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from stoppress import bucket, queues, sites, table
from stoppress.bucket import Overtaken, StoredFile
from stoppress.checking.checker import check
from stoppress.checking.findings import Findings
from stoppress.checking.reading import InMemory, Source
from stoppress.files import (
    INDEX_FILE,
    RENDERER,
    Mark,
    NewsEntry,
    Rendered,
    in_window,
    is_news,
    is_pages,
    is_shard,
    permanent_files,
    render_general,
    render_index,
    render_news,
    render_pages,
    series_of,
)
from stoppress.folding import fold_general, fold_index, fold_news
from stoppress.formats import (
    ROBOTS_FILE,
    atom_feed,
    atom_name,
    compressed,
    index_part_name,
    named_in_robots,
    robots_txt,
    text_sitemap,
)
from stoppress.instants import exact
from stoppress.queues import Rewrite
from stoppress.records import (
    due_item,
    due_sk,
    file_pk,
    mark_item,
    read_general,
    read_mark,
    read_news,
    read_series,
    series_files,
)
from stoppress.site import Site

# Each attempt lost is a newer file that somebody else put; after these the rewrites queue takes over.
ATTEMPTS_MAX = 8
# An emptied file leaves the index at once; who still holds an old index finds it for another day.
EMPTIED_KEPT = timedelta(days=1)
# DynamoDB: what a strongly consistent read unit reads.
READ_UNIT_BYTES = 4_096
# More entries than one call reads are not folded in.
FOLD_ENTRIES_MAX = table.BATCH_KEYS_MAX
# Into an older file nothing is folded: whatever it has missed, by a fault of ours or of others, it misses for so long.
WHOLE_EVERY = timedelta(hours=6)
# A file that failed is not tried again before whatever was wrong had a moment to pass.
RETRY_DELAY_SECONDS = 5
# What the index does not want any more may go when it has been written without it.
INDEX_FOLLOWS_SECONDS = 60

REWRITTEN = "sitemap rewritten"

# What the words of one entry can break harms that entry: it is no reason to hold back the file of all the others.
SPARED = frozenset(
    {
        "alternate-not-mutual",
        "escaped-twice",
        "hreflang",
        "news-home",
        "news-language",
        "news-name",
        "title-empty",
        "title-markup",
        "video-description",
        "video-url",
        "video-value",
    }
)

# They stand in no index, and so need no mark.
UNMARKED = (INDEX_FILE, ROBOTS_FILE)

# The other files that are published with a file, by their names: its gzip, its text, the feed of a news sitemap.
Forms = Callable[[], dict[str, bytes]]


class BrokenFile(ValueError):
    """A file would break a rule of the protocol. Nothing is written; the last good file stands."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a file: `written`, `unchanged`, `retired` (an emptied file whose day is over), or `failed`."""

    work: Rewrite
    outcome: str
    urls: int = 0
    size_bytes: int = 0
    error: Exception | None = None


def rewrite_all(works: Iterable[Rewrite], now: datetime) -> list[Result]:
    """Bring files up to date, each once, the indexes last. A file that fails stops no other."""
    wanted: dict[tuple[str, str], list[Rewrite]] = defaultdict(list)
    for work in works:
        wanted[work.site, work.file].append(work)
    results = []
    for site, file in sorted(wanted, key=lambda one: (one[1] == INDEX_FILE, one)):
        same = wanted[site, file]
        releases = sorted({work.release for work in same if work.release})
        named = [one.entries for one in same if one.entries is not None]
        work = Rewrite(
            site,
            file,
            config_version=max(one.config_version for one in same),
            release=releases[-1] if releases else None,
            thorough=any(one.thorough for one in same),
            entries=frozenset().union(*named) if len(named) == len(same) else None,
        )
        try:
            results.append(rewrite(work, now))
            for release in releases[:-1]:
                _done_due(work.site, work.file, release)
        except Exception as error:  # noqa: BLE001 - whatever it is, its neighbours go on and the file is tried again
            results.append(Result(work, "failed", error=error))
    return results


def hand_over(result: Result) -> Exception | None:
    """Give a file that failed to the rewrites queue; the error, if not even that succeeds."""
    try:
        queues.send_rewrites([result.work], delay_seconds=RETRY_DELAY_SECONDS)
    except Exception as error:  # noqa: BLE001 - then the stream must bring its records again
        return error
    return None


def rewrite(work: Rewrite, now: datetime) -> Result:
    """Bring one file up to date. Raises UnknownSite, FileTooLarge, BrokenFile, Overtaken, and what the doors raise.

    The file, then its announcement, then its commit mark in the index's partition: whatever a crash leaves out, the next
    rewrite finds missing by the mark.
    """
    site = sites.load_usable(work.site, at_least=work.config_version)
    for _ in range(ATTEMPTS_MAX):
        mark = _mark(site, work)
        stored = bucket.read(site.host, work.file)
        if stored and stored.config_version > site.version:
            site = sites.load_usable(work.site, at_least=stored.config_version)
        rendered, forms = _fold(site, work, stored, now) or render(site, work.file, now)
        try:
            at = max(now, work.release or now)
            outcome = _commit(site, work, mark, stored, rendered, forms, at)
        except Overtaken:
            continue
        if work.release:
            _done_due(site.host, work.file, work.release)
        return Result(work, outcome, rendered.urls, len(rendered.body))
    raise Overtaken(f"{work.site}/{work.file} was written by others, {ATTEMPTS_MAX} attempts long")


def _fold(site: Site, work: Rewrite, stored: StoredFile | None, now: datetime) -> tuple[Rendered, Forms] | None:
    """The file as it is with the entries that changed as they are now; None where all of its entries have to be read.

    The entries are read after the object, as the whole partition would be: who writes first with an older one loses.
    """
    file, entries = work.file, work.entries
    if entries is None or stored is None or not _can_fold(site, file, stored, now):
        return None
    # A key is a unit to read, however small its item is; read as a whole, a partition is one for each 4 KB.
    if len(entries) > min(FOLD_ENTRIES_MAX, len(stored.body) // READ_UNIT_BYTES):
        return None
    pk = file_pk(site.host, file)
    found = table.get_many((pk, sk) for sk, _ in sorted(entries))
    items = {(sk, loc): found.get((pk, sk)) for sk, loc in sorted(entries)}
    rendered: Rendered | None
    if file == INDEX_FILE:
        marks = {name: read_mark(item) if item else None for (name, _), item in items.items() if name != INDEX_FILE}
        rendered = fold_index(stored.body, marks, site)
    elif is_news(file):
        dated = {(sk.partition("#")[0], loc): read_news(item) if item else None for (sk, loc), item in items.items()}
        rendered = fold_news(stored.body, dated, site, now)
    else:
        pages = {loc: read_general(item) if item else None for (_, loc), item in items.items()}
        rendered = fold_general(stored.body, pages, site)
    if rendered is None:
        return None
    text = partial(_text, site, file, rendered) if is_shard(file) else dict
    return rendered, lambda: _packed(site, {file: rendered.body}) | text()


def _can_fold(site: Site, file: str, stored: StoredFile, now: datetime) -> bool:
    """Whether the object was written by us, by this configuration, line by line, and as a whole not long ago.

    A feed is made from whole entries.
    """
    made_alike = stored.config_version == site.version and stored.form == _form(site)
    young = stored.whole is not None and now < stored.whole + WHOLE_EVERY
    return made_alike and young and not is_pages(file) and not (is_news(file) and site.outputs.atom)


def _form(site: Site) -> str:
    """What a line is made by, besides its entry."""
    return f"{RENDERER}.{site.digest}"


def render(site: Site, file: str, now: datetime) -> tuple[Rendered, Forms]:
    """A file as its partition, the configuration and the clock have it now. Raises FileTooLarge, and what the doors raise."""
    if file == ROBOTS_FILE:
        body = robots_txt(site, named_in_robots(site), site.robots) if site.robots is not None else b""
        return Rendered(body, len(body), None), dict
    items = table.query(file_pk(site.host, file))
    if file == INDEX_FILE:
        parts = render_index((mark for mark in map(read_mark, items) if mark.file != INDEX_FILE), site)
        more = {index_part_name(number): part.body for number, part in enumerate(parts[1:], 2)}
        return parts[0], lambda: more | _packed(site, {file: parts[0].body} | more)
    if is_news(file):
        news = [read_news(item) for item in items]
        rendered = render_news(news, site, now)
        return rendered, lambda: _packed(site, {file: rendered.body}) | _feed(site, file, news, now)
    entries = [read_general(item) for item in items]
    rendered = (render_pages if is_pages(file) else render_general)(entries, site)
    return rendered, lambda: _packed(site, {file: rendered.body}) | _text(site, file, rendered)


def _packed(site: Site, bodies: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": compressed(body) for name, body in bodies.items()} if site.outputs.gzip else {}


def _text(site: Site, file: str, rendered: Rendered) -> dict[str, bytes]:
    return {_text_name(file): text_sitemap(rendered.locs, site)} if site.outputs.text else {}


def _feed(site: Site, file: str, news: list[NewsEntry], now: datetime) -> dict[str, bytes]:
    """The feed of a series of news sitemaps, from all its files."""
    if not site.outputs.atom:
        return {}
    name = series_of(file)
    series = read_series(name, table.get(f"places#{site.host}", name))
    others = [table.query(file_pk(site.host, other)) for other in series_files(series) if other != file]
    entries = in_window([*news, *(read_news(item) for items in others for item in items)], site, now)
    return {atom_name(name): atom_feed(entries, site, file=atom_name(name), hub=site.outputs.hub)}


def _commit(
    site: Site,
    work: Rewrite,
    mark: Mark | None,
    stored: StoredFile | None,
    rendered: Rendered,
    forms: Forms,
    now: datetime,
) -> str:
    file = work.file
    stays = bool(rendered.urls) or file == INDEX_FILE or file in permanent_files(site)
    digest = digest_of(site, file, rendered.body, stays=stays)
    if not stays and (stored is None or file == ROBOTS_FILE or _is_over(stored, rendered, mark, digest, now)):
        return _retire(site, file, mark, stored)
    changed, written = stored.changed if stored else now, False
    if stored is None or stored.body != rendered.body or not stored.ours:
        changed, written = _changed(stored, rendered, now), True
        # Put back after somebody's hand, it is what it was.
        if not (stored and stored.ours) and mark and mark.digest == digest:
            changed = mark.changed
        _hold_to_the_rules(site, file, rendered, changed)
    # One that could be folded into and cannot any more has to say so, though not a byte of it changes.
    if written or (stored and stored.form and not rendered.by_line):
        bucket.write(
            site.host,
            file,
            rendered.body,
            replaces=stored,
            changed=changed,
            config_version=site.version,
            form=_form(site) if rendered.by_line else "",
            whole=stored.whole if stored and rendered.fresh is not None else now,
        )
    # A file may come back to the bytes of an older mark: what was to follow the bytes between may still be to do.
    settled = mark is not None and mark.digest == digest and mark.changed >= changed
    told = written or (file not in UNMARKED and not settled)
    # The index never records itself, so that its other forms are looked at whenever it has any.
    if file == INDEX_FILE and mark is None and forms():
        mark = _mark_of(site, file)
    also = mark.also if mark else ()
    if told or work.thorough or work.config_version or file == INDEX_FILE:
        # By another configuration a rewriter that was killed may have left what no mark tells of.
        had = set(also) | (_possible_forms(file) if work.config_version else set())
        also = _replace_forms(site, file, forms(), had, changed)
    if told:
        detail = {"site": site.host, "file": file, "urls": rendered.urls, "changed": exact(changed)}
        queues.announce(REWRITTEN, detail)
    if told and not stays:
        _have_retired(site, file, changed)
    now_known = Mark(file, changed, rendered.urls, len(rendered.body), digest, also)
    if told and file not in UNMARKED:
        _put_mark(site, now_known, mark)
    elif mark and file not in UNMARKED and not work.config_version:
        _put_mark(site, mark, mark)
    elif file == INDEX_FILE and also != (mark.also if mark else ()):
        table.put_if(mark_item(site.host, now_known))
    return "written" if written else "unchanged"


def digest_of(site: Site, file: str, body: bytes, *, stays: bool) -> str:
    """What a commit mark says of a file's bytes, and of the other forms that the site wants beside them."""
    # An empty file that the configuration does not name any more has to be told of once, so that it goes after its day.
    # A feed names the publication even when it has no entry.
    named = f" {site.publication} {site.language}" if site.outputs.atom and is_news(file) else ""
    wanted = f"{site.outputs.model_dump_json()}{named}{'' if stays else ' leaving'}"
    return hashlib.sha256(body + wanted.encode()).hexdigest()[:32]


def _hold_to_the_rules(site: Site, file: str, rendered: Rendered, changed: datetime) -> None:
    """What `stoppress check` asks of anybody's files, asked of ours before anybody can read them. Raises BrokenFile.

    Of a file that was folded into, the lines that are new: the others have been held to it.
    """
    body = rendered.body if rendered.fresh is None else rendered.fresh
    if file == ROBOTS_FILE or not body:
        return
    findings = Findings(each_max=1, severities=frozenset({"error"}))
    source = Source(file, f"{site.origin}/{file}", InMemory(file, body))
    check([source], findings, changed, is_all=False)
    if broken := [found for found in findings if found.rule.name not in SPARED]:
        said = "; ".join(f"line {found.line}: {found.rule.id} {found.message}" for found in broken)
        raise BrokenFile(f"{file} would break the protocol, and is not written: {said}")


def _changed(stored: StoredFile | None, rendered: Rendered, now: datetime) -> datetime:
    """When the bytes change: later than the change before, whatever the clocks say, and than all that stands in them."""
    after_last = stored.changed + timedelta(microseconds=1) if stored else now
    return max(now, after_last, rendered.newest or now)


def _replace_forms(site: Site, file: str, forms: dict[str, bytes], had: set[str], changed: datetime) -> tuple[str, ...]:
    """Put a file's other forms in the place of those that it had: their names. Raises Overtaken."""
    _write_forms(site, forms, changed)
    _take_away(site, file, _stored(site, had - forms.keys()))
    return tuple(sorted(forms))


def _write_forms(site: Site, forms: dict[str, bytes], changed: datetime) -> None:
    """Write a file's other forms. Raises Overtaken.

    They go by the instant of the file itself: what is newer is somebody else's, who has written the file since.
    """
    for name, body in forms.items():
        stored = bucket.read(site.host, name)
        # The feed of several news sitemaps is read anew from all of them: it goes by none of their instants.
        shared = name.endswith(".atom")
        if stored is None or (stored.body != body and (shared or not stored.ours or stored.changed <= changed)):
            at = max(changed, stored.changed) if stored else changed
            bucket.write(site.host, name, body, replaces=stored, changed=at, config_version=site.version)


def _possible_forms(file: str) -> set[str]:
    """The names of all other forms that a file may have."""
    if file == ROBOTS_FILE:
        return set()
    also = {f"{file}.gz"}
    if is_news(file):
        also.add(atom_name(series_of(file)))
    elif file != INDEX_FILE:
        also.add(_text_name(file))
    return also


def _text_name(file: str) -> str:
    return f"{file.removesuffix('.xml')}.txt"


def _stored(site: Site, names: Iterable[str]) -> dict[str, StoredFile]:
    """Other forms as they stand, but for what a newer configuration has written: that one wants it."""
    found = {name: stored for name in sorted(names) if (stored := bucket.read(site.host, name))}
    return {name: stored for name, stored in found.items() if stored.config_version <= site.version}


def _take_away(site: Site, file: str, there: Mapping[str, StoredFile]) -> None:
    """Take away other forms of a file that are as they were read. Raises Overtaken.

    For those that the index still names the file comes again, until it does not.
    """
    index = bucket.read(site.host, INDEX_FILE) if there else None
    named = {name for name in there if index and f"/{name}</loc>".encode() in index.body}
    for name in sorted(there.keys() - named):
        bucket.delete(site.host, name, there[name])
    if named:
        queues.send_rewrites([Rewrite(site.host, file, site.version)], INDEX_FOLLOWS_SECONDS)


# ── commit marks ──


def _mark(site: Site, work: Rewrite) -> Mark | None:
    """What is known of a file; of the index, that it has other forms, where it has or had them by another configuration."""
    unasked = work.file == INDEX_FILE and not (site.outputs.gzip or work.config_version)
    return None if unasked or work.file == ROBOTS_FILE else _mark_of(site, work.file)


def _mark_of(site: Site, file: str) -> Mark | None:
    item = table.get(file_pk(site.host, INDEX_FILE), file)
    return read_mark(item) if item else None


def _put_mark(site: Site, mark: Mark, before: Mark | None) -> None:
    """Write a file's mark while it is as it was read, before the file. Raises Overtaken.

    Who found nothing to change writes it too: another who read the table earlier may still put the file by what he has read, and
    no condition of S3 would stop him, since an ETag is made of the bytes. Of the two, who comes second goes over it again.
    """
    try:
        table.put(mark_item(site.host, mark), before.rev if before else None)
    except table.Conflict as error:
        raise Overtaken(f"the mark of {site.host}/{mark.file} was written meanwhile") from error


# ── emptied files ──


def _is_over(stored: StoredFile, rendered: Rendered, mark: Mark | None, digest: str, now: datetime) -> bool:
    # The mark of a file that was empty and permanent has the index name it, for however long.
    told = mark is None or mark.digest == digest
    return told and stored.body == rendered.body and stored.changed + EMPTIED_KEPT <= now


def _have_retired(site: Site, file: str, changed: datetime) -> None:
    release = changed + EMPTIED_KEPT
    message = Rewrite(site.host, file, release=release).message()
    table.put_if(due_item(site.host, release, _due_name(file), message, queue="rewrites"))


def _done_due(site: str, file: str, release: datetime) -> None:
    table.delete(f"due#{site}", due_sk(release, _due_name(file)))


def _due_name(file: str) -> str:
    return f"file#{file}"


def _retire(site: Site, file: str, mark: Mark | None, stored: StoredFile | None) -> str:
    # Read before the file goes: whoever fills it from then on writes other forms than these.
    there = _stored(site, (set(mark.also if mark else ()) | _possible_forms(file)) - _others_forms(site, file))
    if stored:
        bucket.delete(site.host, file, stored)
    elif there and bucket.read(site.host, file):
        raise Overtaken(f"{site.host}/{file} was written meanwhile")
    _take_away(site, file, there)
    if mark:
        try:
            table.delete(file_pk(site.host, INDEX_FILE), file, "digest = :digest", {":digest": mark.digest})
        except table.Busy:  # which says nothing of the mark: then the file comes again
            raise
        except table.Conflict:  # the file has been filled again meanwhile, and its mark is newer
            pass
    return "retired"


def _others_forms(site: Site, file: str) -> set[str]:
    """The feed of a news sitemap that is not the last of its series: it is the others' as well."""
    if not is_news(file):
        return set()
    name = series_of(file)
    series = read_series(name, table.get(f"places#{site.host}", name))
    others = (other for other in series_files(series) if other != file)
    return {atom_name(name)} if any(table.get(file_pk(site.host, INDEX_FILE), other) for other in others) else set()
