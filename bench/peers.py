"""What others wrote, fetched into bench/.peers (never committed) to be measured beside us; what cannot be fetched is skipped."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / ".peers"
PYTHON_PEERS = ("django==5.2.*", "xml-sitemap-writer==0.7.*")
SITEMAP_JS = "sitemap@9.0.1"
FETCHING_S_MAX = 240
_QUIETLY = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")


@dataclass
class Peers:
    """Where the peers are; what is not here, by name, with the reason."""

    python: Path | None = None
    node: Path | None = None
    skipped: dict[str, str] = field(default_factory=dict)


def fetch() -> Peers:
    """Fetch what is not here yet."""
    found = Peers()
    python = FOLDER / "python/bin/python"
    installed = FOLDER / "python/installed"
    if not _is_fetched(installed, PYTHON_PEERS):
        shutil.rmtree(FOLDER / "python", ignore_errors=True)
        said = _run([sys.executable, "-m", "venv", str(FOLDER / "python")]) or _run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON_PEERS]
        )
        if said:
            found.skipped["django, xml-sitemap-writer"] = said
        else:
            installed.write_text("\n".join(PYTHON_PEERS))
    if _is_fetched(installed, PYTHON_PEERS):
        found.python = python
    found.node = _sitemap_js(found)
    return found


def _sitemap_js(found: Peers) -> Path | None:
    where, command = FOLDER / "node", ["install", *_QUIETLY, SITEMAP_JS]
    installed = where / "installed"
    if not shutil.which("npm") or not shutil.which("node"):
        found.skipped["sitemap.js"] = "there is no node with npm on the PATH"
        return None
    if not _is_fetched(installed, command):
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir(parents=True)
        if said := _run(["npm", *command], where):
            found.skipped["sitemap.js"] = said
            return None
        installed.write_text("\n".join(command))
    return where


def _is_fetched(installed: Path, packages: Sequence[str]) -> bool:
    return installed.is_file() and installed.read_text() == "\n".join(packages)


def _run(command: list[str], folder: Path | None = None) -> str:
    """Nothing where it went well, else why not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCHING_S_MAX, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"could not be fetched: {error!r}"
    last = (done.stderr.strip() or done.stdout.strip() or "nothing was said").splitlines()[-1]
    return "" if done.returncode == 0 else f"could not be fetched: {last[:200]}"
