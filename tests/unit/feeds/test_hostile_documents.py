"""Documents that would cost a parser much time or memory are refused with a reason, or read within limits."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from stoppress.feeds import counted_parser, feed_documents
from stoppress.feeds.events import to_events
from stoppress.feeds.feed_documents import FeedError, read_document
from stoppress.feeds.parse import children_of, read
from stoppress.model.site import Site

URL = "https://www.example.com/rss.xml"
SITE = Site(host="www.example.com", publication="Example News")
NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
ITEM = "<item><title>x</title><link>https://www.example.com/{0}</link><guid>{0}</guid></item>"
TOO_MANY_STEPS, TOO_MANY_TAGS = "more than 1,000,000 steps", "more than 200,000 tags before its first item"
LONG_TAG, NO_FEED = "a tag longer than", "not XML|neither RSS nor Atom|not a feed"
BOMB = "".join(f"<!ENTITY a{n + 1} '" + f"&a{n};" * 10 + "'>" for n in range(11))


def rss(items: str, root: str = "", prolog: str = "") -> str:
    return f'{prolog}<rss version="2.0"{root}><channel><title>x</title>{items}</channel></rss>'


def item(inside: str, root: str = "", prolog: str = "") -> str:
    return rss(ITEM.format(0).replace("</item>", f"{inside}</item>"), root, prolog)


def numbered(template: str, times: int) -> str:
    return "".join(template.format(number) for number in range(times))


# The name, the document, and the reason of its refusal or the number of its entries.
DOCUMENTS: dict[str, tuple[Callable[[], str | bytes], str | int]] = {
    "a namespace in each tag": (lambda: item(numbered('<p{0}:x xmlns:p{0}="u:{0}"/>', 5_000)), TOO_MANY_STEPS),
    "namespaces on the root": (lambda: rss(numbered(ITEM, 200), root=numbered(' xmlns:p{0}="u:{0}"', 5_000)),
        TOO_MANY_STEPS),
    "nested namespaces in broken markup": (lambda: item("<b><i></b>" + numbered('<p{0}:x xmlns:p{0}="u:{0}">', 5_000)),
        TOO_MANY_STEPS),
    "one namespace in each tag": (lambda: item('<x xmlns:p="u:p"/>' * 5_000), 1),
    "escaped namespaces": (lambda: item("<a>" + numbered(' xmlns:p{0}="u:{0}"', 20_000) + "</a>"), 1),
    "nested base URLs": (lambda: item('<a xml:base="x/">' * 5_000), TOO_MANY_STEPS),
    "many attributes": (lambda: item("<a" + numbered(' a{0}=""', 5_000) + "/>"), TOO_MANY_STEPS),
    "many categories": (lambda: item(numbered("<category>{0}</category>", 5_000)), TOO_MANY_STEPS),
    "many keywords": (
        lambda: item(
            f"<i:keywords>{numbered('{0},', 5_000)}</i:keywords>",
            root=' xmlns:i="http://www.itunes.com/dtds/podcast-1.0.dtd"',
        ),
        TOO_MANY_STEPS,
    ),
    "a long mail address": (lambda: item(f"<author>{'a' * 500_000}@{'b' * 500_000}</author>"), 1),
    "a huge attribute": (lambda: item(f'<a b="{"x" * 1_000_000}"/>'), LONG_TAG),
    "a huge comment": (lambda: item(f"<!--{'x' * 1_000_000}-->"), LONG_TAG),
    "a huge CDATA section": (lambda: item(f"<a><![CDATA[{'x<' * 500_000}]]></a>"), 1),
    "a long title": (lambda: rss(ITEM.format(0).replace("x</title>", "t" * 1_000_000 + "</title>")), 1),
    "a long guid": (lambda: rss(ITEM.format("g" * 500_000)), 1),
    "a long date": (lambda: item(f"<pubDate>{'1:' * 500_000}</pubDate>"), 1),
    "deep nesting": (lambda: item("<a>" * 200_000), TOO_MANY_TAGS),
    "many self-closing tags": (lambda: item("<a/>" * 200_000), TOO_MANY_TAGS),
    "nothing but <": (lambda: item("<" * 200_000), TOO_MANY_TAGS),
    "nothing but &": (lambda: item("&" * 1_000_001), "more than 1,000,000 ampersands"),
    "an open quote": (lambda: item(f'<a b="{"x" * 1_000_000}'), LONG_TAG),
    "an entity bomb": (lambda: item("<a>&a11;</a>", prolog=f'<!DOCTYPE rss [<!ENTITY a0 "x">{BOMB}]>'), 1),
    "many entities": (lambda: item("", prolog="<!DOCTYPE rss [" + numbered('<!ENTITY e{0} "x">', 50_000) + "]>"),
        NO_FEED),
    "many processing instructions": (lambda: item("", prolog="<?a b?>" * 100_000), NO_FEED),
    "processing instructions in an item": (lambda: item("<?a b?>" * 100_000), 1),
    "many small entries": (lambda: rss("<item></item>" * 500), 200),
    "many items": (lambda: rss(numbered(ITEM, 500)), 200),
    "many items in an item": (lambda: item("<item>" * 500), 200),
    "many items of RDF": (lambda: f'<rdf:RDF xmlns="http://purl.org/rss/1.0/">{numbered(ITEM, 500)}</rdf:RDF>', 200),
    "many enclosures": (lambda: item(numbered('<enclosure url="/{0}.jpg" type="image/jpeg"/>', 1_000)), 1),
    "base64": (lambda: item(f"<content mode='base64'>{'PDw8' * 250_000}</content>"), 1),
    "UTF-16": (lambda: rss(numbered(ITEM, 500)).encode("utf-16"), 200),
    "UTF-32": (lambda: rss(numbered(ITEM, 500)).encode("utf-32"), 200),
    "UTF-7": (lambda: rss(numbered(ITEM, 500)).replace("<", "+ADw-").encode(), NO_FEED),
    "damaged UTF-8": (lambda: item("<a>@</a>").encode().replace(b"@", b"\xff\xc3" * 500_000), 1),
    "null characters": (lambda: item("<a>" + "\0" * 1_000_000 + "</a>"), 1),
    "a nested sitemap": (lambda: f"<urlset>{'<url>' * 5_000}</url></urlset>", "nested more than"),
    "JSON": (lambda: '{"items": ' + "[" * 1_000_000, NO_FEED),
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_hostile_document_is_refused_with_a_reason_or_read_within_limits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted_parser, "STEPS_MAX", 1_000_000)  # a twentieth, for a fast test
    monkeypatch.setattr(feed_documents, "ENTRIES_MAX", 200)
    make, expected = DOCUMENTS[name]
    document = make()
    body = document if isinstance(document, bytes) else document.encode()
    try:
        assert children_of(body, {}, URL, SITE) == ()
        reading = read(read_document(body, {}), URL, SITE, ("images", "videos", "language", "keywords", "alternates"))
    except FeedError as error:
        assert isinstance(expected, str), error  # noqa: PT017
        assert re.search(expected, str(error))  # noqa: PT017
        return
    to_events(reading, SITE, NOW, feed=URL)

    assert len(reading.entries) == expected
