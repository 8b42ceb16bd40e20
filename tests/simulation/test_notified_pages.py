"""Random newsrooms with engines: engines are notified of each page once it is ready, never twice in ten minutes, and none is forgotten.

Search Console is asked about each story.
A seed is a newsroom: its stories, when their pages are ready, what the engines answer, which events get lost, which calls of AWS fail
or are a run's last, and when two runs meet. `--first-seed` and `--seeds` choose the seeds.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from stoppress.http import client
from stoppress.notify import fetch_page, google, page_state, service_account
from stoppress.notify.page_state import INSPECTIONS_A_DAY
from stoppress.primitives.instants import whole
from stoppress.show.story import story_of
from stoppress.show.timeline import READ_BY_GOOGLE
from stoppress_cli.local.lambda_functions import Function, Result
from stoppress_cli.local.process import environment
from stoppress_cli.local.template import Json
from tests.simulation import newsroom
from tests.simulation.call_faults import KINDS, CallFaults, Killed, suffer
from tests.simulation.newsroom import START, fresh_stack
from tests.simulation.stack import StackOnDoubles
from tests.simulation.swaps import Swap, planted
from tests.support.web import ANSWERS, Page, Web

pytestmark = pytest.mark.matrix

HOSTS = ("www.example.com", "www.example.org")
EVENT_LOST, EVENT_REPEATED, RUNS_MEET = 0.1, 0.1, 0.03
WEATHER = CallFaults(KINDS, of_calls=0.06)
ACTS, STORIES = 25, 8
# A seed is half a second long. From 91 on, these once found a fault.
SEEDS = (1, 5, 91, 645, 686, 756, 30245481)
# Seconds from the publication of a story until its page is ready, and from its removal until the page is missing.
READY_AFTER = (0, 0, 0, 15, 200, 3_000, 8_000)
MISSING_AFTER = (0, 0, 60, 4_000)


class Newsroom(newsroom.Newsroom):
    """One seed: stories with their pages, and the stack that notifies the engine of them."""

    def __init__(self, seed: int, stack: StackOnDoubles) -> None:
        chance = random.Random(f"told pages {seed}")
        self.hosts = HOSTS[: chance.randint(1, 2)]
        super().__init__(stack, chance, {host: site_of(host) for host in self.hosts})
        self.web = Web(chance, stack.backend.objects, answers=[*ANSWERS, "slow", *["ok"] * 8])
        self.changed: dict[str, datetime] = {}
        self.published: dict[int, tuple[str, datetime]] = {}
        self.is_rough = True
        # Each written news sitemap, with the exact instant. S3 and the reports have whole seconds.
        self.written: list[tuple[str, datetime, bytes]] = []
        at, of_google = START, random.Random(f"google {seed}")
        for _ in range(400):
            at += timedelta(seconds=of_google.choice((1.5, 60.25, 300, 700, 2_000, 9_000)))
            self.web.google_reads.append(at)
        # In some newsrooms the quota of inspections is soon used up.
        self.inspections_a_day = of_google.choice((INSPECTIONS_A_DAY, INSPECTIONS_A_DAY, 3))
        self._arrived, self._call, self._invoke = stack.sources.event_arrived, stack.call, stack.sources.invoke
        self._batch: Json = {}

    def event_arrived(self, bus: str, event: Json) -> None:
        """An event on a bus. The announcement of a file may get lost, or come twice."""
        if event["detail-type"] == "sitemap rewritten" and self.is_rough:
            if self.chance.random() < EVENT_LOST:
                return
            if self.chance.random() < EVENT_REPEATED:
                self._arrived(bus, event)
        self._arrived(bus, event)

    def invoke(self, function: Function, event: Json) -> Result:
        """A run of a function. A killed one leaves its messages to a later run."""
        if function.logical == "NotifyEngines":
            self._batch = event
        try:
            return self._invoke(function, event)
        except Killed:
            return Result(error={"errorType": "Killed"})

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        """A call of a client. What it writes into a news sitemap is noted."""
        key = params["Key"] if operation == "put_object" else ""
        before = self.stack.backend.objects().get(key)
        try:
            return self._call_in_rough_times(service, operation, params)
        finally:
            body = self.stack.backend.objects().get(key)
            if "sitemap-news" in key and body != before:
                self.written.append((key, self.now, body or b""))

    def _call_in_rough_times(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        """A call of a client. Before a call of notify_engines, another run with the same messages may begin and end."""
        if not self.is_rough or self.stack.wire.thread.running != "NotifyEngines":
            return self._call(service, operation, params)
        if self.chance.random() < RUNS_MEET:
            self.is_rough = False  # the other run meets no third one, and nothing fails in it
            self._invoke(self.stack.functions["NotifyEngines"], self._batch)
            self.stack.wire.thread.running = "NotifyEngines"
            self.is_rough = True
        fault = WEATHER.fault(self.chance, operation)
        if fault is None:
            return self._call(service, operation, params)
        return suffer(
            fault, self.chance, service, operation, params, lambda **sent: self._call(service, operation, sent)
        )

    def act(self) -> None:
        """Somebody publishes, edits, moves or removes a story."""
        id_, now = self.chance.randint(1, STORIES), self.now
        if id_ in self.published and self.chance.random() < 0.25:
            url, at = self.published.pop(id_)
            self.remove(url, now)
            self.send("article.unpublished", now, id=str(id_), url=url)
            return
        url, at = self.published.get(id_, ("", now))
        host = self.hosts[id_ % len(self.hosts)]
        moved = f"https://{host}/story-{id_}-{self.chance.randint(1, 3)}"
        if not url or self.chance.random() < 0.2:
            if url and moved != url:
                self.remove(url, now)
            if moved != url:
                ready_at = now + timedelta(seconds=self.chance.choice(READY_AFTER))
                early = self.chance.choice(("404", "noindex", "untitled", "slow"))
                self.web.pages[moved] = Page(ready_at, early=early)
            url = moved
        self.published[id_] = url, at
        self.changed[url] = now
        self.web.listed.add(url)
        dates = {"published_at": text(at), "updated_at": text(now)}
        self.send("article.published", now, id=str(id_), url=url, title=f"Story {id_}", **dates)

    def remove(self, url: str, now: datetime) -> None:
        """The CMS takes a page away, perhaps later. Some CMSs never do."""
        self.web.listed.discard(url)
        self.changed[url] = now
        if self.chance.random() < 0.8:
            self.web.pages[url].missing_at = now + timedelta(seconds=self.chance.choice(MISSING_AFTER))

    def send(self, kind: str, now: datetime, **data: str) -> None:
        body = {"type": kind, "timestamp": text(now), "data": data}
        assert self.post(data["url"].split("/")[2], body) == 200

    def pass_time(self, until: datetime) -> None:
        """Time goes from one message that becomes visible to the next, and from hour to hour."""
        stack = self.stack
        while (now := self.now) < until:
            hour = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
            visible = [
                at
                for queue in stack.backend.queues.values()
                if queue.dead is not None and (at := stack.backend.next_visible_at(queue)) is not None
            ]
            due = datetime.fromtimestamp(min(visible), UTC) if visible else hour
            stack.advance(min(until, hour, max(due, now + timedelta(seconds=1))))

    def wrong_timeline(self, *, is_over: bool = False) -> str:
        """What a timeline says wrongly of Google's reads; if all `is_over` also what it does not say. Empty if all is right."""
        for url in sorted(self.changed):
            host, key = url.split("/")[2], f"{url.split('/')[2]}/sitemap-news.xml"
            with self.seen_from_outside():
                story = story_of(url, host, self.now)
            read = next((stop.at for stop in story.way if stop.what == READ_BY_GOOGLE), None)
            reported = sorted({*self.web.reported.get(f"https://{key}", [])})
            lists = [at for at in reported if f"<loc>{url}</loc>".encode() in self.news_at(key, at)]
            if read and read not in map(whole, lists):
                return f"{self.now}: {url} was not read at {read}; reads with it: {lists}"
            if read and not story.google.startswith("yes"):
                return f"{self.now}: {url} was read at {read}, and seen: {story.google}"
            if is_over and not read and (missed := self.known_read(key, url)):
                return f"{self.now}: {url} was read at {missed}, and the timeline does not have it: {story.way}"
        return ""

    def known_read(self, key: str, url: str) -> datetime | None:
        """When Google read a page that its file has listed ever since, and a report must have shown it."""
        loc = f"<loc>{url}</loc>".encode()
        without = [at for name, at, body in self.written if name == key and loc not in body]
        since = max(without, default=START)
        reads = [at for at in self.web.google_reads if since < at < self.now - timedelta(minutes=25)]
        return next((at for at in reads if loc in self.news_at(key, at)), None)

    def news_at(self, key: str, at: datetime) -> bytes:
        """What Google read at an instant."""
        return next((body for name, put_at, body in reversed(self.written) if name == key and put_at <= at), b"")

    @contextmanager
    def seen_from_outside(self) -> Iterator[None]:
        """Read the stack without faults, with the variables of a command."""
        is_rough, self.is_rough = self.is_rough, False
        with environment(self.stack.wiring.variables() | {"FILE_VERSIONS_DAYS": "14"}):
            yield
        self.is_rough = is_rough


