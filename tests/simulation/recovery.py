"""A table that is restored to an earlier instant, as docs/how-to/operate.md says: the CMS sends again what came since."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from stoppress.aws import queues
from stoppress.reconcile.look import Look
from stoppress.reconcile.sites import LOOKS_APART, reconcile
from stoppress_cli.commands import rebuild, restore
from tests.simulation.knowable import Arrivals
from tests.simulation.story import CONFIGURED, Delivery, Story
from tests.simulation.world import World

RESTORED = "restored"


class Backup:
    """The table at an instant when every act that was received is recorded, and what the oracle knew of it."""

    def __init__(self, world: World, story: Story, arrivals: Arrivals) -> None:
        self._world, self._story, self._arrivals = world, story, arrivals
        world.backend.clients["dynamodb"].copy(RESTORED)
        self._received = arrivals.saved()
        self._configured: dict[str, Any] = {name: copy(getattr(story, name)) for name in CONFIGURED}
        self._poison = [
            item["event"]["S"] for item in world.backend.items() if item["pk"]["S"].startswith("quarantine#")
        ]

    @staticmethod
    def is_possible(world: World, story: Story) -> bool:
        """Whether all sites are configured, and nothing that was received is on its way to the table."""
        articles = world.wiring.queues()[world.wiring.variable("ARTICLES_QUEUE_URL")]
        assert articles.dead
        waiting = [world.backend.bodies(world.backend.queue(arn)) for arn in (articles.arn, articles.dead.arn)]
        return len(story.publication) == len(story.hosts) and not (world.is_busy or any(waiting))

    def restore(self) -> list[Delivery]:
        """Restore the table, and have the files written and compared. Return what the CMS sends again: every change since."""
        lost = self._arrivals.go_back(self._received)
        for name, value in self._configured.items():
            setattr(self._story, name, value)
        self._story.poison = self._poison
        self._do(partial(restore.replace_items, RESTORED, dry_run=False))
        self._do(lambda: queues.send_rewrites(rebuild.requests(None, None)))
        for _ in range(2):
            self._do(self._reconcile)
            self._world.advance(self._world.now + LOOKS_APART)
        first = {one.act.number: one for one in reversed(self._story.deliveries) if one.act}
        return [
            replace(first[act.number], at=self._world.now + number * timedelta(minutes=1))
            for number, act in enumerate(lost)
        ]

    def _do(self, work: Callable[[], object]) -> None:
        self._world.start("operator", work)
        self._world.rest()

    def _reconcile(self) -> None:
        for look in map(Look, rebuild.chosen_sites(None)):
            reconcile(look, sorted(look.units))
