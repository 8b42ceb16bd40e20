"""The payloads in events/ as if sent now, because the built functions use the machine's clock."""

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
# Seconds and milliseconds since 1970, of the surrounding days.
SINCE_1970 = re.compile(r"\b(1795\d{6})(\d{3})?\b")


def event(name: str) -> Any:
    """Return a file's event with all its instants moved by the same time; a webhook is signed again."""
    now = datetime.now(UTC).replace(microsecond=0)
    moved_by = now - WRITTEN_AT
    text = (event_files.EVENTS / name).read_text(encoding="utf-8")
    text = INSTANT.sub(lambda match: _move(match[1], moved_by) + (match[2] or "") + "Z", text)
    text = SINCE_1970.sub(lambda match: str(int(match[1]) + int(moved_by.total_seconds())) + (match[2] or ""), text)
    event = json.loads(text)
    if name == event_files.WEBHOOK:
        _sign(event)
    return event


def _move(instant: str, moved_by: timedelta) -> str:
    return (datetime.fromisoformat(instant) + moved_by).isoformat()


def _sign(webhook: dict[str, Any]) -> None:
    headers = webhook["headers"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{webhook['body']}"
    key = base64.b64decode(event_files.SECRET.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    headers["webhook-signature"] = f"v1,{signature}"
