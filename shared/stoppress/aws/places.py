"""Reserving: places in the files of a series are handed out, and given back, by conditional writes of the series' record."""

from collections.abc import Sequence
from contextlib import suppress

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import table
from stoppress.aws.items import read_series, series_item
from stoppress.aws.table import Conflict, Put
from stoppress.model.places import Place, Series, Want, entries_max_of

# Each conflict is another writer's success, so a few attempts are enough; after them the queue tries again.
ATTEMPTS_MAX = 10


def reserve(host: str, name: str, wants: Sequence[Want], shard_size: int) -> list[Place]:
    """A place in the series for each want, in their order. Raises Conflict."""
    for attempt in range(ATTEMPTS_MAX):
        series, places = _series(host, name).reserve(wants, entries_max_of(name, shard_size))
        if _keep_series(host, series):
            return places
        table.back_off(attempt + 1)
    raise Conflict(f"the places of {host} {name} were written by others, {ATTEMPTS_MAX} attempts long")


def give_back(host: str, places: Sequence[Place]) -> None:
    """Let places in the news sitemaps be handed out again.

    What is lost of this makes the count too high, never too low, until a night in which nobody publishes between the two looks:
    so a call that fails fails nothing else.
    """
    for name in sorted({place.series for place in places}):
        left = [place for place in places if place.series == name]
        with suppress(ClientError, BotoCoreError):
            for _ in range(ATTEMPTS_MAX):
                if _give_back_once(host, _series(host, name).give_back(left)):
                    break


def _series(host: str, name: str) -> Series:
    return read_series(name, table.get(f"places#{host}", name))


def _keep_series(host: str, series: Series) -> bool:
    try:
        table.put(series_item(host, series), series.rev)
    except Conflict:
        return False
    return True


def _give_back_once(host: str, series: Series) -> bool:
    # A transaction, which has a token: a put whose answer is lost is sent again by botocore and met by what it has
    # written itself. That would look like another's, and the places would be given back twice.
    try:
        table.transact([Put(series_item(host, series), series.rev)])
    except Conflict:
        return False
    return True
