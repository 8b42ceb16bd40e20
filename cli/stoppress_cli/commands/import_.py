"""`stoppress import`: lists an archive, and sends its articles through the imports queue.

A checkpoint records which part of the list was sent. After an interruption, the import sends its last page again. record_article
recognises these repeats by their delivery ids.
"""

import csv
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from stoppress.aws import queues, sites
from stoppress.model.event import ArticleEvent, ListingError, Page, Problem, StaleCheckpoint
from stoppress.model.exclusion_reasons import FOREIGN_HOST, excluded_because
from stoppress.model.site import Site
from stoppress_cli.connect import BadRequest
from stoppress_cli.inputs.archive import Listing, listing_of
from stoppress_cli.inputs.row_effects import KINDS, Effect, predict_effects
from stoppress_cli.inputs.rows import Rows
from stoppress_cli.options import WRITES, Commands, DryRun
from stoppress_cli.output import counted, end, errors, fail, progress

app = Commands()

EXAMPLES_KEPT = 3
# All further reasons are counted as one.
REASONS_MAX = 200
OTHER_REASONS = "other reasons"


@app.command("import", effect=WRITES, example="stoppress import archive.csv --site www.example.com --stack stoppress")
def import_(
    source: Annotated[
        str,
        typer.Argument(
            help="Name of a source whose configuration has `list`; URL or file of a sitemap; or a CSV or JSON Lines file."
        ),
    ],
    site: Annotated[str, typer.Option("--site", help="Host of the site.")],
    belongs_to: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Source to which the ids in a CSV or JSON Lines file belong; default: none."
        ),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Maximum number of articles to send per second.", min=0.1)] = 50,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Let the rows of a file move live stories to other URLs.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Import the archive of a site. After an interruption, run the same command again in the same folder to continue.

    Exit code 1: some articles were refused.
    """
    target = sites.load(site.lower())
    listing = listing_of(source, target, belongs_to)
    checkpoint = checkpoint_of(target.host, source, belongs_to)
    refused = checkpoint.path.with_suffix(".dry-run.csv" if dry_run else ".refused.csv")
    if checkpoint.path.exists() and not dry_run:
        errors.print(f"stoppress: continuing from the checkpoint {checkpoint.path}")
    try:
        tally = run(
            listing, target, None if dry_run else checkpoint, rate=rate, allow_changes=allow_changes, refused=refused
        )
    except (ListingError, KeyboardInterrupt) as error:
        continues = checkpoint.path.exists() and not dry_run and not isinstance(error, StaleCheckpoint)
        advice = f"; run the command again to continue from {checkpoint.path}" if continues else ""
        fail(f"{str(error) or 'interrupted'}{advice}")
    report = {"dry_run": dry_run, **tally.report(), "refused_file": str(refused) if tally.refused else None}
    if dry_run:
        report["effects"] = {kind: tally.effects.get(kind, 0) for kind in KINDS}
    end(report, _lines(report, dry_run=dry_run), is_ok=not tally.refused)


def _lines(report: dict[str, Any], *, dry_run: bool) -> Iterator[str]:
    for row in report["reasons"]:
        yield f"{row['kind']}  {counted(row['number'], 'time')}  {row['reason']}"
        yield from (f"    {example}" for example in row["examples"])
    listed = "would be listed" if dry_run else "sent to the imports queue"
    yield f"{report['listed']:,} {listed}, {report['refused']:,} refused, {report['ignored']:,} ignored"
    if dry_run:
        effects = [f"{number:,} {KINDS[kind]}" for kind, number in report["effects"].items() if number]
        yield "; ".join(effects) or "none is listed"
    if report["refused"]:
        yield f"every refused article and its reason: {report['refused_file']}"


@dataclass
class Tally:
    """How many items an import has handled. `listed`: sent; `refused`: not usable; `ignored`: no sitemap should list them.

    `reasons` has a number and the first examples for each reason of `refused` and `ignored`, and for each note. `effects` has the
    number of `listed` by what they change, after a dry run.
    """

    listed: int = 0
    refused: int = 0
    ignored: int = 0
    reasons: dict[str, dict[str, Any]] = field(default_factory=dict)
    effects: dict[str, int] = field(default_factory=dict)

    def add_page(
        self, page: Page, site: Site, *, predicts: bool, allow_changes: bool
    ) -> tuple[list[ArticleEvent], list[Problem]]:
        """Count the items of a page, and with `predicts` their effects. Return the events to send, and the refused items.

        An ignored page is sent too: then no other source lists it. Without `allow_changes`, an event that moves a live story to
        another URL is refused, if that is predicted.
        """
        events = [item.event for item in page.items]
        effects = predict_effects(events, site, datetime.now(UTC)) if predicts else [Effect("unknown")] * len(events)
        sent, refused, ignored, notes = list[ArticleEvent](), [*page.problems], [*page.ignored], [*page.notes]
        for item, effect in zip(page.items, effects, strict=True):
            event, place, reason = item.event, f"{item.place}: {item.event.url}", excluded_because(item.event, site)
            if reason.startswith(FOREIGN_HOST):
                refused.append(Problem(place, reason))
            elif effect.live_url and not allow_changes:
                why = f"{event.name!r} is live at {effect.live_url}: --allow-changes moves it"
                refused.append(Problem(place, why))
            else:
                sent.append(event)
                if effect.kind in ("changes_date", "moves", "leaves_news"):
                    notes.append(Problem(place, KINDS[effect.kind]))
                if reason:
                    ignored.append(Problem(place, reason))
                else:
                    self.listed += 1
                    self.effects[effect.kind] = self.effects.get(effect.kind, 0) + 1
        for kind, problems in (("ignored", ignored), ("refused", refused), ("note", notes)):
            for problem in problems:
                self.add(kind, problem)
        return sent, refused

    def add(self, kind: str, problem: Problem) -> None:
        """Count an item as `refused` or `ignored`. A `note` is about an item that is counted elsewhere."""
        if kind != "note":
            setattr(self, kind, getattr(self, kind) + 1)
        reason = f"{kind}: {_group(problem.reason)}"
        if reason not in self.reasons and len(self.reasons) >= REASONS_MAX:
            reason = f"{kind}: {OTHER_REASONS}"
        row = self.reasons.setdefault(reason, {"kind": kind, "reason": problem.reason, "number": 0, "examples": []})
        row["number"] += 1
        if len(row["examples"]) < EXAMPLES_KEPT:
            row["examples"].append(problem.place)

    def report(self) -> dict[str, Any]:
        """Return the tally for programs, the most frequent reasons first."""
        rows = sorted(self.reasons.values(), key=lambda row: -row["number"])
        return {"listed": self.listed, "refused": self.refused, "ignored": self.ignored, "reasons": rows}


@dataclass(frozen=True)
class Checkpoint:
    """A file with the progress of an import."""

    path: Path

    def read(self) -> tuple[str | None, Tally]:
        """Return the cursor to continue from, and the tally so far. Raises BadRequest for a file of another kind."""
        try:
            document = json.loads(self.path.read_text())
            return document["cursor"], Tally(**document["tally"])
        except FileNotFoundError:
            return None, Tally()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadRequest(f"{self.path} is not a checkpoint ({error!r}): remove it to start again") from None

    def write(self, cursor: str, tally: Tally) -> None:
        """Replace the file atomically: a killed command leaves the old file or the new one."""
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(json.dumps({"cursor": cursor, "tally": asdict(tally)}))
        new.replace(self.path)


def checkpoint_of(host: str, source: str, name: str | None) -> Checkpoint:
    """Return the checkpoint of an import: a file in the working directory that is named after site and source."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", source).strip("-")[-40:]
    digest = sha256(f"{source}\n{name}".encode()).hexdigest()[:8]
    return Checkpoint(Path(f"stoppress-import-{host}-{plain}-{digest}.json"))


