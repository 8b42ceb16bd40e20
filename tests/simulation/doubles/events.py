"""In-memory double of EventBridge."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

from stoppress_cli.local.template import ACCOUNT, REGION, Json


class Events:
    """EventBridge buses: `arrived` is called for each entry."""

    def __init__(self, arrived: Callable[[str, Json], None]) -> None:
        self._arrived = arrived
        self._put = 0

    def put_events(self, *, Entries: list[Json]) -> Json:  # noqa: N803
        answers = []
        for entry in Entries:
            self._put += 1
            at = entry.get("Time", datetime.now(UTC))
            event = {
                "version": "0",
                "id": f"event-{self._put}",
                "detail-type": entry["DetailType"],
                "source": entry["Source"],
                "account": ACCOUNT,
                "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "region": REGION,
                "resources": entry.get("Resources", []),
                "detail": json.loads(entry["Detail"]),
            }
            self._arrived(str(entry["EventBusName"]).rsplit("/", 1)[-1], event)
            answers.append({"EventId": event["id"]})
        return {"FailedEntryCount": 0, "Entries": answers}
