"""`stoppress quarantine`: events that could not be applied."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.text import Text

from stoppress.aws import queues, sites, table
from stoppress.aws.items import Item, is_kept, quarantine_pk
from stoppress.model.site import UNKNOWN_SITE, BadConfiguration
from stoppress.primitives.instants import local_time, parse
from stoppress.record.message import Message, Unusable, read
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import READS, WRITES, Commands, DryRun, SiteOption, Yes
from stoppress_cli.output import Part, Row, Table, agrees, end, fail, print_answer, show, verbatim

_Reason = Annotated[str, typer.Option("--reason", help="Only events whose reason contains this text.")]
_IDS = "Ids as `list` prints them, or prefixes of ids"
_Ids = Annotated[list[str] | None, typer.Argument(help=f"{_IDS}; required without --all.")]
_IdsOfShow = Annotated[list[str], typer.Argument(help=f"{_IDS}.")]
_All = Annotated[bool, typer.Option("--all", help="All events, instead of those in IDS.")]

app = Commands(help="Show, retry or drop the events that could not be applied.")


@app.command("list", effect=READS, example="stoppress quarantine list --stack stoppress", is_over_sites=True)
def list_items(site: SiteOption = None, reason: _Reason = "") -> None:
    """List the events in quarantine, and count the reasons.

    Exit code 1: there are events in quarantine.
    """
    items = find_events(site, reason)
    counts = Counter((item.site, item.reason) for item in items).most_common()
    reasons = [(number, host, why) for (host, why), number in counts]
    tables: list[Part] = [item_table(items), "", Table(("events", "site", "reason"), reasons)]
    end([item.report() for item in items], tables if items else ["quarantine is empty"], is_ok=not items)


def item_table(items: Sequence["Quarantined"]) -> Table:
    """Return the items for people: id and time of each, and below it its site and reason."""
    zones = {site.host: site.zone for site in sites.load_all()[0]}
    rows: list[Row] = []
    for item in items:
        rows.append((item.id, local_time(item.at, zones.get(item.site, ZoneInfo("UTC")))))
        rows.append(Text(f"{item.site}: {item.reason}"))
    return Table(("id", "received"), rows)


@app.command("show", effect=READS, example="stoppress quarantine show 5f3a --stack stoppress", is_over_sites=True)
def show_items(ids: _IdsOfShow, site: SiteOption = None) -> None:
    """Show events as they are stored, and whether each can be applied now."""
    items = [(item, find_hindrance(item)) for item in find_events(site, "", ids)]
    lines: list[Part] = []
    for item, why in items:
        what = why or "it can be applied now: stoppress quarantine retry"
        lines += [item_table([item]), f"  {what}", verbatim(item.event)]
    print_answer([item.report() | {"event": item.event, "hindrance": why} for item, why in items], lines)


@app.command("retry", effect=WRITES, example="stoppress quarantine retry --all --stack stoppress", is_over_sites=True)
def retry(
    ids: _Ids = None, every: _All = False, site: SiteOption = None, reason: _Reason = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Send events back to the articles queue if they can now be applied, and show why the others cannot.

    Exit code 1: some events stay in quarantine.
    """
    items = send_again(_choose(ids, site, reason, every=every), dry_run=dry_run)
    stay = sum(bool(why) for _, why in items)
    sent = "would be sent" if dry_run else "sent"
    lines = [f"{item.id}  {why or sent}" for item, why in items]
    lines.append(f"{len(items) - stay} {sent} to the articles queue, {stay} stay")
    events = [item.report() | {"hindrance": why} for item, why in items]
    end({"events": events, "done": not dry_run}, lines, is_ok=not stay)


