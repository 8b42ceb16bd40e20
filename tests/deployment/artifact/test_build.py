"""What SAM builds is what was written, complete, and for Lambda: no fault in ours, and each fault that was planted is named.

`sam build` says "Build Succeeded" of every tree in here.
"""

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

MACHINE = "aarch64"  # how wheels and ELF call the template's arm64


def plant(tree: Path, *changes: tuple[str, str]) -> None:
    """A copy of what is built, with texts of the template replaced."""
    for folder in ("functions", "shared"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, f"template.yaml has no {old!r} any more: plant this fault otherwise"
        text = text.replace(old, new, 1)
    (tree / "template.yaml").write_text(text, encoding="utf-8")


def test_what_is_deployed_has_no_fault() -> None:
    assert faults_of(builds.deployment(), ROOT, MACHINE) == []


def test_a_layer_without_a_build_method_is_found(tmp_path: Path) -> None:
    plant(tmp_path, ("      BuildMethod: makefile", "      Unbuilt: true"))
    found = faults_of(builds.sam_build(tmp_path), tmp_path, MACHINE)
    assert (
        f"SharedLayer was not built, its code is still {tmp_path}/shared: its Metadata has to name a BuildMethod"
        in found
    )
    assert "receive_webhook/app.py imports aws_lambda_powertools, which is not in the layer" in found


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The faults of a tree that has four, built by SAM's own builder for Python (which needs no network for it)."""
    tree = tmp_path_factory.mktemp("planted")
    plant(
        tree,
        ("      BuildMethod: makefile", "      BuildMethod: python3.13"),
        ("    Handler: app.lambda_handler", "    Handler: app.handler"),
    )
    (tree / "shared/requirements.txt").write_text("")
    (tree / "shared/stoppress/env").mkdir()
    (tree / "shared/stoppress/env/__init__.py").write_text('"""A module like any other."""\n')
    return faults_of(builds.sam_build(tree), tree, MACHINE)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("stoppress/env/__init__.py is not in the layer", id="a folder whose name SAM leaves out"),
        pytest.param("model/site.py imports pydantic, which is not in the layer", id="a library that is not listed"),
        pytest.param(
            "stoppress/model/site.py is not compiled: each cold start would do it anew", id="nothing is compiled"
        ),
        pytest.param(
            "RollWindow: its handler is app.handler, and app.py defines no handler", id="a handler that is not there"
        ),
    ],
)
def test_a_planted_fault_is_found(planted: list[str], fault: str) -> None:
    assert fault in planted


def beside_boto3(build: Path) -> None:
    (build / LAYER / "boto3").mkdir()


def for_another_processor(build: Path) -> None:
    [library] = (build / LAYER).glob("pydantic_core/*.so")
    header = bytearray(library.read_bytes())
    header[18] = 62
    replace(library, bytes(header))


def for_another_system(build: Path) -> None:
    (build / LAYER / "idna/speedups.dylib").write_bytes(b"\xcf\xfa\xed\xfe")


def for_another_python(build: Path) -> None:
    [library] = (build / LAYER).glob("pydantic_core/*.so")
    library.rename(library.with_name("_pydantic_core.cpython-312-aarch64-linux-gnu.so"))


def without_a_library_that_a_library_needs(build: Path) -> None:
    for path in (build / LAYER).glob("typing_inspection*"):
        shutil.rmtree(path)


def with_another_file_in_a_function(build: Path) -> None:
    (build / "PollFeeds/requirements.txt").write_text("")


def for_another_processor_in_a_function(build: Path) -> None:
    [library] = (build / "NotifyEngines").glob("_cffi_backend*.so")
    header = bytearray(library.read_bytes())
    header[18] = 62
    replace(library, bytes(header))


def without_a_library_that_only_a_function_has(build: Path) -> None:
    shutil.rmtree(build / "NotifyEngines/cryptography")


def with_an_older_function(build: Path) -> None:
    replace(build / "PollFeeds/app.py", b"def lambda_handler(event, context): ...\n")


def without_a_function(build: Path) -> None:
    (build / "PollFeeds/app.py").unlink()


def with_an_older_module(build: Path) -> None:
    replace(build / LAYER / "stoppress/model/site.py", b'"""As it was yesterday."""\n')


def with_a_module_that_is_gone(build: Path) -> None:
    (build / LAYER / "stoppress/gone.py").write_text("")


def with_an_uncompiled_module(build: Path) -> None:
    compiled(build).unlink()


