"""Writes the answer about a page as lines of text."""

from collections.abc import Iterator
from datetime import datetime

from stoppress.model.rules import names_rule
from stoppress.primitives.instants import iso
from stoppress.show.story import Answer, ArticleState, Heard, Story


def as_lines(story: Story) -> Iterator[str]:
    """The answer in lines: the two sitemaps, the articles, and the deliveries of 90 days."""
    yield f"In the news sitemap: {_answer(story.news)}"
    yield f"In the general sitemap: {_answer(story.general)}"
    yield story.url or f"{story.asked}: its URL is not known"
    for article in story.articles:
        yield from _article(article, story.url)
    if story.heard:
        yield "  heard in 90 days:"
        if story.heard_earlier:
            yield f"    … {story.heard_earlier} earlier"
        yield from (f"    {_heard(heard)}" for heard in story.heard)
    if story.did_you_mean:
        yield "Did you mean?"
        yield from (f"  {url}" for url in story.did_you_mean)


def _answer(answer: Answer) -> str:
    reasons = "; also, ".join(reason.text for reason in answer.reasons)
    if not answer.listed:
        return f"no, because {reasons}"
    until = f", until {_at(answer.until)}" if answer.until else ""
    if answer.reasons:
        until = f", until its file is written again, because {reasons}"
    return f"yes{until} ({answer.file}{f', last changed {_at(answer.changed)}' if answer.changed else ''})"


def _article(article: ArticleState, url: str) -> Iterator[str]:
    yield f"  article {article.name}: {article.state}, first heard of {_at(article.first_heard)}"
    if article.url and article.url != url:
        yield f"    its page is {article.url}"
    if article.reason:
        yield f"    {article.reason}"
    if article.first_published:
        yield f"    first published {_at(article.first_published)}"
    if article.last_changed:
        yield f"    last changed {_at(article.last_changed)}"
    for part in article.dropped:
        yield f"    left out of its entry: {part}"


def _heard(heard: Heard) -> str:
    of_then = "by the rules of that time, " if names_rule(heard.reason) else ""
    why = f": {of_then}{heard.reason}" if heard.reason else ""
    by = f" by {heard.by}" if heard.by else ""
    url = f" at {heard.url}" if heard.url else ""
    when = f" of {iso(heard.sent_at)}" if heard.sent_at else ""
    return f"{iso(heard.at)}  {heard.action or 'delivery'}{by}{url}{when}  {heard.outcome}{why}"


def _at(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"
