"""The sites' configuration: one parameter a site in Parameter Store, and further parameters where a site has many feeds.

Any function may load one site, and caches it for a minute. Only roll_window and reconcile_sites page through all parameters.
roll_window registers the hosts in the table and stores what it applied. poll_feeds reads the stored configurations,
because Parameter Store allows 40 calls a second in an account, at ten parameters a call.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client, leaving
from stoppress.model.site import HOST, BadConfiguration, Site, read_site
from stoppress.primitives.instants import exact, parse

CACHE_AGE_MAX = timedelta(seconds=60)
# After this long no function uses a replaced configuration: 60 s cache + 60 s run + 30 s clock skew.
SETTLED_AFTER = CACHE_AGE_MAX * 2.5
# If a cached configuration lacks what a function looks for, and is older than this, the function reads it again.
MISSED_AGE_MAX = timedelta(seconds=5)
# Seconds that a webhook needs after the attempt to read the registry: for configuration, secret and queue.
READS_LEFT_S = 5.0
# If roll_window has not confirmed the stored configurations for this long, poll_feeds reads Parameter Store itself.
CONFIRMED_AGE_MAX = timedelta(minutes=10)
# reconcile_sites runs every night; two more hours let a run be late.
RECONCILED_EVERY = timedelta(hours=26)
# Partition of the registry: the hosts that roll_window has seen. It tells a site without a parameter from an invented
# host. For each site that sets `silent_after_hours`, the registry also has the time of the last event. One query reads
# the whole partition.
REGISTRY = "sites"
# Sort keys in the registry that are not hosts: roll_window's confirmation, and the time by which reconcile_sites must
# run.
CONFIRMATION = "#confirmation"
RECONCILIATION = "#reconciliation"
# Suffix of the sort key of a site's last event: <host>#heard.
_HEARD = "#heard"
# Last part of the name of a parameter with further feeds: <path>/<host>/feeds-1.
FURTHER_FEEDS = re.compile(r"feeds-([1-9][0-9]{0,3})")

# DynamoDB, quotas: an item has at most 400 KB, the names of its attributes included. A configuration is one item of the table, and
# leaves 2 KB to its other attributes.
ITEM_BYTES_MAX = 409_600
CONFIGURATION_BYTES_MAX = ITEM_BYTES_MAX - 2_048

# Suffix of the cache key of a configuration that cannot be used.
_UNUSABLE = "#unusable"
# Each value has the time of its read. Keys: the name of a parameter for its site, the same name and _UNUSABLE for the error's text,
# and REGISTRY for the registered hosts.
_cache: dict[str, tuple[datetime, Any]] = {}
_NEVER = datetime.min.replace(tzinfo=UTC)


class UnknownSite(LookupError):
    """No parameter describes this host."""


class RetiredSite(UnknownSite):
    """The host's parameter is gone, and an operator has retired the site."""


@dataclass(frozen=True)
class BadSite:
    """A parameter with an unusable configuration, and why."""

    name: str
    host: str
    reason: str


@dataclass(frozen=True)
class Heard:
    """When a site's last event was recorded, and the version of the site's configuration then."""

    at: datetime
    version: int


@dataclass(frozen=True)
class Registry:
    """The hosts that roll_window has seen: with a parameter (`present`) and without (`gone`). `heard` has last events by host.

    At `confirmed_at` every stored configuration equalled the parameter in Parameter Store.
    """

    present: frozenset[str]
    gone: frozenset[str]
    heard: Mapping[str, Heard]
    confirmed_at: datetime | None
    reconciliation_due: datetime | None


