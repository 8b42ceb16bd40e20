"""Repairs what two looks have seen: sends files to the rewrites queue, and deletes entries and objects without an owner."""

import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from stoppress.aws import bucket, queues, table
from stoppress.aws.bucket import Listed, Overtaken
from stoppress.aws.items import article_key, claim_key, file_pk, series_item
from stoppress.aws.queues import RewriteRequest
from stoppress.aws.table import Check, Conflict, Delete
from stoppress.model.places import Series, Used
from stoppress.model.site import Site
from stoppress.reconcile.findings import Finding
from stoppress.reconcile.look import ORPHANS, read_owners, why_ownerless


def repair(site: Site, findings: Iterable[Finding], now: datetime) -> None:
    """Repair each finding. One that has changed since the second look is left to the next look."""
    files: dict[str, None] = {}
    for finding in findings:
        if finding.kind == "ownerless":
            _remove_entry(site, finding, now)
        elif finding.kind == "miscounted":
            _recount(site, finding)
        elif finding.unit != ORPHANS:
            files[finding.unit] = None
        # An orphan with entries has lost its mark and its places: a rewrite gives it a mark.
        elif any("loc" in item for item in table.query(file_pk(site.host, finding.name))):
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
    """Write the count that both looks made, if nobody has reserved or returned a place since the first."""
    rev, files = json.loads(finding.seen)
    series = Series(finding.name, tuple(Used(entries, size_bytes) for entries, size_bytes in files))
    with suppress(Conflict):
        table.put(series_item(site.host, series), rev)
