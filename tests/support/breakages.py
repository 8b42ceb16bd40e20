"""A newsroom that publishes each minute, what may break in it, and the alarms that it causes: cases as data."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from stoppress_cli.local.functions import Function, Result
from stoppress_cli.local.gateway import Request
from stoppress_cli.local.template import load
from stoppress_cli.scenario import file, player
from tests.simulation.doubles import sqs
from tests.simulation.stack import StackOnDoubles
from tests.support import cloudwatch
from tests.support.playing import GENERATED, TEMPLATE

HOST, OTHER = "www.example.com", "www.example.org"
FEED = "https://www.example.com/feed"
MINUTE = timedelta(minutes=1)
# How often a minute the clock stops: failed messages come back after 10 s, 20 s, 40 s …
STEP = timedelta(seconds=10)
POSTED_AT = timedelta(seconds=30)
# Minutes without trouble before something breaks.
WELL = 8
SECRET = {"secret": {"name": "cms", "value": "whsec_c3RvcHByZXNz"}}
SITE: dict[str, Any] = {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "cms"}, "bus": {}}}
# A source that can be listed, and a post in its list.
LIST = f"https://{HOST}/wp-json/wp/v2/posts"
LISTED = {"sources": SITE["sources"] | {"blog": {"adapter": "wordpress", "list": {"url": LIST}}}}
POSTS = json.dumps(
    [
        {
            "id": 1,
            "date_gmt": "2026-11-20T07:50:00",
            "modified_gmt": "2026-11-20T07:50:00",
            "status": "publish",
            "type": "post",
            "link": f"https://{HOST}/lost",
            "title": {"rendered": "Lost"},
        }
    ]
)
# Engines that are notified of the site's pages. The scenario's server answers for the pages, and 404 for the engine.
NOTIFIED = {"engines": {"indexnow": {"key": "0f4b1c2d3e4f5a6b"}}}
# The audits run at the full hours.
AFTER_AN_AUDIT = datetime(2026, 11, 20, 8, 1, tzinfo=UTC)
EVER = 1_000_000


class Newsroom:
    """A stack with a site whose CMS posts a story each minute. CloudWatch watches it."""

    def __init__(
        self, stack: StackOnDoubles, plays: player.Player, metrics: cloudwatch.Metrics, step: timedelta
    ) -> None:
        self.stack, self.metrics, self._step = stack, metrics, step
        template = load(TEMPLATE)
        self.alarms = cloudwatch.alarms(template, stack)
        self.watch = cloudwatch.Watch(stack, template, metrics)
        self.each_minute: list[Callable[[], None]] = [self.publish]
        self._plays, self._stories = plays, 0

    def do(self, *steps: Mapping[str, Any]) -> None:
        """Play steps of a scenario now."""
        for step in steps:
            line = json.dumps({"at": self.stack.clock.now().isoformat(), **step})
            [parsed] = file.parse([line], GENERATED)
            self._plays.step(parsed)

    def publish(self, story: str = "", published_at: str = "", **how: Any) -> None:
        """The CMS posts a story."""
        self._stories += 1
        name, now = story or f"story-{self._stories}", self.stack.clock.now().isoformat()
        data = {"id": name, "url": f"https://{HOST}/{name}", "title": name, "published_at": published_at or now}
        body = {"type": "article.published", "timestamp": now, "data": data}
        self.do({"post": f"/webhooks/{HOST}/cms", "body": body, "sign": True} | how)

    def minute(self) -> None:
        """Let a minute pass."""
        start = self.stack.clock.now().replace(second=0, microsecond=0)
        for instant in (start + number * self._step for number in range(MINUTE // self._step)):
            self.stack.advance(max(instant, self.stack.clock.now()))
            if instant <= start + POSTED_AT < instant + self._step:
                self.stack.advance(start + POSTED_AT)
                for act in self.each_minute:
                    act()
                self.stack.rest()
            self.watch.sample()
        self.watch.close_minute()
        self.stack.clock.move(start + MINUTE)

    def in_alarm(self) -> set[str]:
        """Return the alarms that are in ALARM when this minute begins."""
        minute = cloudwatch.minute_of(self.stack.clock.now())
        return {alarm.name for alarm in self.alarms if alarm.is_in_alarm(self.metrics, minute)}

    def fail(self, service: str, operations: str, error: str, *, key: str = "", times: int = EVER) -> None:
        """Have the functions' calls of these operations fail."""
        for operation in operations.split():
            fault = {"service": service, "operation": operation, "error": error, "key": key, "times": times}
            self.do({"fault": fault})

    def function(self, logical: str) -> Function:
        return self.stack.functions[logical]


