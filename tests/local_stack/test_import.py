"""Imports of archives on the local stack, from the source to the files."""

import csv
import json
import random
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.aws import sites
from stoppress.http import client
from stoppress.http.client import Response
from stoppress_cli.commands.compare import Comparison, compare_pages
from stoppress_cli.commands.import_ import Checkpoint, run
from stoppress_cli.inputs.archive import listing_of
from stoppress_cli.inputs.sitemap_pages import Sitemaps
from stoppress_cli.local.stack import Stack
from tests.support import operated
from tests.support.event_files import objects, on_queue
from tests.support.killing import killed, until_done
from tests.support.operated import publish

pytestmark = pytest.mark.moto

HOST = operated.HOST
ROOT = f"https://{HOST}"
FAST = 1e9


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with operated.operated([], tmp_path) as running:
        yield running


def import_all(source: Path | str, name: str | None, folder: Path, *, allow_changes: bool = False) -> None:
    site = sites.load(HOST)
    run(
        listing_of(str(source), site, name),
        site,
        Checkpoint(folder / "at.json"),
        rate=FAST,
        allow_changes=allow_changes,
    )


def listed(stack: Stack, news: bool = False) -> list[str]:
    files = {name: body for name, body in objects(stack).items() if ("news" in name) is news and "sitemap-" in name}
    return [url for body in files.values() for url in re.findall(r"<loc>([^<]*)</loc>", body.decode())]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(id_: object, **values: Any) -> dict[str, Any]:
    return {"id": id_, "url": f"{ROOT}/{id_}", "title": "Flood", "published_at": "2019-03-07T08:00:00Z"} | values


def test_pages_of_an_old_sitemap_imported_with_four_kills_are_in_the_files_exactly(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"{ROOT}/20{10 + n % 10}/0{1 + n % 9}/story-{n}" for n in range(160)]
    bodies = {
        f"{ROOT}/old-{part}.xml": "<urlset>"
        + "".join(f"<url><loc>{url}</loc></url>" for url in urls[40 * part : 40 * part + 40])
        + "</urlset>"
        for part in range(4)
    }
    children = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in bodies)
    bodies[f"{ROOT}/old.xml"] = f"<sitemapindex>{children}</sitemapindex>"
    monkeypatch.setattr(client, "fetch", lambda url, _headers, **_limits: Response(200, {}, bodies[url].encode(), url))

    with killed(random.Random(3), 4, 5) as kills:
        until_done(lambda: import_all(f"{ROOT}/old.xml", None, tmp_path))
        assert kills() == 4
    for _ in range(3):
        operated.later(stack, 1)
    assert sorted(listed(stack)) == sorted(urls)
    assert listed(stack, news=True) == [f"{ROOT}/"]  # an empty news sitemap lists the home page
    assert f"{HOST}/sitemap-2010-01.xml" in objects(stack)
    assert stack.waiting_messages() == {}


def test_breaking_news_does_not_wait_behind_an_import(stack: Stack, tmp_path: Path) -> None:
    rows = [{"id": f"a{n}", "url": f"{ROOT}/old-{n}", "title": "Old"} for n in range(60)]
    import_all(jsonl(tmp_path / "a.jsonl", rows), "cms", tmp_path)
    assert len(on_queue(stack, "ImportsQueue")) == 60
    publish(stack, "1", "breaking")
    assert len(on_queue(stack, "ArticlesQueue")) == 1  # the archive is not on its queue
    operated.later(stack, 1)
    assert listed(stack, news=True) == [f"{ROOT}/breaking"]
    assert len(listed(stack)) == 61


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_row_with_the_id_of_a_live_story_changes_it_only_if_that_is_allowed(
    stack: Stack, tmp_path: Path, *, is_allowed: bool
) -> None:
    publish(stack, "2", "flood")
    operated.later(stack, 1)
    path = tmp_path / "archive.csv"
    path.write_text(f"id,url,title,published_at\n2,{ROOT}/2019/ball,Row 2 of 2019,2019-03-07T08:00:00Z\n")
    import_all(path, "cms", tmp_path, allow_changes=is_allowed)
    operated.later(stack, 1)
    assert listed(stack) == [f"{ROOT}/2019/ball" if is_allowed else f"{ROOT}/flood"]
    assert listed(stack, news=True) == [f"{ROOT}/" if is_allowed else f"{ROOT}/flood"]


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_dry_run_counts_each_row_once_by_what_it_would_change(
    stack: Stack, tmp_path: Path, *, is_allowed: bool
) -> None:
    publish(stack, "live", "flood")
    first = [row(n) for n in range(4)]
    import_all(jsonl(tmp_path / "first.jsonl", first), "cms", tmp_path)
    operated.later(stack, 1)
    before = objects(stack)
    second = [
        row(0),
        row(1, title="Ball at the castle"),
        row(2, published_at="2018-03-07T08:00:00Z"),
        row(3, url=f"{ROOT}/moved"),
        row(3, url=f"{ROOT}/moved/again", published_at="2018-03-07T08:00:00Z"),
        row(4),
        row("live", url=f"{ROOT}/flood"),
        row(5, noindex=True),
        row(6, url="https://www.example.org/a"),
        row(7, title=""),
    ]
    path, refused = jsonl(tmp_path / "second.jsonl", second), tmp_path / "refused.csv"
    site = sites.load(HOST)
    listing = listing_of(str(path), site, "cms")
    tally = run(listing, site, None, rate=FAST, allow_changes=is_allowed, refused=refused)
    effects = {"unchanged": 1, "changed": 1, "changes_date": 1, "new": 1, "leaves_news": 1}
    assert tally.effects == effects | ({"moves": 2} if is_allowed else {})
    assert (tally.listed, tally.ignored, tally.refused) == ((7, 1, 2) if is_allowed else (5, 1, 4))
    with refused.open(newline="") as file:
        places = [place.partition(":")[0] for place, _ in csv.reader(file)]
    assert set(places) == {"place", "line 9", "line 10"} | (set() if is_allowed else {"line 4", "line 5"})
    operated.later(stack, 1)
    assert objects(stack) == before


