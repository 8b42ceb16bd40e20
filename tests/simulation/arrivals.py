"""When events were received, and whether they contain enough information to be ordered: otherwise the oracle judges nothing.

`Arrivals` stores when each act was received, by clocks that differ by `skew`. These cases are undecidable:

- `in_order`: neither versions nor timestamps, or equal timestamps, and receipt out of order or at the same time; a clock that
  is or was ahead, and acts so close together or so late that the timestamp of only one of them appears to be in the future;
  a counter restarted after a deletion, with acts from before and after it that may be recorded out of order.
- `_repeats_are_harmless`: a repeat without a timestamp, version or delivery id, or a repeat after more deliveries than an
  article remembers.
- `_looks_like_a_repeat`: an act without a delivery id that has the type, timestamp and content of an earlier act, with another
  act done or perhaps received in between; without timestamps, a story that is republished unchanged before its unpublication is
  recorded; a feed entry that returns to an earlier state before its change is recorded.
- `_loses_an_embargo`: an edit without a date is received before the removal and the embargo that precede it.
- `is_newer`: two sources send one page, and one clock is behind by more than the time between the two acts; or the earlier
  act is repeated after the later one, and nothing identifies the repeat.
- `received_in_order`: matters only for whether a feed may list a page again that the CMS left in acts received out of order.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations, pairwise

from tests.simulation.oracle import FEED, RECORDED, Act, Received

# Number of deliveries that an article remembers.
REMEMBERED = 8
BETWEEN_CLOCKS = timedelta(seconds=10)  # tolerance when comparing the clocks of two sources
BURST = timedelta(seconds=5)  # acts received within this period count as sent together


@dataclass(frozen=True)
class _Attempt:
    begin: datetime
    end: datetime
    accepted: bool
    delivery: str


class Arrivals:
    """When each act was received, and which orders of acts are decidable."""

    def __init__(self, skew: timedelta) -> None:
        self._skew = skew
        self._attempts: dict[int, list[_Attempt]] = defaultdict(list)
        self._received: dict[int, Received] = {}
        self._acts: dict[int, Act] = {}

    def record_attempt(
        self, act: Act, begin: datetime, end: datetime, id_: str = "", *, accepted: bool = True, resent: bool = False
    ) -> None:
        """Record an attempt to deliver an act. `resent`: all earlier attempts may have been lost.

        `id_` is the id of the delivery, empty if its protocol has none.
        """
        before, self._acts[act.number] = self._attempts[act.number], act
        if resent:
            before[:] = [replace(attempt, accepted=False) for attempt in before]
        before.append(_Attempt(begin, end, accepted, id_))
        self._received.pop(act.number, None)

    def acknowledge(self, act: Act) -> None:
        """Mark all attempts so far as accepted."""
        attempts = self._attempts[act.number]
        if not self.is_received(act):
            attempts[:] = [replace(attempt, accepted=True) for attempt in attempts]

    def snapshot(self) -> dict[int, list[_Attempt]]:
        return {number: list(attempts) for number, attempts in self._attempts.items()}

    def restore(self, snapshot: dict[int, list[_Attempt]]) -> list[Act]:
        """Forget the attempts made since the snapshot. Return their acts in order."""
        attempts = self._attempts
        lost = [self._acts[number] for number in sorted(attempts) if attempts[number] != snapshot.get(number)]
        self._attempts = defaultdict(list, snapshot)
        self._received.clear()
        return lost

    def may_be_received(self, act: Act) -> bool:
        """Return True if there was any attempt."""
        return bool(self._attempts.get(act.number))

    def is_received(self, act: Act) -> bool:
        """Return True if an attempt was accepted."""
        return any(attempt.accepted for attempt in self._attempts[act.number])

    def received(self, act: Act) -> Received:
        """Return when an act was received, by any clock."""
        if act.number not in self._received:
            attempts = self._attempts[act.number]
            ends = [attempt.end for attempt in attempts]
            accepted = min((attempt.end for attempt in attempts if attempt.accepted), default=max(ends))
            # A repeat may be recorded before the first attempt.
            latest = max(end for end in ends if end <= accepted + RECORDED)
            first, skew = min(attempt.begin for attempt in attempts), self._skew
            self._received[act.number] = Received(first - skew, latest + skew, max(ends) + skew)
        return self._received[act.number]

    # ── one article ──

    def last_act_is_known(self, acts: Sequence[Act]) -> bool:
        """Return True if the events show which act was the last."""
        return self._is_known(acts, acts[-1]) and not self._loses_an_embargo(acts)

    def _loses_an_embargo(self, acts: Sequence[Act]) -> bool:
        """Return True if an undated edit was received before the removal and embargo that precede it, and so keeps the old date."""
        return any(
            removal.removal
            and embargo.published_at
            and embargo.at < embargo.published_at
            and not (edit.removal or edit.published_at)
            and self.received(edit).earliest <= min(self.received(removal).latest, self.received(embargo).latest)
            for removal, embargo, edit in combinations(acts, 3)
        )

    def history_is_known(self, acts: Sequence[Act]) -> bool:
        """Return True if the events show the order of all acts."""
        return all(self._is_known(acts[: number + 1], act) for number, act in enumerate(acts))

    def received_in_order(self, acts: Sequence[Act]) -> bool:
        """Return True if each act was recorded before the next one was received."""
        return all(
            self.received(act).latest + RECORDED < self.received(after).earliest for act, after in pairwise(acts)
        )

    def _is_known(self, acts: Sequence[Act], last: Act) -> bool:
        if last.source == FEED:  # a feed is a state, which is polled again and again
            return all(self.is_received(act) for act in acts) and not self._looks_like_a_repeat(acts, last)
        return not self._looks_like_a_repeat(acts, last) and all(
            self.in_order(act, last, acts) and self._repeats_are_harmless(act, last, acts) for act in acts[:-1]
        )

    def in_order(self, act: Act, after: Act, acts: Sequence[Act], received: Received | None = None) -> bool:
        """Return True if the events show that `act` came before `after`, given the skew of the functions' clocks."""
        received, received_after = received or self.received(act), self.received(after)
        # After a deletion, a sender may restart its counter; a removal by URL may be received before the URL's article.
        deleted = any(other.verb == "delete" for other in acts if act.number <= other.number <= after.number)
        versions = act.version, after.version
        if isinstance(versions[0], int) and isinstance(versions[1], int) and versions[0] > versions[1]:
            # Without timestamps, events after the restart of a counter look late.
            return bool(act.stamp and after.stamp) and received.latest + RECORDED < received_after.earliest
        if not (act.stamp and after.stamp):
            by_stamp = None
        elif act.stamp == after.stamp and not self._tie_is_won(act, received, received_after):
            by_stamp = False
        else:
            by_stamp = self._instants_show_order(act.stamp, received, after.stamp, received_after)
        if "url" not in (act.ref, after.ref) and versions[0] != versions[1]:
            match versions:
                case int(version), int(version_after) if not deleted:
                    return version < version_after
                case datetime() as version, datetime() as version_after:
                    differ = by_stamp if act.stamp != after.stamp else None
                    by_version = self._instants_show_order(version, received, version_after, received_after, differ)
                    # If the deletion is recorded last, versions alone order the other acts.
                    if not (deleted and by_version):
                        return by_version
        return received.latest < received_after.earliest if by_stamp is None else by_stamp

    def _instants_show_order(
        self,
        instant: datetime,
        received: Received,
        instant_after: datetime,
        received_after: Received,
        else_: bool | None = None,
    ) -> bool:
        """Return True if two instants of a sender show their order.

        If only one instant is in the future, `else_` decides if set; otherwise this instant counts as the time of receipt.
        """
        for ahead in _may_be_ahead(instant, received):
            for ahead_after in _may_be_ahead(instant_after, received_after):
                if ahead == ahead_after:
                    in_order = instant <= instant_after
                elif else_ is not None:
                    in_order = else_
                elif ahead:
                    in_order = received.latest < instant_after
                else:
                    in_order = instant < received_after.earliest
                if not in_order:
                    return False
        return True

    def _tie_is_won(self, act: Act, received: Received, received_after: Received) -> bool:
        """Return True if receipt decides between two acts of one second; an earlier removal must be in the same burst."""
        if not received.latest < received_after.earliest:
            return False
        return not act.removal or received_after.latest - received.earliest < BURST

    def _repeats_are_harmless(self, act: Act, last: Act, acts: Sequence[Act]) -> bool:
        received = self.received(act)
        if len(self._attempts[act.number]) == 1 or received.last < self.received(last).earliest:
            return True
        repeated = replace(received, latest=received.last)
        return self._is_recognised(act, acts) or self.in_order(act, last, acts, repeated)

    def _is_recognised(self, act: Act, acts: Sequence[Act]) -> bool:
        """Return True if a repeat is identifiable, and the article still remembers the first delivery."""
        own, received = self._attempts[act.number], self.received(act)
        between = [
            (other, attempt)
            for other in acts
            for attempt in self._attempts[other.number]
            if other is not act and received.earliest <= attempt.end and attempt.begin <= received.last
        ]
        if len(between) + len(own) > REMEMBERED:
            return False
        unpublished = any(other.verb == "unpublish" for other, _ in between)
        has_identity = act.stamp is not None or own[0].delivery != ""
        # No article remembers a removal by URL that was received before the article.
        return (has_identity and act.ref != "url") or (act.verb == "publish" and not unpublished)

    def _looks_like_a_repeat(self, acts: Sequence[Act], last: Act) -> bool:
        """Return True if an act has the content of an earlier act, and nothing shows that it is not a repeat."""
        if self._attempts[last.number][0].delivery:
            return False

        def body(act: Act) -> Act:
            return replace(act, number=0, at=last.at, version=act.version if act.stamp is None else None)

        for number, act in enumerate(acts[:-1]):
            # Directly after the earlier act, a repeat is harmless if that act is known to be the newest so far.
            if body(act) != body(last) or (act is acts[-2] and self._is_known(acts[:-1], act)):
                continue
            changes = [other for other in acts[number + 1 : -1] if last.source == FEED or other.verb == "unpublish"]
            recorded = any(self.received(other).latest + RECORDED < self.received(last).earliest for other in changes)
            if act.stamp or (last.verb == "publish" and not recorded):
                return True
        return False

    # ── two articles ──

    def may_be_superseded(self, act: Act) -> bool:
        """Return True if a newer act of another CMS article with the same URL may be recorded before this act."""
        return any(
            self.received(other).earliest <= self.received(act).latest + RECORDED and not self.is_newer(act, other)
            for other in self._acts.values()
            if other.url == act.url and other.article != act.article and other.source != FEED and not other.removal
        )

    def is_newer(self, later: Act, earlier: Act) -> bool:
        """Return True if the events show that `later` was sent after `earlier`, for two articles with one URL."""
        received, received_after = self.received(earlier), self.received(later)
        if earlier.version is None and not self._is_recognised(earlier, [earlier]):
            received = replace(received, latest=received.last)  # its repeat counts as a new act
        if later.source == earlier.source:
            if later.stamp and earlier.stamp:
                return later.stamp != earlier.stamp and self._instants_show_order(
                    earlier.stamp, received, later.stamp, received_after
                )
            return received.latest < received_after.earliest
        instant, instant_after = earlier.stamp or received.latest, later.stamp or received_after.earliest
        return min(instant, received.latest) + BETWEEN_CLOCKS < min(instant_after, received_after.earliest)


def _may_be_ahead(instant: datetime, received: Received) -> set[bool]:
    """Return whether an instant is later than its receipt; both values if clock skew or repeats leave this open."""
    return {instant > received.earliest, instant > received.latest}
