"""Any input is read or rejected with a reason: no bytes, text or JSON raise an unexpected error.

For webhooks and signatures see tests/unit/receive and tests/unit/signatures, for single settings test_site.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from stoppress.aws.items import file_of
from stoppress.aws.queues import read_request
from stoppress.feeds.events import to_events
from stoppress.feeds.feed_documents import FeedError, read_document
from stoppress.feeds.parse import read
from stoppress.model.event import from_message, to_message
from stoppress.model.site import BadConfiguration, Site, read_site
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, SITE, publish
from tests.support.moto_aws import MotoAws, failed_ids, queue_batch

HERE = Path(__file__).parents[1]
FEEDS = [path.read_bytes() for path in sorted((HERE / "fixtures/feeds").glob("*.xml"))]
OPTIONAL_FIELDS = ("images", "videos", "language", "keywords", "alternates")
SOME = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

NASTY = [
    "\ud800",
    "a\udfff",
    "\x00",
    "9" * 400,
    "-1",
    "1e999",
    "NaN",
    "☃",
    "[" * 2_000,
    "٣",
    "2026-11-20T08:00:00Z",
    "%%",
    ".",
]
ANY_TEXT = st.text(max_size=30) | st.sampled_from(NASTY)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=8), part, max_size=4),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, whole: list[bytes]) -> bytes:
    """Draw one of the bodies, with a few pieces removed, doubled or replaced."""
    body = draw(st.sampled_from(whole))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 200)))
        piece = draw(st.sampled_from([b"", body[start:end] * 2, b"\x00", b"\xff\xfe", b"<", b"]]>", b"&#0;", b"&a;"]))
        body = body[:start] + piece + body[end:]
    return body


# ── feeds ──


@SOME
@given(
    damaged(FEEDS) | st.binary(max_size=300),
    st.sampled_from(["application/rss+xml", "text/xml; charset=utf-16", "text/html", "x; charset=☃", ""]) | ANY_TEXT,
)
def test_a_feed_is_rejected_or_read_into_events_that_can_be_sent(body: bytes, kind: str) -> None:
    try:
        reading = read(read_document(body, {"content-type": kind}), f"https://{HOST}/rss.xml", SITE, OPTIONAL_FIELDS)
    except FeedError as error:
        assert str(error)  # noqa: PT017 - any other error ends the test
        return
    events, skipped = to_events(reading, SITE, MORNING, feed="https://www.example.com/rss.xml")

    assert all(skipped)
    assert [from_message(to_message(event)) for event in events] == events


# ── configuration and messages ──


def check_rejection(read: Callable[[Any], object], document: str, expected: type[Exception]) -> None:
    """Check that a document is read, or rejected with a reason. Any other error fails the test."""
    try:
        read(document)
    except expected as error:
        assert str(error)  # noqa: PT017 - see above


@given(
    ANY_TEXT
    | ANY_JSON.map(json.dumps)
    | damaged([Site.model_dump_json(SITE).encode()]).map(lambda text: text.decode("utf-8", "replace"))
)
def test_a_configuration_or_a_message_is_read_or_rejected_with_a_reason(text: str) -> None:
    check_rejection(lambda text: read_site(text, 1), text, BadConfiguration)
    for reader in (read_request, file_of):
        check_rejection(reader, text, ValueError)


@pytest.fixture
def behind() -> Iterator[MotoAws]:
    with moto_aws.opened(MORNING) as opened:
        opened.site()
        yield opened


MESSAGE = to_message(publish()).encode()
BUS_EVENT = json.dumps(
    {
        "detail-type": "article.published",
        "source": "bus",
        "time": "2026-11-20T08:00:00Z",
        "detail": {
            "site": HOST,
            "id": "1",
            "url": f"https://{HOST}/a",
            "title": "A",
            "published_at": "2026-11-20T08:00:00Z",
        },
    }
).encode()


@pytest.mark.moto
@settings(SOME, max_examples=40)
@given(
    st.lists(
        damaged([MESSAGE, BUS_EVENT]).map(lambda text: text.decode("utf-8", "replace"))
        | ANY_JSON.map(json.dumps)
        | st.builds(
            lambda key, value: json.dumps(json.loads(MESSAGE) | {key: value}),
            st.sampled_from(["site", "id", "url", "version", "action", "published_at", "images", "release"]),
            ANY_JSON,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_a_message_is_applied_or_in_quarantine_and_is_never_delivered_again(behind: MotoAws, bodies: list[str]) -> None:
    assert failed_ids(behind.call("record_article", queue_batch(bodies, sent_at=MORNING))) == []
