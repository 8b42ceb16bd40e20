"""Random newsrooms with engines: each ready page is submitted to the engines, and not twice within ten minutes.

Search Console is queried about each story.
A seed decides the stories, when their pages are ready, the engines' answers, lost events, failed calls to AWS, killed runs, and
concurrent runs. `--first-seed` and `--seeds` select the seeds.
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
from tests.simulation.call_faults import KINDS, CallFaults, Killed, inject
from tests.simulation.newsroom import START, fresh_stack
from tests.simulation.patches import Patch, planted
from tests.simulation.stack import StackOnDoubles
from tests.support.web import ANSWERS, Page, Web

pytestmark = pytest.mark.matrix

HOSTS = ("www.example.com", "www.example.org")
EVENT_LOST, EVENT_REPEATED, CONCURRENT_RUN = 0.1, 0.1, 0.03
CALL_FAULTS = CallFaults(KINDS, call_rate=0.06)
ACTS, STORIES = 25, 8
# A seed takes half a second. The seeds from 91 on once found a fault.
SEEDS = (1, 5, 91, 645, 686, 756, 30245481)
# Seconds from the publication of a story until its page is ready, and from its removal until the page is missing.
READY_AFTER = (0, 0, 0, 15, 200, 3_000, 8_000)
MISSING_AFTER = (0, 0, 60, 4_000)


class Newsroom(newsroom.Newsroom):
    """The run of one seed: stories with their pages, and the stack that submits them to the engine."""

    def __init__(self, seed: int, stack: StackOnDoubles) -> None:
        rng = random.Random(f"told pages {seed}")
        self.hosts = HOSTS[: rng.randint(1, 2)]
        super().__init__(stack, rng, {host: site_of(host) for host in self.hosts})
        self.web = Web(rng, stack.backend.objects, answers=[*ANSWERS, "slow", *["ok"] * 8])
        self.changed: dict[str, datetime] = {}
        self.published: dict[int, tuple[str, datetime]] = {}
        self.has_faults = True
        # Each written news sitemap with its exact instant, since S3 and the reports have only whole seconds.
        self.written: list[tuple[str, datetime, bytes]] = []
        at, google_rng = START, random.Random(f"google {seed}")
        for _ in range(400):
            at += timedelta(seconds=google_rng.choice((1.5, 60.25, 300, 700, 2_000, 9_000)))
            self.web.google_reads.append(at)
        # Some newsrooms use up the quota of inspections.
        self.inspections_a_day = google_rng.choice((INSPECTIONS_A_DAY, INSPECTIONS_A_DAY, 3))
        self._arrived, self._call, self._invoke = stack.sources.event_arrived, stack.call, stack.sources.invoke
        self._batch: Json = {}

    def event_arrived(self, bus: str, event: Json) -> None:
        """Put an event on a bus. The event of a rewritten file may get lost, or be repeated."""
        if event["detail-type"] == "sitemap rewritten" and self.has_faults:
            if self.rng.random() < EVENT_LOST:
                return
            if self.rng.random() < EVENT_REPEATED:
                self._arrived(bus, event)
        self._arrived(bus, event)

    def invoke(self, function: Function, event: Json) -> Result:
        """Invoke a function. If the run is killed, a later run processes its messages."""
        if function.logical == "NotifyEngines":
            self._batch = event
        try:
            return self._invoke(function, event)
        except Killed:
            return Result(error={"errorType": "Killed"})

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        """Make a call of a client, and record writes of news sitemaps."""
        key = params["Key"] if operation == "put_object" else ""
        before = self.stack.backend.objects().get(key)
        try:
            return self._call_with_faults(service, operation, params)
        finally:
            body = self.stack.backend.objects().get(key)
            if "sitemap-news" in key and body != before:
                self.written.append((key, self.now, body or b""))

    def _call_with_faults(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        """Make a call of a client. Before a call of notify_engines, a concurrent run with the same messages may complete."""
        if not self.has_faults or self.stack.wire.thread.running != "NotifyEngines":
            return self._call(service, operation, params)
        if self.rng.random() < CONCURRENT_RUN:
            self.has_faults = False  # no faults during the concurrent run
            self._invoke(self.stack.functions["NotifyEngines"], self._batch)
            self.stack.wire.thread.running = "NotifyEngines"
            self.has_faults = True
        fault = CALL_FAULTS.fault(self.rng, operation)
        if fault is None:
            return self._call(service, operation, params)
        return inject(fault, self.rng, service, operation, params, lambda **sent: self._call(service, operation, sent))

    def act(self) -> None:
        """Publish, edit, move or remove a story."""
        id_, now = self.rng.randint(1, STORIES), self.now
        if id_ in self.published and self.rng.random() < 0.25:
            url, at = self.published.pop(id_)
            self.remove(url, now)
            self.send("article.unpublished", now, id=str(id_), url=url)
            return
        url, at = self.published.get(id_, ("", now))
        host = self.hosts[id_ % len(self.hosts)]
        moved = f"https://{host}/story-{id_}-{self.rng.randint(1, 3)}"
        if not url or self.rng.random() < 0.2:
            if url and moved != url:
                self.remove(url, now)
            if moved != url:
                ready_at = now + timedelta(seconds=self.rng.choice(READY_AFTER))
                early = self.rng.choice(("404", "noindex", "untitled", "slow"))
                self.web.pages[moved] = Page(ready_at, early=early)
            url = moved
        self.published[id_] = url, at
        self.changed[url] = now
        self.web.listed.add(url)
        dates = {"published_at": text(at), "updated_at": text(now)}
        self.send("article.published", now, id=str(id_), url=url, title=f"Story {id_}", **dates)

    def remove(self, url: str, now: datetime) -> None:
        """Remove a page, perhaps later, or keep it, as some CMSs do."""
        self.web.listed.discard(url)
        self.changed[url] = now
        if self.rng.random() < 0.8:
            self.web.pages[url].missing_at = now + timedelta(seconds=self.rng.choice(MISSING_AFTER))

    def send(self, kind: str, now: datetime, **data: str) -> None:
        body = {"type": kind, "timestamp": text(now), "data": data}
        assert self.post(data["url"].split("/")[2], body) == 200

    def pass_time(self, until: datetime) -> None:
        """Advance the clock to each instant at which a message becomes visible, and to each hour."""
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
        """Return the first error about Google's reads in a timeline, empty if none; missing reads count only if `is_over`."""
        for url in sorted(self.changed):
            host, key = url.split("/")[2], f"{url.split('/')[2]}/sitemap-news.xml"
            with self.without_faults():
                story = story_of(url, host, self.now)
            read = next((stop.at for stop in story.way if stop.what == READ_BY_GOOGLE), None)
            reported = sorted({*self.web.reported.get(f"https://{key}", [])})
            reads = [at for at in reported if f"<loc>{url}</loc>".encode() in self.news_at(key, at)]
            if read and read not in map(whole, reads):
                return f"{self.now}: {url} was not read at {read}; reads with the page: {reads}"
            if read and not story.google.startswith("yes"):
                return f"{self.now}: {url} was read at {read}, and seen: {story.google}"
            if is_over and not read and (missed := self.expected_read(key, url)):
                return f"{self.now}: {url} was read at {missed}, and the timeline does not have it: {story.way}"
        return ""

    def expected_read(self, key: str, url: str) -> datetime | None:
        """Return when Google read a page that its file still lists, if a report must have shown the read."""
        loc = f"<loc>{url}</loc>".encode()
        without = [at for name, at, body in self.written if name == key and loc not in body]
        since = max(without, default=START)
        reads = [at for at in self.web.google_reads if since < at < self.now - timedelta(minutes=25)]
        return next((at for at in reads if loc in self.news_at(key, at)), None)

    def news_at(self, key: str, at: datetime) -> bytes:
        """Return the file that Google read at an instant."""
        return next((body for name, put_at, body in reversed(self.written) if name == key and put_at <= at), b"")

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Read the stack without faults, with the variables of a command."""
        has_faults, self.has_faults = self.has_faults, False
        with environment(self.stack.wiring.variables() | {"FILE_VERSIONS_DAYS": "14"}):
            yield
        self.has_faults = has_faults


def exceeded_quota(web: Web, inspections_a_day: int) -> str:
    """Return the exceeded quota of Search Console, empty if none (developers.google.com/webmaster-tools/limits)."""
    inspections = [(what, at) for what, at in web.questions if what.startswith("inspection")]
    others = [at for what, at in web.questions if not what.startswith("inspection")]
    for at, seconds, most in ((others, 1, 20), (others, 60, 200), ([at for _, at in inspections], 60, 600)):
        if any(later - at[number] < timedelta(seconds=seconds) for number, later in enumerate(at[most:])):
            return f"more than {most} requests in {seconds} s"
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
    """Return the first page with a wrong or missing notification, empty if none."""
    for _ in range(ACTS):
        room.act()
        room.pass_time(room.now + timedelta(seconds=room.rng.choice((1, 20, 200, 900, 2_500))))
        if wrong := room.wrong_timeline() or exceeded_quota(room.web, room.inspections_a_day):
            return wrong
    room.has_faults = False
    room.web.answers = ["ok"]
    # Wait until the last page is ready, a sweep finds lost events, and a delayed comparison of a file is repeated.
    room.pass_time(room.now + timedelta(seconds=max(READY_AFTER), hours=5))
    if room.web.wrong:
        return room.web.wrong[0]
    last = dict(room.web.notified)  # the last notification per page
    for url, changed in room.changed.items():
        page = room.web.pages[url]
        is_required = url in room.web.listed or (url in room.web.known and page.missing_at is not None)
        if is_required and (url not in last or last[url] < changed):
            return f"{url} changed at {changed:%H:%M:%S}, and the engine was notified at {last.get(url)}"
    has_quota = room.inspections_a_day == INSPECTIONS_A_DAY
    if has_quota and (forgotten := room.web.listed - room.web.inspected):
        return f"Search Console was not queried about {min(forgotten)}"
    return room.wrong_timeline(is_over=True) or exceeded_quota(room.web, room.inspections_a_day)


def test_engines_are_notified_of_a_ready_page_and_not_twice_in_ten_minutes(seed: int) -> None:
    with opened(seed) as room:
        assert play(room) == ""


def test_a_stack_with_engines_no_sends_no_requests(seed: int) -> None:
    with opened(seed, Engines="no") as room:
        for _ in range(ACTS):
            room.act()
            room.pass_time(room.now + timedelta(seconds=room.rng.choice((1, 20, 200, 900, 2_500))))
            assert room.web.requests == []
        assert any(body for _, _, body in room.written)


def _ignoring_errors(mark_all: Callable[..., bool]) -> Callable[..., bool]:
    def mark_or_ignore(*arguments: Any) -> bool:
        with suppress(Exception):
            return mark_all(*arguments)
        return True

    return mark_or_ignore


FAULTS = {
    "pages are not fetched first": Patch("notify.page_state:is_ready", lambda _: lambda _state, _verdict: True, 1),
    "a removal is submitted while the page exists": Patch(
        "notify.page_state:is_ready", lambda is_ready: lambda page, verdict: page.gone or is_ready(page, verdict), 1
    ),
    "the ten minutes are ignored": Patch("notify.page_state:PAUSE", lambda _: timedelta(), 1),
    "claims have no condition": Patch(
        "notify.page_state:write_page", lambda write: lambda host, old, new: write(host, old, new) or new, 5
    ),
    "errors while marking pages are ignored": Patch("notify.changed_files:_mark_all", _ignoring_errors, 5),
    "there is no sweep": Patch("notify.engines:_sweep", lambda _: lambda _site, _now: None, 1),
    "unread stories are not recorded": Patch("notify.google:watch_reads", lambda _: lambda *_of: None, 91),
    "the quota is not counted": Patch("notify.page_state:count_inspection", lambda _: lambda *_of: True, 756),
    "the sweep skips inspections": Patch("notify.google:due_requests", lambda _: lambda *_of: [], 5),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_in_notifications_is_caught(name: str) -> None:
    with planted(FAULTS[name]), opened(FAULTS[name].seed) as room:
        assert play(room) != ""
