"""Checks the codes of languages and territories in hreflang and news:language."""

import re

from stoppress.primitives.languages import COUNTRIES, LANGUAGES, MEANT

# Codes of ISO 639-2 with three letters. Their languages have codes of two letters, which hreflang demands.
LONG_FORMS = frozenset(
    """
    aar abk afr aka alb amh ara arg arm asm ava ave aym aze bak bam baq bel ben bis bod bos bre bul bur cat ces cha
    che chi chu chv cor cos cre cym cze dan deu div dut dzo ell eng epo est eus ewe fao fas fij fin fra fre fry ful
    geo ger gla gle glg glv gre grn guj hat hau hbs heb her hin hmo hrv hun hye ibo ice ido iii iku ile ina ind ipk
    isl ita jav jpn kal kan kas kat kau kaz khm kik kin kir kom kon kor kua kur lao lat lav lim lin lit ltz lub lug
    mac mah mal mao mar may mkd mlg mlt mon mri msa mya nau nav nbl nde ndo nep nld nno nob nor nya oci oji ori orm
    oss pan per pli pol por pus que roh ron rum run rus sag san sin slk slo slv sme smo sna snd som sot spa sqi srd
    srp ssw sun swa swe tah tam tat tel tgk tgl tha tib tir ton tsn tso tuk tur twi uig ukr urd uzb ven vie vol wel
    wln wol xho yid yor zha zho zul
    """.split()
)

_NEWS_LANGUAGE = re.compile(r"zh-cn|zh-tw|[a-z]{2,3}")
_SCRIPT = re.compile(r"[A-Za-z]{4}")
_THREE_LETTERS = re.compile(r"[a-z]{3}")


def news_language_fault(code: str) -> str | None:
    """The fault of a news:language (R2.10), or None. Any three letters are accepted."""
    if not _NEWS_LANGUAGE.fullmatch(code):
        return "is neither zh-cn, zh-tw nor an ISO 639 code of two or three small letters"
    if code == "zh":
        return "does not say which Chinese: write zh-cn or zh-tw"
    if len(code) == 2 and code not in LANGUAGES:
        return f"is no ISO 639 language{_hint(code)}"
    return None


def hreflang_fault(code: str) -> str | None:
    """The fault of an hreflang (R5.2), or None. Case does not matter."""
    if code.lower() == "x-default":
        return None
    language, *rest = code.split("-")
    known = language.lower() in LANGUAGES or _THREE_LETTERS.fullmatch(language.lower())
    if not known or language.lower() in LONG_FORMS:
        return f"starts with {language!r}, which is no ISO 639-1 language{_hint(language.lower())}"
    if rest and _SCRIPT.fullmatch(rest[0]):
        rest = rest[1:]
    if not rest:
        return None
    if len(rest) > 1 or rest[0].upper() not in COUNTRIES:
        return f"ends with {'-'.join(rest)!r}, which is no ISO 3166-1 territory of two letters{_hint(rest[0].upper())}"
    return None


def _hint(code: str) -> str:
    return f"; {MEANT[code]}" if code in MEANT else ""
