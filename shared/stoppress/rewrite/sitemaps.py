"""Rewrite files so that they agree with their partitions. No other module writes sitemaps.

A batch of the table's stream lists changed entries. Only their lines in the files are rendered again (`sitemaps.fold`). The rewrites
queue lists files to render from all their entries: files that failed, and files that a repair needs. Both list sites whose
configuration changed.

Several rewriters may run concurrently. Each reads the object, then the partition, and writes the file only if the object has not
changed since. So a rewriter that read an older partition loses and starts again.

A rewriter may use a configuration that was replaced. So it reads the configuration in force once more after its last
write, and writes its files again if that has changed. A later change sends all files to the queue anyway.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from stoppress.aws import bucket, due, queues, sites, table
from stoppress.aws.bucket import Overtaken
from stoppress.aws.clients import OutOfTime
from stoppress.aws.inventory import all_files, read_indexes
from stoppress.aws.items import HEARTBEAT, INDEXES_SK, file_of, file_pk
from stoppress.aws.queues import BATCH_MESSAGES_MAX, RewriteRequest, read_request
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, is_index, is_news
from stoppress.model.site import BadConfiguration
from stoppress.primitives.instants import NEVER, OVER, Deadline, parse
from stoppress.primitives.urls import key_of
from stoppress.rewrite.file_lines import begin, fold, render
from stoppress.rewrite.output_formats import possible_forms
from stoppress.rewrite.publish import clear_due, commit, find_other_indexes, requests_of_cuts, write_indexes

# Each lost attempt means that another rewriter wrote a newer file. After this many the rewrites queue takes over.
ATTEMPTS_MAX = 8
# How long a failed file waits in the rewrites queue, so that a temporary fault can end.
RETRY_DELAY_SECONDS = 5
# Lambda delivers a batch until it succeeds, and only then the next batch of its shard. A batch is written within seconds, unless an
# earlier attempt failed. One of its files may crash the function, so all files of an older batch go to the queue, in separate messages.
STREAM_AGE_MAX_SECONDS = 180
# An older record of the stream may be delivered again after a run was killed. Then all that this run may have left is checked.
LATE_SECONDS = 30

Record: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome for a file, and the error if the file must be tried again.

    `written`, `unchanged`, `retired` (emptied a day ago), `ignored` or `deleted` (removed site), `failed`, or `postponed` (no time
    left). `config`: the digest of the configuration that was used; empty for a removed site. `elsewhere`: requests that follow.
    """

    request: RewriteRequest
    outcome: str
    urls: int = 0
    size_bytes: int = 0
    error: Exception | None = None
    config: str = ""
    elsewhere: Sequence[RewriteRequest] = ()


def rewrite_all(requests: Iterable[RewriteRequest], now: datetime, deadline: Deadline = NEVER) -> list[Result]:
    """Bring files up to date until the deadline, each file once: news first, then the newest shards, indexes, and robots.txt last.

    A failing file does not stop the others. Files whose configuration was replaced meanwhile are written again.
    """
    by_file: dict[tuple[str, str], list[RewriteRequest]] = defaultdict(list)
    for request in requests:
        by_file[request.path].append(request)
    newest_first = sorted(by_file, key=lambda file: file[1], reverse=True)
    in_order = sorted(newest_first, key=lambda file: (*_priority(file[1]), file[0]))
    pending = [_merge(by_file[file]) for file in in_order]
    results: list[Result] = []
    for _ in range(ATTEMPTS_MAX):
        done = _check_configuration(_attempt_all(pending, now, deadline))
        results += [result for result in done if result.outcome != "replaced"]
        # With their entries, by which sitemap.xml leads to other indexes.
        pending = [replace(result.request, checks_all=True) for result in done if result.outcome == "replaced"]
    replaced = Overtaken(f"the configuration was replaced in all {ATTEMPTS_MAX} attempts")
    results += [Result(request, "failed", error=replaced) for request in pending]
    for result in results:
        releases = set() if result.error else {request.release for request in by_file[result.request.path]}
        clear_due(*result.request.path, releases)
    return results