def load(host: str, at_least: int = 0, age_max: timedelta = CACHE_AGE_MAX) -> Site:
    """A site's configuration, without the feeds of further parameters.

    It was read at most `age_max` ago and has at least version `at_least`. If Parameter Store does not answer, the cached
    configuration is used, however old. Raises UnknownSite if there is no parameter, and BadConfiguration if the parameter cannot
    be used.
    """
    if not HOST.fullmatch(host):
        raise UnknownSite(f"{host[:120]!r} is not a host name")
    now = datetime.now(UTC)
    name = parameter_name(host)
    known: Site | None = _cache.get(name, (_NEVER, None))[1]
    if known and _is_cached(name, age_max) and known.version >= at_least:
        return known
    try:
        parameter = client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == "ParameterNotFound":
            _cache.pop(name, None)
            raise _unknown(name) from None
        if known and known.version >= at_least:
            # For MISSED_AGE_MAX the cached site counts as fresh, so that a batch waits only once for Parameter Store's time-out.
            _cache[name] = (datetime.now(UTC) - CACHE_AGE_MAX + MISSED_AGE_MAX, known)
            return known
        raise
    site = _checked(host, parameter)
    _cache[name] = (now, site)
    return site


def load_registered(host: str, age_max: timedelta = CACHE_AGE_MAX) -> Site:
    """Like `load`, for a host from an unverified request. A host that is not in the registry costs no call of Parameter Store.

    A registered host whose parameter cannot be used costs one call in MISSED_AGE_MAX. roll_window registers a new site seconds
    after the site's parameter is created. Until then the site is unknown. roll_window notes within a minute that a parameter is
    gone.
    """
    name = parameter_name(host)
    if name not in _cache and not _is_registered(host):
        raise _unknown(name)
    unusable = f"{name}{_UNUSABLE}"
    if _is_cached(unusable, MISSED_AGE_MAX) and not _is_cached(name, age_max):
        raise BadConfiguration(_cache[unusable][1])
    try:
        return load(host, age_max=age_max)
    except BadConfiguration as error:
        # The error itself would keep the frames of its traceback in memory, and the request with them.
        _cache[unusable] = (datetime.now(UTC), str(error))
        raise


def _is_cached(name: str, age_max: timedelta) -> bool:
    """Whether the cache entry is younger than `age_max`."""
    return name in _cache and _is_younger(_cache[name][0], age_max)


def _is_younger(read_at: datetime, age_max: timedelta) -> bool:
    return timedelta() <= datetime.now(UTC) - read_at < age_max


def _is_registered(host: str) -> bool:
    """Whether the host is registered and has a parameter. Reads the registry at most once in MISSED_AGE_MAX.

    Also true if the registry could never be read: webhooks must work even while the table does not answer.
    """
    hosts = _cache.get(REGISTRY, (_NEVER, None))[1]
    if not _is_cached(REGISTRY, CACHE_AGE_MAX if hosts and host in hosts else MISSED_AGE_MAX):
        try:
            with leaving(READS_LEFT_S):
                hosts = registry().present
        except (ClientError, BotoCoreError) as error:
            logging.getLogger(__name__).warning("the registry of sites cannot be read: %r", error)
        _cache[REGISTRY] = (datetime.now(UTC), hosts)
    return hosts is None or host in hosts


def _unknown(name: str) -> UnknownSite:
    return UnknownSite(f"no parameter {name}: create it to add this site")


def parameter_name(host: str) -> str:
    return f"{os.environ['SITES_PATH']}/{host}"


def load_usable(host: str, at_least: int = 0) -> Site:
    """Like `load`, but falls back to the last applied configuration if the parameter cannot be used.

    Otherwise a typing error would keep expired and removed pages in the files. Raises like `load` if none was applied.
    """
    try:
        return load(host, at_least)
    except BadConfiguration:
        site = last_applied(host)
        if site is None:
            raise
        return site


def load_kept(host: str, at_least: int = 0) -> Site:
    """Like `load_usable`, but falls back to the last applied configuration if the parameter is gone. Raises RetiredSite too.

    For work that began while the site had a parameter: its files and its held articles.
    """
    try:
        return load_usable(host, at_least)
    except UnknownSite as error:
        applied = _applied(host)
        if applied and "retired_at" in applied:
            raise RetiredSite(str(error)) from None
        site = _read_applied(applied)
        if site is None:
            raise
        return site


def last_applied(host: str) -> Site | None:
    """The configuration that the site's files were last written with, as roll_window keeps it; None if none can be read."""
    return _read_applied(_applied(host))


