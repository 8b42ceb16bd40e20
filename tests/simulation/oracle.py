"""What the newsroom means: the files that follow from what each editor did, in the order in which it was done.

The oracle goes by true time. It does not know how an event is sent, and imports nothing of the product. Where nobody who
only hears the events could know what was meant, `knowable` says so, and the oracle does not judge those pages.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

WINDOW = timedelta(hours=48)
FEED = "feed"
# So far ahead a date may lie where the sender's clock is ahead itself, or where a feed says it.
TOLERANCE = timedelta(minutes=5)
# After so long what was received has been recorded, however often it failed.
RECORDED = timedelta(hours=3)
Range = tuple[datetime, datetime]


@dataclass(frozen=True)
class Act:
    """What an editor did to an article, or what a feed began to say of it. `number` is the true order.

    The instants are as the sender writes them; `at` alone is true. A removal keeps the URL of what it removes.
    """

    site: str
    source: str
    id: str
    number: int
    at: datetime
    verb: str  # publish, update, unpublish, delete
    url: str
    title: str = ""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    noindex: bool = False
    news: bool = True
    stamp: datetime | None = None
    version: int | datetime | None = None
    names: str = "id"  # what a removal names: id, url, both
    by: str = "feed"  # how it is sent: webhook, bus; a feed is read
    spelling: str = ""  # another way to write the URL
    language: str = ""
    alternates: tuple[tuple[str, str], ...] = ()  # languages and URLs of other pages

    @property
    def removal(self) -> bool:
        """Whether it takes the article away."""
        return self.verb in ("unpublish", "delete")

    @property
    def written(self) -> str:
        return self.spelling or self.url

    @property
    def article(self) -> str:
        """Source and id; the id is empty where only a URL is named."""
        return f"{self.source}#{self.id}"


@dataclass(frozen=True)
class Received:
    """When the stack can have received an act first, between two instants, and of its repeats for the last time."""

    earliest: datetime
    latest: datetime
    last: datetime


class Knowledge(Protocol):
    """What those who only hear the events can know."""

    def received(self, act: Act) -> Received: ...
    def last_word_is_known(self, acts: Sequence[Act]) -> bool: ...
    def history_is_known(self, acts: Sequence[Act]) -> bool: ...
    def spoke_later(self, later: Act, earlier: Act) -> bool: ...
    def received_in_order(self, acts: Sequence[Act]) -> bool: ...
    def may_be_overtaken(self, act: Act) -> bool: ...


@dataclass
class Meant:
    """What an article is at an instant. `dates` are the first publications that it may be listed with."""

    act: Act
    live: bool = False
    embargo: datetime | None = None
    was_embargoed: bool = False
    was_public_at: set[str] = field(default_factory=set)
    dates: tuple[Range, ...] = ()
    lastmods: tuple[Range | None, ...] = (None,)
    known: bool = True

    @property
    def is_public(self) -> bool:
        """Whether readers may see its page."""
        return self.live and self.embargo is None

    def may_be_dated(self, date: datetime) -> bool:
        """Whether this is a first publication that was meant."""
        return any(_is_within(date, found) for found in self.dates)

    def may_have_changed(self, at: datetime | None) -> bool:
        """Whether this is a lastmod that follows from what was said."""
        candidates = [_later(change, date) for change in self.lastmods for date in self.dates or (None,)]
        return any(found is None if at is None else _is_within(at, found) for found in candidates)

    def news_at(self, now: datetime) -> set[bool]:
        """Whether it is news by each date that it may have."""
        if not self.act.news:
            return {False}
        return {date + WINDOW > now for found in self.dates for date in found} or {False}


def _is_within(at: datetime, found: Range | None) -> bool:
    return found is not None and found[0].replace(microsecond=0) <= at <= found[1]


def _later(change: Range | None, date: Range | None) -> Range | None:
    if change is None or date is None:
        return change or date
    return max(change[0], date[0]), max(change[1], date[1])


@dataclass
class Wanted:
    """What the files of a site must list, and the URLs of which that cannot be said."""

    pages: dict[str, Meant] = field(default_factory=dict)
    news: dict[str, Meant] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    doubtful_news: set[str] = field(default_factory=set)


def wanted(acts: Sequence[Act], site: str, kept_out: Sequence[str], now: datetime, known: Knowledge) -> Wanted:
    """What a site's files must list at `now`; `kept_out` are beginnings of paths that its rules keep out."""
    articles = {
        name: (history, meant(history, now, known)) for name, history in histories(acts, site).items() if history[0].id
    }
    found = Wanted()
    for url in sorted({act.url for act in acts if act.site == site}):
        page = _page_at(url, acts, articles, known)
        if page == "doubtful":
            found.doubtful.add(url)
        elif isinstance(page, Meant) and not any(_path(url).startswith(beginning) for beginning in kept_out):
            found.pages[url] = page
            in_news = page.news_at(now)
            if in_news == {True}:
                found.news[url] = page
            elif in_news == {True, False}:
                found.doubtful_news.add(url)
    return found


