"""A feed as a poll would read it: what each entry would become, and why entries are left out. Nothing is recorded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from stoppress.feeds.documents import FeedError
from stoppress.feeds.events import Judged, judged, to_events
from stoppress.feeds.parse import children_of
from stoppress.http import client
from stoppress.http.body import CHUNK_BYTES, read_body
from stoppress.http.errors import FetchError
from stoppress.model.event import CLOCK_SKEW_MAX, ArticleEvent
from stoppress.model.exclude import excluded_because
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.site import Feed, Site, explain
from stoppress.poll import fetch
from stoppress_cli.printing import counted, iso_or_none

# The host where --site is missing: no page has this host, so no URL is changed to the site's scheme.
NO_SITE = "site.invalid"
_EXAMPLE = "https://www.example.com/rss.xml"


class Unreadable(Exception):
    """There is nothing to read; the text says what to give instead."""


@dataclass(frozen=True)
class Trial:
    """What a poll would read, or why it would fail.

    `outcome`: `parse`, `empty` (no entries), or `reject` (the poll would fail). `reason` says why a feed is empty or
    rejected, or why it is incomplete although it has entries.
    """

    outcome: Literal["parse", "empty", "reject"]
    reason: str | None
    entries: Sequence[Judged] = ()
    removed: Sequence[ArticleEvent] = ()
    left_out: Sequence[str] = ()


def _is_remote(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


def _advice(target: str) -> str:
    """What to give for a target that is no URL, where --url is missing."""
    path = Path(target)
    if path.is_dir():
        return f"{target} is a folder: name a file in it"
    if not path.exists():
        return f"there is no file {target}; of a feed on the web give the whole URL, with https://"
    return f"{target} is a file: say with --url where it is served, such as {_EXAMPLE}; relative links are resolved against it"


def configuration(
    target: str, url: str | None, host: str | None, timezone: str, take: Sequence[str]
) -> tuple[Site, Feed]:
    """The site and the feed that the options describe. Raises Unreadable."""
    if url is None and not _is_remote(target):
        raise Unreadable(_advice(target))
    words = [word for text in take for word in text.replace(",", " ").split()]
    try:
        feed = Feed.model_validate({"url": target if url is None else url, "take": words})
    except ValidationError as error:
        if any(finding["type"] == "string_pattern_mismatch" for finding in error.errors()):
            option = repr(target) if url is None else f"--url {url!r}"
            raise Unreadable(f"{option} is no whole URL such as {_EXAMPLE}") from None
        raise Unreadable(explain(error)) from None
    try:
        return Site(host=host or NO_SITE, publication="as configured", timezone=timezone), feed
    except ValidationError as error:
        raise Unreadable(explain(error)) from None


def read(target: str, url: str | None, site: Site, feed: Feed, now: datetime) -> Trial:
    """Reads the URL or the file `target`. Raises Unreadable for a file that cannot be opened."""
    try:
        if _is_remote(target):
            headers = {} if site.host == NO_SITE else {"User-Agent": client.user_agent(site.home)}
            fetched = fetch.fetch(target, headers, site)
            if fetched.answer.status != HTTPStatus.OK:
                return Trial("reject", f"the server answered {fetched.answer.status}")
            fetched = replace(fetched, answer=replace(fetched.answer, url=url or fetched.answer.url))
        else:
            fetched = fetch.Fetched(client.Response(200, {}, _file(Path(target)), feed.url))
            if named := children_of(fetched.answer.body, {}, feed.url, site):
                return Trial("empty", f"an index of sitemaps; a poll reads, the newest first: {' '.join(named)}")
        _, reading = fetch.read(fetched, site, feed.take)
    except (FeedError, FetchError) as error:
        return Trial("reject", str(error))
    events, _ = to_events(reading, site, now, feed=feed.url)
    return Trial(
        "parse" if reading.entries else "empty",
        reading.incomplete,
        judged(reading, site, now, feed=feed.url),
        [event for event in events if event.action == "remove"],
        reading.left_out,
    )


def _file(path: Path) -> bytes:
    """A file's bytes, gunzipped and limited like a fetched body. Raises FetchError, and Unreadable if it cannot be opened."""
    try:
        with path.open("rb") as file:
            return read_body(iter(lambda: file.read(CHUNK_BYTES), b""))
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None


def as_report(trial: Trial) -> dict[str, Any]:
    """The trial for programs."""
    return {
        "outcome": trial.outcome,
        "reason": trial.reason,
        "entries": [
            {
                "id": item.id,
                "url": item.url,
                "title": item.entry.title,
                "published_at": iso_or_none(item.entry.published_at),
                "updated_at": iso_or_none(item.entry.updated_at),
            }
            for item in trial.entries
        ],
    }


def as_lines(trial: Trial, site: Site, now: datetime) -> Iterator[str]:
    """The trial for people: entries, deletions, counts, then what was left out."""
    if trial.outcome == "reject":
        yield f"A poll would fail, and change nothing: {trial.reason}"
        return
    for item in trial.entries:
        yield item.url or item.entry.url or "no URL"
        yield f"  {item.entry.title or 'no title'}"
        if item.id != item.url:
            yield f"  id {item.id}"
        yield from (f"  {line}" for line in _fate(item, site, now))
    for event in trial.removed:
        yield f"{event.id}\n  is deleted: if this feed brought it, it leaves the sitemaps"
    sent = sum(item.event is not None for item in trial.entries)
    yield f"{counted(len(trial.entries), 'entry', 'entries')}, {sent:,} would be sent, {len(trial.removed):,} deleted"
    yield from (f"left out: {reason}" for reason in trial.left_out)
    if trial.reason:
        yield f"{'incomplete, counts as a failed poll' if trial.entries else 'empty'}: {trial.reason}"


def _fate(item: Judged, site: Site, now: datetime) -> list[str]:
    """What would become of an entry: its dates and other data, its sitemaps, or why it is left out."""
    event = item.event
    if event is None:
        return [f"left out: {item.reason}"]
    assert event.url
    dates = [f"published {iso_or_none(event.published_at) or 'no date'}"]
    dates += [f"updated {iso_or_none(event.updated_at)}"] if event.updated_at else []
    lines = [", ".join(dates)]
    counts = {"images": len(event.images), "videos": len(event.videos), "alternates": len(event.alternates)}
    others = [f"{count} {name}" for name, count in counts.items() if count]
    others += [f"language {event.language}"] if event.language else []
    others += [f"keywords {', '.join(event.keywords)}"] if event.keywords else []
    lines += [", ".join(others)] if others else []
    out = None if site.host == NO_SITE else excluded_because(event, site)
    lines += [f"left out: {out}"] if out else [_place(event, site, now)]
    return lines + [f"dropped: {part}" for part in event.dropped]


def _place(event: ArticleEvent, site: Site, now: datetime) -> str:
    """The sitemaps that would list the event's page, if nothing else is known of the page."""
    published = event.published_at
    if published and published > now + CLOCK_SKEW_MAX:
        return f"held until {iso_or_none(published)}"
    if not published:
        return "general sitemap only: no date"
    if not event.title:
        return "general sitemap only: no title"
    expired = published + NEWS_WINDOW <= now
    return "general sitemap only: published more than 48 hours ago" if expired else "general and news sitemap"
