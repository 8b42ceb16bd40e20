"""A newsroom that publishes each minute, the breakages of its stack (breakages.toml), and the alarms that they cause."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from stoppress.aws import secrets
from stoppress.model.http_request import Request
from stoppress_cli.local.lambda_functions import Function, Result
from stoppress_cli.local.template import load
from stoppress_cli.scenario import file, player
from tests.simulation.doubles import sqs
from tests.simulation.stack import StackOnDoubles
from tests.support import cloudwatch
from tests.support.playing import GENERATED, TEMPLATE

HOST = "www.example.com"
FEED = f"https://{HOST}/feed"
LIST = f"https://{HOST}/wp-json/wp/v2/posts"
MINUTE = timedelta(minutes=1)
# How often a minute the clock stops: failed messages come back after 10 s, 20 s, 40 s …
STEP = timedelta(seconds=10)
POSTED_AT = timedelta(seconds=30)
# Minutes without a failure before the breakage.
HEALTHY_MINUTES = 8
# While nothing is published, this many minutes of each hour are played, and all of the last two hours.
PLAYED = 5
SECRET = {"secret": {"name": "cms", "value": "whsec_c3RvcHByZXNz"}}
SITE: dict[str, Any] = {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "cms"}, "bus": {}}}
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
        for step in steps:
            line = json.dumps({"at": self.stack.clock.now().isoformat(), **step})
            [parsed] = file.parse([line], GENERATED)
            self._plays.step(parsed)

    def publish(self, story: str = "", published_at: str = "", **how: Any) -> None:
        self._stories += 1
        name, now = story or f"story-{self._stories}", self.stack.clock.now().isoformat()
        data = {"id": name, "url": f"https://{HOST}/{name}", "title": name, "published_at": published_at or now}
        body = {"type": "article.published", "timestamp": now, "data": data}
        self.do({"post": f"/webhooks/{HOST}/cms", "body": body, "sign": True} | how)

    def minute(self) -> None:
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

    def skip_minute(self) -> None:
        """Let a minute pass in which nothing runs, with the metrics of the minute before."""
        minute = cloudwatch.minute_of(self.stack.clock.now())
        for values in self.metrics.values.values():
            if minute - 1 in values:
                values[minute] = values[minute - 1]
        self.stack.clock.move(self.stack.clock.now() + MINUTE)

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

    def crash(self, function: str, *, throttled: bool = False) -> None:
        """Have a function end with an error, or be throttled: then nothing is invoked."""
        broken = self.function(function)

        def invoke(_event: Any) -> Result:
            if not throttled:
                broken.invocations += 1
                broken.errors += 1
            return Result(error={"errorType": "Runtime.ExitError", "errorMessage": "signal: killed"})

        broken.invoke = invoke  # type: ignore[assignment,method-assign]

    def switch_off(self, kind: str, name: str, minutes: int = 0) -> None:
        """Switch off the schedules or mappings of a function, or one mapping by its name; on again after `minutes`."""
        sources, arn = self.stack.sources, self.stack.functions[name].arn if name in self.stack.functions else name
        before = getattr(sources, kind)
        kept = [source for source in before if arn not in _names_of(source)]
        assert len(kept) < len(before)
        setattr(sources, kind, kept)
        until = self.stack.clock.now() + minutes * MINUTE

        def switch_on() -> None:
            if self.stack.clock.now() >= until:
                setattr(sources, kind, before)

        if minutes:
            self.each_minute.append(switch_on)


def _names_of(source: Any) -> tuple[str, ...]:
    return (source.target,) if hasattr(source, "target") else (source.name, source.function.arn)


def _post_wrongly_signed(newsroom: Newsroom) -> None:
    now = str(int(newsroom.stack.clock.now().timestamp()))
    headers = {"webhook-id": f"msg_{now}", "webhook-timestamp": now, "webhook-signature": "v1,AAAA"}
    newsroom.publish(sign=False, headers=headers)


def _lose_secret(newsroom: Newsroom, name: str) -> None:
    newsroom.stack.backend._secrets.values.pop(f"{newsroom.stack.variable('SECRETS_PATH')}/{name}")
    secrets.forget()


def _ask_as_hub(newsroom: Newsroom) -> None:
    query = urlencode({"hub.mode": "subscribe", "hub.topic": FEED, "hub.challenge": "x"})
    newsroom.stack.request(Request(method="GET", path=f"/websub/{HOST}/{'f' * 16}/{'0' * 16}-{'0' * 32}", query=query))


def _put_event(newsroom: Newsroom) -> None:
    newsroom.do({"event": {"source": "newsroom", "detail-type": "article.published", "detail": {"id": "1"}}})


def _deny_rule(newsroom: Newsroom) -> None:
    """Deny EventBridge the articles queue, so that the event goes to the rule's dead-letter queue."""
    articles, failures = (newsroom.stack.resources[name].arn for name in ("ArticlesQueue", "Failures"))
    sources = newsroom.stack.sources
    for rule in sources.rules:
        if articles in rule.targets:
            rule.targets = (failures,)


def _put_dead_letter(newsroom: Newsroom) -> None:
    queue = newsroom.stack.backend.queue(newsroom.stack.resources["ArticlesDeadLetters"].arn)
    now = newsroom.stack.clock.now().timestamp()
    queue.messages.append(sqs.Message("dead", "{}", now, 0.0, received=9))


