"""The life of a stack that `sam deploy` makes of the built artifact: used, changed, rolled back, deleted.

The emulator is not AWS. It has no clock that can be set, so what takes 48 hours is played on the local stack (tests/scenarios).
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main

from stoppress_cli.app import app
from tests.deployment.artifact import builds
from tests.deployment.deployed.stack import Emulator, Stack

pytestmark = pytest.mark.deployed

KEEP = bool(os.environ.get("KEEP"))
HOST, SPORT = "www.example.com", "sport.example.com"
CMS = f"/webhooks/{HOST}/cms"
INDEX, NEWS = "sitemap.xml", "sitemap-news.xml"
# Base64 without punctuation, which the emulator's generated secrets have although the template excludes it.
SECRET, NEXT_SECRET = "Zmlyc3Qtc2VjcmV0LW9mLXRoZS1jbXM=", "c2Vjb25kLXNlY3JldC1vZi10aGUtY21z"
# rate(1 minute) fires a minute after the schedule was made, and the emulator looks every ten seconds. Twice, for a slow machine.
MINUTE_S = 140.0


@pytest.fixture
def stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Stack]:
    build = builds.native()
    emulator = Emulator(builds.emulator(), tmp_path)
    emulator.start()
    made = Stack(emulator, builds.sam(), build, tmp_path)
    try:
        yield made
    finally:
        if KEEP:
            with capsys.disabled():
                print(f"\nAWS endpoint   {emulator.endpoint}\nwebhook        {made.api}{CMS}\nsecret         {NEXT_SECRET}")  # noqa: T201
                print(f"log            {emulator.log}\nstop it        {emulator.stop_command}")  # noqa: T201
        else:
            emulator.stop()


def test_the_built_artifact_is_deployed_used_changed_rolled_back_and_deleted(stack: Stack) -> None:
    deployed = stack.deploy()
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    stack.make_routes()
    put_secret(stack, SECRET)

    a_signed_webhook_is_listed(stack)
    an_event_on_the_bus_is_listed(stack)
    an_edit_is_listed(stack)
    a_removal_is_gone(stack)
    a_request_that_is_not_signed_or_not_posted_is_refused(stack)
    every_command_answers(stack)
    what_the_next_minute_does_is_prepared(stack)
    put_secret(stack, NEXT_SECRET)
    an_update_changes_a_function(stack)
    an_update_that_fails_is_rolled_back(stack)
    the_old_secret_is_refused(stack)
    the_minute_has_done_its_work(stack)
    a_page_is_forgotten(stack)
    nothing_failed(stack)
    if not KEEP:
        deletion_keeps_what_cannot_be_made_again(stack)


def put_secret(stack: Stack, secret: str) -> None:
    stack.aws("secretsmanager").put_secret_value(SecretId=stack.outputs["WebhookSecretName"], SecretString=secret)


def page(article: str) -> str:
    return f"https://{HOST}/news/{article}"


def event(article: str, kind: str = "article.published", **data: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    known = {"id": article, "url": page(article), "title": f"Story {article}", "published_at": now.isoformat()}
    return {"type": kind, "timestamp": now.isoformat(), "data": known | data}


def listed(stack: Stack, text: str, host: str = HOST) -> None:
    stack.until(f"{text} is in {NEWS} of {host}", lambda: text in stack.file(host, NEWS))


def a_signed_webhook_is_listed(stack: Stack) -> None:
    for article in ("flood", "typo"):
        assert stack.post(CMS, event(article), SECRET) == 200
        listed(stack, page(article))
    shard = f"sitemap-{datetime.now(UTC):%Y-%m}.xml"
    stack.until(f"the page is in {shard}", lambda: page("flood") in stack.file(HOST, shard))
    stack.until(f"{shard} is in the index", lambda: shard in stack.file(HOST, INDEX))


def an_event_on_the_bus_is_listed(stack: Stack) -> None:
    send(stack, "bus", site=HOST)
    listed(stack, page("bus"))
    send(stack, "untitled", site=HOST, title=None)  # goes to quarantine, for the commands


def send(stack: Stack, article: str, **detail: Any) -> None:
    story = event(article)["data"] | detail
    bus = stack.outputs["BusName"]
    entry = {"Source": "bus", "DetailType": "article.published", "Detail": json.dumps(story), "EventBusName": bus}
    assert stack.aws("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def an_edit_is_listed(stack: Stack) -> None:
    assert stack.post(CMS, event("flood", "article.updated", title="The flood recedes"), SECRET) == 200
    listed(stack, "The flood recedes")


def a_removal_is_gone(stack: Stack) -> None:
    assert stack.post(CMS, event("typo", "article.deleted"), SECRET) == 200
    stack.until("the removed page is gone", lambda: page("typo") not in stack.file(HOST, NEWS))


def a_request_that_is_not_signed_or_not_posted_is_refused(stack: Stack) -> None:
    assert stack.post(CMS, event("forged"), "c29tZWJvZHktZWxzZXMtc2VjcmV0") == 401
    assert stack.post(f"/webhooks/{SPORT}/cms", event("forged"), SECRET) == 404


def what_the_next_minute_does_is_prepared(stack: Stack) -> None:
    """A held article, a site that is added and one that is changed wait for roll_window.

    On AWS the parameters' change would call it at once. The emulator's Parameter Store reports no change to the bus, and its
    bus refuses an event of `aws.ssm`, as that of AWS does.
    """
    soon = datetime.now(UTC) + timedelta(seconds=10)
    assert stack.post(CMS, event("embargo", published_at=soon.isoformat()), SECRET) == 200
    parameters, path = stack.aws("ssm"), stack.outputs["SitesPath"]
    sport = {"host": SPORT, "publication": "Example Sport", "sources": {"bus": {"adapter": "standard"}}}
    parameters.put_parameter(Name=f"{path}/{SPORT}", Type="String", Value=json.dumps(sport))
    first = json.loads(parameters.get_parameter(Name=f"{path}/{HOST}")["Parameter"]["Value"])
    first["publication"] = "Renamed News"
    parameters.put_parameter(Name=f"{path}/{HOST}", Type="String", Value=json.dumps(first), Overwrite=True)
    assert stack.file(SPORT, INDEX) == ""


def the_minute_has_done_its_work(stack: Stack) -> None:
    news = {page("embargo"): HOST, "<news:name>Renamed News<": HOST, "<urlset": SPORT}
    for text, host in news.items():
        stack.until(f"{text} is in {NEWS} of {host}", lambda t=text, h=host: t in stack.file(h, NEWS), MINUTE_S)
    send(stack, "match", site=SPORT, url=f"https://{SPORT}/match")
    listed(stack, f"https://{SPORT}/match", SPORT)


def the_old_secret_is_refused(stack: Stack) -> None:
    assert stack.post(CMS, event("old"), SECRET) == 401


# The arguments of each command that takes --stack, its exit code, and words that it prints.
COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "explain": ([page("flood")], 0, NEWS),
    "robots": ([HOST], 0, f"Sitemap: https://{HOST}/{INDEX}"),
    "feeds show": ([], 0, ""),
    "retire": ([], 0, "every site has its parameter"),
    "quarantine list": ([], 1, "title: give it"),
    "quarantine show": (["ID"], 0, "title: give it"),
    "quarantine retry": (["--all"], 1, "1 stay"),
    "quarantine drop": (["--all", "--yes"], 0, "1"),
    "redrive": ([], 0, "0 stay"),
    "rebuild": ([INDEX, "--site", HOST], 0, "rewrites queue"),
    "reconcile": (["--dry-run"], 0, "0 repaired, 0 seen once"),
    "restore": (["copy", "--dry-run"], 0, "copy has"),
    "forget": ([page("bus"), "--dry-run"], 1, page("bus")),
}


def every_command_answers(stack: Stack) -> None:
    assert set(taking_stack(typer.main.get_command(app))) == set(COMMANDS), "give each command with --stack a case"
    stack.aws("dynamodb").restore_table_to_point_in_time(
        SourceTableName=stack.outputs["TableName"], TargetTableName="copy", UseLatestRestorableTime=True
    )
    [waiting] = json.loads(stack.command("quarantine", "list", "--json").stdout)
    for command, (arguments, code, words) in COMMANDS.items():
        typed = [*command.split(), *(waiting["id"] if word == "ID" else word for word in arguments)]

        def answers(typed: list[str] = typed, expected: tuple[int, str] = (code, ""), words: str = words) -> bool:
            answer = stack.command(*typed)
            return (answer.returncode, answer.stderr) == expected and words in answer.stdout

        # More than once, because what is on its way is a difference to `reconcile`.
        stack.until(f"`stoppress {' '.join(typed)}` prints {words!r} and exits with {code}", answers)


def taking_stack(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command with an option --stack, by its words."""
    if any("--stack" in parameter.opts for parameter in command.params):
        yield " ".join(path)
    for name, child in getattr(command, "commands", {}).items():
        yield from taking_stack(child, (*path, name))