def _priority(file: str) -> tuple[bool, bool, bool, bool]:
    """Return a sort key: news, other files, older indexes, sitemap.xml, and robots.txt, which lists the indexes."""
    return file == ROBOTS_FILE, file == INDEX_FILE, is_index(file), not is_news(file)


def _attempt_all(requests: Iterable[RewriteRequest], now: datetime, deadline: Deadline) -> list[Result]:
    """Attempt each request, and then the requests for other indexes that follow from them."""
    results, queue = list[Result](), deque(requests)
    while queue:
        results.append(_attempt(queue.popleft(), now, deadline))
        queue.extend(results[-1].elsewhere)
    return results


def _check_configuration(results: Sequence[Result]) -> list[Result]:
    """Return the results, with the outcome `replaced` if another configuration than the used one is in force now."""
    in_force = {
        host: _in_force(host) for host in dict.fromkeys(done.request.site for done in results if not done.error)
    }
    checked = []
    for result in results:
        config = result.config if result.error else in_force[result.request.site]
        if isinstance(config, Exception):
            checked.append(replace(result, outcome="failed", error=config))
        else:
            checked.append(result if config == result.config else replace(result, outcome="replaced"))
    return checked


def _attempt(request: RewriteRequest, now: datetime, deadline: Deadline) -> Result:
    if deadline.is_over():
        return Result(request, "postponed", error=TimeoutError("the run's time was over"))
    try:
        return rewrite(request, now)
    except OutOfTime as error:
        return Result(request, "postponed", error=error)
    except Exception as error:  # noqa: BLE001 - tried again; must not stop the other files
        return Result(request, "failed", error=error)


def _in_force(host: str) -> str | Exception:
    """Return the digest of the configuration in force, empty for a removed site, or the error of the read."""
    try:
        site = sites.reload(host)
    except BadConfiguration:
        return ""
    except Exception as error:  # noqa: BLE001 - the host's files are tried again
        return error
    return site.digest if site else ""


def _merge(requests: Sequence[RewriteRequest]) -> RewriteRequest:
    """Merge several requests for one file."""
    entries = [request.entries for request in requests if request.entries is not None]
    return RewriteRequest(
        requests[0].site,
        requests[0].file,
        release=max((request.release for request in requests if request.release), default=None),
        checks_all=any(request.checks_all for request in requests),
        entries=frozenset().union(*entries) if len(entries) == len(requests) else None,
    )


def hand_over(results: Iterable[Result]) -> Exception | None:
    """Request the unwritten files again, through the rewrites queue. Returns the error if the queue fails."""
    requests = [replace(result.request, checks_all=True) for result in results if result.error]
    try:
        # A message leaves out the entries, so each index that lists one is requested.
        for request in [request for request in requests if is_index(request.file) and request.entries]:
            requests += find_other_indexes(request, read_indexes(request.site))
        queues.send_rewrites(requests, delay_seconds=RETRY_DELAY_SECONDS)
    except Exception as error:  # noqa: BLE001 - the stream must then deliver the records again
        return error
    return None


def rewrite(request: RewriteRequest, now: datetime) -> Result:
    """Bring one file up to date with the configuration that this function has read.

    Raises BadConfiguration, BrokenFile, Overtaken, and the errors of bucket, table and queues.
    """
    # The clock of the function that sent the due record may be ahead of this function's clock.
    now = max(now, request.release or now)
    for _ in range(ATTEMPTS_MAX):
        try:
            # A cached configuration of any age: `rewrite_all` reads the one in force after the write.
            site = sites.load(request.site, age_max=timedelta() if request.checks_all else timedelta.max)
        except sites.UnknownSite:
            return Result(request, _rewrite_of_removed(request))
        attempt = begin(site, request, now)
        rendered = fold(attempt) or render(attempt.site, request.file, now)
        try:
            outcome = commit(attempt, rendered)
            write_indexes(attempt, rendered)
        except Overtaken:
            request = replace(request, checks_all=True)  # the other rewriter may have used another configuration
            continue
        elsewhere = find_other_indexes(request, rendered.indexes)
        return Result(
            request, outcome, rendered.urls, len(rendered.body), config=attempt.site.digest, elsewhere=elsewhere
        )
    raise Overtaken(f"{request.site}/{request.file}: other rewriters were faster in all {ATTEMPTS_MAX} attempts")