def with_a_module_compiled_by_another_python(build: Path) -> None:
    replace(compiled(build), b"\xa7\x0d\x0d\x0a" + compiled(build).read_bytes()[4:])


def with_a_module_whose_source_is_looked_at(build: Path) -> None:
    code = compiled(build).read_bytes()
    replace(compiled(build), code[:4] + b"\x03\x00\x00\x00" + code[8:])


def with_the_name_of_the_folder_it_was_built_in(build: Path) -> None:
    replace(compiled(build), compiled(build).read_bytes().replace(b"/opt/python", os.fsencode(build)))


def with_compiled_code_of_no_module(build: Path) -> None:
    shutil.copy(compiled(build), compiled(build).with_name("gone.cpython-313.pyc"))


def laid_out_otherwise(build: Path) -> None:
    (build / LAYER).rename(build / "SharedLayer/site-packages")


def compiled(build: Path) -> Path:
    return build / LAYER / "stoppress/model/__pycache__/site.cpython-313.pyc"


def replace(path: Path, content: bytes) -> None:
    """Writes a new file: what stands there is a link to the real build's."""
    path.unlink()
    path.write_bytes(content)


def linked(source: str, target: str) -> None:
    """A copy that takes no space, where the file system can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (beside_boto3, "the layer has boto3, which the runtime brings"),
        (for_another_processor, "is for x86_64, the functions run on aarch64"),
        (for_another_system, "idna/speedups.dylib is no library that Linux loads"),
        (for_another_python, "is for another Python than 3.13"),
        (without_a_library_that_a_library_needs, "pydantic needs typing-inspection, which is not in the layer"),
        (with_another_file_in_a_function, "PollFeeds has requirements.txt in it; a function is its app.py alone"),
        (for_another_processor_in_a_function, "is for x86_64, the functions run on aarch64"),
        (
            without_a_library_that_only_a_function_has,
            "service_account.py imports cryptography, which is not in the layer",
        ),
        (with_an_older_function, "PollFeeds is not what stands in poll_feeds/app.py"),
        (without_a_function, "PollFeeds has no app.py"),
        (with_an_older_module, "stoppress/model/site.py is another in the layer"),
        (with_a_module_that_is_gone, "the layer has stoppress/gone.py, which the tree has not"),
        (with_an_uncompiled_module, "stoppress/model/site.py is not compiled: each cold start would do it anew"),
        (with_a_module_compiled_by_another_python, "stoppress/model/site.py is compiled by another Python than 3.13"),
        (with_a_module_whose_source_is_looked_at, "or its source is looked at before it is used"),
        (
            with_the_name_of_the_folder_it_was_built_in,
            "stoppress/model/site.py is compiled under another name than /opt/python/",
        ),
        (with_the_name_of_the_folder_it_was_built_in, "names the folder it was built in"),
        (with_compiled_code_of_no_module, "stoppress/model/__pycache__/gone.cpython-313.pyc belongs to no module"),
        (laid_out_otherwise, "SharedLayer has no folder python/, where Lambda looks for modules"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_build_that_was_spoilt_is_found(tmp_path: Path, spoil: Callable[[Path], None], fault: str) -> None:
    build = shutil.copytree(builds.deployment(), tmp_path / "build", copy_function=linked)
    spoil(build)
    assert [found for found in faults_of(build, ROOT, MACHINE) if fault in found]


def test_the_layer_takes_no_library_but_the_one_that_was_locked(tmp_path: Path) -> None:
    locked = (ROOT / "shared/requirements.txt").read_text(encoding="utf-8")
    [library] = re.findall(r"^idna==(?:.*\\\n)*.*\n", locked, re.MULTILINE)
    plant(tmp_path)
    (tmp_path / "shared/requirements.txt").write_text(library, encoding="utf-8")
    version = library.split()[0].removeprefix("idna==")
    with zipfile.ZipFile(tmp_path / f"idna-{version}-py3-none-any.whl", "w") as wheel:
        info = f"idna-{version}.dist-info"
        wheel.writestr("idna/__init__.py", "# somebody else's\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: idna\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    search = f"{Path(builds.python()).parent}{os.pathsep}{os.environ['PATH']}"

    made = subprocess.run(
        ["make", "build-SharedLayer"],  # noqa: S607
        cwd=tmp_path / "shared",
        env={**os.environ, **index, "PATH": search, "ARTIFACTS_DIR": str(tmp_path / "built")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.returncode != 0
    assert "DO NOT MATCH THE HASHES" in made.stderr
