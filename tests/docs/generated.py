"""The parts of the documentation that the code writes: `python -m tests.docs.generated` puts them into the pages."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import typer.main

from stoppress.model.site import schema
from stoppress_cli.app import app
from stoppress_cli.check.rulebook import RULES, Rule
from tests.docs.pages import DOCS, PAGES

PART = re.compile(r"(?<=<!-- generated: )([\w ]+)( -->\n\n).*?(?=\n\n<!-- /generated -->)", re.DOTALL)


# The chapters of the rules by the beginning of their ids.
CHAPTERS = {
    "R1": "Every sitemap",
    "R2": "News",
    "R3": "Images",
    "R4": "Videos",
    "R5": "Language versions",
    "R6": "Indexes and sets of files",
    "R8": "robots.txt, and what Yandex reports",
    "R9": "How files are served",
    "R11": "Hostile files",
}


def check_rules() -> str:
    parts = []
    for chapter, title in CHAPTERS.items():
        rules = [rule for rule in RULES.values() if rule.id.partition(".")[0] == chapter]
        parts += [f"## {title}", _block(list(_lines(rules)))]
    return "\n\n".join(parts)


def _lines(rules: list[Rule]) -> Iterator[tuple[str, str]]:
    """Yield each id and its rules. A finding shows the source of its rule, so the page has none."""
    for rule_id, group in groupby(rules, lambda rule: rule.id):
        yield rule_id, ""
        for rule in group:
            yield f"  {rule.name}{'*' * (rule.severity == 'warning')}", rule.text


def command_line() -> str:
    """Return each command with its help, arguments and options; first what several commands have."""
    return "\n\n".join([_block(sorted(COMMON - UNLISTED)), *_commands(ROOT, "stoppress")])


def _commands(command: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", {})
    # A group without its own effect has no section.
    if " " in name and (not children or command.invoke_without_command):
        yield f"## {name.partition(' ')[2]}"
        text, _, failure = (command.help or "").partition("Exit code 1: ")
        yield from (paragraph.replace("\n", " ") for paragraph in text.strip().split("\n\n"))
    if example := getattr(command, "example", ""):
        rows = [_parameter(parameter) for parameter in command.params]
        common = " ".join(sorted(row[0] for row in rows if row in COMMON - UNLISTED))
        facts = [(command.effect, example.removesuffix(" --stack stoppress"))]
        facts += [("exit 1", failure.rstrip(".").replace("\n", " "))] if failure else []
        facts += [("also", common)] if common else []
        yield _block([*facts, *(row for row in rows if row not in COMMON)])
    for child_name, child in sorted(children.items()):
        yield from _commands(child, f"{name} {child_name}")


def _block(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    lines = (f"{name:<{width}}  {text}".rstrip() for name, text in rows)
    return "\n".join(["```text", *lines, "```"])


def _parameter(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        name = parameter.name.upper() + ("…" if parameter.nargs == -1 else "")
        return name if parameter.required else f"[{name}]", parameter.help or ""
    default = parameter.default
    shown = f" [{default}]" if isinstance(default, int | str | Path) and default not in (False, "") else ""
    return ", ".join(parameter.opts), f"{parameter.help or ''}{' [required]' if parameter.required else shown}"


def _parameters(command: Any) -> Iterator[tuple[str, str]]:
    yield from map(_parameter, command.params)
    for child in getattr(command, "commands", {}).values():
        yield from _parameters(child)


ROOT: Any = typer.main.get_command(app)
# The arguments and options that have the same meaning in several commands.
COMMON = {
    (name, meaning)
    for (name, meaning), count in Counter(_parameters(ROOT)).items()
    if count > 1 and not meaning.endswith("[required]")
}
# The options of each command on a stack, and --json: the page's first paragraphs state which commands have them. The arguments
# HOST and SITE need no explanation.
UNLISTED = {
    _parameter(parameter)
    for parameter in ROOT.commands["status"].params
    if parameter.name in {"stack", "local", "profile", "region", "as_json"}
} | {(name, "Host of the site.") for name in ("HOST", "SITE")}


# The JSON Schema of a site's configuration, beside the page that describes the configuration.
SCHEMA = DOCS / "reference/site.schema.json"


def schema_text() -> str:
    return f"{json.dumps(schema(), indent=2, ensure_ascii=False)}\n"


PARTS: dict[str, Callable[[], str]] = {"check rules": check_rules, "command line": command_line}


def with_parts(text: str) -> str:
    """Return a page with up-to-date generated parts."""
    return PART.sub(lambda match: f"{match[1]}{match[2]}{PARTS[match[1]]()}", text)


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    for page in PAGES:
        page.write_text(with_parts(page.read_text(encoding="utf-8")), encoding="utf-8")