def _rewrite_of_removed(request: RewriteRequest) -> str:
    """Delete what a rewriter may have written of a site that was removed with its files. Returns the outcome."""
    key = file_pk(request.site, INDEX_FILE), request.file
    mark = table.get(*key)
    current = sites.read_current(request.site)
    if current is None or not current.deletes_files:
        return "ignored"
    # A record for sitemap.xml may also have led to another index.
    files = read_indexes(request.site).files if request.file == INDEX_FILE else [request.file]
    for name in sorted({name for file in files for name in (file, *possible_forms(file))}):
        if stored := bucket.read(request.site, name):
            bucket.delete(request.site, name, stored)
    if mark:  # if the site is added again, its index must not list the file before it is written
        with suppress(table.Conflict):
            table.delete(*key, "changed = :changed", {":changed": mark["changed"]})
    return "deleted"


@dataclass(slots=True)
class BatchOutcome:
    """The outcome of a batch.

    `requested`: the number of files requested for each changed site, or the error. `unreadable`: errors of records that no later
    attempt could read. `again`: the records that must be delivered again. `written_since`: for each written file of the stream, when the
    first record that changed its entries was created, in seconds since 1970.
    """

    results: Sequence[Result] = ()
    requested: list[tuple[str, int | Exception]] = field(default_factory=list)
    unreadable: list[Exception] = field(default_factory=list)
    again: list[Record] = field(default_factory=list)
    written_since: list[float] = field(default_factory=list)


def rewrite_batch(records: Sequence[Record], now: datetime, deadline: Deadline = NEVER) -> BatchOutcome:
    """Rewrite the files of records until the deadline, and request all files of changed sites.

    Unwritten files of the stream are sent to the rewrites queue. Their records are delivered again only if the queue fails. A changed
    site of the stream is not: roll_window repeats its request.
    """
    from_queue = records[0]["eventSource"] == "aws:sqs"
    outcome = BatchOutcome()
    requests = list(_read_records(records, now, outcome.unreadable))
    files = [(record, request) for record, request in requests if request.file]
    is_old = not from_queue and any(
        _age_seconds(record["dynamodb"], now) > STREAM_AGE_MAX_SECONDS for record, _ in requests
    )
    outcome.results = rewrite_all([request for _, request in files], now, OVER if is_old else deadline)
    failed = _failed_paths(outcome.results)
    outcome.requested = [
        (request.site, _try_request_all(request, deadline)) for _, request in requests if not request.file
    ]
    if from_queue:
        failed |= {(host, "") for host, files_requested in outcome.requested if isinstance(files_requested, Exception)}
    else:
        outcome.written_since = _first_changes(files, outcome.results)
        failed = failed if hand_over(outcome.results) else set()
    outcome.again = [record for record, request in requests if request.path in failed]
    return outcome


def _failed_paths(results: Iterable[Result]) -> set[tuple[str, str]]:
    """Return the failed files; with any index sitemap.xml, whose records may have led to it."""
    failed = {result.request.path for result in results if result.error}
    return failed | {(host, INDEX_FILE) for host, file in failed if is_index(file)}


