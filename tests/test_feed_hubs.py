"""The hub that a feed names."""

import pytest

from stoppress.feeds.hubs import hub_of

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


def test_the_headers_hub_counts_before_the_feeds() -> None:
    assert (
        hub_of(f'<feed><link rel="hub" href="{HUB}"/>', {"link": "</hub>; rel=hub"}, URL)
        == "https://www.example.com/hub"
    )
