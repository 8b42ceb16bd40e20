"""What those who only hear the events can know of their order: where this is not enough, the oracle does not judge.

`Arrivals` keeps when each act was received, by clocks that differ by `skew`. These cases are undecidable:

- `in_order`: no versions and no timestamps, and received in another order or at once; equal timestamps, likewise; a clock that is
  ahead by d, or was until it was set right, and acts that are so close or so late that one looks ahead and the other does not;
  a counter that began anew after a deletion, and acts of both lives that may have been recorded in another order.
- `_repeats_are_harmless`: a repeat that nothing marks as one (no timestamp, no version, no delivery id), or that comes
  after more deliveries than an article can be asked to remember.
- `_looks_like_a_repeat`: an act without a delivery id that has the type, the timestamp and the content of an earlier one, with
  another act between them, or perhaps received between them; without timestamps a story that is published again as it was,
  before it is recorded that it was unpublished; an entry of a feed that is as it was again, before it is recorded that it was changed.
- `_loses_an_embargo`: an edit without a date is received before the removal and the embargo that precede it.
- `spoke_later`: two sources speak of one page, and one of their clocks is behind by more than what lies between the words;
  the earlier word is repeated after the later one, and nothing marks it as a repeat.
- `received_in_order`: only whether a feed may show a page again that the CMS left in acts which came in another order.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations, pairwise

from tests.simulation.oracle import FEED, RECORDED, Act, Received

# An article remembers so many deliveries, and so long after the first one received a second counts as sent at once.
REMEMBERED = 8
# Two sources' clocks are not compared more closely than this.
BETWEEN_CLOCKS = timedelta(seconds=10)
AT_ONCE = timedelta(seconds=5)


@dataclass(frozen=True)
class _Attempt:
    begin: datetime
    end: datetime
    taken: bool
    delivery: str


class Arrivals:
    """When each act was received, and what follows from that."""

    def __init__(self, skew: timedelta) -> None:
        self._skew = skew
        self._attempts: dict[int, list[_Attempt]] = defaultdict(list)
        self._received: dict[int, Received] = {}
        self._acts: dict[int, Act] = {}

    def note(
        self, act: Act, begin: datetime, end: datetime, delivery: str = "", *, taken: bool = True, anew: bool = False
    ) -> None:
        """Note an attempt to deliver an act. `taken`: it was acknowledged. `anew`: all before may have been lost.

        `delivery` is the id of the delivery, empty if its protocol has none.
        """
        before, self._acts[act.number] = self._attempts[act.number], act
        if anew:
            before[:] = [replace(attempt, taken=False) for attempt in before]
        before.append(_Attempt(begin, end, taken, delivery))
        self._received.pop(act.number, None)

    def acknowledge(self, act: Act) -> None:
        """The attempts so far cannot be lost any more."""
        attempts = self._attempts[act.number]
        if not self.is_received(act):
            attempts[:] = [replace(attempt, taken=True) for attempt in attempts]

    def saved(self) -> dict[int, list[_Attempt]]:
        return {number: list(attempts) for number, attempts in self._attempts.items()}

    def go_back(self, saved: dict[int, list[_Attempt]]) -> list[Act]:
        """Return the acts that were received since, in their order, and forget those attempts."""
        lost = [self._acts[number] for number in sorted(self._attempts) if self._attempts[number] != saved.get(number)]
        self._attempts = defaultdict(list, saved)
        self._received.clear()
        return lost

    def may_be_received(self, act: Act) -> bool:
        """Whether there was any attempt."""
        return bool(self._attempts.get(act.number))

    def is_received(self, act: Act) -> bool:
        """Whether an attempt was acknowledged."""
        return any(attempt.taken for attempt in self._attempts[act.number])

    def received(self, act: Act) -> Received:
        """When it was received, by any clock."""
        if act.number not in self._received:
            attempts = self._attempts[act.number]
            ends = [attempt.end for attempt in attempts]
            taken = min((attempt.end for attempt in attempts if attempt.taken), default=max(ends))
            # A repeat may be recorded before what it repeats.
            latest = max(end for end in ends if end <= taken + RECORDED)
            first, skew = min(attempt.begin for attempt in attempts), self._skew
            self._received[act.number] = Received(first - skew, latest + skew, max(ends) + skew)
        return self._received[act.number]

    # ── one article ──

    def last_word_is_known(self, acts: Sequence[Act]) -> bool:
        """Whether what was sent shows which act was the last."""
        return self._is_known(acts, acts[-1]) and not self._loses_an_embargo(acts)

    def _loses_an_embargo(self, acts: Sequence[Act]) -> bool:
        """Whether a removal, and then an embargo, were received after a later edit without a date, which keeps the one before."""
        return any(
            removal.removal
            and embargo.published_at
            and embargo.at < embargo.published_at
            and not (edit.removal or edit.published_at)
            and self.received(edit).earliest <= min(self.received(removal).latest, self.received(embargo).latest)
            for removal, embargo, edit in combinations(acts, 3)
        )

    def history_is_known(self, acts: Sequence[Act]) -> bool:
        """Whether it shows the order of all acts."""
        return all(self._is_known(acts[: number + 1], act) for number, act in enumerate(acts))

    def received_in_order(self, acts: Sequence[Act]) -> bool:
        """Whether each act was recorded before the next one was received."""
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
        """Whether what was sent shows that one act came before another, as far as our clocks can tell."""
        received, received_after = received or self.received(act), self.received(after)
        # After a deletion a sender may count anew, and a removal by URL may come before anybody knows whose URL it is.
        deleted = any(other.verb == "delete" for other in acts if act.number <= other.number <= after.number)
        versions = act.version, after.version
        if isinstance(versions[0], int) and isinstance(versions[1], int) and versions[0] > versions[1]:
            # A counter that begins anew looks late where no timestamps tell.
            return bool(act.stamp and after.stamp) and received.latest + RECORDED < received_after.earliest
        if not (act.stamp and after.stamp):
            by_stamp = None
        elif act.stamp == after.stamp and not self._tie_is_won(act, received, received_after):
            by_stamp = False
        else:
            by_stamp = self._shows(act.stamp, received, after.stamp, received_after)
        if "url" not in (act.names, after.names) and versions[0] != versions[1]:
            match versions:
                case int(version), int(version_after) if not deleted:
                    return version < version_after
                case datetime() as version, datetime() as version_after:
                    differ = by_stamp if act.stamp != after.stamp else None
                    by_version = self._shows(version, received, version_after, received_after, differ)
                    # A deletion that is recorded last leaves the order of the others to their versions.
                    if not (deleted and by_version):
                        return by_version
        return received.latest < received_after.earliest if by_stamp is None else by_stamp

    def _shows(
        self,
        said: datetime,
        received: Received,
        said_after: datetime,
        received_after: Received,
        else_: bool | None = None,
    ) -> bool:
        """Whether two instants of a sender show their order.

        Where one alone lies ahead, `else_` decides if it is given; else the one ahead counts as when it was received.
        """
        for ahead in _may_be_ahead(said, received):
            for ahead_after in _may_be_ahead(said_after, received_after):
                if ahead == ahead_after:
                    in_order = said <= said_after
                elif else_ is not None:
                    in_order = else_
                elif ahead:
                    in_order = received.latest < said_after
                else:
                    in_order = said < received_after.earliest
                if not in_order:
                    return False
        return True

    def _tie_is_won(self, act: Act, received: Received, received_after: Received) -> bool:
        """Whether of two acts of one second the later one was received later; a removal that is not the last, just before it."""
        if not received.latest < received_after.earliest:
            return False
        return not act.removal or received_after.latest - received.earliest < AT_ONCE

    def _repeats_are_harmless(self, act: Act, last: Act, acts: Sequence[Act]) -> bool:
        received = self.received(act)
        if len(self._attempts[act.number]) == 1 or received.last < self.received(last).earliest:
            return True
        again = replace(received, latest=received.last)
        return self._is_recognised(act, acts) or self.in_order(act, last, acts, again)

    def _is_recognised(self, act: Act, acts: Sequence[Act]) -> bool:
        """Whether a repeat shows that it is one, and comes before its first delivery is forgotten."""
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
        marked = act.stamp is not None or own[0].delivery != ""
        # A removal by URL that came before its article is remembered by nobody.
        return (marked and act.names != "url") or (act.verb == "publish" and not unpublished)

    def _looks_like_a_repeat(self, acts: Sequence[Act], last: Act) -> bool:
        """Whether an act says what an earlier one said, as if it were that one's repeat, and nothing shows that it is not."""
        if self._attempts[last.number][0].delivery:
            return False

        def body(act: Act) -> Act:
            return replace(act, number=0, at=last.at, version=act.version if act.stamp is None else None)

        for number, act in enumerate(acts[:-1]):
            # Right after what it repeats, it does no harm if that one is known to be newer than all before.
            if body(act) != body(last) or (act is acts[-2] and self._is_known(acts[:-1], act)):
                continue
            changes = [other for other in acts[number + 1 : -1] if last.source == FEED or other.verb == "unpublish"]
            recorded = any(self.received(other).latest + RECORDED < self.received(last).earliest for other in changes)
            if act.stamp or (last.verb == "publish" and not recorded):
                return True
        return False

    # ── two articles ──

    def may_be_overtaken(self, act: Act) -> bool:
        """Whether another story of the CMS, whose word of the page counts as newer, may be recorded before an act."""
        return any(
            self.received(other).earliest <= self.received(act).latest + RECORDED and not self.spoke_later(act, other)
            for other in self._acts.values()
            if other.url == act.url and other.article != act.article and other.source != FEED and not other.removal
        )

    def spoke_later(self, later: Act, earlier: Act) -> bool:
        """Whether what was sent shows whose word of a page was the later one."""
        received, received_after = self.received(earlier), self.received(later)
        if earlier.version is None and not self._is_recognised(earlier, [earlier]):
            received = replace(received, latest=received.last)  # its repeat counts as said again
        if later.source == earlier.source:
            if later.stamp and earlier.stamp:
                return later.stamp != earlier.stamp and self._shows(
                    earlier.stamp, received, later.stamp, received_after
                )
            return received.latest < received_after.earliest
        said, said_after = earlier.stamp or received.latest, later.stamp or received_after.earliest
        return min(said, received.latest) + BETWEEN_CLOCKS < min(said_after, received_after.earliest)


def _may_be_ahead(said: datetime, received: Received) -> set[bool]:
    """Whether an instant lies ahead of when it was received; both, where our clocks or the attempts do not tell."""
    return {said > received.earliest, said > received.latest}
