"""SAM's build is complete, unchanged and for Lambda: ours has no fault, and each planted fault is reported."""

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deployment.artifact import builds
from tests.deployment.artifact.builds import LAYER, ROOT
from tests.deployment.artifact.faults import faults_of

pytestmark = pytest.mark.artifact

Spoil = Callable[[Path], None]
MACHINE = "aarch64"  # the name of the template's arm64 in wheels and ELF


def test_the_build_for_aws_has_no_fault() -> None:
    assert faults_of(builds.deployment(), ROOT, MACHINE) == []


def write(path: str, content: bytes = b"") -> Spoil:
    """Replace a file, which is a link to that of the real build."""

    def spoil(build: Path) -> None:
        (build / path).parent.mkdir(exist_ok=True)
        (build / path).unlink(missing_ok=True)
        (build / path).write_bytes(content)

    return spoil


def change(pattern: str, changed: Callable[[bytes], bytes]) -> Spoil:
    """Change the bytes of the one file that a pattern finds."""

    def spoil(build: Path) -> None:
        [path] = build.glob(pattern)
        write(str(path.relative_to(build)), changed(path.read_bytes()))(build)

    return spoil


def remove(pattern: str) -> Spoil:
    def spoil(build: Path) -> None:
        for path in list(build.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return spoil


def rename(pattern: str, name: str) -> Spoil:
    def spoil(build: Path) -> None:
        [path] = build.glob(pattern)
        path.rename(path.with_name(name))

    return spoil


def for_x86_64(binary: bytes) -> bytes:
    return binary[:18] + bytes([62]) + binary[19:]


def link_file(source: str, target: str) -> None:
    """Copy a file by a hard link, if the file system can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def copy_build(folder: Path) -> Path:
    """Return a copy of the build for AWS, without the many libraries in which no fault is planted."""

    def libraries(inside: str, names: list[str]) -> list[str]:
        has_libraries = inside.endswith((LAYER, "NotifyEngines"))
        return [name for name in names if has_libraries and not name.startswith(SPOILT_PARTS)]

    return Path(shutil.copytree(builds.deployment(), folder / "build", copy_function=link_file, ignore=libraries))


SPOILT_PARTS = ("stoppress", "pydantic_core", "idna", "_cffi_backend", "app.py")
COMPILED = f"{LAYER}/stoppress/model/__pycache__/site.cpython-313.pyc"
SPOILT: dict[str, Spoil] = {
    "the layer has boto3, which the runtime brings": write(f"{LAYER}/boto3/__init__.py"),
    "_pydantic_core.cpython-313-aarch64-linux-gnu.so is for x86_64, the functions run on aarch64": change(
        f"{LAYER}/pydantic_core/*.so", for_x86_64
    ),
    "_cffi_backend.cpython-313-aarch64-linux-gnu.so is for x86_64, the functions run on aarch64": change(
        "NotifyEngines/_cffi_backend*.so", for_x86_64
    ),
    "idna/speedups.dylib is no library that Linux loads": write(f"{LAYER}/idna/speedups.dylib", b"\xcf\xfa\xed\xfe"),
    "is for another Python than 3.13": rename(
        f"{LAYER}/pydantic_core/*.so", "_pydantic_core.cpython-312-aarch64-linux-gnu.so"
    ),
    "stoppress/model/site.py is not in the layer": remove(f"{LAYER}/stoppress/model/site.py"),
    "SharedLayer was not built, its code is still": change(
        "template.yaml", lambda text: text.replace(b"ContentUri: SharedLayer", b"ContentUri: ../shared")
    ),
    "PollFeeds has requirements.txt in it; a function is its app.py alone": write("PollFeeds/requirements.txt"),
    "PollFeeds is not the same as poll_feeds/app.py": write(
        "PollFeeds/app.py", b"def lambda_handler(event, context): ..."
    ),
    "PollFeeds has no app.py": remove("PollFeeds/app.py"),
    "stoppress/model/site.py is another in the layer": change(
        f"{LAYER}/stoppress/model/site.py", lambda text: text + b"#"
    ),
    "the layer has stoppress/gone.py, which the tree has not": write(f"{LAYER}/stoppress/gone.py"),
    "stoppress/model/site.py is not compiled: each cold start would compile it again": remove(COMPILED),
    "stoppress/model/site.py is compiled by another Python than 3.13": change(
        COMPILED, lambda code: b"\xa7\x0d\x0d\x0a" + code[4:]
    ),
    "or its source is looked at before it is used": change(COMPILED, lambda code: code[:4] + b"\x03\0\0\0" + code[8:]),
    "stoppress/model/site.py is compiled under another name than /opt/python/": change(
        COMPILED, lambda code: code.replace(b"/opt/python", b"/tmp")
    ),
    "stoppress/model/__pycache__/gone.cpython-313.pyc belongs to no module": rename(COMPILED, "gone.cpython-313.pyc"),
    "SharedLayer has no folder python/, where Lambda looks for modules": rename(LAYER, "site-packages"),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_faulty_build_is_detected(fault: str, tmp_path: Path) -> None:
    build = copy_build(tmp_path)
    SPOILT[fault](build)

    assert [reported for reported in faults_of(build, ROOT, MACHINE) if fault in reported]


def test_a_build_that_contains_its_own_folder_is_detected(tmp_path: Path) -> None:
    build = copy_build(tmp_path)
    change(COMPILED, lambda code: code.replace(b"/opt/python", os.fsencode(build)))(build)

    assert [reported for reported in faults_of(build, ROOT, MACHINE) if "names the folder it was built in" in reported]


def test_the_layer_installs_only_the_locked_library(tmp_path: Path) -> None:
    locked = (ROOT / "shared/requirements.txt").read_text(encoding="utf-8")
    [library] = re.findall(r"^idna==(?:.*\\\n)*.*\n", locked, re.MULTILINE)
    shutil.copytree(ROOT / "shared", tmp_path / "shared", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "shared/requirements.txt").write_text(library, encoding="utf-8")
    version = library.split()[0].removeprefix("idna==")
    with zipfile.ZipFile(tmp_path / f"idna-{version}-py3-none-any.whl", "w") as wheel:
        info = f"idna-{version}.dist-info"
        wheel.writestr("idna/__init__.py", "# foreign\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: idna\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    search = f"{Path(builds.python()).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["make", "build-SharedLayer"],  # noqa: S607
        cwd=tmp_path / "shared",
        env={**os.environ, **index, "PATH": search, "ARTIFACTS_DIR": str(tmp_path / "built")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
