"""Codes of languages and territories, as hreflang and news:language use them."""

import re

# ISO 639-1.
LANGUAGES = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
    es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka
    kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng
    nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st
    su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """.split()
)
# Codes of three letters in ISO 639-2 whose language has one of two letters, which hreflang wants.
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
# Codes that ISO 639 has withdrawn, and those often written in their place by mistake, with the right ones.
INSTEAD = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "gr": "el", "jp": "ja", "cz": "cs", "dk": "da"}
INSTEAD |= {"ua": "uk", "cn": "zh", "kp": "ko", "vn": "vi", "rs": "sr"}

# ISO 3166-1 alpha-2.
TERRITORIES = frozenset(
    """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA
    CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA
    GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP
    KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS
    MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS
    RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW
    TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
    """.split()
)

_NEWS_LANGUAGE = re.compile(r"zh-cn|zh-tw|[a-z]{2,3}")
_SCRIPT = re.compile(r"[A-Za-z]{4}")
_THREE_LETTERS = re.compile(r"[a-z]{3}")


def news_language_fault(code: str) -> str | None:
    """What is wrong with a news:language (R2.10), or None. A code of three letters is taken as it is."""
    if not _NEWS_LANGUAGE.fullmatch(code):
        return "is no ISO 639 code of two or three small letters, zh-cn or zh-tw"
    if code == "zh":
        return "says not which Chinese: write zh-cn or zh-tw"
    if len(code) == 2 and code not in LANGUAGES:
        return f"is no ISO 639 language{_hint(code)}"
    return None


def hreflang_fault(code: str) -> str | None:
    """What is wrong with an hreflang (R5.2), or None. Capitals do not count."""
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
    if len(rest) > 1 or rest[0].upper() not in TERRITORIES:
        meant = "; the United Kingdom is GB" if rest[0].upper() == "UK" else ""
        return f"ends with {'-'.join(rest)!r}, which is no ISO 3166-1 territory of two letters{meant}"
    return None


def _hint(code: str) -> str:
    return f"; {INSTEAD[code]} may be meant" if code in INSTEAD else ""