Break = Callable[[Newsroom], None]


def steps(*scenario: Mapping[str, Any]) -> Break:
    """Steps of a scenario."""
    return lambda newsroom: newsroom.do(*scenario)


def fails(service: str, operations: str, error: str, *, key: str = "", times: int = EVER) -> Break:
    """Calls of AWS fail from now on."""
    return lambda newsroom: newsroom.fail(service, operations, error, key=key, times=times)


def all_of(*breaks: Break) -> Break:
    """Several things break."""

    def each(newsroom: Newsroom) -> None:
        for act in breaks:
            act(newsroom)

    return each


def crashes(function: str, *, throttled: bool = False) -> Break:
    """A function ends with an error, or is throttled: then nothing is invoked."""

    def act(newsroom: Newsroom) -> None:
        broken = newsroom.function(function)

        def invoke(_event: Any) -> Result:
            if not throttled:
                broken.invocations += 1
                broken.errors += 1
            return Result(error={"errorType": "Runtime.ExitError", "errorMessage": "signal: killed"})

        broken.invoke = invoke  # type: ignore[assignment,method-assign]

    return act


def and_then(act: Break, step: Mapping[str, Any]) -> Break:
    """This breaks, and then a scenario's step is played."""

    def both(newsroom: Newsroom) -> None:
        act(newsroom)
        newsroom.do(step)

    return both


def not_invoked(function: str, sources: str) -> Break:
    """A schedule or a mapping of a function is switched off."""

    def act(newsroom: Newsroom) -> None:
        all_sources = newsroom.stack.sources
        arn = newsroom.function(function).arn
        if sources == "schedules":
            all_sources.schedules = [each for each in all_sources.schedules if each.target != arn]
        else:
            kept = [each for each in getattr(all_sources, sources) if each.function.arn != arn]
            setattr(all_sources, sources, kept)

    return act


def instead(*acts: Break) -> Break:
    """Each minute this happens, and no story is posted."""

    def act(newsroom: Newsroom) -> None:
        newsroom.each_minute = [lambda each=each: each(newsroom) for each in acts]  # type: ignore[misc]

    return act


def every(interval: timedelta, act: Break) -> Break:
    """This happens now and once an interval. Apart from that no story is posted."""

    def begin(newsroom: Newsroom) -> None:
        begun = newsroom.stack.clock.now()

        def once() -> None:
            if (newsroom.stack.clock.now() - begun) % interval < MINUTE:
                act(newsroom)

        newsroom.each_minute = [once]

    return begin


def pauses(function: str, sources: str, minutes: int) -> Break:
    """A mapping of a function is off for some minutes."""

    def act(newsroom: Newsroom) -> None:
        mappings = getattr(newsroom.stack.sources, sources)
        until = newsroom.stack.clock.now() + minutes * MINUTE
        not_invoked(function, sources)(newsroom)

        def resume() -> None:
            if newsroom.stack.clock.now() >= until:
                setattr(newsroom.stack.sources, sources, mappings)

        newsroom.each_minute.append(resume)

    return act


def as_well(each_minute: Break) -> Break:
    """Each minute this happens too."""
    return lambda newsroom: newsroom.each_minute.append(lambda: each_minute(newsroom))


def wrongly_signed(newsroom: Newsroom) -> None:
    now = str(int(newsroom.stack.clock.now().timestamp()))
    headers = {"webhook-id": f"msg_{now}", "webhook-timestamp": now, "webhook-signature": "v1,AAAA"}
    newsroom.publish(sign=False, headers=headers)


