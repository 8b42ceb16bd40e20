"""The wheel, installed where there is no checkout, as pipx installs it."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.artifact

ROOT = Path(__file__).parents[2]
WHEEL_BYTES_MAX = 1_000_000
BARE = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHONPATH"))}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run(*words: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own code
        [*map(str, words)], cwd=cwd, env=BARE, capture_output=True, text=True, timeout=180, check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that runs `stoppress` from the installed wheel in an empty folder.

    Its dependencies come from this environment by a path in a .pth file, without the checkout.
    """
    folder = tmp_path_factory.mktemp("wheel")
    built = run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder
    )
    assert built.returncode == 0, built.stderr
    [wheel] = folder.glob("*.whl")
    assert wheel.stat().st_size < WHEEL_BYTES_MAX
    venv = run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    assert venv.returncode == 0, venv.stderr
    python = folder / "venv/bin/python"
    into = run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel, cwd=folder)
    assert into.returncode == 0, into.stderr
    [packages] = (folder / "venv/lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    cwd = folder / "empty"
    cwd.mkdir()
    where = run(
        python, "-c", "import stoppress, stoppress_cli; print(stoppress.__path__, stoppress_cli.__path__)", cwd=cwd
    )
    assert where.stdout.count(str(folder)) == 2, where.stdout + where.stderr
    return lambda *words: run(folder / "venv/bin/stoppress", *words, cwd=cwd)


def test_help_and_version(installed: Run) -> None:
    assert "quarantine" in installed("--help").stdout
    assert installed("--version").stdout.startswith("stoppress ")


def test_a_scenario_is_played_on_the_local_stack(installed: Run) -> None:
    done = installed("play", ROOT / "tests/scenarios/publish.jsonl")

    assert (done.returncode, done.stderr) == (0, "")
    assert "0 differences" in done.stdout


def test_a_command_on_a_stack_asks_for_credentials(installed: Run) -> None:
    done = installed("status", "--stack", "stoppress", "--profile", "nobody")

    assert done.returncode == 2
    assert "there is no AWS profile 'nobody'" in done.stderr
