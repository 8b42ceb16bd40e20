"""Reconcile sites: compare table, index and bucket, and repair differences. This module writes no sitemap.

A nightly run announces a part of the work for each site on the bus. A part that runs out of time announces the rest of its files, so
no file waits for another night.

A difference may be work in progress. So the first look at a unit (a file, the places, or the orphans of a site) only stores it in
the table, as a suspect. The second look, minutes later, repairs it if it is unchanged. The second run of a night looks only at suspects.
"""

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from stoppress.aws import bucket, due, queues, sites, table
from stoppress.aws.bucket import Listed, Overtaken
from stoppress.aws.items import RECONCILED_KEY, article_key, claim_key, file_pk, series_item
from stoppress.aws.queues import RewriteRequest
from stoppress.aws.table import Check, Conflict, Delete
from stoppress.model.file_names import Series, Used, is_news
from stoppress.model.site import BadConfiguration, Site
from stoppress.primitives.instants import NEVER, Deadline, exact, parse
from stoppress.reconcile.drift import Finding, Report, keep_suspects, suspected_hosts
from stoppress.reconcile.look import ORPHANS, Look, read_owners, why_ownerless

PART = "part to reconcile"
# A run looks at all files if the last run that did so is this long ago. Otherwise it looks at suspects.
ALL_FILES_EVERY = timedelta(hours=12)
# Longer than functions that record events or write files run (60 s), so that work in progress at the first look has ended.
LOOKS_APART = timedelta(minutes=2)
# Parts that begin in one second. EventBridge takes ten events in a call, and a small account runs ten functions concurrently.
PARTS_A_SECOND = 10


@dataclass(frozen=True, slots=True)
class Part:
    """The units of a site after `after`. Without a site: the sites after `after`.

    `suspected`: only units with suspects.
    """

    site: str = ""
    after: str = ""
    suspected: bool = False


def next_run(now: datetime) -> Part:
    """Return the part that a run begins with: all sites, or only suspects if a recent run has looked at all sites."""
    last = table.get(*RECONCILED_KEY)
    return Part(suspected=last is not None and now < parse(last["at"]) + ALL_FILES_EVERY)


def announce_sites(part: Part, deadline: Deadline) -> None:
    """Announce a part for each site, and one part for the sites that remain at the deadline. Raises SendError, and the table's errors."""
    hosts = [host for host in (suspected_hosts() if part.suspected else sites.hosts()) if host > part.after]
    for start in range(0, len(hosts), PARTS_A_SECOND):
        if start and deadline.is_over():
            _announce([replace(part, after=hosts[start - 1])])
            return
        time.sleep(1 if start else 0)
        _announce([Part(host, suspected=part.suspected) for host in hosts[start : start + PARTS_A_SECOND]])
    if not part.suspected:
        pk, sk = RECONCILED_KEY
        table.put_if({"pk": pk, "sk": sk, "at": exact(datetime.now(UTC))})


def reconcile_part(part: Part, deadline: Deadline) -> Report:
    """Reconcile a part of a site, and announce the rest that remains at the deadline.

    Raises SendError, TimeoutError, and the errors of bucket and table.
    """
    try:
        site = sites.reload(part.site)
    except BadConfiguration:  # roll_window reports it
        return Report()
    if site is None:
        return Report()
    look = Look(site)
    names = look.suspects if part.suspected else look.units
    units = sorted(unit for unit in names if part.after < unit)
    report = reconcile(look, units, deadline=deadline)
    if report.units < len(units):
        if not report.units:
            raise TimeoutError(f"no time was left to look at a file of {part.site}")
        _announce([replace(part, after=units[report.units - 1])])
        report.has_rest = True
    return report


def reconcile(look: Look, units: Iterable[str], *, deadline: Deadline = NEVER, dry_run: bool = False) -> Report:
    """Look at units, repair faults that an earlier look saw too, and store new suspects for the next look.

    The deadline is checked before each unit. `dry_run` repairs and stores nothing, and reports all faults as suspects. A unit that
    cannot be examined or repaired is reported, and does not stop the others.
    """
    report = Report()
    for unit in units:
        if deadline.is_over():
            break
        report.units += 1
        try:
            repaired, suspected = _reconcile_unit(look, unit, datetime.now(UTC), dry_run=dry_run)
        except Exception as error:  # noqa: BLE001 - must not stop the other units
            error.add_note(f"while looking at {look.site.host}/{unit}")
            report.failed.append(error)
        else:
            report.repaired += repaired
            report.suspected += suspected
    return report


def _reconcile_unit(
    look: Look, unit: str, now: datetime, *, dry_run: bool
) -> tuple[Sequence[Finding], Sequence[Finding]]:
    """Return the findings that were repaired, and those that the next look confirms."""
    if dry_run:
        return [], look.at(unit, now)
    host, before = look.site.host, look.suspects.get(unit)
    if before and now < before.seen_at + LOOKS_APART:
        return [], before.findings  # too soon to confirm
    findings = look.at(unit, now)
    confirmed = [finding for finding in findings if before and finding in before.findings]
    repair(look.site, confirmed, now)
    if is_news(unit):
        due.write_next_expiry(host, unit)
    suspects = [finding for finding in findings if finding not in confirmed]
    if suspects or before:
        keep_suspects(host, unit, suspects, now)
    return confirmed, suspects


def _announce(parts: Iterable[Part]) -> None:
    queues.announce(PART, *map(asdict, parts))


def repair(site: Site, findings: Iterable[Finding], now: datetime) -> None:
    """Repair each finding. A finding that has changed since the second look is left to the next look."""
    files: dict[str, None] = {}
    for finding in findings:
        if finding.kind == "ownerless":
            _remove_entry(site, finding, now)
        elif finding.kind == "miscounted":
            _recount(site, finding)
        elif finding.unit != ORPHANS:
            files[finding.unit] = None
        # An orphan with entries has lost its mark and its places: a rewrite writes a mark.
        elif next(table.query(file_pk(site.host, finding.name)), None):
            files[finding.name] = None
        else:
            with suppress(Overtaken):
                bucket.delete(site.host, finding.name, Listed(finding.name, finding.seen, now))
    queues.send_rewrites([RewriteRequest(site.host, file, checks_all=True) for file in files])


def _remove_entry(site: Site, finding: Finding, now: datetime) -> None:
    """Delete an entry while its article and claim still contradict it."""
    pk = file_pk(site.host, finding.unit)
    item = table.get(pk, finding.name)
    if item is None:
        return
    claim, article = read_owners(site, [item["loc"]], consistent=True)[item["loc"]]
    if not why_ownerless(finding.unit, item, claim, article, now):
        return
    checks = [Check(*claim_key(site.host, item["loc"]), claim.rev if claim else None)]
    if claim:
        checks.append(Check(*article_key(site.host, claim.owner), article.rev if article else None))
    with suppress(Conflict):
        table.transact([*checks, Delete(pk, finding.name)])


def _recount(site: Site, finding: Finding) -> None:
    """Write the count of both looks, if no place was reserved or returned since the first."""
    rev, files = json.loads(finding.seen)
    series = Series(finding.name, tuple(Used(entries, size_bytes) for entries, size_bytes in files))
    with suppress(Conflict):
        table.put(series_item(site.host, series), rev)
