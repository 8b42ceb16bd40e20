"""Telling: search engines hear of the pages that changed in the files, each after the page itself was checked.

An event about a file starts a comparison with the copy that was compared before. Each changed page is marked in the table, and gets a
message of its own. Nothing here delays or fails a publication.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from stoppress.aws import bucket, items, queues, table
from stoppress.aws.bucket import Overtaken
from stoppress.http import client
from stoppress.http.errors import FetchError, Refused
from stoppress.model.event import ArticleEvent, split_name
from stoppress.model.file_headers import CACHE_FRESH, CONTENT_TYPES
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.site import Site
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.primitives.instants import exact, parse
from stoppress.tell import files as changed_files, google, indexnow
from stoppress.tell.changes import GONE, Change, changes
from stoppress.tell.fetch import check_pages
from stoppress.tell.indexnow import Meaning
from stoppress.tell.page import Expected, PageVerdict
from stoppress.tell.state import (
    BEGAN,
    CHECKED_FOR,
    ENGINE,
    HIDDEN_AFTER,
    INDEXNOW,
    PAUSE,
    SLOW_CHECK_SECONDS,
    TRIED_FOR,
    PageState,
    after_failed_check,
    delay,
    failing_item,
    failing_key,
    is_ready,
    next_step,
    page_key,
    pages_in,
    read_page,
    told_pk,
)
from stoppress.tell.store import ATTEMPTS_MAX, note_answer, paused_seconds, told_site, update_page, write_page

# Copies of the files as they were compared last. No CDN serves this folder, because its name is no host.
COPIES = "told"
# The beginning of the delivery ids of removals.
BY_ENGINES = "engines"
# A sweep notices a site's new setting within an hour. So pages of the hour before count too.
BEGAN_BEFORE = timedelta(hours=1)
# The hourly sweep compares the files that changed in this time, in case their events were lost. Older changes are not told.
SWEPT_FILES = NEWS_WINDOW
# The sweep skips a page that changed or was checked within this time: its own messages are on their way.
SWEPT_PAGES = timedelta(seconds=2 * SLOW_CHECK_SECONDS)
# The most pages of a file that one run marks. The file's message comes again for the others.
MARKED_MAX = 1_000
# When to look again at a page that another run claims: its ten minutes, and one more.
CLAIMED_SECONDS = int(PAUSE.total_seconds())


@dataclass
class Told:
    """What a run did. `told` has site and URL; `not_ready` a reason too. `later`: pages that an engine did not take.

    `receivers` has site and name of each CDN and hub that was told of files. `engines_failing` has, by host, why engines take
    nothing. `failed` has errors by message id, `postponed` the ids of messages for which
    there was no time.
    """

    told: list[tuple[str, str]] = field(default_factory=list)
    not_ready: list[tuple[str, str, str]] = field(default_factory=list)
    later: list[tuple[str, str]] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)
    receivers: list[tuple[str, str]] = field(default_factory=list)
    engines_failing: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    postponed: set[str] = field(default_factory=set)

    def note_failing(self, host: str, reason: str) -> None:
        """Note why an engine takes nothing."""
        before = self.engines_failing.get(host)
        self.engines_failing[host] = f"{before}; {reason}" if before else reason


def file_message(host: str, file: str) -> str:
    """A message that asks to compare a file. It has the part of the bus event that is read."""
    return json.dumps({"detail": {"site": host, "file": file}})


def page_message(host: str, url: str) -> str:
    """A message that asks to check a page and to tell of it."""
    return json.dumps({"site": host, "page": url})


@dataclass
class _Work:
    """What the messages of a batch ask for, each with the ids of its messages."""

    files: defaultdict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    receivers: defaultdict[tuple[str, str], dict[str, datetime]] = field(default_factory=lambda: defaultdict(dict))
    pages: defaultdict[str, dict[str, list[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    questions: defaultdict[str, google.Questions] = field(default_factory=lambda: defaultdict(google.Questions))

    def add(self, id_: str, body: str) -> None:
        """Add a message. Raises ValueError, TypeError, KeyError or RecursionError for one that asks for nothing."""
        document = json.loads(body)
        if "page" in document:
            self.pages[document["site"]][document["page"]].append(id_)
        elif "receiver" in document:
            self.receivers[document["site"], document["receiver"]][id_] = parse(document["due"])
        elif google.is_question(document):
            self.questions[document["site"]].add(id_, document)
        else:
            self.files[document["detail"]["site"], document["detail"]["file"]].append(id_)

    def steps(self, now: datetime, deadline: Deadline, done: Told) -> Iterator[tuple[list[str], Callable[[], None]]]:
        """The steps of a run, each with the ids of its messages. Questions come last: telling does not wait for answers."""
        for (host, file), ids in self.files.items():
            yield ids, partial(compare, host, file, now)
        for (host, name), due in self.receivers.items():
            yield list(due), partial(_tell_receiver, host, name, max(due.values()), now, done)
        for host, urls in self.pages.items():
            ids = [id_ for each in urls.values() for id_ in each]
            yield ids, partial(tell_pages, host, list(urls), now, deadline, done)
        for host, questions in self.questions.items():
            yield questions.ids, partial(_ask_google, host, questions, now, deadline, done)


def tell_engines(messages: Mapping[str, str], now: datetime, deadline: Deadline = NEVER) -> Told:
    """Handle messages by id. Messages in `failed`, and in `postponed` for lack of time, must come again."""
    done, work = Told(), _Work()
    for id_, body in messages.items():
        try:
            work.add(id_, body)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            done.failed[id_] = ValueError(f"the message names no file, page or receiver: {error!r}")
    for ids, step in work.steps(now, deadline, done):
        if deadline.is_over():
            done.postponed |= set(ids)
            continue
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the other files and sites go on
            done.failed |= dict.fromkeys(ids, error)
    return done


def _ask_google(host: str, questions: google.Questions, now: datetime, deadline: Deadline, done: Told) -> None:
    if reason := google.ask(host, questions, now, deadline):
        done.note_failing(host, reason)


# ── files ──


def compare(host: str, file: str, now: datetime) -> None:
    """Mark the pages that changed in a file since it was compared last, and send a message for each."""
    site = told_site(host)
    if site is None or file in (INDEX_FILE, ROBOTS_FILE):
        return
    changed_files.schedule(site, file, now)
    copy = bucket.read(_copies(host), file)  # before the file, so that the file is not the older of the two
    stored = bucket.read(host, file)
    body = stored.body if stored else b""
    if copy.body == body if copy else stored is None:
        return
    began = _began(host, now)
    before = copy.body if copy and copy.changed >= began else None
    changed = list(changes(before, body, site.home, began, now))
    if not _mark_all(host, _without_moved(host, changed), now):
        queues.send_engines([(file_message(host, file), 0)])
        return
    try:
        bucket.write(
            _copies(host),
            file,
            body,
            CONTENT_TYPES[".xml"],
            "no-store",
            replaces=copy,
            changed=now,
            config_version=site.version,
        )
    except Overtaken:  # another run compared the file too, perhaps an older version of it
        queues.send_engines([(file_message(host, file), SLOW_CHECK_SECONDS)])


def _copies(host: str) -> str:
    return f"{COPIES}/{host}"


def _without_moved(host: str, changed: Sequence[Change]) -> list[Change]:
    """The changes, except for pages that left a file and are still published: an article claims their URLs."""
    keys = {change.url: items.claim_key(host, change.url) for change in changed if change.version == GONE}
    claims = table.get_many(keys.values()) if keys else {}
    live = {url for url, key in keys.items() if key in claims and items.read_claim(claims[key], url).live}
    return [change for change in changed if change.url not in live]


def _mark_all(host: str, changed: Sequence[Change], now: datetime) -> bool:
    """Mark the changed pages, and send messages for them. Returns whether all are marked."""
    if not changed:
        return True
    stored = table.get_many(page_key(host, change.url) for change in changed)
    states = {state.url: state for state in map(read_page, stored.values())}
    new = [change for change in changed if not _is_marked(states.get(change.url), change)]
    # Marked by an earlier run, which perhaps did not get to send the messages.
    unchecked = [
        change.url
        for change in changed
        if (state := states.get(change.url)) and _is_marked(state, change) and not (state.is_told or state.checked_at)
    ]
    for change in new[:MARKED_MAX]:
        _mark(host, states.get(change.url), change, now)
    for change in changed:
        state = states.get(change.url)
        if state and _is_marked(state, change) and change.published and not state.published:
            _date(host, change)
    urls = [*unchecked[:MARKED_MAX], *(change.url for change in new[:MARKED_MAX])]
    queues.send_engines((page_message(host, url), 0) for url in urls)
    return len(new) <= MARKED_MAX


def _is_marked(state: PageState | None, change: Change) -> bool:
    return state is not None and state.version == change.version


def _mark(host: str, old: PageState | None, change: Change, now: datetime) -> None:
    if old:
        _forget_failing(host, old)
    if not write_page(host, _marked(old, change, now)):
        update_page(host, change.url, lambda newer: _marked(newer, change, now))


def _date(host: str, change: Change) -> None:
    """Note the publication date of a page that another file listed first. Only news sitemaps have the date."""
    update_page(host, change.url, lambda old: replace(old, published=change.published) if old else None)


def _forget_failing(host: str, state: PageState) -> None:
    """Delete the copy of a failing page's state before the state changes. After a crash in between, the next run deletes it."""
    if state.is_failing:
        table.delete(*failing_key(host, state.url))


