"""Results of requests and of the items of a delivery, and reports of refused and ignored items, which record_article stores."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stoppress.aws import queues, sites
from stoppress.model.event import ArticleEvent, Incomplete
from stoppress.model.exclusion_reasons import warnings_of
from stoppress.model.site import BadConfiguration, Site

if TYPE_CHECKING:  # most cold starts do not need this module
    from stoppress.aws.refusals import Outcome, Report

# The status that asks the sender to try again.
OUR_FAULT = 503
# Anyone can post to a known source. So an execution environment reports a source's wrong signatures at most once in this time.
UNVERIFIED_EVERY = timedelta(minutes=1)
# How many levels of a delivery, and how many objects of a level, are searched for an article.
_LEVELS_MAX = 4
_OBJECTS_MAX = 100


class Refused(Exception):
    """A refused request: the status and the error text of its answer, and further values for the answer (`about`).

    `cause` is only logged, because anyone may have sent the request.
    """

    def __init__(self, status: int, error: str | ValueError, *, cause: str = "", **about: Any) -> None:
        super().__init__(str(error))
        self.status, self.error, self.cause, self.about = status, error, cause, about
        self.cause_to_log = {"cause": cause} if cause else {}


def load_site(host: str, has_part: Callable[[Site], object]) -> Site:
    """Load a site, and load it again if its cached configuration lacks a part. Raises UnknownSite and Refused."""
    try:
        site = sites.load(host)
        return site if has_part(site) else sites.load(host, age_max=sites.MISSED_AGE_MAX)
    except BadConfiguration as error:
        reason = "this site cannot be served at the moment: send it again"
        raise Refused(OUR_FAULT, reason, cause=str(error)) from None


# By site and source: the number of wrong signatures since the last report, and when that report was sent.
_unverified: dict[tuple[str, str], tuple[int, datetime]] = {}


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of one item of a delivery: the message to queue (None if the item is ignored), and the answer to the sender.

    `names` has `id` and `url` of the article, if the item contains them. `delivery` is the sender's id of the delivery.
    """

    message: ArticleEvent | Incomplete | None
    answer: dict[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
    delivery: str | None = None


def take_event(
    event: ArticleEvent, action: str, site: Site, now: datetime, unknown: Mapping[str, object], **about: Any
) -> Taken:
    """Return an event for the queue with its answer. The answer has the values of `about` that are not empty.

    `action` is the sender's verb. `unknown` has the fields that are not part of our contract, with their values.
    """
    answer = {"status": "queued", "site": event.site, "source": event.source}
    answer |= {"id": event.id} if event.id else {"url": str(event.url)}
    about |= {"warnings": warnings_of(event, site, now, unknown)}
    answer |= {"action": action} | {name: value for name, value in about.items() if value}
    return Taken(event, answer, event.named)


def report_of(
    site: Site, name: str, now: datetime, taken: Iterable[Taken], outcome: "Outcome" = "ignored"
) -> "Report | None":
    """Return the report of the items without a message, or None if there are none.

    It has at most SLOTS items, so that it always fits into one SQS message.
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
    """Reset the counts of wrong signatures, as a cold start does."""
    _unverified.clear()


def send_report(report: "Report | None") -> None:
    """Send a report, if there is one. If the queue fails, the report is lost, because the answer to the sender has priority."""
    with suppress(Exception):
        queues.send_articles([report] if report else [])


def count_unverified(site: str, source: str, now: datetime, because: str) -> None:
    """Count a request to a known source with a wrong signature. The first one is reported immediately.

    Lambda may stop an execution environment before its next report. So the stored count is a lower bound.
    """
    number, reported_at = _unverified.get((site, source), (0, None))
    if reported_at is None or not timedelta() <= now - reported_at < UNVERIFIED_EVERY:
        from stoppress.aws.refusals import Report

        send_report(Report(site=site, source=source, at=now, unverified=number + 1, because=because))
        _unverified[site, source] = (0, now)
    else:
        _unverified[site, source] = (number + 1, reported_at)


def named_in(document: Any) -> dict[str, str]:
    """Return `id`, `url` and `title` of the article in a delivery, without those that are missing.

    The search begins at the object `data`, or at the whole document if there is none. It goes down level by level, to
    the first object with a text as `url`. If no object has one, the object where the search began counts.
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
    texts = {name: data.get(name) for name in ("id", "url", "title")}
    return {
        name: str(text) for name, text in texts.items() if isinstance(text, str | int) and text and text is not True
    }
