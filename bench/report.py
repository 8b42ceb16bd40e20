"""Show the measurements: results.json, the generated sections of the documentation, and the terminal.

Each section is a template in `bench/tables/`.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.markdown import Markdown

from bench import chart
from bench.cost import QUICK_ARCHIVES
from stoppress_cli.output import counted

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs/explanation/costs.md"
README = ROOT / "README.md"
# The generated sections: template, page, and the name in the section's two marks.
SECTIONS = (("measured", PAGE, "measured"), ("month", PAGE, "month"), ("scale", PAGE, "scale"), ("newsrooms", README, "month"), ("figures", README, "figures"))  # fmt: skip
EVENTS = {
    "new": "new article",
    "edit_fresh": "edit of an article from the last 48 hours",
    "edit_old": "edit of an older article",
    "slug_change": "slug change",
    "removal": "removal",
    "expiry": "expiry",
}
# The articles a second that `stoppress import` sends without --rate.
SENT_A_SECOND = 50

Results = dict[str, Any]


def load() -> Results:
    """Return the last results."""
    results: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def write(results: Results) -> None:
    """Write results.json, the generated sections and the chart."""
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for template, page, name in SECTIONS:
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(section_of(text, name), render(template, results)), encoding="utf-8")
    chart.CHART.write_text(chart.draw(results), encoding="utf-8")


def show(template: str, results: Results) -> None:
    """Print a section."""
    Console(width=None if sys.stdout.isatty() else 140).print(Markdown(render(template, results)))


def section_of(page: str, name: str) -> str:
    """Return a generated section of a page, with its two marks."""
    section = re.search(rf"<!-- {name}: .*?<!-- /{name} -->", page, re.DOTALL)
    if section is None:
        raise ValueError(f"the page has no section between <!-- {name}: --> and <!-- /{name} -->")
    return section[0]


def render(template: str, results: Results) -> str:
    """Return a section in Markdown."""
    environment = Environment(  # noqa: S701  # Markdown of our own figures
        loader=FileSystemLoader(Path(__file__).with_name("tables")), undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals |= {
        "counted": counted, "duration": _duration, "event_titles": EVENTS, "import_rate": import_rate,
        "columns": _columns, "sent_a_second": SENT_A_SECOND, "sizes": [*map(str, QUICK_ARCHIVES)],
    }  # fmt: skip
    return environment.get_template(f"{template}.j2").render(results=results)


def import_rate(run: Results) -> int:
    """Return the articles a second of an import: the slowest of the command, of record_article and of rewrite_sitemaps."""
    return min(SENT_A_SECOND, int(run["recorded_a_second"]), int(run["rewritten_a_second"]))


def _duration(seconds: float) -> str:
    hours = seconds / 3_600
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def _columns(archives: Mapping[str, dict[str, float]], sizes: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of an event's cost, each at archives of these sizes."""
    return zip(*(_figures(archives[size]) for size in sizes), strict=True)


def _figures(row: dict[str, float]) -> list[str]:
    """Return the cells of an event's cost."""
    moved = f"{row['bytes'] / 1_000:,.0f} KB" if row["bytes"] >= 1_000 else f"{row['bytes']:.0f} B"
    units = [f"{row[name]:g}" for name in ("calls", "write_units", "read_units", "puts")]
    return [*units, moved, f"{row['cpu_ms']:.0f} ms"]
