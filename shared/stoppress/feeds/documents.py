"""A feed's bytes as text that a parser accepts: decoded, mended, and without what precedes and follows the root element.

The text begins with the root element. Blank lines, server warnings, the XML declaration and a DOCTYPE before it are cut off:
the encoding is known by then, and no entity can be declared or expanded.
"""

import codecs
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from html.entities import html5
from itertools import accumulate, pairwise

from stoppress.feeds.nested import without_nested

# A server's warnings before the root element are short.
PROLOG_CHARACTERS_MAX = 65_536

# Feeds are windows of twenty to a hundred entries, the newest first. Later entries are dropped, so that neither the time for
# a feed nor its item in the table grows without bound.
ENTRIES_MAX = 2_000

# feedparser takes some 20 microseconds for a tag. A start and an end count as two; the largest real feed that we know has 22,000.
TAGS_MAX = 200_000
# Each ampersand is looked up. The most that we know of a real feed is 216,000.
REFERENCES_MAX = 1_000_000
TAG_CHARACTERS_MAX = 1_000_000

# Byte-order marks, and "<" in encodings of two and four bytes; the longer ones first.
_SIGNATURES = (
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\0\0\0<", "utf-32-be"), (b"<\0\0\0", "utf-32-le"),
    (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\0<", "utf-16-be"), (b"<\0", "utf-16-le"),
)  # fmt: skip
_DECLARED = re.compile(rb"""<\?xml[^<>]*?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._-]{1,40})""", re.IGNORECASE)
# Python's names of text encodings begin like this. Its other codecs (punycode, unicode_escape) are traps.
_TEXT_CODECS = (
    "iso8859", "iso2022", "cp", "koi8", "gb", "big5", "euc_", "shift_jis", "ascii", "mac", "tis-620", "ptcp154", "kz1048",
)  # fmt: skip
# As browsers decode them: feeds use more characters than the encoding they name has.
_WIDER = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs",
}  # fmt: skip

_ROOT = re.compile(r"<!--|<((?:[\w.-]+:)?(rss|rdf|channel|feed|entry|urlset|sitemapindex))(?=[\s/>])", re.IGNORECASE)
_PAGE = re.compile(r"<(?:html|head|body)[\s>]", re.IGNORECASE)
_HAS_VERSION = re.compile(r"[^<>]*\b(?:xmlns|version)\b")
_JSON = re.compile(r"\s*(?:\{\s*\"|\[\s*\{)")
_FIRST_ELEMENT = re.compile(r"<([A-Za-z][\w.:-]{0,60})")
_LONG_TAG = re.compile(f"<[^<>]{{{TAG_CHARACTERS_MAX}}}")
# An Atom entry may be a document of its own (RFC 4287, 2). RSS 1.1 has the root element `channel`.
_ITEMS = {"urlset": "url", "sitemapindex": "sitemap"}
_FEED_ITEMS = "(?:item|entry)"
SITEMAPS = {"urlset", "sitemapindex"}
_ITEM_END = re.compile(r"</(?:[\w.-]+:)?(?:item|entry|url|sitemap)\s*>", re.IGNORECASE)
_ITEM_START = re.compile(r"<item[\s/>]", re.IGNORECASE)
_ONLY_ENDS = re.compile(r"\s*(?:</[^<>]*>\s*)*")

# XML 1.0, Char: what may neither occur nor be referred to.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Bare `&` in titles: bold.dk (FeedKit's Ampersand.xml).
_AMPERSAND = re.compile(r"&(?:#(?:(\d{1,7})|[xX]([0-9A-Fa-f]{1,6}));|([A-Za-z][A-Za-z0-9]{0,31});)?")
# `<link></link>`: le-cercle-psy.scienceshumaines.com. feedparser would not take the guid's permalink beside it.
_EMPTY_LINK = re.compile(r"<link>\s*</link\s*>|<link\s*/>", re.IGNORECASE)
# RSS has no namespace; an `xmlns` for another vocabulary at its root would take in all items (crawler-commons issues 173 to 572).
_ROOT_WITH_NAMESPACE = re.compile(
    r"""\A(?>(<rss\b[^<>]*?)\sxmlns\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))([^<>]*+>)""", re.IGNORECASE
)
_XML_NAMES = {"amp", "lt", "gt", "quot", "apos"}


