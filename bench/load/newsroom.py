"""What the newsroom of a flood says of its articles, delivery by delivery, and what was acknowledged of it."""

import base64
import hashlib
import hmac
import itertools
import json
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

HOST = "www.example.com"
KEY = b"a secret of a newsroom, of 32 by"


@dataclass(frozen=True)
class Page:
    """What the files are to say of an article."""

    url: str
    title: str
    first: datetime
    changed: datetime


@dataclass(frozen=True)
class Said:
    """One delivery: its webhook-id, and what holds of the article from this version on (None: it is in no file)."""

    id: str
    article: int
    version: int
    body: bytes
    page: Page | None


class Newsroom:
    """Thinks of deliveries, and remembers of each article the newest one that was acknowledged."""

    def __init__(self, articles: int, dice: random.Random, now: datetime) -> None:
        self._dice, self._now = dice, now.replace(microsecond=0)
        self._versions = [0] * articles
        self._live = [False] * articles
        self._fresh = itertools.cycle(range(articles))  # all are published before the first is edited
        self.acknowledged: dict[int, Said] = {}
        self.said: dict[int, Said] = {}

    def speak(self) -> Said:
        """The next delivery."""
        number = next(self._fresh)
        if self._versions[number]:
            number = self._dice.randrange(len(self._versions))
        version = self._versions[number] = self._versions[number] + 1
        removal = version > 1 and self._live[number] and self._dice.random() < 0.15
        first = self._published(number)
        changed = max(first, self._now + timedelta(seconds=version - 3_600))
        # Two addresses in turn: whatever was told of a third one would stay in the table for ever, and should.
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
        said = Said(f"msg_{number}_{version}", number, version, json.dumps(body).encode(), page)
        self.said[number] = said
        return said

    def _published(self, number: int) -> datetime:
        """Two of three are news and stay it for the next hours, the others are of one of the last ten months."""
        age = timedelta(hours=number % 40) if number % 3 else timedelta(days=5 + number * 7 % 300)
        return self._now - age - timedelta(hours=1)

    def acknowledge(self, said: Said) -> None:
        known = self.acknowledged.get(said.article)
        if known is None or known.version < said.version:
            self.acknowledged[said.article] = said

    def pages(self) -> list[Page]:
        """What the files must list."""
        return [said.page for said in self.acknowledged.values() if said.page]


def text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def signed(said: Said) -> dict[str, str]:
    """The headers of a delivery, as Standard Webhooks 1.0 has them; each attempt is signed anew, its id stays."""
    sent = str(int(time.time()))
    digest = hmac.new(KEY, f"{said.id}.{sent}.".encode() + said.body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": said.id,
        "webhook-timestamp": sent,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
