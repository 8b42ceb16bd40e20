"""Checks a robots.txt: the sitemaps it names, and whether search engines may read them (R8.2)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoppress.check.findings import shown
from stoppress.check.input import Text
from stoppress.check.one_pass import Pass
from stoppress.check.values import check_url

# RFC 9309: a crawler reads at least 500 kibibytes, and need not read more.
CHARACTERS_MAX = 512_000
RULES_MAX = 2_000  # of one agent
SITEMAPS_MAX = 1_000  # checked against the rules
_FIELD = re.compile(r"\s*(user-agent|sitemap|allow|disallow)\s*:\s*([^#]*)", re.IGNORECASE)
_SITEMAP = re.compile(r"\s*sitemap\s*:\s*(\S*)", re.IGNORECASE)
# Fields that some engine reads and that are not checked here.
_OTHER_FIELDS = {"crawl-delay", "request-rate", "visit-time", "host", "clean-param", "content-signal", "content-usage"}
_AGENT = re.compile(r"\*|[a-z_-]*")  # a crawler's name, without its version
_EVERYTHING = {"/", "/*", "*"}
# Engines that read sitemaps, by the names of their crawlers.
_ENGINES = {
    "*": "every crawler without a group of its own",
    "googlebot": "Googlebot",
    "googlebot-news": "Googlebot-News",
    "bingbot": "Bingbot",
    "applebot": "Applebot",
    "baiduspider": "Baiduspider",
    "duckduckbot": "DuckDuckBot",
    "seznambot": "SeznamBot",
    "slurp": "Slurp (Yahoo)",
    "yandex": "Yandex",
    "yandexbot": "YandexBot",
    "yeti": "Yeti (Naver)",
}
# Every named sitemap must be open to all crawlers without a group of their own, and to those that matter for news.
_READERS = {"*", "googlebot", "googlebot-news", "bingbot"}


@dataclass(frozen=True, slots=True)
class _Rule:
    """An Allow or a Disallow."""

    pattern: str
    allows: bool
    line: int


def is_robots(head: str) -> bool:
    """Whether a text is a robots.txt: its first line, apart from comments, is a field of robots.txt."""
    lines = [line for line in head[:4_096].splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and _FIELD.match(lines[0]) is not None


def check_robots(text: Text, at: Pass) -> None:
    """Checks every line, which engines are shut out, and whether each named sitemap is open."""
    content = "".join(text.pieces())[:CHARACTERS_MAX]
    lines = list(enumerate(content.splitlines(), text.line))
    groups = _groups(lines)
    readers = [rules for agent, rules in groups.items() if agent in _READERS]
    at.facts.forbids = lambda path: any(_forbids(rules, path) for rules in readers)
    _check_shut_out(groups, at)
    for number, line in lines:
        if field := _SITEMAP.match(line):
            _check_sitemap(field[1], number, at)
        elif not _FIELD.match(line):
            _check_other(line, number, at)


def _check_sitemap(url: str, number: int, at: Pass) -> None:
    faults: list[str] = []
    place = check_url(url, lambda _name, message: faults.append(message))
    if place is None:
        at.tell("robots-value", number, f"Sitemap: {shown(url)} is no absolute URL: write it with protocol and host")
        return
    for message in faults:
        at.tell("robots-value", number, message)
    at.facts.named.append((number, url))
    same_host = at.base is None or place.host == at.base.host
    if same_host and len(at.facts.named) <= SITEMAPS_MAX and at.facts.forbids and at.facts.forbids(place.path):
        at.tell("robots-disallowed", number, f"a Disallow of this file forbids {shown(place.path)}: allow it")


def _check_other(line: str, number: int, at: Pass) -> None:
    text = line.partition("#")[0].strip()
    name, colon, _ = text.partition(":")
    if text and not (colon and name.strip().lower() in _OTHER_FIELDS):
        message = f"{shown(name.strip())} is no field of robots.txt: write User-agent, Allow, Disallow or Sitemap"
        at.tell("robots-unknown", number, message)


def _check_shut_out(groups: Mapping[str, list[_Rule]], at: Pass) -> None:
    """Reports engines that may read nothing. A group with any Allow is taken as deliberate."""
    shut_out: dict[int, list[str]] = {}
    for agent, rules in groups.items():
        closing = next((rule.line for rule in rules if rule.pattern in _EVERYTHING and not rule.allows), None)
        if closing is not None and not any(rule.allows for rule in rules):
            shut_out.setdefault(closing, []).append(_ENGINES[agent])
    for line, names in shut_out.items():
        message = f"this keeps {', '.join(names)} out of the whole site: allow the pages that readers should find"
        at.tell("crawler-shut-out", line, message)


def _groups(lines: Iterable[tuple[int, str]]) -> dict[str, list[_Rule]]:
    """The rules for each crawler of `_ENGINES` that the file names."""
    groups: dict[str, list[_Rule]] = {}
    agents: list[str] = []
    naming = False
    for number, line in lines:
        if not (field := _FIELD.match(line)):
            continue
        name, value = field[1].lower(), field[2].strip()
        if name == "user-agent":
            agent = _AGENT.match(value.lower())
            agents = [*(agents if naming else []), agent[0] if agent else ""]
            naming = True
        elif name in {"allow", "disallow"}:
            naming = False
            for agent_name in dict.fromkeys(agents):
                if value and agent_name in _ENGINES and len(groups.get(agent_name, ())) < RULES_MAX:
                    groups.setdefault(agent_name, []).append(_Rule(value, name == "allow", number))
    return groups


def _forbids(rules: list[_Rule], path: str) -> bool:
    """Whether the rules forbid a path. The longest matching pattern decides; of equally long ones, Allow (RFC 9309, 2.2.2)."""
    matching = [(len(rule.pattern), rule.allows) for rule in rules if _matches(rule.pattern, path)]
    return bool(matching) and not max(matching)[1]


def _matches(pattern: str, path: str) -> bool:
    """Whether a path begins with the pattern. In a pattern, * stands for any characters, and $ for the end."""
    ends = pattern.endswith("$")
    first, *parts = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    place = len(first)
    for part in parts[:-1] if ends and parts else parts:
        start = path.find(part, place)
        if start < 0:
            return False
        place = start + len(part)
    if not ends:
        return True
    last = parts[-1] if parts else ""
    return path.endswith(last) and len(path) - len(last) >= place if parts else len(path) == place
