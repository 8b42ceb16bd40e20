"""Rewrite the files that a batch names: a batch of the table's stream, or of the rewrites queue.

The stream names changed entries. Only their lines in the files are rendered again (`sitemaps.fold`). The queue names files
to render from all their entries: files that failed, and files that a repair needs. Both name sites whose configuration changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from stoppress.aws import queues, sites, table
from stoppress.aws.due import SITES, configuration
from stoppress.aws.inventory import all_files
from stoppress.aws.items import HEARTBEAT, file_of
from stoppress.aws.queues import BATCH_MESSAGES_MAX, AllFiles, RewriteRequest, read_request
from stoppress.model.file_names import INDEX_FILE
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import key_of
from stoppress.rewrite.sitemaps import Result, hand_over, postpone_all, rewrite_all

# Lambda delivers a batch until it succeeds, and no later batch of its shard before. A batch is written within seconds, unless an
# earlier attempt failed. One of its files may crash the function, so all files of an older batch go to the queue, each on its own.
STREAM_AGE_MAX_SECONDS = 180
# A record of the stream that is older than this may come again after a run that was killed. What that run left is checked.
LATE_SECONDS = 30

Record: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class BatchOutcome:
    """The outcome of a batch.

    `requested`: the number of files requested for each changed site, or the error. `unreadable`: errors of records that no later
    attempt could read. `again`: the records that must come again. `written_since`: for each written file of the stream, when the
    first record that changed its entries was created, in seconds since 1970.
    """

    results: Sequence[Result] = ()
    requested: list[tuple[str, int | Exception]] = field(default_factory=list)
    unreadable: list[Exception] = field(default_factory=list)
    again: list[Record] = field(default_factory=list)
    written_since: list[float] = field(default_factory=list)


def rewrite_batch(records: Sequence[Record], now: datetime, deadline: Deadline = NEVER) -> BatchOutcome:
    """Rewrite the files that records name until the deadline, and request all files of changed sites.

    Unwritten files of the stream are sent to the rewrites queue. Their records come again only if the queue fails. A changed site of
    the stream does not come again: roll_window repeats it.
    """
    from_queue = records[0]["eventSource"] == "aws:sqs"
    outcome = BatchOutcome()
    files: list[tuple[Record, RewriteRequest]] = []
    changed_sites: list[tuple[Record, AllFiles]] = []
    for record in records:
        try:
            request = read_request(record["body"]) if from_queue else _read_change(record["dynamodb"], now)
        except Exception as error:  # noqa: BLE001 - the other records must go on
            outcome.unreadable.append(error)
            continue
        if isinstance(request, RewriteRequest):
            files.append((record, request))
        elif request:
            changed_sites.append((record, request))
    is_old = not from_queue and any(
        _age_seconds(record, now) > STREAM_AGE_MAX_SECONDS for record, _ in [*files, *changed_sites]
    )
    requests = [request for _, request in files]
    outcome.results = postpone_all(requests) if is_old else rewrite_all(requests, now, deadline)
    unwritten = [result for result in outcome.results if result.error]
    failed = {result.request.path for result in unwritten} if from_queue or hand_over(unwritten) else set()
    outcome.again = [record for record, request in files if request.path in failed]
    for record, all_of_site in changed_sites:
        try:
            outcome.requested.append((all_of_site.site, request_all(all_of_site, deadline)))
        except Exception as error:  # noqa: BLE001 - the other records go on
            outcome.requested.append((all_of_site.site, error))
            outcome.again += [record] if from_queue else []
    if not from_queue:
        outcome.written_since = _first_changes(files, outcome.results)
    return outcome


def _read_change(change: Record, now: datetime) -> RewriteRequest | AllFiles | None:
    """Read a record of the stream: a changed entry, or a changed site. None for a heartbeat, which only shows that the stream is read.

    Raises ValueError and KeyError.
    """
    pk = change["Keys"]["pk"]["S"]
    if pk == HEARTBEAT:
        return None
    if pk.startswith("site#"):
        host = pk.removeprefix("site#")
        return AllFiles(host, configuration(host, parse(change["NewImage"]["due"]["S"])).item["sk"])
    entry = changed_entry(change)
    checks_all = now.timestamp() - change["ApproximateCreationDateTime"] > LATE_SECONDS
    return RewriteRequest(*file_of(pk), checks_all=checks_all, entries=frozenset([entry]) if entry else None)


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
    return [first[result.request.path] for result in results if result.outcome == "written"]


def _age_seconds(record: Record, now: datetime) -> float:
    return now.timestamp() - float(record["dynamodb"]["ApproximateCreationDateTime"])


def request_all(request: AllFiles, deadline: Deadline = NEVER) -> int:
    """Request all files of a changed site until the deadline, the newest shards first. Return the number of files.

    The request sends itself on when its time is over. Its due record is deleted last, so that a request that is lost is made again.
    Raises BadConfiguration, SendError, and the table's errors.
    """
    site = sites.reload(request.site)
    # Always with robots.txt: an earlier configuration may have had it written.
    files = sorted(all_files(site, robots=True), reverse=True) if site else []
    files = [file for file in files if not request.below or file < request.below]
    for start in range(0, len(files), BATCH_MESSAGES_MAX):
        if deadline.is_over():
            queues.send_rewrites([replace(request, below=files[start - 1])] if start else [request])
            return start
        batch = files[start : start + BATCH_MESSAGES_MAX]
        queues.send_rewrites([RewriteRequest(request.site, file, checks_all=True) for file in batch])
    if not (site and site.fault):  # roll_window reports an unreadable version for as long as its record is there
        table.delete(SITES, request.due)
    return len(files)
