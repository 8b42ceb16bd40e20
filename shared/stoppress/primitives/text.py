"""Titles and names as plain text: what a reader would see, and nothing that XML 1.0 forbids."""

import html
import re
import unicodedata

# No rule bounds news:title (Google may shorten it, R2.12); the bound keeps an entry far below a table item's 400 KB.
TITLE_CHARACTERS_MAX = 1_000
# What is read of a text, in limits: enough for a title in heavy markup, too little to keep a parser busy on purpose.
MARKUP_FACTOR = 4
# No publication has a longer name; as above.
NAME_CHARACTERS_MAX = 200

# XML 1.0 Char, less the C1 controls and the non-characters that parsers choke on (R1.16).
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane * 0x10000 + end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))
    + "]"
)
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# A tag starts with a letter, a slash or an exclamation mark: "a < b" and "I <3 you" are text.
_TAG = re.compile(r"<!--.*?-->|<!\[CDATA\[|<[/!?]?[A-Za-z][^<>]*>", re.DOTALL)
# Elements that part words as a space does.
_BREAK = re.compile(r"<(?:[bh]r|/?(?:p|div|li|td|h[1-6]))(?=[\s/>])[^<>]*>", re.IGNORECASE)
_CDATA_END = re.compile(r"\]\]>")
_IN_PARENTHESES = re.compile(r"\([^()]*\)")
_PARENTHESIS = re.compile("[()]")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")


# How gzip begins (RFC 1952).
_GZIP = b"\x1f\x8b"
# How the content types of bodies end that are no JSON.
_NOT_JSON = ("form-urlencoded", "form-data", "xml", "html")


def utf8(body: bytes) -> str:
    """A posted body as text. Raises ValueError, with what to change."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if body.startswith(_GZIP):
            raise ValueError("the body is compressed with gzip: send and sign it uncompressed") from None
        raise ValueError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def not_json(content_type: str) -> str:
    """Why a body of this content type is no JSON, and what to change; empty where its type does not tell."""
    kind = content_type.partition(";")[0].strip().lower()
    return f"the body is {clean(kind, 100)}: have it post JSON" if kind.endswith(_NOT_JSON) else ""


def clean(text: str, limit: int = TITLE_CHARACTERS_MAX) -> str:
    """Plain text of a title: entities resolved, markup gone, white space collapsed, NFC, cut to `limit` characters.

    Entities are resolved at most twice: feeds escape once for XML and once for HTML, and a third time would eat
    what the newsroom wrote.
    """
    joined = text[: limit * MARKUP_FACTOR]
    # Most titles and nearly all names are so plain that there is nothing to do.
    if joined.isascii() and joined.isprintable() and not ("&" in joined or "<" in joined or "]]>" in joined):
        return " ".join(joined.split())[:limit].rstrip()
    joined = _SURROGATE_PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), joined)
    for _ in range(2):
        joined = html.unescape(joined)
    plain = _CDATA_END.sub("", _TAG.sub("", _BREAK.sub(" ", joined)))
    legal = _INVISIBLE.sub("", _FORBIDDEN.sub("", plain))
    return unicodedata.normalize("NFC", " ".join(legal.split()))[:limit].rstrip()


def escaped(text: str) -> str:
    """A text as it stands in an element or an attribute of an XML file (R1.2)."""
    # Hardly any text has one of these, and to look for them is a quarter of the work of replacing them.
    if not ("&" in text or "<" in text or ">" in text or '"' in text or "'" in text):
        return text
    # The ampersand first, which the others bring. Not saxutils: it reads XML too, which a cold start would pay for.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;")


def publication_name(text: str) -> str:
    """A publication's name as news:name wants it: without anything in parentheses, and without a parenthesis (R2.9)."""
    name, before = clean(text, NAME_CHARACTERS_MAX * MARKUP_FACTOR), ""
    while name != before:  # from the inside out
        name, before = _IN_PARENTHESES.sub("", name), name
    return clean(_PARENTHESIS.sub(" ", name), NAME_CHARACTERS_MAX)