def an_update_changes_a_function(stack: Stack) -> None:
    def change(resources: dict[str, Any]) -> None:
        resources["ReceiveWebhook"]["Properties"]["Environment"]["Variables"]["POWERTOOLS_LOG_LEVEL"] = "DEBUG"

    updated = stack.deploy(change)
    assert updated.returncode == 0, updated.stdout + updated.stderr
    assert stack.variables("ReceiveWebhook")["POWERTOOLS_LOG_LEVEL"] == "DEBUG"
    a_webhook_works(stack, "updated")


def an_update_that_fails_is_rolled_back(stack: Stack) -> None:
    """The function is changed first, and then a bus cannot be made because its name is taken."""

    def change(resources: dict[str, Any]) -> None:
        resources["ReceiveWebhook"]["Properties"]["Environment"]["Variables"]["SITES_PATH"] = "/nowhere"
        name = resources["ArticlesBus"]["Properties"]["Name"]
        resources["Taken"] = {
            "Type": "AWS::Events::EventBus", "DependsOn": "ReceiveWebhook", "Properties": {"Name": name}
        }  # fmt: skip

    before = stack.variables("ReceiveWebhook")
    failed = stack.deploy(change)
    assert failed.returncode != 0
    [state] = stack.aws("cloudformation").describe_stacks(StackName="stoppress")["Stacks"]
    assert state["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE", failed.stdout + failed.stderr
    assert stack.variables("ReceiveWebhook") == before
    a_webhook_works(stack, "rolled-back")


def a_webhook_works(stack: Stack, article: str) -> None:
    # The processes of an updated function are new, and know the new secret only.
    assert stack.post(CMS, event(article), NEXT_SECRET) == 200
    listed(stack, page(article))


def a_page_is_forgotten(stack: Stack) -> None:
    answer = stack.command("forget", page("bus"), "--yes")
    print(answer)


def nothing_failed(stack: Stack) -> None:
    queues = {name: stack.messages(name) for name in stack.outputs if name.endswith(("DeadLettersUrl", "FailuresUrl"))}
    assert set(queues.values()) == {0}, queues


def deletion_keeps_what_cannot_be_made_again(stack: Stack) -> None:
    outputs = stack.outputs
    deleted = stack.delete()
    assert deleted.returncode == 0, deleted.stdout + deleted.stderr
    tables = stack.aws("dynamodb").list_tables()["TableNames"]
    assert outputs["TableName"] in tables
    assert page("flood") in stack.file(HOST, NEWS)
    names = {one["Name"] for one in stack.aws("ssm").describe_parameters()["Parameters"]}
    assert names == {f"{outputs['SitesPath']}/{SPORT}"}
    assert stack.aws("lambda").list_functions()["Functions"] == []
    assert stack.aws("secretsmanager").list_secrets()["SecretList"] == []