def _marked(old: PageState | None, change: Change, now: datetime) -> PageState:
    if old is None:
        return PageState(change.url, change.version, now, change.published)
    return replace(
        old,
        version=change.version,
        changed=now,
        published=change.published or old.published,
        checked_at=None,
        checks=0,
        failing_since=None,
        missing_since=None,
        reason="",
    )


def _began(host: str, now: datetime) -> datetime:
    """When telling began at a site. It begins again if no sweep came for NEWS_WINDOW, because it was switched off then."""
    known = table.get(told_pk(host), BEGAN)
    if known and parse(known["swept"] if "swept" in known else known["at"]) > now - NEWS_WINDOW:
        return parse(known["at"])
    began = now - BEGAN_BEFORE
    table.put_if(_began_item(host, began, now))
    return began


def _note_sweep(host: str, now: datetime) -> None:
    table.put_if(_began_item(host, _began(host, now), now))


def _began_item(host: str, began: datetime, swept: datetime) -> dict[str, str]:
    return {"pk": told_pk(host), "sk": BEGAN, "at": exact(began), "swept": exact(swept)}


# ── pages ──


def tell_pages(host: str, urls: Sequence[str], now: datetime, deadline: Deadline, done: Told) -> None:
    """Check pages of a site, and tell the engines of those that are ready. The others get a message for later."""
    site = told_site(host)
    if site is None:
        return
    engine_key = told_pk(host), INDEXNOW
    claim_keys = {url: items.claim_key(host, url) for url in urls}
    stored = table.get_many([engine_key, *(page_key(host, url) for url in urls), *claim_keys.values()])
    engine = stored.pop(engine_key, {})
    live = {url: items.read_claim(stored.pop(key), url).live for url, key in claim_keys.items() if key in stored}
    states = list(_as_claimed(host, map(read_page, stored.values()), live, now))
    steps = {state.url: next_step(state, now) for state in states}
    again = [(state.url, steps[state.url].seconds) for state in states if steps[state.url].action == "wait"]
    due = [state for state in states if steps[state.url].action == "check"]
    if due and (seconds := paused_seconds(engine, now)):
        again += [(state.url, seconds) for state in due if now < state.changed + CHECKED_FOR]
        due = []
    verdicts = check_pages([Expected(state.url, state.published) for state in due], deadline) if due else {}
    claimed: list[PageState] = []
    for state in due:
        verdict = verdicts[state.url]
        if not is_ready(state, verdict):
            again += _not_ready(site, state, verdict, now, done)
        elif mine := _claimed(host, state, now):
            claimed.append(mine)
        else:  # another run tells of the page, and may be killed
            again.append((state.url, CLAIMED_SECONDS))
    if claimed:
        again += _tell(site, engine, claimed, now, done)
    queues.send_engines((page_message(host, url), seconds) for url, seconds in again)


