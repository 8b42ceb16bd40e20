"""Reserve and return places in the files of a series."""

from collections.abc import Sequence
from contextlib import suppress

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import table
from stoppress.aws.items import places_pk, read_series, series_item
from stoppress.aws.table import Conflict, Put, Throttled
from stoppress.model.places import Place, Series, Want, entries_max_of

# Each conflict is another writer's success, so a few attempts suffice. After them the queue delivers the messages
# again.
ATTEMPTS_MAX = 10


def reserve(host: str, name: str, wants: Sequence[Want], shard_size: int) -> list[Place]:
    """Return a place in the series for each of `wants`, in their order. Raises Conflict."""
    for attempt in range(ATTEMPTS_MAX):
        series, places = _series(host, name).reserve(wants, entries_max_of(name, shard_size))
        if _keep_series(host, series):
            return places
        table.back_off(attempt + 1)
    raise Conflict(f"other writers changed the places of {host} {name} in each of {ATTEMPTS_MAX} attempts")


def give_back(host: str, places: Sequence[Place]) -> None:
    """Return places in the news sitemaps.

    On failure the count stays too high, never too low, and reconcile_sites recounts. So errors are ignored here.
    """
    for name in sorted({place.series for place in places}):
        returned = [place for place in places if place.series == name]
        with suppress(ClientError, BotoCoreError, Throttled):
            for _ in range(ATTEMPTS_MAX):
                if _give_back_once(host, _series(host, name).give_back(returned)):
                    break


def _series(host: str, name: str) -> Series:
    return read_series(name, table.get(places_pk(host), name))


def _keep_series(host: str, series: Series) -> bool:
    try:
        table.put(series_item(host, series), series.rev)
    except Conflict:
        return False
    return True


def _give_back_once(host: str, series: Series) -> bool:
    # A transaction has a token that makes botocore's retries idempotent. A put whose answer is lost is sent again and conflicts
    # with itself; the places would then be returned twice.
    try:
        table.transact([Put(series_item(host, series), series.rev)])
    except Conflict:
        return False
    return True
