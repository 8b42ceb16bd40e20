"""The picture of cost against size: one new article of ours, and one new page of the nearest peer, which is rewritten file by file."""

import math
import tomllib
from pathlib import Path
from typing import Any

TOP, HEIGHT = 60, 220
# Each panel: its left edge, title, figure, and the labels of its logarithmic axis by power of ten.
PANELS = (
    (70, "moved by S3 for one new article", "bytes", {3: "1 KB", 4: "10 KB", 5: "100 KB", 6: "1 MB", 7: "10 MB", 8: "100 MB"}),
    (500, "CPU for one new article", "cpu_ms", {0: "1 ms", 1: "10 ms", 2: "100 ms", 3: "1 s", 4: "10 s"}),
)  # fmt: skip
PANEL_WIDTH = 320
TICKS = (0, 1_000, 10_000, 100_000, 1_000_000)
# The axis of pages is logarithmic to a million; nothing stands at its left end.
NOTHING_AT, MILLION_AT = 1.5, 6
# Beyond one file the peer's cost is anywhere between that of an empty file and that of a full one.
PEER_FILE_URLS = 50_000


def panels(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the coordinates of two panels: bytes that S3 moves, and CPU."""
    peer = tomllib.loads(Path(__file__).with_name("streaming_sitemaps.toml").read_text(encoding="utf-8"))["new"]
    ours = [row | {"urls": int(urls)} for urls, row in results["cost"]["new"].items()]
    return [_panel(*panel, ours, peer) for panel in PANELS]


def _panel(
    left: int, title: str, figure: str, labels: dict[int, str], ours: list[dict[str, float]], peer: list[dict[str, float]]
) -> dict[str, Any]:  # fmt: skip
    low, high = min(labels), max(labels)

    def x(urls: float) -> float:
        power = math.log10(urls) if urls else NOTHING_AT
        return left + (power - NOTHING_AT) / (MILLION_AT - NOTHING_AT) * PANEL_WIDTH

    def y(value: float) -> float:
        return TOP + HEIGHT * (1 - (max(low, math.log10(max(value, 1))) - low) / (high - low))

    top, bottom = y(peer[-1][figure]), y(peer[0][figure])
    start = x(PEER_FILE_URLS)
    return {
        "left": left,
        "right": left + PANEL_WIDTH,
        "title": title,
        "lines": [(y(10**power), labels[power]) for power in sorted(labels)],
        "ticks": [(x(urls), urls) for urls in TICKS],
        "ours": [(x(row["urls"]), y(row[figure])) for row in ours],
        "peer": [(x(row["urls"]), y(row[figure])) for row in peer],
        "band": (start, top, left + PANEL_WIDTH - start, bottom - top, bottom - 8),
    }
