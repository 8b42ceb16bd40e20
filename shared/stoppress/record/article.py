"""Record article events: one transaction in the table for each event.

The events of a batch are read and decided together, and their places in files are reserved together. Then each event is written
separately. After a conflict with another writer an event is decided again. A message that no later attempt can apply goes to
quarantine. A failed message does not stop the others. Reports of refusals arrive on the same queue and are only stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import items, refusals, table
from stoppress.aws.inventory import give_back, reserve
from stoppress.aws.table import Conflict, Throttled
from stoppress.model.article import FORGOTTEN, Article, Decision
from stoppress.model.event import ArticleEvent
from stoppress.model.file_names import Place, Want
from stoppress.model.site import Site
from stoppress.primitives.instants import NEVER, Deadline, exact
from stoppress.primitives.urls import identity
from stoppress.record.decide import REPEATED, decide
from stoppress.record.message import Message, Unusable, named_in, read
from stoppress.record.transaction import recall, urls_of, write_decision

# With each conflict another writer succeeds, so a few attempts are enough. Then SQS delivers the message again.
ATTEMPTS_MAX = 10
# The outcome of a message that is a report of refusals.
REPORT_KEPT = "report kept"
# How many events of a page are searched for its title.
PAGE_EVENTS_MAX = 10


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """The outcome of a message. With an `error` the queue must deliver the message again.

    `about` has site, article and URL, if they are known, to search the log for. `is_new`: the article was not listed before.
    """

    outcome: str
    reason: str = ""
    error: Exception | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    is_new: bool = False


@dataclass(slots=True, eq=False)
class _Work:
    """An event in progress: its message, its site, its reserved places that are still unused, and its conflicts so far.

    `before` is the article before the event, `decision` that of the last attempt. An event with an `outcome` is done.
    """

    message_id: str
    event: ArticleEvent
    site: Site
    spare: list[Place] = field(default_factory=list)
    conflicts: int = 0
    before: Article | None = None
    decision: Decision = REPEATED
    outcome: MessageOutcome | None = None

    def keep_unused(self, article: Article | None) -> None:
        """Drop the spare places that the article has taken."""
        taken = (article.shard, article.news) if article else ()
        self.spare = [place for place in self.spare if place not in taken]

    def spare_place(self, want: Want | None) -> Place | None:
        """Return a reserved place that fits."""
        fitting = (
            place
            for place in self.spare
            if want and place.series == want.series and place.size_bytes >= want.size_bytes
        )
        return next(fitting, None)

    def place(self) -> None:
        """Put the reserved places into the decision's article."""
        shard, news = self.spare_place(self.decision.want_shard), self.spare_place(self.decision.want_news)
        self.decision = self.decision.with_places(shard, news) if self.decision.article else self.decision

    def count_conflict(self) -> None:
        """Count a conflict. After ATTEMPTS_MAX of them the event fails."""
        self.conflicts += 1
        if self.conflicts >= ATTEMPTS_MAX:
            error = Conflict(f"others wrote {self.event.name} first in {ATTEMPTS_MAX} attempts")
            self.fail(error, str(error))

    def fail(self, error: Exception, reason: str = "") -> None:
        self.outcome = MessageOutcome("failed", reason or repr(error), error, _about(self.event))


def record(messages: Iterable[Message], now: datetime, deadline: Deadline = NEVER) -> dict[str, MessageOutcome]:
    """Record a batch until the deadline. Return outcomes by message id.

    A message that was not reached has the outcome `postponed`, and the queue delivers it again.
    """
    batch = _Batch(now, deadline)
    for message in messages:
        batch.read(message)
    batch.record_works()
    done = [(work.message_id, work.outcome) for work in batch.works if work.outcome]
    outcomes = [*batch.outcomes, *done, *(batch.keep_reports() if batch.reports else [])]
    _write_page_events(batch.works, now)
    _note_events({work.site.host: work.site for work in batch.works if work.event.action != "again"}.values(), now)
    return worst_outcomes(outcomes)


def worst_outcomes(outcomes: Iterable[tuple[str, MessageOutcome]]) -> dict[str, MessageOutcome]:
    """Return the worst outcome of each message, so that a message is delivered again if one of its articles failed."""
    worst: dict[str, MessageOutcome] = {}
    for message_id, outcome in outcomes:
        before = worst.setdefault(message_id, outcome)
        if not before.error and (outcome.error or outcome.outcome == "quarantined"):
            worst[message_id] = outcome
    return worst


