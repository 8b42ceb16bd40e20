"""The addresses that may be requested: the guard against requests to internal networks (SSRF), and the only DNS lookup."""

import ipaddress
import socket
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import urllib3

from stoppress.http.errors import Refused, Unreachable

PORTS = {"http": 80, "https": 443}

# Networks that `is_global` counts as public, at least in some Python version: old relays, and addresses that contain another
# address.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "169.254.0.0/16",  # link-local: the credentials of EC2, ECS and Lambda
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",
        "240.0.0.0/4",
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",
        "2001::/32",  # Teredo
        "2001:10::/28",  # ORCHID: names, not places
        "2001:20::/28",
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fec0::/10",
    )
)

Resolver = Callable[..., list[tuple[Any, ...]]]


def split_url(url: str) -> tuple[SplitResult, str, int]:
    """Return the URL's parts, its host in ASCII and its port. Raises Refused unless it is a plain http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna" if "." in (parts.hostname or "") else "ascii").decode()
    except (ValueError, UnicodeError) as error:
        raise Refused(f"{url[:200]!r} is not a URL: {error}") from None
    if parts.scheme not in PORTS or not host:
        raise Refused(f"{url[:200]!r} is not an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise Refused(f"the URL of {host} has a user name or password in it")
    return parts, host, PORTS[parts.scheme] if port is None else port


def pool_to(scheme: str, host: str, port: int, resolve: Resolver = socket.getaddrinfo) -> urllib3.HTTPConnectionPool:
    """Return a pool of connections to one address of the host. All addresses of the host must be public.

    The host is looked up once, and the pool connects to the address that was checked. A later change of the DNS answer has
    no effect. TLS still checks the certificate against the host name. Raises Refused and Unreachable.
    """
    if PORTS.get(scheme) != port:
        raise Refused(f"{scheme}://{host}:{port}: only http on port 80 and https on port 443 are fetched")
    try:
        addresses = {ipaddress.ip_address(row[4][0]) for row in resolve(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError, ValueError) as error:
        raise Unreachable(f"{host} has no address: {error}") from None
    if not addresses:
        raise Unreachable(f"{host} has no address")
    for address in addresses:
        if not is_public(address):
            raise Refused(f"{host} has the address {address}, which is not public")
    # IPv4 first: a Lambda function outside a VPC cannot reach IPv6.
    address = min(addresses, key=lambda address: (address.version, int(address)))
    return pool_at((str(address), port), scheme, host)


def pool_at(server: tuple[str, int], scheme: str, host: str) -> urllib3.HTTPConnectionPool:
    """Return a pool of connections to this address and port, whatever the address. TLS checks the certificate against the host name."""
    address, port = server
    if scheme == "http":
        return urllib3.HTTPConnectionPool(address, port, maxsize=1)
    return urllib3.HTTPSConnectionPool(address, port, maxsize=1, ssl_context=_tls(), server_hostname=host)


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return True if an address belongs to the public Internet and contains no other address (R11.2)."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _NOT_PUBLIC if network.version == address.version)


@cache
def _tls() -> ssl.SSLContext:
    # The context is kept, because loading the certificates takes longer than many fetches. By default it checks the certificate
    # and the host name.
    return ssl.create_default_context()
