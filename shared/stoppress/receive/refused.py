"""Reports of what receive_webhook refuses or ignores, for record_article to keep. Only a refusal imports this module."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import queues
from stoppress.aws.refusals import Report

# Anyone can post to a known source. So an execution environment reports a source's wrong signatures at most once in this time.
UNVERIFIED_EVERY = timedelta(minutes=1)
# How many levels of a delivery, and how many objects of a level, are searched for an article.
_LEVELS_MAX = 4
_OBJECTS_MAX = 100


@dataclass(slots=True)
class _Unverified:
    """The number of a source's wrong signatures since its last report, and when that report was sent."""

    number: int = 0
    reported_at: datetime | None = None


_unverified: dict[tuple[str, str], _Unverified] = {}


def forget() -> None:
    """Forget the numbers of wrong signatures, like a cold start."""
    _unverified.clear()


def send(report: Report) -> None:
    """Send a report. If the queue fails, the report is lost: the sender needs the answer more."""
    with suppress(Exception):
        queues.send_articles([report])


def count_unverified(site: str, source: str, now: datetime) -> None:
    """Count a request to a known source with a wrong signature. The first one is reported at once.

    Lambda may stop an execution environment before its next report. So the stored count is a lower bound.
    """
    waiting = _unverified.setdefault((site, source), _Unverified())
    waiting.number += 1
    if waiting.reported_at is None or not timedelta() <= now - waiting.reported_at < UNVERIFIED_EVERY:
        number, waiting.number, waiting.reported_at = waiting.number, 0, now
        send(Report(site=site, source=source, at=now, unverified=number))


def named_in(document: Any) -> dict[str, str]:
    """`id` and `url` of the article in a delivery, as far as they are found.

    The search begins at the object `data`, or at the whole document if there is none. It goes down level by level, to
    the first object with a text as `url`. If no object has one, the `id` of the object where the search began counts.
    """
    data = document.get("data") if isinstance(document, dict) else None
    top = data if isinstance(data, dict) else document
    level = [top]
    for _ in range(_LEVELS_MAX):
        objects = [each for each in level if isinstance(each, dict)][:_OBJECTS_MAX]
        for each in objects:
            if isinstance(each.get("url"), str):
                return _names(each)
        level = [value for each in objects for value in each.values()]
    return _names(top)


def _names(data: Any) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    texts = {name: data.get(name) for name in ("id", "url")}
    return {
        name: str(text) for name, text in texts.items() if isinstance(text, str | int) and text and text is not True
    }
