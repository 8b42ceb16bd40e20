"""Cold starts of the built functions beside their bare boto3 clients, by the machinery of `make cold`, and the layer's size."""

import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bench import cold_starts
from stoppress_cli.scenario.feeds_server import FeedServer
from tests.deployment.artifact import builds
from tests.support import event_files

ROUNDS = 5


class CannotBuild(RuntimeError):
    """This machine has not what a build needs; the text says what."""


def measure() -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    """`ms` and `ratio` to the bare clients by function, compiled; and what else there is to say. Raises CannotBuild."""
    try:
        compiled = builds.native() / builds.LAYER
        builds.python()
    except pytest.skip.Exception as reason:
        raise CannotBuild(str(reason)) from None
    except AssertionError as error:
        raise CannotBuild(str(error).strip().splitlines()[-1]) from None
    with (
        tempfile.TemporaryDirectory() as folder,
        FeedServer().running() as feeds,
        mock.patch.object(cold_starts, "ROUNDS", ROUNDS),
    ):
        scratch = Path(folder)
        shutil.copytree(compiled, scratch / "python", ignore=shutil.ignore_patterns("__pycache__"))
        medians = {
            event_files.function_of(name): cold_starts.measured(name, compiled, scratch, feeds.port)[1]
            for name in cold_starts.EVENTS
        }
    found = {
        _snake(name): {"ms": round(ours, 1), "ratio": round(ours / bare, 2)}
        for name, (bare, _, ours) in medians.items()
    }
    more: dict[str, Any] = {
        _snake(name): {"bare_ms": round(bare, 1), "not_compiled_ms": round(uncompiled, 1)}
        for name, (bare, uncompiled, _) in medians.items()
    }
    return found, more | {"layer": _size(compiled)}


def _size(layer: Path) -> dict[str, float]:
    files = [path for path in layer.rglob("*") if path.is_file()]
    with tempfile.TemporaryFile() as packed:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.relative_to(layer))
        zipped = packed.seek(0, os.SEEK_END)
    return {"mib": round(sum(path.stat().st_size for path in files) / 2**20, 1), "zip_mib": round(zipped / 2**20, 1)}


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