def without_secret(name: str) -> Break:
    """A secret below the stack's path is gone."""

    def act(newsroom: Newsroom) -> None:
        newsroom.stack.backend._secrets.values.pop(f"{newsroom.stack.variable('SECRETS_PATH')}/{name}")
        newsroom.stack.forget_secrets()

    return act


def hub_asks(newsroom: Newsroom) -> None:
    query = urlencode({"hub.mode": "subscribe", "hub.topic": FEED, "hub.challenge": "x"})
    newsroom.stack.request(Request("GET", f"/websub/{HOST}/{'f' * 16}/{'0' * 16}-{'0' * 32}", query))


def bus_event(newsroom: Newsroom) -> None:
    newsroom.do({"event": {"source": "newsroom", "detail-type": "article.published", "detail": {"id": "1"}}})


def target_denied(newsroom: Newsroom) -> None:
    """EventBridge may not send to the articles queue: the event goes to the rule's dead-letter queue."""
    articles, failures = (newsroom.stack.resources[name].arn for name in ("ArticlesQueue", "Failures"))
    sources = newsroom.stack.sources
    sources.rules = [replace(rule, targets=(failures,)) if articles in rule.targets else rule for rule in sources.rules]


def dead_letter(newsroom: Newsroom) -> None:
    queue = newsroom.stack.backend.queue(newsroom.stack.resources["ArticlesDeadLetters"].arn)
    now = newsroom.stack.clock.now().timestamp()
    queue.messages.append(sqs.Message("dead", "{}", now, 0.0, received=9))


def imports_wait(newsroom: Newsroom) -> None:
    """The mapping of the imports queue is off, and an article is imported."""
    sources = newsroom.stack.sources
    sources.queue_mappings = [mapping for mapping in sources.queue_mappings if mapping.name != "RecordImports"]
    newsroom.stack.backend.send(newsroom.stack.resources["ImportsQueue"].arn, "{}")


def too_little_time(newsroom: Newsroom) -> None:
    """roll_window does nothing that is due before its deadline."""
    newsroom.function("RollWindow").timeout_s = 10


def late_metrics(minutes: int) -> Break:
    """The metrics of queues arrive late, because the queues were inactive."""

    def act(newsroom: Newsroom) -> None:
        now = cloudwatch.minute_of(newsroom.stack.clock.now())
        newsroom.metrics.sqs_late = now, now + minutes

    return act


@dataclass(frozen=True)
class Breakage:
    """What breaks, and each alarm that goes into ALARM within `minutes`, with the minutes until it does.

    `site` is added to the configuration. `start`: when the newsroom opens. `step`: how often the clock stops.
    """

    name: str
    act: Break
    alarms: Mapping[str, int] = field(default_factory=dict)
    minutes: int = 12
    site: Mapping[str, Any] = field(default_factory=dict)
    start: datetime = datetime(2026, 11, 20, 8, tzinfo=UTC)
    step: timedelta = STEP


TABLE_CALLS = "GetItem PutItem DeleteItem Query BatchGetItem BatchWriteItem TransactWriteItems"

