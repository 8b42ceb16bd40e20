"""Requests for robots.txt and sitemaps in access logs. A client chooses most of a line, so nothing of it is printed.

A user agent is a claim: the address must be in the ranges that the crawler's operator publishes.
"""

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, reduce
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from stoppress.http import client
from stoppress.http.errors import FetchError
from stoppress.primitives.instants import parse, utc, whole

LINE_BYTES_MAX = 65_536  # the rest of a longer line counts as further lines
REPEATS_FOUND_MAX = 200_000  # a repeat is recognised within this many lines
KEPT_FOR = timedelta(days=1)  # published ranges
Ranges = dict[str, list[IPv4Network | IPv6Network]]
_FORMATS = tomllib.loads(Path(__file__).with_name("log_formats.toml").read_text(encoding="utf-8"))
_COMBINED = re.compile(_FORMATS["combined"], re.VERBOSE)
# The fields of a request, with their names in CloudFront's logs.
FIELDS: Mapping[str, str] = _FORMATS["cloudfront"]
_FILE = re.compile(r"robots\.txt|sitemap[a-z0-9.-]{0,200}")


class Fetch(NamedTuple):
    """A request for a file at the root of the host, in UTC and whole seconds."""

    at: datetime
    address: str
    method: str
    file: str
    status: int
    bytes: int
    agent: str


def read_fetches(
    lines: Iterable[bytes], host: str, names: Mapping[str, str], skipped: Counter[str], *, trust_proxy: bool = False
) -> Iterator[Fetch]:
    """Yield the requests for robots.txt and sitemaps of a host. `skipped` counts all other lines by the reason.

    `names` are the field names of JSON lines by those of FIELDS. With `trust_proxy`, the last address of X-Forwarded-For is the client's.
    """
    columns: list[str] = []
    recent, older = set[int](), set[int]()
    for line in lines:
        if line.startswith(b"#Fields:"):
            columns = line.decode(errors="replace").split()[1:]
        if b"sitemap" not in line and b"robots.txt" not in line:
            skipped["other file"] += 1  # most lines of a log: this test is fast
            continue
        text = line.decode(errors="replace").rstrip("\r\n")
        try:
            values = _values(text, columns, names)
            url = urlsplit(values["path"])
            if not _FILE.fullmatch(url.path[1:]):
                skipped["other file"] += 1
            elif (url.hostname or urlsplit(f"//{values['host']}").hostname or host) not in (host, "-"):
                skipped["other host"] += 1
            elif (key := hash(text)) in recent or key in older:
                skipped["repeated line"] += 1
            else:
                yield _fetch(values, url.path[1:], trust_proxy=trust_proxy)
                recent.add(key)
                if len(recent) == REPEATS_FOUND_MAX:
                    recent, older = set[int](), recent
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError, RecursionError):
            skipped["broken: no known format, or a value cannot be read"] += 1


def _values(text: str, columns: list[str], names: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a line as texts. Raises ValueError, KeyError, and AttributeError for another line."""
    if not (text.startswith("{") or columns):
        return _COMBINED.match(text).groupdict("")  # type: ignore[union-attr]
    document: Any = json.loads(text) if text.startswith("{") else dict(zip(columns, text.split("\t"), strict=True))
    if "c-ip" in document:
        values = {name: unquote(unquote(document.get(own, ""))) for name, own in FIELDS.items()}
        return values | {"time": f"{document['date']}T{values['time']}Z"}
    paths = {name: names.get(name, name).split(".") for name in FIELDS}  # `client.ip` is in an object within the object
    return {name: str(reduce(lambda part, key: part.get(key, ""), path, document)) for name, path in paths.items()}


def _fetch(values: Mapping[str, str], file: str, *, trust_proxy: bool) -> Fetch:
    """Return the request of a line. Raises ValueError."""
    forwarded, status = values["forwarded"].strip("- "), int(values["status"])
    if not 100 <= status < 600:
        raise ValueError(status)
    address = forwarded.rpartition(",")[2].strip() if trust_proxy and forwarded else values["address"]
    size_bytes = int(values["bytes"].strip("-") or 0)
    return Fetch(_instant(values["time"]), address, values["method"], file, status, size_bytes, values["agent"])


@lru_cache(maxsize=100_000)  # a day has 86,400 seconds
def _instant(text: str) -> datetime:
    """Read the time of a line: as in the combined log format, ISO 8601, or seconds or milliseconds since 1970. Raises ValueError."""
    if re.fullmatch(r"[0-9]{9,14}(\.[0-9]+)?", text):
        return whole(utc(datetime.fromtimestamp(float(text) / (1_000 if float(text) > 1e11 else 1), UTC)))
    return utc(datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")) if "/" in text else whole(parse(text))


def load_ranges(now: datetime) -> tuple[Ranges, list[str]]:
    """Return the ranges of each crawler by its name, and a note on each list that cannot be fetched, for which this package has a copy."""
    packaged = json.loads(Path(__file__).with_name("crawlers.json").read_text("utf-8"))
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stoppress"
    ranges: Ranges = {}
    notes = []
    for name, (url, *lines) in packaged["crawlers"].items():
        try:
            published = _read_published(url, folder / f"{name}.json", now)
            prefixes = json.loads(published)["prefixes"]
            ranges[name] = [ip_network(prefix.get("ipv4Prefix") or prefix["ipv6Prefix"]) for prefix in prefixes]
        except (FetchError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            ranges[name] = [ip_network(prefix) for line in lines for prefix in line.split()]
            notes.append(f"the ranges of {name} are those of {packaged['copied']}: {str(error)[:200]}")
    return ranges, notes


def _read_published(url: str, copy: Path, now: datetime) -> bytes:
    """Return a published list, or its copy of the last day. Raises FetchError."""
    with suppress(OSError):
        if timedelta() <= now - datetime.fromtimestamp(copy.stat().st_mtime, now.tzinfo) < KEPT_FOR:
            return copy.read_bytes()
    answer = client.fetch(url, {"Accept": "application/json"}, bytes_max=1_000_000, seconds_max=10)
    if answer.status == 200:
        with suppress(OSError):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(answer.body)
    return answer.body


def is_crawler(ranges: Ranges, name: str, address: str) -> bool:
    """Return True if an address is in one of a crawler's ranges."""
    try:
        return any(ip_address(address) in network for network in ranges[name])
    except ValueError:
        return False
