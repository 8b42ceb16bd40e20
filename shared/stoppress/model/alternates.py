"""Reads the language versions of a page from a CMS's values, with the codes of hreflang (R5.1, R5.2).

Google ignores alternates that are not mutual. `accept_links` decides which pages a page lists because they list it. The claims on
their URLs have its input (`record/versions.py`), so the order of events makes no difference.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stoppress.model.entries import Alternate
from stoppress.model.media import ITEMS_READ_MAX, first_of, items_of, url_on
from stoppress.primitives.text import COUNTRIES, LANGUAGES, MEANT, RENAMED, shown
from stoppress.primitives.urls import identity

# The version for readers of other languages.
DEFAULT = "x-default"

# A transaction of 100 items has room for the versions before and after a change, beside 50 other items. The EU has 24 languages.
ALTERNATES_MAX = 25

_CODE = re.compile(r"([a-z]{2})(?:-([a-z]{4}))?(?:-([a-z]{2}))?")


def accept_links(code: str, lists: Mapping[str, str], links: Mapping[str, str]) -> dict[str, str]:
    """Return the pages that a page lists only because they list it: codes by URL.

    `code` is the page's own, `lists` has its own versions by code, `links` the codes of the pages that list it. A code that it
    uses for another page is not available. Of several pages with one code the smallest URL counts.
    """
    taken, own = {code, *lists}, set(map(identity, lists.values()))
    accepted: dict[str, str] = {}
    for url in sorted(links) if code else ():
        if links[url] not in taken and identity(url) not in own:
            accepted[url] = links[url]
            taken.add(links[url])
    return accepted


def read_alternates(value: object, base: str) -> tuple[tuple[Alternate, ...], list[str]]:
    """Return the versions of the page `base`, sorted by language, and the reasons for values that are left out.

    Takes a list of {"hreflang": …, "url": …} or an object {"fr": URL, …}. The first version of a language counts. The
    page itself belongs among its versions (R5.1), but is not added here.
    """
    reasons: list[str] = []
    hrefs: dict[str, str] = {}
    for place, item in _items(value, reasons):
        try:
            alternate = _alternate(item, base)
        except ValueError as error:
            reasons.append(f"{place}: {error}")
            continue
        if hrefs.setdefault(alternate.hreflang, alternate.href) != alternate.href:
            reasons.append(f"{place}: {alternate.hreflang} was given before, for another URL: give each language once")
    if len(hrefs) > ALTERNATES_MAX:
        reasons.append(
            f"alternates: a page takes {ALTERNATES_MAX}; the last {len(hrefs) - ALTERNATES_MAX:,} were left out"
        )
    kept = sorted(list(hrefs.items())[:ALTERNATES_MAX])
    return tuple(Alternate(hreflang, href) for hreflang, href in kept), reasons


def hreflang(text: str) -> str:
    """Return a code in hreflang's spelling: `en-US` for `EN_us`. Raises ValueError for codes that search engines do not support."""
    plain = text.strip().lower().replace("_", "-")
    if plain == DEFAULT:
        return plain
    parts = _CODE.fullmatch(plain)
    if not parts:
        raise ValueError(f"{shown(text)} is no hreflang: give a language of ISO 639-1 such as en, en-GB or zh-Hant")
    language, script, region = RENAMED.get(parts[1], parts[1]), (parts[2] or "").title(), (parts[3] or "").upper()
    for part, codes in ((language, LANGUAGES), (region, COUNTRIES)):
        if part and part not in codes:
            kind = "language of ISO 639-1" if codes is LANGUAGES else "country of ISO 3166-1"
            raise ValueError(
                f"{shown(text)}: {part} is no {kind}; {MEANT.get(part, 'give the code that the list has')}"
            )
    if f"{language}-{region}" in MEANT:
        raise ValueError(f"{shown(text)}: {MEANT[f'{language}-{region}']}")
    return "-".join(part for part in (language, script, region) if part)


def _items(value: object, reasons: list[str]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict) and "hreflang" not in value:
        pairs = list(value.items())[:ITEMS_READ_MAX]
        return [(f"alternates[{shown(code)}]", {"hreflang": code, "url": url}) for code, url in pairs]
    return items_of("alternates", value, reasons)


def _alternate(item: object, base: str) -> Alternate:
    if not isinstance(item, dict):
        raise ValueError(f'{shown(item)} is no alternate: give {{"hreflang": "fr", "url": …}}')
    code = item.get("hreflang")
    if not isinstance(code, str):
        raise ValueError(f"{shown(code)} is no hreflang: give a text such as en, en-GB or x-default")
    return Alternate(hreflang(code), url_on(base, first_of(item, "url", "href")))
