"""`stoppress restore`: copies a table that point-in-time recovery has created into the stack's table.

Recovery always creates a new table.
"""

import os
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from stoppress.aws import table as stack_table
from stoppress.aws.clients import client
from stoppress.aws.items import Item
from stoppress_cli.connect import BadRequest
from stoppress_cli.local.process import environment
from stoppress_cli.options import WRITES, Commands, DryRun, Yes
from stoppress_cli.output import agrees, counted, end, show

app = Commands()


@app.command(effect=WRITES, example="stoppress restore stoppress-Table-restored --stack stoppress")
def restore(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table that point-in-time recovery has created.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Replace the contents of the stack's table with those of another table: copy its items, and delete all other items.

    Stop the functions first and rebuild the files afterwards (docs/how-to/operate.md).
    """
    items, surplus = replace_items(table, dry_run=True)
    show(f"{table} has {counted(items, 'item')}; the stack's table has {counted(surplus, 'item')} that it lacks")
    question = f"Replace the items of the stack's table with those of {table}?"
    is_agreed = agrees(question, yes=yes, dry_run=dry_run)
    if is_agreed:
        items, surplus = replace_items(table, dry_run=False)
        show(f"{counted(items, 'item')} copied, {surplus:,} deleted; now start the functions and run stoppress rebuild")
    end({"table": table, "items": items, "surplus": surplus, "done": is_agreed}, is_ok=dry_run or is_agreed)


def replace_items(name: str, *, dry_run: bool) -> tuple[int, int]:
    """Copy every item, then delete the items that the other table lacks. In this order no entry is missing meanwhile.

    Return both numbers; a dry run only counts. Raises BadRequest for a missing table, DynamoDB's errors, and TimeoutError if DynamoDB
    leaves items unwritten.
    """
    copied = deleted = 0
    stored = scan(name, keys_only=dry_run)
    while items := list(islice(stored, stack_table.BATCH_ITEMS_MAX)):
        if not dry_run:
            stack_table.put_many(items)
        copied += len(items)
    for key in _surplus(name):
        if not dry_run:
            stack_table.delete(*key)
        deleted += 1
    return copied, deleted


def scan(name: str, *, keys_only: bool = False) -> Iterator[Item]:
    """Yield the items of a table, or their keys. Raises BadRequest for a missing table."""
    arguments = {"ProjectionExpression": "pk, sk"} if keys_only else {}
    pages = client("dynamodb").get_paginator("scan").paginate(TableName=name, ConsistentRead=True, **arguments)
    try:
        for page in pages:
            yield from map(stack_table.read_item, page["Items"])
    except client("dynamodb").exceptions.ResourceNotFoundException:
        raise BadRequest(
            f"there is no table {name!r} here: name the one that point-in-time recovery has created, as"
            " `aws dynamodb list-tables` shows it"
        ) from None


def _surplus(name: str) -> Iterator[tuple[str, str]]:
    """Yield the keys that only the stack's table has."""
    own = ((item["pk"], item["sk"]) for item in scan(os.environ["TABLE_NAME"], keys_only=True))
    while keys := list(islice(own, stack_table.BATCH_KEYS_MAX)):
        with environment({"TABLE_NAME": name}):  # in which `stack_table` reads
            present = stack_table.get_many(keys)
        yield from (key for key in keys if key not in present)