def run(
    listing: Listing,
    site: Site,
    checkpoint: Checkpoint | None,
    *,
    rate: float,
    allow_changes: bool = False,
    refused: Path | None = None,
) -> Tally:
    """Send the articles that a source lists, from the checkpoint on. Without a checkpoint, send nothing: a dry run.

    `rate` is in articles a second. `allow_changes`: as in `Tally.add_page`, for the rows of a file. `refused`: a file for refused
    items. Raises ListingError, SendError, and BadRequest if the stack has no queue for imports.
    """
    cursor, tally = checkpoint.read() if checkpoint else (None, Tally())
    if checkpoint and "IMPORTS_QUEUE_URL" not in os.environ:
        raise BadRequest("the stack has no queue for imports: deploy it with the parameter Listing=yes")
    # The ids of an API are the source's own; those of a file may be the numbers of its rows.
    allow_changes = allow_changes or not (isinstance(listing, Rows) and listing.source)
    predicts = not (checkpoint and allow_changes)
    if refused and cursor is None:
        refused.unlink(missing_ok=True)
    sender = Sender(rate)
    with progress("items") as show:
        for page in listing.pages(cursor):
            events, problems = tally.add_page(page, site, predicts=predicts, allow_changes=allow_changes)
            if refused and problems:
                _append(refused, problems)
            if checkpoint:
                sender.send(events)
                if page.cursor:
                    checkpoint.write(page.cursor, tally)
            show(tally.listed + tally.refused + tally.ignored, page.total)
    if checkpoint:
        checkpoint.path.unlink(missing_ok=True)
    return tally


@dataclass
class Sender:
    """Sends events to the imports queue, on average at most `rate` a second."""

    rate: float
    next_at: float = 0.0

    def send(self, events: Sequence[ArticleEvent]) -> None:
        """Send the events in full batches. Raises SendError."""
        for start in range(0, len(events), queues.BATCH_MESSAGES_MAX):
            batch = events[start : start + queues.BATCH_MESSAGES_MAX]
            time.sleep(max(0.0, self.next_at - time.monotonic()))
            self.next_at = max(time.monotonic(), self.next_at) + len(batch) / self.rate
            queues.send_imports(batch)


def _append(file: Path, problems: Sequence[Problem]) -> None:
    with file.open("a", newline="", encoding="utf-8", errors="replace") as opened:
        rows = csv.writer(opened)
        if not opened.tell():
            rows.writerow(("place", "reason"))
        rows.writerows((problem.place, problem.reason) for problem in problems)


def _group(reason: str) -> str:
    """Return a reason without the parts that differ from article to article: quotations, URLs and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|https?://\S+|\d[\d,.]*", "…", reason)[:200]