def histories(acts: Sequence[Act], site: str) -> dict[str, list[Act]]:
    """What was done to each article of a site, oldest first."""
    found: dict[str, list[Act]] = defaultdict(list)
    for act in sorted((act for act in acts if act.site == site), key=lambda act: act.number):
        found[act.article].append(act)
    return found


def _page_at(
    url: str, acts: Sequence[Act], articles: Mapping[str, tuple[list[Act], Meant]], known: Knowledge
) -> Meant | str | None:
    """Whose page is at a URL: of those who say it now the one whose editor spoke last, the CMS before any feed."""
    here = [(history, meant) for history, meant in articles.values() if any(act.url == url for act in history)]
    if not all(meant.known for _, meant in here):
        return "doubtful"
    say_it = [meant for _, meant in here if meant.is_public and meant.act.url == url and not meant.act.noindex]
    of_cms = [meant for meant in say_it if meant.act.source != FEED]
    if not of_cms and say_it:
        # The feed never brings back what the CMS had here, nor what it removed by this URL.
        before = [(history, meant) for history, meant in here if meant.act.source != FEED]
        removals = [act for act in acts if act.url == url and act.removal and act.source != FEED and act.names != "id"]
        for history, meant in before:
            if not known.received_in_order(history) or (meant.was_embargoed and url in meant.was_public_at):
                return "doubtful"
        if any(url in meant.was_public_at for _, meant in before):
            return None
        entries = [history[0] for history, meant in here if meant.act.source == FEED]
        if removals:
            last = max(known.received(entry).last for entry in entries)
            return None if any(last < known.received(removal).earliest for removal in removals) else "doubtful"
    contenders = sorted(of_cms or say_it, key=lambda meant: meant.act.number)
    if not all(known.spoke_later(contenders[-1].act, meant.act) for meant in contenders[:-1]):
        return "doubtful"
    return contenders[-1] if contenders else None


def meant(acts: Sequence[Act], now: datetime, known: Knowledge) -> Meant:
    """What an article is at an instant, after all that was done to it."""
    this = Meant(acts[-1])
    life: Sequence[Act] = ()
    perhaps: tuple[Range, ...] = ()
    for number, act in enumerate(acts):
        received = known.received(act)
        _let_pass(this, act.at, acts[number - 1].url)
        # Its hour had come when this was received, or when what ends it was recorded: nobody has kept the date before the release.
        past = act.published_at if act.published_at and act.published_at <= act.at else None
        if this.embargo and this.embargo <= received.latest + (RECORDED if act.removal or past else timedelta()):
            perhaps += ((this.embargo, this.embargo), *([(past, past)] if past else []))
        if act.removal:
            this.live, this.embargo = False, None
        else:
            this.live = True
            life = life or acts[number:]
            _date(this, act, life, known)
        if act.verb == "delete":
            # Messages wait for hours in a storm: where the deletion is recorded last, what follows looks like the same story.
            perhaps += this.dates
            this.dates, life = (), ()
    _let_pass(this, now, acts[-1].url)
    this.dates += perhaps
    dates_are_known = known.history_is_known(acts)
    this.known = known.last_word_is_known(acts) and (dates_are_known or acts[-1].removal or _says_all(acts, known))
    if not dates_are_known:
        said = [
            (min(act.published_at, known.received(act).earliest), act.published_at) for act in acts if act.published_at
        ]
        this.dates = tuple(said)
    this.lastmods = _lastmods(acts[-1], known.received(acts[-1]))
    return this