class FeedError(Exception):
    """The body is no feed, or nothing in it is usable; the text is the reason."""


@dataclass(frozen=True)
class Document:
    """A feed or a sitemap from its root element on; `root` is that element's name in lower case, without its prefix.

    `cut_off`: the body broke off inside an item, and the text ends before that item. `left_out` counts the items over the
    limits of a feed. A sitemap has no such limit here, because it has no order.
    """

    text: str
    root: str
    cut_off: bool = False
    left_out: int = 0


def read_document(body: bytes, headers: Mapping[str, str]) -> Document:
    """The feed in a body. Raises FeedError if there is none, or if it breaks off before its first item is complete."""
    if not body.strip():
        raise FeedError("the body is empty")
    text = decode(body, headers.get("content-type", ""))
    root = _feed_root(text)
    return _as_far_as_complete(text[root.start() :], root[1], root[2].lower())


def _feed_root(text: str) -> re.Match[str]:
    """Find the root element of a feed. Raises FeedError if there is none."""
    if _JSON.match(text):
        raise FeedError("JSON, not a feed: only RSS and Atom are read")
    root = _root(text)
    page = _PAGE.search(text, 0, root.start() if root else PROLOG_CHARACTERS_MAX)
    # A feed inside a page (tablix.org, feedjira's DuplicateContentAtomFeed.xml) has a namespace or version, and items.
    has_version = root and _HAS_VERSION.match(text, root.end())
    if page and not (root and has_version and _ITEM_END.search(text, root.end())):
        raise FeedError("an HTML page, not a feed")
    name = root[2].lower() if root else ""
    if root is None or (name == "entry" and not has_version) or (name == "channel" and not _ITEM_START.search(text)):
        first = _FIRST_ELEMENT.search(text, 0, PROLOG_CHARACTERS_MAX)
        raise FeedError(f"neither RSS nor Atom: begins with <{first[1]}>" if first else "not XML: no element in it")
    return root


def _as_far_as_complete(text: str, tag: str, name: str) -> Document:
    """Cut a text that begins with a feed's root where the feed ends, breaks off or reaches a limit. Raises FeedError."""
    item_end = rf"</(?:[\w.-]+:)?{_ITEMS.get(name, _FEED_ITEMS)}\s*>"
    items = [end.end() for end in re.finditer(item_end, text, re.IGNORECASE)]
    if _LONG_TAG.search(text):
        raise FeedError(f"a tag is longer than {TAG_CHARACTERS_MAX:,} characters")
    fitting = len(items) if name in SITEMAPS else _fitting(text, items)
    if fitting < len(items):
        whole = _mended(_closed(text[: items[fitting - 1]], tag))
        return Document(whole, name, left_out=len(items) - fitting)
    ends = [end.end() for end in re.finditer(f"</{re.escape(tag)}\\s*>", text, re.IGNORECASE)]
    if ends:
        return Document(_mended(text[: ends[-1]]), name)
    if re.match(r"<[^<>]*/>", text):
        return Document(_mended(text[: text.index(">") + 1]), name)
    if not items:
        raise FeedError("the feed is cut off before its first item is complete")
    cut_off = not _ONLY_ENDS.fullmatch(text, items[-1])
    return Document(_mended(_closed(text[: items[-1]], tag)), name, cut_off=cut_off)


def has_items(document: Document) -> bool:
    """Whether the document has the end of an item or entry outside comments and CDATA."""
    text = document.text
    for start, end in (("<!--", "-->"), ("<![CDATA[", "]]>")):
        before, *pieces = text.split(start)
        text = before + "".join(piece.partition(end)[2] for piece in pieces)
    return re.search(rf"</(?:[\w.-]+:)?{_FEED_ITEMS}\s*>", text, re.IGNORECASE) is not None


def _root(text: str) -> re.Match[str] | None:
    """The root element's tag, but not one inside a comment before it."""
    tag = _ROOT.search(text, 0, PROLOG_CHARACTERS_MAX)
    while tag and not tag[1]:
        end = text.find("-->", tag.end(), PROLOG_CHARACTERS_MAX)
        if end < 0:
            return None
        tag = _ROOT.search(text, end, PROLOG_CHARACTERS_MAX)
    return tag


