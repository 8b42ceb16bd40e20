"""`stoppress status`: the answer lists each problem of a broken local stack with the command that helps."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import bucket, metrics, table
from stoppress.aws.items import quarantine_item
from stoppress.primitives.instants import iso
from stoppress.show import read_site
from stoppress.show.stack_status import ALARM_COMMANDS, ALARM_LOGS, Access, StackStatus, stack_status
from stoppress.show.story import story_of
from stoppress_cli.local.template import load
from tests.support import breakages
from tests.support.breakages import BREAKAGES, FEED, HOST, Newsroom
from tests.support.operated import connected
from tests.support.playing import TEMPLATE

ON_STACK = "--stack news"


def answer(newsroom: Newsroom, host: str | None = None) -> StackStatus:
    """Return the status of a local newsroom, with the commands of a deployed stack."""
    now = newsroom.stack.clock.now()
    with connected(newsroom.stack):
        return stack_status(read_site.read_stack(host, now, None), now, Access("news"))


@dataclass(frozen=True)
class Case:
    """A breakage by its name, the problem that is reported some minutes later, and its command."""

    breakage: str
    what: str
    mend: str
    minutes: int = 2
    site: Mapping[str, Any] = field(default_factory=dict)


CASES = [
    Case("a feed answers 500", f"the feed {FEED} fails: the server answered 500", f"stoppress feeds show {HOST} {ON_STACK}"),
    Case("a feed is gone (410)", f"the feed {FEED} answered 410", f"stoppress feeds show {HOST} {ON_STACK}"),
    Case("a dead letter", "1 dead letter in the queue articles", f"stoppress redrive articles --dry-run {ON_STACK}"),
    Case(
        "the rule of the bus may not send to the queue",
        "1 dead letter in the queue failures",
        f"stoppress redrive failures --dry-run {ON_STACK}",
    ),
    Case("an event cannot be understood", "in quarantine: 1", f"stoppress quarantine list --site unknown {ON_STACK}"),
    Case(
        "a version of a site cannot be read",
        "its configuration cannot be read, the version before is in force: ",
        f"stoppress sites put site.json {ON_STACK}",
    ),
    Case(
        "the secret is missing",
        "the secret of the source 'cms' is missing",
        f"stoppress secrets put {HOST} cms {ON_STACK}",
    ),
    Case(
        "the schedule of `roll_window` is off",
        "roll_window does not run",
        "sam logs --stack-name news --name RollWindow",
        minutes=16,
    ),
    Case(
        "the schedule of `poll_feeds` is off",
        f"poll_feeds does not poll the feed {FEED}",
        "sam logs --stack-name news --name PollFeeds",
        minutes=25,
        site={"feeds": [FEED]},
    ),
    Case(
        "no event for longer than `silent_after_hours`",
        "no event for longer than silent_after_hours (1)",
        "sam logs --stack-name news --name ReceiveWebhook",
        minutes=62,
    ),
]  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.breakage)
def test_each_breakage_is_reported_with_the_command_that_helps(case: Case, tmp_path: Path) -> None:
    [breakage] = [candidate for candidate in BREAKAGES if candidate.name == case.breakage]
    breakage = replace(breakage, site={**breakage.site, **case.site}, step_s=60)
    with breakages.newsroom(breakage, tmp_path) as newsroom:
        assert answer(newsroom).verdict == "healthy"
        breakage.act(newsroom)
        for _ in range(case.minutes):
            newsroom.minute()
        broken = answer(newsroom)

    assert broken.verdict == "attention"
    named = [problem for problem in broken.problems if case.what in problem.what]
    assert [problem.mend[: len(case.mend)] for problem in named] == [case.mend], broken.problems


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom:
        for file in ("sitemap-news.xml", "sitemap.xml"):
            newsroom.stack.client("s3").delete_object(
                Bucket=newsroom.stack.variable("BUCKET_NAME"), Key=f"{HOST}/{file}"
            )
        broken = answer(newsroom, HOST)

    assert [(problem.site, problem.what, problem.mend) for problem in broken.problems] == [
        (HOST, f"not in the bucket: {file}", f"stoppress rebuild {file} --site {HOST} {ON_STACK}")
        for file in ("sitemap-news.xml", "sitemap.xml")
    ]


def wrong_headers(minutes_ago: int) -> dict[str, Any]:
    """Return headers with a wrong signature and a timestamp that is some minutes old."""
    return {"sign": False, "headers": {"webhook-id": "a", "webhook-signature": "v1,AAAA", "age_min": minutes_ago}}


# By what a source sends: how often, how it is posted, what status and explain report, and the command that helps.
SENT: dict[str, tuple[int, dict[str, Any], str, str]] = {
    "wrong signatures": (1, wrong_headers(0), "at least 1 delivery from cms had a wrong signature today, the last at", f"secrets rotate {HOST} cms"),
    "stale timestamps": (1, wrong_headers(60), "today, the last at 2026-11-20 08:08:00 +00:00 (webhook-timestamp is 3600 s away from now", f"secrets rotate {HOST} cms"),
    "refused articles": (3, {"body": {"type": "article.published", "data": {"title": "Flood"}}}, "at least 3 deliveries from cms failed with 400 today", "sam logs "),
    "a refused article": (1, {"body": {"type": "article.published", "data": {"title": "Flood"}}}, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("sent", SENT)
def test_status_and_explain_blame_a_source_whose_deliveries_fail(sent: str, tmp_path: Path) -> None:
    times, how, what, mend = SENT[sent]
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom:
        now = newsroom.stack.clock.now()
        for _ in range(times):
            step = {"post": f"/webhooks/{HOST}/cms", "body": "{}", "sign": True} | how
            if headers := dict(how.get("headers", {})):
                stamp = int(now.timestamp()) - 60 * headers.pop("age_min")
                step["headers"] = headers | {"webhook-timestamp": str(stamp)}
            newsroom.do(step)
        newsroom.stack.rest()
        status_of_stack = answer(newsroom)
        with connected(newsroom.stack):
            story = story_of(f"https://{HOST}/never-sent", None, newsroom.stack.clock.now())

    problems = [problem for problem in status_of_stack.problems if what in problem.what]
    assert [mend in problem.mend for problem in problems] == ([True] if what else [])
    assert what in "; ".join(reason.text for reason in story.news.reasons)


def test_the_answer_has_the_window_and_the_files(tmp_path: Path) -> None:
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom:
        now = newsroom.stack.clock.now().isoformat()
        without_title = {"type": "article.published", "timestamp": now, "data": {"id": "1", "url": f"https://{HOST}/1"}}
        newsroom.do({"post": f"/webhooks/{HOST}/cms", "body": without_title, "sign": True})
        newsroom.stack.rest()
        before = newsroom.stack.backend.items(), newsroom.stack.backend.objects()
        [site] = answer(newsroom).sites
        assert (newsroom.stack.backend.items(), newsroom.stack.backend.objects()) == before

    assert [(source["name"], source["refused_today"], source["unverified_today"]) for source in site["sources"]] == [
        ("cms", 1, 0),
        ("bus", 0, 0),
    ]
    assert site["window"]["stories"] == breakages.HEALTHY_MINUTES
    assert site["window"]["next_to_leave"] == f"https://{HOST}/story-1"
    assert {file["name"]: file["entries"] for file in site["files"]} == {
        "sitemap-news.xml": breakages.HEALTHY_MINUTES,
        "sitemap-2026-11.xml": breakages.HEALTHY_MINUTES,
    }


def test_data_without_permission_are_unknown_and_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "No."}}, "DescribeAlarms")

    monkeypatch.setattr(metrics, "firing_alarms", denied)
    monkeypatch.setattr(bucket, "listed", denied)
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom, connected(newsroom.stack):
        now = newsroom.stack.clock.now()
        status = stack_status(read_site.read_stack(None, now, "news"), now, Access("news"))

    assert status.verdict == "unknown"
    assert [unknown.what for unknown in status.unknown] == ["files in the bucket", "alarms"]


def test_a_firing_alarm_is_shown_by_its_name_in_the_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom, connected(newsroom.stack):
        now = newsroom.stack.clock.now()
        local = now.astimezone(ZoneInfo("America/New_York"))  # botocore reads a number in the machine's zone
        alarm = {"AlarmName": "news-FilesLateAlarm-1A2B3C", "StateUpdatedTimestamp": local, "AlarmDescription": "Late."}
        of_another = alarm | {"AlarmName": "news-test-FilesLateAlarm-1A2B3C"}  # its stack's name begins alike
        monkeypatch.setattr(metrics, "firing_alarms", lambda prefix: [alarm, of_another] if prefix == "news-" else [])
        status = stack_status(read_site.read_stack(None, now, "news"), now, Access("news"))

    [problem] = status.problems
    assert len(status.alarms) == 1
    assert (problem.what, iso(problem.since or local)) == ("FilesLateAlarm fires: Late.", iso(now))
    assert problem.mend == "sam logs --stack-name news --name RewriteSitemaps"


def test_a_full_quarantine_is_counted_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom, connected(newsroom.stack):
        now = newsroom.stack.clock.now()
        for number in range(3):
            item = quarantine_item(HOST, str(number), f"reason {number}", "{}", now + number * breakages.STEP)
            table.put_if(item)
        monkeypatch.setattr(read_site, "QUARANTINED_COUNTED_MAX", 2)
        [site] = stack_status(read_site.read_stack(None, now, None), now, Access()).sites

    assert (site["quarantine"].events, site["quarantine"].more, site["quarantine"].newest_reason) == (
        2,
        True,
        "reason 2",
    )


def test_every_alarm_of_the_template_has_a_command() -> None:
    resources = load(TEMPLATE).resources
    names = {name for name, resource in resources.items() if resource["Type"] == "AWS::CloudWatch::Alarm"}
    assert ALARM_COMMANDS.keys() | ALARM_LOGS.keys() == names
    assert {name for name in ALARM_LOGS.values() if name} <= resources.keys()
