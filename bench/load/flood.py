"""A flood of webhooks: what its newsroom publishes, and its senders.

Deliveries come late, twice and overtaken, and each of them again until it has been acknowledged.
"""

import heapq
import http.client
import itertools
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from bench.newsroom import HOST, SECRET, text
from stoppress_cli.scenario.signing import standard

HELD_UP = 0.08  # of the deliveries: on their way for so long that others overtake them
HELD_UP_MAX_S = 1.5
TWICE = 0.05  # of those that were acknowledged: they come once more all the same
UNHEARD = 0.02  # of the deliveries: the sender is gone before the answer has come
RETRY_S, RETRY_MAX_S = 0.05, 2.0  # doubled with each attempt
ANSWER_MAX_S = 60.0
# A flood that is not acknowledged so long after its last new delivery has failed.
ACKNOWLEDGED_WITHIN_S = 120.0


@dataclass(frozen=True)
class Page:
    """What the files must contain of an article."""

    url: str
    title: str
    first: datetime
    changed: datetime


@dataclass(frozen=True)
class Delivery:
    """One delivery: its webhook-id, and the article's page from this version on (None: it is in no file)."""

    id: str
    article: int
    version: int
    body: bytes
    page: Page | None


class Newsroom:
    """Invents deliveries, and remembers of each article the newest one that was acknowledged."""

    def __init__(self, articles: int, dice: random.Random, now: datetime) -> None:
        self._dice, self._now = dice, now.replace(microsecond=0)
        self._versions = [0] * articles
        self._live = [False] * articles
        self._fresh = itertools.cycle(range(articles))  # all are published before the first is edited
        self.acknowledged: dict[int, Delivery] = {}
        self.newest: dict[int, Delivery] = {}

    def next_delivery(self) -> Delivery:
        """Return the next delivery."""
        number = next(self._fresh)
        if self._versions[number]:
            number = self._dice.randrange(len(self._versions))
        version = self._versions[number] = self._versions[number] + 1
        removal = version > 1 and self._live[number] and self._dice.random() < 0.15
        # Two of three are news and stay it for the next hours, the others are of one of the last ten months.
        age = timedelta(hours=number % 40) if number % 3 else timedelta(days=5 + number * 7 % 300)
        first = self._now - age - timedelta(hours=1)
        changed = max(first, self._now + timedelta(seconds=version - 3_600))
        # Two addresses in turn: what was recorded of a third one would stay in the table for ever, and should.
        url = f"https://{HOST}/story-{number}" + ("-moved" if version // 2 % 2 else "")
        title = f"Story {number} & what is known of it, {version}. edition"
        data: dict[str, Any] = {"id": str(number), "version": version}
        hidden = not removal and self._dice.random() < 0.05
        if not removal:
            data |= {"url": url, "title": title, "published_at": text(first), "updated_at": text(changed)}
            data |= {"section": "local", "keywords": ["harbour", "flood", "story"], "noindex": hidden}
        self._live[number] = not removal
        kind = self._dice.choice(["unpublished", "deleted"] if removal else ["published", "updated"])
        body = {"type": f"article.{kind}", "timestamp": text(datetime.now(UTC)), "data": data}
        page = None if removal or hidden else Page(url, title, first, changed)
        delivery = Delivery(f"msg_{number}_{version}", number, version, json.dumps(body).encode(), page)
        self.newest[number] = delivery
        return delivery

    def acknowledge(self, delivery: Delivery) -> None:
        """Remember that a delivery was acknowledged."""
        last = self.acknowledged.get(delivery.article)
        if last is None or last.version < delivery.version:
            self.acknowledged[delivery.article] = delivery

    @property
    def pages(self) -> list[Page]:
        """What the files must list."""
        return [delivery.page for delivery in self.acknowledged.values() if delivery.page]


@dataclass
class Counts:
    """What a flood was, as its senders saw it."""

    new: int = 0
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
        self._waiting: list[tuple[float, int, Delivery, int]] = []  # when, order, what, attempts so far
        self._order = itertools.count()
        self._under_way = self._left = 0
        self._give_up = 0.0

    def pour(self, webhooks: int, counts: Counts) -> None:
        """Send so many new webhooks. What was not acknowledged in time is left; the judge finds it."""
        began = time.monotonic()
        self._left, self._give_up = webhooks, float("inf")
        threads = [threading.Thread(target=self._send_all, args=(counts,)) for _ in range(self._senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts.seconds += time.monotonic() - began

    def _send_all(self, counts: Counts) -> None:
        while (taken := self._take(counts)) is not None:
            if taken:
                self._send(*taken, counts)
            else:
                time.sleep(0.005)

    def _take(self, counts: Counts) -> tuple[Delivery, int] | tuple[()] | None:
        """Return what to send now and how often that was tried; nothing for a moment; None when all is sent."""
        with self._lock:
            now = time.monotonic()
            if self._waiting and self._waiting[0][0] <= now:
                _, _, delivery, attempts = heapq.heappop(self._waiting)
            elif self._left:
                self._left -= 1
                self._give_up = now + ACKNOWLEDGED_WITHIN_S
                delivery, attempts = self._newsroom.next_delivery(), 0
                counts.new += 1
                if self._dice.random() < HELD_UP:
                    self._send_later(now + self._dice.uniform(0, HELD_UP_MAX_S), delivery, 0)
                    return ()
            else:
                return () if (self._waiting or self._under_way) and now < self._give_up else None
            self._under_way += 1
            return delivery, attempts

    def _send_later(self, when: float, delivery: Delivery, attempts: int) -> None:
        heapq.heappush(self._waiting, (when, next(self._order), delivery, attempts))

    def _send(self, delivery: Delivery, attempts: int, counts: Counts) -> None:
        with self._lock:
            unreceived = self._dice.random() < UNHEARD
        began = time.monotonic()
        answer = self._post(delivery, unreceived)
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
                self._newsroom.acknowledge(delivery)
                if self._dice.random() < TWICE:
                    counts.twice += 1
                    self._send_later(now + self._dice.uniform(0, HELD_UP_MAX_S), delivery, 0)
                return
            counts.failed[answer] += 1
            wait_s = min(RETRY_MAX_S, RETRY_S * 2**attempts) * self._dice.uniform(0.5, 1.5)
            self._send_later(now + wait_s, delivery, attempts + 1)

    def _post(self, delivery: Delivery, unreceived: bool) -> str:
        # Each attempt is signed anew, its id stays.
        headers = {"content-type": "application/json"}
        headers |= standard(SECRET, headers, delivery.body, delivery.id, datetime.now(UTC))
        connection = http.client.HTTPConnection(*self._at, timeout=ANSWER_MAX_S)
        try:
            connection.request("POST", f"/webhooks/{HOST}/cms", delivery.body, headers)
            if unreceived:
                return "answer not waited for"
            answer = connection.getresponse()
            body = answer.read()
            # A refusal would be sent again for ever: its reason is worth knowing.
            return str(answer.status) if answer.status not in range(400, 500) else f"{answer.status} {body.decode()}"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()
