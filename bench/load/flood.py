"""A flood of webhooks: the newsroom that publishes, and the senders.

Deliveries arrive late, twice and out of order, and each is retried until it is acknowledged.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, cycle
from typing import Any
from urllib.parse import urlsplit

from bench.newsroom import HOST, SECRET, text
from stoppress.model.http_request import Request
from stoppress_cli.scenario.signing import signed

HELD_UP = 0.08  # share of the deliveries that are delayed, so that others overtake them
HELD_UP_MAX_S = 1.5
TWICE = 0.05  # share of the acknowledged deliveries that are sent again
RETRY_S, RETRY_MAX_S = 0.05, 2.0  # doubled with each attempt
ANSWER_MAX_S = 60.0
# Senders stop retrying a delivery this long after its first attempt.
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
    """One delivery: its webhook-id, and the article's page from this version on (None: in no file)."""

    id: str
    article: int
    version: int
    body: bytes
    page: Page | None


class Newsroom:
    """Generates deliveries, and stores the newest acknowledged delivery of each article."""

    def __init__(self, articles: int, rng: random.Random, now: datetime) -> None:
        self._rng, self._now = rng, now.replace(microsecond=0)
        self._versions = [0] * articles
        self._live = [False] * articles
        self._fresh = cycle(range(articles))  # all are published before the first is edited
        self.acknowledged: dict[int, Delivery] = {}
        self.newest: dict[int, Delivery] = {}

    def next_delivery(self) -> Delivery:
        """Return the next delivery."""
        number = next(self._fresh)
        if self._versions[number]:
            number = self._rng.randrange(len(self._versions))
        version = self._versions[number] = self._versions[number] + 1
        removal = version > 1 and self._live[number] and self._rng.random() < 0.15
        # Two of three articles are news for the next hours, the others are from one of the last ten months.
        age = timedelta(hours=number % 40) if number % 3 else timedelta(days=5 + number * 7 % 300)
        first = self._now - age - timedelta(hours=1)
        changed = max(first, self._now + timedelta(seconds=version - 3_600))
        # Two URLs in turn: the table would rightly keep the items of a third URL for ever.
        url = f"https://{HOST}/story-{number}" + ("-moved" if version // 2 % 2 else "")
        title = f"Story {number} & what is known of it, {version}. edition"
        data: dict[str, Any] = {"id": str(number), "version": version}
        hidden = not removal and self._rng.random() < 0.05
        if not removal:
            data |= {"url": url, "title": title, "published_at": text(first), "updated_at": text(changed)}
            data |= {"section": "local", "keywords": ["harbour", "flood", "story"], "noindex": hidden}
        self._live[number] = not removal
        kind = self._rng.choice(["unpublished", "deleted"] if removal else ["published", "updated"])
        body = {"type": f"article.{kind}", "timestamp": text(datetime.now(UTC)), "data": data}
        page = None if removal or hidden else Page(url, title, first, changed)
        delivery = Delivery(f"msg_{number}_{version}", number, version, json.dumps(body).encode(), page)
        self.newest[number] = delivery
        return delivery

    def acknowledge(self, delivery: Delivery) -> None:
        """Store that a delivery was acknowledged."""
        last = self.acknowledged.get(delivery.article)
        if last is None or last.version < delivery.version:
            self.acknowledged[delivery.article] = delivery

    @property
    def pages(self) -> list[Page]:
        """Return the pages that the files must list."""
        return [delivery.page for delivery in self.acknowledged.values() if delivery.page]


@dataclass
class Counts:
    """The counts of a flood, on the senders' side."""

    new: int = 0
    sent: int = 0
    acknowledged: int = 0
    retries: int = 0
    twice: int = 0
    seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    answered_s: list[float] = field(default_factory=list)


class Flood:
    """Senders of webhooks."""

    def __init__(self, url: str, newsroom: Newsroom, senders: int, rng: random.Random) -> None:
        self._at = (str(urlsplit(url).hostname), int(urlsplit(url).port or 80))
        self._newsroom, self._senders, self._rng = newsroom, senders, rng
        self._lock = threading.Lock()

    def send(self, webhooks: int, counts: Counts) -> None:
        """Send `webhooks` new webhooks; return when each delivery is acknowledged, or no longer retried."""
        began = time.monotonic()
        counts.new += webhooks
        deliveries = [self._newsroom.next_delivery() for _ in range(webhooks)]
        with ThreadPoolExecutor(self._senders) as pool:
            list(pool.map(lambda delivery: self._send_delivery(delivery, counts), deliveries))
        counts.seconds += time.monotonic() - began

    def _send_delivery(self, delivery: Delivery, counts: Counts) -> None:
        """Send a delivery, perhaps late, until it is acknowledged, and perhaps once more."""
        with self._lock:
            late_s = self._rng.uniform(0, HELD_UP_MAX_S) if self._rng.random() < HELD_UP else 0.0
            is_sent_twice = self._rng.random() < TWICE
        time.sleep(late_s)
        if self._send_until_acknowledged(delivery, counts) and is_sent_twice:
            counts.twice += 1
            time.sleep(late_s)
            self._send_until_acknowledged(delivery, counts)

    def _send_until_acknowledged(self, delivery: Delivery, counts: Counts) -> bool:
        until = time.monotonic() + ACKNOWLEDGED_WITHIN_S
        for attempt in count():
            began = time.monotonic()
            answer = self._post(delivery)
            with self._lock:
                counts.sent += 1
                counts.retries += attempt > 0
                counts.answered_s.append(time.monotonic() - began)
                if answer.startswith("2"):
                    counts.acknowledged += 1
                    self._newsroom.acknowledge(delivery)
                    return True
                counts.failed[answer] += 1
                wait_s = min(RETRY_MAX_S, RETRY_S * 2**attempt) * self._rng.uniform(0.5, 1.5)
            if time.monotonic() > until:
                return False
            time.sleep(wait_s)
        raise AssertionError("the loop has no end")

    def _post(self, delivery: Delivery) -> str:
        # Each attempt is signed anew, its id stays.
        headers = {"content-type": "application/json"}
        headers |= signed(Request(headers, delivery.body), "standard", SECRET, delivery.id, datetime.now(UTC)).headers
        connection = http.client.HTTPConnection(*self._at, timeout=ANSWER_MAX_S)
        try:
            connection.request("POST", f"/webhooks/{HOST}/cms", delivery.body, headers)
            answer = connection.getresponse()
            body = answer.read()
            # The senders retry a rejected request too, so the report contains the reason.
            return str(answer.status) if answer.status not in range(400, 500) else f"{answer.status} {body.decode()}"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()
