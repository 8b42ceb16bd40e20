"""What is more than an HMAC over a template: canonical requests and tokens."""

import json
from dataclasses import replace
from typing import Any

import pytest

from stoppress.model.http_request import Request
from stoppress.signatures.verify import BadSecret, BadSignature, verify
from tests.support.signature_senders import BODY, MORNING, SENDERS, b64, mac

CONTENTFUL = next(sender for sender in SENDERS if sender.scheme == "contentful")
HYGRAPH = next(sender for sender in SENDERS if sender.scheme == "hygraph")


def refused(scheme: str, request: Request, *secrets: str) -> str:
    with pytest.raises(BadSignature) as refusal:
        verify(scheme, request, secrets, MORNING)
    return str(refusal.value)


# ── Contentful ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changed",
    [{"method": "PUT"}, {"path": "/v1/webhooks/www.example.com/cms"}, {"query": "a=b"}, {"query": ""}],
    ids=str,
)
def test_contentful_signs_method_path_and_query(changed: dict[str, Any]) -> None:
    reason = refused("contentful", replace(CONTENTFUL.request(), **changed), CONTENTFUL.secret)
    assert "give Contentful's path as signed_path in this source's settings" in reason


def test_a_query_counts_encoded_as_it_came_and_decoded() -> None:
    verify("contentful", replace(CONTENTFUL.request(), query="a=b%20c&d=%C3%A9"), [CONTENTFUL.secret], MORNING)


NAMES = CONTENTFUL.request().headers["x-contentful-signed-headers"]


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({"content-type": "other"}, False),
        ({"x-contentful-topic": "other"}, False),
        ({"x-contentful-signed-headers": NAMES.replace(",x-contentful-topic", "")}, False),
        ({"x-contentful-signed-headers": ", ".join(reversed(NAMES.split(","))).title()}, True),
        ({"via": "a proxy"}, True),
    ],
)
def test_contentful_signs_the_headers_that_it_lists_in_any_order(headers: dict[str, str], accepted: bool) -> None:
    request = replace(CONTENTFUL.request(), headers={**CONTENTFUL.request().headers, **headers})
    if accepted:
        verify("contentful", request, [CONTENTFUL.secret], MORNING)
    else:
        refused("contentful", request, CONTENTFUL.secret)


# ── Hygraph ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change", [("env=main", "env=other"), (", t=", ", t=1"), ("sign=", "sig="), (", env=main", "")]
)
def test_environment_and_time_of_hygraph_are_signed(change: tuple[str, str]) -> None:
    request = HYGRAPH.request()
    header = request.headers["gcms-signature"].replace(*change)

    refused("hygraph", replace(request, headers={"gcms-signature": header}), HYGRAPH.secret)


def test_hygraphs_own_library_escapes_what_html_would_read() -> None:
    at_ms = round(MORNING.timestamp() * 1000)
    text = json.dumps(BODY.decode(), ensure_ascii=False)
    for sign in "&<>":
        text = text.replace(sign, f"\\\\u{ord(sign):04x}")
    content = f'{{"Body":{text},"EnvironmentName":"main","TimeStamp":{at_ms}}}'
    header = f"sign={b64(mac(HYGRAPH.secret, content))}, env=main, t={at_ms}"

    verify("hygraph", Request({"gcms-signature": header}, BODY), [HYGRAPH.secret], MORNING)


# ── Kontent.ai ────────────────────────────────────────────────────────────────────────────────────────────────────────────

OF_LINES = b'{\n  "notifications": []\n}'


def kontent(body: bytes, signed: bytes) -> Request:
    return Request({"x-kontent-ai-signature": b64(mac("kontent", signed))}, body)


@pytest.mark.parametrize("signed", [OF_LINES, OF_LINES.replace(b"\n", b"\r\n")])
def test_kontent_may_have_signed_other_line_ends_than_come_in(signed: bytes) -> None:
    verify("kontent", kontent(OF_LINES, signed), ["old", "kontent"], MORNING)


@pytest.mark.parametrize("body", [OF_LINES + b" ", OF_LINES.replace(b"\n", b""), OF_LINES.replace(b"[]", b"[\n1]")])
def test_nothing_but_the_line_ends_of_kontent_may_differ(body: bytes) -> None:
    refused("kontent", kontent(body, OF_LINES.replace(b"\n", b"\r\n")), "kontent")


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bearer_may_come_in_the_query_of_who_cannot_set_a_header() -> None:
    verify("bearer", Request({}, BODY, query="x=1&access_token=long%20token"), ["long token"], MORNING)
    verify("bearer", Request({"authorization": "bEARER  long token "}, BODY), ["long token"], MORNING)
    refused("bearer", Request({"authorization": "Basic long token"}, BODY), "long token")
    refused("bearer", Request({}, BODY, query="token=long"), "long")


@pytest.mark.parametrize("query", ["token=a+b", "token=a%2Bb", "x&token=a+b&y=1"])
def test_a_plus_in_a_token_may_stand_in_the_url_as_it_is(query: str) -> None:
    verify("token", Request({}, BODY, query=query), ["a+b"], MORNING)


@pytest.mark.parametrize("query", ["", "token", "token=", "Token=ab", "token=ab&token=cd", "token=ab%00", "x=token=ab"])
def test_a_query_without_the_one_token_is_refused(query: str) -> None:
    assert refused("token", Request({}, BODY, query=query), "ab", "cd").startswith(
        "the token does not match: end the URL"
    )


def test_a_secret_for_basic_has_a_user_and_a_password() -> None:
    with pytest.raises(BadSecret, match="user:password"):
        verify("basic", Request({"authorization": f"Basic {b64(b'password')}"}, BODY), ["password"], MORNING)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"secret":7}', b'{"secret":["s"]}', b"\xff", b"[" * 100_000])
def test_a_body_without_the_secret_is_refused(body: bytes) -> None:
    refused("body-secret", Request({}, body), "s")
