"""Language codes for news:language: ISO 639 in small letters, zh-cn and zh-tw for Chinese (R2.10).

Also the ISO codes for hreflang (R5.2) and video:restriction (R4.2).
"""

import re

_CODE = re.compile(r"[a-z]{2,3}")
# Codes that ISO 639 has withdrawn and CMSs still send.
RENAMED = {"iw": "he", "in": "id", "ji": "yi", "mo": "ro"}
# Frequent mistakes in codes of languages and countries, and what to write.
MEANT = {
    "cn": "Chinese is zh",
    "cz": "Czech is cs",
    "dk": "Danish is da",
    "gr": "Greek is el",
    "jp": "Japanese is ja",
    "jw": "Javanese is jv",
    "kp": "Korean is ko",
    "rs": "Serbian is sr",
    "ua": "Ukrainian is uk",
    "vn": "Vietnamese is vi",
    "EN": "England has no code: the United Kingdom is GB",
    "EU": "there is no code for Europe: leave it out, or give a country",
    "UK": "the United Kingdom is GB, Ukraine is UA",
    "es-LA": "LA is Laos: give es, or a country such as es-MX",
    "pt-LA": "LA is Laos: give pt, or pt-BR",
} | {old: f"its code is {new} now" for old, new in RENAMED.items()}
# ISO 639-1, without the withdrawn sh.
LANGUAGES = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja
    jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb
    nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq
    sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """.split()
)
# ISO 3166-1 alpha-2.
COUNTRIES = frozenset(
    """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO
    FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE
    JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO
    MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW
    PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM
    TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
    """.split()
)
# Territories that imply traditional script if the code names no script.
_TRADITIONAL_TERRITORIES = {"tw", "hk", "mo"}


def language_code(text: str) -> str | None:
    """`en-US` -> `en`, `zh-Hant` -> `zh-tw`, `iw` -> `he`; None if the text is not a language code.

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
