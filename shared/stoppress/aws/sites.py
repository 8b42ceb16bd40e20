"""Read the configurations of the sites, which the table has in versions.

The partition `site#<host>` has an item `current` with the number of the version in force, and an item for each version. A version
never changes, so a function parses each only once. `aws.site_versions` writes them. The partition `sites` lists all sites, and
`polls` those with feeds. Only `load_all` and `hosts` read these two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import table
from stoppress.aws.clients import leaving
from stoppress.model.site import HOST, BadConfiguration, Site, read_site

# A function may use a replaced configuration for this long. `rewrite.sitemaps` may use an older one, because it checks afterwards.
CACHE_AGE_MAX = timedelta(seconds=60)
# If a cached configuration lacks what a function looks for, and is older than this, the function reads it again.
MISSED_AGE_MAX = timedelta(seconds=5)
# Seconds that a webhook needs after an attempt to read its site: for secret and queue. One attempt (`clients.LIMITS`) must fit into
# the rest of receive_webhook's ten seconds.
READS_LEFT_S = 4.0
# More sites than a function uses in a minute. Anyone can request any number of hosts.
CACHED_MAX = 2_000
# An older version than the newest is in force while the newest cannot be read. A reader looks back this far.
LOOK_BACK_MAX = 20

SITES, POLLS = "sites", "polls"
CURRENT = "current"


class UnknownSite(LookupError):
    """The table has no configuration of this host, or the site was removed."""


@dataclass(frozen=True, slots=True)
class Current:
    """The version in force: its number, a digest of its document, and whether the site was removed with it.

    The digest distinguishes two versions of one number: a table that was restored to an earlier instant counts from there.
    """

    version: int
    digest: str
    is_removed: bool = False
    deletes_files: bool = False


@dataclass(frozen=True, slots=True)
class BadSite:
    """A site whose newest version cannot be read, and why."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache of an execution environment, by host.

    `current`: when the version in force was read, and the version; None for an unknown host. `documents`: a version, and its site or
    the reason why it cannot be used.
    """

    current: dict[str, tuple[datetime, Current | None]] = field(default_factory=dict)
    documents: dict[str, tuple[Current, Site | BadConfiguration]] = field(default_factory=dict)


_NEVER = datetime.min.replace(tzinfo=UTC)
_cache = Cache()


def load(host: str, age_max: timedelta = CACHE_AGE_MAX) -> Site:
    """Return a site's configuration as it was at most `age_max` ago.

    While the newest version cannot be read, the version before it is in force, and `Site.fault` has the reason. If the table does not
    answer, the cached configuration is used, however old. Raises UnknownSite, and BadConfiguration if no version can be read.
    """
    if not HOST.fullmatch(host):
        raise UnknownSite(f"{host[:120]!r} is not a host name")
    read_at, current = _cache.current.get(host, (_NEVER, None))
    if datetime.now(UTC) - read_at >= (age_max if current else min(age_max, MISSED_AGE_MAX)):
        try:
            with leaving(READS_LEFT_S):
                current = read_current(host, consistent=not age_max)
        except (ClientError, BotoCoreError):
            if current is None:
                raise
    if current is None or current.is_removed:
        raise UnknownSite(f"unknown site {host!r}: `stoppress sites put` adds a site")
    return _in_force(host, current)


def read_current(host: str, *, consistent: bool = True) -> Current | None:
    """Return the version in force; None for an unknown host. A strongly consistent read costs one unit, another one half a unit."""
    item = table.get(site_pk(host), CURRENT, consistent=consistent)
    current = _current_of(item) if item else None
    _remember(_cache.current, host, (datetime.now(UTC), current))
    return current


def reload(host: str) -> Site | None:
    """Return a site's configuration by a strongly consistent read; None if the site is unknown or removed. Raises like `load`."""
    current = read_current(host)
    return None if current is None or current.is_removed else _in_force(host, current)


def load_all(partition: str = SITES) -> tuple[list[Site], list[BadSite]]:
    """Return all sites that have a readable version, and those whose newest version cannot be read; with POLLS only sites with feeds."""
    outcomes = _documents({item["sk"]: _current_of(item) for item in table.query(partition, consistent=False)})
    good = [site for _, site in sorted(outcomes.items()) if isinstance(site, Site)]
    bad = [BadSite(host, str(error)) for host, error in outcomes.items() if isinstance(error, BadConfiguration)]
    bad += [BadSite(site.host, site.fault) for site in good if site.fault]
    return good, sorted(bad, key=lambda site: site.host)


def hosts() -> list[str]:
    """Return the hosts of all sites, with an eventually consistent query."""
    return [item["sk"] for item in table.query(SITES, consistent=False)]


def forget() -> None:
    """Empty the cache, like a cold start."""
    _cache.current.clear()
    _cache.documents.clear()


def site_pk(host: str) -> str:
    return f"site#{host}"


def version_sk(number: int) -> str:
    return f"v{number:06d}"


def read_document(item: Mapping[str, Any], host: str) -> Site:
    """Parse the document of a version's item. Raises BadConfiguration."""
    site = read_site(item["document"], int(item["sk"][1:]))
    if site.host != host:
        raise BadConfiguration(f"host: {site.host} is not {host}, the site that the version belongs to")
    return site


def _in_force(host: str, current: Current) -> Site:
    """Return the newest readable version. Raises BadConfiguration."""
    outcome = _documents({host: current})[host]
    if isinstance(outcome, BadConfiguration):
        # Without the traceback, whose frames would keep the request in memory.
        raise BadConfiguration(str(outcome))
    return outcome


def _documents(current: Mapping[str, Current]) -> dict[str, Site | BadConfiguration]:
    """Return the sites of the versions in force by host, or why they cannot be used. Those that are not cached are read and parsed."""
    outcomes, missing = {}, {}
    for host, version in current.items():
        cached, outcome = _cache.documents.get(host, (None, None))
        if outcome and cached == version:
            outcomes[host] = outcome
        else:
            missing[host] = (site_pk(host), version_sk(version.version))
    # A version never changes. But it may have been written a moment ago, so a single one is read strongly consistent.
    items = table.get_many(missing.values(), consistent=len(missing) == 1) if missing else {}
    for host, key in missing.items():
        outcomes[host] = _parse(host, current[host], items.get(key))
        _remember(_cache.documents, host, (current[host], outcomes[host]))
    return outcomes


def _parse(host: str, current: Current, item: Mapping[str, Any] | None) -> Site | BadConfiguration:
    try:
        return read_document(item or {}, host)
    except (BadConfiguration, KeyError) as error:
        fault = f"version {current.version} cannot be read: {error if item else 'it is missing'}"
    numbers = range(current.version - 1, max(0, current.version - 1 - LOOK_BACK_MAX), -1)
    earlier = table.get_many([(site_pk(host), version_sk(number)) for number in numbers])
    for _, before in sorted(earlier.items(), reverse=True):
        if "document" not in before:  # the site was removed at that time
            break
        try:
            return read_document(before, host).model_copy(update={"fault": fault})
        except BadConfiguration:
            continue
    return BadConfiguration(fault)


def _current_of(item: Mapping[str, Any]) -> Current:
    return Current(int(item["rev"]), item["digest"], "removed" in item, "deletes_files" in item)


def _remember(cache: dict[str, Any], host: str, value: Any) -> None:
    cache.pop(host, None)
    if len(cache) >= CACHED_MAX:
        del cache[next(iter(cache))]
    cache[host] = value
