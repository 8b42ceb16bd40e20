"""Parts of a listing: all articles of a source, or those that changed in a period."""

from dataclasses import dataclass

from stoppress.model.event import ArticleEvent


@dataclass(frozen=True, slots=True)
class Problem:
    """An item or a page of a listing that cannot be used. `place` says where it is: `page 3, item 17` or `line 204`.

    `article` is the article's name if the item has an id. Such an article counts as listed.
    """

    place: str
    reason: str
    article: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """An item of a listing as an event. The event's `received_at` is when the listing was requested."""

    place: str
    event: ArticleEvent


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing.

    `problems` are items and pages that cannot be used, `ignored` are items that are no articles. `notes` are about items that
    are used. `cursor` is where a later run continues; None: this page is the last. `total` is the number of items in the whole
    listing, if known.
    """

    items: tuple[Listed, ...] = ()
    problems: tuple[Problem, ...] = ()
    ignored: tuple[Problem, ...] = ()
    cursor: str | None = None
    total: int | None = None
    notes: tuple[Problem, ...] = ()


class ListingError(RuntimeError):
    """A listing that cannot be read on. The text says where and why."""


class StaleCheckpoint(ListingError):
    """The listing cannot continue from its checkpoint. Only a new start helps."""