def _as_claimed(host: str, states: Iterable[PageState], live: Mapping[str, bool], now: datetime) -> Iterator[PageState]:
    """The states of pages whose articles and files agree. `live`: by URL, whether an article has it.

    A listed page that its article has left is marked as GONE. A GONE page that an article has again waits until its file is compared.
    """
    for state in states:
        if state.gone and live.get(state.url):
            continue
        if not state.gone and not live.get(state.url, True):
            _mark(host, state, Change(state.url, GONE), now)
            queues.send_engines([(page_message(host, state.url), 0)])
            continue
        yield state


def _claimed(host: str, state: PageState, now: datetime) -> PageState | None:
    """Claim a page, so that no other run tells of it in the next ten minutes. None: another run was faster."""
    _forget_failing(host, state)
    # The instant of the claim, not that of the run: the ten minutes count from the request.
    return write_page(
        host,
        replace(
            state,
            told="",  # after a crash, nobody knows what the engine took
            tried_at=datetime.now(UTC),
            checked_at=now,
            checks=0,
            failing_since=None,
            missing_since=None,
            reason="",
        ),
    )


def _not_ready(
    site: Site, state: PageState, verdict: PageVerdict, now: datetime, done: Told
) -> Iterator[tuple[str, int]]:
    """Note a failed check. Yields the page with the seconds until its next check, unless that is left to the sweep."""
    failed = after_failed_check(state, verdict, now)
    if write_page(site.host, failed) and failed.is_failing:
        table.put_if(failing_item(site.host, failed))
    if failed.is_failing and not state.is_failing:
        done.not_ready.append((site.host, state.url, failed.reason))
    hides = site.engines is not None and site.engines.hides_missing
    if hides and failed.missing_since and failed.missing_since + HIDDEN_AFTER <= now:
        _remove(site, failed, now, done)
    if now < state.changed + CHECKED_FOR:
        yield state.url, delay(failed)


