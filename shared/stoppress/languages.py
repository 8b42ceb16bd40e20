"""Languages as news:language wants them: ISO 639 in small letters, zh-cn and zh-tw for Chinese (R2.10)."""

import re

_CODE = re.compile(r"[a-z]{2,3}")
# Codes that ISO 639 has withdrawn and content systems still send.
_RENAMED = {"iw": "he", "in": "id", "ji": "yi"}
# The script says it, where it is named; else the territory does.
_TRADITIONAL_TERRITORIES = {"tw", "hk", "mo"}


def language_code(text: str) -> str | None:
    """`en-US` -> `en`, `zh-Hant` -> `zh-tw`, `iw` -> `he`; None where the text is no language code."""
    primary, *subtags = text.strip().lower().replace("_", "-").split("-")
    if not _CODE.fullmatch(primary):
        return None
    if primary in ("zh", "cmn"):
        traditional = "hant" in subtags or ("hans" not in subtags and not _TRADITIONAL_TERRITORIES.isdisjoint(subtags))
        return "zh-tw" if traditional else "zh-cn"
    return _RENAMED.get(primary, primary)
