"""Recording: article events in, one transaction each in the table.

The events of a batch are read, decided and given their places together, then written one by one. Where somebody else
wrote first the event is decided again. What cannot be applied goes to quarantine, and its neighbours go on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import table
from stoppress.aws.items import (
    article_item,
    claim_item,
    due_item,
    due_sk,
    entry_key,
    general_item,
    news_item,
    old_claim_key,
    quarantine_item,
    story_item,
    waiting_item,
    waiting_key,
)
from stoppress.aws.places import give_back, reserve
from stoppress.aws.table import Conflict, Delete, Put
from stoppress.model.article import FORGOTTEN, Article, Decision
from stoppress.model.event import ArticleEvent, to_message
from stoppress.model.file_names import is_news_series
from stoppress.model.places import Place, Want
from stoppress.model.site import Site
from stoppress.primitives.urls import identity
from stoppress.record.claims import urls_of
from stoppress.record.decide import decide
from stoppress.record.message import Message, Unusable, named_in, read
from stoppress.record.recall import Question, recall

# Each conflict is another writer's success, so a few attempts are enough; after them the queue tries again.
ATTEMPTS_MAX = 10
# Between a message's id and the number of an article in it; no id of SQS has one.
PART = "#"


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """What became of a message. `error`: it could not be recorded now and must come again. `urls`: its article's, before and after."""

    outcome: str
    reason: str = ""
    event: ArticleEvent | None = None
    error: Exception | None = None
    said: Mapping[str, str | None] = field(default_factory=dict)
    urls: tuple[str | None, ...] = ()

    @property
    def about(self) -> dict[str, str | None]:
        """Site, article and URL, as far as they are known: what somebody asks for by name."""
        if self.event:
            return {"site": self.event.site, "article": self.event.name, "url": self.event.url} | dict(self.said)
        return dict(self.said)


@dataclass(slots=True)
class _Work:
    """An event on its way: its site, places that were reserved for it and not used yet, and how often others were faster."""

    message: Message
    event: ArticleEvent
    site: Site
    spare: list[Place] = field(default_factory=list)
    conflicts: int = 0


# A work, its article as it was known, and what was decided.
_Decided: TypeAlias = tuple[_Work, Article | None, Decision]


def record(messages: Iterable[Message], now: datetime) -> dict[str, MessageOutcome]:
    """Record a batch; what became of each message, by its id."""
    outcomes: dict[str, MessageOutcome] = {}
    waiting: list[_Work] = []
    for message in messages:
        try:
            found = read(message, now)
            if found.incomplete:
                outcomes[f"{message.id}{PART}incomplete"] = _quarantine(message, found.incomplete)
            elif not found.events:
                said = named_in(message.body) | {"site": found.site.host}
                outcomes[message.id] = MessageOutcome("ignored", found.ignored, said=said)
            for number, (event, site) in enumerate(found.events):
                part = replace(message, id=f"{message.id}{PART}{number}") if number else message
                heard = replace(event, heard_at=event.heard_at or message.sent_at)
                waiting.append(_Work(part, heard, site))
        except Unusable as error:
            outcomes[message.id] = _quarantine(message, error)
        except Exception as error:  # noqa: BLE001 - one message's fault must not keep its neighbours
            outcomes[message.id] = MessageOutcome("failed", str(error), error=error)
    works = list(waiting)
    while waiting:
        wave, waiting = _apart(waiting)
        for work in _record_wave(wave, now, outcomes):
            work.conflicts += 1
            if work.conflicts < ATTEMPTS_MAX:
                waiting.insert(0, work)
            else:
                lost = Conflict(f"{work.event.name} was written by others, {ATTEMPTS_MAX} attempts long")
                outcomes[work.message.id] = MessageOutcome("failed", str(lost), work.event, lost)
        table.back_off(max((work.conflicts for work in waiting), default=0))
    _give_back({work.site.host: [] for work in works}, works)
    _tell(outcomes.values(), now)
    return _whole(outcomes)


def _whole(outcomes: dict[str, MessageOutcome]) -> dict[str, MessageOutcome]:
    """The outcomes by message: of several articles in one the worst is told, so that what failed comes again."""
    told: dict[str, MessageOutcome] = {}
    for name, outcome in outcomes.items():
        message_id = name.partition(PART)[0]
        before = told.setdefault(message_id, outcome)
        if before.outcome != "failed" and outcome.outcome in ("failed", "quarantined"):
            told[message_id] = outcome
    return told


