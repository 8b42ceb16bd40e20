"""Write the versions of a site's configuration, and read its history: see `aws.sites`.

A write is one transaction: the version, the number of the version in force, the lists of sites, and a record that is due (`aws.due`).
The stream record of `current` triggers the rewriting of the files. The due record does so if the stream record is lost.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from stoppress.aws import due, table
from stoppress.aws.sites import CURRENT, POLLS, SITES, site_pk, version_sk
from stoppress.aws.table import Conflict, Delete, Put
from stoppress.model.site import BadConfiguration, Site, read_site
from stoppress.primitives.instants import exact, parse

# An item of DynamoDB has at most 400 KB. A version is read by each function that meets a new one, at a unit for 4 KB.
DOCUMENT_BYTES_MAX = 100 * 1_024
# How long the stream record may take to start the rewriting of a changed site. Then roll_window starts it.
GRACE = timedelta(minutes=1)


class Replaced(Exception):
    """Another author wrote a newer version of the site."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version: its number, when and by whom it was written, and its document; None for a removal."""

    number: int
    at: datetime
    author: str
    document: str | None


def check_document(text: str) -> Site:
    """Return the site that a document describes. Raises BadConfiguration."""
    site = read_site(text, 0)
    if (size_bytes := len(text.encode())) > DOCUMENT_BYTES_MAX:
        raise BadConfiguration(
            f"{site.host}: the document has {size_bytes:,} bytes, at most {DOCUMENT_BYTES_MAX:,} are allowed: give fewer feeds or rules"
        )
    return site


def put(text: str, expected: int, author: str, now: datetime) -> int:
    """Write a document as the next version, and return its number.

    `expected` is the version that the author has seen, 0 for an unknown host. Raises Replaced if another one is in force, and
    BadConfiguration.
    """
    site = check_document(text)
    entry = {"rev": expected + 1, "digest": _digest(text)}
    listing = [Put({"pk": SITES, "sk": site.host} | entry, guarded=False)]
    if site.feeds:
        polling: Put | Delete = Put({"pk": POLLS, "sk": site.host} | entry, guarded=False)
    else:
        polling = Delete(POLLS, site.host)
    silence = (
        [due.site(due.SILENCE, site.host, now + timedelta(hours=hours))] if (hours := site.silent_after_hours) else []
    )
    return _write(site.host, expected, {"document": text}, author, now, [*listing, polling, *silence])


def put_unchecked(host: str, text: str, expected: int, author: str, now: datetime) -> int:
    """Write a document that may be unreadable, like an operator who writes the items by hand. Raises Replaced."""
    listing = {"pk": SITES, "sk": host, "rev": expected + 1, "digest": _digest(text)}
    return _write(host, expected, {"document": text}, author, now, [Put(listing, guarded=False)])


def remove(host: str, expected: int, author: str, now: datetime, *, deletes_files: bool) -> int:
    """Write the removal of a site as its next version, and return its number. Raises Replaced."""
    flags = {"removed": True} | ({"deletes_files": True} if deletes_files else {})
    return _write(host, expected, flags, author, now, [Delete(SITES, host), Delete(POLLS, host)])


def _write(
    host: str,
    expected: int,
    content: Mapping[str, Any],
    author: str,
    now: datetime,
    others: list[Put | Delete],
) -> int:
    number = expected + 1
    version = {"pk": site_pk(host), "sk": version_sk(number), "at": exact(now), "author": author, **content}
    current = {"pk": site_pk(host), "sk": CURRENT, "digest": _digest(str(content.get("document")))}
    current |= {"due": exact(now + GRACE), **{name: flag for name, flag in content.items() if name != "document"}}
    try:
        table.transact(
            [Put(version), Put(current, expected or None), *others, due.site(due.CONFIGURATION, host, now + GRACE)]
        )
    except Conflict:
        raise Replaced(f"another author has written version {number} of {host}: run the command again") from None
    return number


def history(host: str) -> Iterator[Version]:
    """Return all versions of a site, the newest first."""
    return map(_read, table.query(site_pk(host), prefix="v", newest_first=True))


def version(host: str, number: int) -> Version | None:
    item = table.get(site_pk(host), version_sk(number))
    return _read(item) if item else None


def _read(item: Mapping[str, Any]) -> Version:
    return Version(int(item["sk"][1:]), parse(item["at"]), item["author"], item.get("document"))


def same_document(text: str, other: str) -> bool:
    """Return True if two documents have the same content, whatever their form."""
    try:
        return bool(json.loads(text) == json.loads(other))
    except ValueError:
        return False


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
