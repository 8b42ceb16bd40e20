"""Each function as SAM builds it, under Lambda's own runtime client: the effect of its event is seen in the local stack.

Nothing is on its path but the built function, the built layer and what the runtime brings; its variables are the template's.
"""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stoppress.aws.items import mark_item
from stoppress.aws.queues import read_rewrite
from stoppress.model.entries import Mark
from stoppress.model.event import from_message
from stoppress.notify import service_account
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.feed_answer import FeedAnswer
from stoppress_cli.scenario.feeds_server import FeedServer
from tests.deployment.artifact import builds, events_now, faults
from tests.deployment.artifact.runtime_api import Answer, aws_of, started
from tests.support.console import private_key
from tests.support.event_files import (
    CHANGED,
    EDITOR,
    ENGINES,
    FEED as PUSHED_FEED,
    HOST,
    HOURLY,
    NEWS,
    NIGHT,
    POLL,
    PUSH,
    QUESTION,
    RECORD,
    REWRITES,
    ROLL,
    SHARD,
    STREAM,
    WEBHOOK,
    WINDOW,
    apply,
    first_site_stack,
    function_of,
    items,
    objects,
    on_queue,
    put,
    put_news,
    put_subscription,
)

pytestmark = pytest.mark.artifact

FEED = f"http://{HOST}/rss.xml"


@pytest.fixture(scope="module", autouse=True)
def built() -> Path:
    return builds.native()


@pytest.fixture
def stack() -> Iterator[Stack]:
    with first_site_stack(FEED) as made:
        yield made


def answered(
    stack: Stack,
    built: Path,
    log: Path,
    *names: str,
    feeds_port: int = 0,
    layer: Path | None = None,
    handler: str | None = None,
) -> list[Answer]:
    """What a built function answers to files' events, one after the other in one process."""
    function = stack.functions[function_of(names[0])]
    handler = handler or f"{function._path.stem}.{function._attribute}"
    folders = [built / function.logical, layer or built / builds.LAYER, builds.RUNTIME]
    with (
        aws_of(stack) as variables,
        started(function, folders, log / "log", variables, handler=handler, feeds_port=feeds_port) as environment,
    ):
        return [environment.invoke(events_now.event(name)) for name in names]


def test_the_build_for_this_machine_has_no_fault(built: Path) -> None:
    assert faults.faults_of(built, builds.ROOT, builds.MACHINE) == []


def test_receive_webhook_puts_its_article_on_the_queue(stack: Stack, built: Path, tmp_path: Path) -> None:
    [answer] = answered(stack, built, tmp_path, WEBHOOK)
    assert answer.kind == "response"
    assert (answer.payload["statusCode"], json.loads(answer.payload["body"])["status"]) == (200, "queued")
    [message] = on_queue(stack, "ArticlesQueue")
    sent = from_message(message)
    assert (sent.source, sent.id, sent.title) == ("cms", "1042", "Flood closes the harbour")


def test_poll_feeds_sends_the_entries_of_a_feed(stack: Stack, built: Path, tmp_path: Path) -> None:
    item = "<item><guid>g1</guid><link>https://www.example.com/a</link><title>A</title></item>"
    rss = f'<rss version="2.0"><channel>{item}</channel></rss>'
    with FeedServer().running() as server:
        server.set(FEED, FeedAnswer(headers={"content-type": "application/rss+xml"}, body=rss.encode()))
        [answer] = answered(stack, built, tmp_path, POLL, feeds_port=server.port)
    assert answer == Answer("response", None)
    [message] = on_queue(stack, "ArticlesQueue")
    sent = from_message(message)
    assert (sent.source, sent.url, sent.title) == ("feed", "https://www.example.com/a", "A")
    assert {item["sk"] for item in items(stack)["feed"]} == {"-", "entries", "run-0"}


def test_receive_push_confirms_what_was_asked_and_puts_what_is_pushed_on_the_queue(built: Path, tmp_path: Path) -> None:
    with first_site_stack(PUSHED_FEED) as stack:
        put_subscription(stack)
        question, push = answered(stack, built, tmp_path, QUESTION, PUSH)
        [message] = on_queue(stack, "ArticlesQueue")
    assert (question.payload["statusCode"], question.payload["body"]) == (200, "8vQ2mXr0cZt5")
    assert push.payload["statusCode"] == 202
    assert from_message(message).title == "Market hall reopens"


def test_record_article_records_a_batch_and_quarantines_its_bad_message(
    stack: Stack, built: Path, tmp_path: Path
) -> None:
    [answer] = answered(stack, built, tmp_path, RECORD)
    assert answer == Answer("response", {"batchItemFailures": []})
    found = items(stack)
    assert {item["url"] for item in found["article"]} == {
        "https://www.example.com/2026/11/20/flood",
        "https://www.example.com/2026/11/20/ferries",
    }
    assert [item["pk"] for item in found["file"]].count(f"file#{NEWS}") == 2
    assert len(found["file"]) == 4
    assert len(found["quarantine"]) == 1


