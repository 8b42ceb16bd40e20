"""The machine, the versions and the day of a measurement."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_LIBRARIES = ("boto3", "botocore", "moto", "aws-lambda-powertools", "pydantic", "feedparser")


def described() -> dict[str, Any]:
    """`machine`, `versions` and `date`, as results.json begins."""
    return {
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES},
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
