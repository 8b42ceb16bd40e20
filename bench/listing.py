"""What `Listing=yes` costs: an audit that finds nothing, and an import, counted on the local stack."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import fsum
from pathlib import Path
from unittest import mock

from bench import cost, model
from bench.archive import TEMPLATE, newsroom
from bench.measuring import Measured, measuring
from bench.newsroom import HOST, NOW, SITE, Story, spread
from stoppress.http import client
from stoppress_cli.local import template
from stoppress_cli.local.stack import Stack
from stoppress_cli.stack.import_ import checkpoint_of, listing_of, run, site_of
from tests.support.blog import Blog
from tests.support.operated import doors

HOUR = timedelta(hours=1)
# An archive's years. Its articles fill the shards of each month evenly.
YEARS = timedelta(days=5 * 365)


@contextmanager
def audited(stories: int) -> Iterator[Stack]:
    """The stack of a newsroom whose WordPress lists so many stories of the last two days, all recorded."""
    blog = Blog(HOST)
    listed = {"url": f"https://{HOST}/wp-json/wp/v2/posts"}
    source = {"adapter": "wordpress", "secret": "newsroom", "settings": {"signature": "standard"}, "list": listed}
    site = {**SITE, "sources": {"cms": source}}
    with mock.patch.object(client, "fetch", blog.fetch), newsroom(site=site, listing="yes") as stack:
        for number, at in enumerate(spread(stories, NOW - 40 * HOUR, NOW - HOUR), 1):
            blog.publish(number, at)
        for _ in range(3):  # the first audit has them recorded
            stack.advance(stack.clock.now() + HOUR, every_schedule=True)
        yield stack


def audit(stories: int) -> Measured:
    """What an audit uses that lists so many stories and finds nothing."""
    with audited(stories) as stack:
        hour = stack.clock.now().replace(minute=0, second=0) + HOUR
        stack.advance(hour - timedelta(minutes=2), every_schedule=True)
        with measuring(stack) as idle:
            stack.advance(hour - timedelta(minutes=1), every_schedule=True)
        with measuring(stack) as found:
            stack.advance(hour, every_schedule=True)
    assert found.invocations["AuditSources"] == 1, found.invocations
    return found - idle


def rows(articles: int) -> Iterator[str]:
    """An archive as JSON Lines."""
    for number, at in enumerate(spread(articles, NOW - YEARS, NOW - timedelta(days=3)), 1):
        yield json.dumps(Story(number, at).data()) + "\n"


@dataclass(frozen=True, slots=True)
class Import:
    """What the import of so many articles used. `articles_a_second`: at the template's concurrency, by the model of AWS."""

    articles: int
    found: Measured
    articles_a_second: float


def imported(articles: int) -> Import:
    """Import an archive into an empty newsroom."""
    with tempfile.TemporaryDirectory() as folder, newsroom(listing="yes") as stack, doors(stack):
        path = Path(folder) / "archive.jsonl"
        path.write_text("".join(rows(articles)), encoding="utf-8")
        cost.warm(stack)
        site = site_of(HOST)
        with measuring(stack) as found:
            run(
                listing_of(str(path), site, "cms"),
                site,
                checkpoint_of(Path(folder) / "at.json", HOST, str(path), "cms"),
                rate=1e9,
            )
            stack.rest()
    records = [each for each in found.runs if each.function == "RecordArticle"]
    seconds = fsum(model.duration_ms(each) for each in records) / 1_000
    return Import(articles, found, articles / seconds * concurrency())


def concurrency() -> int:
    """How many invocations of record_article work on imports at once."""
    resources = template.load(TEMPLATE, {"Listing": "yes"}).resources
    return int(resources["RecordImports"]["Properties"]["ScalingConfig"]["MaximumConcurrency"])
