"""What lies in quarantine: listed, shown, sent to the articles queue again, dropped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stoppress.aws import queues, sites, table
from stoppress.aws.items import QUARANTINED_CHARACTERS_MAX, Item
from stoppress.model.site import BadConfiguration
from stoppress.primitives.instants import parse
from stoppress.record.message import UNKNOWN_SITE, Message, Unusable, read
from stoppress_cli.stack.find import queue_url


@dataclass(frozen=True)
class Kept:
    """One item: where it is, when its event was sent, why it could not be applied, and the event as far as it was kept."""

    site: str
    id: str
    at: datetime
    reason: str
    kind: str
    event: str
    characters: int
    item: Item

    @property
    def whole(self) -> bool:
        """Whether all of the event was kept."""
        return self.characters == len(self.event)


# What is sent to the articles queue for an item of a kind. Whoever keeps another kind says here how it is read again.
AGAIN: dict[str, Callable[[Kept], str]] = {"event": lambda kept: kept.event}


def hosts() -> list[str]:
    """Every site of the stack, readable or not, and where events are that name none."""
    good, bad = sites.load_all()
    return [*sorted({site.host for site in good} | {one.host for one in bad}), UNKNOWN_SITE]


def kept(site: str | None = None, reason: str = "", ids: Sequence[str] = ()) -> list[Kept]:
    """What is in quarantine, oldest first: of one site or all, with a text in its reason, or by (the beginning of) ids.

    Raises ValueError for an id that names none or several.
    """
    now = datetime.now(UTC)
    found = [
        one
        for host in ([site] if site else hosts())
        for one in map(_read, table.query(f"quarantine#{host}"))
        # DynamoDB may take days to delete what has expired.
        if reason.lower() in one.reason.lower() and int(one.item.get("ttl", 0) or 2**40) > now.timestamp()
    ]
    found.sort(key=lambda one: (one.at, one.id))
    return [_named(found, text) for text in dict.fromkeys(ids)] if ids else found


def _read(item: Item) -> Kept:
    at, _, identity = item["sk"].partition("#")
    event = str(item["event"])
    # Items of an earlier version do not say how long it was: of the full length it was cut, or as good as.
    length = int(
        item.get(
            "characters", QUARANTINED_CHARACTERS_MAX + 1 if len(event) >= QUARANTINED_CHARACTERS_MAX else len(event)
        )
    )
    site = item["pk"].partition("#")[2]
    return Kept(site, identity, parse(at), item["reason"], item.get("kind", "event"), event, length, item)


def _named(found: Iterable[Kept], text: str) -> Kept:
    named = [one for one in found if one.id.startswith(text)]
    if not named:
        raise ValueError(f"no id in quarantine begins with {text!r}: `stoppress quarantine list` has the ids")
    if len(named) > 1:
        raise ValueError(f"{len(named)} ids in quarantine begin with {text!r}: give more of the id")
    return named[0]


def hindrance(one: Kept, now: datetime) -> str:
    """Why it cannot be applied now either, and what can be done; empty where it would be understood."""
    if not one.whole:
        return (
            f"only its first {len(one.event):,} of {one.characters:,} characters were kept: have its source send it again,"
            " without the article's text, then drop it"
        )
    if one.kind not in AGAIN:
        return f"this version does not know how to read {one.kind!r} again: have its source send it, then drop it"
    try:
        if incomplete := read(Message(one.id, AGAIN[one.kind](one), one.at), now).incomplete:
            raise incomplete
    except (Unusable, BadConfiguration) as error:
        where = ", or put the parameter of its site" if one.site == UNKNOWN_SITE else ""
        return f"it would come back: {error}. Correct that at its source and have it sent again{where}"
    return ""


def retry(chosen: Iterable[Kept], now: datetime, *, dry_run: bool) -> list[tuple[Kept, str]]:
    """Send to the articles queue what would be understood now; each item, and why it stays (empty: it was sent).

    An item goes only after its event was taken: a crash in between sends it twice, which does no harm.
    """
    done = []
    for one in chosen:
        why = hindrance(one, now)
        if not why and not dry_run:
            queues.send_again(queue_url("ARTICLES_QUEUE_URL"), [AGAIN[one.kind](one)])
            drop([one])
        done.append((one, why))
    return done


def drop(chosen: Iterable[Kept]) -> int:
    """Take items out for good; how many were still there."""
    return sum(table.delete(one.item["pk"], one.item["sk"]) is not None for one in chosen)


def as_json(one: Kept, *, whole: bool = False) -> Mapping[str, object]:
    """What a tool would read of it."""
    said = {"id": one.id, "site": one.site, "at": one.at.isoformat(), "kind": one.kind, "reason": one.reason}
    return said | {"characters": one.characters} | ({"event": one.event} if whole else {})
