"""A CDN forgets the news sitemaps and the index when they change: exact requests, every answer, and few requests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import cdn, table
from stoppress.aws.clients import client
from stoppress.http import client as web
from stoppress.model.site import BadConfiguration, Site
from stoppress.signatures.verify import BadSecret
from stoppress.tell import files, purge
from stoppress.tell.files import CDN, receiver_message
from stoppress.tell.indexnow import WRONG_SECONDS
from tests.support import doors, receivers
from tests.support.engines import Engine, engine
from tests.support.ledger import HOST
from tests.support.receivers import Receivers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEXT = "whsec_bmV4dCBzZWNyZXQ="
URL = "https://purge.example.net/hook"
NEWS, INDEX, SHARD = "sitemap-news.xml", "sitemap.xml", "sitemap-2026-11.xml"


# ── requests ──


def test_a_post_has_the_exact_bytes() -> None:
    urls = [f"https://{HOST}/{NEWS}", f"https://{HOST}/{INDEX}"]
    assert purge.request_body(HOST, urls) == (
        b'{"site":"www.example.com","urls":["https://www.example.com/sitemap-news.xml","https://www.example.com/sitemap.xml"]}'
    )


def test_a_post_is_signed_as_the_example_of_standard_webhooks() -> None:
    at = datetime.fromtimestamp(1_614_265_330, UTC)
    assert purge.signed_headers([SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', at) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_during_a_rotation_a_post_has_a_signature_by_each_secret() -> None:
    at = datetime.fromtimestamp(1_614_265_330, UTC)
    one, other = (purge.signed_headers([secret], "1", b"{}", at)["webhook-signature"] for secret in (SECRET, NEXT))
    assert purge.signed_headers([SECRET, NEXT], "1", b"{}", at)["webhook-signature"] == f"{one} {other}"


def test_a_secret_that_is_not_base64_signs_nothing() -> None:
    with pytest.raises(BadSecret):
        purge.signed_headers(["whsec_?"], "1", b"{}", datetime(2026, 11, 20, tzinfo=UTC))


def test_a_distribution_forgets_a_file_under_both_paths() -> None:
    assert purge.paths(HOST, [NEWS, INDEX]) == [
        "/sitemap-news.xml",
        "/sitemap.xml",
        "/www.example.com/sitemap-news.xml",
        "/www.example.com/sitemap.xml",
    ]


@pytest.mark.parametrize(
    ("code", "status", "result", "words"),
    [
        ("TooManyInvalidationsInProgress", 400, "later", ""),
        ("Throttling", 400, "later", ""),
        ("RequestLimitExceeded", 503, "later", ""),
        ("InternalError", 500, "later", ""),
        ("AccessDenied", 403, "wrong", "`ReaderDistributionArns`"),
        ("NoSuchDistribution", 404, "wrong", "`engines.purge.distribution`"),
        ("InvalidArgument", 400, "wrong", "report this"),
        ("BatchTooLarge", 413, "wrong", "report this"),
    ],
)
def test_each_error_of_cloudfront_has_its_meaning(code: str, status: int, result: str, words: str) -> None:
    meaning = purge.refusal(code, status, "why")
    assert meaning.result == result
    assert meaning.reason.startswith(f"{code}: why")
    assert words in meaning.reason


# ── the configuration ──


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({}, "give either a distribution or a url"),
        ({"distribution": "E1234567890ABC", "url": URL, "secret": "engine-a"}, "give either a distribution or a url"),
        ({"url": URL}, "give a url and a secret together"),
        ({"distribution": "E1234567890ABC", "secret": "engine-a"}, "give a url and a secret together"),
        ({"url": URL, "secret": "cms"}, "engines.purge.secret"),
        ({"url": "http://purge.example.net/", "secret": "engine-a"}, "engines.purge.url"),
        ({"distribution": "arn:aws:cloudfront::1:distribution/E1"}, "engines.purge.distribution"),
    ],
)
def test_a_wrong_setting_is_refused(setting: dict[str, str], words: str) -> None:
    from stoppress.model.site import read_site

    document = {"host": HOST, "publication": "Example News", "engines": {"purge": setting}}
    with pytest.raises(BadConfiguration, match=words):
        read_site(json.dumps(document), 1)


# ── CloudFront ──


@pytest.fixture
def room() -> Iterator[Receivers]:
    with receivers.opened() as opened:
        yield opened


def distribution() -> str:
    origin = {"Id": "bucket", "DomainName": "files.s3.amazonaws.com", "S3OriginConfig": {"OriginAccessIdentity": ""}}
    config: dict[str, Any] = {
        "CallerReference": "test",
        "Comment": "",
        "Enabled": True,
        "Origins": {"Quantity": 1, "Items": [origin]},
        "DefaultCacheBehavior": {"TargetOriginId": "bucket", "ViewerProtocolPolicy": "https-only"},
    }
    return str(client("cloudfront").create_distribution(DistributionConfig=config)["Distribution"]["Id"])


def invalidations(id_: str) -> list[tuple[list[str], str]]:
    """The paths and the references of all invalidations, oldest first."""
    listed = client("cloudfront").list_invalidations(DistributionId=id_)["InvalidationList"].get("Items", [])
    batches = [
        client("cloudfront").get_invalidation(DistributionId=id_, Id=each["Id"])["Invalidation"]["InvalidationBatch"]
        for each in listed
    ]
    return [(batch["Paths"]["Items"], batch["CallerReference"]) for batch in batches]


def both(*names: str) -> list[str]:
    return purge.paths(HOST, names)


@pytest.mark.moto
def test_a_changed_news_sitemap_and_the_index_are_forgotten_once(room: Receivers) -> None:
    id_ = distribution()
    room.behind.site(engines={"purge": {"distribution": id_}})
    room.write()
    assert invalidations(id_) == []  # the index is not written yet
    room.wait(minutes=1)

    [(paths, reference)] = invalidations(id_)
    assert paths == both(NEWS, INDEX)
    assert reference.startswith("stoppress-")
    room.hear()
    room.wait(hours=1)
    assert len(invalidations(id_)) == 1  # a repeated event costs nothing
    assert room.messages == []


@pytest.mark.moto
def test_a_changed_shard_changes_only_the_index(room: Receivers) -> None:
    id_ = distribution()
    room.behind.site(engines={"purge": {"distribution": id_}})
    room.write()
    room.wait(minutes=10)
    room.write(SHARD)
    room.wait(minutes=10)
    assert [paths for paths, _ in invalidations(id_)] == [both(NEWS, INDEX), both(INDEX)]


@pytest.mark.moto
def test_the_gzip_form_that_the_index_lists_is_forgotten_too(room: Receivers) -> None:
    id_ = distribution()
    room.behind.site(engines={"purge": {"distribution": id_}})
    room.write(NEWS, f"{NEWS}.gz")
    room.wait(minutes=1)
    assert [paths for paths, _ in invalidations(id_)] == [both(NEWS, f"{NEWS}.gz", INDEX)]


@pytest.mark.moto
def test_a_site_asks_once_in_five_minutes_and_the_last_change_is_not_forgotten(room: Receivers) -> None:
    id_ = distribution()
    room.behind.site(engines={"purge": {"distribution": id_}})
    asked: list[datetime] = []
    for _ in range(120):
        before = len(invalidations(id_))
        room.write()
        room.wait(seconds=10)
        asked += [room.now] * (len(invalidations(id_)) - before)
        assert room.receivers_waiting.count(CDN) <= 2
    last_change = room.now - timedelta(seconds=10)
    room.wait(minutes=10)
    asked += [room.now] * (len(invalidations(id_)) - len(asked))

    assert len(asked) == 5  # 20 minutes of changes
    assert all(later - earlier >= timedelta(minutes=5) for earlier, later in pairwise(asked))
    assert asked[-1] > last_change
    assert len({reference for _, reference in invalidations(id_)}) == 5
    assert room.messages == []


@pytest.mark.moto
def test_a_run_that_is_killed_after_the_request_asks_with_the_same_reference(
    room: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[Any, ...]] = []
    monkeypatch.setattr(cdn, "invalidate", lambda *request: requests.append(request))
    room.behind.site(engines={"purge": {"distribution": "E1234567890ABC"}})
    room.write()
    with doors.failing("dynamodb", "PutItem"):
        room.wait(seconds=10)
    room.wait(minutes=20)
    assert len(requests) == 2
    assert requests[0] == requests[1]
    assert room.messages == []


@pytest.mark.moto
def test_messages_that_come_twice_and_late_ask_once(room: Receivers) -> None:
    id_ = distribution()
    room.behind.site(engines={"purge": {"distribution": id_}})
    room.write()
    room.messages *= 3
    room.wait(minutes=1)
    room.write()
    room.messages *= 3
    room.wait(hours=1)
    assert len(invalidations(id_)) == 2
    assert room.messages == []


@pytest.mark.moto
def test_two_runs_at_once_ask_with_one_reference(room: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[tuple[Any, ...]] = []
    room.behind.site(engines={"purge": {"distribution": "E1234567890ABC"}})
    room.write()
    [(_, body)] = room.messages

    def ask(*request: Any) -> None:
        requests.append(request)
        if len(requests) == 1:
            room.handle(body)

    monkeypatch.setattr(cdn, "invalidate", ask)
    room.wait(minutes=20)
    assert len(requests) == 2
    assert requests[0] == requests[1]


@pytest.mark.moto
def test_the_sweep_finds_a_change_whose_event_was_lost(room: Receivers) -> None:
    id_ = distribution()
    site = room.behind.site(engines={"purge": {"distribution": id_}})
    room.write()
    room.messages.clear()
    room.wait(minutes=30)
    room.sweep(site)
    room.wait(minutes=1)
    assert len(invalidations(id_)) == 1
    room.sweep(site)
    room.wait(minutes=1)
    assert len(invalidations(id_)) == 1


@pytest.mark.moto
def test_a_distribution_that_is_not_there_is_our_fault_until_it_is_corrected(room: Receivers) -> None:
    room.behind.site(engines={"purge": {"distribution": "E1234567890ABC"}})
    room.write()
    room.wait(minutes=1)
    assert room.refusal(CDN)["reason"].startswith("NoSuchDistribution: ")
    assert room.runs[-1].engines_failing.keys() == {HOST}
    runs = len(room.runs)
    room.wait(seconds=WRONG_SECONDS)
    assert len(room.runs) == runs + 1

    id_ = distribution()
    room.behind.site(engines={"purge": {"distribution": id_}})
    room.wait(seconds=WRONG_SECONDS)
    assert len(invalidations(id_)) == 1
    assert "reason" not in room.refusal(CDN)
    assert room.messages == []


@pytest.mark.moto
@pytest.mark.parametrize(("code", "status"), [("TooManyInvalidationsInProgress", 400), ("ServiceUnavailable", 503)])
def test_a_busy_cloudfront_is_asked_again_after_a_minute(
    room: Receivers, monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    calls: list[datetime] = []

    def refuse(*_: Any) -> None:
        calls.append(room.now)
        if len(calls) <= 2:
            detail: Any = {"Code": code, "Message": "busy"}
            raise ClientError({"Error": detail, "ResponseMetadata": {"HTTPStatusCode": status}}, "CreateInvalidation")  # type: ignore[typeddict-item]

    monkeypatch.setattr(cdn, "invalidate", refuse)
    room.behind.site(engines={"purge": {"distribution": "E1234567890ABC"}})
    room.write()
    room.wait(hours=1)
    assert [later - earlier for earlier, later in pairwise(calls)] == [timedelta(minutes=1)] * 2
    assert not any(run.engines_failing for run in room.runs)
    assert "reason" not in room.refusal(CDN)


@pytest.mark.moto
def test_a_site_without_purge_costs_no_call(room: Receivers) -> None:
    room.behind.site(engines={})
    room.write()
    assert room.messages == []
    assert table.get(f"told#{HOST}", f"{files.FILES}{CDN}") is None


@pytest.mark.moto
def test_a_message_of_a_site_that_switched_purging_off_ends(room: Receivers) -> None:
    room.behind.site(engines={"purge": {"distribution": "E1234567890ABC"}})
    room.write()
    room.behind.site(engines={})
    room.wait(hours=1)
    assert room.messages == []
    assert not room.runs[-1].failed


# ── another CDN ──


@contextmanager
def hooked(room: Receivers, secret: str = SECRET) -> Iterator[tuple[Site, Engine]]:
    """A site whose purge program is a server on loopback."""
    room.behind.secret(f"{HOST}/engine-purge", secret)
    site = room.behind.site(engines={"purge": {"url": URL, "secret": "engine-purge"}})
    with engine() as hook:
        yield site, hook


@pytest.mark.moto
def test_a_purge_program_gets_a_signed_post(room: Receivers) -> None:
    from stoppress.model.http_request import Request
    from stoppress.signatures.verify import verify

    with hooked(room) as (_, hook):
        room.write()
        room.wait(minutes=1)
        [(path, headers, body)] = hook.requests
    assert path == "/hook"
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert body == purge.request_body(HOST, [f"https://{HOST}/{NEWS}", f"https://{HOST}/{INDEX}"])
    verify("standard", Request(headers, body), [SECRET], room.now)
    assert room.runs[-1].receivers == [(HOST, CDN)]


@pytest.mark.moto
@pytest.mark.parametrize(
    ("answer", "asked_again_after", "is_our_fault"),
    [
        ("ok", 60, False),
        ("accepted", 60, False),
        ("no content", 60, False),
        ("bad request", 900, True),
        ("unauthorized", 900, True),
        ("not found", 900, True),
        ("gone", 900, True),
        ("moved", 900, True),
        ("too many", 60, False),
        ("broken", 60, False),
        ("bad gateway", 60, False),
        ("overloaded", 120, False),
        ("slow", 60, False),
        ("cut", 60, False),
    ],
)
def test_each_answer_of_a_purge_program_has_its_meaning(
    room: Receivers, monkeypatch: pytest.MonkeyPatch, answer: str, asked_again_after: int, *, is_our_fault: bool
) -> None:
    if answer == "slow":
        monkeypatch.setattr(web, "POST_SECONDS_MAX", 1.0)
    with hooked(room) as (_, hook):
        hook.answers = [answer]
        room.write()
        room.wait(seconds=10)
        assert len(hook.requests) == 1
        assert bool(room.runs[-1].engines_failing) == is_our_fault
        assert bool(room.refusal(CDN).get("reason")) == (answer not in ("ok", "accepted", "no content"))
        room.wait(seconds=asked_again_after - 1)
        assert len(hook.requests) == 1
        room.wait(seconds=1)
        assert len(hook.requests) == 2
        assert hook.requests[0][1]["webhook-id"] == hook.requests[1][1]["webhook-id"]
        assert "reason" not in room.refusal(CDN)
        room.wait(hours=1)
        assert room.messages == []
        assert len(hook.requests) <= 3


@pytest.mark.moto
def test_a_cdn_that_reads_through_a_cache_is_purged_again_when_the_cache_has_the_new_file(room: Receivers) -> None:
    with hooked(room) as (_, hook):
        room.write()
        room.wait(seconds=69)
        assert len(hook.requests) == 1
        room.wait(seconds=1)
        assert len(hook.requests) == 2
        room.wait(hours=1)
        assert len(hook.requests) == 2


@pytest.mark.moto
def test_a_secret_that_is_missing_or_cannot_be_used_is_our_fault(room: Receivers) -> None:
    with hooked(room, "whsec_?") as (_, hook):
        room.write()
        room.wait(seconds=10)
        assert room.refusal(CDN)["reason"].startswith("the secret is not base64")
        room.behind.secret(f"{HOST}/engine-purge", SECRET)
        room.wait(seconds=WRONG_SECONDS)
        assert len(hook.requests) == 1


@pytest.mark.moto
def test_a_receiver_that_takes_nothing_for_an_hour_needs_attention(room: Receivers) -> None:
    with hooked(room) as (_, hook):
        hook.answers = ["broken"] * 1_000
        room.write()
        room.wait(minutes=50)
        assert not any(run.engines_failing for run in room.runs)
        room.wait(minutes=20)
        assert room.runs[-1].engines_failing == {HOST: "CDN: answers 500: <html>"}


@pytest.mark.moto
def test_a_message_with_a_broken_instant_fails(room: Receivers) -> None:
    body = receiver_message(HOST, CDN, room.now).replace(str(room.now.year), "year")
    assert room.handle(body).failed
