"""Standard Webhooks 1.0: who signed, with which secret, and when."""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from stoppress.model.http_request import Request
from stoppress.signatures.verify import BadSecret, BadSignature, verify
from stoppress_cli.scenario import signing
from tests.support.ledger import MORNING

SECRET = "whsec_c3RvcHByZXNz"
OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"type":"article.published","title":"Überschwemmung"}'.encode()


def verify_standard(headers: dict[str, str], body: bytes, secrets: list[str], now: datetime) -> None:
    verify("standard", Request(headers, body), secrets, now)


def signed(secret: str = SECRET, at: datetime = MORNING, body: bytes = BODY, **headers: str) -> dict[str, str]:
    return signing.standard(secret, headers, body, "msg-1", at)


def test_what_the_sender_signed_with_a_secret_is_accepted() -> None:
    verify_standard(signed(), BODY, [SECRET], MORNING)


def test_the_signature_is_that_of_the_specification() -> None:
    key = base64.b64decode("c3RvcHByZXNz")
    content = b"msg-1." + str(int(MORNING.timestamp())).encode() + b"." + BODY
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    headers = {
        "webhook-id": "msg-1",
        "webhook-timestamp": str(int(MORNING.timestamp())),
        "webhook-signature": f"v1,{expected}",
    }
    verify_standard(headers, BODY, [SECRET], MORNING)


@pytest.mark.parametrize("seconds", [-300, -299, 0, 299, 300])
def test_five_minutes_either_way_are_accepted(seconds: int) -> None:
    verify_standard(signed(at=MORNING + timedelta(seconds=seconds)), BODY, [SECRET], MORNING)


@pytest.mark.parametrize("seconds", [-301, 301, 86_400])
def test_beyond_five_minutes_the_sender_hears_how_far_away_it_is(seconds: int) -> None:
    reason = _accepted(signed(at=MORNING + timedelta(seconds=seconds)), BODY, [SECRET], MORNING)
    assert reason.startswith(f"webhook-timestamp is {abs(seconds)} s away from now, at most 300 are accepted")


def test_a_time_in_milliseconds_is_told_from_a_wrong_clock() -> None:
    headers = signed() | {"webhook-timestamp": str(int(MORNING.timestamp()) * 1_000 + 651)}
    assert _accepted(headers, BODY, [SECRET], MORNING) == (
        "webhook-timestamp is in milliseconds since 1970: give and sign it in seconds"
    )


@pytest.mark.parametrize(
    ("key", "mistake"),
    [
        (SECRET.encode(), "the key was the secret's characters"),
        (SECRET.removeprefix("whsec_").encode(), "the key was the secret's characters"),
        (b"a" * 24, ""),
    ],
)
@pytest.mark.parametrize("encoding", ["base64", "hex"])
def test_who_uses_the_right_secret_in_the_wrong_way_hears_how(key: bytes, mistake: str, encoding: str) -> None:
    headers = signed()
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + BODY
    digest = hmac.digest(key, message, "sha256")
    written = digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
    reason = _accepted(headers | {"webhook-signature": f"v1,{written}"}, BODY, [SECRET], MORNING)

    assert reason.startswith("webhook-signature does not match: ")
    assert mistake in reason
    assert ("the key was" in reason) == bool(mistake)
    assert reason.endswith("over the very bytes of the body (Standard Webhooks 1.0)")
    assert ("is written in hex" in reason) == (encoding == "hex" and bool(mistake))


def test_a_secret_in_hex_and_a_signature_in_hex_are_noticed() -> None:
    headers = signed()
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + BODY
    secret = (b"known to the newsroom!!!").hex()
    by_hex = base64.b64encode(hmac.digest(bytes.fromhex(secret), message, "sha256")).decode()
    reason = _accepted(headers | {"webhook-signature": f"v1,{by_hex}"}, BODY, [f"whsec_{secret}"], MORNING)
    assert "the key was the secret read as hex" in reason

    right = hmac.digest(base64.b64decode("c3RvcHByZXNz"), message, "sha256")
    reason = _accepted(headers | {"webhook-signature": f"v1,{right.hex()}"}, BODY, [SECRET], MORNING)
    assert "the signature is written in hex, not in base64" in reason
    reason = _accepted(headers | {"webhook-signature": base64.b64encode(right).decode()}, BODY, [SECRET], MORNING)
    assert "it has no signature that begins with v1," in reason


