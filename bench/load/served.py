"""The flooded stack, seen from outside: its process, and what it serves."""

import base64
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.load.newsroom import HOST, KEY

ROOT = Path(__file__).parents[2]
STEPS: list[dict[str, Any]] = [
    {"at": "2026-11-20T12:00:00Z", "secret": {"name": "newsroom", "value": f"whsec_{base64.b64encode(KEY).decode()}"}},
    {"site": {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "newsroom"}}}},
]
ANSWER_MAX_S = 60.0


class Served:
    """The stack's process: asked by lines, seen in /proc, read over HTTP."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.url = ""

    def ask(self, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def resident_bytes(self, what: str = "VmRSS") -> int | None:
        """What of it is in memory now (VmRSS) or was at the most (VmHWM); None where there is no /proc."""
        status = Path(f"/proc/{self._process.pid}/status")
        found = re.search(rf"^{what}:\s*(\d+) kB", status.read_text(), re.MULTILINE) if status.exists() else None
        return int(found[1]) * 1024 if found else None

    def get(self, path: str) -> tuple[int, bytes]:
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=ANSWER_MAX_S)
        try:
            connection.request("GET", path, headers={"host": HOST})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def served(seed: int, storm: float) -> Iterator[Served]:
    """The stack, for as long as the block runs."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "shared", "cli"))
    with subprocess.Popen(
        [sys.executable, "-m", "bench.load.stack"], cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        stack = Served(process)
        try:
            stack.url = str(stack.ask(seed=seed, storm=storm, steps=STEPS)["url"])
            yield stack
        finally:
            assert process.stdin is not None
            process.stdin.close()
