"""An HTTP request, as API Gateway delivers it or as a file has recorded it: its delivery id, and what the log shows of it."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from stoppress.primitives.text import encodable

# The URL of a webhook has one or two parameters.
QUERY_PARAMETERS_MAX = 100
# Real ids have fewer than 100 characters. The limit keeps a queue's message far below the 1 MiB of SQS.
DELIVERY_ID_CHARACTERS_MAX = 500
# A host name (at most 253 characters) is logged whole. A path of 8 KB and texts in a body of 1 MiB are cut.
LOGGED_CHARACTERS_MAX = 300
LOGGED_ITEMS_MAX = 20


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. Header names are lower case. Path, query and body are as sent, not decoded.

    `path_parameters` has the values of the route's placeholders: `site` and `source` of /webhooks/{site}/{source}.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    method: str = "POST"
    path: str = ""
    query: str = ""
    path_parameters: Mapping[str, str] = field(default_factory=dict)

    def query_parameters(self) -> dict[str, str]:
        """Return the decoded parameters of the query, the last of each name. Empty if there are too many."""
        try:
            return dict(parse_qsl(self.query, keep_blank_values=True, max_num_fields=QUERY_PARAMETERS_MAX))
        except ValueError:
            return {}


def request_of(event: Mapping[str, Any]) -> Request:
    """The request in an event of API Gateway (payload format 2.0). Raises binascii.Error for a body that is not base64."""
    body = event.get("body") or ""
    return Request(
        {name.lower(): value for name, value in (event.get("headers") or {}).items()},
        base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(errors="surrogatepass"),
        event.get("requestContext", {}).get("http", {}).get("method", "POST"),
        event.get("rawPath", ""),
        event.get("rawQueryString", ""),
        event.get("pathParameters") or {},
    )


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
    return (
        json.dumps(parts)[:DELIVERY_ID_CHARACTERS_MAX]
        if all(isinstance(part, str) and part for part in parts)
        else None
    )


def bounded(value: Any) -> Any:
    """Truncate a JSON value for the log, because anyone can send a request and CloudWatch bills each byte: each text to LOGGED_CHARACTERS_MAX, each list and object to LOGGED_ITEMS_MAX.

    A lone surrogate becomes a question mark, because the whole log line would be lost with it.
    """
    match value:
        case str():
            return encodable(value[:LOGGED_CHARACTERS_MAX])
        case dict():
            return {bounded(name): bounded(item) for name, item in list(value.items())[:LOGGED_ITEMS_MAX]}
        case list() | tuple():
            return [bounded(item) for item in value[:LOGGED_ITEMS_MAX]]
    return value
