"""Draw what one new article costs by the number of pages in the archive: docs/explanation/cost.svg, from results.json."""

import tomllib
from collections.abc import Callable, Iterator
from math import log10
from pathlib import Path
from typing import Any

CHART = Path(__file__).parents[1] / "docs/explanation/cost.svg"
PEER = tomllib.loads(Path(__file__).with_name("streaming_sitemaps.toml").read_text(encoding="utf-8"))["new"]
# The style of the diagrams in docs/images/. Each colour has a second value for the dark mode.
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 350" width="800" height="350" role="img">
<title>What S3 moves and how much CPU one new article takes, by the number of pages in the archive</title>
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1f2328 }
.bold { font-weight: 600 }
.paper { fill: #ffffff; stroke: #d1d9e0 }
.grid { stroke: #d1d9e0 }
.ours { fill: none; stroke: #2f6bc4; stroke-width: 2.5 }
.peer { fill: none; stroke: #c2571a; stroke-width: 2.5 }
.band { fill: #c2571a; fill-opacity: 0.15 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .paper { fill: #15181d; stroke: #3d444d } .grid { stroke: #3d444d }
.ours { stroke: #6ea6f2 } .peer { stroke: #f0a26a } .band { fill: #f0a26a }
}
</style>
<rect class="paper" x="0.5" y="0.5" width="799" height="349" rx="8"/>
<path class="ours" d="M40 30h26"/><text x="74" y="35">Stoppress</text>
<path class="peer" d="M180 30h26"/><text x="214" y="35">streaming-sitemaps</text>
<rect class="band" x="376" y="22" width="26" height="16"/><text x="410" y="35">streaming-sitemaps, as later files fill</text>"""
TOP, BOTTOM, WIDTH = 92.0, 292.0, 290.0
# A panel: its left edge, its title, the value of a measurement, the lowest power of ten, and the labels of the powers from there.
Panel = tuple[float, str, Callable[[dict[str, Any]], float], int, tuple[str, ...]]
PANELS: tuple[Panel, ...] = (
    (78, "moved by S3", lambda row: row["bytes"], 2, ("100 B", "1 KB", "10 KB", "100 KB", "1 MB", "10 MB", "100 MB")),
    (468, "CPU", lambda row: row["cpu_ms"], 0, ("1 ms", "10 ms", "100 ms", "1 s", "10 s")),
)
PAGES = {0: "0", 1_000: "1,000", 10_000: "10,000", 100_000: "100,000", 1_000_000: "1 million"}


def draw(results: dict[str, Any]) -> str:
    """Return the chart as SVG."""
    own = [{"urls": int(pages), **row} for pages, row in results["cost"]["new"].items() if int(pages) <= max(PAGES)]
    return "\n".join([HEAD, *(line for panel in PANELS for line in _panel(panel, own)), "</svg>", ""])


def _panel(panel: Panel, own: list[dict[str, Any]]) -> Iterator[str]:
    left, title, value, lowest, labels = panel

    def place(row: dict[str, Any]) -> tuple[float, float]:
        # A logarithmic axis has no zero, so an empty archive is drawn at 100 pages.
        share = max(0.0, log10(row["urls"] or 1) - 2) / 4
        height = (log10(value(row)) - lowest) / (len(labels) - 1)
        return round(left + WIDTH * share, 1), round(BOTTOM - (BOTTOM - TOP) * height, 1)

    def path(rows: list[dict[str, Any]]) -> str:
        return "M" + " ".join(f"{x} {y}" for x, y in map(place, rows))

    yield f'<text class="bold" x="{left}" y="74">{title} for one new article</text>'
    for power, label in enumerate(labels):
        y = round(BOTTOM - (BOTTOM - TOP) * power / (len(labels) - 1), 1)
        yield f'<path class="grid" d="M{left} {y}h{WIDTH}"/><text x="{left - 8}" y="{y + 4}" text-anchor="end">{label}</text>'
    for pages, label in PAGES.items():
        x, _ = place({"urls": pages, "bytes": 1, "cpu_ms": 1})
        yield f'<text x="{x}" y="314" text-anchor="middle">{label}</text>'
    yield f'<text x="{left + WIDTH / 2}" y="337" text-anchor="middle">pages in the archive</text>'
    first, last = place(PEER[0]), place(PEER[-1])
    yield f'<path class="band" d="M{last[0]} {last[1]}H{left + WIDTH}V{first[1]}H{last[0]}z"/>'
    yield f'<path class="peer" d="{path(PEER)}"/>'
    yield f'<path class="ours" d="{path(own)}"/>'
