"""The start-up time of the command line: wall time of fresh processes, which a newcomer waits for at each command."""

import subprocess
import sys
import time
from statistics import median

COMMANDS = ("--help", "check --help", "status --help")
ROUNDS = 5


def milliseconds() -> dict[str, float]:
    """Return the median milliseconds of each of COMMANDS. The first round only fills the caches of files and is left out."""
    return {words: median([_run(words) for _ in range(ROUNDS + 1)][1:]) for words in COMMANDS}


def _run(words: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "stoppress_cli", *words.split()], check=True, capture_output=True)
    return round((time.perf_counter() - began) * 1_000, 1)
