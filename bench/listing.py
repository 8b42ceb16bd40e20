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

from bench import cost, model, report
from bench.archive import TEMPLATE, newsroom
from bench.measuring import Measured, measuring
from bench.newsroom import HOST, NOW, SITE, Story, spread
from stoppress.aws import queues
from stoppress.http import client
from stoppress_cli.local import template
from stoppress_cli.local.stack import Stack
from stoppress_cli.stack.import_ import Tally, checkpoint_of, listing_of, run, site_of
from tests.support.blog import Blog
from tests.support.operated import doors

HOUR = timedelta(hours=1)
# The last day of an archive, and its length. Its articles fill the shards of each month evenly.
ARCHIVE_END = NOW - timedelta(days=21)
YEARS = timedelta(days=5 * 365)
MONTH = timedelta(days=29)


@contextmanager
def audited(stories: int) -> Iterator[Stack]:
    """The stack of a newsroom whose WordPress lists so many stories of the last two days, all recorded."""
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


def rows(articles: int, length: timedelta = YEARS) -> list[str]:
    """An archive of that length as JSON Lines, in the order of publication."""
    instants = spread(articles, ARCHIVE_END - length, ARCHIVE_END)
    return [json.dumps(Story(number, at).data()) + "\n" for number, at in enumerate(instants, 1)]


@dataclass(frozen=True, slots=True)
class Import:
    """What the import of so many articles used.

    The rates are articles a second by the model of AWS: of record_article at the template's concurrency, and of
    rewrite_sitemaps where the table's stream has a single shard.
    """

    articles: int
    found: Measured
    recorded_a_second: float
    rewritten_a_second: float


def imported(articles: int) -> Import:
    """Import articles of a month, in the order of publication, into an empty newsroom. A large archive in that order costs the same for each.

    The functions work after each second of the command, because the table's stream waits a second for a batch.
    """
    sent = 0

    def show(tally: Tally, _total: int | None) -> None:
        nonlocal sent
        if tally.listed >= sent + report.SENT_A_SECOND:
            sent = tally.listed
            stack.rest()

    with tempfile.TemporaryDirectory() as folder, newsroom(Listing="yes") as stack, doors(stack):
        path = Path(folder) / "archive.jsonl"
        path.write_text("".join(rows(articles, MONTH)), encoding="utf-8")
        cost.warm(stack)
        site = site_of(HOST)
        checkpoint = checkpoint_of(Path(folder) / "at.json", HOST, str(path), "cms")
        with measuring(stack) as found, mock.patch.object(queues, "send_imports", wraps=queues.send_imports) as sends:
            run(listing_of(str(path), site, "cms"), site, checkpoint, rate=1e9, show=show)
            stack.rest()
    found.calls["sqs.SendMessageBatch"] += sends.call_count
    seconds = {
        function: fsum(model.duration_ms(each) for each in found.runs if each.function == function) / 1_000
        for function in ("RecordArticle", "RewriteSitemaps")
    }
    return Import(
        articles,
        found,
        articles / seconds["RecordArticle"] * concurrency(),
        articles / seconds["RewriteSitemaps"],
    )


def concurrency() -> int:
    """How many invocations of record_article work on imports at once."""
    resources = template.load(TEMPLATE, {"Listing": "yes"}).resources
    return int(resources["RecordImports"]["Properties"]["ScalingConfig"]["MaximumConcurrency"])