def too_many_questions(web: Web, inspections_a_day: int) -> str:
    """Which quota of Search Console was exceeded; empty if none was (developers.google.com/webmaster-tools/limits)."""
    inspections = [(what, at) for what, at in web.questions if what.startswith("inspection")]
    others = [at for what, at in web.questions if not what.startswith("inspection")]
    for at, seconds, most in ((others, 1, 20), (others, 60, 200), ([at for _, at in inspections], 60, 600)):
        if any(later - at[number] < timedelta(seconds=seconds) for number, later in enumerate(at[most:])):
            return f"more than {most} questions in {seconds} s"
    of_days = Counter((site, at.date()) for site, at in inspections)
    return "too many inspections" if max(of_days.values(), default=0) > inspections_a_day else ""


def site_of(host: str) -> dict[str, Any]:
    console = {"property": f"https://{host}/", "secret": "shared/google"}
    engines = {"indexnow": {"key": "0f4b1c2d3e4f5a6b"}, "search_console": console}
    return {"sources": {"cms": {"secret": "shared/newsroom"}}, "engines": engines}


def text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


@contextmanager
def opened(seed: int, **parameters: str) -> Iterator[Newsroom]:
    with ExitStack() as opening:
        stack = opening.enter_context(fresh_stack(**parameters))
        room = Newsroom(seed, stack)
        opening.enter_context(mock.patch.object(page_state, "INSPECTIONS_A_DAY", room.inspections_a_day))
        opening.enter_context(mock.patch.object(google, "INSPECTED_BY_SWEEPS_MAX", room.inspections_a_day // 2))
        opening.enter_context(mock.patch.object(stack.sources, "event_arrived", room.event_arrived))
        opening.enter_context(mock.patch.object(stack.sources, "invoke", room.invoke))
        opening.enter_context(mock.patch.object(stack, "call", room.call))
        opening.enter_context(mock.patch.object(client, "fetch", room.web.fetch))
        opening.enter_context(mock.patch.object(client, "post_body", room.web.post_body))
        opening.enter_context(mock.patch.object(service_account, "token", return_value="token"))
        opening.callback(fetch_page._rules.clear)
        yield room


def play(room: Newsroom) -> str:
    """The page of which the engine was notified wrongly or not at all; empty if all is right."""
    for _ in range(ACTS):
        room.act()
        room.pass_time(room.now + timedelta(seconds=room.chance.choice((1, 20, 200, 900, 2_500))))
        if wrong := room.wrong_timeline() or too_many_questions(room.web, room.inspections_a_day):
            return wrong
    room.is_rough = False
    room.web.answers = ["ok"]
    # The last page is ready, a sweep finds what was lost, and a file that was compared late comes again.
    room.pass_time(room.now + timedelta(seconds=max(READY_AFTER), hours=5))
    if room.web.wrong:
        return room.web.wrong[0]
    last = dict(room.web.notified)  # the last of several wins
    for url, changed in room.changed.items():
        page = room.web.pages[url]
        must_know = url in room.web.listed or (url in room.web.known and page.missing_at is not None)
        if must_know and (url not in last or last[url] < changed):
            return f"{url} changed at {changed:%H:%M:%S}, and the engine was notified at {last.get(url)}"
    has_quota = room.inspections_a_day == INSPECTIONS_A_DAY
    if has_quota and (forgotten := room.web.listed - room.web.inspected):
        return f"Search Console was not asked about {min(forgotten)}"
    return room.wrong_timeline(is_over=True) or too_many_questions(room.web, room.inspections_a_day)


def test_engines_are_notified_of_a_ready_page_and_not_twice_in_ten_minutes(seed: int) -> None:
    with opened(seed) as room:
        assert play(room) == ""


def test_with_engines_no_nothing_is_called(seed: int) -> None:
    with opened(seed, Engines="no") as room:
        for _ in range(ACTS):
            room.act()
            room.pass_time(room.now + timedelta(seconds=room.chance.choice((1, 20, 200, 900, 2_500))))
            assert room.web.requests == []
        assert any(body for _, _, body in room.written)


def _ignoring_errors(mark_all: Callable[..., bool]) -> Callable[..., bool]:
    def careless(*arguments: Any) -> bool:
        with suppress(Exception):
            return mark_all(*arguments)
        return True

    return careless


FAULTS = {
    "pages are not checked": Swap("notify.page_state:is_ready", lambda _: lambda _state, _verdict: True, 1),
    "removals are notified while the page is there": Swap(
        "notify.page_state:is_ready", lambda is_ready: lambda page, verdict: page.gone or is_ready(page, verdict), 1
    ),
    "there is no pause": Swap("notify.page_state:PAUSE", lambda _: timedelta(), 1),
    "claims have no condition": Swap(
        "notify.page_state:write_page", lambda write: lambda host, old, new: write(host, old, new) or new, 5
    ),
    "copies are put though nothing was marked": Swap("notify.changed_files:_mark_all", _ignoring_errors, 5),
    "there is no sweep": Swap("notify.engines:_sweep", lambda _: lambda _site, _now: None, 1),
    "unread stories are not noted": Swap("notify.google:watch_reads", lambda _: lambda *_of: None, 91),
    "the quota is not counted": Swap("notify.page_state:count_inspection", lambda _: lambda *_of: True, 756),
    "the sweep leaves stories out": Swap("notify.google:due_requests", lambda _: lambda *_of: [], 5),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_notifications_is_noticed(name: str) -> None:
    with planted(FAULTS[name]), opened(FAULTS[name].seed) as room:
        assert play(room) != ""
