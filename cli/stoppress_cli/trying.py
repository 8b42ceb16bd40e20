"""`stoppress feeds try`: what a feed would become, entry by entry, and why entries are left out. Nothing is recorded."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
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
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.site import Feed, Site, explain
from stoppress.poll import fetch
from stoppress.primitives.instants import iso
from stoppress.record.exclude import excluded_because
from stoppress_cli.printing import text_console
from stoppress_cli.wording import counted

READ, REJECTED, NOTHING_READ = 0, 1, 2

# Of a site nobody named: it has no page, so that no URL is changed to its scheme.
NO_SITE = "site.invalid"
_EXAMPLE = "https://www.example.com/rss.xml"


class Unreadable(Exception):
    """There is nothing to read; the text says what to give."""


@dataclass(frozen=True)
class Tried:
    """What became of a feed: what was read of it, or why a poll would fail; what is incomplete has both."""

    outcome: Literal["parse", "empty", "reject"]
    reason: str | None
    entries: Sequence[Judged] = ()
    removed: Sequence[ArticleEvent] = ()
    left_out: Sequence[str] = ()


def try_feed(
    target: str, url: str | None, host: str | None, timezone: str, take: Sequence[str], *, as_json: bool
) -> int:
    """Read a feed or an old sitemap and print what it would become. Returns the exit code."""
    now = datetime.now(UTC)
    try:
        site, feed = _settings(target, url, host, timezone, take)
        tried = _tried(target, url, site, feed, now)
    except Unreadable as error:
        sys.stderr.write(f"stoppress: {error}\n")
        return NOTHING_READ
    if as_json:
        sys.stdout.write(json.dumps(_report(tried), ensure_ascii=False, indent=2) + "\n")
    else:
        _print(tried, site, now)
    return REJECTED if tried.outcome == "reject" else READ


def _is_remote(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


def _missing(target: str) -> str:
    """What to give for a target that is no URL, where no URL was given."""
    path = Path(target)
    if path.is_dir():
        return f"{target} is a folder: name a file in it"
    if not path.exists():
        return f"there is no file {target}; of a feed on the web give the whole URL, with https://"
    return f"{target} is a file: say with --url where it is served, such as {_EXAMPLE}; relative links stand on it"


def _settings(target: str, url: str | None, host: str | None, timezone: str, take: Sequence[str]) -> tuple[Site, Feed]:
    if url is None and not _is_remote(target):
        raise Unreadable(_missing(target))
    words = [word for text in take for word in text.replace(",", " ").split()]
    try:
        feed = Feed.model_validate({"url": target if url is None else url, "take": words})
    except ValidationError as error:
        if any(finding["type"] == "string_pattern_mismatch" for finding in error.errors()):
            given = repr(target) if url is None else f"--url {url!r}"
            raise Unreadable(f"{given} is no whole URL such as {_EXAMPLE}") from None
        raise Unreadable(explain(error)) from None
    try:
        return Site(host=host or NO_SITE, publication="as configured", timezone=timezone), feed
    except ValidationError as error:
        raise Unreadable(explain(error)) from None


def _tried(target: str, url: str | None, site: Site, feed: Feed, now: datetime) -> Tried:
    try:
        if _is_remote(target):
            asking = {} if site.host == NO_SITE else {"User-Agent": client.user_agent(site.home)}
            fetched = fetch.fetch(target, asking, site)
            if fetched.answer.status != HTTPStatus.OK:
                return Tried("reject", f"the server answered {fetched.answer.status}")
            fetched = replace(fetched, answer=replace(fetched.answer, url=url or fetched.answer.url))
        else:
            fetched = fetch.Fetched(client.Response(200, {}, _file(Path(target)), feed.url))
            if named := children_of(fetched.answer.body, {}, feed.url, site):
                return Tried("empty", f"an index of sitemaps; a poll reads, the newest first: {' '.join(named)}")
        _, reading = fetch.read(fetched, site, feed.take)
    except (FeedError, FetchError) as error:
        return Tried("reject", str(error))
    events, _ = to_events(reading, site, now, feed=feed.url)
    return Tried(
        "parse" if reading.entries else "empty",
        reading.incomplete,
        judged(reading, site, now, feed=feed.url),
        [event for event in events if event.action == "remove"],
        reading.left_out,
    )


def _file(path: Path) -> bytes:
    """A file's bytes, gunzipped and limited like a fetched body. Raises FetchError."""
    try:
        with path.open("rb") as file:
            return read_body(iter(lambda: file.read(CHUNK_BYTES), b""))
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None


def _report(tried: Tried) -> dict[str, Any]:
    return {
        "outcome": tried.outcome,
        "reason": tried.reason,
        "entries": [
            {
                "id": one.id,
                "url": one.url,
                "title": one.entry.title,
                "published_at": _iso(one.entry.published_at),
                "updated_at": _iso(one.entry.updated_at),
            }
            for one in tried.entries
        ],
    }


def _print(tried: Tried, site: Site, now: datetime) -> None:
    console = text_console()
    if tried.outcome == "reject":
        console.print(f"A poll would fail, and change nothing: {tried.reason}")
        return
    for one in tried.entries:
        console.print(one.url or one.entry.url or "no URL")
        console.print(f"  {one.entry.title or 'no title'}")
        if one.id != one.url:
            console.print(f"  id {one.id}")
        for line in _fate(one, site, now):
            console.print(f"  {line}")
    for event in tried.removed:
        console.print(f"{event.id}\n  is deleted: if it is in the sitemaps by this feed, it goes out")
    sent = sum(one.event is not None for one in tried.entries)
    console.print(f"{counted(len(tried.entries), 'entry', 'entries')}, {sent:,} told, {len(tried.removed):,} deleted")
    for reason in tried.left_out:
        console.print(f"left out: {reason}")
    if tried.reason:
        console.print(f"{'incomplete, counts as a failed poll' if tried.entries else 'empty'}: {tried.reason}")


def _fate(one: Judged, site: Site, now: datetime) -> list[str]:
    """What would become of an entry, by itself and by the site as far as it was named."""
    event = one.event
    if event is None:
        return [f"left out: {one.reason}"]
    assert event.url
    dates = [f"published {_iso(event.published_at) or 'no date'}"]
    dates += [f"updated {_iso(event.updated_at)}"] if event.updated_at else []
    lines = [", ".join(dates)]
    counts = {"images": len(event.images), "videos": len(event.videos), "alternates": len(event.alternates)}
    besides = [f"{count} {name}" for name, count in counts.items() if count]
    besides += [f"language {event.language}"] if event.language else []
    besides += [f"keywords {', '.join(event.keywords)}"] if event.keywords else []
    lines += [", ".join(besides)] if besides else []
    out = None if site.host == NO_SITE else excluded_because(event, site)
    lines += [f"left out: {out}"] if out else [_place(event, site, now)]
    return lines + [f"dropped: {reason}" for reason in event.dropped]


def _place(event: ArticleEvent, site: Site, now: datetime) -> str:
    """The sitemaps that it would stand in, if nothing else were known of the page."""
    published = event.published_at
    if published and published > now + CLOCK_SKEW_MAX:
        return f"held until {_iso(published)}"
    if not published:
        return "general sitemap only: no date"
    if not event.title:
        return "general sitemap only: no title"
    expired = published + NEWS_WINDOW <= now
    return "general sitemap only: published more than 48 hours ago" if expired else "general and news sitemap"


def _iso(instant: datetime | None) -> str | None:
    return iso(instant) if instant else None
