"""Polling against moto's table and queue, with a web whose answers a test sets."""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from stoppress.aws import queues, table
from stoppress.feeds import feed_documents
from stoppress.http import client, errors
from stoppress.model.event import from_message
from stoppress.model.site import Site
from stoppress.poll import feeds, fetch_feeds, ingest, shares
from stoppress.poll.feed_items import DueFeed, PollOutcome
from stoppress.poll.feeds import poll_site_feeds
from stoppress.poll.shares import Share
from stoppress.poll.subscribe import Hubs
from stoppress.primitives.instants import Deadline
from stoppress.primitives.urls import key_of
from stoppress.show.read_site import read_feeds
from tests.support import moto_aws
from tests.support.moto_aws import MotoAws, put_site

pytestmark = pytest.mark.moto

FEED = "https://www.example.com/feed.xml"
OTHER = "https://www.example.com/other.xml"
NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def site(*named: str | dict[str, Any], **settings: Any) -> Site:
    document = {"host": "www.example.com", "publication": "Example News", "feeds": named or (FEED,)}
    return Site.model_validate(document | settings)


def rss(*titles: str) -> bytes:
    items = (f"<item><title>{title}</title><link>https://www.example.com/{title[0]}</link></item>" for title in titles)
    return f'<rss version="2.0"><channel>{"".join(items)}</channel></rss>'.encode()


