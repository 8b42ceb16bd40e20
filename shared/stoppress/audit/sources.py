"""Audits: each hour, compare what each source lists with what was recorded, and send the articles whose webhook is missing.

An audit sends its events to the articles queue. Their `received_at` is the instant of the request for the list, so later events of the
source are newer. A killed or failed audit lists the same period again in the next hour.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from stoppress.audit.audit_state import UNLISTED_MAX, AuditOutcome, AuditState, audit_key, with_missed
from stoppress.audit.list_differences import changed_at, has_changed_since, is_missed, silent_sources, unlisted
from stoppress.audit.pages import Reader
from stoppress.aws import queues, secrets, table
from stoppress.aws.codec import from_item, to_item
from stoppress.aws.inventory import news_entries, read_articles, read_claims
from stoppress.cms.listing import Query
from stoppress.cms.mapping import load
from stoppress.model.event import ArticleEvent, ListingError, Page
from stoppress.model.news_window import NEWS_WINDOW
from stoppress.model.site import Site
from stoppress.model.site_parts import secret_path
from stoppress.primitives.instants import NEVER, Deadline, exact

# An audit leaves out the changes of the last minutes: their webhooks may still arrive.
GRACE = timedelta(minutes=5)
# Each audit lists at least the news window, so that it notices a missing story while the story is news. Some APIs read an instant
# in their own time zone. The greatest offset of a zone is 14 hours.
WINDOW = NEWS_WINDOW + timedelta(hours=14)
# Prefix of an audit's delivery ids.
BY_AUDIT = "audit"


def audit_sources(sites: Iterable[Site], now: datetime, deadline: Deadline = NEVER) -> Iterator[AuditOutcome]:
    """Audit each source that has a list, or a secret on a site with feeds. The source with the oldest audit comes first.

    Without a list, the audit only checks whether the source is silent. A source that fails does not stop the others.
    """
    audited = {
        audit_key(site.host, name): (site, name)
        for site in sites
        for name, source in site.sources.items()
        if (source.list and source.list.audit) or (source.secret and site.feeds)
    }
    states = {key: from_item(AuditState, item) for key, item in table.get_many(audited).items()} if audited else {}
    no_audit = AuditState()
    oldest_first = sorted(audited, key=lambda key: exact(at) if (at := states.get(key, no_audit).tried_at) else "")
    for key in oldest_first:
        site, name = audited[key]
        if deadline.is_over():
            yield AuditOutcome(site.host, name, "not reached", reason="the run's time was over")
            continue
        state = states.get(key, no_audit)
        try:
            outcome, state = _audit(site, name, state, now, deadline)
        except Exception as error:  # noqa: BLE001 - the other sources are audited all the same
            reason = str(error) if isinstance(error, ListingError) else repr(error)
            outcome = AuditOutcome(site.host, name, "failed", reason=reason[:1_000])
            state = replace(state, tried_at=now, failed=outcome.reason)
        table.put_if(to_item(state, key))
        yield outcome


def _audit(
    site: Site, name: str, state: AuditState, now: datetime, deadline: Deadline
) -> tuple[AuditOutcome, AuditState]:
    source = site.sources[name]
    news = news_entries(site.host)
    claims = read_claims(site.host, [entry.loc for entry in news], consistent=False)
    silent = silent_sources(site, news, claims, now).get(name, 0) if site.feeds else 0
    outcome = AuditOutcome(site.host, name, "audited", newly_silent=bool(silent and not state.silent))
    state = replace(state, tried_at=now, failed="", silent=silent)
    if not source.list or not source.list.audit:
        return outcome, state
    until = state.open_until or now - GRACE
    since = state.since or min(state.until or now, now - WINDOW)
    keys = secrets.load(secret_path("lists", site.host, source.list.secret)) if source.list.secret else ()
    query = Query(site, name, source, load(source.list_adapter), tuple(keys), since)
    page, listed, missed, is_readable = _send_missed(site, query, state.cursor or None, until, deadline)
    outcome = replace(outcome, listed=len(listed), missed=tuple(missed))
    state = replace(state, missed=with_missed(state.missed, len(missed), now))
    if page.cursor:
        unfinished = replace(state, cursor=page.cursor, since=since, open_until=until)
        return replace(outcome, result="unfinished", reason="the run's time was over"), unfinished
    urls: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    # An incomplete list proves nothing about what it lacks, and an empty one is a fault of the source.
    if listed and not state.cursor and is_readable:
        names = unlisted(news, claims, name, listed, until)
        stored = read_articles(site.host, names.values())
        urls = tuple(url for url, name in names.items() if name in stored and has_changed_since(stored[name], since))
        # An article that was recorded after the last audit may have been published again. Only the next audit can confirm it.
        unlisted_before = unlisted(news, claims, name, listed, state.until or until).keys() & set(state.unlisted)
        confirmed = tuple(url for url in urls if url in unlisted_before)
    state = replace(state, until=until, cursor="", since=None, open_until=None, listed=len(listed))
    state = replace(state, unlisted=urls[:UNLISTED_MAX], confirmed=confirmed)
    return replace(outcome, unlisted=confirmed), state


def _send_missed(
    site: Site, query: Query, cursor: str | None, until: datetime, deadline: Deadline
) -> tuple[Page, set[str], list[ArticleEvent], bool]:
    """List a source and send the events that were never recorded.

    Return the last page, the names of all listed articles, the missed events, and whether each item has a name.
    """
    page = Page(cursor=cursor)
    listed: set[str] = set()
    missed: list[ArticleEvent] = []
    is_readable = True
    for page in Reader(query, BY_AUDIT, deadline).pages(cursor):
        # Changes after `until` are left out: their webhooks may still arrive.
        events = {event.name: event for item in page.items if (changed_at(event := item.event) or until) <= until}
        articles = read_articles(site.host, events)
        page_missed = [event for name, event in events.items() if is_missed(event, articles.get(name))]
        queues.send_articles(page_missed)
        missed += page_missed
        listed.update(item.event.name for item in page.items)
        listed.update(problem.article for problem in page.problems if problem.article)
        is_readable &= all(problem.article for problem in page.problems)
    return page, listed, missed, is_readable
