"""Is all well? Facts about a stack and its sites in, one answer out. Commands, JSON and the page render this answer. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from stoppress.audit.state import AuditState
from stoppress.model.entries import Mark, NewsEntry
from stoppress.model.file_names import INDEX_FILE, permanent_files
from stoppress.model.site import UNKNOWN_SITE, Site, Source
from stoppress.show.feed import FeedStatus
from stoppress.show.plain import plain
from stoppress.show.way import Delays
from stoppress.tell.state import PageState

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
    "WorkFailingAlarm": "",
    "FilesLateAlarm": "RewriteSitemaps",
    "ClockStoppedAlarm": "RollWindow",
    "SitesFailingAlarm": "RollWindow",
    "WebhooksMissedAlarm": "AuditSources",
    "AuditsFailedAlarm": "AuditSources",
    "AuditsStoppedAlarm": "AuditSources",
    "EnginesDeadAlarm": "TellEngines",
    "EnginesFailingAlarm": "TellEngines",
    "EnginesStoppedAlarm": "TellEngines",
}
# The command that explains an alarm.
ALARM_COMMANDS = {
    "ArticlesDeadAlarm": "redrive articles --dry-run",
    "RewritesDeadAlarm": "redrive rewrites --dry-run",
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
    bucket; None if they could not be read. `last_event` is known only for sites with `silent_after_hours`; `heard_version` is
    the version of the configuration at that event. `counts`: for each source the numbers of today's refused articles and
    ignored events, and of its wrong signatures. `audits` are the states of the sources that are audited. `refusing` says
    by engine why it refuses what it is told, `not_ready` are listed pages that engines cannot index. `delays` are those of the
    last day; None: the site has no engines, or they were not read.
    """

    site: Site
    secrets: Mapping[str, bool | None]
    feeds: tuple[FeedStatus, ...]
    marks: tuple[Mark, ...]
    news: tuple[NewsEntry, ...]
    stored: frozenset[str] | None
    quarantine: Quarantine
    last_event: datetime | None = None
    heard_version: int = 0
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    audits: Mapping[str, AuditState] = field(default_factory=dict)
    refusing: Mapping[str, str] = field(default_factory=dict)
    not_ready: tuple[PageState, ...] = ()
    delays: Delays | None = None


@dataclass(frozen=True)
class Unreadable:
    """A site whose parameter cannot be used, and why."""

    host: str
    parameter: str
    reason: str


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
    """An alarm that rings: its name in template.yaml, since when, and its description."""

    name: str
    since: datetime
    meaning: str


