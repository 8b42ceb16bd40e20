"""`stoppress feeds`: the state of a stack's feeds, and the articles that a feed's entries would become."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from stoppress.feeds.events import Judged, judged, to_events
from stoppress.feeds.feed_documents import FeedError, Reading
from stoppress.feeds.parse import children_of
from stoppress.http import client
from stoppress.http.client import CHUNK_BYTES, read_body
from stoppress.http.errors import FetchError
from stoppress.model.entries import excluding_rule
from stoppress.model.event import ArticleEvent
from stoppress.model.exclusion_reasons import excluded_because, is_embargo, not_news_because
from stoppress.model.site import Site
from stoppress.model.site_parts import Feed
from stoppress.model.validation import explain
from stoppress.poll import fetch_feeds
from stoppress.primitives.instants import iso, local_time
from stoppress.show.feed import FeedStatus
from stoppress.show.read_site import read_feeds
from stoppress_cli.commands.rebuild import chosen_sites
from stoppress_cli.inputs.sitemap_pages import is_url
from stoppress_cli.options import READS, READS_URLS, Commands, HostArgument
from stoppress_cli.output import Part, ago, counted, end, fail, fields_of, state

app = Commands(help="Show the state of a stack's feeds, or try a feed.")


@app.command("show", effect=READS, example="stoppress feeds show www.example.com --stack stoppress", is_over_sites=True)
def show(host: HostArgument = None) -> None:
    """Show the state of each feed.

    Exit code 1: a feed fails or is gone.
    """
    now = datetime.now(UTC)
    states = read_feeds(chosen_sites(host))
    is_ok = not any(state.condition in {"failing", "gone"} for state in states)
    end({"feeds": [state.report(now) for state in states]}, as_lines(states, now), is_ok=is_ok)


@app.command("try", effect=READS_URLS, example="stoppress feeds try https://www.example.com/feed.xml")
def try_feed(
    target: Annotated[str, typer.Argument(help="URL or file of a feed or an old sitemap.")],
    url: Annotated[str | None, typer.Option(help="For a file, the URL at which the feed is served.")] = None,
    site: Annotated[
        str | None, typer.Option(help="Host of the site; entries with URLs on other hosts are then left out.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="Time zone of dates that have none.")] = "UTC",
    take: Annotated[
        list[str] | None,
        typer.Option(help="Other data to read, separated by commas: images, videos, language, keywords, alternates."),
    ] = None,
) -> None:
    """Show which article each entry of a feed would become, or why the entry is left out.

    Exit code 1: a poll would fail, because the feed cannot be fetched or read in full.
    """
    now = datetime.now(UTC)
    of_site, feed = _configuration(target, url, site, timezone, take or [])
    try:
        reading = _read(target, url, of_site, feed)
    except (FeedError, FetchError) as error:
        report: dict[str, Any] = {"outcome": "reject", "reason": str(error), "entries": []}
        end(report, [f"A poll would fail, and change nothing: {error}"], is_ok=False)
    entries = [
        {"id": item.id, "url": item.url} | {name: getattr(item.entry, name) for name in _ENTRY_FIELDS}
        for item in judged(reading, of_site, now, feed=feed.url)
    ]
    report = {"outcome": "parse" if entries else "empty", "reason": reading.incomplete, "entries": entries}
    end(report, trial_lines(reading, of_site, now, feed.url), is_ok=not (entries and reading.incomplete))


def as_lines(feeds: Sequence[FeedStatus], now: datetime) -> Iterator[Part]:
    """Yield the feeds for people: the URL and condition of each, then the details."""
    if not feeds:
        yield "no feeds are polled: list them in `feeds` of a site's configuration"
    for health in feeds:
        yield Text.assemble(health.feed.url, "  ", state(health.condition))
        if health.state is not None:
            yield fields_of(_fields(health, now))


def _fields(health: FeedStatus, now: datetime) -> dict[str, str | None]:
    feed, zone, hub = health.report(now), health.site.zone, health.subscription
    intervals = (f"{feed[name]:g} min" for name in ("interval_minutes", "floor_minutes", "cap_minutes"))
    every = "every {}, between {} and {}".format(*intervals)
    every += "" if feed["own"] else ", or as seldom as the feed asks for"
    next_poll = local_time(feed["next_poll"], zone) if feed["next_poll"] else "immediately"
    in_a_row = f"{counted(feed['failures'], 'time')} in a row, since {ago(feed['failing_since'], now, zone)}"
    pushed = f"not subscribed at {feed['hub']}, but polled: {feed['not_subscribed']}" if feed["hub"] else None
    if hub and feed["hub"] and not feed["not_subscribed"]:
        trusted = "polled as a backup" if hub.is_trusted(now) else "polled as before"
        until = f" until {local_time(hub.lease_until, zone)}" if hub.lease_until else ""
        pushed = f"subscribed at {feed['hub']}{until}, last push {ago(hub.last_push, now, zone)}; {trusted}"
    is_gone = health.condition == "gone"
    return {
        "last success": ago(feed["last_success"], now, zone),
        "last new story": ago(health.last_new, now, zone),
        "polled": "no more, because it answered 410; put the site with a change to poll it again" if is_gone else every,
        "next poll": None if is_gone else next_poll,
        "failed": f"{in_a_row}: {feed['last_error']}" if feed["failures"] else None,
        "moved": f"to {feed['moved_to']}: put that URL into the site's configuration" if feed["moved_to"] else None,
        "hub": pushed,
    }


# ── try ──

# The host where --site is missing: no page has this host, so no URL is changed to the site's scheme.
NO_SITE = "site.invalid"
_EXAMPLE = "https://www.example.com/rss.xml"
_ENTRY_FIELDS = ("title", "published_at", "updated_at")


def _configuration(
    target: str, url: str | None, host: str | None, timezone: str, take: Sequence[str]
) -> tuple[Site, Feed]:
    """Return the site and the feed that the options describe. Exits with FAILED if they describe none."""
    if url is None and not is_url(target):
        if not Path(target).is_file():
            fail(f"there is no file {target}; of a feed on the web give the whole URL, with https://")
        fail(
            f"{target} is a file: add --url with the address where it is served, such as {_EXAMPLE}; links are resolved against it"
        )
    words = [word for text in take for word in text.replace(",", " ").split()]
    try:
        feed = Feed.model_validate({"url": target if url is None else url, "take": words})
        return Site(host=host or NO_SITE, publication="as configured", timezone=timezone), feed
    except ValidationError as error:
        option = repr(target) if url is None else f"--url {url!r}"
        is_no_url = any(finding["loc"] == ("url",) for finding in error.errors())
        fail(f"{option} is no whole URL such as {_EXAMPLE}" if is_no_url else explain(error))


def _read(target: str, url: str | None, site: Site, feed: Feed) -> Reading:
    """Read the URL or the file `target` as a poll would. Raises FeedError and FetchError; exits with FAILED if a file cannot be opened."""
    if is_url(target):
        headers = {} if site.host == NO_SITE else {"User-Agent": client.user_agent(site.home)}
        fetched = fetch_feeds.fetch(target, headers, site)
        if fetched.answer.status != HTTPStatus.OK:
            raise FetchError(f"the server answered {fetched.answer.status}")
        fetched = replace(fetched, answer=replace(fetched.answer, url=url or fetched.answer.url))
    else:
        fetched = fetch_feeds.Fetched(client.Response(200, {}, _file(Path(target)), feed.url))
        if children := children_of(fetched.answer.body, {}, feed.url, site):
            return Reading(incomplete=f"an index of sitemaps; a poll reads, the newest first: {' '.join(children)}")
    return fetch_feeds.read(fetched, site, feed.take)[1]


def _file(path: Path) -> bytes:
    """Return a file's bytes, gunzipped and limited like a fetched body. Raises FetchError; exits with FAILED if it cannot be opened."""
    try:
        with path.open("rb") as file:
            return read_body(iter(lambda: file.read(CHUNK_BYTES), b""))
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror or error}")


