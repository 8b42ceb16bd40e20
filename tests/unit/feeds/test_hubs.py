"""The hub that a feed names."""

import pytest

from stoppress.feeds.hubs import can_be_trusted, hub_of, topic_of

URL, HUB = "https://www.example.com/news/feed.xml", "https://hub.example.net/"


@pytest.mark.parametrize(
    ("link", "hub"),
    [
        (f'<{HUB}>; rel="hub", <{URL}>; rel="self"', HUB),
        (f'<{URL}>; rel="self", <{HUB}>; rel=hub', HUB),
        (f'<{HUB}>; title="rel=self, \\"no\\""; rel="Hub"', None),
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
def test_a_header_names_a_hub(link: str, hub: str | None) -> None:
    assert hub_of("", {"link": link}, URL) == hub


@pytest.mark.parametrize(
    ("head", "hub"),
    [
        (f'<rss><channel><atom:link rel="hub" href="{HUB}"/>', HUB),
        (f"<feed><link href='{HUB}?a=1&amp;b=2' rel='hub' />", f"{HUB}?a=1&b=2"),
        (f'<feed><link rel="self" href="{URL}"/>', None),
        (f"<rss><channel><link>{HUB}</link>", None),
        ('<feed><link rel="hub"/>', None),
        ("<link " * 20_000, None),
    ],
)
def test_a_feed_names_a_hub(head: str, hub: str | None) -> None:
    assert hub_of(head, {}, URL) == hub


def test_links_that_are_made_to_be_slow_are_not() -> None:
    """Each would take a tenth of a second, all of them longer than a test may."""
    assert hub_of(f"<link {'a' * 3_990}>" * 4_000, {}, URL) is None


def test_the_headers_hub_counts_before_the_feeds() -> None:
    assert (
        hub_of(f'<feed><link rel="hub" href="{HUB}"/>', {"link": "</hub>; rel=hub"}, URL)
        == "https://www.example.com/hub"
    )


def test_of_several_hubs_the_first_that_can_be_told_a_secret_counts() -> None:
    plain = "<http://hub.example.net/>; rel=hub"

    assert hub_of(f'<feed><link rel="hub" href="{HUB}"/>', {"link": plain}, URL) == HUB
    assert hub_of("", {"link": f"{plain}, <https://other.example.net/>; rel=hub, <{HUB}>; rel=hub"}, URL) == (
        "https://other.example.net/"
    )
    assert hub_of("", {"link": plain}, URL) == "http://hub.example.net/"
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
def test_a_feed_says_what_it_is_called_at_its_hub(head: str, link: str, topic: str | None) -> None:
    assert topic_of(head, {"link": link} if link else {}, URL) == topic
