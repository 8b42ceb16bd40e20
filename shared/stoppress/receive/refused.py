"""Reports to record_article what receive_webhook refuses or ignores. receive_webhook imports this module only for a refusal."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import queues
from stoppress.aws.refusals import Report

# A stranger may post to a known source. So a container reports wrong signatures of a source at most once in this time.
UNVERIFIED_EVERY = timedelta(minutes=1)
# How deep, and among how many objects, a delivery is searched for an article.
_LEVELS_MAX = 4
_OBJECTS_MAX = 100


@dataclass(slots=True)
class _Unverified:
    """The requests of a source with a wrong signature since the last report, and when that report was sent."""

    number: int = 0
    reported_at: datetime | None = None


_unverified: dict[tuple[str, str], _Unverified] = {}


def forget() -> None:
    """Forget the numbers of unverified requests, as a new container does."""
    _unverified.clear()


def send(report: Report) -> None:
    """Send a report alone. If the queue fails, the report is lost: the answer to the sender matters more."""
    with suppress(Exception):
        queues.send_articles([report])


def count_unverified(site: str, source: str, now: datetime) -> None:
    """Count a request with a wrong signature to a known source. The first one is reported at once.

    The numbers of a container that Lambda stops are lost, so the stored count is a lower bound.
    """
    waiting = _unverified.setdefault((site, source), _Unverified())
    waiting.number += 1
    if waiting.reported_at is None or not timedelta() <= now - waiting.reported_at < UNVERIFIED_EVERY:
        number, waiting.number, waiting.reported_at = waiting.number, 0, now
        send(Report(site=site, source=source, at=now, unverified=number))


def named_in(document: Any) -> dict[str, str]:
    """`id` and `url` of the article in a delivery, as far as they are found.

    They are in the first object with a text `url`, `data` of our own contract before all others. Without such an object, an `id`
    counts in `data` or at the top.
    """
    data = document.get("data") if isinstance(document, dict) else None
    level = [data if isinstance(data, dict) else document]
    for _ in range(_LEVELS_MAX):
        objects = [each for each in level if isinstance(each, dict)][:_OBJECTS_MAX]
        for each in objects:
            if isinstance(each.get("url"), str):
                return _names(each)
        level = [value for each in objects for value in each.values()]
    return _names(data if isinstance(data, dict) else document)


def _names(data: Any) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    texts = {name: data.get(name) for name in ("id", "url")}
    return {
        name: str(text) for name, text in texts.items() if isinstance(text, str | int) and text and text is not True
    }
