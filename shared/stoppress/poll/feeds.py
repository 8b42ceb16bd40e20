"""Poll the feeds that are due: fetch several concurrently, and ingest each answer as it arrives.

Only the fetches and the requests to hubs are concurrent. A run begins with a conditional write that leases its share of the
feeds (`poll.shares`). So two runs never fetch from a host at the same time. No feed waits for a hub. The run ends when
the feeds are read and the hubs have answered, or at its deadline.
"""

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stoppress.aws import queues, table
from stoppress.aws.codec import from_item
from stoppress.aws.items import Item
from stoppress.feeds.feed_schedule import FeedState
from stoppress.http import client
from stoppress.model.site import Site
from stoppress.model.site_parts import Feed
from stoppress.poll import fetch_feeds, ingest, shares
from stoppress.poll.feed_items import DueFeed, PollOutcome, feed_key
from stoppress.poll.shares import Share
from stoppress.poll.subscribe import HUBS_AT_ONCE, Hubs
from stoppress.primitives.instants import NEVER, Deadline, exact, parse

# A slow server only costs a waiting thread. Sixteen of the largest bodies took 508 MB of memory, of the function's 768 MB
# (template.yaml).
FETCHES_AT_ONCE = 16
# So that a slow host occupies only two threads.
FETCHES_FROM_A_HOST = 2


def poll_site_feeds(
    sites: Iterable[Site], now: datetime, deadline: Deadline = NEVER, share: Share | None = None
) -> Iterator[PollOutcome]:
    """Poll the feeds of a share that are due until the deadline, and yield the outcome of each. Without `share`, divide the feeds first.

    A failing feed raises no error. Feeds that are not reached stay due. Nothing is polled while another run has the lease, or in
    the minute in which another run ended. Raises the table's errors if the feeds' items cannot be read, and the bus's errors.
    """
    began = time.monotonic()
    feeds = [(site, feed) for site in sites for feed in site.feeds]
    share, is_first = share or shares.first_share(len(feeds), now), share is None
    lasts_s = (share.until - now).total_seconds()
    if not feeds or lasts_s <= 0:
        return
    function_deadline = deadline
    deadline = Deadline(lambda: 1_000 * min(function_deadline.seconds_left, began + lasts_s - time.monotonic()))
    configured = {feed_key(site.host, feed.url): (site, feed) for site, feed in feeds if share.has(feed.url)}
    # Half as expensive as consistent reads. All writes below are conditional, so a stale read overwrites no newer item.
    items = table.get_many([share.key, *configured], consistent=False)
    run = items.get(share.key)
    if run and parse(run["leased_until"]) > now:
        return
    candidates = list(_read_states(configured, items, now))
    due = [feed for feed in candidates if isinstance(feed, DueFeed)]
    yield from (outcome for outcome in candidates if isinstance(outcome, PollOutcome))
    if due or (is_first and share.of > 1):
        yield from _poll_share(share, run, due, now, began, deadline, is_first=is_first)


def _poll_share(
    share: Share,
    run: Item | None,
    due: list[DueFeed],
    now: datetime,
    began: float,
    deadline: Deadline,
    *,
    is_first: bool,
) -> Iterator[PollOutcome]:
    """Lease a share and poll its feeds that are due. `run`: the item of the share's last run. `is_first`: announce the other shares."""
    before = list(run.get("unreached", ())) if run else []
    rev = int(run["rev"]) if run else None
    try:
        table.put(share.lease(before), rev)
    except table.Conflict:
        yield from (feed.outcome("waiting", reason="another run is polling it") for feed in due)
        return
    except Exception as error:  # noqa: BLE001 - the feeds stay due
        reason = f"{type(error).__name__}: {error!s:.300}"
        yield from (feed.outcome("failed", reason=reason, our_fault=True) for feed in due)
        return
    if is_first:
        for number in range(1, share.of):  # the bus invokes poll_feeds for each
            queues.announce(shares.ANNOUNCED, {"share": number, "of": share.of, "until": exact(share.until)})
    unreached: list[str] = []
    for outcome in _poll(deque(_sort_feeds(due, before)), began, deadline):
        if outcome.result == "not reached":
            unreached.append(feed_key(outcome.site, outcome.url)[0])
        yield outcome
    # A feed whose state was not written is still due. The lease keeps a second run in this minute from polling the feed.
    minute_end = now.replace(second=0, microsecond=0) + timedelta(minutes=1) if share.of == 1 else None
    if minute_end or unreached != before:
        with suppress(Exception):  # if this write fails, the lease still ends after LEASE
            table.put(share.lease(unreached, minute_end), (rev or 0) + 1)