def _applied(host: str) -> dict[str, Any] | None:
    from stoppress.aws import table  # imported here: receive_webhook needs neither, and would start more slowly
    from stoppress.aws.items import configuration_key

    return table.get(*configuration_key(host))


def _read_applied(applied: dict[str, Any] | None) -> Site | None:
    if applied is None or "retired_at" in applied:
        return None
    try:
        site = read_site(applied["document"], int(applied["version"]))
        return site.model_copy(update={"feeds_versions": applied.get("feeds_versions", "")})
    except BadConfiguration:  # an older version of the stack had other settings
        return None


def load_all(host: str | None = None) -> tuple[list[Site], list[BadSite]]:
    """The stack's sites from Parameter Store, and the parameters that cannot be used. With `host`, only that site."""
    path = os.environ["SITES_PATH"]
    parameters = {
        parameter["Name"].removeprefix(f"{path}/"): parameter
        for parameter in (_parameters(path) if host is None else parameters_of(host))
    }
    further: dict[str, dict[str, Any]] = {}
    for name, parameter in parameters.items():
        site_host, _, part = name.partition("/")
        if part:
            further.setdefault(site_host, {})[part] = parameter
    good, bad = [], []
    for site_host in (name for name in parameters if "/" not in name):
        try:
            good.append(_checked(site_host, parameters[site_host], further.get(site_host, {})))
        except BadConfiguration as error:
            bad.append(BadSite(f"{path}/{site_host}", site_host, str(error)))
    return good, bad


def load_all_usable() -> tuple[list[Site], list[BadSite]]:
    """Like `load_all`, but the first list also has the last applied configurations of the sites in the second."""
    good, bad = load_all()
    return good + [applied for site in bad if (applied := last_applied(site.host))], bad


def load_polled(now: datetime) -> tuple[list[Site], list[BadSite]]:
    """The sites to poll: those with a parameter, as roll_window last applied them.

    If roll_window has not confirmed the stored configurations for CONFIRMED_AGE_MAX, Parameter Store is read instead.
    """
    from stoppress.aws import table
    from stoppress.aws.items import configuration_key

    known = registry()
    good: list[Site] = []
    bad: list[BadSite] = []
    hosts = known.present
    if known.confirmed_at is None or now - known.confirmed_at > CONFIRMED_AGE_MAX:
        good, bad = load_all()
        hosts = frozenset(site.host for site in bad)
    applied = table.get_many(map(configuration_key, sorted(hosts)), consistent=False)
    return good + [site for item in applied.values() if (site := _read_applied(item))], bad


def registry() -> Registry:
    """Read the registry with one query. The query is eventually consistent, at half the price, so a new host may be missing."""
    # Importing `table` would slow receive_webhook's cold start. One page suffices: 1 MB holds some 20,000 hosts.
    items = client("dynamodb").query(
        TableName=os.environ["TABLE_NAME"],
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": REGISTRY}},
    )["Items"]
    noted = {item["sk"]["S"]: item for item in items if "#" in item["sk"]["S"]}
    instants = {sk: parse(item["at"]["S"]) for sk, item in noted.items()}
    hosts = {item["sk"]["S"]: "gone" in item for item in items if item["sk"]["S"] not in noted}
    return Registry(
        present=frozenset(host for host, is_gone in hosts.items() if not is_gone),
        gone=frozenset(host for host, is_gone in hosts.items() if is_gone),
        heard={
            sk.removesuffix(_HEARD): Heard(instants[sk], int(item["version"]["N"]))
            for sk, item in noted.items()
            if sk.endswith(_HEARD)
        },
        confirmed_at=instants.get(CONFIRMATION),
        reconciliation_due=instants.get(RECONCILIATION),
    )


def registered() -> set[str]:
    """The hosts in the registry, with and without a parameter."""
    known = registry()
    return {*known.present, *known.gone}


