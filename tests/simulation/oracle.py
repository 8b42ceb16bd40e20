"""The oracle: computes the files' expected content from the editors' acts, in the order in which they happened.

The oracle uses true time, ignores how events are sent, and imports nothing of the product. `arrivals` finds acts whose order
the events do not show; the oracle does not judge the pages of those acts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

WINDOW = timedelta(hours=48)
FEED = "feed"
# How far in the future a date may be without an embargo, in a feed or if the sender's clock is ahead.
TOLERANCE = timedelta(minutes=5)
# By then a received event is recorded, even after retries.
RECORDED = timedelta(hours=3)
Range = tuple[datetime, datetime]


@dataclass(frozen=True)
class Act:
    """An editor's change of an article, or a changed entry of a feed. `number` is the true order.

    `at` is true time; all other instants are as the sender writes them. A removal contains the URL of its article.
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
    ref: str = "id"  # what a removal contains: id, url, both
    by: str = "feed"  # transport: webhook, bus, feed
    spelling: str = ""  # the URL as sent, if it differs from `url`
    language: str = ""
    alternates: tuple[tuple[str, str], ...] = ()  # languages and URLs of other pages

    @property
    def removal(self) -> bool:
        """Return True if the act removes the article."""
        return self.verb in ("unpublish", "delete")

    @property
    def written(self) -> str:
        return self.spelling or self.url

    @property
    def article(self) -> str:
        """Source and id; the id is empty if the act has only a URL."""
        return f"{self.source}#{self.id}"


@dataclass(frozen=True)
class Received:
    """When the stack received an act: the first receipt is between `earliest` and `latest`, the last repeat at `last`."""

    earliest: datetime
    latest: datetime
    last: datetime


class ArrivalFacts(Protocol):
    """When acts were received, and what their events show about their order."""

    def received(self, act: Act) -> Received: ...
    def last_act_is_known(self, acts: Sequence[Act]) -> bool: ...
    def history_is_known(self, acts: Sequence[Act]) -> bool: ...
    def is_newer(self, later: Act, earlier: Act) -> bool: ...
    def received_in_order(self, acts: Sequence[Act]) -> bool: ...
    def may_be_superseded(self, act: Act) -> bool: ...


@dataclass
class ExpectedArticle:
    """The expected state of an article at an instant. `dates` are its possible dates of first publication."""

    act: Act
    live: bool = False
    embargo: datetime | None = None
    was_embargoed: bool = False
    was_public_at: set[str] = field(default_factory=set)
    dates: tuple[Range, ...] = ()
    lastmods: tuple[Range | None, ...] = (None,)
    is_decidable: bool = True

    @property
    def is_public(self) -> bool:
        """Return True if readers may see the page."""
        return self.live and self.embargo is None

    def may_be_dated(self, date: datetime) -> bool:
        """Return True if `date` is a possible date of first publication."""
        return any(_is_within(date, range_) for range_ in self.dates)

    def may_have_changed(self, at: datetime | None) -> bool:
        """Return True if `at` is a possible lastmod."""
        candidates = [_later(change, date) for change in self.lastmods for date in self.dates or (None,)]
        return any(range_ is None if at is None else _is_within(at, range_) for range_ in candidates)

    def news_at(self, now: datetime) -> set[bool]:
        """Return whether the article is in the news window, for each possible date."""
        if not self.act.news:
            return {False}
        return {date + WINDOW > now for range_ in self.dates for date in range_} or {False}


def _is_within(at: datetime, range_: Range | None) -> bool:
    return range_ is not None and range_[0].replace(microsecond=0) <= at <= range_[1]


def _later(change: Range | None, date: Range | None) -> Range | None:
    if change is None or date is None:
        return change or date
    return max(change[0], date[0]), max(change[1], date[1])


@dataclass
class ExpectedPages:
    """The pages that a site's files must list, and the URLs for which this is undecidable."""

    pages: dict[str, ExpectedArticle] = field(default_factory=dict)
    news: dict[str, ExpectedArticle] = field(default_factory=dict)
    undecidable: set[str] = field(default_factory=set)
    undecidable_news: set[str] = field(default_factory=set)


