"""Faults of a build that neither `sam build` nor any other test reports.

Whether its libraries are complete and its handlers there is seen where the same build for this machine runs (test_functions.py).
"""

import os
import re
from pathlib import Path

from stoppress_cli.local.template import parse_yaml

# Lambda's runtime brings these (https://docs.aws.amazon.com/lambda/latest/dg/python-package.html); in the layer they would be
# most of it. urllib3 and jmespath come with boto3 too, but their versions in the runtime are unknown.
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
    """Return the faults in the `build` of a `tree`, one sentence each. `machine` is its processor: aarch64 or x86_64."""
    template = parse_yaml((build / "template.yaml").read_text(encoding="utf-8"))
    source = parse_yaml((tree / "template.yaml").read_text(encoding="utf-8"))
    faults: list[str] = []
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            layer = (build / str(properties["ContentUri"])).resolve()
            if not layer.is_relative_to(build.resolve()):
                faults.append(f"{name} was not built, its code is still {layer}: its Metadata needs a BuildMethod")
            else:
                faults += layer_faults(layer / "python", tree / "shared", machine)
        if resource["Type"] == "AWS::Serverless::Function":
            written = tree / source["Resources"][name]["Properties"]["CodeUri"]
            faults += function_faults(name, build / str(properties["CodeUri"]), written, machine)
    faults += [
        f"{path.relative_to(build)} names the folder it was built in"
        for path in _files(build)
        if path.name != "template.yaml" and os.fsencode(f"{build.resolve()}/") in path.read_bytes()
    ]
    return faults


def function_faults(name: str, built: Path, written: Path, machine: str) -> list[str]:
    """Return faults of a function, which must be its unchanged app.py and the libraries that it lists."""
    inside = sorted(path.relative_to(built).as_posix() for path in _files(built))
    if (written / "requirements.txt").exists():
        faults = [*binary_faults(built, machine), *compiled_faults(built, OF_A_FUNCTION)]
    else:
        faults = [f"{name} has {other} in it; a function is its app.py alone" for other in inside if other != "app.py"]
    if "app.py" not in inside:
        faults.append(f"{name} has no app.py")
    elif (built / "app.py").read_bytes() != (written / "app.py").read_bytes():
        faults.append(f"{name} is not the same as {written.name}/app.py")
    return faults


def layer_faults(layer: Path, shared: Path, machine: str) -> list[str]:
    """Return faults of the layer, which must be the compiled package and its libraries for one processor and Python."""
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
    """Return faults of the package in the layer, which must have every file unchanged and no other."""
    source, layer = _contents(written), _contents(built)
    return [
        *(f"stoppress/{name} is not in the layer" for name in sorted(source.keys() - layer.keys())),
        *(f"the layer has stoppress/{name}, which the tree has not" for name in sorted(layer.keys() - source.keys())),
        *(
            f"stoppress/{name} is another in the layer"
            for name in sorted(source)
            if layer.get(name, source[name]) != source[name]
        ),
    ]


def binary_faults(layer: Path, machine: str) -> list[str]:
    """Return compiled libraries that are not for the processor and Python of the functions."""
    faults = []
    for path in _files(layer):
        with path.open("rb") as file:
            header = file.read(20)
        if header[:4] == b"\x7fELF":
            built_for = ELF_MACHINES.get(int.from_bytes(header[18:20], "little"), "another processor")
            if built_for != machine:
                faults.append(f"{path.relative_to(layer)} is for {built_for}, the functions run on {machine}")
            if (tag := re.search(r"\.cpython-(\d+)", path.name)) and tag[1] != "313":
                faults.append(f"{path.relative_to(layer)} is for another Python than 3.13")
        elif path.suffix in {".so", ".dylib", ".pyd", ".dll"}:
            faults.append(f"{path.relative_to(layer)} is no library that Linux loads")
    return faults


def compiled_faults(layer: Path, on_lambda: str = ON_LAMBDA) -> list[str]:
    """Return modules without bytecode of Python 3.13 that is valid without its source and has Lambda's path."""
    faults = []
    orphans = {path for path in _files(layer) if path.suffix == ".pyc"}
    for path in (path for path in _files(layer) if path.suffix == ".py"):
        name = path.relative_to(layer).as_posix()
        compiled = path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc"
        orphans.discard(compiled)
        if not compiled.is_file():
            faults.append(f"{name} is not compiled: each cold start would compile it again")
            continue
        code = compiled.read_bytes()
        if not code.startswith(COMPILED_BY_313 + NEVER_CHECKED):
            faults.append(
                f"{name} is compiled by another Python than 3.13, or its source is looked at before it is used"
            )
        if f"{on_lambda}/{name}".encode() not in code:
            faults.append(f"{name} is compiled under another name than {on_lambda}/{name}")
    return faults + [f"{path.relative_to(layer)} belongs to no module" for path in sorted(orphans)]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in _files(folder)
        if "__pycache__" not in path.parts
    }
