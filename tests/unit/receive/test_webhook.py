"""Webhooks: each answer has its message, and refused deliveries are not queued."""

import base64
import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from stoppress.aws import sites
from stoppress.aws.refusals import Refusal, Report, read_report
from stoppress.model.event import ArticleEvent, from_message
from stoppress.model.http_request import Request
from stoppress.receive import refused as refusing
from stoppress_cli.scenario import signing
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, page
from tests.support.moto_aws import MotoAws, counted, failing, put_site

pytestmark = pytest.mark.moto

SECRET, NEXT = "whsec_c3RvcHByZXNz", "whsec_bmV4dCBzZWNyZXQ="
ARTICLE = {
    "id": "1042",
    "url": page("2026/11/20/flood"),
    "title": "Flood closes the harbour",
    "published_at": "2026-11-20T07:58:00Z",
}
PUBLISHED = {"type": "article.published", "timestamp": "2026-11-20T08:00:00Z", "data": ARTICLE}


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws.opened(MORNING) as opened:
        yield opened


@pytest.fixture(autouse=True)
def fresh(aws: MotoAws) -> None:
    """Begin every test with the first secret, this site, and the clock at eight."""
    aws.clock.move_to(MORNING)
    aws.site(sources={"cms": {"secret": "cms"}, "mute": {}})
    aws.secret(f"webhooks/{HOST}/cms", SECRET)
    aws.forget_secrets()
    refusing.forget()
    aws.taken("articles")


def request(
    body: Any = PUBLISHED,
    *,
    site: str = HOST,
    source: str = "cms",
    secret: str = SECRET,
    at: datetime = MORNING,
    encoded: bool = False,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a signed request in API Gateway's payload format 2.0."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signed = signing.signed(Request({}, raw), "standard", secret, "msg-1", at).headers
    return {
        "version": "2.0",
        "routeKey": "POST /webhooks/{site}/{source}",
        "rawPath": f"/webhooks/{site}/{source}",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **signed, **(headers or {})},
        "requestContext": {"http": {"method": "POST"}},
        "pathParameters": {"site": site, "source": source},
        "body": base64.b64encode(raw).decode() if encoded else raw.decode(errors="surrogatepass"),
        "isBase64Encoded": encoded,
    }  # fmt: skip


