"""Submit the sitemaps to Search Console, and read its reports on them and on new stories.

A run sends these requests after its notifications, which never wait for them. A failed request is repeated later.
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

# The most seconds that a run spends on these requests, so that they do not delay notifications.
REQUESTS_SECONDS_MAX = 30.0
# This many failed inspections end a run, because each one counts against the day's quota.
FAILURES_MAX = 3
# The most inspections that one sweep requests, so that they do not delay the queue. The next sweep requests others.
INSPECTED_BY_SWEEP_MAX = 100
# Sweeps request no inspection once this many were made in the day. The rest is for new stories.
INSPECTED_BY_SWEEPS_MAX = page_state.INSPECTIONS_A_DAY // 2
_Reader: TypeAlias = Callable[[bytes], dict[str, Any]]


def first_inspections(site: Site, notified: Iterable[PageState]) -> list[tuple[str, int]]:
    """Return the messages to inspect pages that engines have just been notified of, with their delays in seconds."""
    if _settings(site) is None:
        return []
    delay = int(page_state.INSPECTED_AFTER.total_seconds())
    new = (page.url for page in notified if not (page.gone or page.inspected_at))
    return [(page_state.message(site.host, inspect=url), delay) for url in new]


def due_requests(site: Site, files: Iterable[str], stored: Sequence[Item], now: datetime) -> list[str]:
    """Return a sweep's messages for requests that are due. `files`: the sitemaps to submit. `stored`: all items under `notified#<site>`."""
    settings = _settings(site)
    if settings is None:
        return []
    due = _due_pages(stored, now)
    quota_left = INSPECTED_BY_SWEEPS_MAX - page_state.read_inspections(settings.property, now) if due else 0
    inspected = due[: max(0, min(quota_left, INSPECTED_BY_SWEEP_MAX))]
    messages = [page_state.message(site.host, inspect=page.url) for page in inspected]
    sitemaps = _sitemaps(files, stored)
    if due_files := [sitemap.file for sitemap in sitemaps if sitemap.is_due(now)]:
        messages.append(page_state.message(site.host, sitemaps=due_files))
    return messages


def handle(host: str, messages: Iterable[Mapping[str, Any]], now: datetime, deadline: Deadline) -> str | None:
    """Send the requests of a site's messages to Search Console. Return why it fails, if an operator must act."""
    site = page_state.notified_site(host)
    settings = _settings(site) if site else None
    if site is None or settings is None:
        return None
    engine_key, messages = (page_state.notified_pk(host), page_state.SEARCH_CONSOLE), list(messages)
    page_keys = [page_state.page_key(host, message["inspect"]) for message in messages if "inspect" in message]
    files = [file for message in messages for file in message.get("sitemaps", ())]
    stored = table.get_many([engine_key, *page_keys, *(sitemap_reports.submitted_key(host, file) for file in files)])
    engine = stored.pop(engine_key, {})
    pages = _due_pages(stored.values(), now)
    sitemaps = _sitemaps(files, stored.values())
    # One message at a time requests a report again: other messages arrive before the report is due.
    unread = {sitemap.file for sitemap in sitemaps if sitemap.is_unread(now) and sitemap.is_due(now)}
    reason, seconds = None, page_state.paused_seconds(engine, now)
    console = _Console(site, settings, now, deadline, deadline.seconds_left, unread)
    if (sitemaps or pages) and not seconds and (answer := console.send(sitemaps, pages)):
        seconds = answer.after_seconds
        reason = page_state.note_answer(host, page_state.SEARCH_CONSOLE, engine, answer, now)
    # After CHECKED_FOR only the sweep requests inspections.
    in_time = [page for page in pages if now < (page.notified_at or page.changed) + page_state.CHECKED_FOR]
    wait = seconds or page_state.SLOW_CHECK_SECONDS
    queues.send_engines((page_state.message(host, inspect=page.url), wait) for page in in_time)
    _schedule_reports(host, unread)
    return reason


def watch_reads(site: Site, file: str, pages: Iterable[tuple[PageState, PageState | None]], now: datetime) -> None:
    """Store when pages enter a news sitemap, and request its report until Google reads it. `pages`: new and previous states."""
    listed = [new.listed_at for new, old in pages if new.listed_at and not (old and old.listed_at)]
    if listed and _settings(site) and sitemap_reports.note_unread(site.host, file, listed, now):
        _schedule_reports(site.host, [file])


def _schedule_reports(host: str, files: Iterable[str]) -> None:
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
    """The API for a site. `seconds_at_start`: until the deadline. `has_answered`: a request was successful."""

    site: Site
    settings: SearchConsole
    now: datetime
    deadline: Deadline
    seconds_at_start: float
    unread: set[str]  # sitemaps with unread stories; those that Google has read are removed
    token: str = ""
    has_answered: bool = False

    def send(self, sitemaps: Sequence[SubmittedSitemap], pages: list[PageState]) -> Meaning | None:
        """Send the requests while there is time, and remove the inspected pages from `pages`. None: no request was sent."""
        try:
            self.token = service_account.token(secret_path("engines", self.site.host, self.settings.secret), self.now)
            for sitemap in sitemaps:
                if self._has_time():
                    self._submit_or_read(sitemap)
            self._inspect(pages)
        except Unanswered as error:
            return error.meaning
        return Meaning("accepted", after_seconds=page_state.SLOW_CHECK_SECONDS) if self.has_answered else None

    def _has_time(self) -> bool:
        spent = self.seconds_at_start - self.deadline.seconds_left
        return not (self.deadline.is_over() or spent > REQUESTS_SECONDS_MAX)

    def _request(self, method: str, url: str, body: bytes = b"", read: _Reader = lambda _: {}) -> dict[str, Any] | None:
        """Return the result of `read` for the answer's body. None: the answer to a GET was 404. Raises Unanswered."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": search_console.CONTENT_TYPE}
        if method == "GET":
            send = partial(client.fetch, url, headers, seconds_max=client.POST_SECONDS_MAX, redirects=False)
        else:
            content_type = search_console.CONTENT_TYPE if body else None
            send = partial(client.post_body, url, body, content_type, headers, method)
        answer = service_account.send(send)
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
            # None: a user deleted it in Search Console.
            sitemap = SubmittedSitemap(before.file) if report is None else replace(sitemap, read_at=self.now, **report)
        if sitemap.is_to_submit:
            self._request("PUT", url)
            sitemap = replace(sitemap, submitted_at=self.now)
        if sitemap != before:
            stored = sitemap_reports.note_report(self.site.host, sitemap, self.now)
            if not stored.is_unread(self.now):
                self.unread.discard(before.file)

    def _inspect(self, pages: list[PageState]) -> None:
        """Inspect each page, while there are time and quota, and remove it from `pages`. Raises Unanswered.

        Google may fail for some pages only. So such a failure ends the run only after several, or if no page succeeds.
        """
        failures: list[Unanswered] = []
        due = len(pages)
        for page in list(pages):
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
            pages.remove(page)
        if failures and len(pages) == due:
            raise failures[0]


def _with_inspection(old: PageState, status: Mapping[str, Any], now: datetime) -> PageState:
    """Return the state with Google's index status of the page. `status` has fields of `PageState`."""
    return replace(
        old,
        **{**status, "crawled_at": status["crawled_at"] or old.crawled_at},
        inspected_at=now,
        indexed_at=old.indexed_at or (now if status["verdict"] == INDEXED else None),
    )
