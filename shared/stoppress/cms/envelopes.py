"""Envelopes: from the bytes of a delivery to its document or its events."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from stoppress.model.http_request import Request
from stoppress.primitives.text import not_json, utf8

# A CMS's form has a few dozen fields.
FORM_FIELDS_MAX = 1_000
# Some pages wrap their JSON-LD in these, to hide it from old parsers: // <![CDATA[ … // ]]>, <!-- … -->.
COMMENTS = (("<![CDATA[", "]]>"), ("<!--", "-->"))


class BadDelivery(ValueError):
    """A body that cannot be read at all; the text says what to change."""


def document_of(request: Request, envelope: str) -> Any:
    """The document: JSON, the fields of a form as an object, or a list of CloudEvents. Raises BadDelivery."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if envelope == "form" or (envelope == "auto" and content_type == "application/x-www-form-urlencoded"):
        return _form(request.body)
    try:
        return _cloud_events(request, content_type) if envelope == "cloudevents" else _json(request.body)
    except BadDelivery:
        if envelope == "auto" and not content_type and b"=" in request.body:
            return _form(request.body)
        if reason := not_json(content_type):
            raise BadDelivery(reason) from None
        raise


def unpacked(document: Any) -> Any:
    """Decodes a document again if it is a text: some senders encode twice. Raises BadDelivery for a text or a number."""
    if isinstance(document, str):
        document = _json(document.encode(errors="surrogatepass"))
    if isinstance(document, str | int | float):
        raise BadDelivery("the body is a JSON text or number: post an object")
    return document


def _text(body: bytes) -> str:
    try:
        return utf8(body)
    except ValueError as error:
        raise BadDelivery(str(error)) from None


def _json(body: bytes) -> Any:
    text = _uncommented(_text(body))
    try:
        # The JSON-LD of many pages has line ends inside strings, which strict JSON forbids.
        return json.loads(text, strict=False)
    except RecursionError:
        raise BadDelivery("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadDelivery(f"the body is not JSON: {error}") from None
    except ValueError:  # Python converts no number of more than 4,300 digits
        raise BadDelivery("the body has a number of thousands of digits in it") from None


def _uncommented(text: str) -> str:
    for opening, closing in COMMENTS:
        before, _, rest = text.partition(opening)
        inside, closed, after = rest.rpartition(closing)
        if closed and before.strip() in ("", "//", "/*") and after.strip() in ("", "*/"):
            return inside.strip().removeprefix("*/").removesuffix("//").removesuffix("/*")
    return text


def _form(body: bytes) -> dict[str, str]:
    text = _text(body)
    if text.lstrip().startswith("{"):  # the sender declares a form and posts JSON
        document = _json(body)
        return document if isinstance(document, dict) else {}
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX))
    except ValueError as error:
        raise BadDelivery(f"the body is no form: {error}") from None


def _cloud_events(request: Request, content_type: str) -> list[Any]:
    """The attributes and `data` of CloudEvents 1.0, sent as structured content, a batch, or binary (`ce-` headers)."""
    attributes = {
        name.removeprefix("ce-"): _percent_decoded(value)
        for name, value in request.headers.items()
        if name.startswith("ce-")
    }
    structured = content_type.startswith("application/cloudevents")
    if attributes.get("type") and not structured:
        data = _json(request.body) if request.body.strip() else None
        return [attributes | {"data": _data({"data": data})}]
    document = unpacked(_json(request.body))
    events = document if isinstance(document, list) else [document]
    return [event | {"data": _data(event)} if isinstance(event, dict) else event for event in events]


def _percent_decoded(value: str) -> str:
    return unquote(value, errors="replace")


def _data(event: Mapping[str, Any]) -> Any:
    data = event.get("data")
    if data is None and isinstance(encoded := event.get("data_base64"), str):
        try:
            return _json(base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError):
            return None
    if isinstance(data, str):  # some senders encode the data as JSON twice
        try:
            return _json(data.encode(errors="surrogatepass"))
        except BadDelivery:
            return data
    return data
