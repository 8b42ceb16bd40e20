"""What `Listing=yes` costs: counts on the local stack what an import uses, and an audit that finds no lost webhook."""

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
from stoppress.aws import queues, sites
from stoppress.http import client
from stoppress_cli.commands.import_ import Checkpoint, Tally, run
from stoppress_cli.inputs.archive import listing_of
from stoppress_cli.local import template
from stoppress_cli.local.stack import Stack
from tests.support.blog import Blog
from tests.support.operated import doors

HOUR = timedelta(hours=1)
# The last day of an archive, and the lengths of two archives.
ARCHIVE_END = NOW - timedelta(days=21)
YEARS = timedelta(days=5 * 365)
MONTH = timedelta(days=29)


@contextmanager
def audited(stories: int) -> Iterator[Stack]:
    """The stack of a newsroom whose WordPress lists `stories` stories of the last two days, all recorded."""
    blog = Blog(HOST)
    listed = {"url": f"https://{HOST}/wp-json/wp/v2/posts"}
    source = {"adapter": "wordpress", "secret": "newsroom", "settings": {"signature": "standard"}, "list": listed}
    site = {**SITE, "sources": {"cms": source}}
    with mock.patch.object(client, "fetch", blog.fetch), newsroom(site=site, Listing="yes") as stack:
        for number, at in enumerate(spread(stories, NOW - 40 * HOUR, NOW - HOUR), 1):
            blog.publish(number, at)
        for _ in range(3):  # the first audit has them recorded
            stack.advance(stack.clock.now() + HOUR, every_schedule=True)
        yield stack


def audit(stories: int) -> Measured:
    """What one audit uses that lists `stories` stories and finds no lost webhook."""
    with audited(stories) as stack:
        hour = stack.clock.now().replace(minute=0, second=0) + HOUR
        stack.advance(hour - timedelta(minutes=2), every_schedule=True)
        with measuring(stack) as idle:
            stack.advance(hour - timedelta(minutes=1), every_schedule=True)
        with measuring(stack) as busy:
            stack.advance(hour, every_schedule=True)
    assert busy.invocations["AuditSources"] == 1, busy.invocations
    return busy - idle


def rows(articles: int, length: timedelta = YEARS) -> list[str]:
    """An archive as lines of JSON, in the order of publication. `length` is the time from the first article to the last."""
    instants = spread(articles, ARCHIVE_END - length, ARCHIVE_END)
    return [json.dumps(Story(number, at).data()) + "\n" for number, at in enumerate(instants, 1)]


@dataclass(frozen=True, slots=True)
class Import:
    """What the import of `articles` articles used.

    The rates are in articles a second, by the model of AWS in `bench.model`. `recorded_a_second` is for the template's concurrency of
    record_article, `rewritten_a_second` for a table whose stream has one shard.
    """

    articles: int
    used: Measured
    recorded_a_second: float
    rewritten_a_second: float


def imported(articles: int) -> Import:
    """Import the articles of a month, in the order of publication, into an empty newsroom.

    In this order, an article of a large archive costs the same. The functions run after each page of 100 articles: the next page comes
    two seconds later, and the table's stream collects a batch for one second.
    """

    def show(_tally: Tally, _total: int | None) -> None:
        stack.rest()

    with tempfile.TemporaryDirectory() as folder, newsroom(Listing="yes") as stack, doors(stack):
        path = Path(folder) / "archive.jsonl"
        path.write_text("".join(rows(articles, MONTH)), encoding="utf-8")
        cost.warm(stack)
        site = sites.load(HOST)
        checkpoint = Checkpoint(Path(folder) / "at.json")
        with measuring(stack) as used, mock.patch.object(queues, "send_imports", wraps=queues.send_imports) as sends:
            run(listing_of(str(path), site, "cms"), site, checkpoint, rate=1e9, show=show)
            stack.rest()
    used.calls["sqs.SendMessageBatch"] += sends.call_count
    seconds = {
        function: fsum(model.duration_ms(each) for each in used.runs if each.function == function) / 1_000
        for function in ("RecordArticle", "RewriteSitemaps")
    }
    return Import(
        articles,
        used,
        articles / seconds["RecordArticle"] * concurrency(),
        articles / seconds["RewriteSitemaps"],
    )


def concurrency() -> int:
    """How many invocations of record_article work on imports at once."""
    resources = template.load(TEMPLATE, {"Listing": "yes"}).resources
    return int(resources["RecordImports"]["Properties"]["ScalingConfig"]["MaximumConcurrency"])
