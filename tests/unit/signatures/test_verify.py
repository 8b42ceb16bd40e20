"""Standard Webhooks 1.0: valid secrets, signatures and headers, and the hints to a sender."""

import base64
import hmac

import pytest

from stoppress.aws.secrets import split
from stoppress.model.http_request import Request
from stoppress.signatures.verify import BadSecret, BadSignature, verify
from stoppress_cli.scenario import signing
from tests.support.article_events import MORNING

SECRET = "whsec_c3RvcHByZXNz"
OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"type":"article.published","title":"Überschwemmung"}'.encode()
HEX = b"known to the newsroom!!!".hex()


def signed(secret: str = SECRET) -> dict[str, str]:
    return dict(signing.signed(Request({}, BODY), "standard", secret, "msg-1", MORNING).headers)


def verify_standard(headers: dict[str, str], *secrets: str) -> None:
    verify("standard", Request(headers, BODY), secrets or [SECRET], MORNING)


def refusal(headers: dict[str, str], *secrets: str) -> str:
    with pytest.raises(BadSignature) as refused:
        verify_standard(headers, *secrets)
    return str(refused.value)


@pytest.mark.parametrize(
    ("secret", "key", "encoding", "mistakes"),
    [
        (SECRET, SECRET.encode(), "base64", ["the key was the secret's characters as they are; "]),
        (SECRET, b"c3RvcHByZXNz", "base64", ["the key was the secret's characters as they are; "]),
        (SECRET, SECRET.encode(), "hex", ["the key was the secret's characters", "is written in hex, not in base64; "]),
        (SECRET, b"stoppress", "hex", ["the signature is written in hex, not in base64; "]),
        (f"whsec_{HEX}", bytes.fromhex(HEX), "base64", ["the key was the secret read as hex; "]),
        (SECRET, b"a" * 24, "base64", []),
        (SECRET, b"a" * 24, "hex", []),
    ],
)
def test_a_correct_secret_used_in_the_wrong_way_gets_a_hint(
    secret: str, key: bytes, encoding: str, mistakes: list[str]
) -> None:
    headers = signed()
    digest = hmac.digest(key, f"msg-1.{headers['webhook-timestamp']}.".encode() + BODY, "sha256")
    written = digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
    reason = refusal(headers | {"webhook-signature": f"v1,{written}"}, secret)

    assert all(mistake in reason for mistake in mistakes)
    assert ("the key was" in reason, "is written in" in reason) == (
        any("key" in mistake for mistake in mistakes),
        any("written" in mistake for mistake in mistakes),
    )


@pytest.mark.parametrize("version", ["v1a,", "v2,", "V1,", ",", ""])
def test_signatures_of_other_versions_do_not_count(version: str) -> None:
    headers = signed()
    right = headers["webhook-signature"].removeprefix("v1,")
    assert "it has no signature that begins with v1," in refusal(headers | {"webhook-signature": version + right})
    verify_standard(headers | {"webhook-signature": f"{version}{right} v1,{right}"})


def test_a_secret_needs_no_prefix_or_padding_and_one_of_two_may_be_invalid() -> None:
    verify_standard(signed(), "whsec_not base64!", "c3RvcHByZXNz")
    refusal(signed(OTHER), "whsec_not base64!", SECRET)
    padded = base64.b64encode(b"sixteen bytes ok").decode()
    verify_standard(signed("whsec_" + padded), "whsec_" + padded.rstrip("="))


@pytest.mark.parametrize("secret", ["whsec_not base64!", "whsec_AAAA!AAAA", "whsec_", "whsec_a", "whsec_ä"])
def test_an_unusable_secret_raises_bad_secret(secret: str) -> None:
    with pytest.raises(BadSecret):
        verify_standard(signed(), secret)


# ── secrets as they are written ──


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("whsec_AAAA", ["whsec_AAAA"]),
        (" short\n", ["short"]),
        ("old-secret new-secret", ["old-secret", "new-secret"]),
        ('["a phrase, with spaces"]', ["a phrase, with spaces"]),
        (' ["old phrase", "new phrase"]\n', ["old phrase", "new phrase"]),
    ],
)
def test_a_text_contains_one_or_several_secrets(text: str, secrets: list[str]) -> None:
    assert split(text) == secrets


@pytest.mark.parametrize("text", [" \n\t", "[]", '[" "]', "[7]", '{"a": "b"} [', '["a", null]', "[" * 100_000])
def test_a_text_without_secrets_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is empty|is no list of texts|looks like one phrase"):
        split(text)


@pytest.mark.parametrize("text", ["It's a Secret to Everybody", "correct horse battery staple", "newsroom a"])
def test_no_word_of_a_phrase_is_a_separate_secret(text: str) -> None:
    with pytest.raises(ValueError, match="looks like one phrase with spaces: write it as a JSON list of one text"):
        split(text)
