"""What Search Console knows of each submitted sitemap, in the table under `notified#<site>`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from stoppress.aws.codec import from_item, to_item
from stoppress.aws.items import Item
from stoppress.notify.state import STATE_KEPT, notified_pk
from stoppress.primitives.instants import epoch_seconds

if TYPE_CHECKING:  # show_site reads what was reported, and asks nobody
    from stoppress.notify.search_console import Report

# Beginning of the sort keys.
CONSOLE = "console#"
# A little less than a day: the sweep comes each hour.
READ_EVERY = timedelta(hours=23, minutes=30)


@dataclass(frozen=True, slots=True)
class SubmittedSitemap:
    """A sitemap, when it was submitted last, and the report on it that was read at `read_at`.

    `downloaded_at`: when Google read the sitemap last. `urls`: how many URLs Google found in it, by type.
    """

    file: str
    submitted_at: datetime | None = None
    read_at: datetime | None = None
    downloaded_at: datetime | None = None
    is_pending: bool = False
    errors: int = 0
    warnings: int = 0
    urls: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_to_submit(self) -> bool:
        """Whether the sitemap is new to Search Console, or Google has read it since the last submission and found errors."""
        if self.submitted_at is None:
            return True
        return self.errors > 0 and self.downloaded_at is not None and self.downloaded_at > self.submitted_at

    def is_to_read(self, now: datetime) -> bool:
        """Whether the report is due."""
        return self.submitted_at is not None and (self.read_at is None or self.read_at + READ_EVERY <= now)

    def with_report(self, report: "Report", now: datetime) -> "SubmittedSitemap":
        return replace(
            self,
            read_at=now,
            downloaded_at=report.downloaded_at,
            is_pending=report.is_pending,
            errors=report.errors,
            warnings=report.warnings,
            urls=report.urls,
        )


def submitted_key(site: str, file: str) -> tuple[str, str]:
    return notified_pk(site), f"{CONSOLE}{file}"


def submitted_item(site: str, sitemap: SubmittedSitemap, now: datetime) -> Item:
    """The item of a sitemap, which expires STATE_KEPT after this write."""
    return to_item(sitemap, submitted_key(site, sitemap.file), ttl=epoch_seconds(now + STATE_KEPT))


def submitted_in(stored: Iterable[Item]) -> list[SubmittedSitemap]:
    """The sitemaps among the items of a site's partition."""
    return [from_item(SubmittedSitemap, item) for item in stored if item["sk"].startswith(CONSOLE)]
