"""Import an archive: list a source, and send its articles through the imports queue.

A checkpoint records which part of the list was sent. After a kill, the import sends its last page again. record_article
recognises these repeats by their delivery ids.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from stoppress.audit.compare import changed_at
from stoppress.audit.pages import Reader
from stoppress.aws import queues, secrets, sites
from stoppress.check.input import peek
from stoppress.check.robots import is_robots
from stoppress.cms.listing import Query
from stoppress.cms.mapping import load
from stoppress.model.event import ArticleEvent
from stoppress.model.exclude import excluded_because
from stoppress.model.listed import Page, Problem
from stoppress.model.site import Site, Source, secret_path
from stoppress.primitives.instants import exact, parse
from stoppress_cli.inputs.rows import Rows
from stoppress_cli.inputs.sitemap_pages import BY_IMPORT, Sitemaps, is_url
from stoppress_cli.stack.find import BadRequest, queue_url

EXAMPLES_KEPT = 3
# Further reasons are counted together.
REASONS_MAX = 200
OTHER_REASONS = "other reasons"
# The second walk begins so much earlier: the greatest offset of a time zone. Some APIs read an instant in their own zone.
ZONE_MAX = timedelta(hours=14)
# How far the CMS's clock may be behind this machine's.
CLOCKS_APART = timedelta(hours=1)


class Listing(Protocol):
    """A source that can be listed."""

    def pages(self, cursor: str | None = None) -> Iterator[Page]:
        """The pages from the cursor on, or all pages. Raises ListingError."""


@dataclass
class Api:
    """The articles that a CMS lists by its API, for a source of the site.

    An article that changes while the list is read may move to a page that was read before. So a second walk lists what changed
    since the first began.
    """

    site: Site
    name: str
    source: Source
    secrets: tuple[str, ...] = ()

    def pages(self, cursor: str | None = None) -> Iterator[Page]:
        """The pages from the cursor on, or all pages. Raises ListingError."""
        at: dict[str, Any] = (
            json.loads(cursor) if cursor else {"began": exact(datetime.now(UTC)), "again": False, "at": None}
        )
        if not at["again"]:
            for page in self._walk(None, at["at"]):
                reached = {**at, "at": page.cursor, "again": page.cursor is None}
                yield Page(page.items, page.problems, page.ignored, json.dumps(reached), page.total)
            at = {**at, "again": True, "at": None}
        began = parse(at["began"])
        for page in self._walk(began - ZONE_MAX, at["at"]):
            after = json.dumps({**at, "at": page.cursor}) if page.cursor else None
            # The first walk listed all others.
            items = tuple(item for item in page.items if _may_be_new(item.event, began))
            yield Page(items, tuple(problem for problem in page.problems if not problem.article), cursor=after)

    def _walk(self, since: datetime | None, cursor: str | None) -> Iterator[Page]:
        query = Query(self.site, self.name, self.source, load(self.source.list_adapter), self.secrets, since)
        return Reader(query, BY_IMPORT).pages(cursor)


def _may_be_new(event: ArticleEvent, began: datetime) -> bool:
    """Whether an article may have changed or appeared since `began`. True without dates."""
    dates = [date for date in (changed_at(event), event.published_at) if date]
    return not dates or max(dates) >= began - CLOCKS_APART


@dataclass
class Tally:
    """How many items an import has handled. `listed`: sent; `refused`: not usable; `ignored`: no sitemap should list them.

    `reasons` has a number and the first examples for each reason of `refused` and `ignored`.
    """

    listed: int = 0
    refused: int = 0
    ignored: int = 0
    reasons: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, kind: str, problem: Problem) -> None:
        """Counts a problem as `refused` or `ignored`."""
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
        """The tally for programs, the most frequent reasons first."""
        rows = sorted(self.reasons.values(), key=lambda row: -row["number"])
        return {"listed": self.listed, "refused": self.refused, "ignored": self.ignored, "reasons": rows}


@dataclass(frozen=True)
class Checkpoint:
    """A file that records how far an import came. `of` identifies the import: site, source argument, and `--as`."""

    path: Path
    of: tuple[str, str, str | None]

    def read(self) -> tuple[str | None, Tally]:
        """The cursor to continue from, and the tally so far. Raises BadRequest unless this import wrote the file."""
        try:
            document = json.loads(self.path.read_text())
            if document["import"] != list(self.of):
                raise BadRequest(
                    f"{self.path} is the checkpoint of another import, {document['import']}: give another with --checkpoint"
                )
            return document["cursor"], Tally(**document["tally"])
        except FileNotFoundError:
            return None, Tally()
        except (OSError, ValueError, TypeError, KeyError) as error:
            if isinstance(error, BadRequest):
                raise
            raise BadRequest(f"{self.path} is not a checkpoint ({error!r}): give another with --checkpoint") from None

    def write(self, cursor: str, tally: Tally) -> None:
        """Replaces the file atomically: a crash leaves the old file or the new one."""
        document = {"import": self.of, "cursor": cursor, "tally": asdict(tally)}
        new = self.path.with_name(f"{self.path.name}.new")
        with new.open("w") as file:
            file.write(json.dumps(document))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)


def checkpoint_of(path: Path | None, host: str, source: str, name: str | None) -> Checkpoint:
    """The checkpoint of an import: the given file, else one in the working directory that is named after site and source."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", source).strip("-")[-40:]
    digest = sha256(f"{source}\n{name}".encode()).hexdigest()[:8]
    return Checkpoint(path or Path(f"stoppress-import-{host}-{plain}-{digest}.json"), (host, source, name))


