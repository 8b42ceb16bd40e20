"""`stoppress tail`: prints deliveries as they are recorded or refused."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Annotated, Any

import typer
from rich.text import Text

from stoppress.aws import items, refusals
from stoppress.aws.inventory import news_entries
from stoppress.model.entries import NewsEntry
from stoppress.model.signature_schemes import NONE
from stoppress.model.site import Site
from stoppress.primitives.instants import local_time
from stoppress.receive.webhook import scheme_of
from stoppress.show.read_page import DELIVERIES_MAX, list_refused, read_quarantined, read_recorded
from stoppress.show.read_story import Received
from stoppress.show.reasons import describe_unverified
from stoppress.show.stack_status import Access
from stoppress_cli.commands.rebuild import chosen_sites
from stoppress_cli.connect import exit_on_error
from stoppress_cli.options import LOCAL, READS, Commands, HostArgument
from stoppress_cli.output import FAILED, OK, Table, errors, print_answer, state

app = Commands()

LOOKS_EVERY_S = 3
# How many deliveries are printed at the beginning.
FIRST_SHOWN = 10
# A delivery that is up to this much older than the first read is shown, because a newer delivery may have hidden it.
LATE_MAX = timedelta(minutes=5)


@app.command(effect=READS, example="stoppress tail www.example.com --stack stoppress")
def tail(
    access: Access,
    host: HostArgument = None,
    seconds: Annotated[
        float | None, typer.Option(help="End after this many seconds; default: at Ctrl-C.", min=0)
    ] = None,
) -> None:
    """Print up to ten recent deliveries, then new ones as they are recorded or refused; with --json, one JSON object per line."""
    ends_at = None if seconds is None else time.monotonic() + seconds
    watch, code = Watch(host and host.lower()), OK
    try:
        _print_new(watch)
        while ends_at is None or time.monotonic() < ends_at:
            time.sleep(LOOKS_EVERY_S)
            try:
                with exit_on_error(access.stack, access.endpoint or LOCAL):
                    _print_new(watch)
                code = OK
            except typer.Exit:  # AWS may answer the next time
                code = FAILED
    except KeyboardInterrupt:
        errors.print()
    raise typer.Exit(code)


def _print_new(watch: "Watch") -> None:
    for delivery in watch.read_new(datetime.now(UTC)):
        print_answer(delivery.fields(), [delivery.row()], indent=None)


@dataclass(frozen=True)
class Delivery:
    """A delivery to a site, or those of a source that had a wrong signature today (`is_wrong`): they appear again when there are more."""

    site: Site
    received: Received
    is_wrong: bool = False

    @property
    def source(self) -> str:
        return self.received.by.partition("#")[0]

    @property
    def signature(self) -> str:
        """Return `valid`, `wrong`, or `none` where nothing is signed: feeds, the bus, imports, audits."""
        source = self.site.sources.get(self.source)
        if self.is_wrong:
            return "wrong"
        is_signed = source and source.secret and scheme_of(source.adapter, source.settings) != NONE
        return "valid" if is_signed and not self.received.reason.startswith(tuple(items.ORIGINS.values())) else "none"

    def fields(self) -> dict[str, Any]:
        """Return the delivery for programs."""
        names = ("at", "outcome", "reason", "action", "url", "title")
        values = {name: getattr(self.received, name) for name in names}
        return {"site": self.site.host, "source": self.source, "signature": self.signature} | values

    def row(self) -> Table:
        """Return the delivery for people, as a table of one row."""
        received, outcome = self.received, state(self.received.outcome)
        outcome.align("left", 11)
        about = "  ".join(filter(None, (received.title, received.url, received.reason)))
        text = Text.assemble(
            f"{self.source or '-':<8}  {self.signature:<5}  ", outcome, f"  {received.action:<7}  {about}"
        )
        return Table(("", ""), [(local_time(received.at, self.site.zone), text)])


@dataclass
class Watch:
    """The deliveries to one site, or to all (None), that were not returned yet."""

    host: str | None
    began: datetime | None = None
    seen: set[tuple[str, datetime, str, str]] = field(default_factory=set)

    def read_new(self, now: datetime) -> list[Delivery]:
        """Return the deliveries since the last call, the oldest first; at the first call, the newest FIRST_SHOWN.

        Calls for each site: two for the news, one for each of the newest stories, one for quarantine, two for refusals. Raises
        UnknownSite, BadConfiguration, and the errors of the table.
        """
        new = []
        for site in chosen_sites(self.host):
            for delivery in _read_all(site, now):
                received = delivery.received
                key = site.host, received.at, received.outcome, received.url or received.reason
                if key not in self.seen and (self.began is None or received.at > self.began - LATE_MAX):
                    new.append(delivery)
                self.seen.add(key)
        new.sort(key=lambda delivery: delivery.received.at)
        new, self.began = new[-FIRST_SHOWN:] if self.began is None else new, self.began or now
        return new


def _read_all(site: Site, now: datetime) -> Iterator[Delivery]:
    def changed_at(entry: NewsEntry) -> datetime:
        return max(entry.published, entry.lastmod or entry.published)

    recorded = read_recorded(site, sorted(news_entries(site.host), key=changed_at, reverse=True))
    refused = list_refused(refusals.read(site.host, DELIVERIES_MAX, now))
    yield from (Delivery(site, received) for received in chain(recorded, refused, read_quarantined(site, now)))
    for count in refusals.counts_of_day(site.host, now.date(), site.sources):
        if count.unverified_at:
            reason = describe_unverified(count, site)
            yield Delivery(site, Received(count.unverified_at, "", count.source, "refused", reason), is_wrong=True)