def _read_states(
    configured: Mapping[tuple[str, str], tuple[Site, Feed]], items: Mapping[tuple[str, str], Item], now: datetime
) -> Iterator[DueFeed | PollOutcome]:
    """Yield the feeds that are due, and the outcome of each other feed that needs attention."""
    for key, (site, feed) in configured.items():
        item = items.get(key)
        try:
            candidate = DueFeed(site, feed, from_item(FeedState, item or {}), int(item["rev"]) if item else None, now)
        except Exception as error:  # noqa: BLE001 - the state of one feed must not stop the others
            reason = f"the feed's item in the table cannot be read: {error!r:.300}"
            yield PollOutcome(site.host, feed.url, "failed", reason=reason, needs_attention=True, our_fault=True)
            continue
        if candidate.state.is_due(now, site.version):
            yield candidate
        elif candidate.state.needs_attention(now, site.version):
            new_trouble = candidate.state.has_just_failed_long(now, site.version)
            yield candidate.outcome("waiting", needs_attention=True, new_trouble=new_trouble)


def _sort_feeds(due: Iterable[DueFeed], unreached: Iterable[str]) -> list[DueFeed]:
    """Sort the feeds: first those that the last run did not reach, in that run's order.

    So each feed is reached, even if it fails. `next_poll_at` alone is not enough: the state of an unchanged feed is seldom written,
    so this instant may be long past.
    """
    places = {pk: place for place, pk in enumerate(unreached)}
    return sorted(
        due,
        key=lambda feed: (
            places.get(feed_key(feed.site.host, feed.feed.url)[0], len(places)),
            feed.state.failures > 0,  # it may fail again
            feed.state.next_poll_at or datetime.min.replace(tzinfo=UTC),
        ),
    )


def _poll(due: deque[DueFeed], began: float, deadline: Deadline) -> Iterator[PollOutcome]:
    executor = ThreadPoolExecutor(FETCHES_AT_ONCE + HUBS_AT_ONCE, thread_name_prefix="request")
    waiting: dict[Future[fetch_feeds.Fetched], DueFeed] = {}
    hubs = Hubs(executor)
    try:
        while (due or waiting or hubs.queued or hubs.waiting) and not deadline.is_over():
            _start_fetches(due, waiting, executor, began, deadline)
            yield from hubs.send()
            requests: list[Future[Any]] = [*waiting, *hubs.waiting]
            done, _ = wait(requests, min(deadline.seconds_left, 86_400), FIRST_COMPLETED)
            yield from hubs.settle(done)
            fetches = [future for future in done if future in waiting]
            # So that small bodies do not wait for large ones.
            fetches.sort(key=lambda fetched: 0 if fetched.exception() else fetched.result().size_bytes)
            for fetched in fetches:
                yield _ingest_fetched(waiting.pop(fetched), fetched, hubs)
                if deadline.is_over():
                    break
    finally:
        # Each request in progress ends at its own deadline.
        executor.shutdown(wait=False, cancel_futures=True)
    for feed in [*waiting.values(), *due]:
        yield feed.outcome("not reached", reason="the run's time was over")


def _start_fetches(
    due: deque[DueFeed],
    waiting: dict[Future[fetch_feeds.Fetched], DueFeed],
    executor: ThreadPoolExecutor,
    began: float,
    deadline: Deadline,
) -> None:
    """Start fetches: as many as fit into memory together, and FETCHES_FROM_A_HOST for each host."""
    fetches = Counter(feed.host for feed in waiting.values())
    skipped: list[DueFeed] = []
    while due and len(waiting) < FETCHES_AT_ONCE and not deadline.is_over():
        feed = replace(due.popleft(), waited=timedelta(seconds=time.monotonic() - began))
        if fetches[feed.host] >= FETCHES_FROM_A_HOST:
            skipped.append(feed)
            continue
        fetches[feed.host] += 1
        headers = {"User-Agent": client.user_agent(feed.site.home), **feed.conditions}
        waiting[executor.submit(fetch_feeds.fetch, feed.url, headers, feed.site)] = feed
    due.extendleft(reversed(skipped))


def _ingest_fetched(feed: DueFeed, fetched: Future[fetch_feeds.Fetched], hubs: Hubs) -> PollOutcome:
    try:
        return ingest.ingest(feed, fetched, hubs)
    except Exception as error:  # noqa: BLE001 - the feed stays due, and must not stop the others
        return feed.outcome("failed", reason=f"{type(error).__name__}: {error!s:.300}", our_fault=True)
