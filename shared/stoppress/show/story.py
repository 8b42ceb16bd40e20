"""Whether a story is in the sitemaps, and why not, from the facts that `show.read_story` read.

Commands, JSON and the page render the answer. The files decide whether a page is listed. The reasons in `show.reasons` explain why
not: the page appears when none of them applies any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoppress.aws.refusals import Refusal
from stoppress.model.article import Article
from stoppress.model.file_names import is_news
from stoppress.model.news_window import window_end
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import identity
from stoppress.show.question import find_question
from stoppress.show.read_files import FileRead
from stoppress.show.read_story import Facts, Received, read_facts
from stoppress.show.reasons import TARGETS, Reason, Target, find_held_article, find_reasons
from stoppress.show.timeline import Stop, list_stops

# The log has the earlier events.
RECEIVED_MAX = 50


@dataclass(frozen=True)
class Answer:
    """Whether a sitemap lists the page.

    `file` lists it; `changed` is the file's last change. `since` is when the page entered, `until` when it leaves, `enters_at`
    when it will enter. The first of `reasons` decides, the others apply too. A listed page with reasons leaves with the next
    rewrite of the file.
    """

    listed: bool
    file: str | None = None
    changed: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    enters_at: datetime | None = None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Story:
    """The answer about one page. `articles` has the reports of `report_article`. `received` are the page's newest deliveries, and
    `received_earlier` counts the others.

    The times in sentences are in `timezone`, the site's time zone. `unsearched` lists the items that were not searched. If the
    site notifies engines, `way` is the story's timeline, and `not_notified` explains why engines do not have its newest change.
    `google` shows whether Google has seen the story, as Search Console reports it.
    """

    asked: str
    site: str
    timezone: str
    url: str
    at: datetime
    news: Answer
    general: Answer
    held_until: datetime | None
    articles: tuple[Mapping[str, Any], ...]
    received: tuple[Received, ...]
    received_earlier: int
    did_you_mean: tuple[str, ...]
    unsearched: tuple[str, ...]
    way: tuple[Stop, ...]
    not_notified: str
    google: str

    @property
    def is_listed(self) -> bool:
        return self.news.listed or self.general.listed


def story_of(asked: str, host: str | None, now: datetime, refused: Sequence[Refusal] | None = None) -> Story:
    """Return the answer about a URL, an article `source#id`, or a fragment of a path.

    The arguments are those of `find_question`. Raises Unclear, UnknownSite, BadConfiguration, and the errors of the table and the
    bucket.
    """
    return answer_story(read_facts(find_question(asked, host, now, refused), now), now)


def answer_story(facts: Facts, now: datetime) -> Story:
    """Return the answer that follows from the facts at an instant."""
    owner = facts.owner
    if facts.article and owner and owner.name != facts.article:
        owner = None  # the page is listed for another article
    held = None if owner else find_held_article(facts)
    # The present pages of articles that moved away from this page.
    moved_to = [article.url for article in facts.articles if article.url and article.has_entries and not facts.owner]
    timeline: tuple[Stop, ...] = ()
    if owner and facts.site.engines:
        timeline = list_stops(owner.first_published, owner.received_at, facts.page_state, facts.read_by_google)
    return Story(
        asked=facts.asked,
        site=facts.site.host,
        timezone=facts.site.timezone,
        url=facts.url,
        at=now,
        news=_answer(facts, owner, "news", now),
        general=_answer(facts, owner, "general", now),
        held_until=held.release_at if held else None,
        articles=tuple(report_article(facts, article, now) for article in facts.articles),
        received=facts.received[-RECEIVED_MAX:],
        received_earlier=max(0, len(facts.received) - RECEIVED_MAX),
        did_you_mean=tuple(dict.fromkeys([*moved_to, *facts.others])),
        unsearched=facts.unsearched,
        way=timeline,
        not_notified=_not_notified(facts, now),
        google=_google(facts, timeline),
    )


def _answer(facts: Facts, owner: Article | None, target: Target, now: datetime) -> Answer:
    reasons = find_reasons(facts, owner, target, now)
    files = [file for file in facts.files if is_news(file.file) == (target == "news")]
    listing = next((file for file in files if file.lists), None)
    # If the user asked for an article, the page counts as listed only for that article.
    if listing and owner == facts.owner:
        until = window_end(facts.news.published) if target == "news" and facts.news and not reasons else None
        return Answer(True, listing.file, listing.changed, _listed_since(facts, owner), until, None, reasons)
    held = find_held_article(facts)
    enters_at = held.release_at if held and [reason.kind for reason in reasons] == ["held"] else None
    return Answer(False, enters_at=enters_at, reasons=reasons or (_not_written(facts, owner, target, files),))


def _not_written(facts: Facts, owner: Article | None, target: Target, files: list[FileRead]) -> Reason:
    recorded = parse(owner.order.received) if owner else None
    what = f"it was recorded at {facts.at(recorded)}, and " if recorded else ""
    place = owner and (owner.news if target == "news" else None if facts.is_configured else owner.shard)
    file = next((file for file in files if place and file.file == place.file), None)
    if file is None or file.changed is None:
        return Reason("not written", f"{what}its file is not written yet", recorded)
    text = f"{what}{file.file}, last changed at {facts.at(file.changed)}, does not list it yet"
    return Reason("not written", text, recorded)


def _listed_since(facts: Facts, owner: Article | None) -> datetime | None:
    """Return the start of the owner's present listing; None if the events of 90 days do not show it, or not all were read."""
    since = None
    for received in () if facts.unsearched else facts.received:
        if owner and received.by == owner.name and received.url is None:
            if received.outcome == "listed":
                since = since or received.at
            elif received.outcome in ("removed", "held", "excluded", "displaced"):
                since = None
    return max(since, owner.first_published or since) if since and owner else None


