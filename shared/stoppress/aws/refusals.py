"""Deliveries that became no event: refused articles and ignored events, and counts of unverified requests.

receive_webhook sends them in a message of the articles queue, and record_article stores them for 90 days in the partition
`refused#<site>`. An item `<day>#<source>` counts a day of a source, and `<day>#<source>#<slot>` holds one refusal. A day of a
source has SLOTS slots, so it keeps the newest SLOTS refusals. A message that the queue delivers twice counts twice.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

from stoppress.primitives.instants import epoch_seconds, exact, parse

# How long `stoppress explain` can show a refusal: as long as a story.
KEPT = timedelta(days=90)
# How many refusals of a source are kept of one day.
SLOTS = 50
# The longest texts of an id, a URL, a reason and a delivery's id.
CHARACTERS_MAX = {"id": 512, "url": 2_000, "reason": 500, "delivery": 200}
# The message's field by which record_article recognises it.
FIELD = "refusals"
# Other messages of a batch may be recorded at the same time in another container.
_ATTEMPTS_MAX = 5

Outcome: TypeAlias = Literal["refused", "ignored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A verified article or event that was refused (answer 400) or ignored (answer 200), and why.

    `id`, `url` and `delivery` (the sender's id of the delivery) are as the sender gave them, and empty where unknown.
    """

    at: datetime
    source: str
    outcome: Outcome
    reason: str
    id: str = ""
    url: str = ""
    delivery: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many refusals a source had on a day (`YYYY-MM-DD`, UTC).

    `refused` counts refused and ignored articles. `unverified` is a lower bound: it counts requests with a wrong signature, of
    which each container of receive_webhook reports at most once a minute, and loses the rest when Lambda stops it.
    """

    day: str
    source: str
    refused: int = 0
    unverified: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a message: refusals of one source, and a number of unverified requests at the instant `at`."""

    site: str
    source: str
    at: datetime
    refusals: tuple[Refusal, ...] = ()
    unverified: int = 0

    def message(self) -> str:
        """The message for the articles queue: JSON in ASCII, with long texts cut."""
        texts = [
            {name: value for name in ("outcome", *CHARACTERS_MAX) if (value := _bounded(refusal, name))}
            for refusal in self.refusals
        ]
        fields: dict[str, Any] = {"site": self.site, "source": self.source, "at": exact(self.at), FIELD: texts}
        return json.dumps(fields | ({"unverified": self.unverified} if self.unverified else {}))


def read_report(document: Mapping[str, Any]) -> Report:
    """Read the JSON of a message that `Report.message` wrote. Raises ValueError."""
    try:
        at, source = parse(document["at"]), str(document["source"])
        refusals = tuple(_refusal(source, at, texts) for texts in document[FIELD])
        return Report(
            site=str(document["site"]),
            source=source,
            at=at,
            refusals=refusals,
            unverified=int(document.get("unverified", 0)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the message is no report of refusals: {error!r}") from None


def keep(reports: Iterable[Report]) -> None:
    """Store reports and count them. Raises Conflict if other writers were faster in every attempt, and the table's errors."""
    by_day: dict[tuple[str, str, str], list[Report]] = defaultdict(list)
    for report in reports:
        by_day[report.site, report.source, _day(report.at)].append(report)
    for (site, source, day), of_day in by_day.items():
        _keep_day(site, source, day, of_day)


def read(site: str) -> Iterator[Refusal]:
    """The stored refusals of a site, newest first."""
    yield from sorted((refusal for _, refusal in stored(site)), key=lambda refusal: refusal.at, reverse=True)


def stored(site: str) -> Iterator[tuple[dict[str, Any], Refusal]]:
    """The items with refusals of a site, each with its refusal."""
    for item in _items(site):
        if not _is_count(item):
            yield item, _refusal(item["sk"].split("#")[1], parse(item["at"]), item)


def counts(site: str) -> list[Count]:
    """The counts of each day and source of a site, newest day first."""
    return sorted(
        map(_count, filter(_is_count, _items(site))), key=lambda count: (count.day, count.source), reverse=True
    )


def refused_pk(site: str) -> str:
    """Partition of a site's refusals."""
    return f"refused#{site}"


def _keep_day(site: str, source: str, day: str, reports: Sequence[Report]) -> None:
    from stoppress.aws import table  # receive_webhook, which only sends reports, starts without it

    refusals = [refusal for report in reports for refusal in report.refusals]
    pk, sk = refused_pk(site), f"{day}#{source}"
    ttl = epoch_seconds(max(report.at for report in reports) + KEPT)
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        item = table.get(pk, sk)
        before = _count(item) if item else Count(day=day, source=source)
        after = replace(
            before,
            refused=before.refused + len(refusals),
            unverified=before.unverified + sum(report.unverified for report in reports),
        )
        counted = {"pk": pk, "sk": sk, "refused": after.refused, "unverified": after.unverified, "ttl": ttl}
        try:
            table.put(counted, int(item["rev"]) if item else None)
            break
        except table.Conflict:
            if attempt == _ATTEMPTS_MAX:
                raise
            table.back_off(attempt)
    slots = {
        number % SLOTS: refusal for number, refusal in enumerate(refusals, before.refused)
    }  # a batch of more than SLOTS refusals keeps its last ones
    table.put_many([_item(pk, f"{sk}#{slot:02}", refusal, ttl) for slot, refusal in slots.items()])


def _item(pk: str, sk: str, refusal: Refusal, ttl: int) -> dict[str, Any]:
    texts = {name: value for name in ("outcome", *CHARACTERS_MAX) if (value := _bounded(refusal, name))}
    return {"pk": pk, "sk": sk, "at": exact(refusal.at), **texts, "ttl": ttl}


def _items(site: str) -> Iterator[dict[str, Any]]:
    from stoppress.aws import table

    return table.query(refused_pk(site), consistent=False)


def _is_count(item: Mapping[str, Any]) -> bool:
    return "at" not in item


def _count(item: Mapping[str, Any]) -> Count:
    day, source = item["sk"].split("#")
    return Count(day=day, source=source, refused=int(item["refused"]), unverified=int(item["unverified"]))


def _refusal(source: str, at: datetime, texts: Mapping[str, Any]) -> Refusal:
    outcome: Outcome = "ignored" if texts["outcome"] == "ignored" else "refused"
    return Refusal(
        at=at,
        source=source,
        outcome=outcome,
        reason=str(texts.get("reason", "")),
        id=str(texts.get("id", "")),
        url=str(texts.get("url", "")),
        delivery=str(texts.get("delivery", "")),
    )


def _bounded(refusal: Refusal, name: str) -> str:
    """A text of a refusal, cut to its longest length. A lone surrogate, which DynamoDB refuses, becomes a question mark."""
    text: str = getattr(refusal, name)
    return text[: CHARACTERS_MAX.get(name)].encode(errors="replace").decode()


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
