"""What is more than an HMAC over a template: canonical requests, tokens, public keys."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stoppress.signatures.verify import BadScheme, BadSecret, BadSignature, Request, verify
from tests.signatures.senders import BODY, MORNING, SENDERS, b64, mac

CONTENTFUL = next(sender for sender in SENDERS if sender.scheme == "contentful")
HYGRAPH = next(sender for sender in SENDERS if sender.scheme == "hygraph")


def refused(scheme: str, request: Request, *secrets: str) -> str:
    with pytest.raises(BadSignature) as said:
        verify(scheme, request, secrets, MORNING)
    return str(said.value)


# ── Contentful ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changed",
    [{"method": "PUT"}, {"path": "/v1/webhooks/www.example.com/cms"}, {"query": "a=b"}, {"query": ""}],
    ids=str,
)
def test_contentful_signs_method_path_and_query(changed: dict[str, Any]) -> None:
    said = refused("contentful", replace(CONTENTFUL.request(), **changed), CONTENTFUL.secret)
    assert "name that as signed_path in this source's settings" in said


def test_a_query_counts_encoded_as_it_came_and_decoded() -> None:
    verify("contentful", replace(CONTENTFUL.request(), query="a=b%20c&d=%C3%A9"), [CONTENTFUL.secret], MORNING)


@pytest.mark.parametrize("name", ["content-type", "x-contentful-topic"])
def test_a_header_that_contentful_signed_may_not_change(name: str) -> None:
    request = CONTENTFUL.request()
    refused("contentful", replace(request, headers={**request.headers, name: "other"}), CONTENTFUL.secret)


def test_the_list_of_signed_headers_cannot_be_shortened() -> None:
    request = CONTENTFUL.request()
    short = request.headers["x-contentful-signed-headers"].replace(",x-contentful-topic", "")

    refused(
        "contentful",
        replace(request, headers={**request.headers, "x-contentful-signed-headers": short}),
        CONTENTFUL.secret,
    )


def test_the_list_of_signed_headers_may_be_written_in_any_order() -> None:
    request = CONTENTFUL.request()
    names = ", ".join(reversed(request.headers["x-contentful-signed-headers"].split(","))).title()

    verify(
        "contentful",
        replace(request, headers={**request.headers, "x-contentful-signed-headers": names}),
        [CONTENTFUL.secret],
        MORNING,
    )


def test_a_header_that_was_not_signed_may_be_anything() -> None:
    request = CONTENTFUL.request()
    verify("contentful", replace(request, headers={**request.headers, "via": "a proxy"}), [CONTENTFUL.secret], MORNING)


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


# ── public keys ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def rsa_key() -> Any:
    asymmetric = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa", reason="cryptography is missing")
    return asymmetric.generate_private_key(public_exponent=65537, key_size=2048)


def contentstack(key: Any, body: bytes = BODY) -> Request:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    signature = key.sign(body, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
    return Request({"x-contentstack-request-signature": f"v1={b64(signature)}"}, body)


def public_keys(key: Any) -> Iterator[str]:
    """As Contentstack publishes it, and as it may be kept in one line."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key()
    for form in (PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1):
        yield public.public_bytes(Encoding.PEM, form).decode()
        yield b64(public.public_bytes(Encoding.DER, form))


def test_contentstack_signs_the_body_with_a_key_of_its_own(rsa_key: Any) -> None:
    for secret in public_keys(rsa_key):
        verify("contentstack-rsa", contentstack(rsa_key), [secret], MORNING)
        refused("contentstack-rsa", replace(contentstack(rsa_key), body=b"{}"), secret)
        refused("contentstack-rsa", Request({}, BODY), secret)
        header = {
            "x-contentstack-request-signature": "v2="
            + contentstack(rsa_key).headers["x-contentstack-request-signature"][3:]
        }
        refused("contentstack-rsa", Request(header, BODY), secret)
        refused("contentstack-rsa", Request({"x-contentstack-request-signature": "v1=é"}, BODY), secret)


def test_another_key_lets_nobody_in_and_one_of_two_is_enough(rsa_key: Any) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    secret, stranger = next(public_keys(rsa_key)), next(public_keys(other))

    refused("contentstack-rsa", contentstack(other), secret)
    verify("contentstack-rsa", contentstack(rsa_key), [stranger, secret], MORNING)


def test_what_is_no_public_key_is_our_own_fault(rsa_key: Any) -> None:
    for secret in ("whsec_AAAA", "AAAA", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"):
        with pytest.raises(BadSecret, match="no public key"):
            verify("contentstack-rsa", contentstack(rsa_key), [secret], MORNING)


def test_ed25519_of_standard_webhooks_signs_id_time_and_body() -> None:
    ed = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519", reason="cryptography is missing")
    key, at = ed.Ed25519PrivateKey.generate(), str(int(MORNING.timestamp()))
    secret = "whpk_" + b64(key.public_key().public_bytes_raw())
    signature = base64.b64encode(key.sign(f"msg_1.{at}.".encode() + BODY)).decode()
    headers = {"webhook-id": "msg_1", "webhook-timestamp": at, "webhook-signature": f"v1,AAAA v1a,{signature}"}

    verify("ed25519", Request(headers, BODY), [secret], MORNING)
    refused("ed25519", Request(headers | {"webhook-id": "msg_2"}, BODY), secret)
    refused("ed25519", Request(headers, BODY + b" "), secret)
    refused("ed25519", Request(headers | {"webhook-signature": f"v1,{signature}"}, BODY), secret)
    other = "whpk_" + b64(ed.Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    refused("ed25519", Request(headers, BODY), other)
    verify("ed25519", Request(headers, BODY), [other, secret], MORNING)
    with pytest.raises(BadSignature, match="s away from now"):
        verify("ed25519", Request(headers, BODY), [secret], MORNING + timedelta(seconds=301))
    with pytest.raises(BadSecret, match="32 bytes"):
        verify("ed25519", Request(headers, BODY), ["whpk_AAAA"], MORNING)


@pytest.mark.parametrize("scheme", ["contentstack-rsa", "ed25519"])
def test_without_the_library_public_keys_let_nobody_in_and_the_log_says_what_to_do(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    real = importlib.import_module

    def absent(name: str) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    headers = {
        "x-contentstack-request-signature": "v1=AAAA",
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(MORNING.timestamp())),
        "webhook-signature": "v1a,AAAA",
    }

    with pytest.raises(BadScheme, match="need the library cryptography: add it to "):
        verify(scheme, Request(headers, BODY), ["whpk_AAAA"], MORNING)
