"""Turn the body of a feed into text that feedparser can parse: decoded, cut to the root element, and repaired.

The text begins with the root element. Blank lines, server warnings, the XML declaration and a DOCTYPE before it are removed.
The encoding is already known then, and without a DOCTYPE no entity is declared or expanded.
"""

import codecs
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from html import escape
from html.entities import html5
from itertools import accumulate, pairwise
from typing import Any

from stoppress.model.site import FEED_SOURCE

# How far into the text the root element may begin. Server warnings before it are short.
PROLOG_CHARACTERS_MAX = 65_536

# Most feeds contain their newest twenty to a hundred entries, newest first. Entries over this limit are left out, which
# bounds the time for a feed and the size of its item in the table.
ENTRIES_MAX = 2_000

# feedparser takes about 20 microseconds for each tag. A start tag and an end tag count as two. The largest real feed that
# we know has 22,000.
TAGS_MAX = 200_000
# The limit for `&` characters, because `_replace_reference` runs for each. The real feed with the most has 216,000.
REFERENCES_MAX = 1_000_000
TAG_CHARACTERS_MAX = 1_000_000

# Byte-order marks, and "<" in encodings of two and four bytes. The longer ones come first, because some begin like a
# shorter one. SimplePie's test feeds are UTF-16 without a byte-order mark, and feedparser's are UTF-32.
_SIGNATURES = (
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\0\0\0<", "utf-32-be"), (b"<\0\0\0", "utf-32-le"),
    (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\0<", "utf-16-be"), (b"<\0", "utf-16-le"),
)  # fmt: skip
_DECLARED = re.compile(rb"""<\?xml[^<>]*?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._-]{1,40})""", re.IGNORECASE)
# How the names of Python's text encodings begin. Its other codecs (punycode, unicode_escape) are unsafe for a body.
_TEXT_ENCODING = re.compile(r"ascii|big5|cp[189]|euc|gb|iso2022|iso8859|koi8|mac|shift|tis")
# Browsers decode these encodings as supersets, because feeds use characters that the declared encoding lacks.
_SUPERSETS = {
    **dict.fromkeys(("iso8859-1", "ascii"), "cp1252"), "iso8859-9": "cp1254",
    **dict.fromkeys(("iso8859-11", "tis-620"), "cp874"), "shift_jis": "cp932", "euc_kr": "cp949",
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"), "big5": "big5hkscs",
}  # fmt: skip

_ROOT = re.compile(r"<!--|<((?:[\w.-]+:)?(rss|rdf|feed|entry|urlset|sitemapindex))(?=[\s/>])", re.IGNORECASE)
_PAGE = re.compile(r"<(?:html|head|body)[\s>]", re.IGNORECASE)
_MARKED = re.compile(r"[^<>]*\b(?:xmlns|version)\b")
_JSON = re.compile(r"\s*(?:\{\s*\"|\[\s*\{)")
_FIRST_ELEMENT = re.compile(r"<([A-Za-z][\w.:-]{0,60})")
_LONG_TAG = re.compile(f"<[^<>]{{{TAG_CHARACTERS_MAX}}}")
# The element that is repeated below each root. An Atom entry may also be a whole document (RFC 4287, 2).
_ITEMS = {"urlset": "url", "sitemapindex": "sitemap"}
_FEED_ITEMS = "(?:item|entry)"
SITEMAPS = {"urlset", "sitemapindex"}
_ITEM_END = re.compile(r"</(?:[\w.-]+:)?(?:item|entry|url|sitemap)\s*>", re.IGNORECASE)
_ONLY_ENDS = re.compile(r"\s*(?:</[^<>]*>\s*)*")

_CDATA = re.compile(r"(<!\[CDATA\[(?s:.*?)\]\]>)")

# Characters that XML 1.0 (production Char) forbids, directly and as references. Removes control characters from texts
# (infinitediaries.net in miniflux's issue 52, Stack Overflow in FeedReader's pull request 26).
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Repairs bare ampersands (bold.dk), and HTML entities that XML does not define.
_AMPERSAND = re.compile(r"&(?:#(?:(\d{1,7})|[xX]([0-9A-Fa-f]{1,6}));|([A-Za-z][A-Za-z0-9]{0,31});)?")
# Repairs `<link>https://…` without an end. In HTML a link has neither text nor end. amv.tools (grav-plugin-feed, issue 69).
_LINK_WITHOUT_AN_END = re.compile(r"<link>\s*+(https?://[^<>\s]++)\s*+(?=<(?!/link|!))")
# Removes empty links: feedparser would use them instead of the permalink. le-cercle-psy.scienceshumaines.com has empty links,
# tbray.org an empty `href`.
_EMPTY_LINK = re.compile(
    r"<link>\s*+(?:<!\[CDATA\[\s*+\]\]>\s*+)?</link\s*>|<link\s*/>"
    r"""|<(?:[\w.-]+:)?link\b(?>[^<>]*?\bhref\s*=\s*(?:"\s*"|'\s*'))[^<>]*+>""",
    re.IGNORECASE,
)
# Repairs `<link uri="at://…">https://…</link>`: feedparser would take an attribute `uri` or `url` instead of the text. gofeed's
# tests have such a feed (rss_channel_item_uri_at_protocol.xml).
_TAG_OF_A_LINK_WITH_TEXT = re.compile(
    r"<link\s(?![^<>]*\b(?:href|rel)\b)[^<>]*+(?<!/)>(?=\s*(?:<!\[CDATA\[\s*)?https?://)", re.IGNORECASE
)
# Repairs `isPermaLink="True"`, of which feedparser accepts only `true`. Programs in C# write the values so: Al Jazeera
# (node-feedparser, issue 123).
_TRUE_PERMALINK = re.compile(r"""(<guid\s[^<>]*?\bisPermaLink\s*=\s*["'])true(?=["'])""", re.IGNORECASE)
# Mends a default namespace at the root of RSS, which has none. feedparser would read the items as elements of that
# namespace. crawler-commons met such feeds (issues 173 to 572).
_ROOT_WITH_NAMESPACE = re.compile(
    r"""\A(?>(<rss\b[^<>]*?)\sxmlns\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))([^<>]*+>)""", re.IGNORECASE
)
# An empty item, as in each item of pcmag.com (node-feedparser's tests, illegally-nested.xml). feedparser would end the outer
# item there.
_EMPTY_ITEM = re.compile(r"<item\s*/>", re.IGNORECASE)
_XML_NAMES = {"amp", "lt", "gt", "quot", "apos"}


class FeedError(Exception):
    """A body that is not a feed, or has no usable content. The text is the reason."""


@dataclass(frozen=True)
class Document:
    """A feed or a sitemap from its root element on. `root` is that element's name in lower case, without its prefix.

    `cut_off`: the body ends inside an item, and the text ends before that item. `left_out` counts the items of a feed over
    the limits. A sitemap keeps all its items, because they are not sorted.
    """

    text: str
    root: str
    cut_off: bool = False
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `guid` as the feed spells it, `url` absolute but not canonical, `title` plain text, dates in UTC.

    Media, keywords and alternates have the same form as those of a CMS. `source` is `feed`. For a page of a sitemap that lacks
    a title or a publication date, it is `sitemap`.
    """

    guid: str | None
    url: str | None
    title: str
    published_at: datetime | None
    updated_at: datetime | None
    language: str | None = None
    keywords: tuple[str, ...] = ()
    images: tuple[dict[str, Any], ...] = ()
    videos: tuple[dict[str, Any], ...] = ()
    alternates: tuple[dict[str, Any], ...] = ()
    source: str = FEED_SOURCE


@dataclass(frozen=True, slots=True)
class Deletion:
    """A tombstone: the guid of a deleted entry, and when it was deleted."""

    guid: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a feed. `incomplete`: why entries may be missing. `left_out`: texts with the numbers over the limit."""

    entries: tuple[Entry, ...] = ()
    deleted: tuple[Deletion, ...] = ()
    incomplete: str | None = None
    left_out: tuple[str, ...] = ()


def read_document(body: bytes, headers: Mapping[str, str]) -> Document:
    """Return the feed or sitemap in a body. Raises FeedError if there is none, or if it ends inside its first item."""
    if not body.strip():
        raise FeedError("the body is empty")
    text = decode(body, headers.get("content-type", ""))
    root = _feed_root(text)
    return _cut_to_complete(text[root.start() :], root[1], root[2].lower())


def is_feed(head: str) -> bool:
    """Return True if a text that begins with `head` is RSS or Atom."""
    root = _root(head)
    return root is not None and root[2].lower() not in SITEMAPS


def _feed_root(text: str) -> re.Match[str]:
    """Find the root element of a feed or sitemap. Raises FeedError if there is none."""
    if _JSON.match(text):
        raise FeedError("JSON, not a feed: only RSS and Atom are read")
    root = _root(text)
    page = _PAGE.search(text, 0, root.start() if root else PROLOG_CHARACTERS_MAX)
    # A feed inside an HTML page counts if its root has a namespace or a version, and items follow. tablix.org has one.
    marked = root and _MARKED.match(text, root.end())
    if page and not (root and marked and _ITEM_END.search(text, root.end())):
        raise FeedError("an HTML page, not a feed")
    name = root[2].lower() if root else ""
    if root is None or (name == "entry" and not marked):
        first = _FIRST_ELEMENT.search(text, 0, PROLOG_CHARACTERS_MAX)
        raise FeedError(f"neither RSS nor Atom: begins with <{first[1]}>" if first else "not XML: no element in it")
    return root


def _cut_to_complete(text: str, tag: str, name: str) -> Document:
    """Cut a text where its feed ends, is truncated or reaches a limit. The text begins with the root element. Raises FeedError."""
    item_end = rf"</(?:[\w.-]+:)?{_ITEMS.get(name, _FEED_ITEMS)}\s*>"
    items = [end_tag.end() for end_tag in re.finditer(item_end, text, re.IGNORECASE)]
    if _LONG_TAG.search(text):
        raise FeedError(f"the feed has a tag longer than {TAG_CHARACTERS_MAX:,} characters")
    fitting = len(items) if name in SITEMAPS else _count_fitting(text, items)
    ends = [end_tag.end() for end_tag in re.finditer(f"</{re.escape(tag)}\\s*>", text, re.IGNORECASE)]
    if fitting == len(items) and ends:
        return Document(_repair(text[: ends[-1]]), name)
    if fitting == len(items) and re.match(r"<[^<>]*/>", text):
        return Document(_repair(text[: text.index(">") + 1]), name)
    if not items:
        raise FeedError("the feed is cut off before its first item is complete")
    left_out = len(items) - fitting
    end = items[fitting - 1]
    cut_off = not left_out and not _ONLY_ENDS.fullmatch(text, end)
    # With end tags, so that the text is a complete document.
    channel = "</channel>" if tag.lower() == "rss" and "</channel" not in text[:end] else ""
    return Document(_repair(f"{text[:end]}{channel}</{tag}>"), name, cut_off=cut_off, left_out=left_out)


def _root(text: str) -> re.Match[str] | None:
    """Return the root element's start tag. A tag inside a comment before the root does not count."""
    root = _ROOT.search(text, 0, PROLOG_CHARACTERS_MAX)
    while root and not root[1]:
        end = text.find("-->", root.end(), PROLOG_CHARACTERS_MAX)
        if end < 0:
            return None
        root = _ROOT.search(text, end, PROLOG_CHARACTERS_MAX)
    return root


def _count_fitting(text: str, items: list[int]) -> int:
    """Return the number of items within the limits; `items` are their ends in the text. Raises FeedError if the first is not."""
    fitting = min(len(items), ENTRIES_MAX)
    if _count_tags(text) > TAGS_MAX:
        tags = accumulate(_count_tags(text[start:end]) for start, end in pairwise([0, *items[:fitting]]))
        fitting = sum(count <= TAGS_MAX for count in tags)
        if not fitting:
            raise FeedError(f"the feed has more than {TAGS_MAX:,} tags before its first item is complete")
    return fitting


def _count_tags(text: str) -> int:
    """Return the number of tags outside CDATA. A start tag and an end tag count as two."""
    return sum(piece.count("<") for piece in _split_at_cdata(text)[::2])


def _split_at_cdata(text: str) -> list[str]:
    """Split a text into pieces outside CDATA (even indexes) and CDATA sections. A section without an end does not count."""
    last_end = text.rfind("]]>") + 3  # each section before this index has an end, so that the search for it is short
    pieces = _CDATA.split(text[:last_end])
    return [*pieces[:-1], pieces[-1] + text[last_end:]]


def decode(body: bytes, content_type: str) -> str:
    """Decode the body. The first of these encodings that fits is used: byte-order mark, UTF-8, XML declaration, Content-Type.

    If none fits, the body is read as windows-1252, as at uol.com.br.
    """
    for signature, encoding in _SIGNATURES:
        if body.startswith(signature):
            return body.decode(encoding, "replace").removeprefix("\ufeff")
    declared = _DECLARED.search(body, 0, 1_000)
    charset = _CHARSET.search(content_type)
    if not body.isascii() or b"\x1b" not in body:
        # A text in another encoding is hardly ever valid UTF-8 by accident.
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
        # A few characters are broken, as at thisismoney.co.uk (SimplePie, issue 39). The rest stays readable as UTF-8.
        text = body.decode("utf-8-sig", "replace")
        if text.count("\ufffd") * 10 <= sum(1 for character in text if character > "\x7f"):
            return text
    encodings = (declared[1].decode() if declared else "", charset[1] if charset else "")
    texts = (decoded for encoding in encodings if (decoded := _decode_as(body, encoding)) is not None)
    return next(texts, None) or body.decode("windows-1252", "replace")


def _decode_as(body: bytes, encoding: str) -> str | None:
    """Decode the body in the declared encoding. Return None if Python has no such text encoding."""
    # `cp-1251` is a misspelling (SimplePie, issue 354). Python lacks `windows-874`.
    name = encoding.lower().removeprefix("x-").replace("windows-", "cp").replace("cp-", "cp")
    try:
        name = codecs.lookup(name).name
    except LookupError:
        return None
    return body.decode(_SUPERSETS.get(name, name), "replace") if _TEXT_ENCODING.match(name) else None


def _repair(text: str) -> str:
    """Repair what feedparser would misread: see the pattern of each mistake. Raises FeedError for too many ampersands.

    Ampersands in CDATA stay as they are. feedparser repairs bare ampersands too, but turns `&copy=1` in a link into a
    copyright sign.
    """
    text = _FORBIDDEN.sub("", text)
    text = _LINK_WITHOUT_AN_END.sub(r"<link>\1</link>", text)
    text = _TAG_OF_A_LINK_WITH_TEXT.sub("<link>", _EMPTY_LINK.sub("", text))
    text = _ROOT_WITH_NAMESPACE.sub(r"\1\2", _TRUE_PERMALINK.sub(r"\1true", text), count=1)
    text = _EMPTY_ITEM.sub("", text)
    if text.count("&") > REFERENCES_MAX:
        raise FeedError(f"the feed has more than {REFERENCES_MAX:,} ampersands")
    return with_references(text)


def with_references(text: str) -> str:
    """Escape bare ampersands outside CDATA, and replace HTML entities that XML does not define."""
    pieces = _split_at_cdata(text)
    pieces[::2] = [_AMPERSAND.sub(_replace_reference, piece) for piece in pieces[::2]]
    return "".join(pieces)


def _replace_reference(reference: re.Match[str]) -> str:
    """Return the replacement for a reference or a bare ampersand."""
    decimal, hexadecimal, name = reference.groups()
    if name:
        if name in _XML_NAMES:
            return reference[0]
        return escape(html5[f"{name};"]) if f"{name};" in html5 else f"&amp;{name};"
    if decimal or hexadecimal:
        point = int(decimal) if decimal else int(hexadecimal, 16)
        return "" if point > sys.maxunicode or _FORBIDDEN.match(chr(point)) else reference[0]
    return "&amp;"