def register(host: str, *, gone: bool = False) -> None:
    """Add a host to the registry. With `gone`, record that its parameter is gone."""
    from stoppress.aws import table

    table.put_if({"pk": REGISTRY, "sk": host} | ({"gone": True} if gone else {}))


def heard(site: Site, now: datetime) -> None:
    """Record in the registry that an event of the site came at `now`."""
    _note(f"{site.host}{_HEARD}", now, version=site.version)


def expect_reconciliation(now: datetime) -> None:
    """Record by when reconcile_sites, which has just run, must run again."""
    _note(RECONCILIATION, now + RECONCILED_EVERY)


def _note(sk: str, at: datetime, **values: int) -> None:
    from stoppress.aws import table

    table.put_if({"pk": REGISTRY, "sk": sk, "at": exact(at), **values})


def confirm(known: Registry, now: datetime) -> None:
    """Record in the registry that all stored configurations equal Parameter Store's, unless a recent record says so."""
    if known.confirmed_at is None or now - known.confirmed_at >= CONFIRMED_AGE_MAX / 2:
        _note(CONFIRMATION, now)


def retire(host: str, now: datetime) -> None:
    """Retire a site without a parameter.

    Its registry entry is deleted last: until then roll_window still reports the missing parameter. The configuration's
    item then has neither version nor document, so a parameter created later counts as new.
    """
    from stoppress.aws import table
    from stoppress.aws.items import configuration_key

    pk, sk = configuration_key(host)
    applied = _applied(host)
    rev = int(applied["rev"]) if applied else None
    table.put({"pk": pk, "sk": sk, "retired_at": exact(now)}, rev)
    table.delete(REGISTRY, f"{host}{_HEARD}")
    table.delete(REGISTRY, host)


def forget() -> None:
    """Empty the cache, like a cold start."""
    _cache.clear()


def _parameters(path: str) -> Iterator[dict[str, Any]]:
    """All parameters below a path. Without botocore's paginator, for the reason given in `table.query`."""
    page: dict[str, Any] = {"NextToken": ""}
    while "NextToken" in page:
        start = {"NextToken": page["NextToken"]} if page["NextToken"] else {}
        page = client("ssm").get_parameters_by_path(Path=path, Recursive=True, WithDecryption=True, **start)
        yield from page["Parameters"]


def parameters_of(host: str) -> Iterator[dict[str, Any]]:
    """A site's parameter, if there is one, then its parameters with further feeds."""
    name = parameter_name(host)
    try:
        yield client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise
    yield from _parameters(name)


def _checked(host: str, parameter: Mapping[str, Any], further: Mapping[str, Mapping[str, Any]] | None = None) -> Site:
    """The site that its parameter and `further` describe. Raises BadConfiguration.

    `further` has the parameters with further feeds, by the last part of their names.
    """
    further = further or {}
    if unknown := sorted(name for name in further if not FURTHER_FEEDS.fullmatch(name)):
        raise BadConfiguration(
            f"{host}/{unknown[0]}: a site's further parameters are called feeds-1, feeds-2, …: delete this one"
        )
    names = sorted(further, key=lambda name: int(name.removeprefix("feeds-")))
    site = read_site(parameter["Value"], parameter["Version"], {name: further[name]["Value"] for name in names})
    if site.host != host:
        raise BadConfiguration(f"host: {site.host} is not the {host} of the parameter's name")
    if not names:  # one parameter has at most 8 KB
        return site
    versions = " ".join(f"{name}:{further[name]['Version']}" for name in names)
    check_size(site, versions)
    return site.model_copy(update={"feeds_versions": versions})


def check_size(site: Site, versions: str) -> None:
    """Raises BadConfiguration if the site's configuration with all feeds does not fit into an item of the table.

    `versions` are the names and versions of the parameters with feeds.
    """
    size = len(site.model_dump_json().encode()) + len(versions)
    if size > CONFIGURATION_BYTES_MAX:
        raise BadConfiguration(
            f"{site.host}: its configuration with all feeds has {size:,} bytes, at most {CONFIGURATION_BYTES_MAX:,} fit into an item"
            " of the table: name fewer feeds"
        )
