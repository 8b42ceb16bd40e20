"""What a piece of work takes in this process: CPU and, the first time it is done, memory beyond what was there before."""

import ctypes
import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MIB_IN_KIB = 1_024


def report(work: Callable[[], bytes | list[bytes]], repeats: int, **more: Any) -> None:
    """Do it `repeats` times and print, as JSON, the median of CPU, the peak of the first time, and how much it made."""
    gc.collect()
    before_mib = _trimmed_mib()
    made: Any = None
    times = []
    added_mib = 0.0
    for number in range(repeats):
        made = None
        gc.collect()
        began = time.process_time()
        made = work()
        times.append(time.process_time() - began)
        if number == 0:
            added_mib = peak_mib() - before_mib
    size = len(made) if isinstance(made, bytes) else sum(map(len, made))
    print(
        json.dumps(
            {
                "cpu_ms": round(median(times) * 1_000, 2),
                "peak_mib": round(added_mib, 1),
                "bytes": size,
                "process_mib": round(peak_mib(), 1),
                "python": sys.version.split()[0],
            }
            | more
        )
    )


def _trimmed_mib() -> float:
    """Resident memory now, after what was freed is given back; the peak is counted from here on, where Linux can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text("5")
        return _status_mib("VmRSS")
    except (OSError, AttributeError):
        return peak_mib()


def peak_mib() -> float:
    """The most that was resident."""
    try:
        return _status_mib("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB_IN_KIB


def _status_mib(name: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / MIB_IN_KIB
