"""The project's template with one planted fault."""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from stoppress_cli.local import resources, template
from stoppress_cli.local.permissions import Ask, Permissions, Role
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import parse_yaml

ROOT = Path(__file__).parents[2]

Edit = Callable[[dict[str, Any]], object]  # changes the template's resources in place


def planted(folder: Path, edit: Edit) -> Path:
    """Write a template with the edit into `folder`, beside the project's own functions and layer."""
    document = parse_yaml((ROOT / "template.yaml").read_text(encoding="utf-8"))
    before = json.dumps(document, default=str)
    edit(document["Resources"])
    after = json.dumps(document, default=str)
    assert after != before, "the edit changes nothing"
    for name in ("functions", "shared"):
        (folder / name).symlink_to(ROOT / name)
    path = folder / "template.yaml"
    path.write_text(after, encoding="utf-8")
    return path


@contextmanager
def recorded_asks(stack: Stack) -> Iterator[list[tuple[Role, Ask]]]:
    """Yield the permissions that a stack's functions use while the block runs, with their roles."""
    asks: list[tuple[Role, Ask]] = []
    permissions = stack.wire.guard._permissions
    may = permissions.may

    def recording(role: Role, ask: Ask) -> bool:
        asks.append((role, ask))
        return may(role, ask)

    with mock.patch.object(permissions, "may", recording):
        yield asks


@cache
def _pickled_template() -> bytes:
    return pickle.dumps(template.load(ROOT / "template.yaml", {}, template.WITH_ALL))


def edited_resources(edit: Edit) -> list[Resource]:
    """Return the template's resources with an edit that does not change the SAM transform, such as a role's."""
    whole = pickle.loads(_pickled_template())  # noqa: S301 - ours; five times faster than a deep copy
    edit(whole.resources)
    return resources.resolve(whole)


def roles_refused(asks: Iterable[tuple[Role, Ask]], edited: Permissions) -> set[str]:
    """Return the logical names of the roles that the permissions of an edited template refuse a request."""

    def may(role: Role, ask: Ask) -> bool:
        edited_role = edited.role(role.arn)
        return edited_role is not None and edited.may(edited_role, ask)

    return {role.logical for role, ask in asks if not may(role, ask)}