class _Batch:
    """The messages of a call: their events, their reports of refusals, and the outcomes of messages without an event."""

    def __init__(self, now: datetime, deadline: Deadline) -> None:
        self.now, self.deadline = now, deadline
        self.works: list[_Work] = []
        self.reports: list[tuple[str, refusals.Report]] = []
        self.outcomes: list[tuple[str, MessageOutcome]] = []

    def read(self, message: Message) -> None:
        """Read the events and the report of a message. A message without a usable event gets its outcome here."""
        if self.deadline.is_over():
            self.outcomes.append((message.id, _postponed_outcome()))
            return
        try:
            content = read(message)
        except Unusable as error:
            self._quarantine(message, error)
        except Exception as error:  # noqa: BLE001 - one message's failure must not stop the others
            self.outcomes.append((message.id, MessageOutcome("failed", str(error), error=error)))
        else:
            if content.report:
                self.reports.append((message.id, content.report))
            if content.incomplete:
                self._quarantine(message, content.incomplete)
            elif content.site and not content.events:
                about = named_in(message.body) | {"site": content.site.host}
                self.outcomes.append((message.id, MessageOutcome("ignored", content.ignored, about=about)))
            for event, site in content.events:
                received = replace(event, site=site.host, received_at=event.received_at or message.sent_at)
                self.works.append(_Work(message.id, received, site))

    def _quarantine(self, message: Message, error: Unusable) -> None:
        about = named_in(message.body) | {"site": error.site}
        outcome = MessageOutcome("quarantined", str(error), about=about)
        try:
            table.put_if(items.quarantine_item(error.site, message.id, str(error), message.body, message.sent_at))
        except Exception as failure:  # noqa: BLE001 - not in quarantine, so the message must be delivered again
            outcome = MessageOutcome("failed", str(failure), error=failure)
        self.outcomes.append((message.id, outcome))

    def record_works(self) -> None:
        """Record all events in waves. An event with a conflict is decided again in the next wave."""
        while waiting := [work for work in self.works if work.outcome is None]:
            table.back_off(max(work.conflicts for work in waiting))
            self._record_wave(_first_wave(waiting))
        give_back((work.site.host, place) for work in self.works for place in work.spare)

    def keep_reports(self) -> list[tuple[str, MessageOutcome]]:
        """Store reports of refusals. On failure all of their messages are delivered again, and some refusals may count twice."""
        outcome = MessageOutcome(REPORT_KEPT)
        try:
            refusals.keep(report for _, report in self.reports)
        except Exception as error:  # noqa: BLE001 - the events of the batch must not wait for this
            outcome = MessageOutcome("failed", repr(error), error=error)
        return [(message_id, outcome) for message_id, _ in self.reports]

    def _record_wave(self, wave: Sequence[_Work]) -> None:
        """Decide and write a wave. An event with a conflict gets no outcome."""
        free: list[tuple[str, Place]] = []
        if not self.deadline.is_over():
            self._decide_works(wave)
            _reserve_places([work for work in wave if work.outcome is None])
        for work in wave:
            if work.outcome:
                continue
            if self.deadline.is_over():
                work.outcome = _postponed_outcome(_about(work.event))
                continue
            work.place()
            try:
                write_decision(work.decision, work.event, work.spare, self.now)
            except Conflict:
                work.count_conflict()
            except Throttled as error:  # nothing was written, so `spare` keeps the places, which are freed later
                work.fail(error)
            except Exception as error:  # noqa: BLE001 - one event's failure must not stop the others
                work.spare = []  # the write may have succeeded without an answer, so its places stay taken
                work.fail(error)
            else:
                work.keep_unused(work.decision.article)
                free += [(work.site.host, entry.place) for entry in work.decision.out if entry.place]
                work.outcome = _outcome_of(work)
        give_back(free)

    def _decide_works(self, wave: Sequence[_Work]) -> None:
        """Decide each event of a wave. An event that cannot be read or decided fails alone."""
        try:
            results = recall((work.event, work.site, work.conflicts > 0) for work in wave)
        except Exception as error:  # noqa: BLE001 - a failed read fails this wave only
            results = [error] * len(wave)
        for work, known in zip(wave, results, strict=True):
            if isinstance(known, Exception):
                work.fail(known)
                continue
            work.before = known.article
            work.keep_unused(known.article)  # an earlier attempt may have succeeded without an answer
            try:
                work.decision = decide(work.event, known, work.site, self.now)
            except Exception as error:  # noqa: BLE001 - a bug in one decision must not stop the others
                work.fail(error)


