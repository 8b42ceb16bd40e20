"""Parts of a listing: what a source answers when it is asked for all its articles, or for those changed in a period."""

from dataclasses import dataclass

from stoppress.model.event import ArticleEvent


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a listing that cannot be taken. `place` says where it is: `page 3, item 17` or `line 204`.

    `article` is the name of the article if the item says its id: then it is known to be listed.
    """

    place: str
    reason: str
    article: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """An item of a listing as an event, as if its webhook had come. `heard_at` of the event is when the listing was requested."""

    place: str
    event: ArticleEvent


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing.

    `problems` are items that should be articles and cannot be, `ignored` are items that are none. With `cursor` a later run goes
    on behind this page; None: this page is the last. `total` is the number of items in the whole listing, if the source
    says so.
    """

    items: tuple[Listed, ...] = ()
    problems: tuple[Problem, ...] = ()
    ignored: tuple[Problem, ...] = ()
    cursor: str | None = None
    total: int | None = None


class ListingError(RuntimeError):
    """A listing that cannot be read further. The text says where it stopped and why."""
