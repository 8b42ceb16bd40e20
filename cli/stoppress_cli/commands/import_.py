"""`stoppress import`: lists an archive, and sends its articles through the imports queue.

A checkpoint records which part of the list was sent. After a kill, the import sends its last page again. record_article
recognises these repeats by their delivery ids.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from stoppress.aws import queues, sites
from stoppress.model.event import ArticleEvent, ListingError, Page, Problem, StaleCheckpoint
from stoppress.model.exclusion_reasons import FOREIGN_HOST, excluded_because
from stoppress.model.site import Site
from stoppress_cli.connect import BadRequest, queue_url
from stoppress_cli.inputs.archive import Listing, listing_of
from stoppress_cli.options import WRITES, Commands, DryRun
from stoppress_cli.output import counted, end, errors, fail

app = Commands()

EXAMPLES_KEPT = 3
# Further reasons are counted together.
REASONS_MAX = 200
OTHER_REASONS = "other reasons"


@app.command(
    "import",
    effect=WRITES,
    example="stoppress import https://www.example.com/old-sitemap.xml --site www.example.com --dry-run --stack stoppress",
)
def import_(
    source: Annotated[
        str,
        typer.Argument(
            help="A source of the site that has `list`; or URL or file of a sitemap, index or robots.txt; or a CSV or JSON Lines file."
        ),
    ],
    site: Annotated[str, typer.Option("--site", help="Host of the site.")],
    belongs_to: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Source of the site whose ids the CSV or JSON Lines file has; default: read each row as a page of a sitemap.",
        ),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Upper limit of articles sent a second.", min=0.1)] = 50,
    dry_run: DryRun = False,
) -> None:
    """Import the archive of a site. After an interruption, run the same command again: it continues from its checkpoint.

    Exit code 0: every article was sent; 1: some were refused, the report has the reasons; 2: the stack or the source cannot be
    read, or Ctrl-C ended the command, and the checkpoint stays.
    """
    target = sites.load(site.lower())
    listing = listing_of(source, target, belongs_to)
    checkpoint = None if dry_run else checkpoint_of(target.host, source, belongs_to)
    if checkpoint and checkpoint.path.exists():
        errors.print(f"stoppress: continuing from the checkpoint {checkpoint.path}")
    columns = (TextColumn("{task.completed:,.0f} items"), BarColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=errors, disable=not errors.is_terminal) as progress:
            items = progress.add_task("", total=None)
            tally = run(
                listing,
                target,
                checkpoint,
                rate=rate,
                show=lambda tally, total: progress.update(items, completed=tally.handled, total=total),
            )
    except (ListingError, KeyboardInterrupt) as error:
        continues = checkpoint and checkpoint.path.exists() and not isinstance(error, StaleCheckpoint)
        advice = f"; run the command again to continue from {checkpoint.path}" if checkpoint and continues else ""
        fail(f"{str(error) or 'interrupted'}{advice}")
    report = tally.report()
    end({"dry_run": dry_run, **report}, _lines(report, dry_run=dry_run), is_ok=not tally.refused)


def _lines(report: dict[str, Any], *, dry_run: bool) -> Iterator[str]:
    for row in report["reasons"]:
        yield f"{row['kind']}  {counted(row['number'], 'time')}  {row['reason']}"
        yield from (f"    {example}" for example in row["examples"])
    listed = "would be listed" if dry_run else "sent to the imports queue"
    yield f"{report['listed']:,} {listed}, {report['refused']:,} refused, {report['ignored']:,} ignored"


@dataclass
class Tally:
    """How many items an import has handled. `listed`: sent; `refused`: not usable; `ignored`: no sitemap should list them.

    `reasons` has a number and the first examples for each reason of `refused` and `ignored`, and for each note.
    """

    listed: int = 0
    refused: int = 0
    ignored: int = 0
    reasons: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_page(self, page: Page, site: Site) -> list[ArticleEvent]:
        """Count the items of a page, and return the events to send. An ignored page is sent too: then no other source lists it."""
        events = []
        for item in page.items:
            excluded = excluded_because(item.event, site)
            is_foreign = excluded.startswith(FOREIGN_HOST)
            if not excluded:
                self.listed += 1
            else:
                problem = Problem(f"{item.place}: {item.event.url}", excluded)
                self.add("refused" if is_foreign else "ignored", problem)
            if not is_foreign:
                events.append(item.event)
        for kind, problems in (("refused", page.problems), ("ignored", page.ignored), ("note", page.notes)):
            for problem in problems:
                self.add(kind, problem)
        return events

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

    @property
    def handled(self) -> int:
        return self.listed + self.refused + self.ignored

    def report(self) -> dict[str, Any]:
        """Return the tally for programs, the most frequent reasons first."""
        rows = sorted(self.reasons.values(), key=lambda row: -row["number"])
        return {"listed": self.listed, "refused": self.refused, "ignored": self.ignored, "reasons": rows}


@dataclass(frozen=True)
class Checkpoint:
    """A file that records how far an import came."""

    path: Path

    def read(self) -> tuple[str | None, Tally]:
        """Return the cursor to continue from, and the tally so far. Raises BadRequest for a file of another kind."""
        try:
            document = json.loads(self.path.read_text())
            return document["cursor"], Tally(**document["tally"])
        except FileNotFoundError:
            return None, Tally()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadRequest(f"{self.path} is not a checkpoint ({error!r}): remove it to begin anew") from None

    def write(self, cursor: str, tally: Tally) -> None:
        """Replace the file atomically: a crash leaves the old file or the new one."""
        document = {"cursor": cursor, "tally": asdict(tally)}
        new = self.path.with_name(f"{self.path.name}.new")
        with new.open("w") as file:
            file.write(json.dumps(document))
            file.flush()
            os.fsync(file.fileno())
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
    show: Callable[[Tally, int | None], None] = lambda _tally, _total: None,
) -> Tally:
    """Send what a source lists, from the checkpoint on. Without a checkpoint nothing is sent: a dry run.

    `rate` is in articles a second. `show` is called after each page; its second argument is the listing's length, or None.
    Raises ListingError, SendError, and BadRequest if the stack has no queue for imports.
    """
    cursor, tally = checkpoint.read() if checkpoint else (None, Tally())
    if checkpoint:
        queue_url("IMPORTS_QUEUE_URL")  # raises BadRequest before the source is read
    next_at = 0.0  # so that on average at most `rate` articles a second are sent
    for page in listing.pages(cursor):
        events = tally.add_page(page, site)
        if checkpoint:
            while batch := events[: queues.BATCH_MESSAGES_MAX]:
                del events[: queues.BATCH_MESSAGES_MAX]
                time.sleep(max(0.0, next_at - time.monotonic()))
                next_at = max(time.monotonic(), next_at) + len(batch) / rate
                queues.send_imports(batch)
            if page.cursor:
                checkpoint.write(page.cursor, tally)
        show(tally, page.total)
    if checkpoint:
        checkpoint.path.unlink(missing_ok=True)
    return tally


def _group(reason: str) -> str:
    """Return a reason without the parts that differ from article to article: quotations, URLs and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|https?://\S+|\d[\d,.]*", "…", reason)[:200]