def _remove(site: Site, state: PageState, now: datetime, done: Told) -> None:
    """Remove the article of a missing page. A newer event of its CMS brings it back."""
    key = items.claim_key(site.host, state.url)
    claim = items.read_claim(item, state.url) if (item := table.get(*key)) else None
    if claim is None or not claim.live:
        return
    source, id_ = split_name(claim.owner)
    assert state.missing_since
    removal = ArticleEvent(
        site=site.host,
        source=source,
        id=id_,
        action="remove",
        verb="unpublished",
        url=None if id_ else state.url,
        heard_at=now,
        delivery=f"{BY_ENGINES}:{exact(state.missing_since)}:{id_}",
    )
    queues.send_articles([removal])
    done.removed.append((site.host, state.url))


def _tell(
    site: Site, engine: Mapping[str, str], claimed: Sequence[PageState], now: datetime, done: Told
) -> Iterator[tuple[str, int]]:
    """Tell the engines of claimed pages. Yields those that must come again, with the seconds until then."""
    answer = _ask_indexnow(site, [state.url for state in claimed], now)
    taken: list[PageState] = []
    for state in claimed:
        if answer.result == "told":
            done.told.append((site.host, state.url))
            update_page(site.host, state.url, lambda old, state=state: _with_told(old, state, now))  # type: ignore[misc]
            taken.append(state)
            continue
        done.later.append((site.host, state.url))
        if answer.is_certain:
            update_page(site.host, state.url, lambda old: replace(old, tried_at=None) if old else None)
        if now < state.changed + CHECKED_FOR:  # then only the sweep tries
            yield state.url, answer.after_seconds
    if reason := note_answer(site.host, INDEXNOW, engine, answer, now):
        done.note_failing(site.host, f"IndexNow: {reason}")
    queues.send_engines(google.first_questions(site, taken))


