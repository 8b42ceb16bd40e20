"""Rendering of whole files by Stoppress and by its peers, each in its own process with the same pages.

The peers are installed into bench/.peers (never committed). A peer that cannot be fetched is skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.archive import FIRST_NUMBER
from bench.newsroom import HOST, NOW, WINDOW, Story, spread, text

ROOT = Path(__file__).parents[1]
PEERS = Path(__file__).parent / ".peers"
URLS, NEWS = 50_000, 1_000
# Repetitions of each case, whose median is reported.
REPEATS, REPEATS_NEWS = 3, 21
QUICK_REPEATS, QUICK_REPEATS_NEWS = 1, 5
WORKER_S_MAX, FETCHING_S_MAX = 300, 240

# The cases of each renderer, with the kind of their pages.
CASES = {
    "Stoppress": {
        "50k_plain": "plain", "50k_gzip": "plain", "50k_rich": "rich", "50k_rich_gzip": "rich", "1k_news": "news",
        "zlib6_alone": "plain",
    },
    "sitemap.js": {
        "50k_plain": "plain", "50k_gzip_piped": "plain", "50k_gzip_joined": "plain", "50k_rich": "rich", "1k_news": "news",
    },
    "django": {"50k_plain": "plain", "50k_gzip": "plain"},
    "xml-sitemap-writer": {"50k_gzip": "plain"},
}  # fmt: skip
QUICK_CASES = ("50k_plain", "50k_gzip", "1k_news", "zlib6_alone")
PACKAGES = {"sitemap.js": "sitemap@9.0.1", "django": "django==5.2.*", "xml-sitemap-writer": "xml-sitemap-writer==0.7.*"}

Row = dict[str, Any]


class CannotFetchError(RuntimeError):
    """A peer cannot be fetched; the text is the reason."""


def measure(quick: bool) -> dict[str, Any]:
    """Return the rows of Stoppress and of its peers, in the form of results.json. `quick`: no peers, fewer cases."""
    peers: dict[str, dict[str, Row]] = {}
    skipped: dict[str, str] = {}
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        pages = {kind: Path(folder) / f"{kind}.jsonl" for kind in ("plain", "rich", "news")}
        for kind, path in pages.items():
            path.write_text("".join(f"{json.dumps(page)}\n" for page in _pages(kind)), encoding="utf-8")
        ours = _measure_cases([sys.executable, "-m", "bench.worker", "stoppress"], "Stoppress", pages, quick)
        for name in PACKAGES if not quick else ():
            try:
                peers[name] = _measure_cases(_fetch_peer(name), name, pages, quick)
            except CannotFetchError as reason:
                skipped[name] = str(reason)
                continue
            versions[name] = next(iter(peers[name].values()))["version"]
    kept = ("cpu_ms", "peak_mib", "bytes")
    for cases in (ours, *peers.values()):
        for case, row in cases.items():
            cases[case] = {name: row[name] for name in kept}
    return {"render": ours, "peers": peers, "versions": versions, "skipped": skipped}


def _measure_cases(command: list[str], renderer: str, pages: dict[str, Path], quick: bool) -> dict[str, Row]:
    rows = {}
    for case, kind in CASES[renderer].items():
        if quick and case not in QUICK_CASES:
            continue
        repeats = (REPEATS, REPEATS_NEWS) if not quick else (QUICK_REPEATS, QUICK_REPEATS_NEWS)
        rows[case] = json.loads(_run([*command, case, str(pages[kind]), str(repeats[kind == "news"])]))
    return rows


def _run(command: list[str], timeout_s: float = WORKER_S_MAX) -> str:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'shared'}:{ROOT / 'cli'}"}
    completed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout_s, env=environment
    )
    if completed.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {completed.returncode}:\n{completed.stderr}")
    return completed.stdout


def _fetch_peer(name: str) -> list[str]:
    """Install a peer if it is missing; return the command of its worker. Raises CannotFetchError."""
    package = PACKAGES[name]
    folder, installed = PEERS / name, PEERS / name / "installed"
    python = str(folder / "bin/python")
    if name == "sitemap.js":
        quietly = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
        steps = [["npm", "install", "--prefix", str(folder), *quietly, package]]
        worker = [
            "node", "--expose-gc", "--max-old-space-size=4096", str(Path(__file__).with_name("sitemap.mjs")), str(folder),
        ]  # fmt: skip
    else:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
        steps = [[sys.executable, "-m", "venv", str(folder)], pip]
        worker = [python, "-m", "bench.worker", name]
    if not (installed.is_file() and installed.read_text() == package):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            for step in steps:
                _run(step, FETCHING_S_MAX)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            last = str(error).strip().splitlines()[-1][:200]
            raise CannotFetchError(f"could not be fetched: {last}") from error
        installed.write_text(package)
    return worker


def _pages(kind: str) -> Iterator[Row]:
    """Yield the pages that every renderer renders."""
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
