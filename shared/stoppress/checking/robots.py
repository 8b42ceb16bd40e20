"""Rules on robots.txt: the sitemaps it names, and whether it lets anybody read them (R8.2)."""

import re

from stoppress.checking.findings import shown
from stoppress.checking.one_pass import Pass
from stoppress.checking.reading import Text
from stoppress.checking.values import check_url

# RFC 9309: a crawler reads at least 500 kibibytes, and need not read more.
CHARACTERS_MAX = 512_000
RULES_MAX = 2_000  # of one agent
SITEMAPS_MAX = 1_000  # that are held against the rules
_FIELD = re.compile(r"\s*(user-agent|sitemap|allow|disallow)\s*:\s*([^#]*)", re.IGNORECASE)
_SITEMAP = re.compile(r"\s*sitemap\s*:\s*(\S*)", re.IGNORECASE)
# Whose groups are looked at: everybody's, and those that news depend on.
_AGENTS = {"*", "googlebot", "bingbot"}

Rule = tuple[str, bool]  # pattern, whether it allows


def is_robots(head: str) -> bool:
    """Whether a text is a robots.txt: one of its first lines is a field of these."""
    lines = [line for line in head[:4_096].splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and _FIELD.match(lines[0]) is not None


def check_robots(text: Text, at: Pass) -> None:
    """Every Sitemap: line, and against the groups what it names."""
    content = "".join(text.pieces())[:CHARACTERS_MAX]
    groups = _groups(content)
    at.facts.forbids = lambda path: any(_forbids(rules, path) for rules in groups.values())
    for number, line in enumerate(content.splitlines(), text.line):
        if not (field := _SITEMAP.match(line)):
            continue
        url = field[1]
        faults: list[str] = []
        place = check_url(url, lambda _name, message, heard=faults: heard.append(message))  # type: ignore[misc]
        if place is None:
            at.tell(
                "robots-value", number, f"Sitemap: {shown(url)} is no absolute URL: write it with protocol and host"
            )
            continue
        for message in faults:
            at.tell("robots-value", number, message)
        at.facts.named.append((number, url))
        same_host = at.base is None or place.host == at.base.host
        if same_host and len(at.facts.named) <= SITEMAPS_MAX and at.facts.forbids(place.path):
            at.tell("robots-disallowed", number, f"a Disallow of this file forbids {shown(place.path)}: allow it")


def _groups(content: str) -> dict[str, list[Rule]]:
    groups: dict[str, list[Rule]] = {}
    agents: list[str] = []
    naming = False
    for line in content.splitlines():
        if not (field := _FIELD.match(line)):
            continue
        name, value = field[1].lower(), field[2].strip()
        if name == "user-agent":
            agents = [*(agents if naming else []), value.lower()]
            naming = True
        elif name in {"allow", "disallow"}:
            naming = False
            for agent in _AGENTS.intersection(agents):
                if value and len(groups.get(agent, ())) < RULES_MAX:
                    groups.setdefault(agent, []).append((value, name == "allow"))
    return groups


def _forbids(rules: list[Rule], path: str) -> bool:
    """The longest pattern decides, of equal ones Allow (RFC 9309, 2.2.2)."""
    matching = [(len(pattern), allows) for pattern, allows in rules if _matches(pattern, path)]
    return bool(matching) and not max(matching)[1]


def _matches(pattern: str, path: str) -> bool:
    """Whether a path begins as the pattern says; * is anything, $ the end."""
    ends = pattern.endswith("$")
    first, *parts = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    place = len(first)
    for part in parts[:-1] if ends and parts else parts:
        found = path.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    if not ends:
        return True
    last = parts[-1] if parts else ""
    return path.endswith(last) and len(path) - len(last) >= place if parts else len(path) == place