def _read_records(
    records: Iterable[Record], now: datetime, unreadable: list[Exception]
) -> Iterator[tuple[Record, RewriteRequest]]:
    """Yield each record with its requests; add the errors of unreadable records to `unreadable`."""
    for record in records:
        try:
            requests = _read_change(record["dynamodb"], now) if "dynamodb" in record else [read_request(record["body"])]
        except Exception as error:  # noqa: BLE001 - must not stop the other records
            unreadable.append(error)
        else:
            yield from ((record, request) for request in requests)


def _read_change(change: Record, now: datetime) -> Sequence[RewriteRequest]:
    """Read a record of the stream: a changed entry, site or index. A heartbeat only shows that the stream is read.

    Raises ValueError and KeyError.
    """
    pk = change["Keys"]["pk"]["S"]
    if pk == HEARTBEAT:
        return []
    if pk.startswith("site#"):
        host = pk.removeprefix("site#")
        record = due.site(due.CONFIGURATION, host, parse(change["NewImage"]["due"]["S"])).item
        return [RewriteRequest(host, due=record["sk"])]
    host, file = file_of(pk)
    if change["Keys"]["sk"]["S"] == INDEXES_SK:
        return requests_of_cuts(host, change)
    entry = changed_entry(change)
    checks_all = _age_seconds(change, now) > LATE_SECONDS
    return [RewriteRequest(host, file, checks_all=checks_all, entries=frozenset([entry]) if entry else None)]


def changed_entry(change: Record) -> tuple[str, str] | None:
    """Return sort key and URL of the entry in a stream record; for a mark, the file's name twice.

    None if the sort key does not end with the URL's hash. Only the URL of the record's images is used, because a redriven
    record may be older than the file. The URL cannot be outdated, because the sort key has its hash.
    """
    sk = change["Keys"]["sk"]["S"]
    if file_of(change["Keys"]["pk"]["S"])[1] == INDEX_FILE:
        return sk, sk
    image = {**change.get("OldImage", {}), **change.get("NewImage", {})}
    loc = image.get("loc", {}).get("S", "")
    return (sk, loc) if sk.endswith(key_of(loc)) else None


def _first_changes(files: Iterable[tuple[Record, RewriteRequest]], results: Iterable[Result]) -> list[float]:
    first: dict[tuple[str, str], float] = {}
    for record, request in files:
        created = float(record["dynamodb"]["ApproximateCreationDateTime"])
        first[request.path] = min(first.get(request.path, created), created)
    written = (result.request.path for result in results if result.outcome == "written")
    return [first[path] for path in written if path in first]  # a record of sitemap.xml may lead to another index


def _age_seconds(change: Record, now: datetime) -> float:
    return now.timestamp() - float(change["ApproximateCreationDateTime"])


def _try_request_all(request: RewriteRequest, deadline: Deadline) -> int | Exception:
    try:
        return request_all(request, deadline)
    except Exception as error:  # noqa: BLE001 - must not stop the other records
        return error


def request_all(request: RewriteRequest, deadline: Deadline = NEVER) -> int:
    """Request all files of a changed site until the deadline, the newest shards first. Return the number of files.

    When the time is over, a request for the other files is sent. Its due record is deleted last, so that a lost request is sent again.
    Raises BadConfiguration, SendError, and the table's errors.
    """
    site = sites.reload(request.site)
    # Always with robots.txt, because Stoppress may have written it by an earlier configuration.
    files = sorted(all_files(site, robots=True), reverse=True) if site else []
    files = [file for file in files if not request.below or file < request.below]
    for start in range(0, len(files), BATCH_MESSAGES_MAX):
        if deadline.is_over():
            queues.send_rewrites([replace(request, below=files[start - 1])] if start else [request])
            return start
        batch = files[start : start + BATCH_MESSAGES_MAX]
        queues.send_rewrites([RewriteRequest(request.site, file, checks_all=True) for file in batch])
    if request.due and not (
        site and site.fault
    ):  # roll_window reports an unreadable version for as long as its record is there
        table.delete(due.SITES, request.due)
    return len(files)
