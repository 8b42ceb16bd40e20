"""Checks a robots.txt: the sitemaps that it lists, and whether search engines may read them (R8.2)."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from stoppress_cli.check.findings import shown
from stoppress_cli.check.input import Text
from stoppress_cli.check.one_pass import Pass
from stoppress_cli.check.value_rules import check_url
from stoppress_cli.output import counted

# RFC 9309: a crawler reads at least 500 kibibytes, and does not have to read more.
CHARACTERS_MAX = 512_000
RULES_MAX = 2_000  # of one agent
GROUPS_MAX = 500
SHOWN_MAX = 3  # rules in one message
SITEMAPS_MAX = 1_000  # checked against the rules
_FIELD = re.compile(r"\s*(user-agent|sitemap|allow|disallow)\s*:\s*([^#]*)", re.IGNORECASE)
# Fields that some engine reads and that are not checked here.
_OTHER_FIELDS = {"crawl-delay", "request-rate", "visit-time", "host", "clean-param", "content-signal", "content-usage"}
_AGENT = re.compile(r"\*|[a-z_-]*")  # a crawler's name, without its version
_EVERYTHING = {"/", "/*", "*"}
# Crawlers of engines that read sitemaps: of Google, Microsoft, Apple, Baidu, DuckDuckGo, Seznam, Yahoo, Yandex and Naver.
_ENGINES = {
    *"* googlebot googlebot-news bingbot applebot baiduspider duckduckbot seznambot slurp yandex yandexbot yeti".split()
}
# Each listed sitemap must be open to all crawlers without their own group, and to those that matter for news.
_READERS = {"*", "googlebot", "googlebot-news", "bingbot"}


MayFetch = Callable[[str, str], bool]  # a path, and a crawler


class _Rule(NamedTuple):
    """An Allow or a Disallow."""

    pattern: str
    allows: bool
    line: int


class _Group(NamedTuple):
    """The rules of the groups for a crawler, and the line that first contains its name. `agent` is the name as it is written."""

    agent: str
    line: int
    rules: list[_Rule]


def is_robots(head: str) -> bool:
    """Return True if a text is a robots.txt: its first line, apart from comments, is a field of robots.txt."""
    lines = [line for line in head[:4_096].splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and _FIELD.match(lines[0]) is not None


def check_robots(file: Text, at: Pass) -> None:
    """Check every line, and find engines that are shut out, rules that a group drops, and listed sitemaps that are not open."""
    from protego import Protego  # most files that are checked are no robots.txt

    content = "".join(file.pieces())[:CHARACTERS_MAX]
    lines = list(enumerate(content.splitlines(), file.line))
    groups = _groups(lines)
    rules = Protego.parse(content)

    def may_fetch(path: str, agent: str) -> bool:
        return bool(rules.can_fetch(path, agent))

    _check_shut_out(groups, at)
    _check_dropped(groups, may_fetch, at)
    for number, line in lines:
        field = _FIELD.match(line)
        if field is None:
            text = line.partition("#")[0].strip()
            name, colon, _ = text.partition(":")
            if text and not (colon and name.strip().lower() in _OTHER_FIELDS):
                at.report("robots-unknown", number, f"{shown(name.strip())} is no field of robots.txt")
        elif field[1].lower() == "sitemap":
            _check_sitemap((field[2].split() or [""])[0], number, groups.keys() & _READERS, may_fetch, at)


def _check_sitemap(url: str, number: int, readers: Collection[str], may_fetch: MayFetch, at: Pass) -> None:
    place = check_url(url, lambda _name, fault: at.report("robots-value", number, fault))
    if place is None:
        return
    at.facts.children[url] = number, None
    is_checked = len(at.facts.children) <= SITEMAPS_MAX and (at.base is None or place.host == at.base.host)
    if is_checked and not all(may_fetch(place.path, agent) for agent in readers):
        at.report("robots-disallowed", number, f"a Disallow of this file forbids {shown(place.path)}")


def _check_shut_out(groups: Mapping[str, _Group], at: Pass) -> None:
    """Report engines that may read nothing. A group with any Allow is taken as deliberate."""
    shut_out: dict[int, list[str]] = {}
    for agent, group in groups.items():
        if agent in _ENGINES and (closing := _find_closing(group)) and not any(rule.allows for rule in group.rules):
            name = "every crawler without its own group" if agent == "*" else group.agent
            shut_out.setdefault(closing.line, []).append(name)
    for line, names in shut_out.items():
        at.report("crawler-shut-out", line, f"this keeps {', '.join(names)} out of the whole site")


def _check_dropped(groups: Mapping[str, _Group], may_fetch: MayFetch, at: Pass) -> None:
    """Report groups of a crawler that leave out a Disallow for all crawlers (RFC 9309, 2.2.1: a crawler reads one group only).

    A group with any Allow is taken as deliberate, and so is one beside a `*` that forbids everything.
    """
    everyone = groups.get("*")
    if everyone is None or _find_closing(everyone):
        return
    forbidden = [rule.pattern for rule in everyone.rules if not rule.allows]
    for agent, group in groups.items():
        own = {rule.pattern for rule in group.rules}
        dropped = [pattern for pattern in forbidden if pattern not in own and _is_dropped(pattern, agent, may_fetch)]
        if dropped and agent != "*" and not any(rule.allows for rule in group.rules):
            rules = f"{counted(len(dropped), 'rule')} of * ({', '.join(map(shown, dropped[:SHOWN_MAX]))})"
            fault = f"{group.agent} obeys this group only, which leaves out {rules}"
            at.report("group-drops-rules", group.line, fault)


def _is_dropped(pattern: str, agent: str, may_fetch: MayFetch) -> bool:
    example = pattern.removesuffix("$").replace("*", "x")
    return may_fetch(example, agent) and not may_fetch(example, "*")


def _find_closing(group: _Group) -> _Rule | None:
    """Return the rule that forbids everything, if the group has one."""
    return next((rule for rule in group.rules if rule.pattern in _EVERYTHING and not rule.allows), None)


def _groups(lines: Iterable[tuple[int, str]]) -> dict[str, _Group]:
    """Return the rules for each crawler in the file. The parser reports no line numbers, so this scan does."""
    groups: dict[str, _Group] = {}
    named: list[str] = []  # the crawlers of the group that is being read
    before = ""
    for number, line in lines:
        field = _FIELD.match(line)
        if field is None or field[1].lower() == "sitemap":
            continue
        name, value = field[1].lower(), field[2].strip()
        if name == "user-agent":
            named = [*(named if before == name else []), *_AGENT.findall(value.lower())[:1]]
            if len(groups) < GROUPS_MAX:
                groups.setdefault(named[-1], _Group(value, number, []))
        elif value:
            for group in [groups[crawler] for crawler in set(named) & groups.keys()]:
                group.rules.extend([_Rule(value, name == "allow", number)][: RULES_MAX - len(group.rules)])
        before = name
    return groups
