"""The editors' page of a site on the local stack: its access control, and what it reads."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import bucket, table
from stoppress.aws.clients import OutOfTime
from stoppress.aws.items import due_item
from stoppress.model.event import ArticleEvent, to_message
from stoppress.model.http_request import Request
from stoppress.show import read_page
from stoppress.show.read_page import page_token
from stoppress_cli.local import template
from stoppress_cli.local.gateway import Answer
from stoppress_cli.local.permissions import Ask, Permissions, Role
from stoppress_cli.local.process import environment
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.wire import Fault
from stoppress_cli.scenario import player
from tests.deployment.test_grants import OF_PAGES, Grant
from tests.support import playing
from tests.support.operated import HOST, MADE, SITE, event, url
from tests.support.planting import edited_resources, recorded_asks, roles_refused
from tests.support.playing import TEMPLATE

pytestmark = pytest.mark.moto

STORY = url("news/flood")
REFUSED = url("news/refused")
STEPS = [
    *MADE,
    {"site": {"host": "two.example.org", "publication": "Two"}},
    event(1, "1", "news/flood", title="Flood & fire", author="Ann Author"),
    event(2, "2", "news/refused", published_at="yesterday"),
    event(3, "4", "", url=None),
    event(3, "3", "news/later", published_at="2026-11-20T13:00:00Z", title=""),
    event(3, "5", "news/embargoed", published_at="2026-11-20T13:00:00Z"),
    event(3, "6", "news/mistake", title="Mayor resigns"),
    event(4, "6", "news/mistake", kind="article.deleted"),
]
SITE_OF_THE_PAGE = json.dumps(SITE | {"feeds": [url("feed.xml")], "engines": {"indexnow": {"key": "0f4b1c2d3e4f5a6b"}}})


def played(stack: Stack, tmp_path: Any) -> None:
    lines = playing.written(STEPS)
    with player.playing(stack, tmp_path / "made.jsonl", tmp_path, lambda _line, _text: None) as played_by:
        played_by.play(lines)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(TEMPLATE, start=playing.written(STEPS)[0].at) as running:
        settings = {"Status": "Enabled"}
        running.client("s3").put_bucket_versioning(
            Bucket=running.only("AWS::S3::Bucket").ref, VersioningConfiguration=settings
        )
        played(running, tmp_path_factory.mktemp("page"))
        running.put_site(HOST, SITE_OF_THE_PAGE)
        yield running


def token(stack: Stack, host: str = HOST) -> str:
    name = f"{stack.variable('SECRETS_PATH')}/page"
    secret = stack.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"]
    return page_token(secret, host)


def ask(stack: Stack, path: str, question: str = "", part: str = "content", at: str = "") -> Answer:
    return stack.request(Request(method="GET", path=path, query=f"part={part}&q={quote(question, safe='')}&at={at}"))


def page(stack: Stack, question: str = "", at: str = "") -> str:
    answer = ask(stack, f"/sites/{HOST}/{token(stack)}", question, at=at)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def test_the_page_shows_the_window_the_deliveries_and_the_files_and_changes_nothing(stack: Stack) -> None:
    stack.wire.guard.refused.clear()
    html = page(stack)

    assert "Flood &amp; fire" in html
    assert "sitemap-news.xml" in html
    assert "/news/refused" in html
    assert "refused</span>" in html
    assert 'href="?q=cms%234"' in html  # without a URL, the link queries the article
    assert "Ann Author" not in html
    assert stack.wire.guard.refused == []
    operations = {operation.partition(".")[2] for name, operation in stack.wire.meter.calls if name == "ShowSite"}
    assert all(operation.startswith(("Get", "BatchGet", "Query", "List", "Describe")) for operation in operations)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (STORY, 'news sitemap: <span class="verdict yes">yes'),
        (REFUSED, "was refused"),
        (url("news/missing"), "no event has mentioned this URL"),
        ("flood", 'news sitemap: <span class="verdict yes">yes'),
        ("https://two.example.org/", f"two.example.org is not {HOST}"),
        ("fire FLOOD", 'news sitemap: <span class="verdict yes">yes'),
        ("news", 'href="?q=https%3A//www.example.com/news/embargoed"'),  # several stories, one of them held
        ("embargoed", "Because article cms#5 is held until"),
        ("mayor resigns", "Because its source removed article cms#6"),
        ("\ud83d", "no story"),
    ],
)
def test_a_question_is_answered_for_this_site(stack: Stack, question: str, answer: str) -> None:
    assert answer in page(stack, question.encode(errors="replace").decode())


@pytest.mark.parametrize(
    ("at", "answer"),
    [
        ("2026-11-20T12:00:30", 'In a sitemap at <time datetime="2026-11-20T12:00:30Z">2026-11-20 12:00:30 +00:00</time>: <span class="verdict no">'),
        ("2026-11-20T12:01:30", '“<bdi dir="auto">Flood &amp; fire</bdi>”, published 2026-11-20T12:00:00'),
        ("2026-11-21T12:00", "is no date and time of the past"),
        ("<b>noon", "&#39;&lt;b&gt;noon&#39; is no date and time of the past"),
    ],
)  # fmt: skip
def test_a_question_about_an_earlier_instant_is_answered_from_the_versions(stack: Stack, at: str, answer: str) -> None:
    assert answer in page(stack, STORY, at=at)


def test_a_page_that_is_recorded_again_is_not_an_upcoming_story(stack: Stack) -> None:
    event = ArticleEvent(site=HOST, source="", id="0f4b", action="again", previous_urls=(STORY,))
    item = due_item(HOST, stack.clock.now(), event.name, to_message(event), queue="articles")
    with environment({"TABLE_NAME": stack.variable("TABLE_NAME")}):
        table.put_if(item)
        try:
            assert "0f4b" not in page(stack)
        finally:
            table.delete(item["pk"], item["sk"])


def calls(stack: Stack) -> int:
    return sum(number for (name, _), number in stack.wire.meter.calls.items() if name == "ShowSite")


def test_a_wrong_token_costs_the_cached_secret_and_looks_like_an_unknown_host(stack: Stack) -> None:
    stack.forget_clients()
    before = calls(stack)
    assert ask(stack, f"/sites/{HOST}/short").status == HTTPStatus.NOT_FOUND
    assert calls(stack) == before  # not a token
    answers = [
        ask(stack, f"/sites/{host}/{wrong}")
        for host in (HOST, "unknown.example.com", "two.example.org", "a b")
        for wrong in (token(stack, "other.example.com"), "A" * 43)
    ]
    assert calls(stack) == before + 1

    answers.append(ask(stack, f"/sites/unknown.example.com/{token(stack, 'unknown.example.com')}"))
    assert {(answer.status, answer.body) for answer in answers} == {(404, answers[0].body)}


def test_another_secret_changes_the_tokens(stack: Stack) -> None:
    old, name = token(stack), f"{stack.variable('SECRETS_PATH')}/page"
    stack.client("secretsmanager").put_secret_value(SecretId=name, SecretString="another-secret-of-many-letters")
    stack.forget_clients()

    assert ask(stack, f"/sites/{HOST}/{old}").status == HTTPStatus.NOT_FOUND
    assert ask(stack, f"/sites/{HOST}/{token(stack)}").status == HTTPStatus.OK


def test_a_page_that_cannot_be_read_is_503(stack: Stack) -> None:
    stack.wire.faults.append(Fault("dynamodb", "Query"))
    answer = ask(stack, f"/sites/{HOST}/{token(stack)}")

    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert b"InternalError" not in answer.body


DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "arn:aws:sts::123456789012:show may not"}}, "Query")
TIMED_OUT, DEFECT = OutOfTime(service="s3", seconds=2.0), ValueError("a defect")


@pytest.mark.parametrize(
    ("module", "part", "missing", "failure"),
    [
        (read_page, "refusals", "refused deliveries: cannot be read", DENIED),
        (read_page, "read_recorded", "deliveries of the newest stories: cannot be read", TIMED_OUT),
        (read_page, "read_quarantined", "events in quarantine: cannot be read", DEFECT),
        (read_page, "story_of", "The answer cannot be read", DENIED),
        (read_page, "story_of", "The answer cannot be read", TIMED_OUT),
        (read_page, "story_of", "The answer cannot be read", DEFECT),
        (bucket, "listed", "files in the bucket: cannot be read", DENIED),
    ],
)
def test_a_part_that_cannot_be_read_leaves_the_rest_of_the_page(
    module: Any, part: str, missing: str, failure: Exception, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise failure

    page(stack)  # the first page imports the function's module
    monkeypatch.setattr(module, part, fail)
    html = page(stack, STORY)

    assert missing in html
    assert ("verdict yes" in html) is (part != "story_of")
    assert "sitemap-news.xml" in html
    assert str(failure) not in html
    assert "123456789012" not in html


def test_the_page_of_an_unreadable_site_shows_the_previous_version_without_other_grants(stack: Stack) -> None:
    stack.put_site(HOST, '{"host": 1}')
    stack.forget_clients()
    stack.wire.guard.refused.clear()
    html = page(stack)
    assert "cannot be read" in html
    assert "Flood" in html
    for question in (STORY, REFUSED, url("news/missing"), "flood", "cms#1", "bus#7"):
        assert "The answer cannot be read" not in page(stack, question)
    stack.put_site(HOST, SITE_OF_THE_PAGE)
    stack.forget_clients()

    assert stack.wire.guard.refused == []


# ── grants ──


@pytest.fixture(scope="module")
def asks(stack: Stack) -> list[tuple[Role, Ask]]:
    """Record the requests of the page's role for questions of each kind."""
    stack.forget_clients()
    stack.wire.guard.refused.clear()
    with recorded_asks(stack) as recorded:
        for question in ("", STORY, url("news/missing"), "flood"):
            page(stack, question)
        page(stack, STORY, at="2026-11-20T12:01:30")
    assert stack.wire.guard.refused == []
    return recorded


@pytest.mark.matrix
@pytest.mark.parametrize("grant", OF_PAGES, ids=str)
def test_the_page_needs_each_of_its_grants(grant: Grant, asks: list[tuple[Role, Ask]]) -> None:
    assert roles_refused(asks, Permissions(edited_resources(grant.taken_from))) == {"ShowSiteRole"}


def test_nothing_is_created_without_the_parameter() -> None:
    assert template.load(TEMPLATE).parameters["StatusPage"] == "no"
    declared = template.parse_yaml(TEMPLATE.read_text(encoding="utf-8"))["Resources"]
    names = [name for name in declared if name.startswith(("ShowSite", "PageApi", "StatusPage"))]

    assert len(names) == 5
    assert all(declared[name]["Condition"] == "HasStatusPage" for name in names)