@pytest.mark.parametrize(("name", "is_csv"), [("cms", True), (None, False)])
def test_an_imported_row_with_a_date_in_the_future_is_held_until_then(
    stack: Stack, tmp_path: Path, name: str | None, is_csv: bool
) -> None:
    dates = [stack.clock.now() + timedelta(hours=hours) for hours in (-72, 1)]
    rows = [
        {"id": str(n), "url": f"{ROOT}/{n}", "title": "Flood", "published_at": f"{date:%Y-%m-%dT%H:%M:%SZ}"}
        for n, date in enumerate(dates)
    ]
    path = jsonl(tmp_path / "a.jsonl", rows)
    if is_csv:
        path.write_text("\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]))
    import_all(path, name, tmp_path)
    for minutes, listed_then in ((1, [f"{ROOT}/0"]), (58, [f"{ROOT}/0"]), (3, [f"{ROOT}/0", f"{ROOT}/1"])):
        operated.later(stack, minutes)
        assert sorted(listed(stack)) == listed_then
    assert listed(stack, news=True) == [f"{ROOT}/1" if name else f"{ROOT}/"]


def test_an_import_equals_its_source_and_each_later_difference_has_its_reason(stack: Stack, tmp_path: Path) -> None:
    path = tmp_path / "old.xml"
    paths = ["2019/03/07/a", "2019/03/b?page=1", "caf%c3%a9", "c"]
    path.write_text("<urlset>" + "".join(f"<url><loc>{ROOT}/{page}</loc></url>" for page in paths) + "</urlset>")
    import_all(path, None, tmp_path)
    operated.later(stack, 1)

    def compare() -> Comparison:
        return compare_pages(Sitemaps(str(path), sites.load(HOST)), sites.load(HOST), stack.clock.now())

    assert compare() == Comparison(both=4)

    publish(stack, "1", "new")
    publish(stack, "2", "c", noindex=True)
    operated.later(stack, 1)
    result = compare()
    assert (result.both, result.only_old, result.only_here) == (3, 1, 1)
    old, here = result.differences
    assert (old.url, old.listed, here.url, here.listed) == (f"{ROOT}/c", "old", f"{ROOT}/new", "here")
    assert "noindex" in old.reason
    assert here.reason == "article cms#1, listed"


def test_an_unreadable_part_of_the_old_sitemap_is_a_difference(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    index = f"<sitemapindex><sitemap><loc>{ROOT}/gone.xml</loc></sitemap></sitemapindex>"
    answer = lambda url, *_, **_limits: Response(404 if "gone" in url else 200, {}, index.encode(), url)  # noqa: E731
    monkeypatch.setattr(client, "fetch", answer)
    result = compare_pages(Sitemaps(f"{ROOT}/i.xml", sites.load(HOST)), sites.load(HOST), stack.clock.now())
    assert [problem.place for problem in result.problems] == [f"{ROOT}/gone.xml"]