BREAKAGES = [
    Breakage("nothing", lambda _: None, minutes=30),
    Breakage("a new site", steps({"site": SITE | {"host": OTHER}})),
    Breakage("one call of the table fails", fails("dynamodb", "TransactWriteItems", "InternalServerError", times=1)),
    Breakage("the bucket refuses ten calls", fails("s3", "PutObject", "SlowDown", times=10)),
    Breakage("a bot posts without a signature each minute", as_well(lambda newsroom: newsroom.publish(sign=False))),
    Breakage(
        "the table throttles transactions",
        fails("dynamodb", "TransactWriteItems", "ThrottlingException"),
        {"WorkFailingAlarm": 3},
    ),
    Breakage(
        "the table is down",
        fails("dynamodb", TABLE_CALLS, "InternalServerError"),
        {"FailuresAlarm": 2, "WorkFailingAlarm": 3, "FilesLateAlarm": 5},
    ),
    Breakage("the bucket denies writing", fails("s3", "PutObject", "AccessDenied"), {"WorkFailingAlarm": 3}),
    Breakage("the bucket is gone", fails("s3", "GetObject PutObject", "NoSuchBucket"), {"WorkFailingAlarm": 3}),
    Breakage(
        "one article always fails",
        all_of(
            fails("dynamodb", "TransactWriteItems", "InternalServerError", key="poison"),
            lambda newsroom: newsroom.publish("poison"),
        ),
        {"WorkFailingAlarm": 3, "ArticlesDeadAlarm": 37},
        minutes=45,
    ),
    Breakage(
        "one file always fails",
        fails("s3", "PutObject", "InternalError", key="sitemap-news.xml"),
        {"WorkFailingAlarm": 3, "RewritesFailingAlarm": 26},
        minutes=80,
    ),
    Breakage("`record_article` crashes", crashes("RecordArticle"), {"WorkFailingAlarm": 3, "ArticlesWaitingAlarm": 6}),
    Breakage("`record_article` is throttled", crashes("RecordArticle", throttled=True), {"ArticlesWaitingAlarm": 6}),
    Breakage(
        "the queue mapping of `record_article` is off",
        not_invoked("RecordArticle", "queue_mappings"),
        {"ArticlesWaitingAlarm": 6},
    ),
    Breakage(
        "the queue mapping of `rewrite_sitemaps` is off when a site changes",
        and_then(not_invoked("RewriteSitemaps", "queue_mappings"), {"site": SITE | {"publication": "Renamed"}}),
        {"RewritesWaitingAlarm": 6},
    ),
    # A stream's batch is tried again after longer and longer times, not every ten seconds.
    Breakage(
        "`rewrite_sitemaps` crashes",
        crashes("RewriteSitemaps"),
        {"WorkFailingAlarm": 3, "FilesLateAlarm": 6},
        step=MINUTE,
    ),
    Breakage("`rewrite_sitemaps` is throttled", crashes("RewriteSitemaps", throttled=True), {"FilesLateAlarm": 6}),
    Breakage(
        "the stream mapping of `rewrite_sitemaps` is off",
        not_invoked("RewriteSitemaps", "stream_mappings"),
        {"FilesLateAlarm": 5},
    ),
    Breakage(
        "the stream mapping of `rewrite_sitemaps` is off, with a story every 20 minutes",
        all_of(
            not_invoked("RewriteSitemaps", "stream_mappings"),
            every(timedelta(minutes=20), lambda newsroom: newsroom.publish()),
        ),
        {"FilesLateAlarm": 5},
        minutes=45,
    ),
    Breakage(
        "the stream mapping of `rewrite_sitemaps` is off for two minutes",
        pauses("RewriteSitemaps", "stream_mappings", 2),
        minutes=20,
    ),
    Breakage("`receive_webhook` crashes", crashes("ReceiveWebhook"), {"WebhooksFailingAlarm": 3}),
    Breakage("`receive_webhook` is throttled", crashes("ReceiveWebhook", throttled=True), {"WebhooksFailingAlarm": 3}),
    Breakage(
        "`receive_webhook` crashes, with a story every ten minutes",
        all_of(crashes("ReceiveWebhook"), every(timedelta(minutes=10), lambda newsroom: newsroom.publish())),
        {"WebhooksFailingAlarm": 21},
        minutes=30,
    ),
    Breakage(
        "`receive_webhook` crashes, with a story every two and a half hours",
        all_of(crashes("ReceiveWebhook"), every(timedelta(minutes=150), lambda newsroom: newsroom.publish())),
        {"WebhooksFailingAlarm": 301},
        minutes=310,
        step=MINUTE,
    ),
    Breakage("`receive_push` crashes", all_of(crashes("ReceivePush"), as_well(hub_asks)), {"HubsFailingAlarm": 2}),
    Breakage(
        "the secret for hubs is missing", all_of(without_secret("websub"), as_well(hub_asks)), {"HubsFailingAlarm": 2}
    ),
    Breakage("the schedule of `roll_window` is off", not_invoked("RollWindow", "schedules"), {"ClockStoppedAlarm": 5}),
    Breakage(
        "the schedule of `roll_window` is off, and nothing is published",
        all_of(not_invoked("RollWindow", "schedules"), instead()),
        {"ClockStoppedAlarm": 5, "FilesLateAlarm": 5},
    ),
    Breakage("the schedule of `poll_feeds` is off", not_invoked("PollFeeds", "schedules"), {"ClockStoppedAlarm": 5}),
    Breakage("`roll_window` crashes", crashes("RollWindow"), {"FailuresAlarm": 2, "WorkFailingAlarm": 3}),
    Breakage("the CMS signs with another secret", instead(wrongly_signed), {"WebhooksRefusedAlarm": 3}),
    Breakage(
        "the CMS signs with another secret, and posts once an hour",
        every(timedelta(hours=1), wrongly_signed),
        {"WebhooksRefusedAlarm": 121},
        minutes=130,
        step=MINUTE,
    ),
    Breakage(
        "the secret is missing",
        all_of(without_secret(f"webhooks/{HOST}/cms"), instead(wrongly_signed)),
        {"WebhooksFailingAlarm": 3},
    ),
    Breakage(
        "the API throttles a burst (429)", lambda newsroom: newsroom.watch.answered(429, 150), {"ApiRefusingAlarm": 1}
    ),
    Breakage("the rule of the bus may not send to the queue", all_of(target_denied, bus_event), {"FailuresAlarm": 1}),
    Breakage(
        "the rule of the bus may not send to the queue, and metrics of SQS are eight minutes late",
        all_of(late_metrics(8), target_denied, bus_event),
        {"FailuresAlarm": 8},
    ),
    Breakage(
        "`roll_window` has too little time for what is due",
        all_of(steps({"site": SITE | {"language": 5}}), too_little_time),
        {"SitesFailingAlarm": 3},
    ),
    Breakage("a version of a site cannot be read", steps({"site": SITE | {"language": 5}}), {"SitesFailingAlarm": 3}),
    Breakage("a site is removed", all_of(instead(), steps({"site": {"host": HOST}, "gone": True}))),
    Breakage("an event cannot be understood", bus_event, {"AttentionAlarm": 1}),
    Breakage("a dead letter", dead_letter, {"ArticlesDeadAlarm": 1}),
    Breakage(
        "a feed answers 500",
        steps({"feed": FEED, "status": 500}),
        {"AttentionAlarm": 61},
        minutes=70,
        site={"feeds": [FEED]},
    ),
    Breakage(
        "a feed is gone (410)", steps({"feed": FEED, "status": 410}), {"AttentionAlarm": 1}, site={"feeds": [FEED]}
    ),
    Breakage(
        "the state of feeds cannot be written",
        fails("dynamodb", "PutItem", "ProvisionedThroughputExceededException", key="feed#"),
        {"WorkFailingAlarm": 3},
        site={"feeds": [FEED]},
    ),
    Breakage(
        "no event for longer than `silent_after_hours`",
        instead(),
        {"SitesFailingAlarm": 62},
        minutes=70,
        site={"silent_after_hours": 1},
    ),
    Breakage("no story for 48 hours", instead(), {"AttentionAlarm": 2881}, minutes=49 * 60, step=MINUTE),
    Breakage(
        "no story for 48 hours, and `silent_after_hours` is 72",
        instead(),
        minutes=49 * 60,
        step=MINUTE,
        site={"silent_after_hours": 72},
    ),
    Breakage(
        "a file is changed by hand",
        all_of(instead(), steps({"damage": {"file": f"{HOST}/sitemap-news.xml", "body": "<x/>"}})),
        {"AttentionAlarm": 40},
        minutes=60,
        start=datetime(2026, 11, 20, 3, tzinfo=UTC),
    ),
    Breakage(
        "`reconcile_sites` crashes",
        all_of(instead(), crashes("ReconcileSites")),
        {"WorkFailingAlarm": 13, "FailuresAlarm": 13},
        minutes=60,
        start=datetime(2026, 11, 20, 3, tzinfo=UTC),
    ),
    Breakage(
        "the mapping of imports is off (`Listing=yes`)",
        imports_wait,
        {"ImportsWaitingAlarm": 31},
        minutes=35,
        step=MINUTE,
    ),
    Breakage(
        "a webhook never comes (`Listing=yes`)",
        all_of(instead(), steps({"feed": LIST, "body": POSTS, "headers": {"X-WP-Total": "1"}})),
        {"WebhooksMissedAlarm": 52},
        minutes=60,
        step=MINUTE,
        site=LISTED,
        start=AFTER_AN_AUDIT,
    ),
    Breakage(
        "a source cannot be listed (`Listing=yes`)",
        all_of(instead(), steps({"feed": LIST, "status": 403})),
        {"AuditsFailedAlarm": 112},
        minutes=120,
        step=MINUTE,
        site=LISTED,
        start=AFTER_AN_AUDIT,
    ),
    Breakage(
        "`audit_sources` does not run (`Listing=yes`)",
        all_of(instead(), not_invoked("AuditSources", "schedules")),
        {"AuditsStoppedAlarm": 113},
        minutes=120,
        step=MINUTE,
    ),
    Breakage(
        "IndexNow answers 404 (`Engines=yes`)", steps({"site": SITE | NOTIFIED}), {"EnginesFailingAlarm": 1}, minutes=10
    ),
    Breakage(
        "what engines were notified of cannot be read (`Engines=yes`)",
        all_of(
            steps({"site": SITE | NOTIFIED}),
            fails("dynamodb", "GetItem BatchGetItem", "InternalServerError", key="notified#"),
        ),
        {"WorkFailingAlarm": 3, "EnginesDeadAlarm": 37},
        minutes=60,
    ),
    Breakage(
        "the queue mapping of `notify_engines` is off (`Engines=yes`)",
        not_invoked("NotifyEngines", "queue_mappings"),
        {"EnginesWaitingAlarm": 32},
        minutes=35,
        step=MINUTE,
    ),
    Breakage(
        "the schedule of `notify_engines` is off, with a story every 20 minutes (`Engines=yes`)",
        all_of(
            not_invoked("NotifyEngines", "schedules"), every(timedelta(minutes=20), lambda newsroom: newsroom.publish())
        ),
        {"EnginesStoppedAlarm": 113},
        minutes=125,
        step=MINUTE,
    ),
    Breakage(
        "`reconcile_sites` does not run",
        all_of(instead(), not_invoked("ReconcileSites", "schedules")),
        {"AttentionAlarm": 1553},
        minutes=27 * 60,
        step=MINUTE,
    ),
]


