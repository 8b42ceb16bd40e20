"""Search Console hears of the sitemaps, and is asked what Google made of them and of new stories.

A notification never waits for this: a run asks afterwards. What Search Console does not answer is asked again later.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from stoppress.aws import queues, table
from stoppress.aws.items import Item
from stoppress.http import client
from stoppress.http.errors import FetchError, Refused
from stoppress.model.file_names import INDEX_FILE, is_news
from stoppress.model.site import SearchConsole, Site, secret_path
from stoppress.notify import quota, search_console, service_account
from stoppress.notify.indexnow import WRONG_SECONDS, Meaning
from stoppress.notify.search_console import INDEXED, INSPECTIONS_A_DAY, Inspection
from stoppress.notify.service_account import Unanswered
from stoppress.notify.state import (
    CHECKED_FOR,
    INSPECTED_AFTER,
    SEARCH_CONSOLE,
    SLOW_CHECK_SECONDS,
    PageState,
    is_inspection_due,
    notified_pk,
    page_key,
    pages_in,
)
from stoppress.notify.store import note_answer, notified_site, paused_seconds, update_page
from stoppress.notify.submitted import SubmittedSitemap, submitted_in, submitted_item, submitted_key
from stoppress.primitives.deadline import Deadline

# A run spends at most this time on questions, so that they do not hold up notifications.
ASKED_SECONDS_MAX = 30.0
# This many pages for which Google fails end a run.
FAILURES_MAX = 3
# The most pages that one sweep asks about, so that they do not hold up the queue. The next sweep asks about others.
ASKED_BY_SWEEP_MAX = 100
# The sweep asks only while more than this part of the day's quota is left: new stories come first.
KEPT_FOR_NEW_STORIES = INSPECTIONS_A_DAY // 2
_Answer = TypeVar("_Answer")


@dataclass
class Questions:
    """What the messages of a site ask: to inspect pages, and to submit sitemaps or read the reports on them."""

    ids: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def add(self, id_: str, document: Mapping[str, Any]) -> None:
        self.ids.append(id_)
        self.urls += [document["inspect"]] if "inspect" in document else []
        self.files += document.get("sitemaps", [])


def is_question(document: Mapping[str, Any]) -> bool:
    """Whether a message is for this module."""
    return "inspect" in document or "sitemaps" in document


def inspect_message(host: str, url: str) -> str:
    """A message that asks to inspect a page."""
    return json.dumps({"site": host, "inspect": url})


def sitemaps_message(host: str, files: Sequence[str]) -> str:
    """A message that asks to submit sitemaps, or to read the reports on them."""
    return json.dumps({"site": host, "sitemaps": files})


def first_questions(site: Site, notified: Iterable[PageState]) -> list[tuple[str, int]]:
    """The messages about pages that engines have just been notified of, with their delays in seconds."""
    if _settings(site) is None:
        return []
    delay = int(INSPECTED_AFTER.total_seconds())
    return [(inspect_message(site.host, page.url), delay) for page in notified if not (page.gone or page.inspected_at)]


def due_questions(
    site: Site, files: Sequence[str], stored: Sequence[Item], pages: Iterable[PageState], now: datetime
) -> list[str]:
    """The messages about what is due, for the sweep. `stored` are all items under `notified#<site>`."""
    settings = _settings(site)
    if settings is None:
        return []
    due = _newest_first(page for page in pages if is_inspection_due(page, now))
    left = INSPECTIONS_A_DAY - KEPT_FOR_NEW_STORIES - quota.used(settings.property, now) if due else 0
    messages = [inspect_message(site.host, page.url) for page in due[: max(0, min(left, ASKED_BY_SWEEP_MAX))]]
    known = {sitemap.file: sitemap for sitemap in submitted_in(stored)}
    wanted = [known.get(file, SubmittedSitemap(file)) for file in [INDEX_FILE, *filter(is_news, files)] if files]
    if due_files := [sitemap.file for sitemap in wanted if sitemap.is_to_submit or sitemap.is_to_read(now)]:
        messages.append(sitemaps_message(site.host, due_files))
    return messages


def ask(host: str, questions: Questions, now: datetime, deadline: Deadline) -> str | None:
    """Ask Search Console. Returns why it does not answer, if somebody must look at that."""
    site = notified_site(host)
    settings = _settings(site) if site else None
    if site is None or settings is None:
        return None
    engine_key = notified_pk(host), SEARCH_CONSOLE
    pages = (page_key(host, url) for url in questions.urls)
    stored = table.get_many([engine_key, *pages, *(submitted_key(host, file) for file in questions.files)])
    engine = stored.pop(engine_key, {})
    left = _newest_first(page for page in pages_in(stored.values()) if is_inspection_due(page, now))
    known = {sitemap.file: sitemap for sitemap in submitted_in(stored.values())}
    sitemaps = [known.get(file, SubmittedSitemap(file)) for file in questions.files]
    answer = None
    seconds = paused_seconds(engine, now)
    if not seconds and (left or sitemaps):
        seconds = SLOW_CHECK_SECONDS
        try:
            token = service_account.token(secret_path("engines", host, settings.secret), now)
            console = _Console(settings, token, now, deadline, deadline.seconds_left)
            for sitemap in sitemaps:
                if console.has_time():
                    _submit_or_read(site, sitemap, console)
            _inspect(site, left, console)
            answer = Meaning("accepted") if console.has_answered else None
        except Unanswered as error:
            answer, seconds = error.meaning, error.meaning.after_seconds
    in_time = [
        page for page in left if now < (page.notified_at or page.changed) + CHECKED_FOR
    ]  # then only the sweep asks
    queues.send_engines((inspect_message(host, page.url), seconds) for page in in_time)
    reason = note_answer(host, SEARCH_CONSOLE, engine, answer, now) if answer else None
    return f"Search Console: {reason}" if reason else None


def _settings(site: Site) -> SearchConsole | None:
    return site.engines.search_console if site.engines else None


def _newest_first(pages: Iterable[PageState]) -> list[PageState]:
    return sorted(pages, key=lambda page: page.published or page.changed, reverse=True)


@dataclass
class _Console:
    """The API, with a token. `started`: the seconds until the deadline at the start. `has_answered`: a request was successful."""

    settings: SearchConsole
    token: str
    now: datetime
    deadline: Deadline
    started: float
    has_answered: bool = False

    def has_time(self) -> bool:
        """Whether there is time for another request."""
        spent = self.started - self.deadline.seconds_left
        return not (self.deadline.is_over() or spent > ASKED_SECONDS_MAX)

    def request(self, method: str, url: str, body: bytes = b"") -> bytes | None:
        """The body of the answer. None: a GET found nothing. Raises Unanswered."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": search_console.CONTENT_TYPE}
        try:
            if method == "GET":
                answer = client.fetch(url, headers, seconds_max=client.POST_SECONDS_MAX, redirects=False)
            else:
                answer = client.post_body(url, body, search_console.CONTENT_TYPE if body else None, headers, method)
        except Refused as error:
            raise Unanswered(Meaning("wrong", str(error), WRONG_SECONDS, is_certain=True)) from None
        except FetchError as error:
            raise Unanswered(Meaning("later", str(error), is_certain=True)) from None
        if method == "GET" and answer.status == 404:
            return None
        if answer.status == 401:
            service_account.forget()
        meaning = search_console.meaning(answer.status, answer.headers, answer.body, self.now)
        if meaning.result != "accepted":
            is_of_page = answer.status == 400 or (answer.status >= 500 and answer.status != 503)
            raise Unanswered(meaning, is_of_page=is_of_page)
        self.has_answered = True
        return answer.body