def trial_lines(reading: Reading, site: Site, now: datetime, feed: str) -> Iterator[str]:
    """Yield the lines about a poll of a feed: entries, deletions, counts, then the entries that are left out."""
    entries = judged(reading, site, now, feed=feed)
    removed = [event for event in to_events(reading, site, now, feed=feed)[0] if event.action == "remove"]
    for item in entries:
        yield item.url or item.entry.url or "no URL"
        yield f"  {item.entry.title or 'no title'}"
        if item.id != item.url:
            yield f"  id {item.id}"
        yield from (f"  {line}" for line in _describe_entry(item, site, now))
    for event in removed:
        yield f"{event.id}\n  is deleted: if the article is from this feed, it leaves the sitemaps"
    sent = sum(item.event is not None for item in entries)
    yield f"{counted(len(entries), 'entry', 'entries')}, {sent:,} would be sent, {len(removed):,} deleted"
    yield from (f"left out: {reason}" for reason in reading.left_out)
    if reading.incomplete:
        yield f"{'incomplete, counts as a failed poll' if entries else 'empty'}: {reading.incomplete}"


def _describe_entry(item: Judged, site: Site, now: datetime) -> list[str]:
    """Return the lines about an entry: its dates and other data, its sitemaps, or why it is left out."""
    event = item.event
    if event is None:
        return [f"left out: {item.reason}"]
    assert event.url
    dates = [f"published {iso(event.published_at) if event.published_at else 'no date'}"]
    dates += [f"updated {iso(event.updated_at)}"] if event.updated_at else []
    others = [f"{len(part)} {name}" for name in ("images", "videos", "alternates") if (part := getattr(event, name))]
    others += [f"language {event.language}"] if event.language else []
    others += [f"keywords {', '.join(event.keywords)}"] if event.keywords else []
    out = "" if site.host == NO_SITE else excluded_because(event, site)
    place = f"left out: {out}" if out else _place(event, site, now)
    lines = [", ".join(dates), ", ".join(others), place, *(f"dropped: {part}" for part in event.dropped)]
    return [line for line in lines if line]


def _place(event: ArticleEvent, site: Site, now: datetime) -> str:
    """Return the sitemaps that would list the event's page, if the page is otherwise unknown."""
    assert event.url
    if event.published_at and is_embargo(event, now):
        return f"held until {iso(event.published_at)}"
    reason = not_news_because(event, event.url, event.published_at, now)
    reason = reason or excluding_rule(site.rules, "news", event.url, event.traits)
    return f"general sitemap only: {reason}" if reason else "general and news sitemap"
