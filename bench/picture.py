"""The picture of cost against size: one new article of ours, and one new page of the nearest peer, which is rewritten file by file."""

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 860, 360
LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT, GAP = 70, 60, 320, 220, 110
OURS, THEIRS, INK, PALE = "#0b6e99", "#c2571a", "#333333", "#dddddd"
# The axis is logarithmic from 100 on; nothing stands at its left end.
DECADES = (2, 6)
NOTHING_AT = 1.5

Points = list[tuple[float, float]]


def svg(results: dict[str, Any]) -> str:
    """Two panels: bytes that S3 moves, and CPU."""
    ours = {int(urls): row for urls, row in results["cost"]["new"].items()}
    theirs = _peer()
    panels = [
        (
            "moved by S3 for one new article",
            "bytes",
            (3, 8),
            {5: "100 KB", 6: "1 MB", 7: "10 MB", 3: "1 KB", 4: "10 KB", 8: "100 MB"},
        ),
        ("CPU for one new article", "cpu_ms", (0, 4), {0: "1 ms", 1: "10 ms", 2: "100 ms", 3: "1 s", 4: "10 s"}),
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for number, (title, name, decades, labels) in enumerate(panels):
        left = LEFT + number * (PANEL_WIDTH + GAP)
        parts += _axes(left, title, decades, labels)
        parts += _line(left, decades, [(urls, row[name]) for urls, row in ours.items()], OURS, "Stoppress")
        parts += _line(left, decades, [(row["urls"], row[name]) for row in theirs], THEIRS, "streaming-sitemaps")
        parts += _band(left, decades, theirs[0][name], theirs[-1][name])
    parts += [
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">pages in the archive (Stoppress: 300 in the window, the open shard half full)</text>',
        "</svg>\n",
    ]
    return "\n".join(parts)


def _peer() -> list[dict[str, float]]:
    path = Path(__file__).with_name("streaming_sitemaps.toml")
    rows: list[dict[str, float]] = tomllib.loads(path.read_text(encoding="utf-8"))["new"]
    return rows


def _x(left: float, urls: float) -> float:
    power = math.log10(urls) if urls else NOTHING_AT
    return left + (power - NOTHING_AT) / (DECADES[1] - NOTHING_AT) * PANEL_WIDTH


def _y(decades: tuple[int, int], value: float) -> float:
    power = max(decades[0], math.log10(max(value, 1)))
    return TOP + PANEL_HEIGHT * (1 - (power - decades[0]) / (decades[1] - decades[0]))


def _axes(left: float, title: str, decades: tuple[int, int], labels: dict[int, str]) -> list[str]:
    bottom = TOP + PANEL_HEIGHT
    parts = [f'<text x="{left}" y="{TOP - 24}" font-size="14" font-weight="bold">{title}</text>']
    for power in range(decades[0], decades[1] + 1):
        y = _y(decades, 10**power)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + PANEL_WIDTH}" y2="{y:.1f}" stroke="{PALE}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{labels[power]}</text>')
    for urls in (0, 1_000, 10_000, 100_000, 1_000_000):
        x = _x(left, urls)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{urls:,}</text>')
        parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}" stroke="{INK}"/>')
    return parts


def _line(
    left: float, decades: tuple[int, int], points: Sequence[tuple[float, float]], colour: str, name: str
) -> list[str]:
    at: Points = [(_x(left, urls), _y(decades, value)) for urls, value in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
    x, y = at[-1]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *dots,
        f'<text x="{x:.1f}" y="{y - 9:.1f}" text-anchor="end" fill="{colour}" font-weight="bold">{name}</text>',
    ]


def _band(left: float, decades: tuple[int, int], least: float, most: float) -> list[str]:
    """Beyond one file of 50,000 the peer's cost is anywhere between that of an empty file and that of a full one."""
    start, top, bottom = _x(left, 50_000), _y(decades, most), _y(decades, least)
    width = left + PANEL_WIDTH - start
    return [
        f'<rect x="{start:.1f}" y="{top:.1f}" width="{width:.1f}" height="{bottom - top:.1f}" fill="{THEIRS}" opacity="0.12"/>',
        f'<text x="{left + PANEL_WIDTH - 5:.1f}" y="{bottom - 8:.1f}" text-anchor="end" font-size="11" fill="{THEIRS}">as its file fills</text>',
    ]