def test_half_a_second_too_old_is_too_old() -> None:
    with pytest.raises(BadSignature, match="away from now"):
        verify_standard(signed(), BODY, [SECRET], MORNING + timedelta(seconds=300, milliseconds=500))


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_or_empty_header_is_named(name: str) -> None:
    headers = signed()
    for wrong in ({key: value for key, value in headers.items() if key != name}, headers | {name: ""}):
        reason = _accepted(wrong, BODY, [SECRET], MORNING)
        assert reason.startswith(f"the header {name} is missing: sign '<webhook-id>.<webhook-timestamp>.<body>'")


@pytest.mark.parametrize(
    "timestamp", ["now", "1e9", "2026-11-20T08:00:00Z", "99999999999999999999", "-99999999999999", "1" * 5_000]
)
def test_a_timestamp_that_is_none_is_refused(timestamp: str) -> None:
    reason = _accepted(signed() | {"webhook-timestamp": timestamp}, BODY, [SECRET], MORNING)
    assert reason == "webhook-timestamp is not a number of seconds since 1970"


@pytest.mark.parametrize(
    "changed",
    [{"webhook-id": "msg-2"}, {"webhook-timestamp": str(int(MORNING.timestamp()) + 1)}, {"webhook-signature": "v1,"}],
)
def test_id_and_timestamp_are_part_of_what_is_signed(changed: dict[str, str]) -> None:
    assert _accepted(signed() | changed, BODY, [SECRET], MORNING).startswith("webhook-signature does not match")


def test_one_changed_byte_of_the_body_is_refused() -> None:
    assert _accepted(signed(), BODY + b" ", [SECRET], MORNING).startswith("webhook-signature does not match")


def test_either_secret_is_accepted_while_one_is_rotated() -> None:
    verify_standard(signed(SECRET), BODY, [OTHER, SECRET], MORNING)
    verify_standard(signed(OTHER), BODY, [OTHER, SECRET], MORNING)
    with pytest.raises(BadSignature, match="does not match"):
        verify_standard(signed(SECRET), BODY, [OTHER], MORNING)


def test_one_of_several_signatures_is_enough() -> None:
    headers = signed(OTHER)
    both = headers["webhook-signature"] + " " + signed(SECRET)["webhook-signature"]
    verify_standard(headers | {"webhook-signature": both}, BODY, [SECRET], MORNING)


@pytest.mark.parametrize("version", ["v1a", "v2", "V1", ""])
def test_signatures_of_other_versions_are_not_looked_at(version: str) -> None:
    headers = signed()
    right = headers["webhook-signature"].removeprefix("v1,")
    assert _accepted(headers | {"webhook-signature": f"{version},{right}"}, BODY, [SECRET], MORNING).startswith(
        "webhook-signature does not match"
    )
    beside = f"{version},{right} v1,{right}"
    verify_standard(headers | {"webhook-signature": beside}, BODY, [SECRET], MORNING)


def test_a_secret_without_its_prefix_or_padding_is_the_same_secret() -> None:
    verify_standard(signed(), BODY, ["c3RvcHByZXNz"], MORNING)
    padded = base64.b64encode(b"sixteen bytes ok").decode()
    verify_standard(signed("whsec_" + padded), BODY, ["whsec_" + padded.rstrip("=")], MORNING)


@pytest.mark.parametrize("secret", ["whsec_not base64!", "whsec_AAAA!AAAA", "whsec_", "whsec_a"])
def test_a_secret_that_is_none_is_our_own_fault(secret: str) -> None:
    with pytest.raises(BadSecret):
        verify_standard(signed(), BODY, [secret], MORNING)


def test_a_secret_that_is_not_ascii_is_our_own_fault_too() -> None:
    with pytest.raises(BadSecret):
        verify_standard(signed(), BODY, ["whsec_ä"], MORNING)


HEADER = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    HEADER, HEADER | st.just(str(int(MORNING.timestamp()))), HEADER | HEADER.map(lambda text: f"v1,{text}"), st.binary()
)
def test_whatever_the_headers_hold_nothing_unsigned_is_let_in(
    message_id: str, timestamp: str, signature: str, body: bytes
) -> None:
    headers = {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signature}
    with pytest.raises(BadSignature):
        verify_standard(headers, body, [SECRET], MORNING)


def _accepted(headers: dict[str, str], body: bytes, secrets: list[str], now: datetime) -> str:
    try:
        verify_standard(headers, body, secrets, now)
    except BadSignature as refused:
        return str(refused)
    return ""


def test_one_secret_that_cannot_be_used_does_not_stop_the_other() -> None:
    verify_standard(signed(), BODY, ["whsec_not base64!", SECRET], MORNING)
    with pytest.raises(BadSignature):
        verify_standard(signed(OTHER), BODY, ["whsec_not base64!", SECRET], MORNING)