def expected_pages(
    acts: Sequence[Act], site: str, excluded: Sequence[str], now: datetime, arrivals: ArrivalFacts
) -> ExpectedPages:
    """Return the pages that a site's files must list at `now`; `excluded` are path prefixes that its rules exclude."""
    by_name = {name: history for name, history in histories(acts, site).items() if history[0].id}
    articles = {name: (history, expected_article(history, now, arrivals)) for name, history in by_name.items()}
    expected = ExpectedPages()
    for url in sorted({act.url for act in acts if act.site == site}):
        page = _page_at(url, acts, articles, arrivals)
        if page == "undecidable":
            expected.undecidable.add(url)
        elif isinstance(page, ExpectedArticle) and not any(_path(url).startswith(prefix) for prefix in excluded):
            expected.pages[url] = page
            in_news = page.news_at(now)
            if in_news == {True}:
                expected.news[url] = page
            elif in_news == {True, False}:
                expected.undecidable_news.add(url)
    return expected


def histories(acts: Sequence[Act], site: str) -> dict[str, list[Act]]:
    """Return the acts of each article of a site, oldest first."""
    by_article: dict[str, list[Act]] = defaultdict(list)
    for act in sorted((act for act in acts if act.site == site), key=lambda act: act.number):
        by_article[act.article].append(act)
    return by_article


def _page_at(
    url: str, acts: Sequence[Act], articles: Mapping[str, tuple[list[Act], ExpectedArticle]], arrivals: ArrivalFacts
) -> ExpectedArticle | str | None:
    """Return the article listed at a URL: the last one published there, with the CMS before any feed."""
    here = [(history, article) for history, article in articles.values() if any(act.url == url for act in history)]
    if not all(article.is_decidable for _, article in here):
        return "undecidable"
    public = [
        article for _, article in here if article.is_public and article.act.url == url and not article.act.noindex
    ]
    of_cms = [article for article in public if article.act.source != FEED]
    if not of_cms and public:
        # A feed does not list a page again that the CMS had here, or removed by this URL.
        before = [(history, article) for history, article in here if article.act.source != FEED]
        removals = [act for act in acts if act.url == url and act.removal and act.source != FEED and act.ref != "id"]
        for history, article in before:
            if not arrivals.received_in_order(history) or (article.was_embargoed and url in article.was_public_at):
                return "undecidable"
        if any(url in article.was_public_at for _, article in before):
            return None
        entries = [history[0] for history, article in here if article.act.source == FEED]
        if removals:
            last = max(arrivals.received(entry).last for entry in entries)
            return None if any(last < arrivals.received(removal).earliest for removal in removals) else "undecidable"
    contenders = sorted(of_cms or public, key=lambda article: article.act.number)
    if not all(arrivals.is_newer(contenders[-1].act, article.act) for article in contenders[:-1]):
        return "undecidable"
    return contenders[-1] if contenders else None


def expected_article(acts: Sequence[Act], now: datetime, arrivals: ArrivalFacts) -> ExpectedArticle:
    """Return the expected state of an article at an instant, after all of its acts."""
    this = ExpectedArticle(acts[-1])
    life: Sequence[Act] = ()
    possible: tuple[Range, ...] = ()
    for number, act in enumerate(acts):
        received = arrivals.received(act)
        _end_embargo(this, act.at, acts[number - 1].url)
        # The release came before this act was received or recorded, so the embargo or the past date may be the first publication.
        past = act.published_at if act.published_at and act.published_at <= act.at else None
        if this.embargo and this.embargo <= received.latest + (RECORDED if act.removal or past else timedelta()):
            possible += ((this.embargo, this.embargo), *([(past, past)] if past else []))
        if act.removal:
            this.live, this.embargo = False, None
        else:
            this.live = True
            life = life or acts[number:]
            _apply_date(this, act, life, arrivals)
        if act.verb == "delete":
            # Under faults, messages wait for hours: if the deletion is recorded last, later acts look like the same story.
            possible += this.dates
            this.dates, life = (), ()
    _end_embargo(this, now, acts[-1].url)
    this.dates += possible
    dates_are_known = arrivals.history_is_known(acts)
    is_complete = dates_are_known or acts[-1].removal or _last_act_is_complete(acts, arrivals)
    this.is_decidable = arrivals.last_act_is_known(acts) and is_complete
    if not dates_are_known:
        dated = [(act.published_at, arrivals.received(act)) for act in acts if act.published_at]
        this.dates = tuple((min(date, received.earliest), date) for date, received in dated)
    this.lastmods = _lastmods(acts[-1], arrivals.received(acts[-1]))
    return this