def _tell(outcomes: Iterable[MessageOutcome], now: datetime) -> None:
    """Keep what became of each event, under the URL that it named and under its article's. Repetitions are no news."""
    lines = {}
    for one in outcomes:
        if one.event is None or one.outcome in ("duplicate", "failed") or one.reason == FORGOTTEN:
            continue
        for url in {identity(url): url for url in (one.event.url, *one.urls) if url}.values():
            item = story_item(one.event, url, one.outcome, one.reason, now)
            lines[item["pk"], item["sk"]] = item
    with suppress(ClientError, BotoCoreError, TimeoutError):  # the log has it too, and the event itself is recorded
        table.put_many(list(lines.values()))


def _quarantine(message: Message, error: Unusable) -> MessageOutcome:
    try:
        table.put_if(quarantine_item(error.site, message.id, str(error), message.body, message.sent_at))
    except Exception as failure:  # noqa: BLE001 - not even quarantine took it: it must come again
        return MessageOutcome("failed", str(failure), error=failure)
    return MessageOutcome("quarantined", str(error), said=named_in(message.body) | {"site": error.site})


# ── one wave ──


def _apart(works: Sequence[_Work]) -> tuple[list[_Work], list[_Work]]:
    """Works that touch no article and no URL in common, and the rest, in their order."""
    taken: set[str] = set()
    now_wave: list[_Work] = []
    rest: list[_Work] = []
    for work in works:
        touched = {f"{work.site.host} {name}" for name in (work.event.name, *urls_of(work.event, None))}
        (rest if touched & taken else now_wave).append(work)
        taken |= touched
    return now_wave, rest


def _record_wave(works: Sequence[_Work], now: datetime, outcomes: dict[str, MessageOutcome]) -> list[_Work]:
    """Decide and write a wave; those that somebody else was faster with."""
    conflicts = []
    free: dict[str, list[Place]] = defaultdict(list)
    for work, before, decision in _placed(_decided(works, now, outcomes), outcomes):
        try:
            _write(work, decision, now)
        except Conflict:
            conflicts.append(work)
        except Exception as error:  # noqa: BLE001 - as in deciding, and it may have been written all the same: its places stay taken
            work.spare = []
            outcomes[work.message.id] = MessageOutcome("failed", repr(error), work.event, error)
        else:
            work.spare = [place for place in work.spare if place not in _places(decision)]
            free[work.site.host] += [entry.place for entry in decision.out if entry.place]
            after = decision.article or before
            said = {"article": after.name, "url": after.url} if after else {}
            urls = tuple(dict.fromkeys(one.url for one in (after, before) if one))
            outcomes[work.message.id] = MessageOutcome(
                decision.outcome, decision.reason, work.event, said=said, urls=urls
            )
    _give_back(free, [])
    return conflicts


def _decided(works: Sequence[_Work], now: datetime, outcomes: dict[str, MessageOutcome]) -> list[_Decided]:
    """What each event of a wave changes, by what is known now. What cannot be known or decided fails by itself."""
    decided: list[_Decided] = []
    try:
        all_known = recall(Question(work.event, work.site.host, work.conflicts > 0) for work in works)
    except Exception as error:  # noqa: BLE001 - what cannot be read now comes again; the waves after this one go on
        outcomes.update({work.message.id: MessageOutcome("failed", repr(error), work.event, error) for work in works})
        return []
    for work, known in zip(works, all_known, strict=True):
        if isinstance(known, Exception):
            outcomes[work.message.id] = MessageOutcome("failed", repr(known), work.event, known)
            continue
        if known.article:  # an earlier attempt may have gone through although it was not answered
            work.spare = [place for place in work.spare if place not in (known.article.shard, known.article.news)]
        try:
            decided.append((work, known.article, decide(work.event, known, work.site, now)))
        except Exception as error:  # noqa: BLE001 - a fault of ours in one decision: its neighbours go on, the queue tries again
            outcomes[work.message.id] = MessageOutcome("failed", repr(error), work.event, error)
    return decided


# ── places ──


