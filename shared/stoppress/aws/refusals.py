"""Refusals: events that listed no page, so that an editor can find them. Also counts requests with a wrong signature.

receive_webhook sends what it refuses or ignores to the articles queue as a Report, and record_article stores it for 90 days. The items
are in the partition `refused#<site>`. The item `<day>#<source>` has the counts of a source's day, and `<day>#<source>#<slot>` has one
refusal. A new refusal overwrites the oldest one when all SLOTS are used. A report that the queue delivers twice counts twice.
record_article adds removed, held and excluded articles, as `<day>#<source>#<instant>#<id>`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError

from stoppress.aws import table
from stoppress.aws.codec import from_item, to_item
from stoppress.aws.items import Item, is_kept
from stoppress.model.event import ArticleEvent
from stoppress.model.validation import explain
from stoppress.primitives.instants import epoch_seconds, exact

# How long a refusal is kept: as long as a page's story.
KEPT = timedelta(days=90)
# How many refusals of one source are kept from each day.
SLOTS = 50
# The longest texts of an id, a URL, a reason and a delivery's id, in bytes of UTF-8. JSON in ASCII has at most six characters for
# each byte. So a report of SLOTS refusals always fits into a message of SQS.
BYTES_MAX = {"id": 512, "url": 2_000, "title": 150, "reason": 500, "delivery": 200}
# The field by which record_article recognises a report.
FIELD = "refusals"

Outcome: TypeAlias = Literal["refused", "ignored", "removed", "held", "excluded"]
# The outcomes of recorded events that list no page.
UNLISTED: frozenset[Outcome] = frozenset({"removed", "held", "excluded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An article that was refused (answer 400), an event that was ignored (answer 200), or one that listed no page; and why.

    The request's signature was valid. `id`, `url` and `title` are as the sender sent them. `delivery` is the sender's id of the
    delivery. Unknown texts are empty.
    """

    at: datetime
    source: str
    outcome: Outcome
    reason: str = ""
    id: str = ""
    url: str = ""
    title: str = ""
    delivery: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The counts of a source's day (`YYYY-MM-DD`, UTC).

    `refused` counts refused articles and ignored events. `unverified` counts requests with a wrong signature. This number
    is a lower bound: each execution environment reports once a minute, and Lambda may stop an environment before its report.
    `unverified_at` is the time of the last report, and `unverified_because` the fault of its last request.
    """

    day: str
    source: str
    refused: int = 0
    unverified: int = 0
    unverified_at: datetime | None = None
    unverified_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A message of the articles queue: refusals of one source at the instant `at`.

    `unverified` is the number of requests with a wrong signature before that instant, `because` the fault of the last one.
    """

    __pydantic_config__ = ConfigDict(defer_build=True)

    site: str
    source: str
    at: datetime
    refusals: tuple[Refusal, ...] = ()
    unverified: int = 0
    because: str = ""

    def message(self) -> str:
        """Return the message for the articles queue: JSON in ASCII, with long texts cut."""
        because = _cut_text(self.because, BYTES_MAX["reason"])
        cut = replace(self, refusals=tuple(map(_cut, self.refusals)), because=because)
        return _REPORTS.dump_json(cut, ensure_ascii=True).decode()


_REPORTS = TypeAdapter(Report)


def read_report(document: Mapping[str, Any]) -> Report:
    """Read the JSON of a message that `Report.message` wrote. Raises ValueError."""
    try:
        return _REPORTS.validate_python(document)
    except ValidationError as error:
        raise ValueError(f"the message is no report of refusals: {explain(error)}") from None


def keep(reports: Iterable[Report]) -> None:
    """Store and count the refusals of reports. Raises Conflict if another writer was faster in every attempt."""
    by_day: dict[tuple[str, str], list[Report]] = defaultdict(list)
    for report in reports:
        by_day[refused_pk(report.site), f"{report.at.astimezone(UTC).date()}#{report.source}"].append(report)
    for (pk, sk), of_day in by_day.items():
        refusals = [refusal for report in of_day for refusal in report.refusals]
        ttl = epoch_seconds(max(report.at for report in of_day) + KEPT)
        first = _count_more((pk, sk), len(refusals), [report for report in of_day if report.unverified], ttl)
        # If there are more than SLOTS refusals, the last SLOTS stay.
        slots = {number % SLOTS: refusal for number, refusal in enumerate(refusals, first)}
        table.put_many(
            [
                to_item(_cut(refusal), (pk, f"{sk}#{slot:02}"), without=("source",), ttl=ttl)
                for slot, refusal in slots.items()
            ]
        )