def listing_of(source: str, site: Site, name: str | None) -> Listing:
    """What a source lists: a source of the site by its name, a URL, or a file. Raises BadRequest."""
    if source in site.sources:
        if name:
            raise BadRequest(f"{source} is a source of {site.host}: leave --as out")
        return _api(site, source)
    if name and name not in site.sources:
        raise BadRequest(f"{site.host} has no source {name!r}: it has {', '.join(site.sources) or 'none'}")
    is_rows, is_json = (False, False) if is_url(source) else _format(source, site)
    if is_rows:
        return Rows(Path(source), site, name, is_json)
    if name:
        raise BadRequest("--as is for CSV and JSON Lines: leave it out, because a sitemap does not have the CMS's ids")
    return Sitemaps(source, site)


def _api(site: Site, name: str) -> Api:
    source = site.sources[name]
    if source.list is None:
        raise BadRequest(
            f"the source {name} of {site.host} cannot be listed: give it `list` in the site's configuration"
        )
    key = source.list.secret
    try:
        return Api(site, name, source, tuple(secrets.load(secret_path(site.host, key))) if key else ())
    except secrets.NoSecret as error:
        raise BadRequest(str(error)) from None


def _format(source: str, site: Site) -> tuple[bool, bool]:
    """Whether a file has rows (CSV or JSON Lines), and whether they are JSON. Raises BadRequest."""
    try:
        with Path(source).open("rb") as file:
            head = peek(file.read).lstrip("\ufeff").lstrip()
    except OSError as error:
        known = ", ".join(site.sources) or "none"
        raise BadRequest(
            f"{source!r} is neither a source of {site.host} (it has {known}) nor a URL nor a readable file:"
            f" {error.strerror or error}"
        ) from None
    if head.startswith("["):
        raise BadRequest(f"{source} is a JSON list: write one JSON object on each line")
    is_sitemap = head.startswith("<") or is_robots(head) or (is_url(head) and not re.search(r"[,;\t]", head))
    return not is_sitemap, head.startswith("{")


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
    pace = _Pace(rate)
    for page in listing.pages(cursor):
        events: list[ArticleEvent] = []
        for item in page.items:
            excluded = excluded_because(item.event, site)
            if excluded is None:
                tally.listed += 1
            else:
                kind = "refused" if excluded.kind == "foreign host" else "ignored"
                tally.add(kind, Problem(f"{item.place}: {item.event.url}", str(excluded)))
            # An ignored page is sent too: once it is recorded, no other source lists it.
            events += [item.event] if excluded is None or excluded.kind != "foreign host" else []
        for kind, problems in (("refused", page.problems), ("ignored", page.ignored)):
            for problem in problems:
                tally.add(kind, problem)
        if checkpoint:
            for start in range(0, len(events), queues.BATCH_MESSAGES_MAX):
                batch = events[start : start + queues.BATCH_MESSAGES_MAX]
                pace.wait(len(batch))
                queues.send_imports(batch)
            if page.cursor:
                checkpoint.write(page.cursor, tally)
        show(tally, page.total)
    if checkpoint:
        checkpoint.path.unlink(missing_ok=True)
    return tally


@dataclass
class _Pace:
    """Waits so that on average at most `rate` articles a second are sent."""

    rate: float
    next_at: float = 0.0

    def wait(self, number: int) -> None:
        now = time.monotonic()
        if self.next_at > now:
            time.sleep(self.next_at - now)
        self.next_at = max(now, self.next_at) + number / self.rate


def _group(reason: str) -> str:
    """A reason without the parts that differ from article to article: quotations, URLs and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|https?://\S+|\d[\d,.]*", "…", reason)[:200]


def site_of(host: str) -> Site:
    """The site to import into. Raises UnknownSite and BadConfiguration."""
    return sites.load_usable(host.lower())
