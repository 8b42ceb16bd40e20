"""The senders of a flood: late, twice, overtaken, and each delivery again until it has been acknowledged."""

import heapq
import http.client
import itertools
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench.load.newsroom import HOST, Newsroom, Said, signed
from bench.load.served import ANSWER_MAX_S

HELD_UP = 0.08  # of the deliveries: on their way for so long that others overtake them
HELD_UP_MAX_S = 1.5
TWICE = 0.05  # of those that were acknowledged: they come once more all the same
UNHEARD = 0.02  # of the deliveries: the sender is gone before the answer has come
RETRY_S, RETRY_MAX_S = 0.05, 2.0  # doubled with each attempt
# A flood that is not acknowledged so long after its last new delivery has failed.
ACKNOWLEDGED_WITHIN_S = 120.0


@dataclass
class Counts:
    """What a flood was, as its senders saw it."""

    said: int = 0
    sent: int = 0
    acknowledged: int = 0
    retries: int = 0
    twice: int = 0
    seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    answered_s: list[float] = field(default_factory=list)
    last_acknowledged: float = 0.0  # on the machine's monotonic clock


class Flood:
    """Senders that share what is to be sent; `pour` returns when all of it was acknowledged."""

    def __init__(self, url: str, newsroom: Newsroom, senders: int, dice: random.Random) -> None:
        self._at = (str(urlsplit(url).hostname), int(urlsplit(url).port or 80))
        self._newsroom, self._senders, self._dice = newsroom, senders, dice
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Said, int]] = []  # when, order, what, attempts so far
        self._order = itertools.count()
        self._under_way = self._left = 0
        self._give_up = 0.0

    def pour(self, webhooks: int, counts: Counts) -> None:
        """Sends so many new webhooks. What was not acknowledged in time is left; the judge finds it."""
        began = time.monotonic()
        self._left, self._give_up = webhooks, float("inf")
        threads = [threading.Thread(target=self._send_all, args=(counts,)) for _ in range(self._senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts.seconds += time.monotonic() - began

    def _send_all(self, counts: Counts) -> None:
        while (taken := self._next(counts)) is not None:
            if taken:
                self._send(*taken, counts)
            else:
                time.sleep(0.005)

    def _next(self, counts: Counts) -> tuple[Said, int] | tuple[()] | None:
        """What to send now and how often that was tried; nothing for a moment; None when all is done."""
        with self._lock:
            now = time.monotonic()
            if self._waiting and self._waiting[0][0] <= now:
                _, _, said, attempts = heapq.heappop(self._waiting)
            elif self._left:
                self._left -= 1
                self._give_up = now + ACKNOWLEDGED_WITHIN_S
                said, attempts = self._newsroom.speak(), 0
                counts.said += 1
                if self._dice.random() < HELD_UP:
                    self._later(now + self._dice.uniform(0, HELD_UP_MAX_S), said, 0)
                    return ()
            else:
                return () if (self._waiting or self._under_way) and now < self._give_up else None
            self._under_way += 1
            return said, attempts

    def _later(self, when: float, said: Said, attempts: int) -> None:
        heapq.heappush(self._waiting, (when, next(self._order), said, attempts))

    def _send(self, said: Said, attempts: int, counts: Counts) -> None:
        with self._lock:
            unreceived = self._dice.random() < UNHEARD
        began = time.monotonic()
        answer = self._post(said, unreceived)
        now = time.monotonic()
        with self._lock:
            counts.sent += 1
            counts.retries += attempts > 0
            self._under_way -= 1
            if answer != "answer not waited for":
                counts.answered_s.append(now - began)
            if answer.startswith("2"):
                counts.acknowledged += 1
                counts.last_acknowledged = now
                self._newsroom.acknowledge(said)
                if self._dice.random() < TWICE:
                    counts.twice += 1
                    self._later(now + self._dice.uniform(0, HELD_UP_MAX_S), said, 0)
                return
            counts.failed[answer] += 1
            wait_s = min(RETRY_MAX_S, RETRY_S * 2**attempts) * self._dice.uniform(0.5, 1.5)
            self._later(now + wait_s, said, attempts + 1)

    def _post(self, said: Said, unreceived: bool) -> str:
        connection = http.client.HTTPConnection(*self._at, timeout=ANSWER_MAX_S)
        try:
            connection.request("POST", f"/webhooks/{HOST}/cms", said.body, signed(said))
            if unreceived:
                return "answer not waited for"
            answer = connection.getresponse()
            body = answer.read()
            # A refusal would be sent again for ever: what it says is worth knowing.
            return str(answer.status) if answer.status not in range(400, 500) else f"{answer.status} {body.decode()}"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()