def send(aws: MotoAws, event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    answer = aws.call("receive_webhook", event)
    assert answer["headers"] == {"content-type": "application/json"}
    return answer["statusCode"], json.loads(answer["body"])


def sent(aws: MotoAws) -> tuple[list[ArticleEvent], list[Report]]:
    """Return the events and the reports of refusals on the articles queue."""
    bodies = [(body, json.loads(body)) for body in aws.taken("articles")]
    events = [from_message(body) for body, document in bodies if "refusals" not in document]
    return events, [read_report(document) for _, document in bodies if "refusals" in document]


def queued(aws: MotoAws) -> list[ArticleEvent]:
    return sent(aws)[0]


def send_refused(aws: MotoAws, event: dict[str, Any], status: int) -> str:
    actual, reply = send(aws, event)
    assert actual == status, reply
    assert queued(aws) == []
    error: str = reply["error"]
    return error


# ── accepted deliveries ──


def test_a_publication_is_queued_counted_logged_and_answered(aws: MotoAws) -> None:
    before = aws.metrics["WebhooksQueued"]
    assert send(aws, request()) == (
        200,
        {"status": "queued", "site": HOST, "source": "cms", "id": "1042", "action": "publish"},
    )
    [event] = queued(aws)
    assert (event.site, event.name, event.received_at, event.delivery) == (HOST, "cms#1042", MORNING, "msg-1")
    assert (event.url, event.title) == (page("2026/11/20/flood"), "Flood closes the harbour")
    assert aws.metrics["WebhooksQueued"] == before + 1
    line = aws.log[-1]
    assert (line["message"], line["site"], line["source"], line["http_status"]) == ("delivery", HOST, "cms", 200)
    assert SECRET not in json.dumps(aws.log)


def test_a_body_in_base64_and_headers_in_capitals_are_the_same_delivery(aws: MotoAws) -> None:
    body = json.dumps(PUBLISHED | {"data": ARTICLE | {"title": "Überschwemmung 🌊"}}, ensure_ascii=False).encode()
    marked, capitals = request(b"\xef\xbb\xbf" + body), request(body)
    capitals["headers"] = {name.upper(): value for name, value in capitals["headers"].items()}
    for event in (request(body), request(body, encoded=True), marked, capitals):
        assert send(aws, event)[0] == 200
    first, *others = queued(aws)
    assert others == [first] * 3
    assert first.title == "Überschwemmung 🌊"


def test_a_wrong_signature_is_counted_for_a_known_source_only(aws: MotoAws) -> None:
    before = aws.metrics["WebhooksUnverified"]
    send(aws, request(source="other"))
    send(aws, request(site="stranger.example.com"))
    send(aws, request(source="mute"))
    send(aws, request())
    assert aws.metrics["WebhooksUnverified"] == before
    send(aws, request(secret="whsec_b3RoZXI="))
    assert aws.metrics["WebhooksUnverified"] == before + 1


def test_a_refused_article_is_reported_and_logged_with_its_id_and_url(aws: MotoAws) -> None:
    status, reply = send(aws, request(PUBLISHED | {"data": ARTICLE | {"title": ""}}))
    events, [report] = sent(aws)

    assert (status, events) == (400, [])
    reason = "title: is empty: give the headline as readers see it"
    assert reply["errors"] == [{"field": "title", "message": "is empty: give the headline as readers see it"}]
    refusal = Refusal(
        at=MORNING,
        source="cms",
        outcome="refused",
        reason=reason,
        id="1042",
        url=page("2026/11/20/flood"),
        delivery="msg-1",
    )
    assert report == Report(site=HOST, source="cms", at=MORNING, refusals=(refusal,))
    assert (aws.log[-1]["id"], aws.log[-1]["url"]) == ("1042", page("2026/11/20/flood"))


@pytest.mark.parametrize("broken", [{"id": "10\ud80042"}, {"url": "https://www.example.com/\ud800"}])
def test_a_lone_surrogate_in_a_delivery_does_not_lose_its_log_line(aws: MotoAws, broken: dict[str, str]) -> None:
    aws.call("receive_webhook", request({"type": "article.published", "data": ARTICLE | broken | {"title": ""}}))

    assert (aws.log[-1]["message"], aws.log[-1]["http_status"]) == ("delivery", 400)


def test_a_refusal_is_answered_even_if_its_report_fails(aws: MotoAws) -> None:
    with failing("sqs", "SendMessageBatch"):
        assert send(aws, request(PUBLISHED | {"type": "article.publish"}))[0] == 400


MIXED = [
    {"specversion": "1.0", "source": "/cms", "id": "e1", "type": "com.example.article.published", "data": ARTICLE},
    {
        "specversion": "1.0",
        "source": "/cms",
        "id": "e2",
        "type": "com.example.comment.created",
        "data": {"id": 7, "url": page("flood#7")},
    },
]


def test_ignored_articles_of_a_delivery_are_reported_after_the_others_are_queued(aws: MotoAws) -> None:
    aws.site(sources={"cms": {"adapter": "cloudevents", "secret": "cms", "settings": {"signature": "standard"}}})
    with counted("sqs", "*") as calls:
        status, reply = send(aws, request(MIXED, headers={"content-type": "application/cloudevents-batch+json"}))
    events, [report] = sent(aws)

    assert (status, [article["status"] for article in reply["articles"]], len(calls)) == (200, ["queued", "ignored"], 2)
    assert [event.id for event in events] == ["1042"]
    assert [(refusal.outcome, refusal.id, refusal.url) for refusal in report.refusals] == [
        ("ignored", "7", page("flood#7"))
    ]
    assert [names["id"] for names in aws.log[-1]["articles"]] == ["1042", "7"]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"data": {"id": 7, "url": "/a"}, "url": "https://cms.example.com/hook"}, {"id": "7", "url": "/a"}),
        ({"post": {"current": {"id": "g1", "url": page("a")}}}, {"id": "g1", "url": page("a")}),
        ({"user": {"id": "someone"}}, {}),
        ({"id": "e1", "data": {"id": "1042"}}, {"id": "1042"}),
        ({"id": True, "url": ""}, {}),
        ([{"id": "1"}], {}),
    ],
)
def test_the_id_and_url_of_a_refused_article_come_from_its_own_object(document: Any, names: dict[str, str]) -> None:
    assert refusing.named_in(document) == names


def test_an_article_of_an_adapter_gets_warnings_too(aws: MotoAws) -> None:
    aws.site(sources={"cms": {"adapter": "cloudevents", "secret": "cms", "settings": {"signature": "standard"}}})
    data = ARTICLE | {"published_at": "2026-11-18T07:59:00Z", "images": ["ftp://x"]}
    document = {"specversion": "1.0", "source": "/cms", "id": "e1", "type": "article.published", "data": data}
    _, reply = send(aws, request(document, headers={"content-type": "application/cloudevents+json"}))
    assert reply["warnings"] == [
        "it will not be in the news sitemap: published_at is more than 48 hours ago",
        *(f"left out: {reason}" for reason in reply["dropped"]),
    ]
    assert len(reply["dropped"]) == 1


