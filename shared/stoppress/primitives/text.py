"""Titles and names as plain text, without characters that XML 1.0 forbids, and codes of languages and countries.

Language codes are for news:language (ISO 639 in small letters, zh-cn and zh-tw for Chinese, R2.10) and hreflang (R5.2), codes
of countries for hreflang and video:restriction (R4.2).
"""

import html
import json
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

# No rule limits news:title (Google may shorten it, R2.12). The limit keeps an entry far below DynamoDB's 400 KB for an item.
TITLE_CHARACTERS_MAX = 1_000
# How much of a text is read, as a multiple of its limit: enough for heavy markup, too little for an attack on the parser.
MARKUP_FACTOR = 4
# No publication has a longer name.
NAME_CHARACTERS_MAX = 200
# The number of characters of a wrong value that a reason repeats.
SHOWN_CHARACTERS_MAX = 60

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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean title?` for a word that is like a known word; empty if there is none."""
    from difflib import get_close_matches  # imported here: only a misspelt word needs it

    meant = get_close_matches(word.lower()[:SHOWN_CHARACTERS_MAX], list(known), n=1)
    return f"; did you mean {meant[0]}?" if meant else ""


def encodable(text: str) -> str:
    """Return the text with a question mark for each lone surrogate, which has no form in UTF-8."""
    return text.encode(errors="replace").decode()


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
    """Return a text escaped for an element or an attribute of an XML file (R1.2)."""
    # Hardly any text has one of these. Searching takes a quarter of the time of replacing.
    if not ("&" in text or "<" in text or ">" in text or '"' in text or "'" in text):
        return text
    # The ampersand first, because the other escapes contain it. saxutils would import a parser, which slows cold starts.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;")


def publication_name(text: str) -> str:
    """Return a publication's name for news:name: without parentheses and their content (R2.9)."""
    name, before = clean(text, NAME_CHARACTERS_MAX * MARKUP_FACTOR), ""
    while name != before:  # innermost parentheses first
        name, before = _IN_PARENTHESES.sub("", name), name
    return clean(_PARENTHESIS.sub(" ", name), NAME_CHARACTERS_MAX)


def shown(value: object) -> str:
    """Return a wrong value for a reason: shortened, on one line."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:SHOWN_CHARACTERS_MAX] if isinstance(value, str) else value)[: SHOWN_CHARACTERS_MAX + 2]


_CODE = re.compile(r"[a-z]{2,3}")
_TABLES = json.loads(Path(__file__).with_name("codes.json").read_text("utf-8"))
# ISO 639-1 without the withdrawn sh, and ISO 3166-1 alpha-2.
LANGUAGES, COUNTRIES = frozenset(_TABLES["languages"]), frozenset(_TABLES["countries"])
# Codes that ISO 639 has withdrawn and CMSs still send, with the current codes.
RENAMED: dict[str, str] = _TABLES["renamed"]
# Frequent mistakes in codes of languages and countries, and what to write.
MEANT: dict[str, str] = _TABLES["meant"] | {old: f"its code is {new} now" for old, new in RENAMED.items()}
# Territories that imply traditional script if the code has no script.
_TRADITIONAL_TERRITORIES = {"tw", "hk", "mo"}


def language_code(text: str) -> str | None:
    """Return a code for news:language: `en` for `en-US`, `zh-tw` for `zh-Hant`, `he` for `iw`; None for any other text.

    A code of two letters must be in ISO 639-1. Any three letters count as a code of ISO 639-2.
    """
    primary, *subtags = text.strip().lower().replace("_", "-").split("-")
    if not _CODE.fullmatch(primary):
        return None
    if primary in ("zh", "cmn"):
        traditional = "hant" in subtags or ("hans" not in subtags and not _TRADITIONAL_TERRITORIES.isdisjoint(subtags))
        return "zh-tw" if traditional else "zh-cn"
    code = RENAMED.get(primary, primary)
    return code if code in LANGUAGES or len(code) == 3 else None