def _delay_metrics_of_queues(newsroom: Newsroom) -> None:
    """Delay the metrics of queues by eight minutes, because the queues were inactive."""
    now = cloudwatch.minute_of(newsroom.stack.clock.now())
    newsroom.metrics.sqs_late = now, now + 8


def _cut_time(newsroom: Newsroom) -> None:
    """Leave roll_window no time for due work before its deadline."""
    newsroom.function("RollWindow").timeout_s = 10


# What breakages.toml calls an act.
ACTS: dict[str, Callable[[Newsroom], None]] = {
    "story": Newsroom.publish,
    "unsigned story": lambda newsroom: newsroom.publish(sign=False),
    "wrongly signed story": _post_wrongly_signed,
    "poisoned story": lambda newsroom: newsroom.publish("poison"),
    "hub asks": _ask_as_hub,
    "event on the bus": _put_event,
    "rule denied": _deny_rule,
    "metrics late": _delay_metrics_of_queues,
    "dead letter": _put_dead_letter,
    "import": lambda newsroom: newsroom.stack.backend.send(newsroom.stack.resources["ImportsQueue"].arn, "{}"),
    "too little time": _cut_time,
    "burst answered 429": lambda newsroom: newsroom.watch.count_answer(429, 150),
    "secret for hubs gone": lambda newsroom: _lose_secret(newsroom, "websub"),
    "secret of the CMS gone": lambda newsroom: _lose_secret(newsroom, f"webhooks/{HOST}/cms"),
}


@dataclass(frozen=True)
class Breakage:
    """What breaks, the acts of each minute from then on, and the alarms that go into ALARM within `minutes`."""

    name: str
    alarms: Mapping[str, int] = field(default_factory=dict)  # with the minutes until it does
    minutes: int = 12
    site: Mapping[str, Any] = field(default_factory=dict)  # added to the configuration before anything breaks
    start: datetime = datetime(2026, 11, 20, 8, tzinfo=UTC)  # when the newsroom opens
    step_s: int = 10  # how often the clock stops

    off: Mapping[str, str] = field(
        default_factory=dict
    )  # function or mapping by the kind of source that is switched off
    off_minutes: int = 0  # 0: for good
    crashes: str = ""  # a function
    throttled: str = ""  # a function
    fails: Mapping[str, Any] = field(default_factory=dict)  # calls of AWS: the arguments of Newsroom.fail
    site_becomes: Mapping[str, Any] = field(default_factory=dict)  # settings of a new version of the site
    once: Sequence[str] = ()  # acts
    plays: Mapping[str, Any] = field(default_factory=dict)  # a step of a scenario
    acts: Sequence[str] = ("story",)  # done every `every_minutes`
    every_minutes: int = 1

    def act(self, newsroom: Newsroom) -> None:
        begin = newsroom.stack.clock.now()

        def each_time() -> None:
            if (newsroom.stack.clock.now() - begin) % (self.every_minutes * MINUTE) < MINUTE:
                for name in self.acts:
                    ACTS[name](newsroom)

        newsroom.each_minute = [each_time]
        for kind, name in self.off.items():
            newsroom.switch_off(kind, name, self.off_minutes)
        if function := self.crashes or self.throttled:
            newsroom.crash(function, throttled=bool(self.throttled))
        if self.fails:
            newsroom.fail(**self.fails)
        if self.site_becomes:
            newsroom.do({"site": SITE | dict(self.site_becomes)})
        for name in self.once:
            ACTS[name](newsroom)
        if self.plays:
            newsroom.do(self.plays)


BREAKAGES = [
    Breakage(**table) for table in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["breakage"]
]


@contextmanager
def newsroom(breakage: Breakage, out: Path) -> Iterator[Newsroom]:
    """Yield a newsroom that has been healthy for some minutes."""
    metrics = cloudwatch.Metrics()
    with (
        StackOnDoubles(TEMPLATE, start=breakage.start, log=metrics) as stack,  # type: ignore[arg-type]
        player.playing(stack, GENERATED, out, lambda _line, _text: None) as plays,
    ):
        opened = Newsroom(stack, plays, metrics, timedelta(seconds=breakage.step_s))
        feed = {"feed": FEED, "body": '<rss version="2.0"><channel><title>x</title></channel></rss>'}
        no_posts = {"feed": LIST, "body": "[]", "headers": {"X-WP-Total": "0"}}
        opened.do(SECRET, {"site": SITE | dict(breakage.site)}, feed, no_posts)
        for _ in range(HEALTHY_MINUTES):
            opened.minute()
        yield opened


def alarms_of(breakage: Breakage, out: Path) -> dict[str, int]:
    """Return the alarms that go into ALARM after a breakage, with the minutes until each does."""
    with newsroom(breakage, out) as broken:
        assert broken.in_alarm() == set()
        breakage.act(broken)
        first: dict[str, int] = {}
        for minute in range(1, breakage.minutes + 1):
            if not breakage.acts and minute % 60 > PLAYED and minute < breakage.minutes - 2 * 60:
                broken.skip_minute()
                continue
            broken.minute()
            for name in broken.in_alarm():
                first.setdefault(name, minute)
        return first
