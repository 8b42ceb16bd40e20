"""The token of a service account: its request as documented, and the meaning of each answer."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from stoppress.aws import secrets
from stoppress.http import client
from stoppress.notify import service_account
from stoppress.notify.indexnow import LATER_SECONDS, WRONG_SECONDS
from stoppress.notify.search_console import meaning, read_inspection
from stoppress.notify.service_account import ServiceAccount, Unanswered, token
from tests.support.console import ANSWERS, EMAIL, TOKEN, Console, console, decoded, json_key, private_key

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
NAME = "engines/www.example.com/google"


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    monkeypatch.setattr(secrets, "load_text", lambda _: json_key())
    service_account.forget()
    with console() as server:
        yield server
    service_account.forget()


def refusal(now: datetime = NOW) -> Any:
    with pytest.raises(Unanswered) as caught:
        token(NAME, now)
    return caught.value.meaning


# ── the token ──


def test_the_token_s_request_is_the_documented_form(google: Console) -> None:
    assert token(NAME, NOW) == TOKEN

    [(url, headers, body)] = google.of("token")
    assert (url, headers["content-type"]) == (
        "https://oauth2.googleapis.com/token",
        "application/x-www-form-urlencoded",
    )
    assert body.startswith(b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
    [_, (_, sent)] = parse_qsl(body.decode())
    header, claims, signature = sent.split(".")
    key = load_pem_private_key(private_key().encode(), password=None)
    assert isinstance(key, RSAPrivateKey)
    key.public_key().verify(decoded(signature), f"{header}.{claims}".encode(), PKCS1v15(), SHA256())
    assert header == "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9"  # as in Google's document "Forming the JWT header"
    issued = int(NOW.timestamp())
    expected = (
        f'{{"iss":"{EMAIL}","scope":"https://www.googleapis.com/auth/webmasters",'
        f'"aud":"https://oauth2.googleapis.com/token","exp":{issued + 3600},"iat":{issued}}}'
    )
    assert decoded(claims).decode() == expected


def test_a_token_is_used_by_its_account_until_a_minute_before_it_expires(
    google: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds, requests in ((0, 1), (3599 - 61, 1), (3599 - 60, 2)):
        token(NAME, NOW + timedelta(seconds=seconds))
        assert len(google.of("token")) == requests
    monkeypatch.setattr(secrets, "load_text", lambda _: json_key(client_email="other@example.com"))
    token(NAME, NOW)
    assert len(google.of("token")) == 3


@pytest.mark.parametrize(
    ("answer", "result", "after_seconds", "words"),
    [
        ("invalid grant", "wrong", WRONG_SECONDS,
         "answers 400: invalid_grant: Invalid JWT Signature.: store a new key"),
        ("invalid client", "wrong", WRONG_SECONDS, "answers 401: invalid_client"),
        ("no token", "later", LATER_SECONDS, "without a token"),
        ("broken", "later", LATER_SECONDS, "answers 500"),
        ("slow", "later", LATER_SECONDS, "in time"),
        ("cut", "later", LATER_SECONDS, "oauth2.googleapis.com"),
    ],
)  # fmt: skip
def test_each_refusal_of_a_token_has_its_meaning(
    google: Console, monkeypatch: pytest.MonkeyPatch, answer: str, result: str, after_seconds: int, words: str
) -> None:
    if answer == "slow":
        monkeypatch.setattr(client, "POST_SECONDS_MAX", 0.5)
    google.answers["token"] = [answer]
    refused = refusal()
    assert (refused.result, refused.after_seconds, refused.is_certain) == (result, after_seconds, True)
    assert words in refused.reason
    assert token(NAME, NOW) == TOKEN  # the refusal is not cached


@pytest.mark.parametrize(
    "text",
    [
        "a password",
        json_key(type="authorized_user"),
        json_key(private_key="-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    ],
)
def test_a_secret_that_is_no_key_is_reported_and_nothing_is_sent(
    google: Console, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(secrets, "load_text", lambda _: text)
    refused = refusal()
    assert refused.result == "wrong"
    assert f"the secret {NAME} is no JSON key" in refused.reason
    assert "PRIVATE" not in refused.reason + repr(ServiceAccount.model_validate_json(json_key()))
    assert not google.requests


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[" * 100_000, b'{"inspectionResult":[]}', b'{"inspectionResult":{"indexStatusResult":{}}}'],
)
def test_other_bodies_are_errors(body: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_inspection(body)


@pytest.mark.parametrize(
    ("answer", "result", "after_seconds", "words"),
    [
        ("no user", "wrong", WRONG_SECONDS, "add the service account as a user of the property"),
        ("disabled", "wrong", WRONG_SECONDS, "enable the Search Console API"),
        ("not found", "wrong", WRONG_SECONDS, "correct `engines.search_console.property`"),
        ("quota", "later", LATER_SECONDS, "answers 403: Quota exceeded."),
        ("too many", "later", 300, "answers 429"),
        ("overloaded", "later", 120, "answers 503"),
    ],
)
def test_each_refusal_of_a_request_has_its_meaning(answer: str, result: str, after_seconds: int, words: str) -> None:
    status, headers, body = ANSWERS[answer]
    refused = meaning(status, {name.lower(): value for name, value in headers.items()}, body, NOW)
    assert (refused.result, refused.after_seconds, refused.is_certain) == (result, after_seconds, True)
    assert words in refused.reason


def test_other_errors_are_wrong_requests() -> None:
    answered = meaning(307, {"location": "https://elsewhere.example.net/"}, b"[" * 100_000, NOW)
    assert (answered.result, answered.after_seconds) == ("wrong", WRONG_SECONDS)
    assert answered.reason.startswith("answers 307: [[[")
