"""The builds of `scripts/build`, once per run; tests are skipped if this machine cannot build."""

import fcntl
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MISSING = 69  # exit status of scripts/build if this machine lacks a tool for the build
MACHINE = os.uname().machine
LAYER = "SharedLayer/python"
RUNTIME = ROOT / ".aws-sam/native/runtime"

# The environment before the tests remove proxies and credentials, because a build may need the package index.
_ENVIRONMENT = {**os.environ, "SAM_CLI_TELEMETRY": "0"}


def deployment() -> Path:
    """Return the folder that `sam deploy` uploads. Skip the test if it cannot be built."""
    _build("deployment")
    return ROOT / ".aws-sam/build"


def native() -> Path:
    """Return the folder of the same build for this machine, where the functions can run. Skip likewise."""
    _build("native")
    return ROOT / ".aws-sam/native/build"


def python() -> str:
    """Return the path of the Python 3.13 that builds and runs the functions. Skip likewise."""
    return _build("python")


def emulator() -> str:
    """Return the path of ministack, the emulator of AWS to which the artifact is deployed. Skip likewise."""
    return _build("emulator")


def sam() -> str:
    """Return the path of the SAM CLI, after a build."""
    return _ENVIRONMENT.get("SAM", str(ROOT / ".venv/sam/bin/sam"))


def _build(goal: str) -> str:
    status, output = _run_build(goal)
    if status == MISSING:
        pytest.skip(output)
    assert status == 0, f"scripts/build {goal} failed:\n{output}"
    return output


@cache
def _run_build(goal: str) -> tuple[int, str]:
    """Return exit status and output. Workers of pytest-xdist wait for each other, so the second finds the build done."""
    (ROOT / ".aws-sam").mkdir(exist_ok=True)
    with (ROOT / ".aws-sam/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(  # noqa: S603 - our own script
            [ROOT / "scripts/build", goal], cwd=ROOT, env=_ENVIRONMENT, capture_output=True, text=True, check=False
        )
    return done.returncode, (done.stdout if done.returncode == 0 else done.stderr).strip()