def _placed(decided: Sequence[_Decided], outcomes: dict[str, MessageOutcome]) -> list[_Decided]:
    """The decisions with the places they want: one conditional update a series and batch. What finds no place fails."""
    homeless: dict[str, Exception] = {}
    wanting: dict[tuple[str, str], list[tuple[_Work, Want]]] = defaultdict(list)
    for work, _, decision in decided:
        for want in (decision.want_shard, decision.want_news):
            if want and not _spare(work, want):
                wanting[work.site.host, want.series].append((work, want))
    for (host, series), wants in wanting.items():
        site = wants[0][0].site
        try:
            places = reserve(host, series, [want for _, want in wants], site.shards.size)
        except Exception as error:  # noqa: BLE001 - who wanted another series goes on; the queue tries these again
            homeless |= {work.message.id: error for work, _ in wants}
            continue
        for (work, _), place in zip(wants, places, strict=True):
            work.spare.append(place)
    placed = []
    for work, before, decision in decided:
        if fault := homeless.get(work.message.id):
            outcomes[work.message.id] = MessageOutcome("failed", repr(fault), work.event, fault)
        elif decision.article:
            places_of = _spare(work, decision.want_shard), _spare(work, decision.want_news)
            placed.append((work, before, decision.placed(*places_of)))
        else:
            placed.append((work, before, decision))
    return placed


def _spare(work: _Work, want: Want | None) -> Place | None:
    """A place that was reserved for this event already and fits."""
    if want is None:
        return None
    fitting = (place for place in work.spare if place.series == want.series and place.size_bytes >= want.size_bytes)
    return next(fitting, None)


def _give_back(free: dict[str, list[Place]], works: Sequence[_Work]) -> None:
    """Give back the news places that entries left, and those that works did not come to use."""
    for host, left in free.items():
        unused = [place for work in works if work.site.host == host for place in work.spare]
        give_back(host, [place for place in left + unused if is_news_series(place.series)])


def _places(decision: Decision) -> tuple[Place | None, ...]:
    return (decision.article.shard, decision.article.news) if decision.article else ()


# ── writing ──


def _write(work: _Work, decision: Decision, now: datetime) -> None:
    """One transaction: from one consistent state to the next, or not at all. Raises Conflict."""
    article, host = decision.article, work.site.host
    released = [Delete(f"due#{host}", due_sk(release, name)) for release, name in decision.released]
    if article is None and not decision.claims:
        for due in released:  # what it was held for has been overtaken
            table.delete(due.pk, due.sk)
        return
    puts = [Put(article_item(changed), changed.rev) for changed in (article, *decision.displaced) if changed]
    puts += [Put(claim_item(claim), claim.rev) for claim in decision.claims]
    if decision.general and article and article.shard:
        puts.append(Put(general_item(host, article.shard.file, decision.general), guarded=False))
    # A news entry to be taken out or replaced may have gone by another hand, and its place with it: a conflict, and then it is looked for.
    if decision.news and article and article.news:
        kept = article.news not in work.spare and not any(entry.published and not entry.place for entry in decision.out)
        puts.append(Put(news_item(host, article.news, decision.news), guarded=False, must_exist=kept))
    if decision.held:
        # An event without a date leaves the embargo of an earlier one as it is, and carries it on.
        event = replace(work.event, release=decision.held, published_at=work.event.published_at or decision.held)
        puts.append(_due(host, event, now))
    puts += [_due(host, event, now) for event in decision.returns]
    puts += [Put(waiting_item(event), guarded=False) for event in decision.waits]
    deletes = [Delete(*entry_key(host, entry), must_exist=entry.published is not None) for entry in decision.out]
    old_claims = [old_claim_key(host, claim.url) for claim in decision.claims if claim.is_old_form]
    deletes += [Delete(*key) for key in old_claims if key]
    if decision.no_longer_waits:
        deletes.append(Delete(*waiting_key(host, *decision.no_longer_waits)))
    deletes += released
    if len(puts) == 1 and puts[0].guarded and not deletes:
        table.put(puts[0].item, puts[0].expected_rev)  # half the price of a transaction of one
    else:
        table.transact([*puts, *deletes])


def _due(host: str, event: ArticleEvent, now: datetime) -> Put:
    """What `roll_window` is to send to the articles queue at its release; at once where it has none."""
    release = event.release or now
    event = replace(event, release=release)
    message = to_message(event, in_ascii=False)
    return Put(due_item(host, release, event.name, message, queue="articles"), guarded=False)
