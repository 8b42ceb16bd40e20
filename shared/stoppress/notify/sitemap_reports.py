"""The submitted sitemaps, and an item for each read by Google that a report of Search Console showed, under `notified#<site>`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from statistics import median

from stoppress.aws import table
from stoppress.aws.codec import from_item, to_item
from stoppress.aws.items import Item
from stoppress.model.news_window import is_current
from stoppress.notify.page_state import STATE_KEPT, notified_pk
from stoppress.primitives.instants import epoch_seconds, exact, parse, whole

# The report on a sitemap is read each day (a little less, because the sweep comes each hour), and this often while a story is unread.
READ_EVERY, READ_UNREAD_EVERY = timedelta(hours=23, minutes=30), timedelta(minutes=10)
UNREAD_MAX = 200  # the most stories whose waits are counted in one read
# Google reads a sitemap often if reports showed this many reads in a day. Then LEFT_UNREAD_AFTER without a read is a problem.
READS_OFTEN, DAY = 6, timedelta(days=1)
LEFT_UNREAD_AFTER = timedelta(hours=6)
# Beginnings of sort keys: of sitemaps in Search Console, and of Google's reads of them.
CONSOLE, READ = "console#", "read#"


@dataclass(frozen=True, slots=True)
class SubmittedSitemap:
    """A sitemap, when it was submitted last, and the report on it that was read at `read_at`.

    `downloaded_at`: Google's last read. `urls`: the number of URLs in it, by type. `unread`: when stories were listed that are unread.
    """

    file: str
    submitted_at: datetime | None = None
    read_at: datetime | None = None
    downloaded_at: datetime | None = None
    errors: int = 0
    warnings: int = 0
    urls: Mapping[str, int] = field(default_factory=dict)
    unread: tuple[datetime, ...] = ()

    @property
    def is_to_submit(self) -> bool:
        """Return True if the sitemap is new to Search Console, or Google found errors in it since the last submission."""
        if self.submitted_at is None:
            return True
        return self.errors > 0 and self.downloaded_at is not None and self.downloaded_at > self.submitted_at

    def is_to_read(self, now: datetime) -> bool:
        """Return True if the report is due."""
        every = READ_UNREAD_EVERY if self.is_unread(now) else READ_EVERY
        return self.submitted_at is not None and (self.read_at is None or self.read_at + every <= now)

    def is_due(self, now: datetime) -> bool:
        """Return True if the sitemap has to be submitted, or its report has to be read."""
        return self.is_to_submit or self.is_to_read(now)

    def is_unread(self, now: datetime) -> bool:
        """Return True if Google has not read a story of the news window."""
        return bool(self.unread) and is_current(self.unread[-1], now)


def submitted_key(site: str, file: str) -> tuple[str, str]:
    return notified_pk(site), f"{CONSOLE}{file}"


def submitted_item(site: str, sitemap: SubmittedSitemap, now: datetime) -> Item:
    """Return the item of a sitemap, which expires STATE_KEPT after this write."""
    return to_item(sitemap, submitted_key(site, sitemap.file), ttl=epoch_seconds(now + STATE_KEPT))


def submitted_in(stored: Iterable[Item]) -> list[SubmittedSitemap]:
    """Return the sitemaps among the items of a site's partition."""
    return [from_item(SubmittedSitemap, item) for item in stored if item["sk"].startswith(CONSOLE)]


def note_report(site: str, new: SubmittedSitemap, now: datetime) -> SubmittedSitemap:
    """Store a report, and a new read by Google with the waits that it ended. Other runs may write the item at the same time."""

    def change(old: SubmittedSitemap) -> SubmittedSitemap:
        last = max(filter(None, (old.downloaded_at, new.downloaded_at)), default=None)
        if last is None or last == old.downloaded_at:
            return replace(new, unread=old.unread, downloaded_at=last)
        read = whole(last)  # S3 and Google may cut an instant to the second
        waits = [int((read - listed).total_seconds()) for listed in old.unread if listed < read]
        key = {"pk": notified_pk(site), "sk": f"{READ}{new.file}#{exact(read)}"}
        table.put_if(key | {"waits": waits, "ttl": epoch_seconds(now + STATE_KEPT)})
        return replace(new, unread=tuple(listed for listed in old.unread if listed >= read))

    return _update(site, new.file, now, change)


def note_unread(site: str, file: str, listed: Sequence[datetime], now: datetime) -> bool:
    """Store when stories were listed in a news sitemap. Return True if no other story is unread, so no message requests the report."""
    sitemap = _update(site, file, now, lambda old: replace(old, unread=(*old.unread, *listed)[-UNREAD_MAX:]))
    return len(sitemap.unread) == len(listed) or not is_current(sitemap.unread[-len(listed) - 1], now)


def _update(site: str, file: str, now: datetime, change: Callable[..., SubmittedSitemap]) -> SubmittedSitemap:
    def change_item(item: Item | None) -> Item:
        return submitted_item(site, change(from_item(SubmittedSitemap, item or {"file": file})), now)

    return from_item(SubmittedSitemap, table.update(submitted_key(site, file), change_item) or {})


def reads_since(site: str, file: str, since: datetime) -> list[tuple[datetime, Sequence[int]]]:
    """Return Google's reads of a sitemap after an instant, the newest first, with the seconds that the stories it read first had waited."""
    prefix = f"{READ}{file}#"
    stored = table.query(notified_pk(site), prefix=prefix, consistent=False, newest_first=True)
    later = takewhile(lambda item: item["sk"] > f"{prefix}{exact(since)}", stored)
    return [(parse(item["sk"].removeprefix(prefix)), item["waits"]) for item in later]


def median_wait_s(site: str, file: str, now: datetime) -> float | None:
    """Return the median seconds from a story's listing to Google's first read of it, in the last day. None: no report shows one."""
    waits = [wait for _, of_read in reads_since(site, file, now - DAY) for wait in of_read]
    return median(waits) if waits else None


def describe_unread(stored: Sequence[Item], now: datetime) -> Iterator[str]:
    """Yield a sentence for each sitemap that Google read often until it stopped. `stored` are all items under `notified#<site>`."""
    for sitemap in submitted_in(stored):
        last, read_at, prefix = sitemap.downloaded_at, sitemap.read_at, f"{READ}{sitemap.file}#"
        if last and read_at and sitemap.is_unread(now) and read_at - last >= LEFT_UNREAD_AFTER:
            earliest = f"{prefix}{exact(last - DAY)}"
            if sum(item["sk"].startswith(prefix) and item["sk"] > earliest for item in stored) >= READS_OFTEN:
                yield f"Google has left {sitemap.file} unread"
