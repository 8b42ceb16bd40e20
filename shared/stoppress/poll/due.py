"""A feed that is due, and what became of it in this minute's run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from stoppress.feeds.schedule import FeedState, Pace, pace_of
from stoppress.model.site import Feed, Site

Result: TypeAlias = Literal["changed", "unchanged", "failed", "not reached", "waiting", "subscribing", "not subscribed"]


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """What became of one feed that was due: how many events were sent, which entries were left out and why.

    A feed that failed may have sent events: those of the complete entries, where it was cut off. One that was not
    reached in this run is among the first of the next. `needs_somebody` where a feed is gone or has failed for an hour; then
    one that was not due is among the outcomes as well, as `waiting`. A feed whose hub was asked has a second outcome:
    `subscribing` where it took the request, else `not subscribed`.
    """

    site: str
    url: str
    result: Result
    sent: int = 0
    skipped: tuple[str, ...] = ()
    reason: str | None = None
    needs_somebody: bool = False


@dataclass(frozen=True, slots=True)
class DueFeed:
    """A feed of a site that is to be polled, and what is remembered of it, under its item's revision."""

    site: Site
    feed: Feed
    state: FeedState
    rev: int | None
    now: datetime
    waited: timedelta = timedelta()  # from `now`, when the run began, until it was asked

    def outcome(self, result: Result, **said: Any) -> PollOutcome:
        """What became of it."""
        return PollOutcome(self.site.host, self.feed.url, result, **said)

    @property
    def has_this_configuration(self) -> bool:
        """Whether the last body was read by the site's configuration of today; else it is to be read again."""
        return self.state.config_version == self.site.version

    @property
    def pace(self) -> Pace:
        """How often it may be asked."""
        return pace_of(self.feed, self.site)

    @property
    def asked(self) -> str:
        """Where the feed is to be found today."""
        return self.state.url_to_ask(self.feed.url, self.now)

    @property
    def conditions(self) -> Mapping[str, str]:
        """The validators of the last good answer, verbatim (R10.1)."""
        if not self.has_this_configuration:
            return {}
        known = {"If-None-Match": self.state.etag, "If-Modified-Since": self.state.last_modified}
        return {name: value for name, value in known.items() if value}
