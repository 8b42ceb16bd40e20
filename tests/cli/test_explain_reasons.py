"""`stoppress explain` reports the true reason: a page appears when only that reason ends."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from stoppress.aws import items, table
from stoppress.aws.sites import UnknownSite
from stoppress.show import question, read_story
from stoppress.show.question import Unclear
from stoppress.show.reasons import Kind
from stoppress_cli.commands.explain import as_lines
from tests.cli.test_explain import NOON, SITE, answer, event, on_the_bus
from tests.support.operated import HOST, url
from tests.support.playing import Step
from tests.support.printed import as_text

pytestmark = pytest.mark.moto

OLD: dict[str, Any] = {"published_at": "2026-11-17T12:00:00Z"}
NEW_DATES: list[Step] = [{"site": SITE | {"republish": "new-date"}}]
PLAIN: Step = {"at": "2026-11-20T12:05:00Z", "site": SITE | {"rules": []}}
SITEMAP = f"https://{HOST}/old.xml"
OF_SITEMAP: Step = {"site": SITE | {"feeds": [SITEMAP]}}


def old_sitemap(at: str, title: str) -> Step:
    tags = "<n:publication_date>2026-11-20T11:50:00Z</n:publication_date>" + (title and f"<n:title>{title}</n:title>")
    page = f"<url><loc>{url('flood')}</loc><n:news>{tags}</n:news></url>"
    spaces = (
        'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:n="http://www.google.com/schemas/sitemap-news/0.9"'
    )
    return {"at": at, "feed": SITEMAP, "body": f"<urlset {spaces}>{page}</urlset>", "tick": True}


def later(path: str = "flood", article: str = "1", kind: str = "article.published", **data: Any) -> Step:
    return event(6, article, path, kind, **data)


# By kind of reason: the steps before, the argument of `explain`, and the steps that end only this reason.
MENDED: dict[Kind, tuple[list[Step], str, list[Step]]] = {
    "never received": ([], url("flood"), [later()]),
    "refused": ([event(1, "1", "flood", title="")], url("flood"), [later()]),
    "ignored": ([event(1, "1", "flood", kind="comment.created")], url("flood"), [later()]),
    "quarantined": ([on_the_bus(1)], url("flood"), [later()]),
    "removed": ([event(1, "1", "flood"), event(2, "1", "flood", "article.unpublished")], url("flood"), [later()]),
    "moved": ([event(1, "1", "flood"), event(2, "1", "harbour")], url("flood"), [later()]),
    "other article": (
        [event(1, "1", "flood"), event(2, "2", "flood", title="Another flood")],
        "cms#1",
        [later(article="2", kind="article.deleted"), {"at": "2026-11-20T12:08:00Z", "save": "a-minute-later"}],
    ),
    "held": ([event(1, "1", "flood", published_at="2026-11-21T08:00:00Z")], url("flood"), [later()]),
    "excluded": ([event(1, "1", "flood", noindex=True)], url("flood"), [later()]),
    "rule": ([event(1, "1", "sponsored/boats")], url("sponsored/boats"), [PLAIN]),
    "page": ([event(1, "1", "flood", "page.published")], url("flood"), [later()]),
    "not news": ([event(1, "1", "flood", news=False)], url("flood"), [later()]),
    "no date": ([event(1, "1", "flood", published_at=None)], url("flood"), [later()]),
    "expired": ([*NEW_DATES, event(1, "1", "flood", **OLD)], url("flood"), [later()]),
    "no title": (
        [OF_SITEMAP, old_sitemap("2026-11-20T12:01:00Z", ""), {"at": "2026-11-20T12:03:00Z", "save": "polled"}],
        url("flood"),
        [
            old_sitemap("2026-11-20T12:30:00Z", "Flood closes the harbour"),
            {"at": "2026-11-20T12:40:00Z", "save": "polled-again", "tick": True},
        ],
    ),
}
# Kinds that no later event ends, or that need a site at work or more items than a search reads.
OTHERS: set[Kind] = {"other host", "forgotten", "not written", "not found", "wrong signature"}


def test_every_kind_of_reason_has_a_test() -> None:
    assert MENDED.keys() | OTHERS == set(get_args(Kind))


@pytest.mark.parametrize("kind", MENDED)
def test_a_page_appears_when_only_its_reason_ends(kind: Kind, tmp_path: Path) -> None:
    steps, target, mending = MENDED[kind]
    before = answer(steps, target, tmp_path)
    after = answer([*steps, *mending], target, tmp_path)

    assert (before.news.listed, [reason.kind for reason in before.news.reasons]) == (False, [kind])
    assert after.news.listed, after.news


def test_two_reasons_are_both_reported_and_a_page_appears_when_both_end(tmp_path: Path) -> None:
    steps: list[Step] = [*NEW_DATES, event(1, "1", "sponsored/boats", **OLD)]
    page = url("sponsored/boats")
    ruled: Step = {"at": "2026-11-20T12:05:00Z", "site": SITE | {"republish": "new-date", "rules": []}}

    def kinds(*more: Step) -> list[str]:
        return [reason.kind for reason in answer([*steps, *more], page, tmp_path).news.reasons]

    assert kinds() == ["rule", "expired"]
    assert kinds(ruled) == ["expired"]
    assert kinds(later("sponsored/boats")) == ["rule"]
    assert kinds(ruled, later("sponsored/boats")) == []


GONE = [event(1, "1", "flood"), event(2, "1", "flood", "article.unpublished")]
# By case: the steps, the reasons, and the outcomes of all deliveries.
BESIDE: dict[str, tuple[list[Step], list[Kind], list[str]]] = {
    "a refused delivery after a removal": (
        [*GONE, later(title="")], ["removed", "refused"], ["listed", "removed", "refused"],
    ),
    "a refused date beside the missing one": (
        [event(1, "1", "flood", published_at=None), later(published_at="soon")], ["no date", "refused"], ["listed", "refused"],
    ),
    "an ignored event is no reason beside another": (
        [event(1, "1", "flood", noindex=True), later(kind="comment.created")], ["excluded"], ["excluded", "ignored"],
    ),
    "a removal before the URL was received": (
        [event(2, "1", "flood", "article.deleted", url=None), event(3, "1", "flood", late_by=2)], ["removed"], ["late"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BESIDE)
def test_every_delivery_that_excludes_a_page_is_a_reason(case: str, tmp_path: Path) -> None:
    steps, kinds, outcomes = BESIDE[case]
    story = answer(steps, url("flood"), tmp_path)

    assert [reason.kind for reason in story.news.reasons] == kinds
    assert [delivery.outcome for delivery in story.received] == outcomes


def test_a_held_story_shows_what_will_exclude_it_after_its_release(tmp_path: Path) -> None:
    def reasons(path: str, **data: Any) -> tuple[list[str], list[str]]:
        held = event(1, "1", path, published_at="2026-11-21T08:00:00Z", **data)
        story = answer([held], url(path), tmp_path)
        assert story.news.enters_at is None
        return [reason.kind for reason in story.news.reasons], [reason.kind for reason in story.general.reasons]

    assert reasons("flood", noindex=True) == (["held", "excluded"], ["held", "excluded"])
    assert reasons("sponsored/boats", news=False) == (["held", "rule", "not news"], ["held", "rule"])


def test_a_held_story_without_history_shows_when_it_will_be_listed(tmp_path: Path) -> None:
    def lose() -> None:
        for line in list(table.query(items.story_pk(HOST, url("flood")))):
            table.delete(line["pk"], line["sk"])

    held, release = event(1, "1", "flood", published_at="2026-11-21T08:00:00Z"), NOON + timedelta(hours=20)
    for before, received in ((lambda: None, 1), (lose, 0)):
        story = answer([held], url("flood"), tmp_path, before=before)
        assert ([reason.kind for reason in story.news.reasons], len(story.received)) == (["held"], received)
        assert (story.held_until, story.news.enters_at, story.general.enters_at) == (release, release, release)


@pytest.mark.parametrize(
    "target",
    [
        f"http://{HOST}/flood",
        f"HTTPS://{HOST.upper()}/flood?utm_source=mail",
        f"{HOST}/flood",
        "cms#1",
        "flood",
        "/Flood/",
        "floo",
    ],
)
def test_a_page_is_found_by_url_path_id_or_fragment(target: str, tmp_path: Path) -> None:
    assert answer([event(1, "1", "flood")], target, tmp_path).news.listed


VARIANTS = {
    "a slash": ("flood", "flood/"),
    "no slash": ("flood/", "flood"),
    "case": ("flood", "Flood"),
    "a query": ("flood", "flood?page=2"),
    "escaped twice": ("%C3%A9t%C3%A9", "%25C3%25A9t%25C3%25A9"),
    "decomposed": ("%C3%A9t%C3%A9", "e%CC%81te%CC%81"),
}


HELD_VARIANTS = ("case", "escaped twice")  # a held story is searched for in another way


@pytest.mark.parametrize(
    ("case", "date"),
    [
        *((case, "2026-11-20T12:00:00Z") for case in VARIANTS),
        *((case, "2026-11-21T12:00:00Z") for case in HELD_VARIANTS),
    ],
)
def test_a_similar_url_is_not_listed_and_is_suggested(case: str, date: str, tmp_path: Path) -> None:
    path, target = VARIANTS[case]
    story = answer([event(1, "1", path, published_at=date)], url(target), tmp_path)

    assert (story.is_listed, story.did_you_mean) == (False, (url(path),))


def failure(steps: Sequence[Step], target: str, tmp_path: Path) -> str:
    with pytest.raises((Unclear, UnknownSite)) as raised:
        answer(steps, target, tmp_path)
    return str(raised.value)


def test_a_fragment_of_several_paths_lists_them_and_a_last_segment_is_its_page(tmp_path: Path) -> None:
    steps = [event(1, "1", "flood"), event(2, "2", "flood-2"), event(3, "3", "floods/harbour")]

    assert url("floods/harbour") in failure(steps, "loo", tmp_path)
    assert answer(steps, "flood", tmp_path).url == url("flood")


def test_an_incomplete_search_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "STORIES_SEARCHED_MAX", 1)

    steps = [event(1, "1", "flood"), event(2, "2", "vote", title="Vote"), event(3, "3", "refused", title="")]
    assert "newest 1 of www.example.com" in failure(steps, "flood", tmp_path)
    assert answer(steps, "refused", tmp_path).url == url("refused")


# By kind of item: the limit, the steps, and the answer's text about an item beyond the limit.
TOO_MANY: dict[str, tuple[str, list[Step], str]] = {
    "quarantine": ("QUARANTINED_SEARCHED_MAX", [on_the_bus(1), on_the_bus(2)], "more than 1 events in quarantine"),
    "refused": (
        "REFUSED_SEARCHED_MAX",
        [event(1, "1", "flood", title=""), event(2, "2", "vote", title="")],
        "more than 1 refused deliveries",
    ),
    "held": (
        "HELD_SEARCHED_MAX",
        [event(minute, str(minute), "later", published_at="2026-11-21T08:00:00Z") for minute in (1, 2)],
        "more than 1 held articles",
    ),
}


@pytest.mark.parametrize("kind", TOO_MANY)
def test_an_answer_from_incomplete_data_reports_the_limit(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, steps, text = TOO_MANY[kind]
    assert answer(steps, url("missing"), tmp_path).unsearched == ()

    for module in (question, read_story):
        monkeypatch.setattr(module, bound, 1, raising=False)
    story = answer(steps, url("missing"), tmp_path)

    assert [text in note for note in story.unsearched] == [True]
    assert [reason.kind for reason in story.news.reasons] == ["not found"]
    assert "no event has mentioned" not in as_text(as_lines(story))
    assert text in as_text(as_lines(story))


def test_a_long_story_is_shown_from_its_newest_deliveries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_story, "RECEIVED_SEARCHED_MAX", 2)
    steps = [event(minute, "1", "flood", title=f"Flood {minute}") for minute in range(1, 6)]
    story = answer(steps, url("flood"), tmp_path)

    assert [received.at.minute for received in story.received] == [4, 5]
    assert (story.news.listed, story.news.since) == (True, None)
    assert len(story.unsearched) == 1


@pytest.mark.parametrize("kind", ["refused", "quarantined", "ignored"])
def test_expired_items_are_not_shown(kind: Kind, tmp_path: Path) -> None:
    steps, target, _ = MENDED[kind]
    story = answer(steps, target, tmp_path, after=timedelta(days=91))

    assert ([reason.kind for reason in story.news.reasons], story.received) == (["never received"], ())


def test_a_refused_article_is_found_by_its_id_or_a_part_of_its_path(tmp_path: Path) -> None:
    refused = [event(1, "1", "flood", url=None), event(2, "2", "vote")]

    assert answer(refused, "cms#1", tmp_path).news.reasons[0].kind == "refused"
    assert answer([event(1, "1", "flood", title="")], "flood", tmp_path).news.reasons[0].kind == "refused"
    assert answer(refused, "cms#3", tmp_path).news.reasons[0].text == "no event has mentioned the article cms#3"


@pytest.mark.parametrize("target", ["https://example.com/flood", "example.com/flood"])
def test_an_unknown_host_lists_the_sites_and_a_suggestion(target: str, tmp_path: Path) -> None:
    text = failure([], target, tmp_path)

    assert f"Did you mean {url('flood')}?" in text
    assert f"The stack's sites: {HOST}" in text


def test_an_id_or_a_fragment_needs_a_host_if_there_are_several_sites(tmp_path: Path) -> None:
    other: Step = {"at": "2026-11-20T12:00:00Z", "site": SITE | {"host": "news.example.org", "sources": {}}}
    tick: Step = {"at": "2026-11-20T12:02:00Z", "save": "listed"}

    assert "give the host of one. The stack's sites: news.example.org, " in failure([other, tick], "cms#1", tmp_path)
