"""The cost of one event, from the CMS's request to the index, at archives of any size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import TypeAlias

from bench.archive import SHARD_SIZE, Archive, Shape, archive, newsroom, shape
from bench.measuring import Measured, measuring
from bench.newsroom import HOST, NOW, WINDOW, Story, request
from stoppress.aws.queues import RewriteRequest
from stoppress.model.file_names import INDEX_FILE, NEWS_FILE
from stoppress_cli.local import queues
from stoppress_cli.local.stack import Stack

ARCHIVES = (0, 1_000, 10_000, 50_000, 200_000, 1_000_000)
# The worst that a site meets which takes the sizes that we advise: shards all but full, a window all but full.
WORST = Shape(1_000_000, in_window=999, in_open=SHARD_SIZE - 1, in_old=SHARD_SIZE)
# The cached configuration is a minute old at each event, and cached secrets are forgotten: none of it comes for nothing.
APART = timedelta(seconds=61)

Happening: TypeAlias = Callable[[Stack, Story, datetime], None]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one event costs: the counts of the first time it was measured, the median of CPU of all times."""

    counted: Measured
    cpu_ms: float

    def row(self) -> dict[str, float]:
        """As results.json has it."""
        return {
            "write_units": self.counted.write_units,
            "read_units": self.counted.read_units,
            "puts": self.counted.puts,
            "other_s3": self.counted.other_s3,
            "bytes": self.counted.bytes,
            "cpu_ms": round(self.cpu_ms, 1),
        }


# ── what happens ──


def publish(stack: Stack, story: Story, now: datetime) -> None:
    """A new article."""
    _post(stack, story, now, story.delivery("published", now))


def edit(stack: Stack, story: Story, now: datetime) -> None:
    """Another headline."""
    _post(stack, story, now, story.delivery("updated", now, updated=now, title=f"Updated: {story.data()['title']}"))


def move(stack: Stack, story: Story, now: datetime) -> None:
    """Another URL."""
    _post(stack, story, now, story.delivery("updated", now, updated=now, url=story.url("and-what-the")))


def remove(stack: Stack, story: Story, now: datetime) -> None:
    """The article is taken away."""
    _post(stack, story, now, story.delivery("deleted", now))


# edit_fresh, slug_change and removal are of an article in the window, which stands in a shard as well.
HAPPENINGS: dict[str, Happening] = {
    "new": publish, "edit_fresh": edit, "edit_old": edit, "slug_change": move, "removal": remove,
}  # fmt: skip
EVENTS = (*HAPPENINGS, "expiry")


def new_story(now: datetime) -> Story:
    """An article that no archive has; at equal instants an equal one."""
    return Story(5_000_000 + int((now - NOW).total_seconds()), now)


def _post(stack: Stack, story: Story, now: datetime, delivery: dict[str, object]) -> None:
    answer = stack.request(request(delivery, now, story.message_id(now)))
    assert answer.status == 200, answer
    stack.rest()


# ── measuring it ──


def at(one: Archive, rounds: int = 1, events: Sequence[str] = EVENTS) -> dict[str, Cost]:
    """The cost of each event on an archive at rest."""
    warm(one.stack)
    fresh, old = iter(one.window[len(one.window) // 2 :]), iter(one.old[len(one.old) // 2 :])
    found: dict[str, list[Measured]] = {event: [] for event in events}
    for event in (event for _ in range(rounds) for event in events if event != "expiry"):
        story = None if event == "new" else next(old if event == "edit_old" else fresh)
        found[event].append(measured(one.stack, HAPPENINGS[event], story))
    if "expiry" in events:
        found["expiry"] = [expired(one.stack, story) for story in _to_expire(one, rounds)]
    return {event: _cost(times) for event, times in found.items()}


def at_archive(urls: int, rounds: int) -> dict[str, Cost]:
    """The cost of each event at an archive of that many pages."""
    if urls == 0:
        return _empty(rounds)
    with archive(shape(urls)) as one:
        return at(one, rounds)


def at_worst(rounds: int) -> dict[str, Cost]:
    """The same where the shards are full and a thousand articles are in the window."""
    with archive(WORST) as one:
        return at(one, rounds)


def _empty(rounds: int) -> dict[str, Cost]:
    """What happens to a site's only article, each time on a new site."""
    found: dict[str, list[Measured]] = {event: [] for event in EVENTS}
    for _ in range(rounds):
        with newsroom() as stack:
            warm(stack)
            story = new_story(stack.clock.now() + APART)
            for event in ("new", "edit_fresh"):
                found[event].append(measured(stack, HAPPENINGS[event], story))
            found["expiry"].append(expired(stack, story))
            found["edit_old"].append(measured(stack, edit, story))
        with newsroom() as stack:
            warm(stack)
            story = new_story(stack.clock.now())
            publish(stack, story, story.published)
            for event in ("slug_change", "removal"):
                found[event].append(measured(stack, HAPPENINGS[event], story))
    return {event: _cost(times) for event, times in found.items()}


def warm(stack: Stack) -> None:
    """Have every function import what it needs and make its clients; what is in the files stays as it is."""
    now = stack.clock.now() + APART
    stack.advance(now, every_schedule=True)
    story = new_story(now)
    _post(stack, story, now, story.delivery("published", now, noindex=True))
    for file in (NEWS_FILE, INDEX_FILE):
        queues.send(stack.resources["RewritesQueue"].arn, RewriteRequest(HOST, file).message())
    stack.rest()


def measured(stack: Stack, happens: Happening, story: Story | None = None) -> Measured:
    """What a happening does to a story, or to one that is new, a minute from now."""
    now = stack.clock.now() + APART
    stack.advance(now)
    stack.forget_secrets()
    with measuring(stack) as found:
        happens(stack, story or new_story(now), now)
    return found


def expired(stack: Stack, story: Story) -> Measured:
    """What the minute does in which a story leaves the window, less what an idle minute does."""
    leaves = story.published + WINDOW
    stack.advance(leaves - 2 * APART, every_schedule=True)
    with measuring(stack) as idle:
        stack.advance(leaves - APART, every_schedule=True)
    stack.advance(leaves - timedelta(seconds=1))
    with measuring(stack) as found:
        stack.advance(leaves + timedelta(seconds=1), every_schedule=True)
    return found - idle


def _to_expire(one: Archive, rounds: int) -> Iterator[Story]:
    """Stories of the window whose 48 hours end later than all that was measured before, one after the other."""
    left = [story for story in one.window if story.published + WINDOW > one.stack.clock.now() + 3 * APART]
    yield from left[:rounds]


def _cost(times: list[Measured]) -> Cost:
    return Cost(times[0], median(time.cpu_ms for time in times))