@pytest.mark.parametrize(
    ("signature", "wrong"),
    [
        ("bearer", {"headers": {"authorization": "Bearer guess"}}),
        ("basic", {"headers": {"authorization": "Basic Z3Vlc3M="}}),
        ("query-token", {"query": "token=guess"}),
        ("body-secret", {"body": PUBLISHED | {"secret": "guess"}}),
    ],
)
def test_a_wrong_token_is_counted_and_a_missing_token_is_not(
    aws: MotoAws, signature: str, wrong: dict[str, Any]
) -> None:
    aws.site(sources={"cms": {"secret": "cms", "settings": {"signature": signature}}})
    aws.secret(f"webhooks/{HOST}/cms", "user:password")
    aws.clock.move_to(MORNING + timedelta(minutes=2))
    before = aws.metrics["WebhooksUnverified"]
    for number, sent in enumerate(({}, wrong)):
        event = request(sent.get("body", PUBLISHED), headers=sent.get("headers"))
        assert send(aws, event | {"rawQueryString": sent.get("query", "")})[0] == 401
        assert aws.metrics["WebhooksUnverified"] == before + number


# ── unauthorized requests ──


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"webhook-signature": "v1,AAAA"}, "webhook-signature does not match: sign '<webhook-id>"),
        ({"webhook-signature": ""}, "the header webhook-signature is missing"),
        ({"webhook-id": ""}, "the header webhook-id is missing"),
        ({"webhook-timestamp": ""}, "the header webhook-timestamp is missing"),
        ({"webhook-timestamp": "1"}, "webhook-timestamp is "),
    ],
)
def test_an_unsigned_request_is_401_before_the_body_is_read(aws: MotoAws, headers: dict[str, str], error: str) -> None:
    unverified = aws.metrics["WebhooksUnverified"]
    with counted("secretsmanager", "GetSecretValue") as calls:
        assert send_refused(aws, request(b"not JSON", headers=headers), 401).startswith(error)
    assert aws.metrics["WebhooksUnverified"] == unverified + ("" not in headers.values())
    assert bool(calls) is ("" not in headers.values())
    assert send_refused(aws, request(source="mute"), 401).startswith("the source mute has no secret")


# ── the cost of many requests ──


def test_missing_signatures_cost_no_call_and_wrong_ones_one_message_a_minute(aws: MotoAws) -> None:
    send(aws, request())
    sent(aws)
    calls: list[list[str]] = []
    for minute, signature in enumerate(("", "v1,AAAA", "v1,AAAA")):
        at = MORNING + timedelta(minutes=minute)
        aws.clock.move_to(at)
        sites.load(HOST)  # its cache entry has expired
        with counted("dynamodb", "*") as reads, counted("sqs", "*") as messages:
            for _ in range(500):
                assert send(aws, request(at=at, headers={"webhook-signature": signature}))[0] == 401
        assert reads == []
        calls.append(messages)

    assert [len(of_minute) for of_minute in calls] == [0, 1, 1]
    # The 499 later ones of the last minute wait for the next wrong signature.
    assert [(report.refusals, report.unverified) for report in sent(aws)[1]] == [((), 1), ((), 500)]


@pytest.mark.parametrize(
    ("method", "site", "source", "error"),
    [
        ("POST", "nobody.example.net", "cms", "unknown site 'nobody.example.net': check the host in the path"),
        ("POST", "", "cms", "unknown site '': check"),
        ("POST", "..", "cms", "unknown site '..': check"),
        ("POST", "x" * 8_000, "y" * 2_000, f"unknown site '{'x' * 120}': check"),
        ("POST", "\ud800" * 4_000, "", "unknown site "),
        ("GET", "x" * 8_000, "y" * 2_000, "this is the address of a webhook, and GET is not allowed: POST a signed delivery"),
    ],
)  # fmt: skip
def test_a_request_to_no_known_site_leaves_one_short_line_and_no_count(
    aws: MotoAws, method: str, site: str, source: str, error: str
) -> None:
    metrics, lines = aws.metrics.copy(), len(aws.log)
    event = request(site=site, source=source) | {"requestContext": {"http": {"method": method}}}
    answer = aws.call("receive_webhook", event)
    [line] = aws.log[lines:]

    assert (answer["statusCode"], answer["headers"].get("allow")) == (
        (404, None) if method == "POST" else (405, "POST")
    )
    assert json.loads(answer["body"])["error"].startswith(error)
    assert (line["message"], line["http_status"]) == ("delivery", answer["statusCode"])
    assert site.replace("\ud800", "?").startswith(line["site"])
    assert len(json.dumps(line, ensure_ascii=False)) < 700
    assert aws.metrics == metrics


