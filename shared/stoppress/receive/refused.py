"""What becomes of each item of a delivery, and the reports of what is refused or ignored, for record_article to keep."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stoppress.aws import queues
from stoppress.model.event import ArticleEvent, Incomplete
from stoppress.model.site import Site

if TYPE_CHECKING:  # a cold start whose first delivery is good needs no refusals
    from stoppress.aws.refusals import Outcome, Report

# Anyone can post to a known source. So an execution environment reports a source's wrong signatures at most once in this time.
UNVERIFIED_EVERY = timedelta(minutes=1)
# How many levels of a delivery, and how many objects of a level, are searched for an article.
_LEVELS_MAX = 4
_OBJECTS_MAX = 100


# For each site and source: the number of wrong signatures since the last report, and when that report was sent.
_unverified: dict[tuple[str, str], tuple[int, datetime]] = {}


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of one item of a delivery: the message to queue (None if the item is ignored), and the answer to the sender.

    `names` has `id` and `url` of the article, as far as they are known. `delivery` is the sender's id of the delivery.
    """

    message: ArticleEvent | Incomplete | None
    answer: dict[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
    delivery: str | None = None


def report_of(
    site: Site, name: str, now: datetime, taken: Iterable[Taken], outcome: "Outcome" = "ignored"
) -> "Report | None":
    """Return the report of the items without a message, or None if there are none.

    It has at most SLOTS items, so that it always fits in one message of SQS.
    """
    without_message = [item for item in taken if item.message is None]
    if not without_message:
        return None
    from stoppress.aws.refusals import SLOTS, Refusal, Report

    refusals = tuple(
        Refusal(
            at=now,
            source=name,
            outcome=outcome,
            reason=str(item.answer["reason"]),
            delivery=item.delivery or "",
            **item.names,
        )
        for item in without_message[:SLOTS]
    )
    return Report(site=site.host, source=name, at=now, refusals=refusals)


def forget() -> None:
    """Forget the numbers of wrong signatures, like a cold start."""
    _unverified.clear()


def send_report(report: "Report | None") -> None:
    """Send a report, if there is one. If the queue fails, the report is lost: the sender needs the answer more."""
    with suppress(Exception):
        queues.send_articles([report] if report else [])


def count_unverified(site: str, source: str, now: datetime) -> None:
    """Count a request to a known source with a wrong signature. The first one is reported at once.

    Lambda may stop an execution environment before its next report. So the stored count is a lower bound.
    """
    number, reported_at = _unverified.get((site, source), (0, None))
    if reported_at is None or not timedelta() <= now - reported_at < UNVERIFIED_EVERY:
        from stoppress.aws.refusals import Report

        send_report(Report(site=site, source=source, at=now, unverified=number + 1))
        _unverified[site, source] = (0, now)
    else:
        _unverified[site, source] = (number + 1, reported_at)


def named_in(document: Any) -> dict[str, str]:
    """`id` and `url` of the article in a delivery, as far as they are found.

    The search begins at the object `data`, or at the whole document if there is none. It goes down level by level, to
    the first object with a text as `url`. If no object has one, the `id` of the object where the search began counts.
    """
    data = document.get("data") if isinstance(document, dict) else None
    top = data if isinstance(data, dict) else document
    level = [top]
    for _ in range(_LEVELS_MAX):
        objects = [item for item in level if isinstance(item, dict)][:_OBJECTS_MAX]
        if article := next((item for item in objects if isinstance(item.get("url"), str)), None):
            return _names(article)
        level = [value for item in objects for value in item.values()]
    return _names(top)


def _names(data: Any) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    texts = {name: data.get(name) for name in ("id", "url")}
    return {
        name: str(text) for name, text in texts.items() if isinstance(text, str | int) and text and text is not True
    }
