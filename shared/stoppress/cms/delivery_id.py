"""The sender's id of a delivery, which decides whether a delivery is a repeat."""

import json
from collections.abc import Mapping
from typing import Any

# Real ids have fewer than 100 characters. The limit keeps a queue's message far below the 1 MiB of SQS.
CHARACTERS_MAX = 500


def delivery_id(headers: Mapping[str, str], item: Any = None) -> str | None:
    """Return the id that the sender's protocol keeps constant over all attempts; None if there is no such id.

    `headers` have names in lower case, `item` is one item of the delivery. Standard Webhooks 1.0 has the header `webhook-id`.
    A CloudEvent is identified by `id` and `source` (CloudEvents 1.0.2, "source").
    """
    if headers.get("webhook-id"):
        return headers["webhook-id"]
    if not isinstance(item, dict) or "specversion" not in item:
        return None
    parts = [item.get("id"), item.get("source")]
    return json.dumps(parts)[:CHARACTERS_MAX] if all(isinstance(part, str) and part for part in parts) else None
