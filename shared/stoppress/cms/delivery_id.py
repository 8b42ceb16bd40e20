"""The sender's id of a delivery, by which a repeated delivery is recognised."""

from collections.abc import Mapping
from typing import Any

# Headers with the id of a delivery, the same in every attempt: Standard Webhooks, CloudEvents, Contentful, Sanity.
DELIVERY_HEADERS = ("webhook-id", "ce-id", "x-contentful-idempotency-key", "idempotency-key")


def delivery_id(headers: Mapping[str, str], envelope: Mapping[str, Any] | None = None) -> str | None:
    """The sender's id of a delivery: from its headers (names in lower case), else the `id` of an event on the bus."""
    ids = [headers.get(name) for name in DELIVERY_HEADERS] + [(envelope or {}).get("id")]
    return next((text for text in ids if isinstance(text, str) and text), None)
