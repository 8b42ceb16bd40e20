"""Rewriting: brings files up to date with their partitions. Nothing else writes a sitemap.

Several rewriters may run at once. Each reads the object, then the partition, and puts the file only if the object is still the
one it read. So a rewriter that read an older partition loses and starts again.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoppress.aws import queues, sites
from stoppress.aws.bucket import Overtaken
from stoppress.aws.clients import OutOfTime
from stoppress.aws.queues import RewriteRequest
from stoppress.model.file_names import INDEX_FILE, is_news
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.rewrite.attempt import begin
from stoppress.rewrite.publish import commit
from stoppress.rewrite.render import fold, render
from stoppress.rewrite.retire import clear_due

# Each lost attempt means that another rewriter put a newer file. After so many the rewrites queue takes over.
ATTEMPTS_MAX = 8
# How long a file that failed waits in the rewrites queue: time for a passing fault to end.
RETRY_DELAY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome for a file, and the error if the file must be tried again.

    `written`, `unchanged`, `retired` (emptied a day ago), `ignored` (retired site), `failed`, or `postponed` (no time left).
    """

    request: RewriteRequest
    outcome: str
    urls: int = 0
    size_bytes: int = 0
    error: Exception | None = None


def rewrite_all(requests: Iterable[RewriteRequest], now: datetime, deadline: Deadline = NEVER) -> list[Result]:
    """Bring files up to date until the deadline, each file once: news first, then the newest shards, and indexes last.

    A failing file does not stop the others.
    """
    by_file: dict[tuple[str, str], list[RewriteRequest]] = defaultdict(list)
    for request in requests:
        by_file[request.site, request.file].append(request)
    results = []
    newest_first = sorted(by_file, key=lambda file: file[1], reverse=True)
    for file in sorted(newest_first, key=lambda file: (file[1] == INDEX_FILE, not is_news(file[1]), file[0])):
        same = by_file[file]
        request = _joined(same)
        if deadline.is_over():
            results.append(Result(request, "postponed", error=TimeoutError("the run's time was over")))
            continue
        try:
            results.append(rewrite(request, now))
            for release in sorted({other.release for other in same if other.release} - {request.release}):
                clear_due(request.site, request.file, release)
        except OutOfTime as error:
            results.append(Result(request, "postponed", error=error))
        except Exception as error:  # noqa: BLE001 - the other files go on, and this one is tried again
            results.append(Result(request, "failed", error=error))
    return results


def _joined(requests: Sequence[RewriteRequest]) -> RewriteRequest:
    """Merge several requests for one file."""
    version = max(request.config_version for request in requests)
    entries = [request.entries for request in requests if request.entries is not None]
    return RewriteRequest(
        requests[0].site,
        requests[0].file,
        config_version=version,
        release=max((request.release for request in requests if request.release), default=None),
        repair_forms=any(request.repair_forms for request in requests if request.config_version == version),
        entries=frozenset().union(*entries) if len(entries) == len(requests) else None,
    )


def hand_over(results: Iterable[Result]) -> Exception | None:
    """Request the unwritten files again, through the rewrites queue. Returns the error if the queue fails."""
    try:
        queues.send_rewrites([result.request for result in results], delay_seconds=RETRY_DELAY_SECONDS)
    except Exception as error:  # noqa: BLE001 - the stream must then deliver the records again
        return error
    return None


def rewrite(request: RewriteRequest, now: datetime) -> Result:
    """Bring one file up to date; a retired site's files stay as they are.

    Raises UnknownSite, FileTooLarge, BrokenFile, Overtaken, and the errors of bucket, table and queues.
    """
    try:
        site = sites.load_kept(request.site, at_least=request.config_version)
    except sites.RetiredSite:  # its old news entries still expire by DynamoDB's TTL, and the stream reports that
        return Result(request, "ignored")
    # The clock of the function that sent the due record may be ahead of ours.
    now = max(now, request.release or now)
    for _ in range(ATTEMPTS_MAX):
        attempt = begin(site, request, now)
        site = attempt.site
        rendered, forms = fold(attempt) or render(site, request.file, now)
        try:
            outcome = commit(attempt, rendered, forms)
        except Overtaken:
            continue
        if request.release:
            clear_due(site.host, request.file, request.release)
        return Result(request, outcome, rendered.urls, len(rendered.body))
    raise Overtaken(f"{request.site}/{request.file}: other rewriters were faster in all {ATTEMPTS_MAX} attempts")
