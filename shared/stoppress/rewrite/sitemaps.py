"""Rewriting: files brought up to date with their partitions. Nothing else ever writes a sitemap.

Rewriters may run at once. Each reads the object first, then the partition, then puts the file only if the object is still
the one that was read: who read the partition earlier loses, and starts again.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from stoppress.aws import bucket, queues, sites
from stoppress.aws.bucket import Overtaken
from stoppress.aws.queues import RewriteRequest
from stoppress.model.file_names import INDEX_FILE
from stoppress.rewrite.publish import commit, mark_before
from stoppress.rewrite.render import fold, render
from stoppress.rewrite.retire import clear_due

# Each attempt lost is a newer file that somebody else put; after these the rewrites queue takes over.
ATTEMPTS_MAX = 8
# A file that failed is not tried again before whatever was wrong had a moment to pass.
RETRY_DELAY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a file: `written`, `unchanged`, `retired` (an emptied file whose day is over), `ignored` (its site is retired), or `failed`."""

    work: RewriteRequest
    outcome: str
    urls: int = 0
    size_bytes: int = 0
    error: Exception | None = None


def rewrite_all(works: Iterable[RewriteRequest], now: datetime) -> list[Result]:
    """Bring files up to date, each once, the indexes last. A file that fails stops no other."""
    wanted: dict[tuple[str, str], list[RewriteRequest]] = defaultdict(list)
    for work in works:
        wanted[work.site, work.file].append(work)
    results = []
    for site, file in sorted(wanted, key=lambda one: (one[1] == INDEX_FILE, one)):
        same = wanted[site, file]
        releases = sorted({work.release for work in same if work.release})
        newest = max(one.config_version for one in same)
        named = [one.entries for one in same if one.entries is not None]
        work = RewriteRequest(
            site,
            file,
            config_version=newest,
            release=releases[-1] if releases else None,
            repair_forms=any(one.repair_forms for one in same if one.config_version == newest),
            entries=frozenset().union(*named) if len(named) == len(same) else None,
        )
        try:
            results.append(rewrite(work, now))
            for release in releases[:-1]:
                clear_due(work.site, work.file, release)
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


def rewrite(work: RewriteRequest, now: datetime) -> Result:
    """Bring one file up to date; one of a retired site stays as it is. Raises UnknownSite, FileTooLarge, BrokenFile, Overtaken, and what the doors raise.

    Its mark is read before its object, its object before its partition: whoever has committed since then is noticed.
    """
    try:
        site = sites.load_kept(work.site, at_least=work.config_version)
    except sites.RetiredSite:  # DynamoDB's TTL goes on taking its old news entries out, and the stream tells of it
        return Result(work, "ignored")
    for _ in range(ATTEMPTS_MAX):
        mark = mark_before(site, work)
        stored = bucket.read(site.host, work.file)
        if stored and stored.config_version > site.version:
            site = sites.load_kept(work.site, at_least=stored.config_version)
        rendered, forms = fold(site, work, stored, now) or render(site, work.file, now)
        try:
            at = max(now, work.release or now)
            outcome = commit(site, work, mark, stored, rendered, forms, at)
        except Overtaken:
            continue
        if work.release:
            clear_due(site.host, work.file, work.release)
        return Result(work, outcome, rendered.urls, len(rendered.body))
    raise Overtaken(f"{work.site}/{work.file} was written by others, {ATTEMPTS_MAX} attempts long")
