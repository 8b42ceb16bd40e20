"""How a hub is known: the token of its path, and the signature of what it pushes."""

import hashlib
import hmac

import pytest

from stoppress.feeds.callbacks import callback_path, hub_secret, is_signed, subscription_of

MASTER, NEXT = "a-master-of-many-letters", "the-one-that-comes-after"
SITE, FEED, SUBSCRIPTION = "www.example.com", "0" * 32, "0123456789abcdef"
BODY = b"<rss/>"


def token(master: str = MASTER, site: str = SITE, feed: str = FEED, subscription: str = SUBSCRIPTION) -> str:
    return callback_path(master, site, feed, subscription).split("/")[2]


def test_a_token_of_ours_says_which_subscription_it_is() -> None:
    assert callback_path(MASTER, SITE, FEED, SUBSCRIPTION) == f"{SITE}/{FEED}/{token()}"
    assert subscription_of(token(), [MASTER], SITE, FEED) == SUBSCRIPTION


@pytest.mark.parametrize(
    "forged",
    [
        token("another"),
        token(site="www.example.org"),
        token(feed="1" * 32),
        token().replace("0123", "1123", 1),
        token()[:-1],
        token() + "0",
        token().upper(),
        f"{SUBSCRIPTION}-",
        "",
        "é" * 49,
        hub_secret(MASTER, SITE, FEED, SUBSCRIPTION),
    ],
)
def test_a_token_of_somebody_else_is_none(forged: str) -> None:
    assert subscription_of(forged, [MASTER], SITE, FEED) is None


def test_while_the_master_secret_is_rotated_both_are_believed() -> None:
    assert subscription_of(token(), [NEXT, MASTER], SITE, FEED) == SUBSCRIPTION
    assert subscription_of(token(NEXT), [NEXT, MASTER], SITE, FEED) == SUBSCRIPTION
    assert subscription_of(token(), [NEXT], SITE, FEED) is None


def test_each_feed_topic_and_site_has_a_secret_of_its_own_that_the_callback_does_not_tell() -> None:
    secrets = {
        hub_secret(MASTER, SITE, FEED, SUBSCRIPTION),
        hub_secret(MASTER, "www.example.org", FEED, SUBSCRIPTION),
        hub_secret(MASTER, SITE, "1" * 32, SUBSCRIPTION),
        hub_secret(MASTER, SITE, FEED, "f" * 16),
    }

    assert len(secrets) == 4
    assert all(32 <= len(secret) < 200 for secret in secrets)
    assert not any(secret[:32] in token() for secret in secrets)


def signature(method: str, body: bytes = BODY, *, by: str = "s1") -> str:
    return f"{method}={hmac.new(by.encode(), body, method).hexdigest()}"


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_a_hub_may_sign_in_each_way_of_the_specification(method: str) -> None:
    assert is_signed({"x-hub-signature": signature(method)}, BODY, ["s1"])
    assert is_signed({"x-hub-signature": f" {signature(method).upper().replace('SHA', 'sha')} "}, BODY, ["s2", "s1"])


@pytest.mark.parametrize(
    "said",
    [
        "",
        "sha256=",
        "sha256",
        signature("sha256", b"<rss></rss>"),
        signature("sha256", by="another"),
        signature("sha256").replace("sha256", "sha512"),
        signature("md5"),
        f"sha256={hashlib.sha256(BODY).hexdigest()}",
        "sha256=" + "é" * 64,
        signature("sha256") + "," + signature("sha256"),
    ],
)
def test_what_is_not_signed_by_the_hub_is_not(said: str) -> None:
    assert not is_signed({"x-hub-signature": said} if said else {}, BODY, ["s1"])