def _with_told(old: PageState | None, state: PageState, now: datetime) -> PageState | None:
    return replace(old, told=state.version, told_at=now) if old else None


def _ask_indexnow(site: Site, urls: list[str], now: datetime) -> Meaning:
    if site.engines is None or site.engines.indexnow is None:
        return Meaning("told")
    settings = site.engines.indexnow
    file = indexnow.key_file(settings.key)
    _keep_key_file(site, file, settings.key, now)
    body = indexnow.request_body(site.host, settings.key, f"{site.origin}/{file}", urls)
    try:
        answer = client.post_body(settings.url, body, indexnow.CONTENT_TYPE)
    except Refused as error:
        return Meaning("wrong", str(error), indexnow.WRONG_SECONDS, is_certain=True)
    except FetchError as error:
        return Meaning("later", str(error))
    return indexnow.meaning(answer.status, answer.headers, answer.body, datetime.now(UTC))


def _keep_key_file(site: Site, file: str, key: str, now: datetime) -> None:
    """Put the key file, if it is not in the bucket. Raises Overtaken after ATTEMPTS_MAX."""
    for _ in range(ATTEMPTS_MAX):
        if bucket.read(site.host, file) is not None:
            return
        with suppress(Overtaken):  # another run puts it, and may be killed
            bucket.write(
                site.host,
                file,
                key.encode(),
                CONTENT_TYPES[".txt"],
                CACHE_FRESH,
                replaces=None,
                changed=now,
                config_version=site.version,
            )
            return
    raise Overtaken(f"{file}: other runs were faster in all {ATTEMPTS_MAX} attempts")


def _tell_receiver(host: str, name: str, due: datetime, now: datetime, done: Told) -> None:
    """Tell a CDN or a hub of the files that changed, and note its answer."""
    site = told_site(host)
    if site is None:
        return
    if answer := changed_files.tell(site, name, due, now):
        sk = f"{ENGINE}{name}"
        if reason := note_answer(host, sk, table.get(told_pk(host), sk) or {}, answer, now):
            done.note_failing(host, f"{name}: {reason}")
        if answer.result == "told":
            done.receivers.append((host, name))


# ── sweep ──


def sweep(known: Iterable[Site], now: datetime) -> dict[str, Exception]:
    """Send messages for what was not told, in case an event or a message was lost. Returns the errors by host."""
    failed: dict[str, Exception] = {}
    for site in known:
        if site.engines:
            try:
                _sweep(site, now)
            except Exception as error:  # noqa: BLE001 - the other sites are swept all the same
                failed[site.host] = error
    return failed


def _sweep(site: Site, now: datetime) -> None:
    marks = list(map(items.read_mark, table.query(items.file_pk(site.host, INDEX_FILE), consistent=False)))
    files = [mark.file for mark in marks if mark.changed > now - SWEPT_FILES]
    stored = list(table.query(told_pk(site.host), consistent=False))
    _note_sweep(site.host, now)
    states = pages_in(stored)
    engine = next((item for item in stored if item["sk"] == INDEXNOW), {})
    urls = [] if paused_seconds(engine, now) else [state.url for state in states if _is_left(state, now)]
    messages = [file_message(site.host, file) for file in files] + [page_message(site.host, url) for url in urls]
    messages += google.due_questions(site, [mark.file for mark in marks], stored, states, now)
    messages += [changed_files.receiver_message(site.host, name, now) for name in changed_files.receivers(site)]
    queues.send_engines((message, 0) for message in messages)


def _is_left(state: PageState, now: datetime) -> bool:
    if state.gone and state.checked_at and state.changed + CHECKED_FOR <= now:
        return False  # the page stays
    last = max(at for at in (state.changed, state.checked_at, state.tried_at) if at)
    return not state.is_told and state.changed + TRIED_FOR > now >= last + SWEPT_PAGES