def _fitting(text: str, items: list[int]) -> int:
    """How many of the items, given where each ends, are within the limits. Raises FeedError if the first is not."""
    fitting = min(len(items), ENTRIES_MAX)
    if _tags(text) > TAGS_MAX:
        tags = accumulate(_tags(text[start:end]) for start, end in pairwise([0, *items[:fitting]]))
        fitting = sum(count <= TAGS_MAX for count in tags)
        if not fitting:
            raise FeedError(f"the feed has more than {TAGS_MAX:,} tags before its first item is complete")
    return fitting


def _tags(text: str) -> int:
    """The number of tags outside CDATA; a start and an end count as two."""
    count, position = 0, 0
    while (start := text.find("<![CDATA[", position)) >= 0 and (end := text.find("]]>", start)) >= 0:
        count += text.count("<", position, start)
        position = end
    return count + text.count("<", position)


def _closed(text: str, root: str) -> str:
    """Close a text that ends behind an item."""
    channel = "</channel>" if root.lower() == "rss" and "</channel" not in text else ""
    return f"{text}{channel}</{root}>"


def decode(body: bytes, content_type: str) -> str:
    """The body as text. The bytes themselves decide, then the XML declaration, then the Content-Type."""
    for signature, encoding in _SIGNATURES:
        if body.startswith(signature):
            return body.decode(encoding, "replace").removeprefix("\ufeff")
    body = body.removeprefix(b"\xef\xbb\xbf")
    # ISO-2022 is ASCII with escape characters.
    if not (body.isascii() and b"\x1b" in body) and (text := _as_utf_8(body)) is not None:
        return text
    declared, charset = _DECLARED.search(body, 0, 1_000), _CHARSET.search(content_type)
    claims = (declared[1].decode() if declared else "", charset[1] if charset else "")
    decoded = (text for claim in claims if (text := _as_claimed(body, claim)) is not None)
    return next(decoded, None) or body.decode("windows-1252", "replace")


def _as_utf_8(body: bytes) -> str | None:
    """The body, if it is UTF-8: hardly any text in another encoding is valid UTF-8 by accident.

    A few broken characters, as in a text cut by bytes, do not spoil the whole feed.
    """
    try:
        return body.decode()
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
        few = text.count("\ufffd") * 10 <= sum(1 for character in text if character > "\x7f")
        return text if few else None


def _as_claimed(body: bytes, claim: str) -> str | None:
    try:
        name = codecs.lookup(claim.lower().removeprefix("x-")).name
    except LookupError:
        return None
    return body.decode(_WIDER.get(name, name), "replace") if name.startswith(_TEXT_CODECS) else None


def _mended(text: str) -> str:
    """Drop empty links, a wrong namespace and characters that XML forbids; escape bare ampersands and HTML's entities.

    CDATA stays as it is. feedparser mends ampersands too, but turns `&copy=1` of a link into a copyright sign.
    Raises FeedError for too many ampersands.
    """
    text = _EMPTY_LINK.sub("", _FORBIDDEN.sub("", text))
    text = without_nested(_ROOT_WITH_NAMESPACE.sub(r"\1\2", text, count=1))
    if text.count("&") > REFERENCES_MAX:
        raise FeedError(f"the feed has more than {REFERENCES_MAX:,} ampersands")
    pieces, position = [], 0
    while (start := text.find("<![CDATA[", position)) >= 0 and (end := text.find("]]>", start)) >= 0:
        pieces += [_AMPERSAND.sub(_reference, text[position:start]), text[start : end + 3]]
        position = end + 3
    pieces.append(_AMPERSAND.sub(_reference, text[position:]))
    return "".join(pieces)


def _reference(ampersand: re.Match[str]) -> str:
    """What replaces a reference, or a bare ampersand."""
    decimal, hexadecimal, name = ampersand.groups()
    if name:
        if name in _XML_NAMES:
            return ampersand[0]
        return escape(html5[f"{name};"]) if f"{name};" in html5 else f"&amp;{name};"
    if decimal or hexadecimal:
        point = int(decimal) if decimal else int(hexadecimal, 16)
        return "" if point > sys.maxunicode or _FORBIDDEN.match(chr(point)) else ampersand[0]
    return "&amp;"
