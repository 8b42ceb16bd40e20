"""`stoppress explain`: the answer about a page, as lines of text."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.text import Text

from stoppress.model.entries import contains_rule
from stoppress.model.file_names import is_news
from stoppress.primitives.instants import local_time, parse
from stoppress.show.file_versions import Past, past_of
from stoppress.show.read_story import Received
from stoppress.show.story import Answer, Story, story_of
from stoppress_cli.options import READS, At, Commands
from stoppress_cli.output import Part, Row, Table, counted, end, fields_of, state, verbatim

app = Commands()

# Signs of the bar, one for each hour of the window.
HOURS = 48
# A sender's timestamp is shown if it is further than this from the delivery.
SENT_APART_MAX = timedelta(minutes=1)
_RELEASE = re.compile(r"(?<=^to be published at )[0-9T:.-]+Z$")


@app.command(effect=READS, example="stoppress explain https://www.example.com/news/flood --stack stoppress")
def explain(
    what: Annotated[
        str, typer.Argument(help="URL of the page, an article as source#id, or a part of the URL or headline.")
    ],
    site: Annotated[str | None, typer.Option(help="Host of the site; default: the URL's, or the only site.")] = None,
    news: Annotated[bool, typer.Option("--news", help="Let the exit code depend on the news sitemap alone.")] = False,
    at: At = None,
) -> None:
    """Show whether the news sitemap and the general sitemap list a page, until when, or why not.

    Exit code 1: no sitemap lists the page; with --news: no news sitemap lists it.
    """
    if at is not None:
        past = past_of(what, site, at, datetime.now(UTC))
        listed = [row for row in past["listings"] if is_news(row["file"]) or not news]
        end(past, past_lines(past), is_ok=bool(listed), is_known=bool(listed or not past["unknown"]))
    story = story_of(what, site, datetime.now(UTC))
    end(story, as_lines(story), is_ok=story.news.listed if news else story.is_listed)


def as_lines(story: Story) -> Iterator[Part]:
    """Yield the answer in lines: the two sitemaps, the 48 hours, the articles, and the deliveries of 90 days."""
    zone = ZoneInfo(story.timezone)
    yield from _answer("In the news sitemap: ", story.news, zone)
    if story.news.reasons[1:] and story.news.reasons == story.general.reasons and not story.is_listed:
        yield Text.assemble("In the general sitemap: ", state("no"), ", for the same reasons")
    else:
        yield from _answer("In the general sitemap: ", story.general, zone)
    if story.google:
        yield f"Seen by Google: {story.google}"
    yield verbatim(story.url or f"{story.asked}: its URL is not known")
    if story.news.until:
        yield f"  {draw_window(story.news.until, story.at)}"
    for article in story.articles:
        yield Text.assemble(f"  article {article['name']}: ", state(article["state"]))
        yield _article(article, story.url, zone)
    if story.way:
        yield "  way to the search engines"
        yield _timeline(story, zone)
    if story.received:
        yield "  received in 90 days"
        if story.received_earlier:
            yield f"    … {story.received_earlier:,} earlier"
        rows = [row for received in story.received for row in _delivery_rows(received, zone)]
        yield Table(("", "", "", ""), rows, indent=4)
    yield from (f"  not everything was searched: {text}" for text in story.unsearched)
    if story.did_you_mean:
        yield "Did you mean?"
        yield from (f"  {url}" for url in story.did_you_mean)


def past_lines(past: Past) -> Iterator[Part]:
    """Yield the answer about an earlier moment in lines."""
    zone, listed = ZoneInfo(past["timezone"]), "yes" if past["listings"] else "unknown" if past["unknown"] else "no"
    yield Text.assemble(f"In a sitemap at {local_time(past['at'], zone)}: ", state(listed))
    yield verbatim(past["url"] or "its URL is not known")
    for row in past["listings"]:
        instants = {name: local_time(cell, zone) for name, cell in row.items() if isinstance(cell, datetime)}
        yield fields_of(row | instants)
    yield from (f"  the bucket no longer has its version of then: {file}" for file in past["unknown"])


def draw_window(until: datetime, now: datetime) -> str:
    """Return the 48 hours of a story as a bar with a sign for each hour, and the remaining hours."""
    remaining = max(0, min(HOURS, ceil((until - now) / timedelta(hours=1))))
    return f"{'█' * (HOURS - remaining)}{'░' * remaining}  {counted(remaining, 'hour')} left"


def _answer(question: str, answer: Answer, zone: ZoneInfo) -> Iterator[Text]:
    first, *others = ["; ".join(reason.text.splitlines()) for reason in answer.reasons] or [""]
    until = f", until {local_time(answer.until, zone)}" if answer.until else ""
    if answer.listed and first:
        until = f", until its file is written again, because {first}"
    changed = f", last changed {local_time(answer.changed, zone)}" if answer.changed else ""
    file = f"{until} ({answer.file}{changed})"
    yield Text.assemble(
        question, state("yes" if answer.listed else "no"), file if answer.listed else f", because {first}"
    )
    yield from (Text(f"  also, {reason}") for reason in others)


def _article(article: Mapping[str, Any], url: str, zone: ZoneInfo) -> Table:
    published, changed = article["first_published"], article["last_changed"]
    rows = {
        "page": article["url"] if article["url"] != url else None,
        "reason": _in_zone(article["reason"], zone),
        "first seen": local_time(article["first_received"], zone),
        "first published": local_time(published, zone) if published else None,
        "last changed": local_time(changed, zone) if changed else None,
        "left out": "; ".join(article["dropped"]),
    }
    return fields_of(rows, indent=4)


def _timeline(story: Story, zone: ZoneInfo) -> Table:
    stops = {}
    for stop in story.way:
        after = f", {stop.after_seconds:,} s later" if stop.after_seconds is not None else ""
        stops[stop.what] = f"{local_time(stop.at, zone)}{after}"
    return fields_of(stops | {"not notified yet": story.not_notified}, indent=4)


def _delivery_rows(received: Received, zone: ZoneInfo) -> Iterator[Row]:
    """Yield a delivery, and below it its unusual parts: its URL, the sender's own timestamp, the reason for its outcome."""
    yield local_time(received.at, zone), received.action or "delivery", received.by, state(received.outcome)
    sent_at, prefix = received.sent_at, "by the rules of that time, " if contains_rule(received.reason) else ""
    if received.url:
        yield Text(f"for {received.url}")
    if sent_at and (received.outcome == "late" or abs(received.at - sent_at) > SENT_APART_MAX):
        yield Text(f"with the sender's timestamp {local_time(sent_at, zone)}")
    if received.reason:
        yield Text(f"{prefix}{_in_zone(received.reason, zone)}")


def _in_zone(reason: str, zone: ZoneInfo) -> str:
    """Return a stored reason with the instant of a held article in the site's zone."""
    return _RELEASE.sub(lambda match: local_time(parse(match[0]), zone), reason)
