import json
from typing import Any

import pytest

from stoppress.model.http_request import Request
from stoppress_cli.local import gateway
from stoppress_cli.local.gateway import Route
from tests.local_stack.toy import NOON, Toy

ROUTE = Route("POST", "/webhooks/{site}/{source}", "arn")


def event(request: Request) -> dict[str, Any]:
    parameters = ROUTE.match(request)
    assert parameters is not None
    return gateway.event(request, ROUTE, parameters, NOON)


def test_path_parameters_are_decoded_and_the_raw_path_is_not() -> None:
    payload = event(Request(path="/webhooks/www.example.com/c%C3%A9", query="a=1&a=2&b="))

    assert payload["pathParameters"] == {"site": "www.example.com", "source": "cé"}
    assert payload["rawPath"] == "/webhooks/www.example.com/c%C3%A9"
    assert (payload["rawQueryString"], payload["queryStringParameters"]) == ("a=1&a=2&b=", {"a": "1,2", "b": ""})
    assert payload["routeKey"] == "POST /webhooks/{site}/{source}"
    assert payload["requestContext"]["timeEpoch"] == 1_795_176_000_000
    assert "body" not in payload


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"a": "\xc3\xa9"}', ('{"a": "é"}', False)),
        ("application/cloudevents+json; charset=utf-8", b"{}", ("{}", False)),
        ("application/octet-stream", b"\x00\xff", ("AP8=", True)),
        ("application/json", b"\xff", ("/w==", True)),
        ("", b"text", ("dGV4dA==", True)),
    ],
)
def test_a_body_that_is_not_text_is_in_base64(content_type: str, body: bytes, expected: tuple[str, bool]) -> None:
    payload = event(Request({"content-type": content_type}, body, path="/webhooks/a/b"))

    assert (payload["body"], payload["isBase64Encoded"]) == expected


@pytest.mark.moto
def test_the_routes_of_a_template_lead_to_its_functions(toy: Toy) -> None:
    toy.write({"Http": {"Type": "HttpApi", "Properties": {"Method": "POST", "Path": "/webhooks/{site}"}}})
    toy.plan({"statusCode": 201, "body": "created"})
    with toy.running() as stack:
        routed = stack.request(Request(body=b"x", path="/webhooks/a"))
        other = stack.request(Request(method="GET", path="/webhooks/a"))
        large = stack.request(Request(body=b"x" * (gateway.PAYLOAD_BYTES_MAX + 1), path="/webhooks/a"))

    assert (routed.status, routed.body) == (201, b"created")
    assert (other.status, json.loads(other.body)) == (404, {"message": "Not Found"})
    assert large.status == 413
    assert [event["pathParameters"] for event in toy.events] == [{"site": "a"}]
