"""Divide the feeds among runs, and lease each share.

All feeds of a host are in one share: a hash of the host, modulo the number of shares. So one lease for each share, instead of one
for each host, ensures that one run at a time polls a host. The hash depends on the number of shares, which changes with the
configuration. Therefore the minute's run leases share 0 before it announces the others, and keeps this lease until all of them have
ended. A run that starts late stops at that instant as well, and one that starts after it polls nothing.

A stack with few feeds has one share: the minute's run polls all, announces nothing and returns its lease early.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from stoppress.aws.items import Item
from stoppress.primitives.instants import exact, parse

# The feeds that one run can poll in its minute. At 200 ms for a feed, sixteen concurrent requests take 13 of its 42 seconds.
FEEDS_A_RUN = 1_000
# Longer than the time-out of poll_feeds (template.yaml). The rest of the minute is for a schedule event that arrives early.
LEASE = timedelta(seconds=52)
# The detail type on the bus, as in the rule of template.yaml.
ANNOUNCED = "feeds due"

# The keys of these feeds take at most 300 KB of the 400 KB of an item.
_UNREACHED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Share:
    """The feeds for one run: those whose host has this `number`, modulo `of`. The run ends at `until`."""

    number: int
    of: int
    until: datetime

    @property
    def key(self) -> tuple[str, str]:
        """Return the key of the lease's item. poll_feeds may write only partitions that begin with `feed#`."""
        return "feed#", f"run-{self.number}"

    def has(self, url: str) -> bool:
        """Return True if the feed with this configured URL belongs to the share. The targets of its redirects do not matter."""
        return self.of == 1 or crc32((urlsplit(url).hostname or "").encode()) % self.of == self.number

    def lease(self, unreached: Sequence[str], until: datetime | None = None) -> Item:
        """Return the item with which a run leases the share. `unreached`: partition keys of the feeds to poll first."""
        pk, sk = self.key
        item = {"pk": pk, "sk": sk, "leased_until": exact(until or self.until)}
        return item | ({"unreached": list(unreached[:_UNREACHED_MAX])} if unreached else {})


def first_share(feeds: int, now: datetime) -> Share:
    """Return share 0, which the minute's run polls itself. `feeds` decides how many shares there are."""
    return Share(0, max(1, ceil(feeds / FEEDS_A_RUN)), now + LEASE)


def read_announcement(event: Mapping[str, Any]) -> Share | None:
    """Return the share that an event of the bus announces; None for the event of the schedule."""
    if event.get("detail-type") != ANNOUNCED:
        return None
    detail = event["detail"]
    return Share(int(detail["share"]), int(detail["of"]), parse(detail["until"]))
