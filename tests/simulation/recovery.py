"""Restores the table to an earlier instant, as docs/how-to/operate.md describes; the CMS resends later events."""

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
from tests.simulation.arrivals import Arrivals
from tests.simulation.script import CONFIGURED, Delivery, Script
from tests.simulation.world import World

RESTORED = "restored"


class Backup:
    """A copy of the table in which every received act is recorded, with the state of script and arrivals."""

    def __init__(self, world: World, script: Script, arrivals: Arrivals) -> None:
        self._world, self._script, self._arrivals = world, script, arrivals
        world.backend.clients["dynamodb"].copy(RESTORED)
        self._received = arrivals.snapshot()
        self._configured: dict[str, Any] = {name: copy(getattr(script, name)) for name in CONFIGURED}
        self._poison = [
            item["event"]["S"] for item in world.backend.items() if item["pk"]["S"].startswith("quarantine#")
        ]

    @staticmethod
    def is_possible(world: World, script: Script) -> bool:
        """Return True if all sites are configured and no received event is in transit to the table."""
        articles = world.wiring.queues()[world.wiring.variable("ARTICLES_QUEUE_URL")]
        assert articles.dead
        waiting = [world.backend.bodies(world.backend.queue(arn)) for arn in (articles.arn, articles.dead.arn)]
        return len(script.publication) == len(script.hosts) and not (world.is_busy or any(waiting))

    def restore(self) -> list[Delivery]:
        """Restore the table, rebuild and reconcile the files. Return the deliveries that the CMS resends."""
        lost = self._arrivals.restore(self._received)
        for name, value in self._configured.items():
            setattr(self._script, name, value)
        self._script.poison = self._poison
        self._run(partial(restore.replace_items, RESTORED, dry_run=False))
        self._run(lambda: queues.send_rewrites(rebuild.requests(None, None)))
        for _ in range(2):
            self._run(self._reconcile)
            self._world.advance(self._world.now + LOOKS_APART)
        first = {sent.act.number: sent for sent in reversed(self._script.deliveries) if sent.act}
        return [
            replace(first[act.number], at=self._world.now + number * timedelta(minutes=1))
            for number, act in enumerate(lost)
        ]

    def _run(self, work: Callable[[], object]) -> None:
        self._world.start("operator", work)
        self._world.run_until_idle()

    def _reconcile(self) -> None:
        for look in map(Look, rebuild.chosen_sites(None)):
            reconcile(look, sorted(look.units))
