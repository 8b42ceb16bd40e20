"""Record article events: one transaction in the table for each event.

The events of a batch are read and decided together, and their places in files are reserved together. Then each event is written
by itself. After a conflict with another writer an event is decided again. A message that no later attempt can apply goes to
quarantine. One message's failure stops no other message. Reports of refusals travel on the same queue and are only stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import due, items, refusals, table
from stoppress.aws.places import give_back, reserve
from stoppress.aws.table import Conflict, Delete, Put, Throttled
from stoppress.model.article import FORGOTTEN, Article, Decision
from stoppress.model.event import ArticleEvent, to_message
from stoppress.model.file_names import is_news_series
from stoppress.model.places import Place, Want
from stoppress.model.site import Site
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from stoppress.record.claims import urls_of
from stoppress.record.decide import decide
from stoppress.record.message import Message, Unusable, named_in, read
from stoppress.record.recall import Question, recall

# Each conflict is another writer's success, so a few attempts are enough. After them SQS delivers the message again.
ATTEMPTS_MAX = 10
# The outcome of a message that is a report of refusals.
REPORT_KEPT = "report kept"


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """The outcome of a message. With an `error` the queue must deliver the message again.

    `names` has article, URL and site for the log. `urls` has the article's URLs before and after the event. `is_new`: the article
    was not listed before.
    """

    outcome: str
    reason: str = ""
    event: ArticleEvent | None = None
    error: Exception | None = None
    names: Mapping[str, str | None] = field(default_factory=dict)
    urls: tuple[str | None, ...] = ()
    is_new: bool = False

    @property
    def about(self) -> dict[str, str | None]:
        """Site, article and URL, as far as they are known, to search the log for."""
        if self.event:
            return {"site": self.event.site, "article": self.event.name, "url": self.event.url} | dict(self.names)
        return dict(self.names)


@dataclass(slots=True, eq=False)
class _Work:
    """An event in progress: its message, its site, its reserved places that are still unused, and its conflicts so far."""

    message_id: str
    event: ArticleEvent
    site: Site
    spare: list[Place] = field(default_factory=list)
    conflicts: int = 0


# An event, its article before the event, and the decision.
_Decided: TypeAlias = tuple[_Work, Article | None, Decision]
# Pairs of a message's id and an outcome. A message with several articles has an outcome for each.
_Outcomes: TypeAlias = list[tuple[str, MessageOutcome]]


def record(messages: Iterable[Message], now: datetime, deadline: Deadline = NEVER) -> dict[str, MessageOutcome]:
    """Record a batch until the deadline. Returns outcomes by message id.

    A message that was not reached has the outcome `postponed`, and the queue delivers it again.
    """
    outcomes: _Outcomes = []
    works = []
    reports: list[tuple[str, refusals.Report]] = []
    for message in messages:
        if deadline.is_over():
            outcomes.append((message.id, _postpone()))
        else:
            works += _read(message, outcomes, reports)
    waiting = list(works)
    while waiting:
        wave, waiting = _split_wave(waiting)
        for work in _record_wave(wave, now, outcomes, deadline):
            work.conflicts += 1
            if work.conflicts < ATTEMPTS_MAX:
                waiting.insert(0, work)
            else:
                lost = Conflict(f"others wrote {work.event.name} first in {ATTEMPTS_MAX} attempts")
                outcomes.append((work.message_id, MessageOutcome("failed", str(lost), work.event, lost)))
        table.back_off(max((work.conflicts for work in waiting), default=0))
    _give_back({work.site.host: [] for work in works}, works)
    _keep(reports, outcomes)
    _write_stories((outcome for _, outcome in outcomes), now)
    _note_events({work.site.host: work.site for work in works}.values(), now)
    return _by_message(outcomes)


def _read(message: Message, outcomes: _Outcomes, reports: list[tuple[str, refusals.Report]]) -> list[_Work]:
    """The events of a message. A message without a usable event gets its outcome here, a report is added to `reports`."""
    try:
        content = read(message)
        if isinstance(content, refusals.Report):
            reports.append((message.id, content))
            return []
        if content.report:
            reports.append((message.id, content.report))
        if content.incomplete:
            outcomes.append((message.id, _quarantine(message, content.incomplete)))
        elif not content.events:
            names = named_in(message.body) | {"site": content.site.host}
            outcomes.append((message.id, MessageOutcome("ignored", content.ignored, names=names)))
    except Unusable as error:
        outcomes.append((message.id, _quarantine(message, error)))
    except Exception as error:  # noqa: BLE001 - one message's failure must not stop the others
        outcomes.append((message.id, MessageOutcome("failed", str(error), error=error)))
    else:
        sent_at = message.sent_at
        return [
            _Work(message.id, replace(event, received_at=event.received_at or sent_at), site)
            for event, site in content.events
        ]
    return []


def _keep(reports: Sequence[tuple[str, refusals.Report]], outcomes: _Outcomes) -> None:
    """Store reports of refusals. On failure all of their messages come again, and some refusals may count twice."""
    try:
        refusals.keep(report for _, report in reports)
    except Exception as error:  # noqa: BLE001 - the events of the batch must not wait for this
        outcomes += [(message_id, MessageOutcome("failed", repr(error), error=error)) for message_id, _ in reports]
    else:
        outcomes += [(message_id, MessageOutcome(REPORT_KEPT)) for message_id, _ in reports]


def _by_message(outcomes: _Outcomes) -> dict[str, MessageOutcome]:
    """The worst outcome of each message, so that a message comes again if one of its articles failed."""
    worst: dict[str, MessageOutcome] = {}
    for message_id, outcome in outcomes:
        before = worst.setdefault(message_id, outcome)
        if not before.error and (outcome.error or outcome.outcome == "quarantined"):
            worst[message_id] = outcome
    return worst


def _write_stories(outcomes: Iterable[MessageOutcome], now: datetime) -> None:
    """Add each event to the story of its URL and of its article's URLs. Repeats are left out.

    The stories are written outside the events' transactions, so that they add no conflicts.
    """
    lines = {}
    for outcome in outcomes:
        event = outcome.event
        if event is None or outcome.error or outcome.outcome == "duplicate" or outcome.reason == FORGOTTEN:
            continue
        for url in {identity(url): url for url in (event.url, *outcome.urls) if url}.values():
            item = items.story_item(event, url, outcome.outcome, outcome.reason, now)
            lines[item["pk"], item["sk"]] = item
    # The event itself is recorded, and the log has its outcome.
    with suppress(ClientError, BotoCoreError, TimeoutError):
        table.put_many(list(lines.values()))


def _note_events(received: Iterable[Site], now: datetime) -> None:
    for site in received:
        if site.silent_after_hours:
            pk, sk = items.last_event_key(site.host)
            # The events themselves are recorded, and the next event writes its own time.
            with suppress(ClientError, BotoCoreError):
                table.put_if({"pk": pk, "sk": sk, "at": exact(now)})


def _quarantine(message: Message, error: Unusable) -> MessageOutcome:
    try:
        table.put_if(items.quarantine_item(error.site, message.id, str(error), message.body, message.sent_at))
    except Exception as failure:  # noqa: BLE001 - quarantine failed too, so the message must come again
        return MessageOutcome("failed", str(failure), error=failure)
    return MessageOutcome("quarantined", str(error), names=named_in(message.body) | {"site": error.site})


def _split_wave(works: Sequence[_Work]) -> tuple[list[_Work], list[_Work]]:
    """The events that may be decided together, called a wave, and the rest in order.

    A decision depends on its article and on the claims of its URLs. So events that share an article or a URL must be
    decided one after the other.
    """
    taken: set[str] = set()
    wave: list[_Work] = []
    rest: list[_Work] = []
    for work in works:
        touched = {f"{work.site.host} {name}" for name in (work.event.name, *urls_of(work.event, None))}
        (rest if touched & taken else wave).append(work)
        taken |= touched
    return wave, rest


def _record_wave(works: Sequence[_Work], now: datetime, outcomes: _Outcomes, deadline: Deadline) -> list[_Work]:
    """Decide and write a wave. Returns the events for which another writer was faster."""
    if deadline.is_over():
        outcomes += [(work.message_id, _postpone(work.event)) for work in works]
        return []
    conflicts = []
    free: dict[str, list[Place]] = defaultdict(list)
    for work, before, decision in _reserve_places(_decide_works(works, now, outcomes), outcomes):
        if deadline.is_over():
            outcomes.append((work.message_id, _postpone(work.event)))
            continue
        try:
            _write(work, decision, now)
        except Conflict:
            conflicts.append(work)
        except Throttled as error:  # nothing was written, so `spare` keeps the places, which are freed later
            outcomes.append(_fail(work, error))
        except Exception as error:  # noqa: BLE001 - one event's failure must not stop the others
            work.spare = []  # the write may have succeeded without an answer, so its places stay taken
            outcomes.append(_fail(work, error))
        else:
            used = (decision.article.shard, decision.article.news) if decision.article else ()
            work.spare = [place for place in work.spare if place not in used]
            free[work.site.host] += [entry.place for entry in decision.out if entry.place]
            outcomes.append(_outcome_of(work, before, decision))
    _give_back(free, [])
    return conflicts


def _outcome_of(work: _Work, before: Article | None, decision: Decision) -> tuple[str, MessageOutcome]:
    after = decision.article or before
    names = {"article": after.name, "url": after.url} if after else {}
    urls = tuple(dict.fromkeys(article.url for article in (after, before) if article))
    is_new = decision.outcome == "listed" and (before is None or before.state != "listed")
    outcome = MessageOutcome(decision.outcome, decision.reason, work.event, names=names, urls=urls, is_new=is_new)
    return work.message_id, outcome


def _postpone(event: ArticleEvent | None = None) -> MessageOutcome:
    late = TimeoutError("the run's time was over")
    return MessageOutcome("postponed", str(late), event, late)


def _fail(work: _Work, error: Exception) -> tuple[str, MessageOutcome]:
    return work.message_id, MessageOutcome("failed", repr(error), work.event, error)


def _decide_works(works: Sequence[_Work], now: datetime, outcomes: _Outcomes) -> list[_Decided]:
    """The decision about each event of a wave. An event that cannot be read or decided fails alone."""
    decided: list[_Decided] = []
    try:
        all_known = recall(Question(work.event, work.site.host, work.conflicts > 0) for work in works)
    except Exception as error:  # noqa: BLE001 - a failed read fails this wave only
        outcomes += [_fail(work, error) for work in works]
        return []
    for work, known in zip(works, all_known, strict=True):
        if isinstance(known, Exception):
            outcomes.append(_fail(work, known))
            continue
        if known.article:  # an earlier attempt may have succeeded without an answer
            work.spare = [place for place in work.spare if place not in (known.article.shard, known.article.news)]
        try:
            decided.append((work, known.article, decide(work.event, known, work.site, now)))
        except Exception as error:  # noqa: BLE001 - a bug in one decision must not stop the others
            outcomes.append(_fail(work, error))
    return decided


def _reserve_places(decided: Sequence[_Decided], outcomes: _Outcomes) -> list[_Decided]:
    """The decisions with their places. An event without a place fails."""
    placed, homeless = [], _reserve(decided)
    for work, before, decision in decided:
        if error := homeless.get(work):
            outcomes.append(_fail(work, error))
        elif decision.article:
            places = _spare(work, decision.want_shard), _spare(work, decision.want_news)
            placed.append((work, before, decision.placed(*places)))
        else:
            placed.append((work, before, decision))
    return placed


def _reserve(decided: Sequence[_Decided]) -> dict[_Work, Exception]:
    """Reserve the places that decisions want, with one conditional update for each series. Returns the errors by event."""
    errors: dict[_Work, Exception] = {}
    wanting: dict[tuple[str, str], list[tuple[_Work, Want]]] = defaultdict(list)
    for work, want in [(work, want) for work, _, decision in decided for want in decision.wants]:
        if not _spare(work, want):
            wanting[work.site.host, want.series].append((work, want))
    for (host, series), wants in wanting.items():
        size = wants[0][0].site.shards.size
        try:
            places = reserve(host, series, [want for _, want in wants], size)
        except Exception as error:  # noqa: BLE001 - one series' failure must not stop the others
            errors |= {work: error for work, _ in wants}
            continue
        for (work, _), place in zip(wants, places, strict=True):
            work.spare.append(place)
    return errors


def _spare(work: _Work, want: Want | None) -> Place | None:
    """A place that fits and is already reserved for the event."""
    if want is None:
        return None
    fitting = (place for place in work.spare if place.series == want.series and place.size_bytes >= want.size_bytes)
    return next(fitting, None)


def _give_back(free: dict[str, list[Place]], works: Sequence[_Work]) -> None:
    """Give back news places by host: those of deleted entries, and those that `works` reserved and did not use."""
    for host, left in free.items():
        unused = [place for work in works if work.site.host == host for place in work.spare]
        give_back(host, [place for place in left + unused if is_news_series(place.series)])


def _write(work: _Work, decision: Decision, now: datetime) -> None:
    """Write a decision in one transaction. Raises Conflict, and then nothing is written.

    The transaction deletes the due records that the event settles, so that no crash loses a held article.
    """
    host = work.site.host
    released = [Delete(items.due_pk(host), items.due_sk(release, name)) for release, name in decision.released]
    if decision.article is None and not decision.claims:
        for record in released:  # a newer event has settled them
            table.delete(record.pk, record.sk)
        return
    puts = [*_state_puts(work, decision), *_event_puts(work, decision, now)]
    deletes = [*_deletes(host, decision), *released]
    if len(puts) == 1 and puts[0].guarded and not deletes:
        table.put(puts[0].item, puts[0].expected_rev)  # costs half as much as a transaction with one item
    else:
        table.transact([*puts, *deletes])


def _state_puts(work: _Work, decision: Decision) -> list[Put]:
    """Writes of articles, claims and entries."""
    article, host = decision.article, work.site.host
    puts = [Put(items.article_item(changed), changed.rev) for changed in (article, *decision.displaced) if changed]
    puts += [Put(items.claim_item(claim), claim.rev) for claim in decision.claims]
    puts += [Put(items.departed_item(host, entry), guarded=False) for entry in decision.departed]
    if decision.general and article and article.shard:
        puts.append(Put(items.general_item(host, article.shard.file, decision.general), guarded=False))
    if decision.news and article and article.news:
        # roll_window may just have removed the old entry and freed its place. So an entry that keeps its place must exist.
        kept = article.news not in work.spare and not any(entry.published and not entry.place for entry in decision.out)
        puts.append(Put(items.news_item(host, article.news, decision.news), guarded=False, must_exist=kept))
    return puts


def _event_puts(work: _Work, decision: Decision, now: datetime) -> list[Put]:
    """Writes of events to be recorded again: at a release, at once, or when a URL becomes free."""
    host = work.site.host
    puts = [Put(items.waiting_item(event), guarded=False) for event in decision.waits]
    coming = [replace(event, release=event.release or now) for event in decision.returns]
    if decision.held:
        # An event without a date keeps the embargo of an earlier event, so it takes over that event's date.
        published_at = work.event.published_at or decision.held
        coming.append(replace(work.event, release=decision.held, published_at=published_at))
    for event in coming:
        assert event.release
        message = to_message(event, in_ascii=False)
        puts.append(Put(items.due_item(host, event.release, event.name, message, queue="articles"), guarded=False))
    # Several events may come at one instant. A transaction writes each item once.
    releases = dict.fromkeys(event.release for event in coming if event.release)
    return puts + [due.messages(host, release) for release in releases]


def _deletes(host: str, decision: Decision) -> list[Delete]:
    # A news entry must exist: if roll_window has removed it, its place is free already and must not be given back again.
    deletes = [
        Delete(*items.entry_key(host, entry), must_exist=entry.published is not None)
        for entry in decision.out
        if entry not in decision.departed
    ]
    if decision.no_longer_waits:
        deletes.append(Delete(*items.waiting_key(host, *decision.no_longer_waits)))
    return deletes
