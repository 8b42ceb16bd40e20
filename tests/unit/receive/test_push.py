"""WebSub: the poller subscribes at a hub, and the hub verifies and pushes independently of the poller."""

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType, SimpleNamespace
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from stoppress.aws import secrets, site_versions, sites, table
from stoppress.feeds.feed_schedule import FeedState
from stoppress.feeds.subscription import RETRY_FIRST, Subscription
from stoppress.http import client, errors
from stoppress.model.event import ArticleEvent, from_message, order_of
from stoppress.model.site import Site
from stoppress.poll import feeds as polling, subscribe
from stoppress.poll.feed_items import DueFeed, PollOutcome, feed_key, subscription_item, subscription_key
from stoppress.primitives.instants import Deadline
from stoppress.receive import push
from tests.support.article_events import HOST
from tests.support.moto_aws import MotoAws, counted, failing, once_before, opened, put_site

pytestmark = pytest.mark.moto

NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FEED, HUB, OTHER = f"https://{HOST}/rss.xml", "https://hub.example.net/", "https://other.example.net/hub"
MASTER = "a-master-of-many-letters"


def rss(*titles: str, hub: str = HUB, topic: str = FEED) -> bytes:
    links = f'<atom:link rel="hub" href="{hub}"/><atom:link rel="self" href="{topic}"/>'
    items = (
        f"<item><guid>{title}</guid><link>https://{HOST}/{title[0]}</link><title>{title}</title></item>"
        for title in titles
    )
    start = '<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
    return f"{start}{links}{''.join(items)}</channel></rss>".encode()


