"""What was tried beside what is used: compressors and escapers, on the same text: `python tried.py BODY PAGES.jsonl REPEATS`.

Prints a JSON object a line: what, which, and what it took.
"""

import gzip
import html
import json
import re
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from xml.sax.saxutils import escape

import markupsafe
from isal import isal_zlib
from zlib_ng import zlib_ng

_QUOTES = {'"': "&quot;", "'": "&apos;"}
_TABLE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **_QUOTES})
_SPECIAL = re.compile("[&<>\"']")


def only_where_needed(text: str) -> str:
    """As saxutils, of texts that have something to escape."""
    return escape(text, _QUOTES) if _SPECIAL.search(text) else text


def replaced(text: str) -> str:
    """As saxutils writes it, said once."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;")


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    **{f"zlib {level}": lambda body, level=level: zlib.compress(body, level) for level in (1, 3, 4, 5, 6, 9)},  # type: ignore[misc]
    **{f"isal {level}": lambda body, level=level: isal_zlib.compress(body, level) for level in (0, 1, 2, 3)},  # type: ignore[misc]
    **{f"zlib-ng {level}": lambda body, level=level: zlib_ng.compress(body, level) for level in (1, 3, 4, 5, 6, 9)},  # type: ignore[misc]
    "gzip.compress 6": lambda body: gzip.compress(body, 6, mtime=0),
}
ESCAPERS: dict[str, Callable[[str], str]] = {
    "saxutils.escape with quotes (in use)": lambda text: escape(text, _QUOTES),
    "saxutils.escape without quotes": escape,
    "five str.replace": replaced,
    "str.translate": lambda text: text.translate(_TABLE),
    "html.escape": html.escape,
    "markupsafe.escape": markupsafe.escape,
    "searched first, then saxutils": only_where_needed,
}


def main() -> None:
    """Print what each took."""
    body, repeats = Path(sys.argv[1]).read_bytes(), int(sys.argv[3])
    pages = [json.loads(line) for line in Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()]
    for which, compress in COMPRESSORS.items():
        made, cpu_ms = _timed(lambda compress=compress: compress(body), repeats)  # type: ignore[misc]
        _say("compressor", which, cpu_ms, len(made))
    texts = [page["loc"] for page in pages]
    for which, escaped in ESCAPERS.items():
        made, cpu_ms = _timed(lambda escaped=escaped: [escaped(text) for text in texts], repeats)  # type: ignore[misc]
        _say("escaper of 50,000 URLs", which, cpu_ms, sum(map(len, made)))


def _timed(work: Callable[[], bytes], repeats: int) -> tuple[bytes, float]:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        made = work()
        times.append(time.process_time() - began)
    return made, median(times) * 1_000


def _say(what: str, which: str, cpu_ms: float, size: int) -> None:
    print(json.dumps({"what": what, "which": which, "cpu_ms": round(cpu_ms, 2), "bytes": size}))  # noqa: T201


if __name__ == "__main__":
    main()
