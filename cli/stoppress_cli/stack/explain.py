"""Writes the answer about a page as lines of text."""

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from stoppress.model.rules import names_rule
from stoppress.primitives.instants import iso
from stoppress.show.story import Answer, ArticleState, Heard, Story, local_time
from stoppress.show.way import Stop


def as_lines(story: Story) -> Iterator[str]:
    """The answer in lines: the two sitemaps, the articles, and the deliveries of 90 days."""
    zone = ZoneInfo(story.timezone)
    yield f"In the news sitemap: {_answer(story.news, zone)}"
    yield f"In the general sitemap: {_answer(story.general, zone)}"
    yield story.url or f"{story.asked}: its URL is not known"
    for article in story.articles:
        yield from _article(article, story.url, zone)
    if story.way:
        yield "  its way to the search engines:"
        yield from (f"    {_stop(stop, zone)}" for stop in story.way)
    if story.not_told:
        yield f"    not told yet: {story.not_told}"
    if story.google:
        yield f"    Google says: {story.google}"
    if story.heard:
        yield "  heard in 90 days:"
        if story.heard_earlier:
            yield f"    … {story.heard_earlier} earlier"
        yield from (f"    {_heard(heard)}" for heard in story.heard)
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
    yield f"  article {article.name}: {article.state}, first heard of {local_time(article.first_heard, zone)}"
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


def _heard(heard: Heard) -> str:
    of_then = "by the rules of that time, " if names_rule(heard.reason) else ""
    why = f": {of_then}{heard.reason}" if heard.reason else ""
    by = f" by {heard.by}" if heard.by else ""
    url = f" at {heard.url}" if heard.url else ""
    when = f" of {iso(heard.sent_at)}" if heard.sent_at else ""
    return f"{iso(heard.at)}  {heard.action or 'delivery'}{by}{url}{when}  {heard.outcome}{why}"
