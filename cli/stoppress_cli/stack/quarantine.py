"""The quarantine: events that could not be applied."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stoppress.aws import queues, table
from stoppress.aws.items import QUARANTINED_CHARACTERS_MAX, Item, quarantine_pk
from stoppress.model.site import UNKNOWN_SITE, BadConfiguration
from stoppress.primitives.instants import parse
from stoppress.record.message import Content, Message, Unusable, read
from stoppress_cli.stack.find import BadRequest, queue_url
from stoppress_cli.stack.retire import with_parameter


@dataclass(frozen=True)
class Kept:
    """An item: its site and id, when its event was sent, why it could not be applied, and the stored part of the event.

    `characters` is the length of the whole event.
    """

    site: str
    id: str
    at: datetime
    reason: str
    kind: str
    event: str
    characters: int
    stored: Item

    @property
    def whole(self) -> bool:
        """Whether the whole event was stored."""
        return self.characters == len(self.event)


# The message to the articles queue for an item, by its kind.
AGAIN: dict[str, Callable[[Kept], str]] = {"event": lambda kept: kept.event}


def kept(site: str | None = None, reason: str = "", ids: Sequence[str] = ()) -> list[Kept]:
    """The items of a site or of all sites, oldest first, whose reason contains `reason`; with `ids` only those.

    Raises BadRequest for an id that fits no item or several.
    """
    now = datetime.now(UTC)
    items = [
        item
        for host in ([site] if site else [*sorted(with_parameter()), UNKNOWN_SITE])
        for item in map(_read, table.query(quarantine_pk(host)))
        # DynamoDB may take days to delete an expired item.
        if reason.lower() in item.reason.lower() and int(item.stored.get("ttl", 0) or 2**40) > now.timestamp()
    ]
    items.sort(key=lambda item: (item.at, item.id))
    return [_named(items, text) for text in dict.fromkeys(ids)] if ids else items


def _read(item: Item) -> Kept:
    at, _, identity = item["sk"].partition("#")
    event = str(item["event"])
    # Items of an earlier version have no length. An event of the greatest stored length counts as cut.
    cut = len(event) >= QUARANTINED_CHARACTERS_MAX
    length = int(item.get("characters", QUARANTINED_CHARACTERS_MAX + 1 if cut else len(event)))
    site = item["pk"].partition("#")[2]
    return Kept(site, identity, parse(at), item["reason"], item.get("kind", "event"), event, length, item)


def _named(items: Iterable[Kept], text: str) -> Kept:
    named = [item for item in items if item.id.startswith(text)]
    if not named:
        raise BadRequest(f"no id in quarantine begins with {text!r}: `stoppress quarantine list` has the ids")
    if len(named) > 1:
        raise BadRequest(f"{len(named)} ids in quarantine begin with {text!r}: give more of the id")
    return named[0]


def hindrance(item: Kept, now: datetime) -> str:
    """Why the item still cannot be applied, and what to do; empty if it could be applied now."""
    if not item.whole:
        return (
            f"only its first {len(item.event):,} of {item.characters:,} characters were kept: have its source send it again,"
            " without the article's text, then drop it"
        )
    if item.kind not in AGAIN:
        return (
            f"this version cannot read an event of the kind {item.kind!r}: have its source send it again, then drop it"
        )
    try:
        content = read(Message(item.id, AGAIN[item.kind](item), item.at))
        if isinstance(content, Content) and content.incomplete:
            raise content.incomplete
    except (Unusable, BadConfiguration) as error:
        where = ", or put the parameter of its site" if item.site == UNKNOWN_SITE else ""
        return f"it would come back: {error}. Correct that at its source and have it sent again{where}"
    return ""


def retry(chosen: Iterable[Kept], now: datetime, *, dry_run: bool) -> list[tuple[Kept, str]]:
    """Sends the events that could be applied now to the articles queue. Returns each item with the reason why it stays, if any.

    An item is deleted only after its event was sent. A crash in between sends the event twice, which does no harm.
    """
    done = []
    for item in chosen:
        why = hindrance(item, now)
        if not why and not dry_run:
            queues.send_again(queue_url("ARTICLES_QUEUE_URL"), [AGAIN[item.kind](item)])
            drop([item])
        done.append((item, why))
    return done


def drop(chosen: Iterable[Kept]) -> int:
    """Deletes items; returns how many were still there."""
    return sum(table.delete(item.stored["pk"], item.stored["sk"]) is not None for item in chosen)


def as_json(item: Kept, *, whole: bool = False) -> Mapping[str, object]:
    """An item for programs; `whole` adds the event."""
    fields = {"id": item.id, "site": item.site, "at": item.at.isoformat(), "kind": item.kind, "reason": item.reason}
    return fields | {"characters": item.characters} | ({"event": item.event} if whole else {})
