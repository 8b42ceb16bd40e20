"""WebSub on the wire: the hub of a feed, the token of a callback, and the signature of a push."""

import hashlib
import hmac

import pytest

from stoppress.feeds.websub import callback_path, can_be_trusted, hub_and_topic, hub_secret, is_signed, subscription_of

URL, HUB = "https://www.example.com/news/feed.xml", "https://hub.example.net/"


@pytest.mark.parametrize(
    ("link", "hub"),
    [
        (f'<{HUB}>; rel="hub", <{URL}>; rel="self"', HUB),
        (f'<{URL}>; rel="self", <{HUB}>; rel=hub', HUB),
        (f'<{HUB}>; title="rel=self, \\"no\\""; rel="Hub"', HUB),
        (f'<{HUB}>; title="a, b; c"; rel="prefetch hub"', HUB),
        (f'<{HUB}>; rel="alternate"; title="rel=hub"', None),
        ("</hub>; rel=hub", "https://www.example.com/hub"),
        ("<javascript:alert(1)>; rel=hub", None),
        ("<http://[>; rel=hub", None),
        (f"{HUB}; rel=hub", None),
        ("<" * 50_000, None),
        ("<" + " " * 50_000, None),
        ("", None),
    ],
)
def test_a_header_links_a_hub(link: str, hub: str | None) -> None:
    assert hub_and_topic("", {"link": link}, URL)[0] == hub


@pytest.mark.parametrize(
    ("head", "hub"),
    [
        (f'<rss><channel><atom:link rel="hub" href="{HUB}"/>', HUB),
        (f"<feed><link href='{HUB}?a=1&amp;b=2' rel='hub' />", f"{HUB}?a=1&b=2"),
        (f'<feed><link rel="self" href="{URL}"/>', None),
        (f"<rss><channel><link>{HUB}</link>", None),
        ('<feed><link rel="hub"/>', None),
        ("<link " * 20_000, None),
        pytest.param(f"<link {'a' * 3_990}>" * 1_000, None, id="made to be slow"),
    ],
)
def test_a_feed_links_a_hub(head: str, hub: str | None) -> None:
    assert hub_and_topic(head, {}, URL)[0] == hub


def test_the_first_hub_that_may_receive_a_secret_counts() -> None:
    plain = "<http://hub.example.net/>; rel=hub"

    assert hub_and_topic(f'<feed><link rel="hub" href="{HUB}"/>', {"link": plain}, URL)[0] == HUB
    assert hub_and_topic("", {"link": f"{plain}, <https://other.example.net/>; rel=hub, <{HUB}>; rel=hub"}, URL)[0] == (
        "https://other.example.net/"
    )
    assert hub_and_topic("", {"link": plain}, URL)[0] == "http://hub.example.net/"
    assert [can_be_trusted(hub) for hub in (HUB, "http://hub.example.net/")] == [True, False]


@pytest.mark.parametrize(
    ("head", "link", "topic"),
    [
        (f'<feed><link rel="self" href="{URL}?a=1&amp;b=2"/>', "", f"{URL}?a=1&b=2"),
        ('<rss><channel><atom:link rel="self" href="/feed.xml"/>', "", "https://www.example.com/feed.xml"),
        ('<feed><link rel="self" href="/other.xml"/>', f'<{URL}>; rel="self"', URL),
        (f'<feed><link rel="alternate" href="{URL}"/>', f'<{HUB}>; rel="hub"', None),
        ('<feed><link rel="self" href="urn:feed"/>', "", None),
    ],
)
def test_a_feed_links_its_topic_at_the_hub(head: str, link: str, topic: str | None) -> None:
    assert hub_and_topic(head, {"link": link} if link else {}, URL)[1] == topic


MASTER, NEXT = "a-master-of-many-letters", "the-one-that-comes-after"
SITE, FEED, SUBSCRIPTION = "www.example.com", "0" * 32, "0123456789abcdef"
BODY = b"<rss/>"


def token(master: str = MASTER, site: str = SITE, feed: str = FEED, subscription: str = SUBSCRIPTION) -> str:
    return callback_path(master, site, feed, subscription).split("/")[2]


@pytest.mark.parametrize(
    "forged",
    [
        token("another"),
        token(site="www.example.org"),
        token(feed="1" * 32),
        token().replace("0123", "1123", 1),
        token() + "0",
        token().upper(),
        "",
        "é" * 49,
        hub_secret(MASTER, SITE, FEED, SUBSCRIPTION),
    ],
)
def test_a_token_of_another_feed_or_secret_is_invalid(forged: str) -> None:
    assert subscription_of(forged, [MASTER], SITE, FEED) is None


def test_both_master_secrets_are_valid_during_a_rotation() -> None:
    assert callback_path(MASTER, SITE, FEED, SUBSCRIPTION) == f"{SITE}/{FEED}/{token()}"
    assert subscription_of(token(), [NEXT, MASTER], SITE, FEED) == SUBSCRIPTION
    assert subscription_of(token(NEXT), [NEXT, MASTER], SITE, FEED) == SUBSCRIPTION
    assert subscription_of(token(), [NEXT], SITE, FEED) is None


def test_each_feed_topic_and_site_has_a_secret_that_the_callback_does_not_reveal() -> None:
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
    "signature_header",
    [
        "",
        "sha256",
        signature("sha256", b"<rss></rss>"),
        signature("sha256", by="another"),
        signature("sha256").replace("sha256", "sha512"),
        signature("md5"),
        f"sha256={hashlib.sha256(BODY).hexdigest()}",
        "sha256=" + "é" * 64,
    ],
)
def test_an_invalid_signature_of_a_hub_is_refused(signature_header: str) -> None:
    assert not is_signed({"x-hub-signature": signature_header} if signature_header else {}, BODY, ["s1"])
