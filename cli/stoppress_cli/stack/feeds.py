"""How each feed of a stack is, as text."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from stoppress.aws import sites
from stoppress.feeds.schedule import FeedState, interval_of, pace_of
from stoppress.show.feed import FeedStatus
from stoppress.show.read_site import read_feeds
from stoppress_cli.printing import ago, at


def states_of(host: str | None) -> list[FeedStatus]:
    """The feeds of a site, or of all sites of the stack. Raises UnknownSite, BadConfiguration, and the table's errors."""
    chosen = [site for site in sites.load_all_usable()[0] if host in (None, site.host)]
    if host and not chosen:
        chosen = [sites.load(host)]
    return read_feeds(chosen)


def as_lines(feeds: Sequence[FeedStatus], now: datetime) -> Iterator[str]:
    """The feeds for people: the URL and condition of each, then the details."""
    if not feeds:
        yield "no feeds are polled: name them in `feeds` of a site's parameter"
    for health in feeds:
        yield f"{health.feed.url}  {health.condition}"
        if health.state is not None:
            yield from (f"  {line}" for line in _lines(health, health.state, now))


def _lines(health: FeedStatus, state: FeedState, now: datetime) -> Iterator[str]:
    pace = pace_of(health.feed, health.site)
    yield f"last success {ago(state.last_success, now)}, last new story {ago(health.last_new, now)}"
    if health.condition == "gone":
        yield "it answered 410 and is no longer polled; put the site's parameter again to have it polled"
    else:
        own = "" if pace.own else ", or as seldom as the feed asks for"
        pace_text = f"every {_minutes(interval_of(state, now, pace, health.subscription))}, between {_minutes(pace.floor)} and {_minutes(pace.cap)}"
        yield f"polled {pace_text}{own}; next {at(state.next_poll_at)}"
    if state.failures:
        yield f"failing since {at(state.failing_since)}, {state.failures} in a row: {state.last_error}"
    if state.moved_to:
        yield f"moved to {state.moved_to}: name that in the site's parameter"
    if state.hub and health.subscription and health.is_subscribed(now):
        trusted = "polled as a backup" if health.subscription.is_trusted(now) else "polled as before"
        yield f"subscribed at {state.hub} until {at(health.subscription.lease_until)}, last push {ago(health.subscription.last_push, now)}; {trusted}"
    elif state.hub:
        yield f"not subscribed at {state.hub}, but polled: {health.not_subscribed(now)}"


def _minutes(time: timedelta) -> str:
    return f"{time / timedelta(minutes=1):g} min"
