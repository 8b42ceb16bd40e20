"""Submit the sitemaps to Search Console, and ask what Google made of them and of new stories.

A notification never waits for this: a run asks afterwards. What Search Console does not answer is asked again later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from stoppress.aws import queues, table
from stoppress.aws.items import Item
from stoppress.http import client
from stoppress.model.site import Site
from stoppress.model.site_parts import SearchConsole, secret_path
from stoppress.notify import page_state, search_console, service_account, sitemap_reports
from stoppress.notify.indexnow import Meaning
from stoppress.notify.page_state import PageState
from stoppress.notify.search_console import INDEXED
from stoppress.notify.service_account import Unanswered
from stoppress.notify.sitemap_reports import READ_UNREAD_EVERY, SubmittedSitemap
from stoppress.primitives.instants import Deadline

# A run spends at most this time on questions, so that they do not hold up notifications.
ASKED_SECONDS_MAX = 30.0
# This many pages for which Google fails end a run, because each request counts against the day's quota.
FAILURES_MAX = 3
# The most pages that one sweep asks about, so that they do not hold up the queue. The next sweep asks about others.
ASKED_BY_SWEEP_MAX = 100
# The sweep asks until so much of the day's quota is used: the rest is kept for new stories.
INSPECTED_BY_SWEEPS_MAX = page_state.INSPECTIONS_A_DAY // 2
_Reader: TypeAlias = Callable[[bytes], dict[str, Any]]


def first_questions(site: Site, notified: Iterable[PageState]) -> list[tuple[str, int]]:
    """Return the messages about pages that engines have just been notified of, with their delays in seconds."""
    if _settings(site) is None:
        return []
    delay = int(page_state.INSPECTED_AFTER.total_seconds())
    new = (page.url for page in notified if not (page.gone or page.inspected_at))
    return [(page_state.message(site.host, inspect=url), delay) for url in new]


def due_questions(site: Site, files: Iterable[str], stored: Sequence[Item], now: datetime) -> list[str]:
    """Return the messages about what is due, for the sweep. `files` are the sitemaps to submit. `stored` are all items under `notified#<site>`."""
    settings = _settings(site)
    if settings is None:
        return []
    due = _due_pages(stored, now)
    left = INSPECTED_BY_SWEEPS_MAX - page_state.read_inspections(settings.property, now) if due else 0
    asked = due[: max(0, min(left, ASKED_BY_SWEEP_MAX))]
    messages = [page_state.message(site.host, inspect=page.url) for page in asked]
    wanted = _sitemaps(files, stored)
    if due_files := [sitemap.file for sitemap in wanted if sitemap.is_due(now)]:
        messages.append(page_state.message(site.host, sitemaps=due_files))
    return messages


def ask(host: str, questions: Iterable[Mapping[str, Any]], now: datetime, deadline: Deadline) -> str | None:
    """Ask Search Console what messages of a site ask. Return why it does not answer, if somebody must look at that."""
    site = page_state.notified_site(host)
    settings = _settings(site) if site else None
    if site is None or settings is None:
        return None
    engine_key, asked = (page_state.notified_pk(host), page_state.SEARCH_CONSOLE), list(questions)
    pages = [page_state.page_key(host, question["inspect"]) for question in asked if "inspect" in question]
    files = [file for question in asked for file in question.get("sitemaps", ())]
    stored = table.get_many([engine_key, *pages, *(sitemap_reports.submitted_key(host, file) for file in files)])
    engine = stored.pop(engine_key, {})
    left = _due_pages(stored.values(), now)
    sitemaps = _sitemaps(files, stored.values())
    # One message at a time asks for a report again: the others come before it is due.
    unread = {each.file for each in sitemaps if each.is_unread(now) and each.is_due(now)}
    reason, seconds = None, page_state.paused_seconds(engine, now)
    console = _Console(site, settings, now, deadline, deadline.seconds_left, unread)
    if (sitemaps or left) and not seconds and (answer := console.ask(sitemaps, left)):
        seconds = answer.after_seconds
        reason = page_state.note_answer(host, page_state.SEARCH_CONSOLE, engine, answer, now)
    # Later only the sweep asks.
    in_time = [page for page in left if now < (page.notified_at or page.changed) + page_state.CHECKED_FOR]
    wait = seconds or page_state.SLOW_CHECK_SECONDS
    queues.send_engines((page_state.message(host, inspect=page.url), wait) for page in in_time)
    _ask_again(host, unread)
    return reason


def watch_reads(site: Site, file: str, pages: Iterable[tuple[PageState, PageState | None]], now: datetime) -> None:
    """Note which pages, each with its state before, enter a news sitemap, and ask for reports on it until Google has read them."""
    listed = [new.listed_at for new, old in pages if new.listed_at and not (old and old.listed_at)]
    if listed and _settings(site) and sitemap_reports.note_unread(site.host, file, listed, now):
        _ask_again(site.host, [file])


def _ask_again(host: str, files: Iterable[str]) -> None:
    messages = [page_state.message(host, sitemaps=[file]) for file in files]
    queues.send_engines((message, int(READ_UNREAD_EVERY.total_seconds())) for message in messages)


def _settings(site: Site) -> SearchConsole | None:
    return site.engines.search_console if site.engines else None


def _sitemaps(files: Iterable[str], stored: Iterable[Item]) -> list[SubmittedSitemap]:
    """Return the sitemaps of these names; those that are not stored are new."""
    submitted = {sitemap.file: sitemap for sitemap in sitemap_reports.submitted_in(stored)}
    return [submitted.get(file, SubmittedSitemap(file)) for file in files]


def _due_pages(stored: Iterable[Item], now: datetime) -> list[PageState]:
    """Return the pages to inspect, the newest stories first."""
    due = [page for page in page_state.pages_in(stored) if page_state.is_inspection_due(page, now)]
    return sorted(due, key=lambda page: page.published or page.changed, reverse=True)


@dataclass
class _Console:
    """The API for a site. `started`: the seconds until the deadline at the start. `has_answered`: a request was successful."""

    site: Site
    settings: SearchConsole
    now: datetime
    deadline: Deadline
    started: float
    unread: set[str]  # sitemaps with unread stories; those that Google has read are taken out
    token: str = ""
    has_answered: bool = False

    def ask(self, sitemaps: Sequence[SubmittedSitemap], left: list[PageState]) -> Meaning | None:
        """Ask about sitemaps and pages while there is time; take the inspected pages out of `left`. None: nothing was asked."""
        try:
            self.token = service_account.token(secret_path("engines", self.site.host, self.settings.secret), self.now)
            for sitemap in sitemaps:
                if self._has_time():
                    self._submit_or_read(sitemap)
            self._inspect(left)
        except Unanswered as error:
            return error.meaning
        return Meaning("accepted", after_seconds=page_state.SLOW_CHECK_SECONDS) if self.has_answered else None

    def _has_time(self) -> bool:
        spent = self.started - self.deadline.seconds_left
        return not (self.deadline.is_over() or spent > ASKED_SECONDS_MAX)

    def _request(self, method: str, url: str, body: bytes = b"", read: _Reader = lambda _: {}) -> dict[str, Any] | None:
        """Return what `read` finds in the answer's body. None: a GET found nothing. Raises Unanswered."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": search_console.CONTENT_TYPE}
        if method == "GET":
            send = partial(client.fetch, url, headers, seconds_max=client.POST_SECONDS_MAX, redirects=False)
        else:
            content_type = search_console.CONTENT_TYPE if body else None
            send = partial(client.post_body, url, body, content_type, headers, method)
        answer = service_account.ask(send)
        if method == "GET" and answer.status == 404:
            return None
        if answer.status == 401:
            service_account.forget()
        meaning = search_console.meaning(answer.status, answer.headers, answer.body, self.now)
        if meaning.result != "accepted":
            is_of_page = answer.status == 400 or (answer.status >= 500 and answer.status != 503)
            raise Unanswered(meaning, is_of_page=is_of_page)
        self.has_answered = True
        try:
            return read(answer.body)
        except ValueError as error:
            meaning = Meaning("later", f"sends an answer that {error}", is_certain=True)
            raise Unanswered(meaning, is_of_page=True) from None

    def _submit_or_read(self, before: SubmittedSitemap) -> None:
        """Read the report on a sitemap if it is due, and submit the sitemap if it is new or has errors."""
        url = search_console.sitemap_url(self.settings.property, f"{self.site.origin}/{before.file}")
        sitemap = before
        if sitemap.is_to_read(self.now):
            report = self._request("GET", url, read=search_console.read_report)
            # None: somebody has deleted it in Search Console.
            sitemap = SubmittedSitemap(before.file) if report is None else replace(sitemap, read_at=self.now, **report)
        if sitemap.is_to_submit:
            self._request("PUT", url)
            sitemap = replace(sitemap, submitted_at=self.now)
        if sitemap != before:
            noted = sitemap_reports.note_report(self.site.host, sitemap, self.now)
            if not noted.is_unread(self.now):
                self.unread.discard(before.file)

    def _inspect(self, left: list[PageState]) -> None:
        """Ask about each page, while there are time and quota, and take it out of `left`. Raises Unanswered.

        Google may fail for some pages only. So such a failure ends the run only after several, or if no page succeeds.
        """
        failures: list[Unanswered] = []
        pages = len(left)
        for page in list(left):
            if not (self._has_time() and page_state.count_inspection(self.settings.property, self.now)):
                break
            body = search_console.inspection_body(self.settings.property, page.url)
            try:
                status = self._request("POST", search_console.INSPECTION_URL, body, search_console.read_inspection)
            except Unanswered as error:
                failures.append(error)
                if not error.is_of_page or len(failures) == FAILURES_MAX:
                    raise
                continue
            change = partial(_with_inspection, status=status or {}, now=self.now)
            page_state.update_page(self.site.host, page.url, change)
            left.remove(page)
        if failures and len(left) == pages:
            raise failures[0]


def _with_inspection(old: PageState, status: Mapping[str, Any], now: datetime) -> PageState:
    """Return the state with what Google has of the page. `status` has fields of `PageState`."""
    return replace(
        old,
        **{**status, "crawled_at": status["crawled_at"] or old.crawled_at},
        inspected_at=now,
        indexed_at=old.indexed_at or (now if status["verdict"] == INDEXED else None),
    )