@dataclass
class Internet:
    """A feed, and a hub that stores its requests and calls `before_answer` before it answers."""

    aws: MotoAws
    body: bytes = rss("A")
    status: int = 202
    fails: bool = False
    etag: str | None = None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    before_answer: Callable[[], object] = lambda: None
    while_fetching: Callable[[], object] = lambda: None

    def fetch(self, url: str, headers: Mapping[str, str]) -> client.Response:
        body = self.body
        self.while_fetching()
        if self.fails:
            return client.Response(403, {}, b"", url)
        if self.etag and headers.get("If-None-Match") == self.etag:
            return client.Response(304, {"etag": self.etag}, b"", url)
        return client.Response(200, {"etag": self.etag} if self.etag else {}, body, url)

    def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> client.Response:
        assert headers["User-Agent"].startswith("Stoppress/")
        self.requests.append((url, dict(form)))
        self.before_answer()
        return client.Response(self.status, {}, b"out of <b>order</b>", url)

    @property
    def form(self) -> dict[str, str]:
        return self.requests[-1][1]

    def verify(
        self, changes: Mapping[str, str] = MappingProxyType({}), form: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Have the hub verify the subscription."""
        form = form or self.form
        query = {
            "hub.mode": "subscribe",
            "hub.topic": form["hub.topic"],
            "hub.challenge": "c-1",
            "hub.lease_seconds": "864000",
        }
        return self.request(
            "GET", form["hub.callback"], {name: value for name, value in {**query, **changes}.items() if value}
        )

    def push(self, pushed: bytes, form: Mapping[str, str] | None = None, **how: Any) -> dict[str, Any]:
        form = form or self.form
        signature = hmac.new(form["hub.secret"].encode(), pushed, "sha256").hexdigest()
        return self.request(
            "POST", form["hub.callback"], {}, pushed, **{"headers": {"X-Hub-Signature": f"sha256={signature}"}, **how}
        )

    def request(
        self, method: str, callback: str, query: Mapping[str, str], pushed: bytes = b"", **how: Any
    ) -> dict[str, Any]:
        site, feed, token = urlsplit(callback).path.split("/")[2:]
        event = {
            "requestContext": {"http": {"method": method}},
            "pathParameters": {"site": site, "feed": feed, "token": token},
            "rawQueryString": urlencode(query),
            "headers": {},
            "body": base64.b64encode(pushed).decode(),
            "isBase64Encoded": True,
            **how,
        }
        answer: dict[str, Any] = self.aws.call("receive_push", event)
        return answer


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Internet]:
    with opened(NOW) as aws:
        aws.secret("websub", MASTER)
        aws.site(feeds=[FEED])
        internet = Internet(aws)
        monkeypatch.setattr(client, "fetch", internet.fetch)
        monkeypatch.setattr(client, "post", internet.post)
        yield internet


def site(*feeds: Any, version: int = 1) -> Site:
    document = {"host": HOST, "publication": "Example News", "feeds": feeds or (FEED,), "version": version}
    return Site.model_validate(document)


def poll(internet: Internet, after: timedelta = timedelta(), configured: Site | None = None) -> list[PollOutcome]:
    internet.aws.clock.move_to(NOW + after)
    return list(polling.poll_site_feeds([configured or site()], NOW + after))


def sent(internet: Internet) -> list[str]:
    return sorted(from_message(body).title for body in internet.aws.taken("articles"))


def state() -> Subscription:
    state = subscribe.load(HOST, FEED)
    assert state is not None
    return state


def next_poll(internet: Internet) -> str:
    return str(internet.aws.item(*feed_key(HOST, FEED))["next_poll_at"])


def subscribe_now(internet: Internet) -> None:
    poll(internet)
    assert internet.verify()["statusCode"] == 200
    assert sent(internet) == ["A"]


# ── subscription requests ──


def test_a_stack_without_hubs_asks_no_hub_and_trusts_none(internet: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe_now(internet)
    monkeypatch.setenv("WEBSUB_URL", "")
    internet.body = rss("A", "B")
    with counted("secretsmanager", "GetSecretValue") as reads:
        outcomes = poll(internet, DAY)

    assert [outcome.result for outcome in outcomes] == ["changed"]
    assert sent(internet) == ["B"]
    assert len(internet.requests) == 1
    assert reads == []
    assert next_poll(internet) == "2026-11-21T08:01:00Z", "a hub that pushes nothing must not delay the poll"


def test_a_hub_gets_a_subscription_request_and_no_secret_is_stored_or_logged(internet: Internet) -> None:
    outcomes = poll(internet)

    assert [outcome.result for outcome in outcomes] == ["changed", "subscribing"]
    assert outcomes[1].reason == HUB
    [(url, form)] = internet.requests
    assert url == HUB
    assert form.keys() == {"hub.mode", "hub.topic", "hub.callback", "hub.secret", "hub.lease_seconds"}
    assert (form["hub.mode"], form["hub.topic"], form["hub.lease_seconds"]) == ("subscribe", FEED, "864000")
    assert form["hub.callback"].startswith(f"https://api.example.net/websub/{HOST}/")
    internet.verify()
    internet.push(rss("B"))
    internet.push(rss("B"), headers={})
    stored_or_logged = str(internet.aws.item(*subscription_key(HOST, FEED))) + str(internet.aws.log)
    assert form["hub.secret"] not in stored_or_logged
    assert form["hub.callback"].rpartition("-")[2] not in stored_or_logged


@pytest.mark.parametrize(
    ("body", "settings", "topics"),
    [
        (rss("A", hub="javascript:alert(1)"), {}, []),
        (rss("A"), {"websub": False}, []),
        (rss("A").replace(b'rel="self"', b'rel="via"'), {}, [FEED]),  # the URL of the feed is its name
    ],
)
def test_a_hub_is_asked_for_the_feeds_own_topic_if_both_allow_it(
    internet: Internet, body: bytes, settings: dict[str, Any], topics: list[str]
) -> None:
    internet.body = body
    poll(internet, configured=site({"url": FEED, **settings}))

    assert [form["hub.topic"] for _, form in internet.requests] == topics


def test_a_missing_secret_is_reported_and_does_not_stop_the_poll(internet: Internet) -> None:
    internet.aws.secret("websub", " ")
    internet.aws.forget_secrets()

    outcomes = poll(internet)

    assert [outcome.result for outcome in outcomes] == ["changed", "not subscribed"]
    assert "the secret stoppress/test/websub is empty" in str(outcomes[1].reason)
    assert internet.requests == []
    assert "is empty" in str(state().refused)


def test_a_hub_that_answers_after_the_run_is_asked_again(internet: Internet) -> None:
    over = threading.Event()
    internet.before_answer = over.wait

    ends = time.monotonic() + 0.5
    deadline = Deadline(lambda: 1_000 * (ends - time.monotonic()))
    results = [outcome.result for outcome in polling.poll_site_feeds([site()], NOW, deadline)]
    over.set()

    assert results == ["changed"]
    assert not state().is_to_ask(HUB, FEED, NOW)
    assert state().is_to_ask(HUB, FEED, NOW + RETRY_FIRST)


def test_a_hub_that_verifies_and_then_disconnects_is_subscribed_to(internet: Internet) -> None:
    def verify_and_break() -> None:
        internet.verify()
        raise errors.Unreachable("hub.example.net: the connection broke off")

    internet.before_answer = verify_and_break
    poll(internet)

    assert state().holds(NOW)
    assert state().refused is None


def test_of_two_pollers_one_requests_the_subscription(internet: Internet) -> None:
    requests = []
    feed = DueFeed(site(), site().feeds[0], FeedState(), None, NOW)
    with once_before(table, "put", lambda: requests.append(subscribe.prepare_request(feed, HUB, FEED))):
        late = subscribe.prepare_request(feed, HUB, FEED)

    assert (requests[0] is not None, late) == (True, None)
    assert subscribe.prepare_request(feed, HUB, FEED) is None
    assert state().asks == 1


# ── verification ──


def test_a_challenge_is_echoed_as_plain_text_for_a_requested_topic_only(internet: Internet) -> None:
    poll(internet)
    before = state()
    assert internet.verify({"hub.topic": f"{FEED}?all"})["statusCode"] == 404
    assert internet.verify({str(number): "x" for number in range(101)})["statusCode"] == 400
    assert state() == before
    answer = internet.verify({"hub.challenge": "<script>+é&"})

    assert (answer["statusCode"], answer["body"]) == (200, "<script>+é&")
    assert answer["headers"] == {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    assert internet.aws.metrics == {"HubsConfirmed": 1, "HubsRefused": 2}


def test_a_new_feed_is_verified_though_an_older_configuration_is_cached(internet: Internet) -> None:
    sites.load(HOST)
    internet.aws.clock.shift(10)
    new = f"https://{HOST}/new.xml"
    put_site(json.loads(site(new).model_dump_json()))
    internet.body = rss("A", topic=new)
    list(polling.poll_site_feeds([site(new)], NOW))

    assert internet.verify()["statusCode"] == 200


def test_500_forged_callbacks_make_no_call_of_aws(internet: Internet) -> None:
    internet.aws.forget_secrets()
    sites.forget()
    with counted("secretsmanager", "GetSecretValue") as secrets_read, counted("dynamodb", "*") as reads:
        for number in range(500):
            callback = f"https://api.example.net/websub/{number}.example.net/feed/token"
            assert internet.push(rss("B"), {"hub.callback": callback, "hub.secret": "x"})["statusCode"] == 404
    assert (secrets_read, reads) == ([], [])


# ── pushes ──


def test_two_stories_that_are_pushed_under_a_guid_known_as_shared_are_two(internet: Internet) -> None:
    """With a trusted guid, the second story would replace the first at a new URL."""

    def under_one_guid(*titles: str) -> bytes:
        body = rss(*titles)
        for title in titles:
            body = body.replace(f"<guid>{title}</guid>".encode(), b"<guid>news</guid>")
        return body

    internet.body = under_one_guid("A", "B")
    poll(internet)
    internet.verify()
    internet.aws.taken("articles")
    for later in (MINUTE, 2 * MINUTE):  # one poll without the conflict does not make the guid trusted again
        internet.body = under_one_guid("B")
        poll(internet, later)

    for title in "CD":
        internet.push(under_one_guid(title))

    events = [from_message(body) for body in internet.aws.taken("articles")]
    assert [event.id for event in events] == [f"https://{HOST}/C", f"https://{HOST}/D"]


def test_the_entries_of_a_push_are_not_compared_with_each_other(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pushed feed of thousands of entries would need millions of comparisons."""
    subscribe_now(internet)
    with monkeypatch.context() as patch:
        patch.setattr(ArticleEvent, "__eq__", lambda *_: pytest.fail("two entries were compared"))
        assert internet.push(rss("B", "C", "D"))["statusCode"] == 202

    assert len(state().pushed) == 3


def test_a_push_is_verified_over_the_raw_bytes_in_both_payload_encodings(internet: Internet) -> None:
    subscribe_now(internet)
    body = rss("Fée").decode().encode("latin-1")
    body = b'<?xml version="1.0" encoding="iso-8859-1"?>' + body

    internet.push(body)
    assert sent(internet) == ["Fée"]
    internet.push(rss("B"), body=rss("B").decode(), isBase64Encoded=False)
    assert sent(internet) == ["B"]


@pytest.mark.parametrize("signature", [None, "sha256=00"])
def test_an_unsigned_push_is_answered_like_any_other_and_ignored(internet: Internet, signature: str | None) -> None:
    subscribe_now(internet)
    headers = {"x-hub-signature": signature} if signature else {}

    assert internet.push(rss("B"), headers=headers)["statusCode"] == 202
    assert sent(internet) == []
    assert internet.aws.metrics == {"HubsConfirmed": 1, "PushesIgnored": 1}
    assert internet.aws.log[-1]["signature"] == (signature or "none")


def remove_site(internet: Internet) -> None:
    site_versions.remove(HOST, sites.load(HOST).version, "a test", NOW, deletes_files=False)
    sites.forget()


def remove_hub(internet: Internet) -> None:
    """Remove the hub from the feed, as a publisher does who no longer trusts it."""
    internet.body = rss("A", hub="")
    poll(internet, MINUTE)


@pytest.mark.parametrize("end", [lambda internet: internet.aws.site(feeds=[]), remove_site, remove_hub])
def test_a_push_for_a_removed_feed_is_answered_410(internet: Internet, end: Callable[[Internet], None]) -> None:
    subscribe_now(internet)
    end(internet)

    assert internet.push(rss("B"))["statusCode"] == 410
    assert sent(internet) == []
    assert internet.verify({"hub.mode": "unsubscribe"})["statusCode"] == 200
    assert internet.verify()["statusCode"] == 404


def test_a_push_that_crashed_the_function_is_replaced_by_a_poll(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe_now(internet)
    before = next_poll(internet)

    def end_the_function(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("stoppress.feeds.parse.read", end_the_function)
        with pytest.raises(SystemExit):
            internet.push(rss("B"))
        assert [internet.push(rss("B"))["statusCode"] for _ in range(2)] == [202, 202]
    assert sent(internet) == []
    assert next_poll(internet) < before

    assert internet.push(rss("C"))["statusCode"] == 202  # another document is accepted
    internet.body = rss("C", "B", "A")
    assert [outcome.sent for outcome in poll(internet, MINUTE)] == [1]
    assert internet.aws.metrics["PushesUnread"] == 2


def test_a_push_that_cannot_be_read_shortens_no_pause_that_the_server_asked_for(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe_now(internet)
    busy = client.Response(429, {"retry-after": "7200"}, b"", FEED)
    monkeypatch.setattr(client, "fetch", lambda *_: busy)
    poll(internet, MINUTE)
    before = next_poll(internet)

    assert internet.push(b"")["statusCode"] == 202
    assert next_poll(internet) == before


def test_a_push_during_a_poll_can_request_another_poll(internet: Internet) -> None:
    """Otherwise the poll's own state, with a later next poll, would overwrite the request."""
    subscribe_now(internet)
    internet.push(rss("B"))
    sent(internet)
    poll(internet, 5 * HOUR)
    late = 5 * HOUR + 20 * MINUTE

    def pushed_meanwhile() -> None:
        internet.body = rss("C", "A")
        internet.push(b"")

    internet.while_fetching = pushed_meanwhile
    poll(internet, late)
    internet.while_fetching = lambda: None

    assert poll(internet, late + MINUTE)[0].sent == 1
    assert sent(internet) == ["C"]


def test_a_push_during_a_poll_loses_and_repeats_no_entry(internet: Internet) -> None:
    subscribe_now(internet)
    internet.while_fetching = lambda: internet.push(rss("B"))
    internet.body = rss("B", "A")

    poll(internet, MINUTE)
    internet.while_fetching = lambda: None
    poll(internet, 2 * MINUTE)

    assert sent(internet) == ["B"]
    assert state().is_trusted(NOW + 2 * MINUTE)


def test_a_push_before_its_feed_was_polled_is_older_than_what_the_feed_lists(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a long run of many feeds, recording would otherwise drop the feed's newer event as late."""
    subscribe_now(internet)
    passed = iter([0.0])
    monkeypatch.setattr(polling, "time", SimpleNamespace(monotonic=lambda: next(passed, 30.0)))

    def pushed() -> None:
        internet.aws.clock.shift(20)
        internet.push(edition("Pushed"))
        internet.body = edition("Edited since")

    with once_before(table, "put", pushed):
        poll(internet, MINUTE)

    [before, after] = [from_message(body) for body in internet.aws.taken("articles")]
    assert (before.title, after.title) == ("Pushed", "Edited since")
    assert order_of(before).is_before(order_of(after))


@pytest.mark.parametrize("meanwhile", [lambda internet: internet.push(rss("C")), Internet.verify])
def test_a_push_concurrent_with_another_request_of_the_hub_is_recorded(
    internet: Internet, meanwhile: Callable[[Internet], object]
) -> None:
    subscribe_now(internet)
    internet.aws.clock.shift(MINUTE)

    with once_before(table, "put", lambda: internet.push(rss("B"))):
        meanwhile(internet)

    assert len(state().pushed) == len(sent(internet)) >= 1
    assert state().holds(NOW)


@pytest.mark.parametrize(
    ("service", "operation", "applied"),
    [("sqs", "SendMessageBatch", False), ("sqs", "SendMessageBatch", True), ("dynamodb", "PutItem", False),
     ("dynamodb", "PutItem", True), ("dynamodb", "BatchGetItem", False)],
)  # fmt: skip
def test_a_push_that_fails_half_way_is_503_and_accepted_when_repeated(
    internet: Internet, service: str, operation: str, *, applied: bool
) -> None:
    subscribe_now(internet)
    with failing(service, operation, applied=applied):
        assert internet.push(rss("B"))["statusCode"] == 503
    assert internet.push(rss("B"))["statusCode"] == 202

    assert set(sent(internet)) == {"B"}
    internet.body = rss("B", "A")
    assert poll(internet, MINUTE)[0].sent == 0
    assert internet.aws.metrics == {"HubsConfirmed": 1, "PushesFailed": 1, "PushesTaken": 1}


def test_the_cause_of_an_internal_error_is_only_logged(internet: Internet) -> None:
    """Requests are unauthenticated until the token is verified, and AWS' messages contain account and role."""
    subscribe_now(internet)
    secrets.forget()
    with failing("secretsmanager", "GetSecretValue"):
        answers = [internet.push(rss("B"))]
    with failing("secretsmanager", "GetSecretValue"):
        answers.append(internet.verify())
    assert all("GetSecretValue" in line["cause"] for line in internet.aws.log[-2:])
    put_site({"host": HOST})  # a site that cannot be read
    table.delete(f"site#{HOST}", "v000001")
    sites.forget()
    answers += [internet.push(rss("B")), internet.verify()]

    assert [(answer["statusCode"], answer["body"]) for answer in answers] == [
        *[(503, "the callback cannot be verified at the moment: send it again")] * 2,
        *[(503, "this site cannot be served at the moment: send it again")] * 2,
    ]


def test_a_push_that_is_no_base64_or_too_large_is_refused(internet: Internet) -> None:
    subscribe_now(internet)

    assert internet.push(b"", body="not base64!")["statusCode"] == 400
    assert internet.push(b"x" * (push.BODY_BYTES_MAX + 1))["statusCode"] == 413
    assert internet.aws.metrics["PushesRefused"] == 2


def test_a_lease_is_renewed_while_the_feed_itself_cannot_be_polled(internet: Internet) -> None:
    """In this case the hub is the only source of entries."""
    subscribe_now(internet)
    internet.fails = True
    for day in range(1, 9):
        poll(internet, day * DAY)

    assert len(internet.requests) > 1
    assert internet.verify()["statusCode"] == 200
    assert state().holds(NOW + 15 * DAY)
    assert internet.push(rss("B"))["statusCode"] == 202
    assert sent(internet) == ["B"]


# ── polls during pushes ──


def test_a_failing_queue_does_not_end_the_trust_in_a_hub(internet: Internet) -> None:
    subscribe_now(internet)
    internet.push(rss("B"))
    sent(internet)
    internet.body = rss("B", "A")
    poll(internet, 5 * HOUR)
    then = 5 * HOUR + 15 * MINUTE
    internet.body = rss("C", "B", "A")
    with failing("sqs", "SendMessageBatch"):
        poll(internet, then)

    assert state().owed == ()
    poll(internet, then + MINUTE)
    assert sent(internet) == ["C"]


def test_a_replaced_subscription_is_not_overwritten(internet: Internet) -> None:
    subscribe_now(internet)
    other = Subscription(OTHER, FEED, asked_at=NOW, asks=1)
    rev = int(internet.aws.item(*subscription_key(HOST, FEED))["rev"])
    with once_before(table, "put", lambda: table.put(subscription_item(HOST, FEED, other), rev)):
        internet.push(rss("B"))

    assert state() == other
    assert sent(internet) == ["B"]


# ── the last version of an entry ──


def edition(title: str) -> bytes:
    return rss("A").replace(b"<title>A</title>", f"<title>{title}</title>".encode())


@pytest.mark.parametrize(
    "ways", [("push", "push", "poll"), ("push", "poll", "push"), ("poll", "push", "push")], ids="-".join
)
def test_a_reverted_edit_is_sent_from_pushes_and_polls(internet: Internet, ways: tuple[str, ...]) -> None:
    """The table has the entries of the last poll, the subscription those of later pushes; the later version counts."""
    subscribe_now(internet)
    for minute, way in enumerate([*ways, "poll"], start=1):
        title = f"Edited in minute {minute}" if minute % 2 else "A"
        if way == "push":
            internet.push(edition(title))
        else:
            internet.body = edition(title)
            poll(internet, minute * MINUTE)
        assert sent(internet) == [title]


def test_an_unchanged_feed_is_read_in_full_after_pushes_with_changes(internet: Internet) -> None:
    internet.etag = '"v1"'
    subscribe_now(internet)
    internet.push(edition("Edited"))
    assert sent(internet) == ["Edited"]

    assert [outcome.result for outcome in poll(internet, MINUTE)] == ["unchanged"]
    assert [outcome.sent for outcome in poll(internet, 2 * MINUTE)] == [1]

    assert sent(internet) == ["A"]
    assert [outcome.result for outcome in poll(internet, 3 * MINUTE)] == ["unchanged"]
    assert state().pushed == ()
