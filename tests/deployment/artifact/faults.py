"""What can be wrong with a build though `sam build` has said that it succeeded, and though every other test passes.

Whether its libraries are complete and its handlers there is seen where the same build for this machine runs (test_functions.py).
"""

import os
import re
from pathlib import Path

from stoppress_cli.local.template import parse_yaml

# Lambda's runtime brings these (https://docs.aws.amazon.com/lambda/latest/dg/python-package.html); in the layer they would be
# most of it. urllib3 and jmespath are below boto3 too, but what the runtime's version of them is we do not know.
IN_THE_RUNTIME = {"boto3", "botocore", "s3transfer", "dateutil", "six"}
# The ELF header's e_machine, at byte 18, as the processor calls itself.
ELF_MACHINES = {183: "aarch64", 62: "x86_64"}
# A .pyc starts with the magic number of its Python (3571 in 3.13) and four bytes of flags: 1 is by hash, never checked (PEP 552).
COMPILED_BY_313 = (3571).to_bytes(2, "little") + b"\r\n"
NEVER_CHECKED = (1).to_bytes(4, "little")
ON_LAMBDA = "/opt/python"
# Lambda's folder of a function's own code.
OF_A_FUNCTION = "/var/task"


def faults_of(build: Path, tree: Path, machine: str) -> list[str]:
    """What is wrong with the `build` of a `tree`, a sentence each. `machine` is the processor it is for: aarch64, x86_64."""
    template = parse_yaml((build / "template.yaml").read_text(encoding="utf-8"))
    source = parse_yaml((tree / "template.yaml").read_text(encoding="utf-8"))
    found: list[str] = []
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            layer = (build / str(properties["ContentUri"])).resolve()
            if not layer.is_relative_to(build.resolve()):
                found.append(f"{name} was not built, its code is still {layer}: its Metadata has to name a BuildMethod")
            else:
                found += layer_faults(layer / "python", tree / "shared", machine)
        if resource["Type"] == "AWS::Serverless::Function":
            written = tree / source["Resources"][name]["Properties"]["CodeUri"]
            found += function_faults(name, build / str(properties["CodeUri"]), written, machine)
    found += [
        f"{path.relative_to(build)} names the folder it was built in"
        for path in _files(build)
        if path.name != "template.yaml" and os.fsencode(f"{build.resolve()}/") in path.read_bytes()
    ]
    return found


def function_faults(name: str, built: Path, written: Path, machine: str) -> list[str]:
    """A function is its app.py, as it was written, and nothing else but the libraries that it lists."""
    inside = sorted(path.relative_to(built).as_posix() for path in _files(built))
    if (written / "requirements.txt").exists():
        found = [*binary_faults(built, machine), *compiled_faults(built, OF_A_FUNCTION)]
    else:
        found = [f"{name} has {other} in it; a function is its app.py alone" for other in inside if other != "app.py"]
    if "app.py" not in inside:
        found.append(f"{name} has no app.py")
    elif (built / "app.py").read_bytes() != (written / "app.py").read_bytes():
        found.append(f"{name} is not what stands in {written.name}/app.py")
    return found


def layer_faults(layer: Path, shared: Path, machine: str) -> list[str]:
    """The layer is the package and the libraries it needs, for one processor and one Python, compiled."""
    if not layer.is_dir():
        return [f"{layer.parent.name} has no folder python/, where Lambda looks for modules"]
    return [
        *package_faults(layer / "stoppress", shared / "stoppress"),
        *(
            f"the layer has {name}, which the runtime brings"
            for name in sorted(IN_THE_RUNTIME)
            if (layer / name).exists() or (layer / f"{name}.py").exists()
        ),
        *binary_faults(layer, machine),
        *compiled_faults(layer),
    ]


def package_faults(built: Path, written: Path) -> list[str]:
    """The layer has every file of the package as it was written, and no other."""
    ours, theirs = _contents(written), _contents(built)
    return [
        *(f"stoppress/{name} is not in the layer" for name in sorted(ours.keys() - theirs.keys())),
        *(f"the layer has stoppress/{name}, which the tree has not" for name in sorted(theirs.keys() - ours.keys())),
        *(
            f"stoppress/{name} is another in the layer"
            for name in sorted(ours)
            if theirs.get(name, ours[name]) != ours[name]
        ),
    ]


def binary_faults(layer: Path, machine: str) -> list[str]:
    """Compiled libraries are for the processor and the Python that will load them."""
    found = []
    for path in _files(layer):
        with path.open("rb") as file:
            header = file.read(20)
        if header[:4] == b"\x7fELF":
            built_for = ELF_MACHINES.get(int.from_bytes(header[18:20], "little"), "another processor")
            if built_for != machine:
                found.append(f"{path.relative_to(layer)} is for {built_for}, the functions run on {machine}")
            if (tag := re.search(r"\.cpython-(\d+)", path.name)) and tag[1] != "313":
                found.append(f"{path.relative_to(layer)} is for another Python than 3.13")
        elif path.suffix in {".so", ".dylib", ".pyd", ".dll"}:
            found.append(f"{path.relative_to(layer)} is no library that Linux loads")
    return found


def compiled_faults(layer: Path, on_lambda: str = ON_LAMBDA) -> list[str]:
    """Beside each module is what Python 3.13 makes of it, valid without a look at the source and named as on Lambda."""
    found = []
    left = {path for path in _files(layer) if path.suffix == ".pyc"}
    for path in (path for path in _files(layer) if path.suffix == ".py"):
        name = path.relative_to(layer).as_posix()
        compiled = path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc"
        left.discard(compiled)
        if not compiled.is_file():
            found.append(f"{name} is not compiled: each cold start would do it anew")
            continue
        code = compiled.read_bytes()
        if not code.startswith(COMPILED_BY_313 + NEVER_CHECKED):
            found.append(
                f"{name} is compiled by another Python than 3.13, or its source is looked at before it is used"
            )
        if f"{on_lambda}/{name}".encode() not in code:
            found.append(f"{name} is compiled under another name than {on_lambda}/{name}")
    return found + [f"{path.relative_to(layer)} belongs to no module" for path in sorted(left)]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in _files(folder)
        if "__pycache__" not in path.parts
    }
