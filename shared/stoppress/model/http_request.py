"""An HTTP request, as API Gateway delivers it or as recorded in a file: its document, its delivery id, and its values for the log."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from stoppress.primitives.text import clean, encodable

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
    """Return the request in an event of API Gateway (payload format 2.0). Raises binascii.Error for a body that is not base64."""
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
    has_both = all(isinstance(part, str) and part for part in parts)
    return json.dumps(parts)[:DELIVERY_ID_CHARACTERS_MAX] if has_both else None


def bounded(value: Any) -> Any:
    """Truncate a JSON value for the log: texts to LOGGED_CHARACTERS_MAX, lists and objects to LOGGED_ITEMS_MAX.

    Anyone can send a request, and CloudWatch bills each byte. A lone surrogate, which would lose the log line, becomes a question mark.
    """
    match value:
        case str():
            return encodable(value[:LOGGED_CHARACTERS_MAX])
        case dict():
            return {bounded(name): bounded(item) for name, item in list(value.items())[:LOGGED_ITEMS_MAX]}
        case list() | tuple():
            return [bounded(item) for item in value[:LOGGED_ITEMS_MAX]]
    return value


# A CMS's form has a few dozen fields.
FORM_FIELDS_MAX = 1_000
# Pages wrap their JSON-LD in these, to hide it from old parsers: // <![CDATA[ … // ]]>, <!-- … --> (variety.com in
# web-auto-extractor's issue 19, Mastodon's pull request 17403).
COMMENTS = (("<![CDATA[", "]]>"), ("<!--", "-->"))


# The first bytes of gzip (RFC 1952).
_GZIP = b"\x1f\x8b"
# Endings of content types that are not JSON.
_NOT_JSON = ("form-urlencoded", "form-data", "xml", "html")


class BadDelivery(ValueError):
    """A body that cannot be read; the text contains what to change."""


def document_of(request: Request, envelope: str) -> Any:
    """Return the document: JSON, the fields of a form as an object, or a list of CloudEvents. Raises BadDelivery.

    `envelope` is that of a mapping file, or `standard` for strict JSON in our own contract.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if envelope == "form" or (envelope == "auto" and content_type == "application/x-www-form-urlencoded"):
        return _form(request.body)
    try:
        return _cloud_events(request, content_type) if envelope == "cloudevents" else _json(request.body, envelope)
    except BadDelivery:
        # The body of a recorded delivery alone, as `adapters try` reads it, has no headers.
        if envelope == "auto" and not content_type and b"=" in request.body:
            return _form(request.body)
        if content_type.endswith(_NOT_JSON):
            raise BadDelivery(f"the body is {clean(content_type, 100)}: post JSON") from None
        raise


def check_container(document: Any) -> None:
    """Raise BadDelivery for a JSON text or number."""
    if isinstance(document, str | int | float):
        raise BadDelivery("the body is a JSON text or number: post an object")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if body.startswith(_GZIP):
            raise BadDelivery("the body is compressed with gzip: send and sign it uncompressed") from None
        raise BadDelivery(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def _json(body: bytes, envelope: str = "json") -> Any:
    text, strict = _text(body), envelope == "standard"
    try:
        # JSON-LD has line ends inside strings, which strict JSON forbids, at empireonline.com (web-auto-extractor, issue 19).
        return json.loads(text if strict else _strip_comments(text), strict=strict)
    except RecursionError:
        raise BadDelivery("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadDelivery(f"the body is not JSON: {error}") from None
    except ValueError:  # Python rejects numbers of more than 4,300 digits
        raise BadDelivery("the body has a number of thousands of digits in it") from None


def _strip_comments(text: str) -> str:
    for opening, closing in COMMENTS:
        before, _, rest = text.partition(opening)
        inside, closed, after = rest.rpartition(closing)
        if closed and before.strip() in ("", "//", "/*") and after.strip() in ("", "*/"):
            return inside.strip().removeprefix("*/").removesuffix("//").removesuffix("/*")
    return text


def _form(body: bytes) -> dict[str, str]:
    text = _text(body)
    if text.lstrip().startswith("{"):  # JSON declared as a form (NocoDB, issue 6822)
        document = _json(body)
        return document if isinstance(document, dict) else {}
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX))
    except ValueError as error:
        raise BadDelivery(f"the body is no form: {error}") from None


def _cloud_events(request: Request, content_type: str) -> list[Any]:
    """Return the attributes and `data` of CloudEvents 1.0, sent as structured content, a batch, or binary (`ce-` headers)."""
    attributes = {
        name.removeprefix("ce-"): unquote(value, errors="replace")
        for name, value in request.headers.items()
        if name.startswith("ce-")
    }
    structured = content_type.startswith("application/cloudevents")
    if attributes.get("type") and not structured:
        data = _json(request.body) if request.body.strip() else None
        return [attributes | {"data": data}]
    document = _json(request.body)
    check_container(document)
    events = document if isinstance(document, list) else [document]
    return [event | {"data": _data(event)} if isinstance(event, dict) else event for event in events]


def _data(event: Mapping[str, Any]) -> Any:
    data = event.get("data")
    if data is None and isinstance(encoded := event.get("data_base64"), str):
        try:
            return _json(base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError):
            return None
    return data
