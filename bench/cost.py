"""The cost of one event, from the CMS's request to the index, at archives of any size."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, TypeAlias

from bench import prices
from bench.archive import Archive, archive, newsroom, shape
from bench.measuring import Measured, measuring
from bench.newsroom import HOST, NOW, WINDOW, Story, request
from stoppress.aws import secrets
from stoppress.aws.queues import RewriteRequest
from stoppress.model.file_names import INDEX_FILE, NEWS_FILE
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack

ARCHIVES = (0, 1_000, 10_000, 50_000, 200_000, 1_000_000, 50_000_000)
# The sizes that the page shows.
QUICK_ARCHIVES = (0, 1_000_000, 50_000_000)
# Measurements of an event's CPU at each archive, whose median is reported.
ROUNDS = 3
# Each event comes when the cached configuration is a minute old and no secret is cached, so that these reads are counted.
APART = timedelta(seconds=61)

Action: TypeAlias = Callable[[Stack, Story, datetime], None]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one event: the counts of its first measurement, and the median CPU of all measurements."""

    counted: Measured
    cpu_ms: float

    def row(self) -> dict[str, float]:
        """Return the costs as results.json has them."""
        return {
            "write_units": self.counted.write_units,
            "read_units": self.counted.read_units,
            "puts": self.counted.puts,
            "calls": self.counted.calls.total(),
            "bytes": self.counted.bytes,
            "cpu_ms": round(self.cpu_ms, 1),
        }


# ── events ──


def publish(stack: Stack, story: Story, now: datetime) -> None:
    """Publish a new article."""
    _post(stack, story, now, story.delivery("published", now))


def edit(stack: Stack, story: Story, now: datetime) -> None:
    """Publish an edit of the headline."""
    _post(stack, story, now, story.delivery("updated", now, updated=now, title=f"Updated: {story.data()['title']}"))


def move(stack: Stack, story: Story, now: datetime) -> None:
    """Publish a change of the URL."""
    _post(stack, story, now, story.delivery("updated", now, updated=now, url=story.url("and-what-the")))


def remove(stack: Stack, story: Story, now: datetime) -> None:
    """Remove the article."""
    _post(stack, story, now, story.delivery("deleted", now))


# edit_fresh, slug_change and removal are events of an article in the window, which a shard lists as well.
ACTIONS: dict[str, Action] = {
    "new": publish, "edit_fresh": edit, "edit_old": edit, "slug_change": move, "removal": remove,
}  # fmt: skip
EVENTS = (*ACTIONS, "expiry")


def new_story(now: datetime) -> Story:
    """Return an article that is in no archive, and the same article for equal instants."""
    return Story(5_000_000 + int((now - NOW).total_seconds()), now)


def _post(stack: Stack, story: Story, now: datetime, delivery: dict[str, object]) -> None:
    answer = stack.request(request(delivery, now, story.message_id(now)))
    assert answer.status == 200, answer
    stack.rest()


# ── measuring ──


def measure_events(full: Archive, rounds: int = 1, events: Sequence[str] = EVENTS) -> dict[str, Cost]:
    """Return the cost of each event on an archive at rest."""
    warm(full.stack)
    fresh, old = iter(full.window[len(full.window) // 2 :]), iter(full.old[len(full.old) // 2 :])
    times: dict[str, list[Measured]] = {event: [] for event in events}
    for event in (event for _ in range(rounds) for event in events if event != "expiry"):
        story = None if event == "new" else next(old if event == "edit_old" else fresh)
        times[event].append(_measure_event(full.stack, ACTIONS[event], story))
    if "expiry" in events:
        # The 48 hours of these stories end one by one, after everything that was measured before.
        later = full.stack.clock.now() + 3 * APART - WINDOW
        expiring = [story for story in full.window if story.published > later]
        times["expiry"] = [_measure_expiry(full.stack, story) for story in expiring[:rounds]]
    return _costs(times)


def measure(quick: bool) -> dict[str, Any]:
    """Return the cost of each event at archives of all sizes, in the form of results.json."""
    archives, rounds = (QUICK_ARCHIVES, 1) if quick else (ARCHIVES, ROUNDS)
    by_archive: dict[int, dict[str, Cost]] = {}
    for urls in archives:
        if not urls:
            by_archive[urls] = _measure_empty(rounds)
            continue
        with archive(shape(urls)) as full:
            by_archive[urls] = measure_events(full, rounds)
    largest = by_archive[archives[-1]]
    more: dict[str, Any] = {
        "runs": [asdict(run) for run in largest["new"].counted.runs],
        "cost": {
            event: {
                "sqs_requests": cost.counted.sqs_requests,
                "invocations": cost.counted.invocations.total(),
                "dollars_a_million": prices.million_events(cost.counted),
            }
            for event, cost in largest.items()
        },
    }
    rows = {event: {str(urls): costs[event].row() for urls, costs in by_archive.items()} for event in EVENTS}
    return {"cost": rows, "more": more}


def _measure_empty(rounds: int) -> dict[str, Cost]:
    """Return the cost of each event of a site's only article, each time on a new site."""
    times: dict[str, list[Measured]] = {event: [] for event in EVENTS}
    for _ in range(rounds):
        with newsroom() as stack:
            warm(stack)
            story = new_story(stack.clock.now() + APART)
            for event in ("new", "edit_fresh"):
                times[event].append(_measure_event(stack, ACTIONS[event], story))
            times["expiry"].append(_measure_expiry(stack, story))
            times["edit_old"].append(_measure_event(stack, edit, story))
        with newsroom() as stack:
            warm(stack)
            story = new_story(stack.clock.now())
            publish(stack, story, story.published)
            for event in ("slug_change", "removal"):
                times[event].append(_measure_event(stack, ACTIONS[event], story))
    return _costs(times)


def warm(stack: Stack) -> None:
    """Have every function import its modules and create its clients, without a change of the files."""
    now = stack.clock.now() + APART
    stack.advance(now, every_schedule=True)
    story = new_story(now)
    _post(stack, story, now, story.delivery("published", now, noindex=True))
    for file in (NEWS_FILE, INDEX_FILE):
        local_queues.send(stack.resources["RewritesQueue"].arn, RewriteRequest(HOST, file).message())
    stack.rest()


def _measure_event(stack: Stack, act: Action, story: Story | None = None) -> Measured:
    """Return the counts of an action on a story, or on a new story, a minute from now."""
    now = stack.clock.now() + APART
    stack.advance(now)
    secrets.forget()
    with measuring(stack) as counts:
        act(stack, story or new_story(now), now)
    return counts


def _measure_expiry(stack: Stack, story: Story) -> Measured:
    """Return the counts of the minute in which a story leaves the window, less those of an idle minute."""
    leaves = story.published + WINDOW
    stack.advance(leaves - 2 * APART, every_schedule=True)
    with measuring(stack) as idle:
        stack.advance(leaves - APART, every_schedule=True)
    stack.advance(leaves - timedelta(seconds=1))
    with measuring(stack) as counts:
        stack.advance(leaves + timedelta(seconds=1), every_schedule=True)
    return counts - idle


def _costs(times: dict[str, list[Measured]]) -> dict[str, Cost]:
    return {event: Cost(counts[0], median(count.cpu_ms for count in counts)) for event, counts in times.items()}
