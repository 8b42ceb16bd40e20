"""Services that hang: each function still answers within its time-out, and nothing is lost."""

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import botocore.endpoint
import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError
from moto.core.botocore_stubber import BotocoreStubber

from stoppress.aws import clients, queues, sites, table
from stoppress.aws.clients import LIMITS, Limits
from stoppress.aws.items import file_pk
from stoppress.aws.queues import RewriteRequest, read_request
from stoppress.aws.site_versions import GRACE
from stoppress.http import client as web
from stoppress.model.event import from_message
from stoppress.model.http_request import Request
from stoppress.roll.window import RESEND_AFTER
from stoppress_cli.local import template
from stoppress_cli.local.lambda_functions import Context
from stoppress_cli.scenario import signing
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, page, publish
from tests.support.moto_aws import MotoAws, failed_ids, queue_batch
from tests.support.partitions import NEWS, SHARD, put_page, stream

pytestmark = pytest.mark.moto

STACK = template.load(Path(__file__).parents[3] / "template.yaml")
NOON = MORNING + timedelta(hours=4)
FEED = page("rss.xml")
SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS1jbXM="
RSS = f'<rss version="2.0"><channel><item><title>A</title><link>{page("a")}</link></item></channel></rss>'.encode()
# As botocore names them in its events.
EVENT_NAMES = {"secretsmanager": "secrets-manager", "events": "eventbridge"}


def logical(function: str) -> str:
    """Return a function's name in the template: ReceiveWebhook for receive_webhook."""
    return "".join(word.capitalize() for word in function.split("_"))


def timeout_s(function: str) -> int:
    return int(STACK.resources[logical(function)]["Properties"]["Timeout"])


@dataclass(frozen=True)
class Running(Context):
    """The context of an invocation whose remaining time follows a test's clock."""

    clock: "Clock | None" = None

    def get_remaining_time_in_millis(self) -> int:
        assert self.clock
        return int(1_000 * (self.timeout_s - self.clock.seconds))


class Clock:
    """Seconds since an invocation began. Only hanging services and waits before retries move the clock."""

    def __init__(self, aws: MotoAws) -> None:
        self.aws = aws
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def call(self, function: str, event: dict[str, Any]) -> Any:
        """Call a function; fail if the call exceeds the function's time-out."""
        self.seconds = 0.0
        try:
            return self.aws.call(function, event, Running(function, 512, timeout_s(function), clock=self))
        finally:
            assert self.seconds < timeout_s(function), f"Lambda would have ended {function}"

    @contextmanager
    def hanging(self, *services: str, connects: bool = True, times: int = 10**9) -> Iterator[list[str]]:
        """Have services accept connections without an answer, or (`connects=False`) accept none. Yield the attempts."""
        answering = BotocoreStubber.__call__
        attempts: list[str] = []

        def hang(stubber: Any, event_name: str, request: Any, **options: Any) -> Any:
            for service in services:
                if event_name.startswith(f"before-send.{EVENT_NAMES.get(service, service)}.") and len(attempts) < times:
                    attempts.append(event_name)
                    limits = LIMITS[service]
                    self.seconds += limits.read_s if connects else limits.connect_s
                    raise (ReadTimeoutError if connects else ConnectTimeoutError)(endpoint_url=request.url)
            return answering(stubber, event_name, request, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BotocoreStubber, "__call__", hang)
            yield attempts
        assert attempts, f"nobody called {services}"

    @contextmanager
    def slow(self, module: Any, name: str, seconds: float) -> Iterator[None]:
        """Have each call of a module's function take `seconds`."""
        function = getattr(module, name)

        def slowly(*arguments: Any, **options: Any) -> Any:
            self.seconds += seconds
            return function(*arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, slowly)
            yield


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoAws]:
    with moto_aws.opened(NOON) as opened:
        opened.site(feeds=[FEED])
        opened.secret(f"webhooks/{HOST}/cms", SECRET)
        monkeypatch.setattr(web, "fetch", lambda url, headers: web.Response(200, {}, RSS, url))
        yield opened


