"""Poll the feeds that are due: fetch several at once, and ingest each answer as it comes.

Only the fetches and the requests to hubs are concurrent. A run begins with a conditional write that leases all feeds.
So two runs never fetch a feed at the same time. No feed waits for a hub. The run ends when
the feeds are read and the hubs have answered, or at its deadline.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import table
from stoppress.feeds.schedule import FeedState
from stoppress.http import client
from stoppress.model.site import Site
from stoppress.poll import fetch, ingest
from stoppress.poll.due import DueFeed, PollOutcome
from stoppress.poll.items import RUN_KEY, feed_key, leased_until, read_feed, run_item
from stoppress.poll.subscribe import Hubs
from stoppress.primitives.deadline import NEVER, Deadline

# A slow server costs a waiting thread, not work. Sixteen of the largest bodies took 508 MB of memory. The function has
# 768 MB (template.yaml).
FETCHES_AT_ONCE = 16
# Longer than a run of poll_feeds (template.yaml), shorter than the minute until the next run.
LEASE = timedelta(seconds=55)


def poll_site_feeds(sites: Iterable[Site], now: datetime, deadline: Deadline = NEVER) -> Iterator[PollOutcome]:
    """Poll the feeds that are due until the deadline, and yield the outcome of each.

    A feed's failure raises nothing. Feeds that are not reached stay due. Nothing is polled while another run has the lease, or
    in the minute in which another run ended. Raises the table's errors if the feeds' items cannot be read.
    """
    began = time.monotonic()
    configured = {feed_key(site.host, feed.url): (site, feed) for site in sites for feed in site.feeds}
    items = table.get_many([RUN_KEY, *configured]) if configured else {}
    run = items.get(RUN_KEY)
    if run and leased_until(run) > now:
        return
    due: list[DueFeed] = []
    for key, (site, feed) in configured.items():
        item = items.get(key)
        try:
            candidate = DueFeed(
                site, feed, read_feed(item) if item else FeedState(), int(item["rev"]) if item else None, now
            )
        except Exception as error:  # noqa: BLE001 - the state of one feed must not stop the others
            reason = f"the feed's item in the table cannot be read: {error!r:.300}"
            yield PollOutcome(site.host, feed.url, "failed", reason=reason, needs_somebody=True, our_fault=True)
            continue
        if candidate.state.is_due(now, site.feeds_version):
            due.append(candidate)
        elif candidate.state.needs_somebody(now, site.feeds_version):
            new_trouble = candidate.state.has_just_failed_long(now, site.feeds_version)
            yield candidate.outcome("waiting", needs_somebody=True, new_trouble=new_trouble)
    if not due:
        return
    # Feeds that the last run did not reach come first, in that run's order. So each feed has its turn, even if it
    # fails. `next_poll_at` alone would not do: the state of an unchanged feed is seldom written, so its instant may be
    # long past.
    unreached = list(run.get("unreached", ())) if run else []
    places = {pk: place for place, pk in enumerate(unreached)}
    earliest = datetime.min.replace(tzinfo=now.tzinfo)
    due.sort(
        key=lambda feed: (
            places.get(feed_key(feed.site.host, feed.feed.url)[0], len(places)),
            feed.state.failures > 0,  # it may fail again
            feed.state.next_poll_at or earliest,
        )
    )
    rev = int(run["rev"]) if run else None
    try:
        table.put(run_item(now + LEASE, unreached), rev)
    except table.Conflict:
        yield from (feed.outcome("waiting", reason="another run is polling it") for feed in due)
        return
    except Exception as error:  # noqa: BLE001 - the feeds stay due
        reason = f"{type(error).__name__}: {error!s:.300}"
        yield from (feed.outcome("failed", reason=reason, our_fault=True) for feed in due)
        return
    unreached = []
    for outcome in _poll(deque(due), began, deadline):
        if outcome.result == "not reached":
            unreached.append(feed_key(outcome.site, outcome.url)[0])
        yield outcome
    # A feed whose state was not written is still due. The lease keeps a second run in this minute from polling the feed.
    minute_end = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    with suppress(Exception):  # if this write fails, the lease still ends after LEASE
        table.put(run_item(minute_end, unreached), (rev or 0) + 1)


def _poll(due: deque[DueFeed], began: float, deadline: Deadline) -> Iterator[PollOutcome]:
    executor = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch")
    waiting: dict[Future[fetch.Fetched], DueFeed] = {}
    hubs = Hubs()
    try:
        while (due or waiting or hubs.busy) and not deadline.is_over():
            _start_fetches(due, waiting, executor, began, deadline)
            yield from hubs.ask()
            under_way: list[Future[Any]] = [*waiting, *hubs.waiting]
            done, _ = wait(under_way, min(deadline.seconds_left, 86_400), FIRST_COMPLETED)
            yield from hubs.settle(done)
            for fetched in sorted((future for future in done if future in waiting), key=_size_bytes):
                yield _settled(waiting.pop(fetched), fetched, hubs)
                if deadline.is_over():
                    break
    finally:
        # Fetches under way end by their own deadline.
        executor.shutdown(wait=False, cancel_futures=True)
        hubs.leave()
    for feed in [*waiting.values(), *due]:
        yield feed.outcome("not reached", reason="the run's time was over")


def _start_fetches(
    due: deque[DueFeed],
    waiting: dict[Future[fetch.Fetched], DueFeed],
    executor: ThreadPoolExecutor,
    began: float,
    deadline: Deadline,
) -> None:
    """Fetch feeds, as many as fit in memory until they are read."""
    while due and len(waiting) < FETCHES_AT_ONCE and not deadline.is_over():
        feed = replace(due.popleft(), waited=timedelta(seconds=time.monotonic() - began))
        headers = {"User-Agent": client.user_agent(feed.site.home), **feed.conditions}
        waiting[executor.submit(fetch.fetch, feed.url, headers, feed.site)] = feed


def _size_bytes(fetched: Future[fetch.Fetched]) -> int:
    """The size of a fetch's bodies, the sort key for reading them: small bodies do not wait for large ones."""
    return 0 if fetched.exception() else fetched.result().size_bytes


def _settled(feed: DueFeed, fetched: Future[fetch.Fetched], hubs: Hubs) -> PollOutcome:
    try:
        return ingest.ingest(feed, fetched, hubs)
    except Exception as error:  # noqa: BLE001 - the feed stays due; the others go on
        return feed.outcome("failed", reason=f"{type(error).__name__}: {error!s:.300}", our_fault=True)
