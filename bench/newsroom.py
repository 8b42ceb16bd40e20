"""A newsroom to measure with: its site, the articles it has published, and the requests of its CMS."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stoppress.model.http_request import Request
from stoppress_cli.scenario.signing import signed

HOST = "www.example.com"
SECRET = "whsec_c3RvcHByZXNz"
NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
WINDOW = timedelta(hours=48)
SITE = {
    "host": HOST,
    "publication": "Example News",
    "language": "en",
    "timezone": "Europe/Paris",
    "sources": {"cms": {"secret": "newsroom"}},
}
_SECTIONS = ("local", "politics", "economy", "culture", "sport", "science")
_WORDS = tuple(
    "harbour council market ferry bridge budget strike concert storm election hospital school railway river museum theatre"
    " football airport police court fire housing tax energy water wages tourism farming festival library climate vaccine"
    " factory startup bakery border treaty minister mayor verdict".split()
)
# Knuth's multiplicative hash: words that look random but are the same in every run.
_SPREAD = 2_654_435_761


@dataclass(frozen=True, slots=True)
class Story:
    """An article by its number in the newsroom's life and the instant of its publication."""

    number: int
    published: datetime

    @property
    def id(self) -> str:
        """Return the article's id in the CMS."""
        return str(self.number)

    def words(self) -> list[str]:
        """Return the four words of the article's subject."""
        mixed = self.number * _SPREAD % 2**32
        return [_WORDS[mixed // len(_WORDS) ** place % len(_WORDS)] for place in range(4)]

    def url(self, slug: str = "") -> str:
        """Return the article's URL, as long as those of newspapers; `slug` replaces its first word."""
        return f"https://{HOST}/{self.published:%Y/%m/%d}/{slug or 'the'}-{'-'.join(self.words())}-{self.number}"

    def data(self, *, updated: datetime | None = None, **fields: Any) -> dict[str, Any]:
        """Return the CMS's data of the article, with a headline, a section, three keywords and an image."""
        first, second, third, fourth = self.words()
        return {
            "id": self.id,
            "url": self.url(),
            "title": f"The {first} and the {second}: what the {third} means for the {fourth}, and why it matters",
            "published_at": text(self.published),
            "updated_at": text(updated or self.published),
            "section": _SECTIONS[self.number % len(_SECTIONS)],
            "keywords": [first, second, "region"],
            "images": [{"url": f"https://img.example.com/{self.published:%Y/%m}/{self.number}-1200x675.jpg"}],
        } | fields

    def message_id(self, at: datetime) -> str:
        """Return the id of the delivery that is sent at an instant."""
        return f"msg_{self.id}_{at:%d%H%M%S}"

    def delivery(self, kind: str, at: datetime, **fields: Any) -> dict[str, Any]:
        """Return the body of a webhook, of the type `article.<kind>`, sent at an instant."""
        data = self.data(**fields) if kind in ("published", "updated") else {"id": self.id}
        return {"type": f"article.{kind}", "timestamp": text(at), "data": data}


def request(delivery: dict[str, Any], at: datetime, message_id: str) -> Request:
    """Return a signed request of the CMS."""
    body = json.dumps(delivery, ensure_ascii=False).encode()
    headers = {"content-type": "application/json"}
    return signed(Request(headers, body, path=f"/webhooks/{HOST}/cms"), "standard", SECRET, message_id, at)


def spread(count: int, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield `count` whole seconds, evenly from `start` on, all before `end`."""
    for number in range(count):
        yield (start + (end - start) * number / count).replace(microsecond=0)


def text(instant: datetime) -> str:
    """Return an instant as the CMS writes it."""
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