class Web:
    """Answers in place of the Internet, and stores the requests."""

    def __init__(self, aws: MotoAws) -> None:
        self.aws = aws
        self.answers: dict[str, client.Response | Exception] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.agents: set[str] = set()

    def answer(self, body: bytes = b"", status: int = 200, url: str = FEED, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[url] = client.Response(status, named, body, url)

    def fail(self, error: Exception, url: str = FEED) -> None:
        self.answers[url] = error

    def sent(self) -> list[str]:
        """Empty the queue, and return the sorted titles of its events."""
        return sorted(from_message(body).title for body in self.aws.taken("articles"))

    def fetch(self, url: str, headers: dict[str, str]) -> client.Response:
        self.agents.add(headers["User-Agent"])
        self.requests.append((url, {name: value for name, value in headers.items() if name != "User-Agent"}))
        answer = self.answers[url]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def aws() -> Iterator[MotoAws]:
    with moto_aws.opened(NOW) as opened:
        yield opened


@pytest.fixture
def internet(aws: MotoAws, monkeypatch: pytest.MonkeyPatch) -> Web:
    """Return the test's web, beside a table and a queue."""
    fake = Web(aws)
    monkeypatch.setattr(client, "fetch", fake.fetch)
    return fake


def poll(now: datetime = NOW, one: Site | None = None) -> list[PollOutcome]:
    return list(poll_site_feeds([one or site()], now))


def state(url: str = FEED) -> dict[str, Any]:
    return table.get(f"feed#www.example.com#{key_of(url)}") or {}


def stored_entries(url: str = FEED) -> list[str]:
    item = table.get(f"feed#www.example.com#{key_of(url)}", "entries")
    return list(item["digests"]) if item else []


def test_the_first_poll_sends_every_entry_and_remembers_the_feed(internet: Web) -> None:
    internet.answer(rss("A", "B"), etag='W/"v1"', last_modified="Fri, 20 Nov 2026 07:59:00 GMT")

    (outcome,) = poll()

    assert (outcome.result, outcome.sent, internet.sent()) == ("changed", 2, ["A", "B"])
    item = state()
    assert (item["url"], item["etag"], item["rev"], len(stored_entries())) == (FEED, 'W/"v1"', 2, 2)
    assert item["next_poll_at"].startswith("2026-11-20T08:01:00")
    assert internet.requests == [(FEED, {})]
    assert internet.agents == {"Stoppress/1 (sitemap updater; +https://www.example.com/)"}


def test_an_entry_is_received_at_the_request_not_when_the_state_was_read(
    internet: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, read = SimpleNamespace(now=0.0), table.get_many

    def slowly(keys: Iterable[tuple[str, str]], **how: Any) -> Any:
        clock.now += 20
        return read(keys, **how)

    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(table, "get_many", slowly)
    internet.answer(rss("A"))
    poll()

    (message,) = internet.aws.taken("articles")
    assert json.loads(message)["received_at"] == "2026-11-20T08:00:50.000000Z"


def test_validators_are_sent_back_verbatim_and_a_304_changes_nothing(internet: Web) -> None:
    internet.answer(rss("A"), etag='W/"v1"', last_modified="yesterday, more or less")
    poll()
    internet.sent()
    internet.answer(status=304, etag='W/"v2"')

    (outcome,) = poll(NOW + MINUTE)

    assert internet.requests[1][1] == {"If-None-Match": 'W/"v1"', "If-Modified-Since": "yesterday, more or less"}
    assert (outcome.result, internet.sent()) == ("unchanged", [])
    assert (state()["etag"], state()["last_modified"]) == ('W/"v2"', "yesterday, more or less")
    internet.answer(rss("B"), etag='"a\r\n b"', last_modified="x" * 5_000)  # these could not be sent back
    poll(NOW + 2 * MINUTE)
    assert not state().keys() & {"etag", "last_modified"}


def test_after_a_changed_configuration_the_feed_and_its_entries_are_read_again(internet: Web) -> None:
    internet.answer(rss("A"), etag='"v1"')
    poll()

    (outcome,) = poll(NOW + MINUTE, site(version=2))

    assert internet.requests[1][1] == {}
    assert (outcome.result, outcome.sent) == ("changed", 1)


def test_a_feed_that_is_empty_for_a_moment_sends_nothing_twice(internet: Web) -> None:
    for minute, titles in enumerate([("A", "B"), (), ("A", "B")]):
        internet.answer(rss(*titles))
        assert poll(NOW + minute * MINUTE)[0].result == "changed"

    assert internet.sent() == ["A", "B"]


@pytest.mark.parametrize(
    ("status", "headers", "next_poll"),
    [
        (304, {}, "08:01:30 08:02:00"),  # no conditional request was sent
        (500, {"retry_after": "600"}, "08:01:30 08:02:00"),
        (429, {"retry_after": "600"}, "08:10:30 08:10:30"),
        (503, {"retry_after": "Fri, 20 Nov 2026 09:00:00 GMT"}, "09:00:00 09:00:00"),
    ],
)
def test_a_status_that_is_no_feed_moves_the_next_poll(
    internet: Web, status: int, headers: dict[str, Any], next_poll: str
) -> None:
    internet.answer(status=status, **headers)

    (outcome,) = poll()

    assert (outcome.result, outcome.reason) == ("failed", f"the server answered {status}")
    not_before, not_after = next_poll.split()
    assert not_before <= state()["next_poll_at"][11:19] <= not_after


def test_a_feed_is_reported_when_gone_or_after_an_hour_of_failures(internet: Web) -> None:
    internet.answer(status=410)
    assert poll(one=site(version=3))[0].new_trouble
    assert not poll(NOW + timedelta(hours=1), site(version=3))[0].new_trouble

    later = NOW + timedelta(hours=2)
    internet.answer(rss("A"))
    poll(later - MINUTE, site(version=4))
    internet.answer(status=500)
    after = {
        minutes: any(outcome.new_trouble for outcome in poll(later + minutes * MINUTE, site(version=4)))
        for minutes in (0, 30, 59, 60, 61, 62, 90)
    }
    assert [minutes for minutes, is_new in after.items() if is_new] == [60, 61]


def test_an_error_of_the_table_is_our_fault_and_one_of_the_feed_is_not(
    internet: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    internet.answer(status=500)
    assert [outcome.our_fault for outcome in poll()] == [False]

    def throttled(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(table, "put", throttled)
    assert [outcome.our_fault for outcome in poll(NOW + timedelta(hours=1))] == [True]


def test_a_gone_target_of_a_temporary_redirect_does_not_make_the_feed_gone(internet: Web) -> None:
    internet.answers[FEED] = client.Response(410, {}, b"", OTHER)
    assert not poll()[0].needs_attention

    internet.answers[FEED] = client.Response(410, {}, b"", OTHER, permanent_url=OTHER)
    assert poll(NOW + timedelta(hours=1))[0].needs_attention


def test_an_unchanged_feed_is_polled_each_minute_and_written_every_15_minutes(internet: Web) -> None:
    internet.answer(rss("A"), etag='"1"')
    poll()
    internet.answer(status=304, etag='"1"')
    revs = []
    for minute in range(1, 17):
        poll(NOW + minute * MINUTE)
        poll(NOW + minute * MINUTE + timedelta(seconds=20))
        revs.append(int(state()["rev"]))

    assert len(internet.requests) == 17
    assert revs == [2] * 14 + [3] * 2


@pytest.mark.parametrize(("callbacks", "rev"), [("", 2), ("https://hubs.example.com/websub", 4)])
def test_a_feed_with_a_hub_is_written_at_each_poll_only_if_the_stack_uses_hubs(
    internet: Web, monkeypatch: pytest.MonkeyPatch, callbacks: str, rev: int
) -> None:
    monkeypatch.setenv("WEBSUB_URL", callbacks)
    monkeypatch.setattr(Hubs, "queue", lambda *_: None)
    internet.answer(rss("A"), etag='"1"', link='<https://hub.example.com/>; rel="hub"')
    poll()
    internet.answer(status=304, etag='"1"')
    for minute in (1, 2):
        poll(NOW + minute * MINUTE)
    assert (state()["hub"], state()["rev"]) == ("https://hub.example.com/", rev)


def test_of_two_runs_that_find_a_feed_due_one_polls_it(internet: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    internet.answer(rss("A"))
    put, others = table.put, []

    def be_overtaken(item: dict[str, Any], rev: int | None) -> None:
        monkeypatch.setattr(table, "put", put)
        others.extend(poll())
        put(item, rev)

    monkeypatch.setattr(table, "put", be_overtaken)

    (outcome,) = poll()

    assert (outcome.result, outcome.reason) == ("waiting", "another run is polling it")
    assert [other.result for other in others] == ["changed"]
    assert (len(internet.requests), internet.sent()) == (1, ["A"])


@pytest.mark.parametrize("end", [SystemExit, MemoryError])
def test_a_document_that_ends_each_run_backs_off_is_failing_and_delays_no_other_feed(
    internet: Web, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    hostile, others = rss("A"), []
    internet.answer(hostile)
    internet.answer(rss("B"), url=OTHER)
    read = fetch_feeds.read

    def end_the_run(fetched: fetch_feeds.Fetched, *rest: Any) -> Any:
        if fetched.answer.body == hostile:
            raise end
        return read(fetched, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(fetch_feeds, "read", end_the_run)
        for minute in range(30):
            with suppress(SystemExit):
                others += poll(NOW + minute * MINUTE, site(FEED, OTHER))
    [status] = read_feeds([site()])
    since = {
        url: [number for number, (sent, _) in enumerate(internet.requests) if sent == url] for url in (FEED, OTHER)
    }

    assert internet.sent() == ["B"]
    assert len(since[OTHER]) >= 26
    assert (len(since[FEED]), status.condition, int(state()["failures"])) == (5, "failing", 5)
    assert state()["last_error"] == ingest.UNFINISHED
    poll(NOW + 90 * MINUTE)
    assert (internet.sent(), "failures" in state()) == (["A"], False)


@pytest.mark.parametrize("error", [errors.TooSlow("it did not answer in time"), RuntimeError("an internal error")])
def test_a_failing_feed_does_not_prevent_the_poll_of_another(internet: Web, error: Exception) -> None:
    internet.fail(error)
    internet.answer(rss("A"), url=OTHER)

    outcomes = {outcome.url: outcome.result for outcome in poll(one=site(FEED, OTHER))}

    assert outcomes == {FEED: "failed", OTHER: "changed"}
    assert internet.sent() == ["A"]


def test_feeds_that_are_not_reached_in_time_stay_due(internet: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    internet.answer(rss("B"), url=OTHER)
    go_on = threading.Event()

    def hang(url: str, headers: dict[str, str]) -> client.Response:
        if url == FEED:
            go_on.wait()
            raise errors.TooSlow("nobody waits for it any more")
        return internet.fetch(url, headers)

    monkeypatch.setattr(client, "fetch", hang)
    ends = time.monotonic() + 0.3
    deadline = Deadline(lambda: 1_000 * (ends - time.monotonic()))
    outcomes = list(poll_site_feeds([site(FEED, OTHER)], NOW, deadline=deadline))
    go_on.set()

    assert {outcome.url: outcome.result for outcome in outcomes} == {FEED: "not reached", OTHER: "changed"}
    assert "next_poll_at" not in state(FEED)


@pytest.mark.parametrize("failing", [False, True])
def test_three_runs_that_each_poll_two_of_five_feeds_poll_all(
    internet: Web, monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    """This includes a feed that failed before, and unchanged feeds, whose state is seldom written."""
    urls = [f"https://www.example.com/{number}.xml" for number in range(5)]
    for number, url in enumerate(urls):
        internet.answer(rss("A"), url=url)
        if failing and number == 4:
            internet.fail(errors.TooSlow("it did not answer in time"), url)
        poll(NOW - (20 - number) * MINUTE, site(url))
        internet.answer(rss("A"), url=url)
    monkeypatch.setattr(feeds, "FETCHES_AT_ONCE", 1)
    settle = feeds._ingest_fetched
    polled: list[str] = []

    def settled(feed: DueFeed, *rest: Any) -> PollOutcome:
        polled.append(feed.feed.url)
        return settle(feed, *rest)

    monkeypatch.setattr(feeds, "_ingest_fetched", settled)

    for minute in range(10):
        before = len(polled)
        two_feeds = Deadline(lambda before=before: 60_000 * (len(polled) < before + 2))  # type: ignore[misc]
        list(poll_site_feeds([site(*urls)], NOW + minute * MINUTE, deadline=two_feeds))

    assert all({*polled[start : start + 6]} == {*urls} for start in range(0, 16, 2))


def test_a_feed_without_end_is_read_up_to_the_reported_limit(internet: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (feed_documents, ingest):
        monkeypatch.setattr(module, "ENTRIES_MAX", 4)
    internet.answer(rss(*"ABCDEFG"))

    (outcome,) = poll()

    assert (outcome.sent, internet.sent()) == (4, ["A", "B", "C", "D"])
    assert outcome.skipped == ("3 entries after the first 4",)
    assert len(stored_entries()) == 4


def test_a_feed_whose_newest_story_is_old_at_first_is_idle_from_the_start(internet: Web) -> None:
    one = site({"url": FEED, "interval_max_minutes": 15})
    old = rss("A").replace(b"<link>", b"<pubDate>Thu, 19 Nov 2026 08:00:00 GMT</pubDate><link>")
    internet.answer(old)

    poll(one=one)

    assert state()["last_new"] == "2026-11-19T08:00:00Z"
    assert state()["next_poll_at"].startswith("2026-11-20T08:15:00")


def test_at_most_as_many_bodies_are_in_memory_as_are_fetched_concurrently(
    internet: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"https://www.example.com/{number}.xml" for number in range(40)]
    for url in urls:
        internet.answer(rss("A"), url=url)
    monkeypatch.setattr(feeds, "FETCHES_AT_ONCE", 4)
    settle = feeds._ingest_fetched
    held: list[int] = []

    def counted_settle(*arguments: Any) -> PollOutcome:
        held.append(len(internet.requests) - len(held))
        return settle(*arguments)

    monkeypatch.setattr(feeds, "_ingest_fetched", counted_settle)

    assert [outcome.result for outcome in poll(one=site(*urls))] == ["changed"] * 40
    assert max(held) <= 4


def test_failed_feeds_are_polled_after_the_others(internet: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    internet.fail(errors.TooSlow("it did not answer in time"))
    internet.answer(rss("A"), url=OTHER)
    both = site(FEED, {"url": OTHER, "interval_minutes": 5})
    poll(one=both)
    internet.requests.clear()
    monkeypatch.setattr(feeds, "FETCHES_AT_ONCE", 1)

    poll(NOW + 5 * MINUTE, both)

    assert [url for url, _ in internet.requests] == [OTHER, FEED]


def test_a_large_body_does_not_delay_others_of_the_same_run(internet: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    internet.answer(rss(*"ABCDEFGH"))
    internet.answer(rss("A"), url=OTHER)
    monkeypatch.setattr(feeds, "wait", lambda fetches, *_: wait(fetches))

    assert [outcome.url for outcome in poll(one=site(FEED, OTHER))] == [OTHER, FEED]


def test_a_slow_host_has_two_concurrent_fetches_and_delays_no_other(
    internet: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [f"https://slow.example.net/{number}.xml" for number in range(20)]
    fast = [f"https://fast.example.net/{number}.xml" for number in range(20)]
    for url in [*slow, *fast]:
        internet.answer(rss("A"), url=url)
    fast_are_done = threading.Event()
    under_way: set[str] = set()
    most = 0

    def hang(url: str, headers: dict[str, str]) -> client.Response:
        nonlocal most
        if url in slow:
            under_way.add(url)
            most = max(most, len(under_way))
            assert fast_are_done.wait(20), "the feeds of the other host wait for this one"
            under_way.remove(url)
        return internet.fetch(url, headers)

    monkeypatch.setattr(client, "fetch", hang)
    polled = []
    for outcome in poll_site_feeds([site(*slow, *fast)], NOW):
        polled.append(outcome)
        if len(polled) == len(fast):
            fast_are_done.set()

    assert [outcome.result for outcome in polled] == ["changed"] * 40
    assert {outcome.url for outcome in polled[:20]} == {*fast}
    assert most == feeds.FETCHES_FROM_A_HOST


# ── more feeds than one run can poll ──

MANY = [f"https://{host}.example.net/{number}.xml" for host in "abcdef" for number in range(2)]


@pytest.fixture
def announced(internet: Web, monkeypatch: pytest.MonkeyPatch) -> list[Share]:
    """Return the list of shares announced on the bus, for twelve feeds on six hosts and five feeds a run."""
    monkeypatch.setattr(shares, "FEEDS_A_RUN", 5)
    announced_shares: list[Share] = []

    def announce(detail_type: str, detail: dict[str, Any]) -> None:
        read = shares.read_announcement({"detail-type": detail_type, "detail": detail})
        assert read
        announced_shares.append(read)

    monkeypatch.setattr(queues, "announce", announce)
    for url in MANY:
        internet.answer(rss("A"), url=url)
    return announced_shares


def run(share: Share | None, now: datetime = NOW, urls: Iterable[str] = MANY) -> list[str]:
    outcomes = poll_site_feeds([site(*urls)], now, share=share)
    return [outcome.url for outcome in outcomes if outcome.result == "changed"]


def test_shares_have_each_feed_once_and_all_feeds_of_a_host(announced: list[Share]) -> None:
    polled = [run(None), *map(run, announced)]

    assert sorted(url for urls in polled for url in urls) == MANY
    assert [len({url.split("/")[2] for url in urls}) for urls in polled] == [len(urls) / 2 for urls in polled]
    assert len(polled) == 3


def test_a_share_that_is_announced_twice_is_polled_once(
    internet: Web, announced: list[Share], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(None)
    fetch = internet.fetch
    others: list[str] = []
    largest = max(announced, key=lambda share: sum(map(share.has, MANY)))

    def fetch_and_be_joined(url: str, headers: dict[str, str]) -> client.Response:
        others.extend(run(largest, NOW + timedelta(seconds=1)))
        return fetch(url, headers)

    monkeypatch.setattr(client, "fetch", fetch_and_be_joined)

    assert sorted(run(largest)) == [url for url in MANY if largest.has(url)]
    assert others == run(largest, NOW + timedelta(seconds=40)) == []


def test_a_killed_worker_keeps_its_share_until_the_lease_ends(
    announced: list[Share], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(None)
    share = next(share for share in announced if any(map(share.has, MANY)))
    with monkeypatch.context() as patch:
        patch.setattr(feeds, "_ingest_fetched", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(share)
    announced.clear()

    assert run(share, share.until - timedelta(seconds=1)) == []
    run(None, NOW + MINUTE)
    [again] = [item for item in announced if item.number == share.number]
    late = poll_site_feeds([site(*MANY)], NOW + MINUTE, share=share)
    assert list(late) == []  # its feeds may be in another share by now
    assert sorted(run(again, NOW + MINUTE)) == [url for url in MANY if share.has(url)]


def test_feeds_are_not_divided_again_while_runs_of_the_last_division_may_poll(announced: list[Share]) -> None:
    fewer = MANY[:8]
    run(None, urls=fewer)
    [share] = announced

    assert (share.of, run(None, share.until - timedelta(seconds=1))) == (2, [])
    assert len(announced) == 1
    run(None, share.until)
    assert [share.of for share in announced[1:]] == [3, 3]


def test_a_run_that_is_announced_late_ends_with_its_division(
    internet: Web, announced: list[Share], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(None)
    share = max(announced, key=lambda share: sum(map(share.has, MANY)))
    clock = SimpleNamespace(now=0.0)
    fetch = internet.fetch

    def slowly(url: str, headers: dict[str, str]) -> client.Response:
        clock.now += 20
        return fetch(url, headers)

    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(client, "fetch", slowly)
    monkeypatch.setattr(feeds, "FETCHES_AT_ONCE", 1)
    late = share.until - timedelta(seconds=10)

    assert len(run(share, late)) == 1


def test_the_function_counts_the_outcomes_of_feeds_entries_and_sites(internet: Web) -> None:
    put_site(json.loads(site(FEED, OTHER).model_dump_json()))
    internet.answer(rss("A", "B").replace(b"https://www.example.com/B", b"javascript:alert(1)"))
    internet.answer(b"<html><body>Back soon.</body></html>", url=OTHER)

    internet.aws.call("poll_feeds", {})

    assert internet.aws.metrics == {"FeedsPolled": 2, "FeedsFailed": 1, "EntriesSent": 1, "EntriesSkipped": 1}
    assert internet.sent() == ["A"]


# ── stale copies from a cache ──


def built(minute: int, *titles: str) -> bytes:
    """Return a feed with its build date `minute` minutes after eight."""
    date = f"<lastBuildDate>Fri, 20 Nov 2026 08:{minute:02}:00 GMT</lastBuildDate>"
    return rss(*titles).replace(b"<channel>", f"<channel>{date}".encode())


@pytest.mark.parametrize("answer", ["newest", "304"])
def test_a_stale_copy_is_never_used_while_fresh_answers_arrive_too(internet: Web, answer: str) -> None:
    internet.answer(built(0, "A edited"), etag='"v2"')
    poll()
    internet.sent()
    for minute in range(1, 70):  # past the hour after which a stale copy is used
        if minute % 2:
            internet.answer(built(0, "A").replace(b"08:00", b"07:50"), etag='"v1"')
        elif answer == "304":
            internet.answer(status=304)
        else:
            internet.answer(built(0, "A edited"), etag='"v2"')
        poll(NOW + minute * MINUTE)

    assert internet.sent() == []


def test_an_older_copy_with_the_same_bytes_changes_nothing(internet: Web) -> None:
    internet.answer(rss("A"), date="Fri, 20 Nov 2026 08:00:00 GMT")
    poll()
    internet.answer(rss("A"), date="Fri, 20 Nov 2026 07:00:00 GMT")

    (outcome,) = poll(NOW + MINUTE)

    assert (outcome.result, outcome.reason) == ("unchanged", None)
    assert state()["newest"] == ["2026-11-20T08:00:00Z", None, None]
