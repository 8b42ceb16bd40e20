"""The parts of the documentation that the code writes: `python -m tests.docs.generated` puts them into the pages."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from stoppress.cms.mapping import load
from stoppress.model.adapters import names
from stoppress.model.site import schema
from stoppress_cli.app import app
from stoppress_cli.check.rulebook import RULES
from tests.docs.pages import DOCS, PAGES
from tests.support.breakages import BREAKAGES

PART = re.compile(r"(?<=<!-- generated: )([\w ]+)( -->\n\n).*?(?=\n\n<!-- /generated -->)", re.DOTALL)
# Requirements that `stoppress check` cannot check in a file or a folder of files, and why.
NOT_CHECKABLE = {
    "R1.12": "only the page shows whether lastmod is the page's own date",
    "R2.7": "only time shows whether a news sitemap keeps its URL",
    "R2.14": "it is about how a publication gets into Google News",
    "R2.15": "it says that a news sitemap gives no ranking advantage",
    "R4.4": "it says that a page has no limit of 1,000 videos",
    "R5.3": "it says how the language codes of R2.10 and R5.2 differ",
    "R6.2": "Search Console shows how many indexes a site has submitted",
    "R6.7": "it is advice on the size of files; R1.10 has the limits",
    "R7.1": "only the page shows whether lastmod is true",
    "R7.2": "only two versions of a page show whether lastmod changes with the page",
    "R7.3": "it says how Bing uses lastmod",
    "R8.1": "it is about pings, which are requests",
    "R8.3": "it is about requests to Search Console",
    "R8.4": "it is about requests to Google's Indexing API",
    "R8.5": "it is about feeds beside the sitemaps",
    "R8.6": "it is about requests to IndexNow",
    "R8.8": "it is about requests to Baidu",
    "R8.9": "it is about requests to Naver and Seznam",
    "R8.10": "it is about failed requests to search engines",
    "R9.4": "only a second request shows whether ETag and Last-Modified stay",
    "R9.6": "it is about how files are written",
    "R9.7": "it is about settings of the storage; R1.9 covers URLs of the storage",
    "R10": "it is about how feeds are polled",
    "R11.2": "it is about how URLs are fetched",
    "R11.3": "it is about webhooks",
    "R11.4": "it is about webhooks",
    "R11.5": "it is about webhooks; R1.4 to R1.7 check the URLs in the files",
}


def _table(*rows: tuple[str, ...]) -> str:
    head, *body = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *body])


def adapters() -> str:
    """The adapters in the order of their titles, our own contract first."""
    found = sorted((load(name) for name in names()), key=lambda adapter: (adapter.name != "standard", adapter.title))
    return _table(
        ("CMS", "adapter", "signed", "verified by"),
        *((adapter.title, f"`{adapter.name}`", f"`{adapter.signature}`", adapter.verified) for adapter in found),
    )


def check_rules() -> str:
    """The rules of `stoppress check`."""
    return _table(
        ("id", "name", "severity", "rule", "source"),
        *((rule.id, rule.name, rule.severity, rule.text, rule.source) for rule in RULES.values()),
    )


def rules_that_no_file_shows() -> str:
    """The rules that `stoppress check` cannot check."""
    return _table(("id", "why"), *NOT_CHECKABLE.items())


def command_line() -> str:
    """Return each command with its help, arguments and options; first the options that commands share."""
    heads = ("option", "meaning", "default")
    return "\n\n".join([_table(heads, *sorted(SHARED)), *_commands(ROOT, "stoppress")])


def _commands(command: Any, name: str) -> Iterator[str]:
    if " " in name:
        yield f"## {name}"
    for paragraph in (command.help or "").split("\n\n"):
        yield paragraph.replace("\n", " ")
    parameters = [parameter for parameter in command.params if _parameter(parameter) not in SHARED]
    if parameters:
        yield _table(("argument or option", "meaning", "default"), *map(_parameter, parameters))
    if shared := sorted(set(map(_parameter, command.params)) & SHARED):
        yield f"Shared options: {', '.join(name for name, _, _ in shared)}."
    if example := getattr(command, "example", ""):
        yield f"Effect: {command.effect}. Example: `{example}`"
    for child_name, child in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(child, f"{name} {child_name}")


def _parameter(parameter: Any) -> tuple[str, ...]:
    is_argument = parameter.param_type_name == "argument"
    name = parameter.name.upper() + ("…" if parameter.nargs == -1 else "") if is_argument else ", ".join(parameter.opts)
    default = parameter.default
    shown = f"`{default}`" if isinstance(default, int | str | Path) and default not in (False, "") else ""
    return f"`{name}`", parameter.help or "", "required" if parameter.required else shown


ROOT: Any = typer.main.get_command(app)
# The options of a command on a stack that other commands have too.
SHARED = {
    _parameter(parameter)
    for parameter in ROOT.commands["status"].params
    if parameter.name in {"stack", "local", "profile", "region", "as_json"}
}


def breakages() -> str:
    """The alarms that fire when something breaks, as tests/local_stack/test_alarms.py checks them."""
    return _table(
        ("what breaks", "alarms that fire", "after minutes"),
        *(
            (
                breakage.name,
                "<br>".join(f"`{name}`" for name in breakage.alarms) or "nothing",
                "<br>".join(f"{minutes:,}" for minutes in breakage.alarms.values()),
            )
            for breakage in BREAKAGES
        ),
    )


# The JSON Schema of a site's configuration, beside the page that describes the configuration.
SCHEMA = DOCS / "reference/site.schema.json"


def schema_text() -> str:
    """What SCHEMA holds."""
    return f"{json.dumps(schema(), indent=2, ensure_ascii=False)}\n"


PARTS: dict[str, Callable[[], str]] = {
    "adapters": adapters,
    "check rules": check_rules,
    "rules that no file shows": rules_that_no_file_shows,
    "command line": command_line,
    "breakages": breakages,
}


def with_parts(text: str) -> str:
    """A page with its generated parts as the code writes them today."""
    return PART.sub(lambda match: f"{match[1]}{match[2]}{PARTS[match[1]]()}", text)


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    for page in PAGES:
        page.write_text(with_parts(page.read_text(encoding="utf-8")), encoding="utf-8")
