"""The sites' configuration in Parameter Store: one parameter a site, cached for a minute."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client
from stoppress.model.site import HOST, BadConfiguration, Site, read_site

CACHE_AGE_MAX = timedelta(seconds=60)
# After this long no function uses a replaced configuration: 60 s cache + 60 s run + 30 s clock skew.
SETTLED_AFTER = CACHE_AGE_MAX * 2.5
# A function that misses something in a configuration reads it again if it is older than this.
MISSED_AGE_MAX = timedelta(seconds=5)
# Partition of the hosts that roll_window has handled, so that a site without a parameter is still known. It also has the last
# event of each site that sets `silent_after_hours`, and when reconcile_sites must have run: roll_window reads all of it at once.
REGISTRY = "sites"
RECONCILIATION = "#reconciliation"
# reconcile_sites runs every night.
RECONCILED_EVERY = timedelta(hours=26)
# How many hosts without a site are cached. Without a limit, a sender that invents hosts would fill the memory.
UNKNOWN_MAX = 1_000

# End of the sort key of a site's last event.
_HEARD = "#heard"

_cache: dict[str, tuple[datetime, Site | None]] = {}


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
    """When the last event of a site came, and the version of the configuration under which it was recorded."""

    at: datetime
    version: int


@dataclass(frozen=True)
class Registry:
    """The hosts that roll_window has handled, the last event by host, and when reconcile_sites must have run again."""

    hosts: frozenset[str]
    heard: Mapping[str, Heard]
    reconciliation_due: datetime | None


def load(
    host: str, at_least: int = 0, age_max: timedelta = CACHE_AGE_MAX, unknown_age_max: timedelta = timedelta()
) -> Site:
    """The configuration of a site, at most `age_max` old and of version `at_least` or later.

    If Parameter Store does not answer, the cached configuration is used. Raises UnknownSite if there is no parameter, or if there
    was none less than `unknown_age_max` ago. Raises BadConfiguration if the parameter cannot be used.
    """
    if not HOST.fullmatch(host):
        raise UnknownSite(f"{host[:120]!r} is not a host name")
    now = datetime.now(UTC)
    name = parameter_name(host)
    unknown = UnknownSite(f"no parameter {name}: add it to have this site kept")
    read_at, known = _cache.get(name, (datetime.min.replace(tzinfo=UTC), None))
    age = now - read_at
    if known and timedelta() <= age < age_max and known.version >= at_least:
        return known
    if not known and timedelta() <= age < unknown_age_max:
        raise unknown
    try:
        parameter = client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == "ParameterNotFound":
            _remember_unknown(name, now)
            raise unknown from None
        if known and known.version >= at_least:
            return known
        raise
    site = _checked(host, parameter["Value"], parameter["Version"])
    _cache[name] = (now, site)
    return site


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
        return read_site(applied["document"], int(applied["version"]))
    except BadConfiguration:  # an older version of the stack had other settings
        return None


def load_all() -> tuple[list[Site], list[BadSite]]:
    """All sites of the stack as they are now, and the parameters that cannot be used."""
    path = os.environ["SITES_PATH"]
    good, bad = [], []
    for parameter in _parameters(path):
        host = parameter["Name"].removeprefix(f"{path}/")
        try:
            good.append(_checked(host, parameter["Value"], parameter["Version"]))
        except BadConfiguration as error:
            bad.append(BadSite(parameter["Name"], host, str(error)))
    return good, bad


def registry() -> Registry:
    """Read the registry. The read is eventually consistent, at half the price: a new host may be missing."""
    from stoppress.aws import table
    from stoppress.primitives.instants import parse

    items = {item["sk"]: item for item in table.query(REGISTRY, consistent=False)}
    due = items.pop(RECONCILIATION, None)
    heard = {
        sk.removesuffix(_HEARD): Heard(parse(item["at"]), int(item["version"]))
        for sk, item in items.items()
        if sk.endswith(_HEARD)
    }
    hosts = frozenset(sk for sk in items if not sk.endswith(_HEARD))
    return Registry(hosts, heard, parse(due["at"]) if due else None)


def registered() -> set[str]:
    """The hosts in the registry, read like `registry`."""
    return set(registry().hosts)


def heard(site: Site, now: datetime) -> None:
    """Note that an event of a site came now."""
    _note(f"{site.host}{_HEARD}", now, version=site.version)


def expect_reconciliation(now: datetime) -> None:
    """Note when reconcile_sites, which has run now, must have run again."""
    _note(RECONCILIATION, now + RECONCILED_EVERY)


def _note(sk: str, at: datetime, **values: int) -> None:
    from stoppress.aws import table
    from stoppress.primitives.instants import exact

    table.put_if({"pk": REGISTRY, "sk": sk, "at": exact(at), **values})


def register(host: str) -> None:
    """Add a host to the registry, if it is not there yet."""
    from stoppress.aws import table

    table.put_if({"pk": REGISTRY, "sk": host})


def retire(host: str, now: datetime) -> None:
    """Retire a site without a parameter. Its registry entry is deleted last: until then the site is still reported.

    The configuration's item then has neither version nor document, so a parameter created later counts as new.
    """
    from stoppress.aws import table
    from stoppress.aws.items import configuration_key
    from stoppress.primitives.instants import exact

    pk, sk = configuration_key(host)
    applied = _applied(host)
    rev = int(applied["rev"]) if applied else None
    table.put({"pk": pk, "sk": sk, "retired_at": exact(now)}, rev)
    table.delete(REGISTRY, f"{host}{_HEARD}")
    table.delete(REGISTRY, host)


def forget() -> None:
    """Empty the cache, like a cold start."""
    _cache.clear()


def _remember_unknown(name: str, now: datetime) -> None:
    unknown = [cached for cached, (_, site) in _cache.items() if site is None]
    if len(unknown) >= UNKNOWN_MAX:
        del _cache[unknown[0]]
    _cache[name] = (now, None)


def _parameters(path: str) -> Iterator[dict[str, Any]]:
    """All parameters below a path. Without botocore's paginator, for the reason given in `table.query`."""
    page: dict[str, Any] = {"NextToken": ""}
    while "NextToken" in page:
        start = {"NextToken": page["NextToken"]} if page["NextToken"] else {}
        page = client("ssm").get_parameters_by_path(Path=path, WithDecryption=True, **start)
        yield from page["Parameters"]


def _checked(host: str, text: str, version: int) -> Site:
    site = read_site(text, version)
    if site.host != host:
        raise BadConfiguration(f"host: {site.host} is not the {host} of the parameter's name")
    return site
