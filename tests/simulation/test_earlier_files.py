"""`stoppress explain --at` agrees with the files of an earlier instant, for edited, moved, removed, held and expired pages.

A seed is a newsroom of some days, whose files are copied at random instants. The versions in the bucket must equal the copies.
"""

import random
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from html import unescape

import pytest

from stoppress.aws import bucket
from stoppress.primitives.instants import exact, whole
from stoppress.show.file_versions import past_of
from stoppress_cli.local.process import environment
from tests.simulation.newsroom import Newsroom, fresh_stack

HOST = "www.example.com"
SITE = {"sources": {"cms": {"secret": "shared/newsroom"}}, "shards": {"by": "day", "size": 3}}
SEEDS, INSTANTS = range(5), 50
STORIES = 6
_URL = re.compile(r"<url>.*?</url>")
# Entries of files: file, URL, headline and lastmod.
Listed = set[tuple[str, str, str, str]]


def text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def listed_in(objects: dict[str, bytes]) -> Listed:
    return {
        (key.removeprefix(f"{HOST}/"), tag("loc", entry), tag("news:title", entry), tag("lastmod", entry))
        for key, body in objects.items()
        if key.startswith(f"{HOST}/")
        for entry in _URL.findall(body.decode())
        if tag("loc", entry) != f"https://{HOST}/"  # an emptied file lists the home page
    }


def tag(name: str, entry: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", entry)
    return unescape(found[1]) if found else ""


def act(room: Newsroom, urls: dict[int, str], dates: dict[int, datetime]) -> None:
    """Publish, edit, move or remove a story, perhaps dated yesterday or tomorrow."""
    id_, rng, now = room.rng.randint(1, STORIES), room.rng, room.now
    kind = "article.published"
    if id_ in urls and rng.random() < 0.2:
        kind = "article.unpublished"
    elif id_ not in urls or rng.random() < 0.3:
        urls[id_] = f"https://{HOST}/{rng.choice('ab')}/{id_}?é&{rng.randint(1, 2)}"
        dates.setdefault(id_, now + timedelta(hours=rng.choice((0, 0, -1, -40, 5))))
    times = {"published_at": text(dates[id_]), "updated_at": text(now)}
    data = {"id": str(id_), "url": urls[id_], "title": f"Story & {rng.randint(1, 9)}", **times}
    assert room.post(HOST, {"type": kind, "timestamp": text(now), "data": data}) == 200


def differences(seed: int) -> Iterator[str]:
    rng = random.Random(f"earlier files {seed}")
    with fresh_stack() as stack:
        room = Newsroom(stack, rng, {HOST: SITE})
        urls: dict[int, str] = {}
        dates: dict[int, datetime] = {}
        copies: list[tuple[datetime, Listed]] = []
        for _ in range(INSTANTS):
            act(room, urls, dates)
            stack.advance(room.now + timedelta(seconds=rng.choice((1, 2, 40, 3_600, 30_000))))
            copies.append((room.now, listed_in(stack.backend.objects())))
            stack.advance(whole(room.now) + timedelta(seconds=1))
        pages = sorted({url for _, listed in copies for _, url, _, _ in listed})
        with environment(stack.wiring.variables() | {"FILE_VERSIONS_DAYS": "14"}):
            for at, listed in copies:
                url = rng.choice(pages)
                past = past_of(url, None, exact(at), room.now)
                answer = {(row["file"], url, row["title"], row["lastmod"]) for row in past["listings"]}
                expected = {row for row in listed if row[1] == url}
                # An instant before the bucket's first version is unknown after 14 days.
                if answer != expected and not (past["unknown"] and at < room.now - timedelta(days=14)):
                    yield f"{url} at {at}: {answer}, not {expected}; unknown: {past['unknown']}"


@pytest.mark.matrix
@pytest.mark.parametrize("number", SEEDS)
def test_an_answer_for_an_earlier_instant_agrees_with_its_files(number: int) -> None:
    assert list(differences(number)) == []


@pytest.mark.matrix
def test_an_answer_from_the_previous_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bucket.version_at
    earlier = timedelta(seconds=2)
    monkeypatch.setattr(bucket, "version_at", lambda versions, at, now: right(versions, at - earlier, now))
    assert list(differences(1)) != []