@pytest.fixture
def clock(aws: MotoAws, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(aws)
    monkeypatch.setattr(botocore.endpoint, "time", clock)
    monkeypatch.setattr(table, "back_off", lambda conflicts: None)
    return clock


def webhook() -> dict[str, Any]:
    document = {"type": "article.published", "data": {"id": "1", "url": page("a"), "title": "A"}}
    document |= {"timestamp": "2026-11-20T08:00:00Z"}
    raw = json.dumps(document).encode()
    return {
        "rawPath": f"/webhooks/{HOST}/cms",
        "rawQueryString": "",
        "headers": signing.signed(
            Request({"content-type": "application/json"}, raw), "standard", SECRET, "msg-1", NOON
        ).headers,
        "requestContext": {"http": {"method": "POST"}},
        "pathParameters": {"site": HOST, "source": "cms"},
        "body": raw.decode(),
        "isBase64Encoded": False,
    }


def events(count: int) -> dict[str, Any]:
    return queue_batch([publish(str(number), str(number)) for number in range(count)], sent_at=NOON)


def listed(file: str = SHARD) -> int:
    return len(list(table.query(file_pk(HOST, file))))


def news_places() -> int:
    """Return how many places in the news are taken."""
    return int(table.get(f"places#{HOST}", "news")["files"][0][0])  # type: ignore[index]


# ── the table of limits ──


def hanging_call_s(limits: Limits) -> float:
    """Return the seconds that a call can take if the service accepts no connection, or accepts one and never answers.

    Between attempts botocore waits at most 1, 2, 4 … seconds.
    """
    return limits.attempts * max(limits.connect_s, limits.read_s) + (1 << limits.attempts - 1) - 1


@pytest.mark.parametrize("function", [path.name for path in STACK.code.values()])
def test_a_service_that_hangs_leaves_time_to_call_every_other_service(function: str) -> None:
    policies = json.dumps(STACK.resources[f"{logical(function)}Role"]["Properties"]["Policies"])
    services = {service for service in LIMITS if re.search(rf'"{service}:\w', policies)}
    assert services
    if function == "receive_webhook":  # see the test of the cached configuration
        services -= {"dynamodb"}
    for hanging in services:
        other = max(LIMITS[service].attempt_s for service in services - {hanging})
        assert hanging_call_s(LIMITS[hanging]) + other < timeout_s(function)


def test_every_service_that_a_function_calls_has_its_own_limits() -> None:
    policies = [policy for name in STACK.code for policy in STACK.resources[f"{name}Role"]["Properties"]["Policies"]]
    statements = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    actions = re.findall(r'"(\w+):[A-Z]\w+"', json.dumps([statement["Action"] for statement in statements]))
    assert set(actions) - {"logs"} == LIMITS.keys()


def test_a_webhook_has_time_for_an_attempt_to_read_its_site() -> None:
    assert LIMITS["dynamodb"].attempt_s + sites.READS_LEFT_S < timeout_s("receive_webhook")


@pytest.mark.parametrize("answers", [True, False])
def test_a_connection_that_never_answers_ends_at_the_time_out(monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    """Without a test double, botocore respects the limits and makes no attempt that would end too late."""
    monkeypatch.setitem(LIMITS, "sqs", Limits(connect_s=0.2, read_s=0.2, attempts=2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        clients.forget()
        try:
            began = time.monotonic()
            ends = began + (30 if answers else 1.3)
            context = Running("f", 1, 1)
            monkeypatch.setattr(
                Running, "get_remaining_time_in_millis", lambda _: int(1_000 * (ends - time.monotonic()))
            )
            call = clients.in_time()(lambda event, now, deadline: clients.client("sqs").list_queues())
            with pytest.raises(ReadTimeoutError if answers else clients.OutOfTime):
                call({}, context)
        finally:
            clients.forget()


# ── webhooks and pushes ──


def test_a_webhook_uses_the_cached_configuration_while_the_table_hangs(aws: MotoAws, clock: Clock) -> None:
    aws.clock.shift(timedelta(minutes=2))  # the cached configuration is too old
    aws.clock.move_to(NOON + timedelta(minutes=2))
    with clock.hanging("dynamodb"):
        answer = clock.call("receive_webhook", webhook())
    assert answer["statusCode"] == 200
    assert len(aws.taken("articles")) == 1


@pytest.mark.parametrize(
    ("hanging", "connects"),
    [(["secretsmanager"], True), (["sqs"], False), (["dynamodb", "secretsmanager", "sqs"], True)],
)
def test_a_webhook_is_answered_503_while_a_service_hangs_then_accepted(
    aws: MotoAws, clock: Clock, hanging: list[str], connects: bool
) -> None:
    aws.clock.move_to(NOON + timedelta(minutes=2))
    with clock.hanging(*hanging, connects=connects):
        answer = clock.call("receive_webhook", webhook())
    assert answer["statusCode"] == 503
    assert clock.call("receive_webhook", webhook())["statusCode"] == 200
    assert len(aws.taken("articles")) == 1


# ── recording ──


@pytest.mark.parametrize(("hanging", "connects"), [(["dynamodb"], False), (["dynamodb", "sqs"], True)])
def test_a_batch_is_retried_when_the_table_hangs(
    aws: MotoAws, clock: Clock, hanging: list[str], connects: bool
) -> None:
    with clock.hanging(*hanging, connects=connects):
        answer = clock.call("record_article", events(100))
    assert len(failed_ids(answer)) == 100
    assert failed_ids(clock.call("record_article", events(100))) == []
    assert listed() == listed(NEWS) == 100


def test_a_throttled_event_is_retried_and_reserves_no_place(aws: MotoAws, clock: Clock) -> None:
    cancelled: Any = {
        "Error": {"Code": "TransactionCanceledException"},
        "CancellationReasons": [{"Code": "ThrottlingError"}],
    }
    write = clients.client("dynamodb").transact_write_items

    def throttle(**transaction: Any) -> Any:
        if len(transaction["TransactItems"]) == 1:  # releases a place
            return write(**transaction)
        raise ClientError(cancelled, "TransactWriteItems")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stoppress.aws.table.time.sleep", clock.sleep)
        patch.setattr(clients.client("dynamodb"), "transact_write_items", throttle)
        assert len(failed_ids(clock.call("record_article", events(3)))) == 3
    assert aws.metrics["EventsFailed"] == 3
    assert news_places() == 0
    assert failed_ids(clock.call("record_article", events(3))) == []
    assert listed() == listed(NEWS) == 3


def test_events_without_time_are_retried_and_reserve_no_place(aws: MotoAws, clock: Clock) -> None:
    with clock.slow(table, "transact", 1):
        again = failed_ids(clock.call("record_article", events(100)))
    assert 0 < len(again) < 100
    assert listed() == 100 - len(again)
    assert news_places() == listed(NEWS)
    assert aws.metrics["EventsPostponed"] == len(again)
    clock.call("record_article", {"Records": [item for item in events(100)["Records"] if item["messageId"] in again]})
    assert listed() == listed(NEWS) == 100


# ── rewriting ──


@pytest.mark.parametrize(
    ("hanging", "connects"), [(["s3"], False), (["dynamodb"], True), (["events"], True), (["s3", "events"], True)]
)
def test_a_changed_file_goes_to_the_queue_when_a_service_hangs(
    aws: MotoAws, clock: Clock, hanging: list[str], connects: bool
) -> None:
    put_page()
    changed = stream(aws)
    with clock.hanging(*hanging, connects=connects):
        answer = clock.call("rewrite_sitemaps", changed)
    assert failed_ids(answer) == []
    messages = aws.taken("rewrites")
    assert [read_request(message).file for message in messages] == [SHARD]
    answer = clock.call("rewrite_sitemaps", queue_batch(messages, sent_at=NOON, queue="rewrites"))
    assert failed_ids(answer) == []
    assert page("a").encode() in aws.file(SHARD).body


@pytest.mark.parametrize("hanging", [["s3", "sqs"], ["s3", "dynamodb", "sqs", "events"]])
def test_the_stream_delivers_a_change_again_when_the_queue_hangs_too(
    aws: MotoAws, clock: Clock, hanging: list[str]
) -> None:
    aws.clock.move_to(NOON + timedelta(minutes=2))
    for number in range(20):
        put_page("a", file=f"sitemap-2026-{number}.xml")
    changed = stream(aws)
    with clock.hanging(*hanging):
        answer = clock.call("rewrite_sitemaps", changed)
    assert len(failed_ids(answer)) == 20
    assert failed_ids(clock.call("rewrite_sitemaps", changed)) == []
    assert all(aws.file(f"sitemap-2026-{number}.xml") for number in range(20))


@pytest.mark.parametrize("from_queue", [True, False])
def test_files_for_which_there_is_no_time_are_postponed(aws: MotoAws, clock: Clock, from_queue: bool) -> None:
    """Rewrite 200 shards of half a second each, or ten large files."""
    files = [f"sitemap-1{number:03}.xml" for number in range(10 if from_queue else 200)]
    for file in files:
        put_page("a", file=file)
    changed = stream(aws)
    requests = [RewriteRequest(HOST, file).message() for file in files]
    with clock.slow(queues, "announce", 7 if from_queue else 0.5):
        batch = queue_batch(requests, sent_at=NOON, queue="rewrites") if from_queue else changed
        answer = clock.call("rewrite_sitemaps", batch)
    again = {f"m{number}" for number in range(4)} if from_queue else set()  # the newest shards are written first
    assert set(failed_ids(answer)) == again
    queued = [read_request(message).file for message in aws.taken("rewrites")]
    written = len(files) - len(queued) - len(again)
    assert 0 < written < len(files)
    assert sorted(queued) == ([] if from_queue else files[: len(queued)])
    assert aws.metrics["FilesPostponed"] == len(files) - written
    assert aws.metrics["FilesFailed"] == 0


# ── the clock ──


@pytest.mark.parametrize("hanging", ["dynamodb", "sqs"])
def test_due_work_is_done_in_a_later_minute_when_a_service_hangs(aws: MotoAws, clock: Clock, hanging: str) -> None:
    for number in range(20):
        aws.site(f"{number}.example.com")
    aws.clock.move_to(NOON + GRACE)
    with clock.hanging(hanging), pytest.raises((ExceptionGroup, BotoCoreError)):
        clock.call("roll_window", {})
    aws.clock.move_to(NOON + GRACE + RESEND_AFTER)
    clock.call("roll_window", {})
    hosts = {json.loads(body)["site"] for body in aws.taken("rewrites")}
    assert hosts == {HOST, *(f"{number}.example.com" for number in range(20))}


# ── feeds ──


@pytest.mark.parametrize("hanging", [["dynamodb"], ["sqs"]], ids="-".join)
def test_a_feed_is_polled_in_a_later_minute_when_a_service_hangs(
    aws: MotoAws, clock: Clock, hanging: list[str]
) -> None:
    with clock.hanging(*hanging), suppress(BotoCoreError):
        clock.call("poll_feeds", {})
    aws.taken("articles")
    aws.clock.move_to(NOON + timedelta(minutes=3))
    clock.call("poll_feeds", {})
    assert [from_message(body).title for body in aws.taken("articles")] == ["A"]
