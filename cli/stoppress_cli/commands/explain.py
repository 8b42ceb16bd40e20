"""`stoppress explain`: the answer about a page, as lines of text."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from stoppress.model.entries import names_rule
from stoppress.primitives.instants import iso
from stoppress.show.read_story import Received, local_time
from stoppress.show.story import Answer, ArticleState, Story, story_of
from stoppress.show.timeline import Stop
from stoppress_cli.options import READS, Commands
from stoppress_cli.output import ATTENTION, OK, print_answer

app = Commands()


@app.command(effect=READS, example="stoppress explain https://www.example.com/news/flood --stack stoppress")
def explain(
    what: Annotated[str, typer.Argument(help="URL of the page, an article as source#id, or a part of the URL's path.")],
    site: Annotated[
        str | None, typer.Option("--site", help="Host of the site; default: the URL's, or the only site.")
    ] = None,
    news: Annotated[bool, typer.Option("--news", help="Set the exit code by the news sitemap alone.")] = False,
) -> None:
    """Show whether a page is in the news sitemap and in the general sitemap, until when, or why not.

    Exit code 0: a sitemap lists the page; 1: none does; with --news only the news sitemap counts; 2: the stack cannot be
    reached, or the page or site cannot be found.
    """
    story = story_of(what, site, datetime.now(UTC))
    print_answer(story, as_lines(story))
    raise typer.Exit(OK if (story.news.listed if news else story.is_listed) else ATTENTION)


def as_lines(story: Story) -> Iterator[str]:
    """Yield the answer in lines: the two sitemaps, the articles, and the deliveries of 90 days."""
    zone = ZoneInfo(story.timezone)
    yield f"In the news sitemap: {_answer(story.news, zone)}"
    yield f"In the general sitemap: {_answer(story.general, zone)}"
    yield story.url or f"{story.asked}: its URL is not known"
    for article in story.articles:
        yield from _article(article, story.url, zone)
    if story.way:
        yield "  its way to the search engines:"
        yield from (f"    {_stop(stop, zone)}" for stop in story.way)
    if story.not_notified:
        yield f"    not notified yet: {story.not_notified}"
    if story.google:
        yield f"    Google says: {story.google}"
    if story.received:
        yield "  received in 90 days:"
        if story.received_earlier:
            yield f"    … {story.received_earlier} earlier"
        yield from (f"    {_received(received)}" for received in story.received)
    yield from (f"  not everything was searched: {text}" for text in story.unsearched)
    if story.did_you_mean:
        yield "Did you mean?"
        yield from (f"  {url}" for url in story.did_you_mean)


def _answer(answer: Answer, zone: ZoneInfo) -> str:
    reasons = "; also, ".join(reason.text for reason in answer.reasons)
    if not answer.listed:
        return f"no, because {reasons}"
    until = f", until {local_time(answer.until, zone)}" if answer.until else ""
    if answer.reasons:
        until = f", until its file is written again, because {reasons}"
    return f"yes{until} ({answer.file}{f', last changed {local_time(answer.changed, zone)}' if answer.changed else ''})"


def _article(article: ArticleState, url: str, zone: ZoneInfo) -> Iterator[str]:
    yield f"  article {article.name}: {article.state}, first seen {local_time(article.first_received, zone)}"
    if article.url and article.url != url:
        yield f"    its page is {article.url}"
    if article.reason:
        yield f"    {article.reason}"
    if article.first_published:
        yield f"    first published {local_time(article.first_published, zone)}"
    if article.last_changed:
        yield f"    last changed {local_time(article.last_changed, zone)}"
    for part in article.dropped:
        yield f"    left out of its entry: {part}"


def _stop(stop: Stop, zone: ZoneInfo) -> str:
    after = f", {stop.after_seconds:,} s later" if stop.after_seconds is not None else ""
    return f"{stop.what} {local_time(stop.at, zone)}{after}"


def _received(received: Received) -> str:
    of_then = "by the rules of that time, " if names_rule(received.reason) else ""
    why = f": {of_then}{received.reason}" if received.reason else ""
    by = f" by {received.by}" if received.by else ""
    url = f" at {received.url}" if received.url else ""
    when = f" of {iso(received.sent_at)}" if received.sent_at else ""
    return f"{iso(received.at)}  {received.action or 'delivery'}{by}{url}{when}  {received.outcome}{why}"
