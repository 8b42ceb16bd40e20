"""Findings: a limited number of each kind in each file; further ones are only counted."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from stoppress_cli.check.rulebook import RULES, Rule, Severity

SHOWN_CHARACTERS_MAX = 100
FAULT_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a file breaks, and how. `line` counts from 1 in the uncompressed text; None where no line applies."""

    rule: Rule
    file: str
    line: int | None
    fault: str

    @property
    def where(self) -> str:
        """Return the file, and the line if there is one."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def message(self) -> str:
        return f"{self.fault}: {self.rule.fix}"


class Findings:
    """Keeps the first `each_max` findings of each rule in each file, and counts the others."""

    def __init__(self, each_max: int, severities: frozenset[Severity] = frozenset({"error", "warning"})) -> None:
        self._each_max = each_max
        self._severities = severities
        self._kept: list[Finding] = []
        self._seen: Counter[tuple[str, str]] = Counter()
        self.omitted: Counter[str] = Counter()  # by rule id

    def add(self, file: str, name: str, line: int | None, fault: str) -> None:
        rule = RULES[name]
        if rule.severity not in self._severities:
            return
        self._seen[file, name] += 1
        if self._seen[file, name] > self._each_max:
            self.omitted[rule.id] += 1
        else:
            self._kept.append(Finding(rule, file, line, fault[:FAULT_CHARACTERS_MAX]))

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._kept, key=lambda finding: (finding.file, finding.line or 0)))

    def counts(self) -> dict[Rule, int]:
        """Return how often each rule was broken, omitted findings included, in the rulebook's order."""
        by_name: Counter[str] = Counter()
        for (_, name), count in self._seen.items():
            by_name[name] += count
        return {rule: by_name[name] for name, rule in RULES.items() if by_name[name]}


def shown(value: str) -> str:
    """Return a value for a message: quoted, on one line, shortened."""
    cut = value if len(value) <= SHOWN_CHARACTERS_MAX else f"{value[:SHOWN_CHARACTERS_MAX]}…"
    return ascii(cut) if any(ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 for sign in cut) else f"'{cut}'"