def test_rewrite_sitemaps_writes_the_files_of_the_stream_and_of_its_queue(
    stack: Stack, built: Path, tmp_path: Path
) -> None:
    apply(stack, events_now.event(STREAM))
    answers = answered(stack, built, tmp_path, STREAM, REWRITES)
    assert answers == [Answer("response", {"batchItemFailures": []})] * 2
    written = objects(stack)
    assert set(written) == {SHARD, NEWS, f"{HOST}/sitemap.xml"}
    assert b"Storm warning lifted" in written[NEWS]
    assert written[SHARD].count(b"<url>") == 3
    assert written[f"{HOST}/sitemap.xml"].count(b"<sitemap>") == 2


def test_roll_window_takes_out_what_is_48_hours_old(stack: Stack, built: Path, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    put_news(stack, {"expired": now - WINDOW, "fresh": now - WINDOW + timedelta(hours=1)})
    assert answered(stack, built, tmp_path, ROLL) == [Answer("response", None)]
    assert [item["loc"] for item in items(stack)["file"]] == [f"https://{HOST}/fresh"]


def test_rewrite_sitemaps_has_the_files_of_a_changed_site_written_again(
    stack: Stack, built: Path, tmp_path: Path
) -> None:
    apply(stack, events_now.event(STREAM))
    put(stack, mark_item(HOST, Mark("sitemap-2026-11.xml", datetime.now(UTC), 3, 500, "digest")))
    assert answered(stack, built, tmp_path, CHANGED) == [Answer("response", {"batchItemFailures": []})]
    named = [read_rewrite(body).file for body in on_queue(stack, "RewritesQueue")]
    assert sorted(named) == ["robots.txt", "sitemap-2026-11.xml", "sitemap-news.xml", "sitemap.xml"]


def test_reconcile_sites_keeps_what_it_suspects_for_its_second_look(stack: Stack, built: Path, tmp_path: Path) -> None:
    assert answered(stack, built, tmp_path, NIGHT) == [Answer("response", None)]
    assert [item["sk"] for item in items(stack)["suspects"]] == [f"{HOST}/sitemap-news.xml", f"{HOST}/sitemap.xml"]


def test_audit_sources_reads_the_sites(stack: Stack, built: Path, tmp_path: Path) -> None:
    assert answered(stack, built, tmp_path, HOURLY) == [Answer("response", None)]


def test_show_site_answers_with_the_page(stack: Stack, built: Path, tmp_path: Path) -> None:
    [answer] = answered(stack, built, tmp_path, EDITOR)
    assert answer.payload["statusCode"] == 200
    assert "no event named this page" in answer.payload["body"]


def test_notify_engines_takes_messages_and_notifies_nobody_for_a_site_without_engines(
    stack: Stack, built: Path, tmp_path: Path
) -> None:
    [answer] = answered(stack, built, tmp_path, ENGINES)
    assert answer == Answer("response", {"batchItemFailures": []})
    assert on_queue(stack, "EnginesQueue") == []


def test_notify_engines_signs_with_the_library_that_was_built_for_it(built: Path) -> None:
    folders = [built / "NotifyEngines", built / builds.LAYER, builds.RUNTIME]
    code = (
        f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}\n"
        "from stoppress.notify.service_account import sign\n"
        "import cryptography; print(cryptography.__file__); print(sign(sys.stdin.read(), b'text').hex())"
    )
    done = subprocess.run(  # noqa: S603 - our own code
        [builds.python(), "-I", "-S", "-B", "-c", code],
        input=private_key(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(built / "NotifyEngines/cryptography/__init__.py"),
        service_account.sign(private_key(), b"text").hex(),
    ]


def test_every_function_of_the_template_is_run_here(stack: Stack) -> None:
    assert {
        function_of(name)
        for name in (WEBHOOK, POLL, RECORD, STREAM, REWRITES, ROLL, CHANGED, NIGHT, PUSH, EDITOR, HOURLY, ENGINES)
    } == set(stack.functions)


# ── what goes wrong on Lambda goes wrong here ──


def test_a_function_without_its_layer_does_not_start(stack: Stack, built: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    [answer] = answered(stack, built, tmp_path, WEBHOOK, layer=tmp_path / "empty")
    assert answer.kind == "init/error"
    assert answer.payload["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'aws_lambda_powertools'" in answer.payload["errorMessage"]


def test_a_function_with_another_handler_does_not_start(stack: Stack, built: Path, tmp_path: Path) -> None:
    [answer] = answered(stack, built, tmp_path, WEBHOOK, handler="app.handler")
    assert answer.kind == "init/error"
    assert answer.payload["errorType"] == "Runtime.HandlerNotFound"


def test_what_a_function_raises_is_an_error_of_its_invocation(stack: Stack, built: Path, tmp_path: Path) -> None:
    name = stack.variable("TABLE_NAME")
    stack.client("dynamodb").delete_table(TableName=name)
    [answer] = answered(stack, built, tmp_path, ROLL)
    assert answer.kind == "error"
    assert answer.payload["errorType"] == "ExceptionGroup"