def _last_act_is_complete(acts: Sequence[Act], arrivals: ArrivalFacts) -> bool:
    """Return True if the last act alone decides embargo and date: it has a date, or no act had a date in the future.

    An article published anew keeps a date if the date is known to come after the deletion.
    """
    if acts[-1].published_at:
        return True
    reborn = max((number for number, act in enumerate(acts, 1) if act.verb == "delete"), default=0)
    dated = [number for number, act in enumerate(acts, 1) if act.published_at and number > reborn]
    keeps_date = not reborn or any(arrivals.last_act_is_known(acts[:number]) for number in dated)
    return keeps_date and not any(act.published_at and act.published_at > act.at for act in acts)


def _end_embargo(this: ExpectedArticle, now: datetime, url: str) -> None:
    """End an embargo at its release, which then is the first publication."""
    if this.embargo and this.embargo <= now:
        this.dates, this.embargo = ((this.embargo, this.embargo),), None
    if this.is_public:
        this.was_public_at.add(url)


def _apply_date(this: ExpectedArticle, act: Act, life: Sequence[Act], arrivals: ArrivalFacts) -> None:
    """Apply an act's date: as an embargo, as the first publication, as a correction of it, or not at all."""
    date, received, of_life = act.published_at, arrivals.received(act), [arrivals.received(other) for other in life]
    if date is None:
        return
    clock_is_ahead = act.source == FEED or (act.stamp is not None and date <= act.stamp)
    if date > act.at and clock_is_ahead and received.earliest + TOLERANCE < date <= received.latest + TOLERANCE:
        this.dates = (*this.dates, (received.earliest, date))  # the time of receipt decides whether it is an embargo
        this.embargo = None
        return
    if date > act.at and not (clock_is_ahead and date <= received.latest + TOLERANCE):
        this.embargo, this.was_embargoed = date, True
        if this.dates and received.latest >= date - timedelta(seconds=15):
            # Received at its release or later, the date may look like a later date of a live story.
            this.dates, this.embargo = (*this.dates, (date, date)), None
        return
    this.embargo = None
    exact = (min(date, received.earliest), date) if date > act.at else (date, date)
    first_received = min(other.earliest for other in of_life), min(other.latest for other in of_life)
    if act.stamp and date <= act.stamp:
        # After a late receipt, timestamps still show since when the article is published.
        stamps = [other.stamp for other in life if other.stamp]
        first_received = min(first_received[0], *stamps), min(first_received[1], *stamps)
    # If the clock was behind and was corrected, the date is later than the first act's timestamp.
    was_behind = any(other.stamp and other.stamp < other.at - TOLERANCE for other in life if other.at < act.at)
    if not this.dates or (date <= first_received[0] and not was_behind):
        this.dates = (exact,)
    elif (
        exact[0] < max(start for start, _ in this.dates)
        or exact[0] <= first_received[1] + TOLERANCE + timedelta(seconds=15)
        or _may_be_unlisted([other for other in life if other.number <= act.number], arrivals)
    ):
        # A date before a possible date, a late first receipt, a correction by minutes, or the first date that a file listed.
        this.dates = (*this.dates, exact)


def _may_be_unlisted(acts: Sequence[Act], arrivals: ArrivalFacts) -> bool:
    """Return True if perhaps no file listed the article before its last act, due to noindex, a rule or another story."""
    published = [act for act in acts[:-1] if not act.removal]
    excluded = [act for act in published if act.noindex or "/sponsored/" in act.url or arrivals.may_be_superseded(act)]
    is_mixed = bool(excluded) or len(published) < len(acts) - 1
    return excluded == published or (is_mixed and not arrivals.received_in_order(acts))


def _lastmods(act: Act, received: Received) -> tuple[Range | None, ...]:
    """Return the possible change dates of the last act, none later than its receipt."""
    changes = [act.updated_at]
    if act.verb == "update" and act.updated_at is None:
        changes.append(act.stamp)  # an update without a date counts as changed at its timestamp
    return tuple((min(at, received.earliest), min(at, received.last)) if at else None for at in changes)


def _path(url: str) -> str:
    return url.split("/", 3)[3]


def edition(url: str, editions: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the edition of a page, empty if the page is in none."""
    path = f"/{_path(url)}"
    return next((edition for edition in editions if path.startswith(f"{edition['prefix']}/")), {})
