"""A stack that `sam deploy` creates from the built artifact: used, changed, rolled back, deleted.

ministack replaces AWS. Its clock cannot be set, so tests/scenarios covers behaviour over 48 hours.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.artifact import builds
from tests.deployment.deployed.stack import Emulator, Ended, Resources, Stack

pytestmark = pytest.mark.deployed

# The emulator accepts any keys.
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
KEEP = bool(os.environ.get("KEEP"))
HOST, SPORT = "www.example.com", "sport.example.com"
CMS = f"/webhooks/{HOST}/cms"
INDEX, NEWS = "sitemap.xml", "sitemap-news.xml"
# ministack ignores ExcludePunctuation, so the secret that it generates is not base64. The test puts these secrets instead.
SECRET, NEXT_SECRET = "Zmlyc3Qtc2VjcmV0LW9mLXRoZS1jbXM=", "c2Vjb25kLXNlY3JldC1vZi10aGUtY21z"
# Two runs of rate(1 minute), each up to ten seconds late in ministack.
MINUTES_S = 600.0
IMPORTED = 500


@pytest.fixture
def stack(capsys: pytest.CaptureFixture[str]) -> Iterator[Stack]:
    """Yield an undeployed stack with a running emulator. KEEP=1 keeps both after the test."""
    build, program = builds.native(), builds.emulator()
    folder = Path(tempfile.mkdtemp(prefix="stoppress-deployed-"))
    emulator = Emulator(program, folder)
    emulator.start()
    stack = Stack(emulator, builds.sam(), build, folder)
    yield stack
    if KEEP:
        kept = [
            f"endpoint  {emulator.endpoint}",
            f"log       {emulator.log}",
            f"stop it   {emulator.stop_command} && rm -r {folder}",
            f"webhook   {emulator.endpoint}{stack.api}{CMS}",
            "for commands with `--stack stoppress`:",
            *(f"export {name}={value}" for name, value in (emulator.aws_settings | KEYS).items()),
        ]
        with capsys.disabled():
            print("", *kept, sep="\n")  # noqa: T201 - KEEP=1 asks for it
        return
    emulator.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_the_artifact_is_deployed_and_used_and_changed_and_deleted(stack: Stack) -> None:
    succeeded(stack.deploy())
    stack.make_routes()
    put_secret(stack, SECRET)

    a_signed_webhook_is_listed(stack)
    an_event_on_the_bus_is_listed(stack)
    an_edit_is_listed(stack)
    a_removal_is_gone(stack)
    a_webhook_without_signature_or_site_is_refused(stack)
    the_commands_answer(stack)
    work_for_the_next_minute_is_left(stack)
    put_secret(stack, NEXT_SECRET)
    an_update_changes_a_function(stack)
    an_update_that_fails_is_rolled_back(stack)
    the_old_secret_is_refused(stack)
    an_archive_is_sent(stack)
    the_schedule_has_done_the_work_of_the_minute(stack)
    the_archive_is_in_the_files(stack)
    nothing_failed(stack)
    if not KEEP:
        deletion_keeps_what_people_wrote(stack)


# ── the steps ──


def a_signed_webhook_is_listed(stack: Stack) -> None:
    first = event("flood")
    stack.until("roll_window has added the site", lambda: stack.post(CMS, first, SECRET) == 200, MINUTES_S)
    is_listed(stack, page("flood"))
    publish(stack, "typo", SECRET)
    shard = f"sitemap-{datetime.now(UTC):%Y-%m}.xml"
    stack.until(f"the page is in {shard}", lambda: page("flood") in stack.file(HOST, shard))
    stack.until(f"{shard} is in the index", lambda: shard in stack.file(HOST, INDEX))


def an_event_on_the_bus_is_listed(stack: Stack) -> None:
    put_event(stack, HOST, "bus")
    is_listed(stack, page("bus"))


def an_edit_is_listed(stack: Stack) -> None:
    assert stack.post(CMS, event("flood", "article.updated", title="The flood recedes"), SECRET) == 200
    is_listed(stack, "The flood recedes")


def a_removal_is_gone(stack: Stack) -> None:
    assert stack.post(CMS, event("typo", "article.deleted"), SECRET) == 200
    stack.until("the removed page is gone", lambda: page("typo") not in stack.file(HOST, NEWS))


def a_webhook_without_signature_or_site_is_refused(stack: Stack) -> None:
    assert stack.post(CMS, event("forged"), "c29tZWJvZHktZWxzZXMtc2VjcmV0") == 401
    assert stack.post(f"/webhooks/{SPORT}/cms", event("forged"), SECRET) == 404


# Commands whose calls of AWS differ from the functions': arguments, exit code, and printed words. API is the address of the
# HTTP API, OLD a sitemap, FILE the first site's configuration with a second source. test_commands_as_typed.py tests all commands.
COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "preflight": ([], 1, "credentials: account"),
    "send": ([HOST, "cms", "--api", "API"], 0, f"gone from {NEWS}"),
    "quarantine list": ([], 1, "title: give it"),
    "status": ([HOST], 1, "events in quarantine: 1"),
    "quarantine retry": (["--all"], 1, "1 stay"),
    "quarantine drop": (["--all", "--yes"], 0, "1"),
    "redrive": ([], 0, "0 stay"),
    "rebuild": ([INDEX, "--site", HOST], 0, "rewrites queue"),
    "restore": (["copy", "--dry-run"], 0, "copy has"),
    "forget": ([f"https://{HOST}/news/bus", "--yes"], 0, ""),
    "reconcile": (["--dry-run"], 0, "0 repaired, 0 seen once"),
    "import": (["OLD", "--site", HOST, "--dry-run"], 0, "1"),
    "sites put": (["FILE", "--yes"], 0, "the files follow within a minute"),
    "secrets put": ([HOST, "wire"], 0, f"/webhooks/{HOST}/wire"),
    "secrets rotate": ([HOST, "wire", "--finish", "--yes"], 0, "one value is valid"),
}


def the_commands_answer(stack: Stack) -> None:
    put_event(stack, HOST, "untitled", title=None)
    stack.aws("dynamodb").restore_table_to_point_in_time(
        SourceTableName=stack.outputs["TableName"], TargetTableName="copy", UseLatestRestorableTime=True
    )
    stack.until("the event without title is in quarantine", lambda: len(quarantine(stack)) == 1)
    site = json.loads(stack.command("sites", "show", HOST).stdout)
    file = stack.file_of("site.json", json.dumps(site | {"sources": site["sources"] | {"wire": {"secret": "wire"}}}))
    old = stack.file_of("old.xml", f"<urlset><url><loc>https://{HOST}/old</loc></url></urlset>")
    values = {"API": stack.address, "FILE": str(file), "OLD": str(old)}
    for command, (arguments, code, words) in COMMANDS.items():
        typed = [*command.split(), *(values.get(word, word) for word in arguments)]

        def answers(typed: list[str] = typed, code: int = code, words: str = words) -> bool:
            answer = stack.command(*typed)
            errors, printed = (answer.stdout, answer.stderr) if code == 2 else (answer.stderr, answer.stdout)
            return (answer.returncode, errors) == (code, "") and words in printed

        # Repeated, because `reconcile` reports files that are being written, and `forget` may need another run.
        stack.until(f"`stoppress {' '.join(typed)}` prints {words!r} and exits with {code}", answers, MINUTES_S)
    assert page("bus") not in stack.file(HOST, NEWS)


def work_for_the_next_minute_is_left(stack: Stack) -> None:
    """Leave a held article, a new site and a changed site."""
    soon = datetime.now(UTC) + timedelta(seconds=10)
    assert stack.post(CMS, event("embargo", published_at=soon.isoformat()), SECRET) == 200
    site = json.loads(stack.command("sites", "show", HOST).stdout)
    sport = {"host": SPORT, "publication": "Example Sport", "sources": {"bus": {"adapter": "standard"}}}
    for document in (sport, site | {"publication": "Renamed News"}):
        succeeded(stack.command("sites", "put", str(stack.file_of("put.json", json.dumps(document))), "--yes"))


def an_update_changes_a_function(stack: Stack) -> None:
    succeeded(stack.deploy(lambda resources: set_variable(resources, "POWERTOOLS_LOG_LEVEL", "DEBUG")))
    assert stack.function("ReceiveWebhook")["Environment"]["Variables"]["POWERTOOLS_LOG_LEVEL"] == "DEBUG"
    publish(stack, "updated", NEXT_SECRET)


def an_update_that_fails_is_rolled_back(stack: Stack) -> None:
    """Change a function, then fail to create a bus whose name is taken."""

    def change(resources: Resources) -> None:
        set_variable(resources, "SECRETS_PATH", "/nowhere")
        name = resources["ArticlesBus"]["Properties"]["Name"]
        bus = {"Type": "AWS::Events::EventBus", "Properties": {"Name": name}}
        resources["NameTaken"] = bus | {"DependsOn": "ReceiveWebhook"}

    before = stack.function("ReceiveWebhook")
    failed = stack.deploy(change)
    assert failed.returncode != 0
    assert stack.described["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE", failed.stdout + failed.stderr
    after = stack.function("ReceiveWebhook")
    assert after["LastModified"] > before["LastModified"], "nothing was changed, so that nothing was rolled back"
    assert after["Environment"] == before["Environment"]
    publish(stack, "rolled-back", NEXT_SECRET)


def the_old_secret_is_refused(stack: Stack) -> None:
    """The function caches a secret for five minutes, but the update has restarted it."""
    assert stack.post(CMS, event("late"), SECRET) == 401


def archive() -> list[dict[str, Any]]:
    return [
        {
            "id": f"a{number}",
            "url": page(f"archive-{number}"),
            "title": "Old",
            "published_at": f"2019-{1 + number % 12:02}-05T08:00:00Z",
        }
        for number in range(IMPORTED)
    ]


def an_archive_is_sent(stack: Stack) -> None:
    file = stack.file_of("archive.jsonl", "".join(f"{json.dumps(row)}\n" for row in archive()))
    succeeded(stack.command("import", str(file), "--site", HOST, "--as", "cms", "--rate", "1000"))


def the_archive_is_in_the_files(stack: Stack) -> None:
    def listed() -> list[str]:
        shards = (stack.file(HOST, f"sitemap-2019-{month:02}.xml") for month in range(1, 13))
        return sorted(url for shard in shards for url in re.findall("<loc>([^<]*)</loc>", shard))

    imported = sorted(row["url"] for row in archive())
    stack.until(f"all {IMPORTED:,} imported articles are in the shards", lambda: listed() == imported, MINUTES_S)


def the_schedule_has_done_the_work_of_the_minute(stack: Stack) -> None:
    for text, host in {page("embargo"): HOST, "<news:name>Renamed News<": HOST, "<urlset": SPORT}.items():
        is_listed(stack, text, host, MINUTES_S)
    put_event(stack, SPORT, "match")
    is_listed(stack, page("match", SPORT), SPORT)


def nothing_failed(stack: Stack) -> None:
    queues = {name: stack.waiting(name) for name in stack.outputs if name.endswith(("DeadLettersUrl", "FailuresUrl"))}
    assert set(queues.values()) == {0}, queues


def deletion_keeps_what_people_wrote(stack: Stack) -> None:
    table = stack.outputs["TableName"]
    succeeded(stack.delete())
    assert page("flood") in stack.file(HOST, NEWS)
    assert table in stack.aws("dynamodb").list_tables()["TableNames"]
    hosts = stack.aws("dynamodb").query(
        TableName=table, KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": {"S": "sites"}}
    )
    assert {item["sk"]["S"] for item in hosts["Items"]} == {HOST, SPORT}
    assert stack.aws("lambda").list_functions()["Functions"] == []
    secrets = stack.aws("secretsmanager").list_secrets()["SecretList"]
    assert sorted(secret["Name"].rpartition("/")[2] for secret in secrets) == ["cms", "wire"]


# ── helpers of the steps ──


def page(article: str, host: str = HOST) -> str:
    return f"https://{host}/news/{article}"


def event(article: str, kind: str = "article.published", host: str = HOST, **data: Any) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    values = {"id": article, "url": page(article, host), "title": f"Story {article}", "published_at": now}
    return {"type": kind, "timestamp": now, "data": values | data}


def publish(stack: Stack, article: str, secret: str) -> None:
    assert stack.post(CMS, event(article), secret) == 200
    is_listed(stack, page(article))


def is_listed(stack: Stack, text: str, host: str = HOST, within_s: float = 30) -> None:
    stack.until(f"{text} is in {NEWS} of {host}", lambda: text in stack.file(host, NEWS), within_s)


def put_event(stack: Stack, host: str, article: str, **data: Any) -> None:
    detail = json.dumps({"site": host} | event(article, host=host, **data)["data"])
    entry = {"Source": "bus", "DetailType": "article.published", "Detail": detail}
    answer = stack.aws("events").put_events(Entries=[entry | {"EventBusName": stack.outputs["BusName"]}])
    assert answer["FailedEntryCount"] == 0, answer


def put_secret(stack: Stack, secret: str) -> None:
    stack.aws("secretsmanager").put_secret_value(SecretId=stack.outputs["WebhookSecretName"], SecretString=secret)


def set_variable(resources: Resources, name: str, value: str) -> None:
    resources["ReceiveWebhook"]["Properties"]["Environment"]["Variables"][name] = value


def quarantine(stack: Stack) -> list[dict[str, Any]]:
    return list(json.loads(stack.command("quarantine", "list", "--json").stdout))


def succeeded(ended: Ended) -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr
