"""One history, delivered in any order and some of it twice: as the senders' clocks are good, it ends in the same bytes."""

import random
from dataclasses import replace
from datetime import datetime, timedelta

from tests.simulation import story as stories
from tests.simulation.call_faults import CallFaults
from tests.simulation.oracle import Act
from tests.simulation.run import SECRET, Run
from tests.simulation.senders import ON_ITS_WAY, Sender, document
from tests.simulation.story import HOSTS, SETTLED, SOURCES, START, Delivery, Story
from tests.simulation.world import MINUTE

BEGIN = START + 2 * SETTLED


def history(seed: int) -> Story:
    """Some articles' acts within minutes, by webhooks whose timestamps are right; some senders have versions as well."""
    chance = random.Random(f"history {seed}")
    story = Story(HOSTS[:1])
    for source in SOURCES:
        drawn = Sender.of(chance, HOSTS[0], source, BEGIN, MINUTE)
        story.senders[HOSTS[0], source] = replace(
            drawn,
            wrong_by=timedelta(),
            stamps=True,
            fractions=True,
            versions=chance.choice(("none", "counter", "instant")),
            counts_anew=False,
            names=chance.choice(("id", "both")),
            by=("webhook",),
            hurries=True,
        )
    stories.write(chance, story, BEGIN, MINUTE)
    stories.list_versions(chance, story)
    told_at = _told_at(story)
    ambiguous = {act.article for act in story.acts if not _is_plain(act, told_at)}
    story.acts = [act for act in story.acts if act.article not in ambiguous]
    story.steady[HOSTS[0]] = True
    return story


def _told_at(story: Story) -> datetime:
    """When all is delivered: after the last act."""
    return max(act.at for act in story.acts).replace(microsecond=0) + MINUTE


def _is_plain(act: Act, told_at: datetime) -> bool:
    """Whether a date means the same when it is said and when it is told, and stays in one file of a year."""
    date = act.published_at
    return date is None or (date.year == START.year and not act.at < date <= told_at + 2 * ON_ITS_WAY)


class Permutation(Run):
    """The history of a seed in one of its orders, on a stack where nothing fails."""

    news_max = 1_000

    def __init__(self, seed: int, order: int) -> None:
        super().__init__(seed)
        self.story = history(seed)
        self._left = list(self.story.deliveries)
        self._order = random.Random(order)

    def files(self) -> dict[str, bytes]:
        """Every object at the end. Raises Broken where they are not what was meant."""
        self._make_world()
        world = self.world
        world.call_faults, world.is_failing = CallFaults(), False
        document_ = {
            "host": HOSTS[0],
            "publication": "Example News",
            "sources": {source: {"secret": "cms"} for source in SOURCES},
            "shards": {"by": "year", "size": 1_000},
            "outputs": {"atom": True},
        }
        with world.open():
            world.backend.put_secret(f"{self._wiring.variable('SECRETS_PATH')}/webhooks/{HOSTS[0]}/cms", SECRET)
            self._bring(Delivery(START, "site", body=document_))
            while world.now < BEGIN:
                self._go_to(world.now + MINUTE)
            self._go_to(_told_at(self.story))
            for act in self._in_some_order():
                self._bring(Delivery(world.now, "webhook", act, document(act), f"msg_{act.number}"))
            self._until_nothing_waits(ticks=4)
            files = world.backend.objects()
            self.judge.compare(HOSTS[0], files)
            return files

    def _in_some_order(self) -> list[Act]:
        acts = self.story.acts
        again = [act for act in acts if self._order.random() < 0.3]
        return self._order.sample([*acts, *again], len(acts) + len(again))

    def _bring(self, delivery: Delivery) -> None:
        self.world.start(delivery.kind, lambda: self._arrive(delivery))
        self.world.rest()