def _reserve_places(works: Sequence[_Work]) -> None:
    """Reserve the places that decisions want, with one conditional update for each series. An event without a place fails."""
    wants_by_series: dict[tuple[str, str], list[tuple[_Work, Want]]] = defaultdict(list)
    for work in works:
        for want in filter(None, (work.decision.want_shard, work.decision.want_news)):
            if not work.spare_place(want):
                wants_by_series[work.site.host, want.series].append((work, want))
    for (host, series), wants in wants_by_series.items():
        try:
            places = reserve(host, series, [want for _, want in wants], wants[0][0].site.shards.size)
        except Exception as error:  # noqa: BLE001 - one series' failure must not stop the others
            for work, _ in wants:
                work.fail(error)
        else:
            for (work, _), place in zip(wants, places, strict=True):
                work.spare.append(place)


def _first_wave(works: Sequence[_Work]) -> list[_Work]:
    """Return the events that may be decided together, called a wave.

    A decision depends on its article and on the claims of its URLs. So events that share an article or a URL must be
    decided one after the other.
    """
    taken: set[str] = set()
    wave: list[_Work] = []
    for work in works:
        urls = [*urls_of(work.event, None), *(link.href for link in work.event.alternates)]
        touched = {f"{work.site.host} {work.event.name}", *map(identity, urls)}
        if not touched & taken:
            wave.append(work)
        taken |= touched
    return wave


def _postponed_outcome(about: Mapping[str, Any] | None = None) -> MessageOutcome:
    error = TimeoutError("the run's time was over")
    return MessageOutcome("postponed", str(error), error, about or {})


def _outcome_of(work: _Work) -> MessageOutcome:
    decision = work.decision
    is_new = decision.outcome == "listed" and (work.before is None or work.before.state != "listed")
    about = _about(decision.article or work.before or work.event)
    return MessageOutcome(decision.outcome, decision.reason, about=about, is_new=is_new)


def _about(subject: Article | ArticleEvent) -> dict[str, str | None]:
    return {"site": subject.site, "article": subject.name, "url": subject.url}


def _write_page_events(works: Iterable[_Work], now: datetime) -> None:
    """Store each event under its URL and its article's URLs, and among the site's refusals if it lists no page.

    Repeats are left out. These items are written outside the events' transactions, so that they add no conflicts.
    """
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    # If this fails, the event itself is recorded, and the log has its outcome.
    with suppress(ClientError, BotoCoreError, TimeoutError):
        for work in works:
            decision = work.decision
            is_written = work.outcome is not None and work.outcome.error is None
            if not is_written or decision.outcome == "duplicate" or decision.reason == FORGOTTEN:
                continue
            pages = [work.event, decision.article or work.before, work.before]
            urls = {identity(page.url): page.url for page in pages if page and page.url}
            rows = [items.story_item(work.event, url, decision.outcome, decision.reason, now) for url in urls.values()]
            if decision.outcome in refusals.UNLISTED:
                url = next(iter(urls.values()), "")
                title = work.event.title or _last_title(work.site.host, url)
                rows.append(
                    refusals.unlisted_item(work.event, decision.outcome, decision.reason, url, title=title, now=now)
                )
            lines |= {(row["pk"], row["sk"]): row for row in rows}
        table.put_many(list(lines.values()))


def _last_title(host: str, url: str) -> str:
    """Return the newest title among a page's stored events, because events that remove a page have none."""
    stored = (
        table.query(items.story_pk(host, url), consistent=False, newest_first=True, page_size=PAGE_EVENTS_MAX)
        if url
        else ()
    )
    return next((line["title"] for line in islice(stored, PAGE_EVENTS_MAX) if "title" in line), "")


def _note_events(sites: Iterable[Site], now: datetime) -> None:
    """Write the time of the last event of each site with `silent_after_hours`."""
    for site in sites:
        if site.silent_after_hours:
            pk, sk = items.last_event_key(site.host)
            # If this fails, the events themselves are recorded, and the next event writes its own time.
            with suppress(ClientError, BotoCoreError):
                table.put_if({"pk": pk, "sk": sk, "at": exact(now)})
