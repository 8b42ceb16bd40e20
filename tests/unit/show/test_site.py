"""The health of a site or stack, from facts written by hand."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws.sites import BadSite
from stoppress.feeds.feed_schedule import FeedState
from stoppress.model.entries import Mark, NewsEntry
from stoppress.model.site import Site
from stoppress.model.site_parts import Feed
from stoppress.notify.sitemap_reports import SubmittedSitemap
from stoppress.show.feed import OVERDUE_AFTER, FeedStatus
from stoppress.show.read_site import Alarm, Quarantine, Queue, SiteFacts, StackFacts, Unknown
from stoppress.show.stack_status import Access, StackStatus, stack_status
from stoppress.show.timeline import DELAYS
from stoppress_cli.commands.status import as_lines
from tests.docs.test_pages import parse
from tests.support.printed import as_text

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOST = "www.example.com"
FILES = ("sitemap-news.xml", "sitemap-2026-11.xml")
SITE = Site.model_validate(
    {
        "host": HOST,
        "publication": "Example",
        "sources": {"cms": {"secret": "cms"}, "bus": {}},
        "silent_after_hours": 2,
        "version": 3,
    }
)


def site(**changes: Any) -> SiteFacts:
    """Return the facts of a healthy site with these changes."""
    well = SiteFacts(
        site=SITE,
        secrets={"cms": True},
        feeds=(),
        marks=tuple(Mark(file, NOW - HOUR, 1, 500, "digest") for file in FILES),
        news=(),
        stored=frozenset([*FILES, "sitemap.xml"]),
        quarantine=Quarantine(),
        last_event=NOW - HOUR,
    )
    return replace(well, **changes)


def stack(site_facts: SiteFacts | None = None, **changes: Any) -> StackFacts:
    """Return the facts of a healthy stack with these changes."""
    queues = (Queue("articles", dead=False, messages=7), Queue("articles", dead=True, messages=0))
    well = StackFacts((site_facts or site(),), queues=queues, rolled_at=NOW - timedelta(minutes=6))
    return replace(well, **changes)


def feed(**state: Any) -> tuple[FeedStatus]:
    return (FeedStatus(SITE, Feed(url="https://www.example.com/feed"), FeedState(**state)),)


def test_a_stack_without_a_problem_is_healthy() -> None:
    answer = stack_status(stack(site(feeds=feed(next_poll_at=NOW - OVERDUE_AFTER))), NOW, Access())

    assert (answer.verdict, answer.problems, answer.unknown) == ("healthy", (), ())


PROBLEMS = [
    (stack(site(secrets={"cms": False})), "secret of the source 'cms' is missing", None),
    (stack(site(feeds=feed(failures=1, failing_since=NOW - HOUR, last_error="the server answered 500"))), "fails: ", HOUR),
    (stack(site(feeds=feed(failures=1, failing_since=NOW - HOUR, gone_by=3))), "answered 410", HOUR),
    (stack(site(feeds=feed(next_poll_at=NOW - OVERDUE_AFTER - HOUR))), "poll_feeds does not poll", OVERDUE_AFTER + HOUR),
    (stack(site(news=(NewsEntry(f"https://{HOST}/a", "A", NOW - 49 * HOUR),))),
     "stories that roll_window has not removed from the news after 48 hours: 1", HOUR),
    (stack(site(stored=frozenset(FILES))), "not in the bucket: sitemap.xml", None),
    (stack(site(marks=(Mark(FILES[0], NOW, 1, 1, "", (f"{FILES[0]}.gz",)),))), f"not in the bucket: {FILES[0]}.gz", None),
    (stack(site(quarantine=Quarantine(100, True, NOW - HOUR, "title: is missing\nurl: too"))), "100 or more; newest reason: title: is missing; url: too", HOUR),
    (stack(site(last_event=NOW - 3 * HOUR)), "no event for longer than silent_after_hours (2)", 3 * HOUR),
    (stack(unreadable=(BadSite("b.example.com", "not JSON"),)), "cannot be read, the version before is in force: not JSON", None),
    (stack(quarantine=Quarantine(1, False, NOW - HOUR, "unknown site")), "in quarantine: 1", HOUR),
    (stack(queues=(Queue("failures", True, 2),)), "2 dead letters in the queue failures", None),
    (stack(rolled_at=NOW - HOUR), "roll_window does not run", HOUR),
    (stack(alarms=(Alarm("ArticlesDeadAlarm", NOW - HOUR, "Given up."),)), "ArticlesDeadAlarm fires: Given up.", HOUR),
    (stack(alarms=(Alarm("ALaterAlarm", NOW - HOUR, "New."),)), "ALaterAlarm fires", HOUR),
]  # fmt: skip


@pytest.mark.parametrize("access", [Access(), Access("news"), Access(endpoint="http://127.0.0.1:8001")], ids=str)
@pytest.mark.parametrize(("facts", "what", "age"), PROBLEMS, ids=[what for _, what, _ in PROBLEMS])
def test_a_problem_has_its_age_and_a_command_that_can_be_typed(
    facts: StackFacts, what: str, age: timedelta | None, access: Access
) -> None:
    answer = stack_status(facts, NOW, access)

    assert answer.verdict == "attention"
    [problem] = answer.problems
    assert what in problem.what
    assert "\n" not in problem.what
    assert problem.since == (NOW - age if age else None)
    program, *words = shlex.split(problem.mend)
    assert program in {"stoppress", "sam", "aws"}
    if program == "stoppress":
        parse(words)


def test_unknown_data_are_no_problem_and_a_problem_outweighs_them() -> None:
    for changes in ({"last_event": None}, {"secrets": {"cms": None}}, {"stored": None}):
        assert stack_status(stack(site(**changes)), NOW, Access()).verdict == "healthy"
    denied = (Unknown("alarms", "AccessDenied"),)

    assert stack_status(stack(unknown=denied), NOW, Access()).verdict == "unknown"
    assert (
        stack_status(stack(unknown=denied, queues=(Queue("failures", True, 2),)), NOW, Access()).verdict == "attention"
    )


def test_a_stack_whose_clock_never_ran_is_unknown() -> None:
    answer = stack_status(stack(rolled_at=None), NOW, Access())

    assert (answer.verdict, [unknown.what for unknown in answer.unknown]) == ("unknown", ["the clock"])


def test_the_state_of_a_secret_is_there_missing_not_needed_or_unknown() -> None:
    states = {}
    for is_there in (True, False, None):
        [status] = stack_status(stack(site(secrets={"cms": is_there})), NOW, Access()).sites
        states[is_there] = {source["name"]: source["secret"] for source in status["sources"]}

    assert states == {
        True: {"cms": "there", "bus": "not needed"},
        False: {"cms": "missing", "bus": "not needed"},
        None: {"cms": "unknown", "bus": "not needed"},
    }


def a_full_answer() -> StackStatus:
    """Return an answer in which no list is empty."""
    facts = stack(
        site(
            feeds=feed(failures=1),
            submitted=(SubmittedSitemap("sitemap.xml", NOW),),
            delays={"pages": 3, **dict.fromkeys(DELAYS, 2.0)},
        ),
        unreadable=(BadSite("b.example.com", "not JSON"),),
        alarms=(Alarm("FailuresAlarm", NOW, "Failed."),),
        unknown=(Unknown("files in the bucket", "AccessDenied"),),
    )
    return stack_status(facts, NOW, Access())


def test_a_sitemap_with_errors_and_a_refusal_of_search_console_are_problems() -> None:
    read = SubmittedSitemap("sitemap-news.xml", NOW - HOUR, NOW, NOW - HOUR / 2, errors=3, urls={"web": 2, "news": 1})
    facts = site(submitted=(read,), refusing={"Search Console": "answers 403: no user", "IndexNow": "answers 403"})
    answer = stack_status(stack(facts), NOW, Access("s"))

    assert [(problem.what, problem.mend, problem.since) for problem in answer.problems] == [
        (
            "Search Console returns no report: answers 403: no user",
            "sam logs --stack-name s --name NotifyEngines",
            None,
        ),
        ("IndexNow rejects notifications: answers 403", "sam logs --stack-name s --name NotifyEngines", None),
        (
            "Google finds errors in sitemap-news.xml: 3; Search Console lists them",
            "stoppress doctor www.example.com --stack s",
            NOW - HOUR / 2,
        ),
    ]
    numbers = "2026-11-20 11:30:00 +00:00                  3       3         0\n"
    assert numbers in as_text(as_lines(answer, in_detail=True))
