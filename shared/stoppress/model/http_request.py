"""An HTTP request, as API Gateway delivers it or as a file has recorded it."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

# The URL of a webhook has one or two parameters.
QUERY_PARAMETERS_MAX = 100


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
        """The decoded parameters of the query, the last of each name. Empty if there are too many."""
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