def unlisted_item(
    event: ArticleEvent, outcome: Outcome, reason: str, url: str, title: str, now: datetime
) -> dict[str, Any]:
    """Return the item of a recorded event that lists no page. A repeated message writes the same item again."""
    at = event.received_at or now
    refusal = _cut(
        Refusal(at=at, source=event.source, outcome=outcome, reason=reason, id=event.id or "", url=url, title=title)
    )
    sk = f"{at.astimezone(UTC).date()}#{event.source}#{exact(at)}#{refusal.id}"
    return to_item(refusal, (refused_pk(event.site), sk), without=("source",), ttl=epoch_seconds(now + KEPT))


def read(site: str, number: int, now: datetime) -> list[Refusal]:
    """Return the newest refusals of a site, at most `number`, newest first. Those past their time to live are left out.

    The sort keys order a day's refusals by source and slot. So whole days are read, newest first, until there are enough.
    """
    current = ((item, refusal) for item, refusal in stored(site) if is_kept(item, now))
    refusals: list[Refusal] = []
    for _, of_day in groupby(current, key=lambda pair: pair[0]["sk"].partition("#")[0]):
        refusals += sorted((refusal for _, refusal in of_day), key=lambda refusal: refusal.at, reverse=True)
        if len(refusals) >= number:
            break
    return refusals[:number]


def stored(site: str) -> Iterator[tuple[dict[str, Any], Refusal]]:
    """Yield the items with refusals of a site, newest day first, each with its refusal. Some may be past their time to live."""
    for item in table.query(refused_pk(site), consistent=False, newest_first=True):
        if "at" in item:  # the others are counts
            yield item, from_item(Refusal, item, source=item["sk"].split("#")[1])


def counts_of_day(site: str, day: date, sources: Iterable[str]) -> list[Count]:
    """Return the counts of one day, without sources that have none. 100 sources take one read."""
    keys = [(refused_pk(site), f"{day}#{source}") for source in sources]
    items = table.get_many(keys, consistent=False)
    return [from_item(Count, item, day=str(day), source=sk.split("#")[1]) for (_, sk), item in items.items()]


def refused_of_day(site: str, count: Count) -> list[Refusal]:
    """Return the kept refusals with the answer 400 of a source's day, newest first, without ignored events. Takes one or two reads."""
    keys = [(refused_pk(site), f"{count.day}#{count.source}#{slot:02}") for slot in range(min(count.refused, SLOTS))]
    day = [from_item(Refusal, item, source=count.source) for item in table.get_many(keys, consistent=False).values()]
    refused = (refusal for refusal in day if refusal.outcome == "refused")
    return sorted(refused, key=lambda refusal: refusal.at, reverse=True)


def refused_pk(site: str) -> str:
    return f"refused#{site}"


def _count_more(key: tuple[str, str], refused: int, unverified: Sequence[Report], ttl: int) -> int:
    """Add to the counts of a day. Return how many refusals the day had before. Raises Conflict."""
    last = max(unverified, key=lambda report: report.at, default=None)

    def count_more(item: Item | None) -> Item:
        before = from_item(Count, item or {}, day="", source="")
        requests = before.unverified + sum(report.unverified for report in unverified)
        count = replace(before, refused=before.refused + refused, unverified=requests)
        if last:
            count = replace(count, unverified_at=last.at, unverified_because=last.because)
        return to_item(count, key, without=("day", "source"), ttl=ttl)

    item = table.update(key, count_more) or {}
    return int(item.get("refused", 0)) - refused


def _cut(refusal: Refusal) -> Refusal:
    """Cut the texts of a refusal. DynamoDB refuses lone surrogates, which become question marks."""
    texts: dict[str, Any] = {name: _cut_text(getattr(refusal, name), size) for name, size in BYTES_MAX.items()}
    return replace(refusal, **texts)


def _cut_text(text: str, size: int) -> str:
    return text.encode(errors="replace")[:size].decode(errors="ignore")
