"""Read the configurations of the sites, which the table has in versions.

The partition `site#<host>` has an item `current` with the number of the version in force, and an item for each version. A version
never changes, so a function parses each only once. `aws.site_versions` writes them. The partition `sites` lists all sites, and
`polls` those with feeds. Only `load_all` and `load_polled` read these two.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client, leaving
from stoppress.model.site import HOST, BadConfiguration, Site, read_site

# A function may use a replaced configuration for this long. What it wrote meanwhile, `rewrite.sitemaps` writes again.
CACHE_AGE_MAX = timedelta(seconds=60)
# If a cached configuration lacks what a function looks for, and is older than this, the function reads it again.
MISSED_AGE_MAX = timedelta(seconds=5)
# Seconds that a webhook needs after an attempt to read its site: for secret and queue. One attempt (`clients.LIMITS`) must fit into
# the rest of receive_webhook's ten seconds.
READS_LEFT_S = 4.0
# More sites than a function uses in a minute. Strangers can ask for any number of hosts.
CACHED_MAX = 2_000
# An older version than the newest is in force while the newest cannot be read. A reader looks back this far.
LOOK_BACK_MAX = 20
# DynamoDB, quotas: at most 100 keys in a BatchGetItem.
_BATCH_KEYS_MAX = 100

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
    """What an execution environment keeps, by host.

    `current`: when the version in force was read, and what it was; None for an unknown host. `documents`: a version, and its site or why
    it cannot be used.
    """

    current: dict[str, tuple[datetime, Current | None]] = field(default_factory=dict)
    documents: dict[str, tuple[Current, Site | BadConfiguration]] = field(default_factory=dict)


_NEVER = datetime.min.replace(tzinfo=UTC)
_cache = Cache()


def load(host: str, at_least: int = 0, age_max: timedelta = CACHE_AGE_MAX) -> Site:
    """Return a site's configuration as it was at most `age_max` ago, and at least at version `at_least` if there is one.

    While the newest version cannot be read, the version before it is in force, and `Site.fault` has the reason. If the table does not
    answer, the cached configuration is used, however old. Raises UnknownSite, and BadConfiguration if no version can be read.
    """
    if not HOST.fullmatch(host):
        raise UnknownSite(f"{host[:120]!r} is not a host name")
    read_at, current = _cache.current.get(host, (_NEVER, None))
    is_new_enough = datetime.now(UTC) - read_at < (age_max if current else min(age_max, MISSED_AGE_MAX))
    if not is_new_enough or (current and current.version < at_least):
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
    key = {"pk": {"S": site_pk(host)}, "sk": {"S": CURRENT}}
    item = (
        client("dynamodb").get_item(TableName=os.environ["TABLE_NAME"], Key=key, ConsistentRead=consistent).get("Item")
    )
    current = _current_of(item) if item else None
    _remember(_cache.current, host, (datetime.now(UTC), current))
    return current


def reload(host: str) -> Site | None:
    """Return a site's configuration by a strongly consistent read; None if the site is unknown or removed. Raises like `load`."""
    current = read_current(host)
    return None if current is None or current.is_removed else _in_force(host, current)


def load_all() -> tuple[list[Site], list[BadSite]]:
    """Return all sites that have a readable version, and those whose newest version cannot be read."""
    return _load_listed(SITES)


def load_polled() -> tuple[list[Site], list[BadSite]]:
    """Return the sites with feeds, as `load_all` does."""
    return _load_listed(POLLS)


def hosts() -> list[str]:
    """Return the hosts of all sites, with an eventually consistent query."""
    return sorted(_read_list(SITES))


def forget() -> None:
    """Empty the cache, like a cold start."""
    _cache.current.clear()
    _cache.documents.clear()


def site_pk(host: str) -> str:
    """Return the partition of a site's versions."""
    return f"site#{host}"


def version_sk(number: int) -> str:
    """Return the sort key of a version."""
    return f"v{number:06d}"


def read_document(item: Mapping[str, Any], host: str) -> Site:
    """Parse the document of a version's item. Raises BadConfiguration."""
    site = read_site(item["document"]["S"], int(item["sk"]["S"][1:]))
    if site.host != host:
        raise BadConfiguration(f"host: {site.host} is not {host}, the site that the version belongs to")
    return site


