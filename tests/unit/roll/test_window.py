"""Rolling: what the clock brings, at the second, for every site, and none held up by another."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import queues, sites, table
from stoppress.aws.clients import client
from stoppress.aws.items import (
    HEARTBEAT,
    due_item,
    file_pk,
    general_item,
    mark_item,
    news_item,
    read_series,
    series_item,
)
from stoppress.aws.queues import RewriteRequest, read_rewrite
from stoppress.aws.sites import SETTLED_AFTER
from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.event import ArticleEvent, from_message, to_message
from stoppress.model.places import Place, Series, Used
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, iso
from stoppress.record.article import record
from stoppress.record.message import Message
from stoppress.roll import window
from stoppress.roll.window import roll
from tests.support import doors
from tests.support.doors import Doors, counted, failing, once_before
from tests.support.ledger import HOST, MORNING, page, publish

pytestmark = pytest.mark.moto

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
WINDOW = timedelta(hours=48)
NEWS, INDEX, ROBOTS = "sitemap-news.xml", "sitemap.xml", "robots.txt"
TICK = {"source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": "{}"}


@pytest.fixture(autouse=True)
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Doors]:
    with doors.opened(MORNING) as opened:
        monkeypatch.setattr(table, "back_off", lambda attempt: None)
        yield opened


@pytest.fixture
def site(behind: Doors) -> Site:
    """A site whose files have been written by its configuration long ago."""
    made = behind.site()
    settle(made)
    behind.taken("rewrites")
    return made


def settle(site: Site, now: datetime = MORNING) -> None:
    roll(site, now - HOUR)
    roll(site, now - HOUR + SETTLED_AFTER)


def hear(*events: ArticleEvent, now: datetime = MORNING) -> None:
    messages = [Message(f"m{number}", to_message(event), now) for number, event in enumerate(events)]
    assert {outcome.error for outcome in record(messages, now).values()} == {None}


def news(file: str = NEWS) -> list[str]:
    return [item["loc"] for item in table.query(file_pk(HOST, file))]


def used(series: str = "news") -> tuple[Used, ...]:
    return read_series(series, table.get(f"places#{HOST}", series)).files


# ── the window ──


def test_an_entry_is_taken_out_at_the_second_and_not_before(site: Site) -> None:
    hear(publish())
    for early in (WINDOW - MINUTE, WINDOW - SECOND, WINDOW - timedelta(microseconds=1)):
        assert roll(site, MORNING + early)[0]["EntriesExpired"] == 0
        assert news() == [page("flood")]
    assert roll(site, MORNING + WINDOW)[0]["EntriesExpired"] == 1
    assert news() == []


def test_only_what_has_expired_is_taken_out(site: Site) -> None:
    hear(*[publish(str(second), str(second), published_at=MORNING - HOUR + second * SECOND) for second in range(-2, 3)])
    done, failures = roll(site, MORNING - HOUR + WINDOW)
    assert (done["EntriesExpired"], failures) == (3, [])
    assert news() == [page("1"), page("2")]


def test_an_expired_entry_stays_in_the_general_sitemap_and_wakes_the_news_file(behind: Doors, site: Site) -> None:
    hear(publish())
    behind.stream.read()
    roll(site, MORNING + WINDOW)
    changed = [one["dynamodb"]["Keys"]["pk"]["S"] for one in behind.stream.read()]
    assert changed.count(f"file#{HOST}/{NEWS}") == 1
    assert len(list(table.query(file_pk(HOST, "sitemap-2026-11.xml")))) == 1


def test_its_place_is_given_back_once_however_often_the_minute_comes(site: Site) -> None:
    hear(publish("1", "1"), publish("2", "2", published_at=MORNING - HOUR))
    for _ in range(3):
        roll(site, MORNING - HOUR + WINDOW)
    assert used()[0].entries == 1


def test_a_delete_that_fails_costs_no_place_of_those_before_it(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    hear(publish("1", "1"), publish("2", "2"))
    deletes = iter([True, False])
    take_out = table.delete

    def delete(pk: str, sk: str) -> object:
        if not next(deletes):
            raise RuntimeError("a fault that the test ordered")
        return take_out(pk, sk)

    with monkeypatch.context() as patch:
        patch.setattr(table, "delete", delete)
        _, failures = roll(site, MORNING + WINDOW)
    assert [str(failure) for failure in failures] == ["a fault that the test ordered"]
    assert used()[0].entries == 1
    roll(site, MORNING + WINDOW)
    assert used()[0].entries == 0


def test_two_rollers_give_a_place_back_once(site: Site) -> None:
    hear(publish("1", "1", published_at=MORNING - HOUR), publish("2", "2"))
    at = MORNING - HOUR + WINDOW
    with once_before(table, "delete", lambda: roll(site, at)):
        done, failures = roll(site, at)
    assert (done["EntriesExpired"], failures) == (0, [])
    assert used()[0].entries == 1


def test_a_place_is_given_back_although_somebody_reserves_another_just_then(site: Site) -> None:
    hear(publish("1", "1", published_at=MORNING - HOUR))
    at = MORNING - HOUR + WINDOW
    with once_before(table, "transact", lambda: hear(publish("2", "2", published_at=at, timestamp=at), now=at)):
        roll(site, at)
    assert used()[0].entries == 1
    assert news() == [page("2")]


def test_news_of_every_file_expire(behind: Doors, site: Site) -> None:
    table.put(series_item(HOST, Series("news", (Used(1, 400), Used(0, 0), Used(1, 400)))), None)
    for number in (1, 3):
        table.put_if(news_item(HOST, Place("news", number, 400), NewsEntry(page(str(number)), "A", MORNING)))
    roll(site, MORNING + WINDOW)
    assert (news(), news("sitemap-news-3.xml")) == ([], [])
    assert used() == (Used(0, 0),) * 3


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
def test_the_window_is_48_hours_over_a_change_of_the_clocks_too(behind: Doors, zone: str) -> None:
    site = behind.site(timezone=zone)
    published = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)  # an hour and a half before Paris puts its clocks back
    behind.clock.move_to(published)
    hear(publish(published_at=published, timestamp=published), now=published)
    assert roll(site, published + WINDOW - SECOND)[0]["EntriesExpired"] == 0
    assert roll(site, published + WINDOW)[0]["EntriesExpired"] == 1


def test_what_was_published_within_a_second_expires_with_it(site: Site) -> None:
    hear(publish(published_at=MORNING - timedelta(microseconds=400_000)))
    shown = table.query(file_pk(HOST, NEWS))
    assert next(shown)["published"] == iso(MORNING - SECOND)
    assert roll(site, MORNING - SECOND + WINDOW)[0]["EntriesExpired"] == 1


# ── what is due ──


def test_a_held_article_is_sent_at_its_hour_and_stays_due_until_it_is_recorded(behind: Doors, site: Site) -> None:
    release = MORNING + 3 * HOUR
    hear(publish(published_at=release))
    assert roll(site, release - timedelta(microseconds=1))[0]["ArticlesReleased"] == 0
    assert behind.taken("articles") == []

    for _ in range(2):  # a crash sends twice, never not at all
        assert roll(site, release)[0]["ArticlesReleased"] == 1
        (body,) = behind.taken("articles")
        assert from_message(body) == publish(published_at=release, release=release, heard_at=MORNING)
        assert len(behind.items("due#")) == 1

    hear(from_message(body), now=release)
    assert behind.items("due#") == []
    assert news() == [page("flood")]
    assert roll(site, release + MINUTE)[0]["ArticlesReleased"] == 0


def test_more_than_ten_held_articles_are_all_sent(behind: Doors, site: Site) -> None:
    hear(*[publish(str(number), str(number), published_at=MORNING + HOUR) for number in range(25)])
    assert roll(site, MORNING + HOUR)[0]["ArticlesReleased"] == 25
    assert {from_message(body).id for body in behind.taken("articles")} == {str(number) for number in range(25)}


def test_more_than_a_minutes_work_is_done_in_several(
    behind: Doors, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "DUE_MAX", 2)
    hear(*[publish(str(number), str(number), published_at=MORNING + HOUR + number * SECOND) for number in range(3)])
    roll(site, MORNING + 2 * HOUR)
    assert [from_message(body).id for body in behind.taken("articles")] == ["0", "1"]


def test_an_emptied_file_whose_day_is_over_is_sent_to_be_taken_away(behind: Doors, site: Site) -> None:
    release = MORNING + HOUR
    due = RewriteRequest(HOST, "sitemap-2025-01.xml", release=release)
    table.put_if(due_item(HOST, release, "file#sitemap-2025-01.xml", due.message(), queue="rewrites"))
    assert roll(site, release - SECOND)[0]["FilesReleased"] == 0
    assert roll(site, release)[0]["FilesReleased"] == 1
    assert [read_rewrite(body) for body in behind.taken("rewrites")] == [due]


def test_a_due_record_that_cannot_be_read_keeps_nothing_else_back(behind: Doors, site: Site) -> None:
    """Else one record nobody can read would hold every article of the site for ever."""
    table.put_if(due_item(HOST, MORNING, "cms#bad", "{}", queue="articles"))
    hear(publish("good", "good", published_at=MORNING + HOUR))
    roll(site, MORNING + HOUR)
    assert [from_message(body).id for body in behind.taken("articles")] == ["good"]


# ── configuration ──


def test_a_new_site_has_its_news_file_and_index_written_at_once_and_once_more(behind: Doors) -> None:
    site = behind.site()
    assert roll(site, MORNING)[0]["FilesOfChangedSites"] == 3
    expected = [RewriteRequest(HOST, file, 1) for file in (NEWS, ROBOTS, INDEX)]
    assert [read_rewrite(body) for body in behind.taken("rewrites")] == expected

    assert roll(site, MORNING + SETTLED_AFTER - SECOND)[0]["FilesOfChangedSites"] == 0
    assert roll(site, MORNING + SETTLED_AFTER)[0]["FilesOfChangedSites"] == 3
    settled = [replace(work, repair_forms=True) for work in expected]
    assert [read_rewrite(body) for body in behind.taken("rewrites")] == settled
    for later in (SETTLED_AFTER + MINUTE, timedelta(days=400)):
        assert roll(site, MORNING + later)[0]["FilesOfChangedSites"] == 0


def test_a_shard_that_was_never_written_is_among_the_files_of_a_changed_site(behind: Doors, site: Site) -> None:
    hear(publish())  # its places are handed out; no rewrite has left a mark yet
    roll(behind.site(publication="Renamed News"), MORNING)

    sent = [read_rewrite(body).file for body in behind.taken("rewrites")]
    assert sent == ["sitemap-news.xml", "sitemap-2026-11.xml", ROBOTS, "sitemap.xml"]


def test_a_changed_site_has_exactly_its_own_files_written_again(behind: Doors, site: Site) -> None:
    for host in (HOST, "other.example.com"):
        for file in ("sitemap-2026-11.xml", "sitemap-news.xml", "sitemap-news-2.xml"):
            table.put_if(mark_item(host, Mark(file, MORNING, 1, 1, "d")))
    table.put_if(general_item(HOST, "sitemap-2026-11.xml", GeneralEntry(page("a"))))
    changed = behind.site(publication="Renamed News")

    assert roll(changed, MORNING)[0]["FilesOfChangedSites"] == 5
    sent = [read_rewrite(body) for body in behind.taken("rewrites")]
    assert sorted(sent, key=lambda one: one.file) == [
        RewriteRequest(HOST, file, 2)
        for file in (ROBOTS, "sitemap-2026-11.xml", "sitemap-news-2.xml", "sitemap-news.xml", "sitemap.xml")
    ]


def test_a_change_while_the_one_before_settles_begins_anew(behind: Doors) -> None:
    roll(behind.site(), MORNING)
    changed = behind.site(publication="Renamed News")
    assert roll(changed, MORNING + MINUTE)[0]["FilesOfChangedSites"] == 3
    assert roll(changed, MORNING + MINUTE + SETTLED_AFTER)[0]["FilesOfChangedSites"] == 3
    assert roll(changed, MORNING + HOUR)[0]["FilesOfChangedSites"] == 0


def test_a_robots_txt_that_nobody_noted_is_looked_for_when_a_site_changes_and_when_that_has_settled(
    behind: Doors, site: Site
) -> None:
    """A run that sent out a configuration with one was killed; and who still goes by that one may put it back."""
    with failing("dynamodb", "PutItem"):
        roll(behind.site(robots=""), MORNING)
    behind.taken("rewrites")
    given_up = behind.site()
    for at in (MORNING + MINUTE, MORNING + MINUTE + SETTLED_AFTER):
        roll(given_up, at)
        assert ROBOTS in [read_rewrite(body).file for body in behind.taken("rewrites")]


def test_what_an_older_version_of_the_stack_applied_need_not_be_understood_any_more(behind: Doors, site: Site) -> None:
    """An upgrade may take a setting away: then the document that is kept has a key too many."""
    applied = behind.item(f"places#{HOST}", "configuration")
    table.put_if(applied | {"document": json.dumps(json.loads(applied["document"]) | {"setting_of_old": True})})
    done, failures = roll(site, MORNING)
    assert (done["FilesOfChangedSites"], failures) == (3, [])


def test_a_site_that_was_deleted_and_made_again_is_new(behind: Doors, site: Site) -> None:
    """Its parameter begins at version 1 again, but another configuration may stand in it."""
    client("ssm").delete_parameter(Name=f"/stoppress/test/sites/{HOST}")
    again = behind.site(publication="Renamed News")
    assert again.version == 1
    assert roll(again, MORNING)[0]["FilesOfChangedSites"] == 3


def test_a_crash_after_sending_sends_again(behind: Doors) -> None:
    site = behind.site()
    with failing("dynamodb", "PutItem"):
        done, failures = roll(site, MORNING)
    assert (done["FilesOfChangedSites"], len(failures)) == (0, 1)
    assert roll(site, MORNING)[0]["FilesOfChangedSites"] == 3
    assert len(behind.taken("rewrites")) == 6


# ── what fails ──


def test_a_task_that_fails_keeps_no_other_of_the_site(behind: Doors) -> None:
    site = behind.site()
    hear(publish("1", "1"), publish("2", "2", published_at=MORNING + HOUR))
    with failing("sqs", "SendMessageBatch"):
        done, failures = roll(site, MORNING + WINDOW)
    assert len(failures) == 1
    assert (done["EntriesExpired"], done["FilesOfChangedSites"]) == (1, 4)
    assert len(behind.items("due#")) == 1


def test_a_queue_that_takes_some_makes_all_come_again(
    behind: Doors, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear(publish("1", "1", published_at=MORNING + HOUR))
    answer = {"Successful": [], "Failed": [{"Id": "0", "Code": "InternalError", "SenderFault": False}]}
    with monkeypatch.context() as patch:
        patch.setattr(client("sqs"), "send_message_batch", lambda **_: answer)
        _, (error,) = roll(site, MORNING + HOUR)
    assert isinstance(error, queues.SendError)
    assert str(error).startswith("1 of 1 messages not taken")
    assert roll(site, MORNING + HOUR)[0]["ArticlesReleased"] == 1


def test_a_site_that_fails_or_cannot_be_read_stops_no_other(behind: Doors) -> None:
    for name, value in (("broken.example.com", "{}"), ("nested.example.com", '{"host": "nested.example.com"}')):
        client("ssm").put_parameter(Name=f"/stoppress/test/sites/{name}", Value=value, Type="String")
    for host in ("a.example.com", "b.example.com", "c.example.com"):
        behind.site(host)
    with failing("sqs", "SendMessageBatch"), pytest.raises(ExceptionGroup, match="the next minute tries again"):
        behind.call("roll_window", TICK)

    sent = {json.loads(body)["site"] for body in behind.taken("rewrites")}
    assert len(sent) == 2
    assert sent < {"a.example.com", "b.example.com", "c.example.com"}
    assert behind.metrics["SitesUnreadable"] == 2
    unreadable = [line for line in behind.log if line.get("message") == "site unreadable"]
    assert len(unreadable) == 2
    assert unreadable[0]["reason"].startswith("host: is missing: it has to be given")


def test_a_parameter_nested_too_deeply_stops_no_other_site(behind: Doors) -> None:
    client("ssm").put_parameter(Name="/stoppress/test/sites/a.example.com", Value="[" * 4_000, Type="String")
    behind.site()
    behind.call("roll_window", TICK)
    assert len(behind.taken("rewrites")) == 3


def test_more_sites_than_a_page_of_parameters_are_all_looked_at(behind: Doors) -> None:
    for number in range(23):
        behind.site(f"site-{number}.example.com")
    behind.call("roll_window", TICK)
    assert len({json.loads(body)["site"] for body in behind.taken("rewrites")}) == 23


def change(host: str, part: str = "") -> dict[str, Any]:
    detail = {"operation": "Update", "name": f"/stoppress/test/sites/{host}{part}", "type": "String"}
    return {"source": "aws.ssm", "detail-type": "Parameter Store Change", "detail": detail}


def test_a_changed_parameter_costs_two_calls_and_rolls_and_registers_its_site_alone(behind: Doors) -> None:
    for number in range(23):
        behind.site(f"site-{number}.example.com")
    with counted("ssm", "GetParameter") as gets, counted("ssm", "GetParametersByPath") as pages:
        behind.call("roll_window", change("site-7.example.com"))
    assert (len(gets), len(pages)) == (1, 1)
    assert {json.loads(body)["site"] for body in behind.taken("rewrites")} == {"site-7.example.com"}
    assert sites.registered() == {"site-7.example.com"}
    assert sites.registry().confirmed_at is None


def test_a_changed_list_of_feeds_is_applied(behind: Doors, site: Site) -> None:
    behind.call("roll_window", change(HOST))
    name = f"/stoppress/test/sites/{HOST}/feeds-1"
    client("ssm").put_parameter(Name=name, Value='["https://www.example.com/rss.xml"]', Type="String")
    behind.call("roll_window", change(HOST, "/feeds-1"))
    applied = sites.last_applied(HOST)
    assert applied is not None
    assert [feed.url for feed in applied.feeds] == ["https://www.example.com/rss.xml"]
    assert (applied.version, applied.feeds_version) != (site.version, site.feeds_version)
    # Put again as it was, so that a feed that answered 410 is polled again.
    client("ssm").put_parameter(Name=name, Value='["https://www.example.com/rss.xml"]', Type="String", Overwrite=True)
    behind.call("roll_window", change(HOST, "/feeds-1"))
    again = sites.last_applied(HOST)
    assert again is not None
    assert again.feeds_version not in (applied.feeds_version, site.feeds_version)


def test_a_list_of_feeds_without_a_site_is_no_change(behind: Doors) -> None:
    client("ssm").put_parameter(Name=f"/stoppress/test/sites/{HOST}/feeds-1", Value="[]", Type="String")
    behind.call("roll_window", change(HOST, "/feeds-1"))
    assert behind.items() == []


def test_a_new_site_whose_parameter_cannot_be_read_is_registered_so_that_its_webhooks_come_again(
    behind: Doors,
) -> None:
    client("ssm").put_parameter(Name=f"/stoppress/test/sites/{HOST}", Value="{", Type="String")
    behind.call("roll_window", change(HOST))
    assert sites.registry().present == {HOST}


def test_a_minute_with_nothing_to_do_does_nothing(behind: Doors, site: Site) -> None:
    hear(publish())
    behind.call("roll_window", TICK)
    before = behind.items()
    behind.call("roll_window", TICK)
    assert behind.items() == before
    assert (behind.taken("articles"), behind.taken("rewrites")) == ([], [])
    assert behind.metrics.total() == 0


def test_due_keys_sort_as_instants_do() -> None:
    due = due_item(HOST, MORNING, "cms#1", "{}", queue="articles")
    assert due["sk"] < exact(MORNING) + "~" < exact(MORNING + timedelta(microseconds=1))


# ── a site whose parameter is gone ──


def delete_parameter(host: str = HOST) -> None:
    client("ssm").delete_parameter(Name=f"/stoppress/test/sites/{host}")
    sites.forget()  # nobody keeps a configuration for longer than a minute


def minute(behind: Doors, at: datetime = MORNING) -> None:
    behind.clock.move_to(at)
    behind.call("roll_window", TICK)


def test_a_site_without_its_parameter_goes_on_expiring_is_counted_and_named_in_the_log(behind: Doors) -> None:
    behind.site("other.example.com")
    behind.site()
    minute(behind, MORNING - HOUR)
    hear(publish())
    delete_parameter()

    minute(behind, MORNING + WINDOW - SECOND)
    assert news() == [page("flood")]
    minute(behind, MORNING + WINDOW)
    assert news() == []
    assert (behind.metrics["SitesGone"], behind.metrics["SitesUnreadable"]) == (2, 0)
    warnings = [line for line in behind.log if line.get("message") == "site's parameter is gone"]
    assert [(line["level"], line["site"]) for line in warnings] == [("WARNING", HOST)] * 2
    assert f"stoppress retire {HOST}" in warnings[0]["remedy"]


def test_a_site_that_an_older_version_of_the_stack_applied_is_known_after_its_next_minute(
    behind: Doors, site: Site
) -> None:
    assert behind.items(sites.REGISTRY) == []
    minute(behind)
    assert sites.registered() == {HOST}
    delete_parameter()
    minute(behind, MORNING + MINUTE)
    assert behind.metrics["SitesGone"] == 1


def test_a_parameter_that_cannot_be_read_is_not_gone(behind: Doors, site: Site) -> None:
    minute(behind)
    client("ssm").put_parameter(Name=f"/stoppress/test/sites/{HOST}", Value="{}", Type="String", Overwrite=True)
    minute(behind, MORNING + MINUTE)
    assert (behind.metrics["SitesGone"], behind.metrics["SitesUnreadable"]) == (0, 1)


def test_a_registry_that_does_not_answer_keeps_no_site_that_has_its_parameter(behind: Doors) -> None:
    behind.site()
    with failing("dynamodb", "Query"), pytest.raises(ExceptionGroup, match="the next minute tries again"):
        minute(behind)
    assert len(behind.taken("rewrites")) == 3


def test_a_site_that_is_gone_and_was_never_applied_is_reported_and_stops_no_other(behind: Doors) -> None:
    behind.site()
    sites.register("a.example.com")
    minute(behind)
    assert behind.metrics["SitesGone"] == 1
    assert len(behind.taken("rewrites")) == 3


def test_an_idle_minute_reads_the_registry_once_and_writes_the_heartbeat_alone(behind: Doors, site: Site) -> None:
    minute(behind)
    with counted("dynamodb", "Query") as rolled:
        roll(site, MORNING)
    with counted("dynamodb", "Query") as queries, counted("dynamodb", "PutItem") as puts:
        minute(behind, MORNING + MINUTE)
    assert (len(queries), len(puts)) == (len(rolled) + 1, 1)
    assert [item["at"] for item in behind.items(HEARTBEAT)] == [exact(MORNING + MINUTE)]


def test_without_the_heartbeat_the_rest_of_the_minute_is_done(behind: Doors, site: Site) -> None:
    hear(publish())
    with failing("dynamodb", "PutItem"), pytest.raises(ExceptionGroup):
        minute(behind, MORNING + WINDOW)
    assert news() == []


def test_a_parameter_that_is_made_again_after_its_site_was_retired_is_a_new_site(behind: Doors, site: Site) -> None:
    minute(behind)
    delete_parameter()
    sites.retire(HOST, MORNING)
    minute(behind, MORNING + MINUTE)
    assert (sites.registered(), behind.metrics["SitesGone"]) == (set(), 0)

    again = behind.site()
    assert again == site
    minute(behind, MORNING + 2 * MINUTE)
    assert len(behind.taken("rewrites")) == 3
    assert (sites.registered(), sites.last_applied(HOST)) == ({HOST}, again)


# ── a silent site, and a reconciliation that does not run ──


def test_a_site_that_is_silent_for_longer_than_it_allows_is_failing_until_its_next_event(behind: Doors) -> None:
    behind.site(silent_after_hours=2)
    minute(behind)  # the hours begin
    minute(behind, MORNING + 2 * HOUR)
    assert behind.metrics["SitesSilent"] == 0
    minute(behind, MORNING + 2 * HOUR + MINUTE)
    assert (behind.metrics["SitesSilent"], behind.metrics["SitesFailing"]) == (1, 1)
    assert behind.log[-1]["last_event"] == MORNING.isoformat()

    hear(publish(), now=MORNING + 2 * HOUR + MINUTE)
    minute(behind, MORNING + 4 * HOUR)
    assert behind.metrics["SitesSilent"] == 1


def test_a_site_that_sets_nothing_may_be_silent_and_a_changed_configuration_begins_anew(behind: Doors) -> None:
    behind.site()
    minute(behind)
    hear(publish())
    assert [item["sk"] for item in behind.items(sites.REGISTRY)] == [sites.CONFIRMATION, sites.RECONCILIATION, HOST]
    behind.site(silent_after_hours=1)
    minute(behind, MORNING + 20 * HOUR)
    minute(behind, MORNING + 21 * HOUR)
    behind.site(silent_after_hours=1, republish="new-date")
    minute(behind, MORNING + 22 * HOUR)
    assert behind.metrics["SitesSilent"] == 0
    minute(behind, MORNING + 24 * HOUR)
    assert behind.metrics["SitesSilent"] == 1


def test_a_retired_site_leaves_nothing_of_its_last_event(behind: Doors) -> None:
    behind.site(silent_after_hours=1)
    minute(behind)
    delete_parameter()
    sites.retire(HOST, MORNING)
    assert [item["sk"] for item in behind.items(sites.REGISTRY)] == [sites.CONFIRMATION, sites.RECONCILIATION]


def test_a_reconciliation_that_does_not_run_is_reported_once_in_26_hours(behind: Doors, site: Site) -> None:
    minute(behind)
    minute(behind, MORNING + sites.RECONCILED_EVERY)
    assert behind.metrics["NeedsAttention"] == 0
    minute(behind, MORNING + sites.RECONCILED_EVERY + MINUTE)
    minute(behind, MORNING + sites.RECONCILED_EVERY + 2 * MINUTE)
    assert behind.metrics["NeedsAttention"] == 1

    behind.clock.move_to(MORNING + 40 * HOUR)
    behind.call("reconcile_sites", TICK)
    minute(behind, MORNING + 65 * HOUR)
    assert behind.metrics["NeedsAttention"] == 1
