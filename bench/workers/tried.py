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
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar
from xml.sax.saxutils import escape

import markupsafe
from isal import isal_zlib
from zlib_ng import zlib_ng

T = TypeVar("T")

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
    **{f"zlib {level}": partial(zlib.compress, level=level) for level in (1, 3, 4, 5, 6, 9)},
    **{f"isal {level}": partial(isal_zlib.compress, level=level) for level in (0, 1, 2, 3)},
    **{f"zlib-ng {level}": partial(zlib_ng.compress, level=level) for level in (1, 3, 4, 5, 6, 9)},
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
        made, cpu_ms = _timed(partial(compress, body), repeats)
        _say("compressor", which, cpu_ms, len(made))
    texts = [page["loc"] for page in pages]
    for which, escaped in ESCAPERS.items():
        lines, cpu_ms = _timed(partial(_all, escaped, texts), repeats)
        _say("escaper of 50,000 URLs", which, cpu_ms, sum(map(len, lines)))


def _all(escaped: Callable[[str], str], texts: list[str]) -> list[str]:
    return [escaped(text) for text in texts]


def _timed(work: Callable[[], T], repeats: int) -> tuple[T, float]:
    times = []
    made = work()
    for _ in range(repeats):
        began = time.process_time()
        made = work()
        times.append(time.process_time() - began)
    return made, median(times) * 1_000


def _say(what: str, which: str, cpu_ms: float, size: int) -> None:
    print(json.dumps({"what": what, "which": which, "cpu_ms": round(cpu_ms, 2), "bytes": size}))


if __name__ == "__main__":
    main()
