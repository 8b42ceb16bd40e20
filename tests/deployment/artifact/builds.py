"""What `scripts/build` makes, made once in a run; where this machine cannot make it, the tests that need it are skipped."""

import fcntl
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MISSING = 69  # scripts/build: this machine has not what a build needs
MACHINE = os.uname().machine
LAYER = "SharedLayer/python"
RUNTIME = ROOT / ".aws-sam/native/runtime"

# As it is before the tests take proxies and the owner's credentials out of it: a build may have to reach the package index.
_ENVIRONMENT = {**os.environ, "SAM_CLI_TELEMETRY": "0"}


def deployment() -> Path:
    """The folder of what `sam deploy` uploads. Skips the test that asks where it cannot be built."""
    _have("deployment")
    return ROOT / ".aws-sam/build"


def native() -> Path:
    """The folder of the same for this machine, where the functions can run. Skips likewise."""
    _have("native")
    return ROOT / ".aws-sam/native/build"


def python() -> str:
    """Path of the Python 3.13 that builds and runs them. Skips likewise."""
    return _have("python")


def emulator() -> str:
    """Path of ministack, the emulator of AWS that the artifact is deployed to. Skips likewise."""
    return _have("emulator")


def sam() -> str:
    """Path of the SAM CLI that builds, once something was built."""
    return _ENVIRONMENT.get("SAM", str(ROOT / ".venv/sam/bin/sam"))


def _have(goal: str) -> str:
    status, said = _outcome(goal)
    if status == MISSING:
        pytest.skip(said)
    assert status == 0, f"scripts/build {goal} failed:\n{said}"
    return said


@cache
def _outcome(goal: str) -> tuple[int, str]:
    """Exit status and what was said. Workers of pytest-xdist wait for each other: the second one finds it built."""
    (ROOT / ".aws-sam").mkdir(exist_ok=True)
    with (ROOT / ".aws-sam/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(  # noqa: S603 - our own script
            [ROOT / "scripts/build", goal], cwd=ROOT, env=_ENVIRONMENT, capture_output=True, text=True, check=False
        )
    return done.returncode, (done.stdout if done.returncode == 0 else done.stderr).strip()