def test_untrusted_values_are_truncated_in_the_log(aws: MotoAws) -> None:
    send(aws, request(source="y" * 8_000))
    send(aws, request(PUBLISHED | {"data": ARTICLE | {"z" * 1_000 + str(number): 1 for number in range(100)}}))

    long_name, many_fields = (len(json.dumps(line)) for line in aws.log[-2:])
    assert long_name < 2_000
    assert many_fields < 8_000


# ── invalid deliveries ──


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"[" * 100_000, "the body is nested too deeply"),
        (b"9" * 5_000, "the body has a number of thousands of digits"),
        (PUBLISHED | {"data": {}}, "id: is missing: it has to be given\nurl: is missing: it has to be given\ntitle: is missing: it has to be given"),
        (PUBLISHED | {"data": ARTICLE | {"url": "https://other.example.com/a"}}, "url: its host is other.example.com, not www"),
        (PUBLISHED | {"data": ARTICLE | {"url": f"https://{HOST}:8443/a"}}, "url: its host is www.example.com:8443, not"),
    ],
)  # fmt: skip
def test_an_invalid_body_is_400_with_the_correction(aws: MotoAws, body: Any, error: str) -> None:
    assert send_refused(aws, request(body), 400).startswith(error)


@pytest.mark.parametrize("adapter", ["standard", "cloudevents"])
def test_a_compressed_body_and_a_form_are_400_with_the_correction(aws: MotoAws, adapter: str) -> None:
    aws.site(sources={"cms": {"secret": "cms", "adapter": adapter, "settings": {"signature": "standard"}}})
    packed = request(gzip.compress(json.dumps(PUBLISHED).encode()), encoded=True)
    assert send_refused(aws, packed, 400) == "the body is compressed with gzip: send and sign it uncompressed"
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/xml"):
        error = send_refused(aws, request(b"title=Flood", headers={"content-type": kind}), 400)
        assert error == f"the body is {kind.partition(';')[0]}: post JSON"


def test_a_body_over_a_mebibyte_is_413_and_one_of_a_mebibyte_is_read(aws: MotoAws) -> None:
    assert send_refused(aws, request(b" " * 1_048_577), 413).startswith("the body has 1048577 bytes, at most 1048576")
    filled = json.dumps(PUBLISHED).encode().ljust(1_048_576)
    assert send(aws, request(filled, encoded=True))[0] == 200


def test_500_requests_for_an_unknown_host_within_five_seconds_make_one_call(aws: MotoAws) -> None:
    with counted("dynamodb", "*") as reads:
        for number in range(500):
            aws.clock.move_to(MORNING + timedelta(milliseconds=9 * number))
            aws.call("receive_webhook", request(site="made-up.example.net"))

    assert len(reads) == 1


# ── secrets ──


@pytest.mark.parametrize(("name", "status"), [("cms", 401), ("shared/cms", 200)])
def test_a_delivery_is_accepted_by_another_site_only_if_both_share_a_secret(
    aws: MotoAws, name: str, status: int
) -> None:
    other = "other.example.com"
    aws.secret("webhooks/shared/cms", SECRET)
    aws.secret(f"webhooks/{other}/cms", NEXT)
    for host in (HOST, other):
        aws.site(host=host, sources={"cms": {"secret": name}})
    captured = request({"type": "article.deleted", "data": {"id": "1042"}})

    assert send(aws, captured)[0] == 200
    replayed = captured | {"pathParameters": {"site": other, "source": "cms"}}
    assert send(aws, replayed)[0] == status


@pytest.mark.parametrize(
    ("secret", "seconds", "status"), [(NEXT, 9, 401), (NEXT, 10, 200), (SECRET, 299, 200), (SECRET, 300, 401)]
)
def test_a_new_secret_works_after_ten_seconds_and_the_old_one_for_five_minutes(
    aws: MotoAws, secret: str, seconds: int, status: int
) -> None:
    send(aws, request())
    aws.secret(f"webhooks/{HOST}/cms", NEXT)
    later = MORNING + timedelta(seconds=seconds)
    aws.clock.move_to(later)

    assert send(aws, request(secret=secret, at=later))[0] == status


