"""What Search Console knows of each submitted sitemap, in the table under `told#<site>`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stoppress.aws.items import Item
from stoppress.primitives.instants import epoch_seconds, exact, parse
from stoppress.tell.state import STATE_KEPT, told_pk

if TYPE_CHECKING:  # show_site reads what was reported, and asks nobody
    from stoppress.tell.search_console import Report

# Beginning of the sort keys.
CONSOLE = "console#"
# A little less than a day: the sweep comes each hour.
READ_EVERY = timedelta(hours=23, minutes=30)

_INSTANTS = {"submitted_at", "read_at", "downloaded_at"}
_COUNTS = ("errors", "warnings")


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
    return told_pk(site), f"{CONSOLE}{file}"


def submitted_item(site: str, sitemap: SubmittedSitemap, now: datetime) -> Item:
    """The item of a sitemap; empty values are left out. It expires STATE_KEPT after this write."""
    pk, sk = submitted_key(site, sitemap.file)
    values = {each.name: getattr(sitemap, each.name) for each in fields(sitemap)}
    plain = {name: exact(value) if isinstance(value, datetime) else value for name, value in values.items() if value}
    return {"pk": pk, "sk": sk, "ttl": epoch_seconds(now + STATE_KEPT), **plain}


def submitted_in(stored: Iterable[Item]) -> list[SubmittedSitemap]:
    """The sitemaps among the items of a site's partition."""
    return [_read(item) for item in stored if item["sk"].startswith(CONSOLE)]


def _read(item: Mapping[str, Any]) -> SubmittedSitemap:
    known = {each.name for each in fields(SubmittedSitemap)}
    values: dict[str, Any] = {
        name: parse(value) if name in _INSTANTS else value for name, value in item.items() if name in known
    }
    values["urls"] = {kind: int(number) for kind, number in values.get("urls", {}).items()}
    return SubmittedSitemap(**values | {name: int(values.get(name, 0)) for name in _COUNTS})
