"""Which series of shards a page goes into: the period of its first publication in UTC, and its section if the site asks."""

import re
import unicodedata
from datetime import datetime
from typing import Literal

from stoppress.model.site import Site

# A section's part of a file name, so that the name stays readable.
CATEGORY_CHARACTERS_MAX = 40


def period_of(instant: datetime, by: Literal["day", "month", "year"]) -> str:
    """The series of shards that an instant (UTC) falls into: 2026-11-20, 2026-11 or 2026."""
    return instant.date().isoformat()[: {"day": 10, "month": 7, "year": 4}[by]]


def shard_series(site: Site, instant: datetime, section: str | None) -> str:
    """The shard series of a page first published at an instant: its period, plus its section if the site configures that."""
    period = period_of(instant, site.shards.by)
    plain = unicodedata.normalize("NFKD", section or "").encode("ascii", "ignore").decode().lower()
    category = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:CATEGORY_CHARACTERS_MAX]
    # The section must not look like a file's number: `formula-2` would be the second file of `formula`.
    category = re.sub(r"-(?=[0-9-]*$)", "", category)
    return f"{period}-{category}" if site.shards.per_section and category[:1].isalpha() else period
