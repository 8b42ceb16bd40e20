"""Rendering of whole files, ours beside others', each in a process of its own with the same pages."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.archive import FIRST_NUMBER
from bench.newsroom import HOST, NOW, WINDOW, Story, spread, text
from bench.peers import Peers

ROOT = Path(__file__).parents[1]
WORKERS = Path(__file__).parent / "workers"
URLS, NEWS = 50_000, 1_000
# How often each is done: the median counts.
REPEATS = {"50k": 3, "1k_": 21}
WORKER_S_MAX = 300

# What is rendered, by the pages that it is made of.
OURS = {
    "50k_plain": "plain", "50k_gzip": "plain", "50k_rich": "rich", "50k_rich_gzip": "rich", "1k_news": "news", "zlib6_alone": "plain",
}  # fmt: skip
SITEMAP_JS = {
    "50k_plain": "plain", "50k_gzip_piped": "plain", "50k_gzip_joined": "plain", "50k_rich": "rich", "1k_news": "news",
}  # fmt: skip
DJANGO = {"50k_plain": "plain", "50k_gzip": "plain"}
XML_SITEMAP_WRITER = {"50k_gzip": "plain"}

Row = dict[str, Any]


def measure(
    peers: Peers, repeats: dict[str, int] | None = None, cases: frozenset[str] | None = None
) -> tuple[dict[str, Row], dict[str, dict[str, Row]]]:
    """Ours by case, and the peers' by name and case; `cases` are those of ours to be measured alone."""
    wanted = repeats or REPEATS
    with tempfile.TemporaryDirectory() as folder:
        pages = {kind: Path(folder) / f"{kind}.jsonl" for kind in ("plain", "rich", "news")}
        for kind, path in pages.items():
            path.write_text("".join(f"{json.dumps(page)}\n" for page in _pages(kind)), encoding="utf-8")

        def work(command: list[str], case: str, kind: str, *more: str) -> Row:
            times = next((times for start, times in wanted.items() if case.startswith(start)), wanted["50k"])
            [row] = _worker([*command, case, str(pages[kind]), str(times), *more])
            return row

        ours = {
            case: work([sys.executable, "-m", "bench.workers.ours"], case, kind)
            for case, kind in OURS.items()
            if cases is None or case in cases
        }
        others: dict[str, dict[str, Row]] = {}
        if peers.node and cases is None:
            node = ["node", "--expose-gc", "--max-old-space-size=4096", str(WORKERS / "sitemap.mjs")]
            others["sitemap.js"] = {case: work(node, case, kind, str(peers.node)) for case, kind in SITEMAP_JS.items()}
        if peers.python and cases is None:
            for name, worker, their_cases in (
                ("django", "django_sitemap.py", DJANGO),
                ("xml-sitemap-writer", "xml_sitemap_writer_peer.py", XML_SITEMAP_WRITER),
            ):
                command = [str(peers.python), str(WORKERS / worker)]
                others[name] = {case: work(command, case, kind) for case, kind in their_cases.items()}
    return ours, others


def _pages(kind: str) -> Iterator[Row]:
    """The same pages for everybody."""
    if kind == "news":
        dates = spread(NEWS, NOW - WINDOW + timedelta(hours=1), NOW)
        for number, date in enumerate(dates, start=FIRST_NUMBER):
            story = Story(number, date)
            yield {"loc": story.url(), "title": story.data()["title"], "published": text(date), "lastmod": text(date)}
        return
    for number, date in enumerate(spread(URLS, datetime(2024, 1, 1, tzinfo=UTC), NOW), start=FIRST_NUMBER):
        story = Story(number, date)
        page: Row = {"loc": story.url(), "lastmod": text(date)}
        if kind == "rich":
            page |= {
                "images": [f"https://img.{HOST}/{date:%Y/%m}/{number}.jpg?w=1200&h=675"],
                "alternates": [["en", page["loc"]], ["fr", page["loc"].replace("/20", "/fr/20", 1)]],
                "videos": [
                    {
                        "thumbnail_loc": f"https://img.{HOST}/{date:%Y/%m}/{number}-still.jpg",
                        "title": story.data()["title"],
                        "description": "What the camera saw, in one minute",
                        "content_loc": f"https://video.{HOST}/{number}.mp4",
                        "publication_date": text(date),
                    }
                ],
            }
        yield page


def _worker(command: list[str]) -> list[Row]:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=WORKER_S_MAX, env=_environment()
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'shared'}:{ROOT / 'cli'}"}
