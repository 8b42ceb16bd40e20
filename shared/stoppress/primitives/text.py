"""Titles and names as plain text: what a reader sees, without characters that XML 1.0 forbids."""

import html
import re
import unicodedata

# No rule limits news:title (Google may shorten it, R2.12). The limit keeps an entry far below DynamoDB's 400 KB for an item.
TITLE_CHARACTERS_MAX = 1_000
# How much of a text is read, as a multiple of its limit: enough for heavy markup, too little for an attack on the parser.
MARKUP_FACTOR = 4
# No publication has a longer name.
NAME_CHARACTERS_MAX = 200

# Everything outside XML 1.0 Char, and C1 controls and non-characters, which some parsers reject (R1.16).
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane * 0x10000 + end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))
    + "]"
)
# A tag starts with a letter, a slash or an exclamation mark: "a < b" and "I <3 you" are text.
_TAG = re.compile(r"<!--.*?-->|<!\[CDATA\[|<[/!?]?[A-Za-z][^<>]*>", re.DOTALL)
# Elements that separate words like a space.
_BREAK = re.compile(r"<(?:[bh]r|/?(?:p|div|li|td|h[1-6]))(?=[\s/>])[^<>]*>", re.IGNORECASE)
_CDATA_END = re.compile(r"\]\]>")
_IN_PARENTHESES = re.compile(r"\([^()]*\)")
_PARENTHESIS = re.compile("[()]")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")


# The first bytes of gzip (RFC 1952).
_GZIP = b"\x1f\x8b"
# Endings of content types that are not JSON.
_NOT_JSON = ("form-urlencoded", "form-data", "xml", "html")


def utf8(body: bytes) -> str:
    """Decode a posted body. Raises ValueError, with what to change."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if body.startswith(_GZIP):
            raise ValueError("the body is compressed with gzip: send and sign it uncompressed") from None
        raise ValueError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def encodable(text: str) -> str:
    """Return the text with a question mark for each lone surrogate, which has no form in UTF-8."""
    return text.encode(errors="replace").decode()


def not_json(content_type: str) -> str:
    """Why a body of this content type is not JSON, and what to change; empty if it may be JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return f"the body is {clean(kind, 100)}: post JSON" if kind.endswith(_NOT_JSON) else ""


def clean(text: str, limit: int = TITLE_CHARACTERS_MAX) -> str:
    """Return a plain text on one line: white space collapsed, no illegal characters, NFC, cut to `limit` characters."""
    text = text[: limit * MARKUP_FACTOR]
    # A fast path for most titles and nearly all names.
    if text.isascii() and text.isprintable():
        return " ".join(text.split())[:limit].rstrip()
    legal = _INVISIBLE.sub("", _FORBIDDEN.sub("", text))
    return unicodedata.normalize("NFC", " ".join(legal.split()))[:limit].rstrip()


def clean_html(text: str, limit: int = TITLE_CHARACTERS_MAX) -> str:
    """Return an HTML text as plain text on one line: as `clean`, with entities resolved and without tags.

    Entities are resolved twice, because feeds escape once for XML and once for HTML. A third time could change the title.
    """
    text = html.unescape(html.unescape(text[: limit * MARKUP_FACTOR]))
    return clean(_CDATA_END.sub("", _TAG.sub("", _BREAK.sub(" ", text))), limit)


def escaped(text: str) -> str:
    """A text escaped for an element or an attribute of an XML file (R1.2)."""
    # Hardly any text has one of these. Searching takes a quarter of the time of replacing.
    if not ("&" in text or "<" in text or ">" in text or '"' in text or "'" in text):
        return text
    # The ampersand first, because the other escapes contain it. saxutils would import a parser, which slows cold starts.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;")


def publication_name(text: str) -> str:
    """A publication's name for news:name: without parentheses and what is in them (R2.9)."""
    name, before = clean(text, NAME_CHARACTERS_MAX * MARKUP_FACTOR), ""
    while name != before:  # innermost parentheses first
        name, before = _IN_PARENTHESES.sub("", name), name
    return clean(_PARENTHESIS.sub(" ", name), NAME_CHARACTERS_MAX)
