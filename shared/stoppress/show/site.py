"""Is the stack healthy? Facts about a stack and its sites in, one answer out. Commands, JSON and the page render this answer. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from stoppress.audit.state import AuditState
from stoppress.aws.sites import BadSite
from stoppress.model.entries import Mark, NewsEntry
from stoppress.model.file_names import INDEX_FILE, permanent_files
from stoppress.model.news_window import is_current, select_news, window_end
from stoppress.model.site import UNKNOWN_SITE, Site, Source
from stoppress.notify.state import SEARCH_CONSOLE_NAME, PageState
from stoppress.notify.submitted import SubmittedSitemap
from stoppress.show.feed import FeedStatus
from stoppress.show.plain import plain
from stoppress.show.way import Delays

# roll_window confirms every five minutes that its runs finish.
ROLLED_AGE_MAX = timedelta(minutes=10)
# audit_sources runs each hour; two more hours let runs be late or fail.
AUDITED_AGE_MAX = timedelta(hours=3)

Verdict: TypeAlias = Literal["well", "attention", "unknown"]
SecretState: TypeAlias = Literal["there", "missing", "not needed", "unknown"]

# The function or API whose log explains an alarm; empty: all functions. The names are those in template.yaml.
ALARM_LOGS = {
    "WebhooksFailingAlarm": "ReceiveWebhook",
    "HubsFailingAlarm": "ReceivePush",
    "WebhooksRefusedAlarm": "ReceiveWebhook",
    "ApiRefusingAlarm": "WebhookApi",
    "ArticlesWaitingAlarm": "RecordArticle",
    "RewritesWaitingAlarm": "RewriteSitemaps",
    "RewritesFailingAlarm": "RewriteSitemaps",
    "WorkFailingAlarm": "",
    "FilesLateAlarm": "RewriteSitemaps",
    "ClockStoppedAlarm": "RollWindow",
    "SitesFailingAlarm": "RollWindow",
    "ImportsWaitingAlarm": "RecordArticle",
    "WebhooksMissedAlarm": "AuditSources",
    "AuditsFailedAlarm": "AuditSources",
    "AuditsStoppedAlarm": "AuditSources",
    "EnginesWaitingAlarm": "NotifyEngines",
    "EnginesDeadAlarm": "NotifyEngines",
    "EnginesFailingAlarm": "NotifyEngines",
    "EnginesStoppedAlarm": "NotifyEngines",
}
# The command that explains an alarm.
ALARM_COMMANDS = {
    "ArticlesDeadAlarm": "redrive articles --dry-run",
    "FailuresAlarm": "redrive failures --dry-run",
    # Events in quarantine, failing feeds and results of audits are problems of their sites, with commands of their own. The
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
        """A command of `stoppress` for this stack."""
        options = f" --stack {self.stack}" if self.stack else f" --local {self.endpoint}" if self.endpoint else ""
        return f"stoppress {words}{options}"

    def log(self, function: str) -> str:
        """The command that shows the log of a function or API. `function`: its name in template.yaml; empty for all functions."""
        if self.stack is None:
            return "stoppress up --log functions.log"
        return f"sam logs --stack-name {self.stack}" + (f" --name {function}" if function else "")


# ── facts ──


@dataclass(frozen=True)
class Quarantine:
    """The events in quarantine: how many, whether there are more than were counted, and the newest."""

    events: int = 0
    more: bool = False
    newest_at: datetime | None = None
    newest_reason: str | None = None


@dataclass(frozen=True)
class SiteFacts:
    """What the stack holds of a site.

    `secrets`: whether each source's secret is there, by the source's name; None if that could not be read. `stored`: the names in the
    bucket; None if they could not be read. `last_event` is known only for sites with `silent_after_hours`. `counts`: for each source the numbers of today's refused articles and
    ignored events, and of its wrong signatures. `audits` are the states of the sources that are audited. `refusing` says
    by engine why it refuses notifications, `not_ready` are listed pages that engines cannot index. `submitted` are the sitemaps in
    Search Console. `delays` are those of the last day; None: the site has no engines, or they were not read.
    """

    site: Site
    secrets: Mapping[str, bool | None]
    feeds: tuple[FeedStatus, ...]
    marks: tuple[Mark, ...]
    news: tuple[NewsEntry, ...]
    stored: frozenset[str] | None
    quarantine: Quarantine
    last_event: datetime | None = None
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    audits: Mapping[str, AuditState] = field(default_factory=dict)
    refusing: Mapping[str, str] = field(default_factory=dict)
    not_ready: tuple[PageState, ...] = ()
    submitted: tuple[SubmittedSitemap, ...] = ()
    delays: Delays | None = None


@dataclass(frozen=True)
class Unknown:
    """What could not be read, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Queue:
    """A queue and its messages. `name` is `articles`, `imports`, `rewrites` or `failures`; `dead`: its messages are dead letters."""

    name: str
    dead: bool
    messages: int


