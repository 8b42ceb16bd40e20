"""The door to the sites' configuration: one SSM parameter a site, kept for a minute."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from botocore.exceptions import ClientError

from stoppress.aws import client
from stoppress.site import HOST, BadConfiguration, Site, read_site

CACHE_AGE_MAX = timedelta(seconds=60)

_cache: dict[str, tuple[datetime, Site]] = {}


class UnknownSite(LookupError):
    """No parameter describes this host."""


@dataclass(frozen=True)
class BadSite:
    """A parameter that describes no usable site, and why."""

    name: str
    reason: str


def load(host: str, at_least: int = 0) -> Site:
    """The configuration of a site, not older than a minute and not of a version below `at_least`.

    Raises UnknownSite, and BadConfiguration where the parameter cannot be used.
    """
    if not HOST.fullmatch(host):
        raise UnknownSite(f"{host[:120]!r} is not a host name")
    now = datetime.now(UTC)
    name = f"{os.environ['SITES_PATH']}/{host}"
    if name in _cache:
        read_at, site = _cache[name]
        if timedelta() <= now - read_at < CACHE_AGE_MAX and site.version >= at_least:
            return site
    try:
        parameter = client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise
        raise UnknownSite(f"no parameter {name}: add it to have this site kept") from None
    site = _checked(host, parameter["Value"], parameter["Version"])
    _cache[name] = (now, site)
    return site


def load_all() -> tuple[list[Site], list[BadSite]]:
    """All sites of the stack as they are now, and the parameters that describe none."""
    path = os.environ["SITES_PATH"]
    pages = client("ssm").get_paginator("get_parameters_by_path").paginate(Path=path, WithDecryption=True)
    good, bad = [], []
    for parameter in (parameter for page in pages for parameter in page["Parameters"]):
        host = parameter["Name"].removeprefix(f"{path}/")
        try:
            good.append(_checked(host, parameter["Value"], parameter["Version"]))
        except BadConfiguration as error:
            bad.append(BadSite(parameter["Name"], str(error)))
    return good, bad


def forget() -> None:
    """Forget what is kept, as a cold start does."""
    _cache.clear()


def _checked(host: str, text: str, version: int) -> Site:
    site = read_site(text, version)
    if site.host != host:
        raise BadConfiguration(f"host: {site.host} is not the {host} of the parameter's name")
    return site
