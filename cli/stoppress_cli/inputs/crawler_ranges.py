"""The addresses of crawlers: a user agent is a claim, so the address must be in the ranges that the crawler's operator publishes."""

import json
import os
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from stoppress.http import client
from stoppress.http.errors import FetchError

# Published ranges are kept for a day.
KEPT_FOR = timedelta(days=1)
Ranges = dict[str, list[IPv4Network | IPv6Network]]


def load_ranges(now: datetime) -> tuple[Ranges, list[str]]:
    """Return the ranges of each crawler by its name, and a note on each that cannot be fetched: its ranges are those of this package."""
    packaged = json.loads(Path(__file__).with_name("crawlers.json").read_text("utf-8"))
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stoppress"
    ranges: Ranges = {}
    notes = []
    for name, (url, *lines) in packaged["crawlers"].items():
        try:
            published = _read_published(url, folder / f"{name}.json", now)
            prefixes = [
                prefix.get("ipv4Prefix") or prefix["ipv6Prefix"] for prefix in json.loads(published)["prefixes"]
            ]
            ranges[name] = [ip_network(prefix) for prefix in prefixes]
        except (FetchError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            ranges[name] = [ip_network(prefix) for line in lines for prefix in line.split()]
            notes.append(f"the ranges of {name} are those of {packaged['copied']}: {str(error)[:200]}")
    return ranges, notes


def _read_published(url: str, kept: Path, now: datetime) -> bytes:
    """Return a published list, or the one that was kept for less than a day. Raises FetchError."""
    with suppress(OSError):
        if timedelta() <= now - datetime.fromtimestamp(kept.stat().st_mtime, now.tzinfo) < KEPT_FOR:
            return kept.read_bytes()
    answer = client.fetch(url, {"Accept": "application/json"}, bytes_max=1_000_000, seconds_max=10)
    if answer.status == 200:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(answer.body)
    return answer.body


def is_crawler(ranges: Ranges, name: str, address: str) -> bool:
    """Return True if an address is in one of a crawler's ranges."""
    try:
        return any(ip_address(address) in network for network in ranges[name])
    except ValueError:
        return False
