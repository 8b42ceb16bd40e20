"""What can be wrong with a build though `sam build` has said that it succeeded, and though every other test passes."""

import ast
import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

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


def faults_of(build: Path, tree: Path, machine: str) -> list[str]:
    """What is wrong with the `build` of a `tree`, a sentence each. `machine` is the processor it is for: aarch64, x86_64."""
    template = parse_yaml((build / "template.yaml").read_text(encoding="utf-8"))
    source = parse_yaml((tree / "template.yaml").read_text(encoding="utf-8"))
    defaults = template.get("Globals", {}).get("Function", {})
    found: list[str] = []
    layers: list[Path] = []
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            layer = (build / str(properties["ContentUri"])).resolve()
            if not layer.is_relative_to(build.resolve()):
                found.append(f"{name} was not built, its code is still {layer}: its Metadata has to name a BuildMethod")
            else:
                found += layer_faults(layer / "python", tree / "shared", machine)
                layers.append(layer / "python")
        if resource["Type"] == "AWS::Serverless::Function":
            written = tree / source["Resources"][name]["Properties"]["CodeUri"]
            found += function_faults(name, build / str(properties["CodeUri"]), written)
            found += handler_faults(name, build / str(properties["CodeUri"]), {**defaults, **properties}["Handler"])
    modules = [*tree.glob("functions/*/app.py"), *tree.glob("shared/stoppress/**/*.py")]
    found += import_faults(modules, layers)
    found += [
        f"{path.relative_to(build)} names the folder it was built in"
        for path in _files(build)
        if path.name != "template.yaml" and os.fsencode(f"{build.resolve()}/") in path.read_bytes()
    ]
    return found


def function_faults(name: str, built: Path, written: Path) -> list[str]:
    """A function is its app.py, as it was written, and nothing else."""
    inside = sorted(path.relative_to(built).as_posix() for path in _files(built))
    found = [f"{name} has {other} in it; a function is its app.py alone" for other in inside if other != "app.py"]
    if "app.py" not in inside:
        found.append(f"{name} has no app.py")
    elif (built / "app.py").read_bytes() != (written / "app.py").read_bytes():
        found.append(f"{name} is not what stands in {written.name}/app.py")
    return found


def handler_faults(name: str, built: Path, handler: str) -> list[str]:
    """The handler that the template names is there."""
    module, _, function = handler.rpartition(".")
    path = built / f"{module.replace('.', '/')}.py"
    if not path.is_file():
        return [f"{name}: its handler is {handler}, and there is no {path.name} in it"]
    defined = {node.name for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.FunctionDef)}
    return [] if function in defined else [f"{name}: its handler is {handler}, and {path.name} defines no {function}"]


def layer_faults(layer: Path, shared: Path, machine: str) -> list[str]:
    """The layer is the package and the libraries it needs, for one processor and one Python, compiled."""
    if not layer.is_dir():
        return [f"{layer.parent.name} has no folder python/, where Lambda looks for modules"]
    return [
        *package_faults(layer / "stoppress", shared / "stoppress"),
        *library_faults(layer),
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


def library_faults(layer: Path) -> list[str]:
    """Each library has what it needs itself, and none is there that the runtime brings."""
    found = [
        f"the layer has {name}, which the runtime brings"
        for name in sorted(IN_THE_RUNTIME)
        if (layer / name).exists() or (layer / f"{name}.py").exists()
    ]
    here: dict[str, Distribution] = {_spelt(one.metadata["Name"]): one for one in distributions(path=[str(layer)])}
    for name, distribution in sorted(here.items()):
        for needed in map(Requirement, distribution.requires or ()):
            wanted = needed.marker is None or needed.marker.evaluate({"python_version": "3.13", "extra": ""})
            if wanted and _spelt(needed.name) not in here.keys() | IN_THE_RUNTIME:
                found.append(f"{name} needs {needed.name}, which is not in the layer")
    return found


def import_faults(modules: list[Path], layers: list[Path]) -> list[str]:
    """What the functions and the package import is in a layer, in the runtime or in Python."""
    return [
        f"{module.parent.name}/{module.name} imports {name}, which is not in the layer"
        for module in sorted(modules)
        for name in sorted(_imported(module) - sys.stdlib_module_names - IN_THE_RUNTIME)
        if not any((layer / name).is_dir() or (layer / f"{name}.py").is_file() for layer in layers)
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


def compiled_faults(layer: Path) -> list[str]:
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
        if f"{ON_LAMBDA}/{name}".encode() not in code:
            found.append(f"{name} is compiled under another name than {ON_LAMBDA}/{name}")
    return found + [f"{path.relative_to(layer)} belongs to no module" for path in sorted(left)]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in _files(folder)
        if "__pycache__" not in path.parts
    }


def _spelt(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported(module: Path) -> set[str]:
    def names() -> Iterator[str]:
        for node in ast.walk(ast.parse(module.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module

    return {name.partition(".")[0] for name in names()}
