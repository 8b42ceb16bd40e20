"""Template, code and locks agree: a function has the variables that it reads, and the libraries that were tested."""

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from stoppress_cli.local import template

ROOT = Path(__file__).parents[2]
STACK = template.load(ROOT / "template.yaml")
HANDLERS = sorted((ROOT / "functions").glob("*/app.py"))
# Libraries of functions beside those of the layer, each beside the Makefile that installs them.
LIBRARIES = sorted((ROOT / "functions").glob("*/requirements.txt"))
MODULES = sorted((ROOT / "shared/stoppress").rglob("*.py"))
# The runtime contains them, and they would be most of the layer.
IN_THE_RUNTIME = {"boto3", "botocore"}
by_function = pytest.mark.parametrize("handler", HANDLERS, ids=lambda path: path.parent.name)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def project_files() -> list[Path]:
    """Return the project's files: all except git's own and those in .gitignore."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = [".git", *(line.strip("/") for line in lines if line and not line.startswith("#"))]

    def inside(folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if not any(fnmatch(path.name, pattern) for pattern in ignored):
                yield from inside(path) if path.is_dir() else [path]

    return list(inside(ROOT))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# ── the environment variables that a function reads, followed through the definitions of the package ──────────────────────


@cache
def definitions(path: Path) -> dict[str, list[ast.stmt]]:
    """Return a module's statements by the name that they define; statements run at import have the empty name."""
    statements: dict[str, list[ast.stmt]] = {"": []}
    for statement in tree(path).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                statements.setdefault(name, []).append(statement)
                statements[""] += [ast.Expr(decorator) for decorator in statement.decorator_list]
            case _:
                statements[""].append(statement)
    return statements


def used_nodes(path: Path, name: str, seen: set[tuple[Path, str]]) -> Iterator[ast.AST]:
    """Yield every node that a definition may run."""
    if (path, name) in seen or name not in definitions(path):
        return
    seen.add((path, name))
    names = names_in(path)
    for statement in definitions(path)[name]:
        for node in nodes_of(statement):
            yield node
            match node:
                case ast.Attribute(value=ast.Name(id=used), attr=attribute) if names.get(used, (path, "-"))[1] == "":
                    yield from used_nodes(names[used][0], attribute, seen)
                case ast.Name(id=used) if used in names:
                    yield from used_nodes(names[used][0], "", seen)
                    yield from used_nodes(*names[used], seen)


@cache
def nodes_of(statement: ast.stmt) -> list[ast.AST]:
    return list(ast.walk(statement))


@cache
def names_in(path: Path) -> dict[str, tuple[Path, str]]:
    """Return the names that a module defines or imports from the package, each with its module and its name there."""
    names: dict[str, tuple[Path, str]] = {own: (path, own) for own in definitions(path)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "stoppress":
            package = ROOT / "shared" / str(node.module).replace(".", "/")
            own = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
            for alias in node.names:
                modules = (package / f"{alias.name}.py", package / alias.name / "__init__.py")
                module = next((module for module in modules if module.exists()), None)
                names[alias.asname or alias.name] = (module, "") if module else (own, alias.name)
    return names


def variables_read(path: Path) -> set[str]:
    variables = set()
    seen: set[tuple[Path, str]] = set()
    for name in definitions(path):
        for node in used_nodes(path, name, seen):
            match node:
                case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(variable))):
                    variables.add(variable)
                case ast.Attribute(attr="getenv") | ast.Attribute(value=ast.Attribute(attr="environ")):
                    pytest.fail(
                        f'{path.name} reads a variable otherwise than by os.environ["NAME"], which fails if it is missing'
                    )
    return variables


def function_of(handler: Path) -> str:
    return next(name for name, folder in STACK.code.items() if folder.resolve() == handler.parent)


@by_function
def test_the_template_sets_exactly_the_variables_that_a_functions_code_reads(handler: Path) -> None:
    variables = STACK.resources[function_of(handler)]["Properties"]["Environment"]["Variables"]

    # Powertools reads its own.
    assert variables_read(handler) | {"POWERTOOLS_SERVICE_NAME"} == variables.keys()


def test_every_function_folder_is_in_the_template_and_has_a_handler() -> None:
    folders = sorted(path for path in (ROOT / "functions").iterdir() if path.is_dir())
    files = [path for path in project_files() if path.is_relative_to(ROOT / "functions")]

    assert sorted(folder.resolve() for folder in STACK.code.values()) == folders
    assert set(files) == {*HANDLERS, *LIBRARIES, *(path.with_name("Makefile") for path in LIBRARIES)}


# ── what is shipped ───────────────────────────────────────────────────────────────────────────────────────────────────────


def pins(path: Path) -> dict[str, str]:
    lines = re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    return dict(lines)


@pytest.mark.parametrize("path", [ROOT / "shared/requirements.txt", *LIBRARIES], ids=lambda path: path.parent.name)
def test_the_layer_and_functions_have_the_versions_that_were_tested(path: Path) -> None:
    locked = pins(ROOT / "requirements.lock")
    built = pins(path)

    assert {name: locked.get(name) for name in built} == built


def test_the_layer_has_every_library_that_the_functions_import() -> None:
    distributions = metadata.packages_distributions()
    imported = {name.partition(".")[0] for path in [*MODULES, *HANDLERS] for name in imports(path)}
    third_party = {
        re.sub(r"[-_.]+", "-", name).lower()
        for module in imported - {"stoppress"}
        for name in distributions.get(module, [])
    }

    # Only notify_engines imports it, and only when it requests a token.
    of_functions = {"cryptography"}
    assert of_functions <= {name for path in LIBRARIES for name in pins(path)}
    assert third_party - IN_THE_RUNTIME - of_functions <= pins(ROOT / "shared/requirements.txt").keys()


def test_every_requirement_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    names = {re.split(r"[\[<>=~! ]", line)[0].lower() for line in lines}

    assert names - {"stoppress"} <= pins(ROOT / "requirements.lock").keys()


LOCKS = [
    ROOT / "requirements.lock",
    ROOT / "shared/requirements.txt",
    *LIBRARIES,
    *sorted((ROOT / "scripts").glob("*.lock")),
]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_a_hash(path: Path) -> None:
    requirements = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    pinned = [line for line in requirements if line[:1].isalpha()]

    assert pinned
    assert not [line for line in pinned if "--hash=sha256:" not in line]


def test_the_command_is_installed_with_the_tested_versions() -> None:
    assert pins(ROOT / "scripts/cli.lock").items() <= pins(ROOT / "requirements.lock").items()


def test_the_lock_contains_no_index_url() -> None:
    for path in LOCKS:
        assert not re.search(r"://|^-", path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_no_file_has_a_path_of_the_machine_it_was_written_on() -> None:
    # A checkout directly under / or /tmp shows nothing, because these paths are in every text about Unix.
    places = [f"{place}/" for place in (ROOT, ROOT.parent, Path.home()) if place not in {Path("/"), Path("/tmp")}]
    for path in project_files():
        text = path.read_bytes().decode(errors="replace")
        assert not [place for place in places if place in text], path
