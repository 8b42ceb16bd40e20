"""The index of due work: a partition for each kind of work, with the due instant as sort key.

A query of a partition up to now finds what is due, for one site or for ten thousand. A record points to the work and does not contain
it. It stays until the work is done: `roll_window` deletes it then, or moves it to a later instant.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from stoppress.aws import table
from stoppress.aws.items import file_pk, read_news
from stoppress.aws.table import Put
from stoppress.model.news_window import window_end
from stoppress.primitives.instants import exact, parse

# The messages of `due#<site>`: articles that are released, and files that were emptied a day ago.
MESSAGES = "due-messages"
# News sitemaps whose oldest entry expires.
EXPIRIES = "due-expiries"
# Sites whose files must be rewritten after a change, and sites and functions that must have been active by then.
SITES = "due-sites"
KINDS = (EXPIRIES, MESSAGES, SITES)

# A site's configuration changed; its newest version cannot be read; a site must have had an event by then; the nightly comparison must
# have run by then.
CONFIGURATION, UNREADABLE, SILENCE, RECONCILIATION = "configuration", "unreadable", "silence", "reconciliation"


@dataclass(frozen=True, slots=True)
class Due:
    """A record: its kind, its due instant, and the work that it points to."""

    kind: str
    at: datetime
    name: str

    @property
    def put(self) -> Put:
        return Put({"pk": self.kind, "sk": self.sk}, guarded=False)

    @property
    def sk(self) -> str:
        return f"{exact(self.at)}#{self.name}"


def messages(host: str, at: datetime) -> Put:
    """Return the record of the messages of a site that are due at this instant. Its name keeps the instant when it is moved."""
    return Due(MESSAGES, at, f"{host}#{exact(at)}").put


def expiry(host: str, file: str, at: datetime) -> Put:
    """Return the record of a news sitemap whose oldest entry expires at this instant."""
    return Due(EXPIRIES, at, f"{host}/{file}").put


def site(work: str, host: str, at: datetime) -> Put:
    """Return the record of work for a site at this instant. RECONCILIATION is for all sites, without a host."""
    return Due(SITES, at, f"{work}#{host}").put


def every(kind: str, until: datetime | None = None) -> Iterator[Due]:
    """Yield the records of a kind, the oldest first; with `until` only those that are due by then.

    The reads are eventually consistent, for half the price: the next minute reads a record that was missed.
    """
    for item in table.query(kind, below=exact(until) + "~" if until else None, consistent=False):
        at, _, name = item["sk"].partition("#")
        yield Due(kind, parse(at), name)


def write(put: Put) -> None:
    """Write a record by itself."""
    table.put_if(put.item)


def write_next_expiry(host: str, file: str) -> bool:
    """Write the record of the oldest entry of a news sitemap. Return False if it has no entry."""
    oldest = next(table.query(file_pk(host, file), page_size=1), None)
    if oldest:
        write(expiry(host, file, window_end(read_news(oldest).published)))
    return oldest is not None


def done(record: Due) -> None:
    """Delete a record: its work is done."""
    table.delete(record.kind, record.sk)


def move(record: Due, at: datetime) -> Due:
    """Move a record to this instant. The new one is written before the old one is deleted, so that a crash loses neither."""
    moved = Due(record.kind, at, record.name)
    write(moved.put)
    done(record)
    return moved
