"""Schemes beyond an HMAC over a template: canonical requests and tokens."""

import json
from dataclasses import replace

import pytest

from stoppress.model.http_request import Request
from stoppress.signatures.verify import BadSecret, BadSignature, verify
from tests.support.signature_senders import BODY, MORNING, b64, mac, sender_of

CONTENTFUL = sender_of("contentful").request()
HYGRAPH = sender_of("hygraph").request()
SECRET = "a secret of 20 bytes"
NAMES = CONTENTFUL.headers["x-contentful-signed-headers"]
AT_MS = round(MORNING.timestamp() * 1000)
OF_LINES = b'{\n  "notifications": []\n}'
OF_CRLF = OF_LINES.replace(b"\n", b"\r\n")


def contentful(**headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return replace(CONTENTFUL, headers={**CONTENTFUL.headers, **named})


def hygraph(before: str, after: str) -> Request:
    return replace(HYGRAPH, headers={"gcms-signature": HYGRAPH.headers["gcms-signature"].replace(before, after)})


def escaped_hygraph() -> Request:
    """Return a request that Hygraph's own library escapes for HTML."""
    text = json.dumps(BODY.decode(), ensure_ascii=False)
    for sign in "&<>":
        text = text.replace(sign, f"\\\\u{ord(sign):04x}")
    content = f'{{"Body":{text},"EnvironmentName":"main","TimeStamp":{AT_MS}}}'
    return Request({"gcms-signature": f"sign={b64(mac(SECRET, content))}, env=main, t={AT_MS}"}, BODY)


def kontent(body: bytes, signed: bytes) -> Request:
    return Request({"x-kontent-ai-signature": b64(mac(SECRET, signed))}, body)


def in_query(query: str) -> Request:
    return Request({}, BODY, query=query)


@pytest.mark.parametrize(
    ("scheme", "request_", "secret"),
    [
        ("contentful", replace(CONTENTFUL, query="a=b%20c&d=%C3%A9"), SECRET),  # encoded as it came, or decoded
        ("contentful", contentful(x_contentful_signed_headers=", ".join(reversed(NAMES.split(","))).title()), SECRET),
        ("contentful", contentful(via="a proxy"), SECRET),
        ("hygraph", escaped_hygraph(), SECRET),
        ("kontent", kontent(OF_LINES, OF_LINES), SECRET),
        ("kontent", kontent(OF_LINES, OF_CRLF), SECRET),
        ("bearer", in_query("x=1&access_token=long%20token"), "long token"),
        ("bearer", Request({"authorization": "bEARER  long token "}, BODY), "long token"),
        *[("token", in_query(query), "a+b") for query in ("token=a+b", "token=a%2Bb", "x&token=a+b&y=1")],
    ],
)
def test_every_form_of_a_senders_request_is_accepted(scheme: str, request_: Request, secret: str) -> None:
    verify(scheme, request_, ["old", secret], MORNING)


PATH, TOKEN = "give Contentful's path as signed_path in this source's settings", "the token does not match: end the URL"


@pytest.mark.parametrize(
    ("scheme", "request_", "reason"),
    [
        ("contentful", replace(CONTENTFUL, method="PUT"), PATH),
        ("contentful", replace(CONTENTFUL, path="/v1/webhooks/www.example.com/cms"), PATH),
        ("contentful", replace(CONTENTFUL, query="a=b"), PATH),
        ("contentful", replace(CONTENTFUL, query=""), PATH),
        ("contentful", contentful(content_type="other"), PATH),
        ("contentful", contentful(x_contentful_topic="other"), PATH),
        ("contentful", contentful(x_contentful_signed_headers=NAMES.replace(",x-contentful-topic", "")), PATH),
        ("hygraph", hygraph("env=main", "env=other"), "does not match"),
        ("hygraph", hygraph(", t=", ", t=1"), "away from now"),
        ("hygraph", hygraph("sign=", "sig="), "is not of the form sign=…, env=…, t=…"),
        ("hygraph", hygraph(", env=main", ""), "is not of the form sign=…, env=…, t=…"),
        # Nothing but the line ends may differ.
        ("kontent", kontent(OF_LINES + b" ", OF_CRLF), "does not match"),
        ("kontent", kontent(OF_LINES.replace(b"\n", b""), OF_CRLF), "does not match"),
        ("kontent", kontent(OF_LINES.replace(b"[]", b"[\n1]"), OF_CRLF), "does not match"),
        ("bearer", Request({"authorization": f"Basic {SECRET}"}, BODY), "does not match"),
        ("bearer", in_query(f"token={SECRET}"), "does not match"),
        *[("token", in_query(query), TOKEN) for query in ("", "token", "token=", f"Token={SECRET}")],
        *[("token", in_query(f"{query}{SECRET}"), TOKEN) for query in ("token=ab&token=", "token=%00", "x=token=")],
        *[
            ("body-secret", Request({}, body), "secret")
            for body in (b"", b"[]", b"null", b'{"secret":7}', b'{"secret":["s"]}', b"\xff", b"[" * 100_000)
        ],
    ],
)
def test_a_request_with_changed_signed_parts_or_no_token_is_refused(
    scheme: str, request_: Request, reason: str
) -> None:
    with pytest.raises(BadSignature) as refusal:
        verify(scheme, request_, [SECRET, "ab"], MORNING)
    assert reason in str(refusal.value)


def test_a_secret_for_basic_has_a_user_and_a_password() -> None:
    with pytest.raises(BadSecret, match="user:password"):
        verify("basic", Request({"authorization": f"Basic {b64(b'password')}"}, BODY), ["password"], MORNING)
