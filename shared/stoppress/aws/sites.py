"""The door to the sites' configuration: one SSM parameter a site, kept for a minute."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client
from stoppress.model.site import HOST, BadConfiguration, Site, read_site

CACHE_AGE_MAX = timedelta(seconds=60)
# Nobody goes by a configuration any more that has been replaced for so long: it may be kept for a minute by whoever read it just
# before, a function runs for another minute on what it has begun, and half a minute is for the clocks.
SETTLED_AFTER = CACHE_AGE_MAX * 2.5
# Whoever misses something in a configuration looks again where it is older than this, so that what was just added is there.
MISSED_AGE_MAX = timedelta(seconds=5)
# The partition that names each host that roll_window has rolled: so a site is known whose parameter is gone.
REGISTRY = "sites"
# So many hosts that are no sites are remembered: enough for senders that are mistaken, whoever makes hosts up has no end of them.
UNKNOWN_MAX = 1_000

_cache: dict[str, tuple[datetime, Site | None]] = {}


class UnknownSite(LookupError):
    """No parameter describes this host."""


class RetiredSite(UnknownSite):
    """No parameter describes this host any more, and an operator has retired the site."""


@dataclass(frozen=True)
class BadSite:
    """A parameter that describes no usable site, and why."""

    name: str
    host: str
    reason: str


def load(
    host: str, at_least: int = 0, age_max: timedelta = CACHE_AGE_MAX, unknown_age_max: timedelta = timedelta()
) -> Site:
    """The configuration of a site, not older than `age_max` and not of a version below `at_least`.

    While Parameter Store does not answer, what was read before is used. Raises UnknownSite, where there was none less than
    `unknown_age_max` ago as well, and BadConfiguration where the parameter cannot be used.
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
    """The name of a site's parameter."""
    return f"{os.environ['SITES_PATH']}/{host}"


def load_usable(host: str, at_least: int = 0) -> Site:
    """As `load`; where the parameter cannot be used, the site as it was last applied.

    A misspelt key must not keep what has expired or was removed in the files. Raises as `load` where none was applied.
    """
    try:
        return load(host, at_least)
    except BadConfiguration:
        site = last_applied(host)
        if site is None:
            raise
        return site


def load_kept(host: str, at_least: int = 0) -> Site:
    """As `load_usable`; where the parameter is gone, the site as it was last applied. Raises RetiredSite too.

    For what the site began while it had a parameter: its files, and articles that wait for their hour.
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
    """The configuration that the site's files were last written by, as `roll_window` keeps it; None where none can be read."""
    return _read_applied(_applied(host))


def _applied(host: str) -> dict[str, Any] | None:
    from stoppress.aws import table  # webhooks do without it, and without all that it knows of items

    return table.get(*_applied_key(host))


def _applied_key(host: str) -> tuple[str, str]:
    return f"places#{host}", "configuration"


def _read_applied(applied: dict[str, Any] | None) -> Site | None:
    if applied is None or "retired_at" in applied:
        return None
    try:
        return read_site(applied["document"], int(applied["version"]))
    except BadConfiguration:  # an older version of the stack knew other settings
        return None


def load_all() -> tuple[list[Site], list[BadSite]]:
    """All sites of the stack as they are now, and the parameters that describe none."""
    path = os.environ["SITES_PATH"]
    good, bad = [], []
    for parameter in _parameters(path):
        host = parameter["Name"].removeprefix(f"{path}/")
        try:
            good.append(_checked(host, parameter["Value"], parameter["Version"]))
        except BadConfiguration as error:
            bad.append(BadSite(parameter["Name"], host, str(error)))
    return good, bad


def registered() -> set[str]:
    """The hosts in the registry. A host that was registered a moment ago may be missing: that read costs half as much."""
    from stoppress.aws import table

    return {item["sk"] for item in table.query(REGISTRY, consistent=False)}


def register(host: str) -> None:
    """Name a host in the registry; again does no harm."""
    from stoppress.aws import table

    table.put_if({"pk": REGISTRY, "sk": host})


def retire(host: str, now: datetime) -> None:
    """Give a site without a parameter up. Its registry entry goes last: until then the site is still reported.

    The item has neither version nor document: a parameter that is made again is applied as a new one.
    """
    from stoppress.aws import table
    from stoppress.primitives.instants import exact

    pk, sk = _applied_key(host)
    applied = _applied(host)
    rev = int(applied["rev"]) if applied else None
    table.put({"pk": pk, "sk": sk, "retired_at": exact(now)}, rev)
    table.delete(REGISTRY, host)


def forget() -> None:
    """Forget what is kept, as a cold start does."""
    _cache.clear()


def _remember_unknown(name: str, now: datetime) -> None:
    hosts = [one for one, (_, site) in _cache.items() if site is None]
    if len(hosts) >= UNKNOWN_MAX:
        del _cache[hosts[0]]
    _cache[name] = (now, None)


def _parameters(path: str) -> Iterator[dict[str, Any]]:
    """All parameters below a path; page by page, as in `table.query`."""
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