def _says_all(acts: Sequence[Act], known: Knowledge) -> bool:
    """Whether the last word says by itself whether the page is held, and keeps a date: it has one, or no word had one that lay ahead.

    A story that began anew keeps a date if it is known to come after the deletion.
    """
    if acts[-1].published_at:
        return True
    born = max((number for number, act in enumerate(acts, 1) if act.verb == "delete"), default=0)
    dated = [number for number, act in enumerate(acts, 1) if act.published_at and number > born]
    keeps_one = not born or any(known.last_word_is_known(acts[:number]) for number in dated)
    return keeps_one and not any(act.published_at and act.published_at > act.at for act in acts)


def _let_pass(this: Meant, now: datetime, url: str) -> None:
    """An embargo whose hour has come is the first publication."""
    if this.embargo and this.embargo <= now:
        this.dates, this.embargo = ((this.embargo, this.embargo),), None
    if this.is_public:
        this.was_public_at.add(url)


def _date(this: Meant, act: Act, life: Sequence[Act], known: Knowledge) -> None:
    """What the act's date means: an embargo, the first publication, a correction of it, or nothing."""
    date, received, of_life = act.published_at, known.received(act), [known.received(other) for other in life]
    if date is None:
        return
    clock_is_ahead = act.source == FEED or (act.stamp is not None and date <= act.stamp)
    if date > act.at and clock_is_ahead and received.earliest + TOLERANCE < date <= received.latest + TOLERANCE:
        this.dates = (
            *this.dates,
            (received.earliest, date),
        )  # it depends on when this was received whether it is an embargo
        this.embargo = None
        return
    if date > act.at and not (clock_is_ahead and date <= received.latest + TOLERANCE):
        this.embargo, this.was_embargoed = date, True
        if this.dates and received.latest >= date - timedelta(seconds=15):
            # Received at its hour or after it, it may look like a later date for a live story.
            this.dates, this.embargo = (*this.dates, (date, date)), None
        return
    this.embargo = None
    exact = (min(date, received.earliest), date) if date > act.at else (date, date)
    first_received = min(other.earliest for other in of_life), min(other.latest for other in of_life)
    if act.stamp and date <= act.stamp:
        # Who first seen it late still knows by the timestamps since when it is there.
        stamps = [other.stamp for other in life if other.stamp]
        first_received = min(first_received[0], *stamps), min(first_received[1], *stamps)
    # By a clock that was behind, and is right by now, the date lies after the first word.
    was_behind = any(other.stamp and other.stamp < other.at - TOLERANCE for other in life if other.at < act.at)
    if not this.dates or (date <= first_received[0] and not was_behind):
        this.dates = (exact,)
    elif (
        exact[0] < max(start for start, _ in this.dates)
        or exact[0] <= first_received[1] + TOLERANCE + timedelta(seconds=15)
        or _may_be_unlisted([other for other in life if other.number <= act.number], known)
    ):
        # Earlier than a possible date, an article that was received late, a correction by minutes, or the first date of a file.
        this.dates = (*this.dates, exact)


def _may_be_unlisted(acts: Sequence[Act], known: Knowledge) -> bool:
    """Whether possibly no file has listed the article before its last act: robots may not see it, a rule or another story hid it."""
    published = [act for act in acts[:-1] if not act.removal]
    kept_out = [act for act in published if act.noindex or "/sponsored/" in act.url or known.may_be_overtaken(act)]
    is_mixed = bool(kept_out) or len(published) < len(acts) - 1
    return kept_out == published or (is_mixed and not known.received_in_order(acts))


def _lastmods(act: Act, received: Received) -> tuple[Range | None, ...]:
    """What the last word says of the change, and never later than when it was received."""
    changes = [act.updated_at]
    if act.verb == "update" and act.updated_at is None:
        changes.append(act.stamp)  # who updates without saying when has done it when it was said
    return tuple((min(at, received.earliest), min(at, received.last)) if at else None for at in changes)


def _path(url: str) -> str:
    return url.split("/", 3)[3]


def edition(url: str, editions: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """The edition that a page belongs to; an empty one where it is the site's alone."""
    path = f"/{_path(url)}"
    return next((one for one in editions if path.startswith(f"{one['prefix']}/")), {})