def _load_listed(partition: str) -> tuple[list[Site], list[BadSite]]:
    listed = sorted(_read_list(partition).items())
    outcomes = {host: _cache.documents[host][1] for host, current in listed if _is_cached(host, current)}
    missing = [(host, current) for host, current in listed if host not in outcomes]
    outcomes |= _read_documents(dict(missing))
    good = [site for _, site in sorted(outcomes.items()) if isinstance(site, Site)]
    bad = [BadSite(host, str(error)) for host, error in outcomes.items() if isinstance(error, BadConfiguration)]
    return good, sorted(
        bad + [BadSite(site.host, site.fault) for site in good if site.fault], key=lambda site: site.host
    )


def _read_list(partition: str) -> dict[str, Current]:
    """Return the versions in force by host. Without `table`, whose import would slow receive_webhook's cold start."""
    query = {
        "TableName": os.environ["TABLE_NAME"],
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": partition}},
    }
    listed: dict[str, Current] = {}
    page: dict[str, Any] = {"LastEvaluatedKey": None}
    while "LastEvaluatedKey" in page:
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]} if page["LastEvaluatedKey"] else {}
        page = client("dynamodb").query(**query, **start)
        listed |= {item["sk"]["S"]: _current_of(item) for item in page["Items"]}
    return listed


def _in_force(host: str, current: Current) -> Site:
    """Return the newest readable version. Raises BadConfiguration."""
    outcome = _cache.documents[host][1] if _is_cached(host, current) else _read_documents({host: current})[host]
    if isinstance(outcome, BadConfiguration):
        # Without the traceback, whose frames would keep the request in memory.
        raise BadConfiguration(str(outcome))
    return outcome


def _is_cached(host: str, current: Current) -> bool:
    return host in _cache.documents and _cache.documents[host][0] == current


def _read_documents(wanted: Mapping[str, Current]) -> dict[str, Site | BadConfiguration]:
    """Read, parse and cache the versions in force. Return them by host: the cache may be too small for all."""
    keys = [(site_pk(host), version_sk(current.version)) for host, current in wanted.items()]
    items = {item["pk"]["S"]: item for item in _get_many(keys)}
    outcomes = {host: _parse(host, current, items.get(site_pk(host))) for host, current in wanted.items()}
    for host, outcome in outcomes.items():
        _remember(_cache.documents, host, (wanted[host], outcome))
    return outcomes


def _parse(host: str, current: Current, item: Mapping[str, Any] | None) -> Site | BadConfiguration:
    try:
        return read_document(item or {}, host)
    except (BadConfiguration, KeyError) as error:
        fault = f"version {current.version} cannot be read: {error if item else 'it is missing'}"
    numbers = range(max(1, current.version - LOOK_BACK_MAX), current.version)
    earlier = _get_many([(site_pk(host), version_sk(number)) for number in numbers])
    for before in sorted(earlier, key=lambda version: str(version["sk"]["S"]), reverse=True):
        if "document" not in before:  # the site was removed at that time
            break
        try:
            return read_document(before, host).model_copy(update={"fault": fault})
        except BadConfiguration:
            continue
    return BadConfiguration(fault)


def _get_many(keys: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield the items at these keys, eventually consistent: a version never changes. Absent items are left out."""
    wanted = [{"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in keys]
    name = os.environ["TABLE_NAME"]
    while wanted:
        batch, wanted = wanted[:_BATCH_KEYS_MAX], wanted[_BATCH_KEYS_MAX:]
        # A version may have been written a moment ago, so a single one is read strongly consistent.
        request = {name: {"Keys": batch, "ConsistentRead": len(batch) == 1}}
        answer = client("dynamodb").batch_get_item(RequestItems=request)
        yield from answer["Responses"].get(name, [])
        wanted += answer.get("UnprocessedKeys", {}).get(name, {}).get("Keys", [])


def _current_of(item: Mapping[str, Any]) -> Current:
    return Current(int(item["rev"]["N"]), item["digest"]["S"], "removed" in item, "deletes_files" in item)


def _remember(cache: dict[str, Any], host: str, value: Any) -> None:
    cache.pop(host, None)
    if len(cache) >= CACHED_MAX:
        del cache[next(iter(cache))]
    cache[host] = value
