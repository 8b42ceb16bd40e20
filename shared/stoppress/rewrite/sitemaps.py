"""Rewriting: brings files up to date with their partitions. Nothing else writes a sitemap.

Several rewriters may run at once. Each reads the object, then the partition, and puts the file only if the object is still the
one it read. So a rewriter that read an older partition loses and starts again.

A rewriter may use a configuration that has just been replaced. So it reads the configuration in force once more after its last
write, and writes its files again if that is another one. A change that comes later sends all files to the queue anyway.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoppress.aws import bucket, queues, sites
from stoppress.aws.bucket import Overtaken
from stoppress.aws.clients import OutOfTime
from stoppress.aws.queues import RewriteRequest
from stoppress.model.file_names import INDEX_FILE, is_news
from stoppress.model.site import BadConfiguration
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.rewrite.attempt import begin
from stoppress.rewrite.output_formats import possible_forms
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

    `written`, `unchanged`, `retired` (emptied a day ago), `ignored` or `deleted` (removed site), `failed`, or `postponed` (no time
    left). `config`: the digest of the configuration that was used; empty for a removed site.
    """

    request: RewriteRequest
    outcome: str
    urls: int = 0
    size_bytes: int = 0
    error: Exception | None = None
    config: str = ""


def rewrite_all(requests: Iterable[RewriteRequest], now: datetime, deadline: Deadline = NEVER) -> list[Result]:
    """Bring files up to date until the deadline, each file once: news first, then the newest shards, and indexes last.

    A failing file does not stop the others. Files whose configuration was replaced meanwhile are written again.
    """
    by_file: dict[tuple[str, str], list[RewriteRequest]] = defaultdict(list)
    for request in requests:
        by_file[request.path].append(request)
    newest_first = sorted(by_file, key=lambda file: file[1], reverse=True)
    pending = [
        _joined(by_file[file])
        for file in sorted(newest_first, key=lambda file: (file[1] == INDEX_FILE, not is_news(file[1]), file[0]))
    ]
    results: list[Result] = []
    for _ in range(ATTEMPTS_MAX):
        done = [_attempt(request, now, deadline) for request in pending]
        hosts = dict.fromkeys(result.request.site for result in done if result.error is None)
        in_force = {host: _in_force(host) for host in hosts}
        pending = []
        for result in done:
            config = in_force.get(result.request.site) if result.error is None else result.config
            if isinstance(config, Exception):
                results.append(replace(result, outcome="failed", error=config))
            elif config == result.config:
                results.append(result)
            else:
                pending.append(replace(result.request, entries=None, checks_all=True))
    replaced = Overtaken(f"the configuration was replaced in all {ATTEMPTS_MAX} attempts")
    results += [Result(request, "failed", error=replaced) for request in pending]
    for result in results:
        if result.error is None:
            _clear_releases(by_file[result.request.path])
    return results


def _attempt(request: RewriteRequest, now: datetime, deadline: Deadline) -> Result:
    if deadline.is_over():
        return Result(request, "postponed", error=TimeoutError("the run's time was over"))
    try:
        return rewrite(request, now)
    except OutOfTime as error:
        return Result(request, "postponed", error=error)
    except Exception as error:  # noqa: BLE001 - the other files go on, and this one is tried again
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


def _clear_releases(requests: Iterable[RewriteRequest]) -> None:
    for site, file, release in {(*request.path, request.release) for request in requests}:
        if release:
            clear_due(site, file, release)


def postpone_all(requests: Iterable[RewriteRequest]) -> list[Result]:
    """Write no file. Each file has one result, so that each goes to the rewrites queue once."""
    by_file = {request.path: request for request in requests}
    reason = TimeoutError("earlier attempts to write its batch failed")
    return [Result(request, "postponed", error=reason) for request in by_file.values()]


def _joined(requests: Sequence[RewriteRequest]) -> RewriteRequest:
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
    requests = [replace(result.request, checks_all=True) for result in results]
    try:
        queues.send_rewrites(requests, delay_seconds=RETRY_DELAY_SECONDS)
    except Exception as error:  # noqa: BLE001 - the stream must then deliver the records again
        return error
    return None


def rewrite(request: RewriteRequest, now: datetime) -> Result:
    """Bring one file up to date with the configuration that this function knows.

    Raises BadConfiguration, FileTooLarge, BrokenFile, Overtaken, and the errors of bucket, table and queues.
    """
    # The clock of the function that sent the due record may be ahead of ours.
    now = max(now, request.release or now)
    for _ in range(ATTEMPTS_MAX):
        try:
            site = sites.load(request.site, age_max=timedelta() if request.checks_all else sites.CACHE_AGE_MAX)
        except sites.UnknownSite:
            return Result(request, _rewrite_of_removed(request))
        attempt = begin(site, request, now)
        rendered, forms = fold(attempt) or render(attempt.site, request.file, now)
        try:
            outcome = commit(attempt, rendered, forms)
        except Overtaken:
            request = replace(request, checks_all=True)  # the other rewriter may have used another configuration
            continue
        return Result(request, outcome, rendered.urls, len(rendered.body), config=attempt.site.digest)
    raise Overtaken(f"{request.site}/{request.file}: other rewriters were faster in all {ATTEMPTS_MAX} attempts")


def _rewrite_of_removed(request: RewriteRequest) -> str:
    """Delete what a rewriter may have written of a site that was removed with its files. Returns the outcome."""
    current = sites.read_current(request.site)
    if current is None or not current.deletes_files:
        return "ignored"
    for name in {request.file, *possible_forms(request.file)}:
        if stored := bucket.read(request.site, name):
            bucket.delete(request.site, name, stored)
    return "deleted"