def _submit_or_read(site: Site, before: SubmittedSitemap, console: _Console) -> None:
    """Read the report on a sitemap if it is due, and submit the sitemap if it is new or has errors."""
    url = search_console.sitemap_url(console.settings.property, f"{site.origin}/{before.file}")
    sitemap = before
    if sitemap.is_to_read(console.now):
        body = console.request("GET", url)
        if body is None:  # somebody has deleted it in Search Console
            sitemap = SubmittedSitemap(before.file)
        else:
            sitemap = sitemap.with_report(_read(search_console.read_report, body), console.now)
    if sitemap.is_to_submit:
        console.request("PUT", url)
        sitemap = replace(sitemap, submitted_at=console.now)
    if sitemap != before:
        table.put_if(submitted_item(site.host, sitemap, console.now))


def _inspect(site: Site, left: list[PageState], console: _Console) -> None:
    """Ask about each page, while there are time and quota, and take it out of `left`. Raises Unanswered.

    Google may fail for some pages only. So a failure ends the run only after several, or if no page succeeds.
    """
    failures: list[Unanswered] = []
    pages = len(left)
    for page in list(left):
        if not (console.has_time() and quota.takes_one(console.settings.property, console.now)):
            break
        body = search_console.inspection_body(console.settings.property, page.url)
        try:
            answer = console.request("POST", search_console.INSPECTION_URL, body)
            inspection = _read(search_console.read_inspection, answer or b"")
        except Unanswered as error:
            failures.append(error)
            if not error.is_of_page or len(failures) == FAILURES_MAX:
                raise
            continue
        update_page(site.host, page.url, lambda old, of=inspection: _inspected(old, of, console.now))  # type: ignore[misc]
        left.remove(page)
    if failures and len(left) == pages:
        raise failures[0]


def _read(reader: Callable[[bytes], _Answer], body: bytes) -> _Answer:
    try:
        return reader(body)
    except ValueError as error:
        meaning = Meaning("later", f"sends an answer that {error}", is_certain=True)
        raise Unanswered(meaning, is_of_page=True) from None


def _inspected(old: PageState | None, inspection: Inspection, now: datetime) -> PageState | None:
    if old is None:
        return None
    return replace(
        old,
        inspected_at=now,
        verdict=inspection.verdict,
        coverage=inspection.coverage,
        google_canonical=inspection.canonical,
        robots_state=inspection.robots,
        crawled_at=inspection.crawled_at or old.crawled_at,
        indexed_at=old.indexed_at or (now if inspection.verdict == INDEXED else None),
    )