@app.command("drop", effect=WRITES, example="stoppress quarantine drop 5f3a --stack stoppress", is_over_sites=True)
def drop(
    ids: _Ids = None, every: _All = False, site: SiteOption = None, reason: _Reason = "", dry_run: DryRun = False,
    yes: Yes = False,
) -> None:  # fmt: skip
    """Delete events from quarantine for good."""
    items = _choose(ids, site, reason, every=every)
    if items:
        show(item_table(items))
    is_agreed = bool(items) and agrees(f"Drop these {len(items)} for good?", yes=yes, dry_run=dry_run)
    if is_agreed:
        delete(items)
    is_ok = is_agreed or dry_run or not items
    total = [f"{len(items)} {'dropped' if is_agreed else 'would be dropped'}"] if is_ok else []
    end({"events": [item.report() for item in items], "done": is_agreed}, total, is_ok=is_ok)


def _choose(ids: _Ids, site: SiteOption, reason: str = "", *, every: bool = False) -> list["Quarantined"]:
    """Return the events with these ids, or with `every` all of them. Exits with FAILED for both, or neither."""
    if bool(ids) == every:
        fail("give ids, as `stoppress quarantine list` has them, or --all")
    return find_events(site, reason, ids or ())


@dataclass(frozen=True)
class Quarantined:
    """An item: its site and id, when its event was sent, why it could not be applied, and the stored part of the event.

    `characters` is the length of the whole event.
    """

    site: str
    id: str
    at: datetime
    reason: str
    characters: int
    event: str
    stored: Item

    def report(self) -> dict[str, object]:
        """Return the item for programs."""
        return {name: getattr(self, name) for name in ("id", "site", "at", "reason", "characters")}


def find_events(site: str | None = None, reason: str = "", ids: Sequence[str] = ()) -> list[Quarantined]:
    """Return the items of a site or of all sites, oldest first, whose reason contains `reason`; with `ids` only those.

    Raises BadRequest for an id that fits no item or several.
    """
    now = datetime.now(UTC)
    items = []
    for host in [site] if site else [*sites.hosts(), UNKNOWN_SITE]:
        for item in table.query(quarantine_pk(host)):
            if reason.lower() in item["reason"].lower() and is_kept(item, now):
                (at, _, id_), event = item["sk"].partition("#"), item["event"]
                characters = int(item.get("characters", len(event)))
                items.append(Quarantined(host, id_, parse(at), item["reason"], characters, event, item))
    items.sort(key=lambda item: (item.at, item.id))
    return [_find_one(items, text) for text in dict.fromkeys(ids)] if ids else items


def _find_one(items: Iterable[Quarantined], text: str) -> Quarantined:
    matching = [item for item in items if item.id.startswith(text)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise BadRequest(f"{len(matching)} ids in quarantine begin with {text!r}: give more of the id")
    raise BadRequest(f"no id in quarantine begins with {text!r}: `stoppress quarantine list` has the ids")


def find_hindrance(item: Quarantined) -> str:
    """Return why the item still cannot be applied, and what to do; empty if it could be applied now."""
    if item.characters > len(item.event):
        return (
            f"only its first {len(item.event):,} of {item.characters:,} characters were kept: have its source send it again,"
            " without the article's text, then drop it"
        )
    try:
        content = read(Message(item.id, item.event, item.at))
        if content.incomplete:
            raise content.incomplete
    except (Unusable, BadConfiguration) as error:
        where = ", or add its site" if item.site == UNKNOWN_SITE else ""
        return f"it would come back: {error}. Correct that at its source and have it sent again{where}"
    return ""


def send_again(chosen: Iterable[Quarantined], *, dry_run: bool) -> list[tuple[Quarantined, str]]:
    """Send the events that could be applied now to the articles queue. Return each item with the reason why it stays, if any.

    An item is deleted only after its event was sent. A crash in between sends the event twice, which does no harm.
    """
    done = []
    for item in chosen:
        why = find_hindrance(item)
        if not why and not dry_run:
            queues.send(os.environ["ARTICLES_QUEUE_URL"], [item.event])
            delete([item])
        done.append((item, why))
    return done


def delete(chosen: Iterable[Quarantined]) -> int:
    """Delete items; return how many were still there."""
    return sum(table.delete(item.stored["pk"], item.stored["sk"]) is not None for item in chosen)