def report_article(facts: Facts, article: Article, now: datetime) -> dict[str, Any]:
    """Return an article of the page under the keys of `stoppress explain --json`."""
    state = str(article.state)
    if article.has_entries:
        state = "hidden" if all(find_reasons(facts, article, target, now) for target in TARGETS) else "listed"
    return {
        "name": article.name,
        "state": state,
        "url": article.url,
        "first_received": article.received_at,
        "first_published": article.first_published,
        "last_changed": article.lastmod,
        "held_until": article.release_at,
        "reason": "" if article.has_entries else article.reason,
        "dropped": article.dropped,
    }


def _not_notified(facts: Facts, now: datetime) -> str:
    page = facts.page_state
    if page is None or page.is_notified:
        return ""
    if page.checks and page.failing_since:
        return f"the page {page.reason}, since {facts.at(page.failing_since)}; last checked {facts.at(page.checked_at or now)}"
    return f"the engines are to be notified of the change of {facts.at(page.changed)}"


def _google(facts: Facts, timeline: Sequence[Stop]) -> str:
    """Return whether Google has seen a story, and the reports of Search Console; empty without Search Console."""
    page, engines = facts.page_state, facts.site.engines
    if page is None or not (engines and engines.search_console):
        return ""
    seen = [f"{stop.what} at {facts.at(stop.at)}" for stop in timeline if "Google" in stop.what]
    parts = [f"yes: {'; '.join(seen)}" if seen else "not yet: no report shows that Google has read the story"]
    if page.inspected_at:
        parts.append(f"{page.coverage or page.verdict} (asked {facts.at(page.inspected_at)})")
    if page.google_canonical and identity(page.google_canonical) != facts.page:
        parts.append(f"its canonical URL is {page.google_canonical}")
    if page.robots_state == "DISALLOWED":
        parts.append("robots.txt forbids to crawl it")
    return "; ".join([*parts, *([f"no more, because {facts.console_reason}"] if facts.console_reason else [])])
