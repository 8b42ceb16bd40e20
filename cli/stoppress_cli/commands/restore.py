"""`stoppress restore`: copies a table that point-in-time recovery has created into the stack's table.

Recovery always creates a new table.
"""

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from stoppress.aws.clients import client
from stoppress.aws.table import BATCH_ITEMS_MAX
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, Commands, DryRun, Json, Yes
from stoppress_cli.output import ATTENTION, OK, confirmed, counted, print_json, printer

app = Commands()

_ATTEMPTS_MAX = 10


@app.command(effect=WRITES, example="stoppress restore stoppress-Table-restored --stack stoppress")
def restore(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table that point-in-time recovery has created.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Replace the contents of the stack's table with those of another one: copy every item, and delete those that it lacks.

    Stop the functions first and rebuild the files afterwards, as docs/how-to/operate.md says. Exit code 0: done; 1: you
    said no; 2: the stack cannot be reached.
    """
    show = printer(as_json=as_json)
    items, surplus = differences(table)
    show(f"{table} has {counted(items, 'item')}; the stack's table has {counted(surplus, 'item')} that it lacks")
    question = f"Replace the items of the stack's table with those of {table}?"
    is_agreed = not dry_run and confirmed(question, yes=yes, as_json=as_json)
    if is_agreed:
        items, surplus = replace_items(table)
        show(f"{counted(items, 'item')} copied, {surplus:,} deleted; now start the functions and run stoppress rebuild")
    if as_json:
        print_json({"table": table, "items": items, "surplus": surplus, "done": is_agreed})
    raise typer.Exit(OK if dry_run or is_agreed else ATTENTION)


def differences(name: str) -> tuple[int, int]:
    """Return the number of items in the other table, and of items that only the stack's table has.

    Raises BadRequest for a missing table, and DynamoDB's errors.
    """
    return sum(1 for _ in scan(name, keys_only=True)), sum(1 for _ in _surplus(name))


def replace_items(name: str) -> tuple[int, int]:
    """Copy every item, then delete the items that the other table lacks. In this order no entry is missing meanwhile.

    Return both numbers. Raises as `differences`, and TimeoutError if DynamoDB leaves items unwritten.
    """
    items = _write(scan(name), lambda item: {"PutRequest": {"Item": item}})
    return items, _write(_surplus(name), lambda key: {"DeleteRequest": {"Key": key}})


def scan(name: str, *, keys_only: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the items of a table, or their keys, as DynamoDB stores them. Raises BadRequest for a missing table."""
    arguments = {"ProjectionExpression": "pk, sk"} if keys_only else {}
    pages = client("dynamodb").get_paginator("scan").paginate(TableName=name, ConsistentRead=True, **arguments)
    try:
        for page in pages:
            yield from page["Items"]
    except client("dynamodb").exceptions.ResourceNotFoundException:
        raise BadRequest(
            f"there is no table {name!r} here: name the one that point-in-time recovery has created, as"
            " `aws dynamodb list-tables` shows it"
        ) from None


def _surplus(name: str) -> Iterator[dict[str, Any]]:
    """Yield the keys that only the stack's table has."""
    keys = scan(os.environ["TABLE_NAME"], keys_only=True)
    while some := list(islice(keys, 100)):
        wanted: dict[str, Any] = {name: {"Keys": some, "ProjectionExpression": "pk, sk"}}
        present: list[Any] = []
        while wanted:
            answer = client("dynamodb").batch_get_item(RequestItems=wanted)
            present += answer["Responses"].get(name, [])
            wanted = answer.get("UnprocessedKeys") or {}
        yield from (key for key in some if key not in present)


def _write(items: Iterator[dict[str, Any]], request: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    written = 0
    while some := [request(item) for item in islice(items, BATCH_ITEMS_MAX)]:
        written += len(some)
        for attempt in range(_ATTEMPTS_MAX):
            answer = client("dynamodb").batch_write_item(RequestItems={os.environ["TABLE_NAME"]: some})
            some = (answer.get("UnprocessedItems") or {}).get(os.environ["TABLE_NAME"], [])
            if not some:
                break
            time.sleep(0.05 * 2**attempt)
        else:
            raise TimeoutError(f"DynamoDB left {counted(len(some), 'item')} unwritten; run it again")
    return written
