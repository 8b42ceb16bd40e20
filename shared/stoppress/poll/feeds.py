"""Polling: the feeds that are due are fetched at once, and each answer is read as it comes (`ingesting`).

Only the fetching is concurrent. A feed is leased by a conditional write before it is fetched, so that two runs never ask
it at the same time. The hubs that feeds name are asked beside the fetches (`subscribing`), and nobody waits for them.
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
from stoppress.feeds.schedule import FeedState, leased
from stoppress.http import client
from stoppress.model.site import Site
from stoppress.poll import fetch, ingest
from stoppress.poll.due import DueFeed, PollOutcome
from stoppress.poll.items import feed_item, feed_key, read_feed
from stoppress.poll.subscribe import Hubs

# Slow servers cost a thread's wait, not work. Sixteen of the largest bodies, one of them being read, took 508 MB here: less than
# the function has (template.yaml).
FETCHES_AT_ONCE = 16


def poll_site_feeds(sites: Iterable[Site], now: datetime, deadline: float = float("inf")) -> Iterator[PollOutcome]:
    """Poll the feeds that are due, until `deadline` (of `time.monotonic`), and say what became of each.

    Raises nothing on behalf of a feed. Feeds that are not reached stay due.
    """
    began = time.monotonic()
    configured = {feed_key(site.host, feed.url): (site, feed) for site in sites for feed in site.feeds}
    items = table.get_many(configured)
    due: list[DueFeed] = []
    for key, (site, feed) in configured.items():
        item = items.get(key)
        try:
            one = DueFeed(site, feed, read_feed(item) if item else FeedState(), int(item["rev"]) if item else None, now)
        except Exception as error:  # noqa: BLE001 - one feed's state must not keep the others from being polled
            reason = f"its state cannot be read: {error!r:.300}"
            yield PollOutcome(site.host, feed.url, "failed", reason=reason, needs_somebody=True)
            continue
        if one.state.is_due(now, site.version):
            due.append(one)
        elif one.state.needs_somebody(now, site.version):
            yield one.outcome("waiting", needs_somebody=True)
    # Those that waited longest first, so that no feed is passed over twice; last those that may only cost time again.
    earliest = datetime.min.replace(tzinfo=now.tzinfo)
    due.sort(key=lambda one: (one.state.failures > 0, one.state.next_poll_at or earliest))
    yield from _poll(deque(due), began, deadline)


def _poll(due: deque[DueFeed], began: float, deadline: float) -> Iterator[PollOutcome]:
    executor = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch")
    waiting: dict[Future[fetch.Fetched], DueFeed] = {}
    hubs = Hubs()
    try:
        while (due or waiting or hubs.busy) and time.monotonic() < deadline:
            # No more are fetched than can be held in memory until they are read.
            while due and len(waiting) < FETCHES_AT_ONCE:
                one = due.popleft()
                try:
                    one = _leased(one)
                except table.Conflict:
                    yield one.outcome("waiting", reason="another run is at it")
                    continue
                except Exception as error:  # noqa: BLE001 - the feed stays due; the others go on
                    yield one.outcome("failed", reason=f"{type(error).__name__}: {error!s:.300}")
                    continue
                one = replace(one, waited=timedelta(seconds=time.monotonic() - began))
                waiting[executor.submit(fetch.fetch, one.asked, _headers(one), one.site)] = one
            yield from hubs.ask()
            under_way: list[Future[Any]] = [*waiting, *hubs.waiting]
            done, _ = wait(under_way, min(max(0.0, deadline - time.monotonic()), 86_400), FIRST_COMPLETED)
            yield from hubs.settle(done)
            for fetched in sorted((one for one in done if one in waiting), key=_size_bytes):
                yield _settled(waiting.pop(fetched), fetched, hubs)
                if time.monotonic() >= deadline:
                    break
    finally:
        # Fetches that are under way end by their own deadline; nobody waits for them.
        executor.shutdown(wait=False, cancel_futures=True)
        hubs.leave()
    for one in [*waiting.values(), *due]:
        yield one.outcome("not reached", reason="the run's time was over")


def _size_bytes(fetched: Future[fetch.Fetched]) -> int:
    """The small ones are read first: a large body keeps nobody waiting who comes with it."""
    return 0 if fetched.exception() else fetched.result().size_bytes


def _leased(one: DueFeed) -> DueFeed:
    """The feed, taken for this run. Raises Conflict where another run has it."""
    table.put(feed_item(one.site.host, one.feed.url, leased(one.state, one.now)), one.rev)
    return replace(one, rev=(one.rev or 0) + 1)


def _headers(one: DueFeed) -> dict[str, str]:
    return {"User-Agent": client.user_agent(one.site.home), **one.conditions}


def _settled(one: DueFeed, fetched: Future[fetch.Fetched], hubs: Hubs) -> PollOutcome:
    try:
        return ingest.ingest(one, fetched, hubs)
    except Exception as error:  # noqa: BLE001 - the feed stays due; the others go on
        with suppress(Exception):  # else the lease ends by itself
            table.put(feed_item(one.site.host, one.feed.url, replace(one.state, leased_until=None)), one.rev)
        return one.outcome("failed", reason=f"{type(error).__name__}: {error!s:.300}")
