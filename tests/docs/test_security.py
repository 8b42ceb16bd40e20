"""docs/explanation/security.md: the partitions of the table that each function may use are those of its role."""

import re
from collections.abc import Iterator
from typing import Any

from stoppress_cli.local import template
from tests.docs.pages import ROOT, table_rows, text_of

STACK = template.load(ROOT / "template.yaml", template.WITH_ALL)
WRITES = {"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"}


def partitions(role: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each partition key prefix that a role may use, and whether it may write there."""
    for policy in role["Properties"]["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            actions = statement["Action"]
            actions = {actions} if isinstance(actions, str) else {*actions}
            [keys] = [*statement.get("Condition", {}).get("ForAllValues:StringLike", {}).values()] or [[]]
            for key in keys:
                text = key["Fn::Sub"].replace("${Host}", "*") if isinstance(key, dict) else key
                yield text.removesuffix("*"), bool(WRITES & actions)


def test_the_partitions_of_each_function_are_those_of_its_role() -> None:
    for name, cell, *_ in table_rows(text_of("docs/explanation/security.md"), "| function | table partitions |"):
        role = name.strip("`").title().replace("_", "") + "Role"
        used = list(partitions(STACK.resources[role]))
        written = {key for key, is_written in used if is_written}
        before, _, after = cell.partition("reads ")

        assert set(re.findall(r"`(.*?)`", before)) == written, name
        assert set(re.findall(r"`(.*?)`", after)) == {key for key, _ in used} - written, name
