"""Delivers one history in random orders with repeats: since the senders' clocks are correct, the files must be identical."""

import random
from dataclasses import replace
from datetime import datetime, timedelta

from tests.simulation.call_faults import CallFaults
from tests.simulation.oracle import Act
from tests.simulation.run import SECRET, Run
from tests.simulation.script import HOSTS, SETTLE_TIME, SOURCES, START, Delivery, Script, link_versions, write_articles
from tests.simulation.senders import DELIVERY_DELAY, Sender, document
from tests.simulation.world import MINUTE

BEGIN = START + 2 * SETTLE_TIME


def history(seed: int) -> Script:
    """Generate acts within a minute, sent as webhooks with correct timestamps and, by some senders, versions."""
    rng = random.Random(f"history {seed}")
    script = Script(HOSTS[:1])
    for source in SOURCES:
        drawn = Sender.draw(rng, HOSTS[0], source, BEGIN, MINUTE)
        script.senders[HOSTS[0], source] = replace(
            drawn,
            clock_error=timedelta(),
            has_timestamps=True,
            has_milliseconds=True,
            versions=rng.choice(("none", "counter", "instant")),
            restarts_counter=False,
            ref=rng.choice(("id", "both")),
            by=("webhook",),
            is_fast=True,
        )
    write_articles(rng, script, BEGIN, MINUTE)
    link_versions(rng, script)
    send_at = _send_at(script)
    ambiguous = {act.article for act in script.acts if not _is_plain(act, send_at)}
    script.acts = [act for act in script.acts if act.article not in ambiguous]
    script.fixed_editions[HOSTS[0]] = True
    return script


def _send_at(script: Script) -> datetime:
    """Return the instant of all deliveries, after the last act."""
    return max(act.at for act in script.acts).replace(microsecond=0) + MINUTE


def _is_plain(act: Act, send_at: datetime) -> bool:
    """Return True if an act's date means the same when done and when sent, and is in the same yearly file."""
    date = act.published_at
    return date is None or (date.year == START.year and not act.at < date <= send_at + 2 * DELIVERY_DELAY)


class Permutation(Run):
    """A seed's history in a random order, on a stack without faults."""

    news_max = 1_000

    def __init__(self, seed: int, order: int) -> None:
        super().__init__(seed)
        self.script = history(seed)
        self._pending = list(self.script.deliveries)
        self._order = random.Random(order)

    def files(self) -> dict[str, bytes]:
        """Return all objects at the end. Raises Violation if they differ from the oracle's."""
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
            self._deliver(Delivery(START, "site", body=document_))
            while world.now < BEGIN:
                self._advance_to(world.now + MINUTE)
            self._advance_to(_send_at(self.script))
            for act in self._shuffled_acts():
                self._deliver(Delivery(world.now, "webhook", act, document(act), f"msg_{act.number}"))
            self._drain(ticks=4)
            files = world.backend.objects()
            self.checker.compare(HOSTS[0], files)
            return files

    def _shuffled_acts(self) -> list[Act]:
        acts = self.script.acts
        repeats = [act for act in acts if self._order.random() < 0.3]
        return self._order.sample([*acts, *repeats], len(acts) + len(repeats))

    def _deliver(self, delivery: Delivery) -> None:
        self.world.start(delivery.kind, lambda: self._arrive(delivery))
        self.world.run_until_idle()