@dataclass(frozen=True)
class StackFacts:
    """What a stack holds. `gone`: sites without a parameter that were not retired. `alarms`: those that ring.

    `quarantine`: events that name no known site. `confirmed_at`: when roll_window last noted that its runs finish.
    `reconciliation_due`: the instant before which reconcile_sites must run. None: the registry has no such note.
    """

    sites: tuple[SiteFacts, ...]
    unreadable: tuple[Unreadable, ...] = ()
    gone: tuple[str, ...] = ()
    quarantine: Quarantine = Quarantine()
    queues: tuple[Queue, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    confirmed_at: datetime | None = None
    reconciliation_due: datetime | None = None
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
class SiteStatus:
    """The status of a site. `feeds` are the reports of `FeedStatus`. `delays`: None for a site without engines."""

    host: str
    sources: tuple[SourceStatus, ...]
    feeds: tuple[Mapping[str, Any], ...]
    files: tuple[FileStatus, ...]
    window: Window
    quarantine: Quarantine
    last_event: datetime | None
    newest_file: datetime | None
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
    unreadable: tuple[Unreadable, ...]
    sites: tuple[SiteStatus, ...]
    queues: tuple[Queue, ...]
    alarms: tuple[Alarm, ...]
    confirmed_at: datetime | None
    reconciliation_due: datetime | None

    def report(self) -> Any:
        """The answer for programs: dataclasses as objects, instants in ISO 8601 and UTC."""
        return plain(self)


def stack_status(facts: StackFacts, now: datetime, access: Access) -> StackStatus:
    """The answer from the facts that were read at `now`."""
    problems = [problem for site in facts.sites for problem in _site_problems(site, now, access)]
    problems += _stack_problems(facts, now, access)
    unknown = facts.unknown
    if facts.confirmed_at is None:
        unknown += (Unknown("the clock", "roll_window has not finished a run yet: ask again in a minute"),)
    return StackStatus(
        at=now,
        verdict="attention" if problems else "unknown" if unknown else "well",
        problems=tuple(problems),
        unknown=unknown,
        unreadable=facts.unreadable,
        sites=tuple(site_status(site, now) for site in facts.sites),
        queues=facts.queues,
        alarms=facts.alarms,
        confirmed_at=facts.confirmed_at,
        reconciliation_due=facts.reconciliation_due,
    )


def site_status(facts: SiteFacts, now: datetime) -> SiteStatus:
    """The status of one site, without its problems."""
    files = [FileStatus(mark.file, mark.urls, mark.size_bytes, mark.changed) for mark in facts.marks]
    return SiteStatus(
        host=facts.site.host,
        sources=tuple(_source(facts, name, source) for name, source in facts.site.sources.items()),
        feeds=tuple(feed.report(now) for feed in facts.feeds),
        files=tuple(files),
        window=_window(facts.news, now),
        quarantine=facts.quarantine,
        last_event=facts.last_event,
        newest_file=max((file.changed for file in files), default=None),
        delays=facts.delays,
    )


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


def _window(news: tuple[NewsEntry, ...], now: datetime) -> Window:
    stories = sorted((entry for entry in news if entry.expires_at > now), key=lambda entry: entry.published)
    if not stories:
        return Window(0)
    oldest, newest = stories[0], stories[-1]
    return Window(len(stories), oldest.published, newest.published, oldest.loc, oldest.expires_at)


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
    if overdue := [entry.expires_at for entry in facts.news if now - entry.expires_at > ROLLED_AGE_MAX]:
        what = f"stories that are in the news after 48 hours: {len(overdue):,}"
        yield Problem(host, what, access.log("RollWindow"), min(overdue))
    yield from _missing_files(facts, access)
    yield from _quarantined(host, facts.quarantine, access)
    hours = site.silent_after_hours
    if (
        hours
        and facts.last_event
        and facts.heard_version == site.version
        and now - facts.last_event > timedelta(hours=hours)
    ):
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
        yield Problem(host, f"{engine} takes nothing: {_line(reason)}", access.log("TellEngines"))
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
        yield Problem(site.host, f"the parameter {site.parameter} cannot be used: {_line(site.reason)}", put)
    for host in facts.gone:
        what = "the site's parameter is gone: webhooks are answered 404, and feeds are not polled"
        yield Problem(host, what, access.command(f"retire {host} --dry-run"))
    yield from _quarantined(UNKNOWN_SITE, facts.quarantine, access)
    for queue in facts.queues:
        if queue.dead and queue.messages:
            letters = "dead letter" if queue.messages == 1 else "dead letters"
            what = f"{queue.messages:,} {letters} in the queue {queue.name}"
            yield Problem(None, what, access.command(f"redrive {queue.name} --dry-run"))
    if facts.confirmed_at and now - facts.confirmed_at > ROLLED_AGE_MAX:
        what = "roll_window has not finished a run: no story leaves the news, and no held article appears"
        yield Problem(None, what, access.log("RollWindow"), facts.confirmed_at)
    for alarm in facts.alarms:
        words = ALARM_COMMANDS.get(alarm.name)
        mend = access.command(words) if words else access.log(ALARM_LOGS.get(alarm.name, ""))
        yield Problem(None, f"{alarm.name} rings: {alarm.meaning}", mend, alarm.since)


def _line(text: str | None) -> str:
    """A reason of several lines as one."""
    return "; ".join((text or "").splitlines())