def test_wrong_signatures_read_the_secret_once_in_ten_seconds(aws: MotoAws) -> None:
    later = MORNING + timedelta(seconds=10)
    send(aws, request())
    queued(aws)
    aws.clock.move_to(later)
    with counted("secretsmanager", "GetSecretValue") as calls:
        for _ in range(20):
            send_refused(aws, request(secret="whsec_b3RoZXI=", at=later), 401)

    assert len(calls) == 1


def test_a_missing_secret_is_read_once_in_ten_seconds(aws: MotoAws) -> None:
    aws.site(sources={"late": {"secret": "late"}})
    with counted("secretsmanager", "GetSecretValue") as calls:
        for _ in range(20):
            error = send_refused(aws, request(source="late"), 503)
            assert error == "this source cannot be verified at the moment: send it again"
    aws.secret(f"webhooks/{HOST}/late", SECRET)

    statuses = []
    for seconds in (9, 10):
        at = MORNING + timedelta(seconds=seconds)
        aws.clock.move_to(at)
        statuses.append(send(aws, request(source="late", at=at))[0])

    assert len(calls) == 1
    assert statuses == [503, 200]


@pytest.mark.parametrize(
    ("code", "times", "status"),
    [
        ("InternalServiceError", 2, 200),  # some senders retry immediately, and some never
        ("AccessDeniedException", 1, 503),
        ("InvalidRequestException", 1, 503),  # it is being deleted
    ],
)
def test_an_unreadable_secret_is_read_again_after_a_temporary_error(
    aws: MotoAws, code: str, times: int, status: int
) -> None:
    with failing("secretsmanager", "GetSecretValue", code=code, times=times):
        send_refused(aws, request(), 503)
    with counted("secretsmanager", "GetSecretValue") as calls:
        assert send(aws, request())[0] == status
    assert bool(calls) is (status == 200)


@pytest.mark.parametrize("value", ["not-base64!", " "])
def test_an_unusable_secret_is_answered_503(aws: MotoAws, value: str) -> None:
    aws.secret(f"webhooks/{HOST}/cms", value)
    aws.forget_secrets()
    assert send_refused(aws, request(), 503) == "this source cannot be verified at the moment: send it again"


def test_a_site_with_a_broken_configuration_is_answered_503(aws: MotoAws) -> None:
    host = "broken.example.com"
    put_site({"host": host})
    with counted("dynamodb", "*") as reads:
        for _ in range(100):
            answer = send_refused(aws, request(site=host), 503)
            assert answer == "this site cannot be served at the moment: send it again"
    assert len(reads) <= 3


# ── internal failures ──


@pytest.mark.parametrize(("service", "operation"), [("sqs", "SendMessageBatch"), ("dynamodb", "GetItem")])
def test_an_internal_failure_is_503_and_can_be_repeated(aws: MotoAws, service: str, operation: str) -> None:
    sites.forget()
    with failing(service, operation):
        status, reply = send(aws, request())
    assert (status, reply) == (
        503, {"status": "failed", "error": "Stoppress could not take this delivery: send it again"},
    )  # fmt: skip
    assert queued(aws) == []
    assert send(aws, request())[0] == 200


# ── any request ──

ANYTHING = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ANYTHING
@given(
    headers=st.none() | st.dictionaries(
        st.sampled_from(["webhook-id", "Webhook-Timestamp", "webhook-signature", "content-type"]) | st.text(max_size=8),
        st.text(max_size=40) | st.just("v1,") | st.just("1795161600"),
        max_size=5,
    ),
    path=st.none() | st.dictionaries(st.sampled_from(["site", "source"]), st.text(max_size=20) | st.sampled_from([HOST, "cms"])),
    body=st.none() | st.text(max_size=50),
)  # fmt: skip
def test_forged_headers_and_paths_are_refused_and_lead_to_no_5xx(
    aws: MotoAws, headers: dict[str, str] | None, path: dict[str, str] | None, body: str | None
) -> None:
    event = request() | {"headers": headers, "pathParameters": path, "body": body}
    status, reply = send(aws, event)
    assert status in (401, 404), reply
    assert queued(aws) == []


@ANYTHING
@given(body=st.text(st.characters(codec="ascii"), max_size=30))
def test_no_base64_body_causes_an_error_of_the_function(aws: MotoAws, body: str) -> None:
    status, _ = send(aws, request() | {"body": body, "isBase64Encoded": True})
    assert status in (400, 401)
