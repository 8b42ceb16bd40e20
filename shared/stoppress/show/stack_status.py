"""The health of the stack, from the facts that `show.read_site` read. Commands, JSON and the page render it. Pure."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from stoppress.audit.audit_state import AuditState
from stoppress.aws.refusals import Count
from stoppress.aws.sites import BadSite
from stoppress.model.file_names import permanent_files
from stoppress.model.news_window import is_current, select_news, window_end
from stoppress.model.site import UNKNOWN_SITE
from stoppress.notify.page_state import SEARCH_CONSOLE_NAME
from stoppress.show.feed import OVERDUE_AFTER, FeedStatus
from stoppress.show.read_site import Alarm, Quarantine, Queue, SiteFacts, StackFacts, Unknown
from stoppress.show.reasons import describe_refused, describe_unverified
from stoppress.sitemaps.robots import named_in_robots, robots_lines

# roll_window writes a heartbeat each minute.
ROLLED_AGE_MAX = timedelta(minutes=10)
# audit_sources runs each hour. Two more hours allow for late and failed runs.
AUDITED_AGE_MAX = timedelta(hours=3)


# The alarms that the log of a function or API explains; of the function "": the logs of all functions. The names are those in
# template.yaml.
ALARMS_OF_LOGS = {
    "ReceiveWebhook": ("WebhooksFailingAlarm", "WebhooksRefusedAlarm"),
    "ReceivePush": ("HubsFailingAlarm",),
    "WebhookApi": ("ApiRefusingAlarm",),
    "RecordArticle": ("ArticlesWaitingAlarm", "ImportsWaitingAlarm"),
    "RewriteSitemaps": ("RewritesWaitingAlarm", "RewritesFailingAlarm", "FilesLateAlarm"),
    "": ("WorkFailingAlarm",),
    "RollWindow": ("ClockStoppedAlarm", "SitesFailingAlarm"),
    "AuditSources": ("WebhooksMissedAlarm", "AuditsFailedAlarm", "AuditsStoppedAlarm"),
    "NotifyEngines": ("EnginesWaitingAlarm", "EnginesDeadAlarm", "EnginesFailingAlarm", "EnginesStoppedAlarm"),
}
ALARM_LOGS = {alarm: function for function, alarms in ALARMS_OF_LOGS.items() for alarm in alarms}
# The command that explains an alarm.
ALARM_COMMANDS = {
    "ArticlesDeadAlarm": "redrive articles --dry-run",
    "FailuresAlarm": "redrive failures --dry-run",
    # Events in quarantine, failing feeds and results of audits are problems of their sites, with their own commands. The
    # alarm's other causes are differences between files and table, and a missing run of reconcile_sites.
    "AttentionAlarm": "reconcile --dry-run",
}


@dataclass(frozen=True)
class Access:
    """How a user reaches the stack: by the name of a deployed stack, or by the URL of a local one.

    `stack` is None for a local stack. `endpoint` is None for the default URL.
    """

    stack: str | None = None
    endpoint: str | None = None

    def command(self, words: str) -> str:
        """Return a command of `stoppress` for this stack."""
        options = f" --stack {self.stack}" if self.stack else f" --local {self.endpoint}" if self.endpoint else ""
        return f"stoppress {words}{options}"

    def log(self, function: str) -> str:
        """Return the command that shows the log of a function or API. `function`: its name in template.yaml; empty for all functions."""
        if self.stack is None:
            return "stoppress up --log functions.log"
        return f"sam logs --stack-name {self.stack}" + (f" --name {function}" if function else "")


@dataclass(frozen=True)
class Problem:
    """A problem, the command that solves or explains it, and its beginning if known. `site`: None for the stack."""

    site: str | None
    what: str
    mend: str
    since: datetime | None = None


@dataclass(frozen=True)
class StackStatus:
    """The status of a stack at the instant `at`. `sites` has the reports of `report_site`.

    The verdict is `attention` if there are problems, else `unknown` if something could not be read. `commit`: what was deployed;
    None for a local stack.
    """

    at: datetime
    verdict: Literal["healthy", "attention", "unknown"]
    problems: tuple[Problem, ...]
    unknown: tuple[Unknown, ...]
    unreadable: tuple[BadSite, ...]
    sites: tuple[Mapping[str, Any], ...]
    queues: tuple[Queue, ...]
    alarms: tuple[Alarm, ...]
    rolled_at: datetime | None
    reconciled_at: datetime | None
    commit: str | None = None


def stack_status(facts: StackFacts, now: datetime, access: Access) -> StackStatus:
    """Return the status that follows from the facts that were read at `now`."""
    problems = [problem for site in facts.sites for problem in _site_problems(site, now, access)]
    problems += _stack_problems(facts, now, access)
    unknown = facts.unknown
    if facts.rolled_at is None:
        unknown += (Unknown("the clock", "roll_window has not run yet: ask again in a minute"),)
    return StackStatus(
        at=now,
        verdict="attention" if problems else "unknown" if unknown else "healthy",
        problems=tuple(replace(problem, what="; ".join(problem.what.splitlines())) for problem in problems),
        unknown=unknown,
        unreadable=facts.unreadable,
        sites=tuple(report_site(site, now) for site in facts.sites),
        queues=facts.queues,
        alarms=facts.alarms,
        rolled_at=facts.rolled_at,
        reconciled_at=facts.reconciled_at,
    )


def report_site(facts: SiteFacts, now: datetime) -> dict[str, Any]:
    """Return the status of one site, without its problems, under the keys of `stoppress status --json`."""
    named = named_in_robots(facts.site, facts.indexes)
    return {
        "host": facts.site.host,
        "timezone": facts.site.timezone,
        "sources": [_report_source(facts, name) for name in facts.site.sources],
        "feeds": [feed.report(now) for feed in facts.feeds],
        "files": [
            {"name": mark.file, "entries": mark.urls, "size_bytes": mark.size_bytes, "changed": mark.changed}
            for mark in facts.marks
        ],
        "window": _report_window(facts, now),
        "quarantine": facts.quarantine,
        "last_event": facts.last_event,
        "newest_file": max((mark.changed for mark in facts.marks), default=None),
        "sitemaps": [
            {
                "name": sitemap.file,
                "submitted": sitemap.submitted_at,
                "read": sitemap.downloaded_at,
                "urls": sum(sitemap.urls.values()),
                "errors": sitemap.errors,
                "warnings": sitemap.warnings,
                "wait_s": facts.waits_s.get(sitemap.file),
            }
            for sitemap in facts.submitted
        ],
        "delays": facts.delays,
        "robots_lines": [] if facts.site.robots is not None else robots_lines(facts.site, named),
    }


def _report_source(facts: SiteFacts, name: str) -> dict[str, Any]:
    source = facts.site.sources[name]
    count = facts.counts.get(name, Count(day="", source=name))
    audit = facts.audits.get(name, AuditState())
    secret = {True: "there", False: "missing", None: "unknown"}[facts.secrets.get(name)]
    return {
        "name": name,
        "adapter": source.adapter,
        "secret": secret if source.secret else "not needed",
        "refused_today": count.refused,
        "unverified_today": count.unverified,
        "audited": audit.until,
        "listed": audit.listed,
        "missed": audit.missed_in_a_day,
    }


def _report_window(facts: SiteFacts, now: datetime) -> dict[str, Any]:
    news = select_news(facts.news, facts.site, now)
    oldest, newest = (news[-1], news[0]) if news else (None, None)
    ages = [(now - entry.published) // timedelta(hours=1) for entry in news]
    return {
        "stories": len(news),
        "oldest": oldest and oldest.published,
        "newest": newest and newest.published,
        "next_to_leave": oldest and oldest.loc,
        "leaves_at": oldest and window_end(oldest.published),
        "published_by_hour": [ages.count(hour) for hour in reversed(range(24))],
    }


# ── problems ──


def _site_problems(facts: SiteFacts, now: datetime, access: Access) -> Iterator[Problem]:
    host, hours = facts.site.host, facts.site.silent_after_hours
    for name, is_there in facts.secrets.items():
        if is_there is False:
            what = f"the secret of the source {name!r} is missing: its webhooks are answered 503"
            yield Problem(host, what, access.command(f"secrets put {host} {name}"))
    yield from _sender_problems(facts, access)
    for name, audit in facts.audits.items():
        if name in facts.site.sources:
            yield from _audit_problems(host, name, audit, now, access)
    yield from _engine_problems(facts, access)
    for feed in facts.feeds:
        yield from _feed_problems(feed, now, access)
    if overdue := [entry.published for entry in facts.news if not is_current(entry.published, now - ROLLED_AGE_MAX)]:
        what = f"stories that roll_window has not removed from the news after 48 hours: {len(overdue):,}"
        yield Problem(host, what, access.log("RollWindow"), window_end(min(overdue)))
    yield from _missing_files(facts, access)
    yield from _quarantine_problems(host, facts.quarantine, access)
    if hours and facts.last_event and now - facts.last_event > timedelta(hours=hours):
        what = f"no event for longer than silent_after_hours ({hours})"
        yield Problem(host, what, access.log("ReceiveWebhook"), facts.last_event)


def _sender_problems(facts: SiteFacts, access: Access) -> Iterator[Problem]:
    host = facts.site.host
    for name, count in facts.counts.items():
        if count.unverified:
            mend = access.command(f"secrets rotate {host} {name}")
            yield Problem(host, describe_unverified(count, facts.site), mend)
    for name, refused in facts.refused.items():
        page = refused[0].url or (refused[0].id and f"{name}#{refused[0].id}")
        mend = access.command(f"explain {shlex.quote(page)} --site {host}") if page else access.log("ReceiveWebhook")
        yield Problem(host, describe_refused(refused, facts.site), mend)


def _feed_problems(feed: FeedStatus, now: datetime, access: Access) -> Iterator[Problem]:
    host, url = feed.site.host, feed.feed.url
    show = access.command(f"feeds show {host}")
    if feed.state and feed.condition == "gone":
        yield Problem(host, f"the feed {url} answered 410 and is not polled any more", show, feed.state.failing_since)
    elif feed.state and feed.condition == "failing":
        yield Problem(host, f"the feed {url} fails: {feed.state.last_error}", show, feed.state.failing_since)
    elif (due := feed.state and feed.state.next_poll_at) and now - due > OVERDUE_AFTER:
        yield Problem(host, f"poll_feeds does not poll the feed {url}", access.log("PollFeeds"), due)


def _audit_problems(host: str, name: str, audit: AuditState, now: datetime, access: Access) -> Iterator[Problem]:
    log = access.log("AuditSources")
    if audit.failed:
        yield Problem(host, f"{name} cannot be listed: {audit.failed}", log, audit.until)
    elif audit.tried_at and now - audit.tried_at > AUDITED_AGE_MAX:
        yield Problem(host, f"{name} is not audited any more", log, audit.tried_at)
    if missed := audit.missed_in_a_day:
        what = f"webhooks of {name} that never came in 24 hours: {missed:,}; the audit sent their stories"
        yield Problem(host, what, log)
    if urls := audit.confirmed:
        what = f"news that the list of {name} lacks: {len(urls):,}, such as {urls[0]}"
        yield Problem(host, what, access.command(f"explain {urls[0]}"))
    if audit.silent:
        what = f"no webhook of {name} arrived, while the feeds listed {audit.silent:,} stories of the last 48 hours"
        yield Problem(host, what, access.log("ReceiveWebhook"))


def _engine_problems(facts: SiteFacts, access: Access) -> Iterator[Problem]:
    host = facts.site.host
    for engine, reason in facts.refusing.items():
        what = "returns no report" if engine == SEARCH_CONSOLE_NAME else "rejects notifications"
        yield Problem(host, f"{engine} {what}: {reason}", access.log("NotifyEngines"))
    for sitemap in facts.submitted:
        if sitemap.errors:
            what = f"Google finds errors in {sitemap.file}: {sitemap.errors:,}; Search Console lists them"
            yield Problem(host, what, access.command(f"doctor {host}"), sitemap.downloaded_at)
    if pages := facts.not_ready:
        first = min(pages, key=lambda page: page.failing_since or page.changed)
        what = f"listed pages that engines cannot index: {len(pages):,}, such as {first.url}, which {first.reason}"
        yield Problem(host, what, access.command(f"explain {first.url}"), first.failing_since)


def _quarantine_problems(host: str, quarantine: Quarantine, access: Access) -> Iterator[Problem]:
    if quarantine.events:
        more = " or more" if quarantine.more else ""
        what = f"events in quarantine: {quarantine.events:,}{more}; newest reason: {quarantine.newest_reason}"
        yield Problem(host, what, access.command(f"quarantine list --site {host}"), quarantine.newest_at)


def _missing_files(facts: SiteFacts, access: Access) -> Iterator[Problem]:
    names: dict[str, tuple[str, ...]] = {file: (file,) for file in [*permanent_files(facts.site), *facts.indexes.files]}
    names |= {mark.file: (mark.file, *mark.also) for mark in facts.marks}
    for file, forms in names.items():
        missing = [form for form in forms if facts.stored is not None and form not in facts.stored]
        if missing:
            mend = access.command(f"rebuild {file} --site {facts.site.host}")
            yield Problem(facts.site.host, f"not in the bucket: {', '.join(missing)}", mend)


def _stack_problems(facts: StackFacts, now: datetime, access: Access) -> Iterator[Problem]:
    for site in facts.unreadable:
        what = f"its configuration cannot be read, the version before is in force: {site.reason}"
        yield Problem(site.host, what, access.command("sites put site.json"))
    yield from _quarantine_problems(UNKNOWN_SITE, facts.quarantine, access)
    for queue in facts.queues:
        if queue.dead and queue.messages:
            letters = "dead letter" if queue.messages == 1 else "dead letters"
            what = f"{queue.messages:,} {letters} in the queue {queue.name}"
            yield Problem(None, what, access.command(f"redrive {queue.name} --dry-run"))
    if facts.rolled_at and now - facts.rolled_at > ROLLED_AGE_MAX:
        what = "roll_window does not run: no story leaves the news sitemap, and no held article appears"
        yield Problem(None, what, access.log("RollWindow"), facts.rolled_at)
    for alarm in facts.alarms:
        words = ALARM_COMMANDS.get(alarm.name)
        mend = access.command(words) if words else access.log(ALARM_LOGS.get(alarm.name, ""))
        yield Problem(None, f"{alarm.name} fires: {alarm.meaning}", mend, alarm.since)