@contextmanager
def newsroom(breakage: Breakage, out: Path) -> Iterator[Newsroom]:
    """A newsroom that has been well for some minutes."""
    metrics = cloudwatch.Metrics()
    with (
        StackOnDoubles(TEMPLATE, start=breakage.start, log=metrics) as stack,  # type: ignore[arg-type]
        player.playing(stack, GENERATED, out, lambda _line, _text: None) as plays,
    ):
        opened = Newsroom(stack, plays, metrics, breakage.step)
        feed = {"feed": FEED, "body": '<rss version="2.0"><channel><title>x</title></channel></rss>'}
        no_posts = {"feed": LIST, "body": "[]", "headers": {"X-WP-Total": "0"}}
        opened.do(SECRET, {"site": SITE | dict(breakage.site)}, feed, no_posts)
        for _ in range(WELL):
            opened.minute()
        yield opened


def alarms_of(breakage: Breakage, out: Path) -> dict[str, int]:
    """Return the alarms that go into ALARM after a breakage, with the minutes until each does."""
    with newsroom(breakage, out) as broken:
        assert broken.in_alarm() == set()
        breakage.act(broken)
        first: dict[str, int] = {}
        for minute in range(1, breakage.minutes + 1):
            broken.minute()
            for name in broken.in_alarm():
                first.setdefault(name, minute)
        return first