@dataclass(frozen=True)
class Alarm:
    """An alarm that fires: its name in template.yaml, since when, and its description."""

    name: str
    since: datetime
    meaning: str


@dataclass(frozen=True)
class LastRuns:
    """When roll_window and reconcile_sites ran last; None: not yet."""

    rolled_at: datetime | None = None
    reconciled_at: datetime | None = None


@dataclass(frozen=True)
class StackFacts:
    """What a stack contains. `unreadable`: sites whose newest version cannot be read. `alarms`: those in ALARM.

    `quarantine`: events of no known site.
    """

    sites: tuple[SiteFacts, ...]
    unreadable: tuple[BadSite, ...] = ()
    quarantine: Quarantine = Quarantine()
    queues: tuple[Queue, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    last_runs: LastRuns = LastRuns()
    unknown: tuple[Unknown, ...] = ()


# ── the answer ──


@dataclass(frozen=True)
class Problem:
    """What is wrong, since when if that is known, and the command that mends or explains it. `site`: None for the stack."""

    site: str | None
    what: str
    mend: str
    since: datetime | None = None


@dataclass(frozen=True)
class SourceStatus:
    """A source of a site's configuration, whether its secret is there, and what was refused today (UTC).

    `refused_today` counts refused articles and ignored events. `unverified_today` counts wrong signatures. For a source with
    audits, `audited` is until when its list was read, `listed` counts the articles in it, `missed` the webhooks lost in 24 hours.
    """

    name: str
    adapter: str
    secret: SecretState
    refused_today: int
    unverified_today: int
    audited: datetime | None = None
    listed: int = 0
    missed: int = 0


@dataclass(frozen=True)
class FileStatus:
    """A file as it was last written: entries, bytes, and when its bytes changed."""

    name: str
    entries: int
    size_bytes: int
    changed: datetime


@dataclass(frozen=True)
class Window:
    """The stories in the news sitemaps: how many, the dates of the oldest and the newest, and which leaves next and when."""

    stories: int
    oldest: datetime | None = None
    newest: datetime | None = None
    next_to_leave: str | None = None
    leaves_at: datetime | None = None


@dataclass(frozen=True)
class SitemapStatus:
    """A sitemap in Search Console: when it was submitted, when Google last read it, and what Google found in it then."""

    name: str
    submitted: datetime | None
    read: datetime | None
    urls: int
    errors: int
    warnings: int


@dataclass(frozen=True)
class SiteStatus:
    """The status of a site. `feeds` are the reports of `FeedStatus`, `sitemaps` are in Search Console. `delays`: None without engines."""

    host: str
    sources: tuple[SourceStatus, ...]
    feeds: tuple[Mapping[str, Any], ...]
    files: tuple[FileStatus, ...]
    window: Window
    quarantine: Quarantine
    last_event: datetime | None
    newest_file: datetime | None
    sitemaps: tuple[SitemapStatus, ...] = ()
    delays: Delays | None = None


@dataclass(frozen=True)
class StackStatus:
    """The status of a stack at the instant `at`.

    The verdict is `attention` if there are problems, else `unknown` if something could not be read.
    """

    at: datetime
    verdict: Verdict
    problems: tuple[Problem, ...]
    unknown: tuple[Unknown, ...]
    unreadable: tuple[BadSite, ...]
    sites: tuple[SiteStatus, ...]
    queues: tuple[Queue, ...]
    alarms: tuple[Alarm, ...]
    rolled_at: datetime | None
    reconciled_at: datetime | None

    def report(self) -> Any:
        """The answer for programs: dataclasses as objects, instants in ISO 8601 and UTC."""
        return plain(self)


def stack_status(facts: StackFacts, now: datetime, access: Access) -> StackStatus:
    """The answer from the facts that were read at `now`."""
    problems = [problem for site in facts.sites for problem in _site_problems(site, now, access)]
    problems += _stack_problems(facts, now, access)
    unknown = facts.unknown
    if facts.last_runs.rolled_at is None:
        unknown += (Unknown("the clock", "roll_window has not run yet: ask again in a minute"),)
    return StackStatus(
        at=now,
        verdict="attention" if problems else "unknown" if unknown else "well",
        problems=tuple(problems),
        unknown=unknown,
        unreadable=facts.unreadable,
        sites=tuple(site_status(site, now) for site in facts.sites),
        queues=facts.queues,
        alarms=facts.alarms,
        rolled_at=facts.last_runs.rolled_at,
        reconciled_at=facts.last_runs.reconciled_at,
    )


def site_status(facts: SiteFacts, now: datetime) -> SiteStatus:
    """The status of one site, without its problems."""
    files = [FileStatus(mark.file, mark.urls, mark.size_bytes, mark.changed) for mark in facts.marks]
    return SiteStatus(
        host=facts.site.host,
        sources=tuple(_source(facts, name, source) for name, source in facts.site.sources.items()),
        feeds=tuple(feed.report(now) for feed in facts.feeds),
        files=tuple(files),
        window=_window(select_news(facts.news, facts.site, now)),
        quarantine=facts.quarantine,
        last_event=facts.last_event,
        newest_file=max((file.changed for file in files), default=None),
        sitemaps=tuple(map(_sitemap, facts.submitted)),
        delays=facts.delays,
    )


def _sitemap(known: SubmittedSitemap) -> SitemapStatus:
    urls = sum(known.urls.values())
    return SitemapStatus(known.file, known.submitted_at, known.downloaded_at, urls, known.errors, known.warnings)


def _secret_state(secret: str | None, is_there: bool | None) -> SecretState:
    if secret is None:
        return "not needed"
    return "unknown" if is_there is None else "there" if is_there else "missing"


def _source(facts: SiteFacts, name: str, source: Source) -> SourceStatus:
    refused, unverified = facts.counts.get(name, (0, 0))
    secret = _secret_state(source.secret, facts.secrets.get(name))
    audit = facts.audits.get(name, AuditState())
    return SourceStatus(
        name, source.adapter, secret, refused, unverified, audit.until, audit.listed, audit.missed_in_a_day
    )


def _window(stories: Sequence[NewsEntry]) -> Window:
    if not stories:
        return Window(0)
    newest, oldest = stories[0], stories[-1]
    return Window(len(stories), oldest.published, newest.published, oldest.loc, window_end(oldest.published))


def _site_problems(facts: SiteFacts, now: datetime, access: Access) -> Iterator[Problem]:
    site, host = facts.site, facts.site.host
    for name, source in site.sources.items():
        if source.secret and facts.secrets.get(name) is False:
            what = f"the secret of the source {name!r} is missing: its webhooks are answered 503"
            yield Problem(host, what, access.command(f"secrets put {host} {name}"))
    yield from _audit_problems(facts, now, access)
    yield from _engine_problems(facts, access)
    for feed in facts.feeds:
        state = feed.state
        if feed.condition == "gone":
            what = f"the feed {feed.feed.url} answered 410 and is not polled any more"
            yield Problem(host, what, access.command(f"feeds show {host}"), state.failing_since if state else None)
        elif state and feed.condition == "failing":
            what = f"the feed {feed.feed.url} fails: {_line(state.last_error)}"
            yield Problem(host, what, access.command(f"feeds show {host}"), state.failing_since)
        elif since := feed.overdue_since(now):
            yield Problem(host, f"poll_feeds does not poll the feed {feed.feed.url}", access.log("PollFeeds"), since)
    if overdue := [entry.published for entry in facts.news if not is_current(entry.published, now - ROLLED_AGE_MAX)]:
        what = f"stories that roll_window has not removed from the news after 48 hours: {len(overdue):,}"
        yield Problem(host, what, access.log("RollWindow"), window_end(min(overdue)))
    yield from _missing_files(facts, access)
    yield from _quarantined(host, facts.quarantine, access)
    hours = site.silent_after_hours
    if hours and facts.last_event and now - facts.last_event > timedelta(hours=hours):
        what = f"no event for longer than silent_after_hours ({hours})"
        yield Problem(host, what, access.log("ReceiveWebhook"), facts.last_event)


def _audit_problems(facts: SiteFacts, now: datetime, access: Access) -> Iterator[Problem]:
    host = facts.site.host
    for name, audit in facts.audits.items():
        if name not in facts.site.sources:
            continue
        if audit.failed:
            yield Problem(
                host, f"{name} cannot be listed: {_line(audit.failed)}", access.log("AuditSources"), audit.until
            )
        elif audit.tried_at and now - audit.tried_at > AUDITED_AGE_MAX:
            yield Problem(host, f"{name} is not audited any more", access.log("AuditSources"), audit.tried_at)
        if audit.missed_in_a_day:
            what = f"webhooks of {name} that never came in 24 hours: {audit.missed_in_a_day:,}; the audit sent their stories"
            yield Problem(host, what, access.log("AuditSources"))
        if audit.confirmed:
            what = f"news that the list of {name} lacks: {len(audit.confirmed):,}, such as {audit.confirmed[0]}"
            yield Problem(host, what, access.command(f"explain {audit.confirmed[0]}"))
        if audit.silent:
            what = f"no webhook of {name} came, while the feeds brought {audit.silent:,} stories of the last 48 hours"
            yield Problem(host, what, access.log("ReceiveWebhook"))


def _engine_problems(facts: SiteFacts, access: Access) -> Iterator[Problem]:
    host = facts.site.host
    for engine, reason in facts.refusing.items():
        what = "returns no report" if engine == SEARCH_CONSOLE_NAME else "rejects notifications"
        yield Problem(host, f"{engine} {what}: {_line(reason)}", access.log("NotifyEngines"))
    for sitemap in facts.submitted:
        if sitemap.errors:
            what = f"Google finds errors in {sitemap.file}: {sitemap.errors:,}; Search Console names them"
            yield Problem(host, what, access.command(f"doctor {host}"), sitemap.downloaded_at)
    if facts.not_ready:
        first = min(facts.not_ready, key=lambda page: page.failing_since or page.changed)
        what = f"listed pages that engines cannot index: {len(facts.not_ready):,}, such as {first.url}, which {first.reason}"
        yield Problem(host, what, access.command(f"explain {first.url}"), first.failing_since)


def _quarantined(host: str, quarantine: Quarantine, access: Access) -> Iterator[Problem]:
    if quarantine.events:
        more = " or more" if quarantine.more else ""
        what = f"events in quarantine: {quarantine.events:,}{more}; newest reason: {_line(quarantine.newest_reason)}"
        yield Problem(host, what, access.command(f"quarantine list --site {host}"), quarantine.newest_at)


def _missing_files(facts: SiteFacts, access: Access) -> Iterator[Problem]:
    host = facts.site.host
    names: dict[str, tuple[str, ...]] = {file: (file,) for file in [*permanent_files(facts.site), INDEX_FILE]}
    names |= {mark.file: (mark.file, *mark.also) for mark in facts.marks}
    for file, forms in names.items():
        missing = [form for form in forms if facts.stored is not None and form not in facts.stored]
        if missing:
            mend = access.command(f"rebuild {file} --site {host}")
            yield Problem(host, f"not in the bucket: {', '.join(missing)}", mend)


def _stack_problems(facts: StackFacts, now: datetime, access: Access) -> Iterator[Problem]:
    for site in facts.unreadable:
        put = access.command("sites put site.json")
        yield Problem(
            site.host, f"its configuration cannot be read, the version before is in force: {_line(site.reason)}", put
        )
    yield from _quarantined(UNKNOWN_SITE, facts.quarantine, access)
    for queue in facts.queues:
        if queue.dead and queue.messages:
            letters = "dead letter" if queue.messages == 1 else "dead letters"
            what = f"{queue.messages:,} {letters} in the queue {queue.name}"
            yield Problem(None, what, access.command(f"redrive {queue.name} --dry-run"))
    if facts.last_runs.rolled_at and now - facts.last_runs.rolled_at > ROLLED_AGE_MAX:
        what = "roll_window does not run: no story leaves the news, and no held article appears"
        yield Problem(None, what, access.log("RollWindow"), facts.last_runs.rolled_at)
    for alarm in facts.alarms:
        words = ALARM_COMMANDS.get(alarm.name)
        mend = access.command(words) if words else access.log(ALARM_LOGS.get(alarm.name, ""))
        yield Problem(None, f"{alarm.name} fires: {alarm.meaning}", mend, alarm.since)


def _line(text: str | None) -> str:
    """A reason of several lines as one."""
    return "; ".join((text or "").splitlines())
