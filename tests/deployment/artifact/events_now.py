"""The payloads in events/ as if they were sent now: the built functions have the machine's clock."""

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support import event_files

# The webhook's own instant; the other files' are a little after it.
WRITTEN_AT = datetime(2026, 11, 20, 8, tzinfo=UTC)
INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")
# Seconds and milliseconds since 1970, of the days around it.
SINCE_1970 = re.compile(r"\b(1795\d{6})(\d{3})?\b")


def event(name: str) -> Any:
    """A file's event with all its instants moved by one and the same time; a webhook is signed anew."""
    now = datetime.now(UTC).replace(microsecond=0)
    moved_by = now - WRITTEN_AT
    text = (event_files.EVENTS / name).read_text(encoding="utf-8")
    text = INSTANT.sub(lambda found: _moved(found[1], moved_by) + (found[2] or "") + "Z", text)
    text = SINCE_1970.sub(lambda found: str(int(found[1]) + int(moved_by.total_seconds())) + (found[2] or ""), text)
    found = json.loads(text)
    if name == event_files.WEBHOOK:
        _sign(found)
    return found


def _moved(instant: str, moved_by: timedelta) -> str:
    return (datetime.fromisoformat(instant) + moved_by).isoformat()


def _sign(webhook: dict[str, Any]) -> None:
    headers = webhook["headers"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{webhook['body']}"
    key = base64.b64decode(event_files.SECRET.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    headers["webhook-signature"] = f"v1,{signature}"
