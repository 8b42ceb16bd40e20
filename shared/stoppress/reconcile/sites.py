"""Reconciling: compares table, index and bucket, and repairs differences. It never writes a sitemap itself.

A look compares the parts of a site, called units, one by one. If it runs out of time, the next look continues. A pass
is complete when all units were compared.

A difference may be work in progress. So the first look only stores it in the table, as a suspect. The second look,
minutes later, repairs it if it is still the same.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from stoppress.model.site import Site
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.reconcile.findings import END, Finding, Past, Report, keep_past, read_past
from stoppress.reconcile.look import Look
from stoppress.reconcile.repair import repair

# Longer than any function runs that records events or writes files (60 s): a change that was on its way at the first look has arrived, or never will.
LOOKS_APART = timedelta(minutes=2)
# As many suspects as one item of the table can hold. The look stops there, and the next look continues.
SUSPECTS_MAX = 1_000


def reconcile(
    site: Site,
    now: datetime,
    *,
    deadline: Deadline = NEVER,
    dry_run: bool = False,
    anew: bool = False,
) -> Report:
    """Look at a site, repair faults that an earlier look found too, and store new suspects for the next look.

    The deadline is checked before each unit. `dry_run` looks at everything, and repairs and stores nothing. `anew` begins a new
    pass after a complete one, even if none is due. A file that cannot be examined is reported and does not stop the others.

    Raises the errors of bucket, table and queues.
    """
    if deadline.is_over():
        return Report()
    past = Past() if dry_run else read_past(site)
    if past.suspects and past.seen_at and now < past.seen_at + LOOKS_APART:
        return Report(suspected=past.suspects)  # too soon to confirm
    look = Look(site, now)
    suspected_units = {suspect.unit for suspect in past.suspects}
    repaired, suspects = _confirmed(look, past, deadline)
    if not dry_run:
        repair(site, repaired, now)
    began, stopped_after = past.continued(now, anew=anew)
    units = 0
    for unit in look.units_after(stopped_after):
        if deadline.is_over() or len(suspects) >= SUSPECTS_MAX:
            break
        suspects += look.at(unit) if unit not in suspected_units else []
        stopped_after, units = unit, units + 1
    else:
        stopped_after = END
    if not dry_run:
        keep_past(site, began, stopped_after, suspects[:SUSPECTS_MAX], now)
    return Report(tuple(repaired), tuple(suspects), tuple(look.failed), units, whole=stopped_after == END)


def _confirmed(look: Look, past: Past, deadline: Deadline) -> tuple[list[Finding], list[Finding]]:
    """Look again at the units with suspects. Returns the findings seen before, and the suspects for the next look."""
    repaired: list[Finding] = []
    suspects: list[Finding] = []
    for unit in sorted({suspect.unit for suspect in past.suspects}):
        if deadline.is_over():  # the next look confirms these
            suspects += [suspect for suspect in past.suspects if suspect.unit == unit]
            continue
        for finding in look.at(unit):
            (repaired if finding in past.suspects else suspects).append(finding)
    return repaired, suspects


def in_turn(sites: Iterable[Site]) -> list[Site]:
    """Sites in the order in which their last pass began, so that each has its turn if one night is not enough."""
    return sorted(sites, key=lambda site: (read_past(site).began or datetime.min.replace(tzinfo=UTC), site.host))
