"""Plays each scenario: its expectations hold, and all saved files keep the rules of sitemaps."""

import json
import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner

from stoppress.http import address
from stoppress.model import index_ranges
from stoppress.model.index_ranges import INDEX_FILES_MAX, INDEX_FILES_URGENT
from stoppress_cli.app import app
from stoppress_cli.inputs import served
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.file import Line
from tests.simulation.stack import StackOnDoubles, StackOnNextVersion
from tests.support import check_host, event_files, operated, playing
from tests.support.playing import END, Played, Step

PATHS = sorted(playing.SCENARIOS.glob("*.jsonl"))
HOST = "www.example.com"
SITE = {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "newsroom"}}}

# Messages that remain in queues at the end of a scenario, on purpose.
REMAINING = {
    "a-file-that-cannot-be-written": {"RewritesQueue": 1},
    "an-article-that-cannot-be-recorded": {"ArticlesDeadLetters": 1},
}
# URLs that belong to another article at the end of a scenario, or have a new date on purpose.
MOVED = {
    "pages-that-are-not-articles": [f"https://{HOST}/about"],
    "re-dated-story-where-the-site-wants-it": [f"https://{HOST}/flood"],
    "slug-swap": [f"https://{HOST}/flood", f"https://{HOST}/harbour"],
}
# Rules of the checker that a scenario's newsroom breaks, by an alternate that is never published and by tags that engines ignore.
IGNORED = {"images-videos-and-alternates": ["alternate-not-mutual"], "keywords-priority-changefreq": ["news-dead-tag"]}
# Internal words that an error message for a newsroom's developer must not contain.
INTERNAL_WORDS = re.compile(r"has no attribute|Field required|Input should|Extra inputs|Error\b|object at 0x")
# Scenarios whose events can be received in any order.
IN_ANY_ORDER = [
    "a-removal-by-url-leaves-the-other-sources-story", "a-waiting-copy-removed-by-its-url-stays-away",
    "delete-before-publish", "duplicate", "edit", "images-videos-and-alternates", "late-delete-leaves-a-reused-slug", "previous-urls",
    "re-dated-story", "reordered", "slug-change", "slug-swap", "slug-swap-with-minutes-between", "two-sites", "unpublish",
]  # fmt: skip
# Together, these scenarios make each kind of call of all scenarios: a function's operations with their options and outcomes.
ON_MOTO = [
    "a-file-that-cannot-be-written", "a-held-story-whose-release-fails", "a-removed-site-keeps-its-files-and-comes-back",
    "a-push-while-the-articles-queue-fails", "a-secret-that-is-missing-or-spoilt",
    "an-article-that-cannot-be-recorded", "an-object-that-nothing-names-goes-after-a-day", "changes-folded-into-large-files",
    "deleting-an-emptied-shard-fails", "entries-and-places-that-nobody-has-are-put-right-at-night",
    "expiring-fails-for-a-minute", "feed-first-then-webhook", "reading-the-storage-fails", "slug-swap",
    "somebody-else-was-faster", "storage-fails-and-recovers", "the-articles-queue-fails",
    "the-articles-queue-fails-while-a-feed-is-polled", "the-commit-mark-is-not-written", "the-rewrites-queue-fails-as-well",
    "the-table-answers-too-late", "the-table-is-throttled-when-read", "what-hands-have-done-to-the-bucket-is-mended-at-night",
]  # fmt: skip
# Together with ON_MOTO, these scenarios write each attribute of an item and each key of a message of all scenarios.
IN_FULL = [
    "a-canonical-that-differs-by-its-slash", "a-feed-of-others-is-asked-as-it-wishes", "a-feed-that-is-gone",
    "a-feed-that-moves-for-good", "a-hub-that-denies", "a-hub-that-falls-silent",
    "a-page-that-leaves-leaves-the-alternates-of-others", "a-plain-title-stays-plain",
    "a-removal-by-url-leaves-the-other-sources-story", "a-rotated-secret", "a-site-removed-with-its-files-and-put-again",
    "a-stale-copy-of-a-feed-is-skipped", "a-waiting-copy-removed-by-its-url-stays-away", "an-answer-that-warns",
    "an-article-in-another-language-and-publication", "an-unreadable-configuration-keeps-the-files", "changed-rules",
    "images-videos-and-alternates", "keywords-priority-changefreq", "noindex-protected-and-canonical-elsewhere",
    "pages-that-are-not-articles", "scheduled-story",
]  # fmt: skip


def play(path: Path, out: Path, kind: type[Stack] = StackOnDoubles, **options: Any) -> Played:
    longest, urgent = (3, 6) if path.stem in INDEXES else (INDEX_FILES_MAX, INDEX_FILES_URGENT)
    with mock.patch.multiple(index_ranges, INDEX_FILES_MAX=longest, INDEX_FILES_URGENT=urgent):
        return playing.play(playing.read(path), out, path=path, kind=kind, **options)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_scenario_ends_as_expected_and_every_save_keeps_the_rules(path: Path, tmp_path: Path) -> None:
    played = play(path, tmp_path)

    assert played.failures == []
    assert played.findings(MOVED.get(path.stem, ()), IGNORED.get(path.stem, ())) == []
    assert played.waiting == REMAINING.get(path.stem, {})
    assert played.refused == []
    saves = list(played.saves)
    for before, after in pairwise(saves):
        if after.endswith("-unchanged"):
            assert played.files(after) == played.files(before), f"{after}: files differ from those of {before}"


@pytest.mark.moto
@pytest.mark.parametrize("name", ON_MOTO + IN_FULL)
def test_on_moto_and_after_a_rollback_a_scenario_saves_the_same_bytes(name: str, tmp_path: Path) -> None:
    """tests/simulation/test_doubles.py compares the doubles with moto call by call."""
    path = playing.SCENARIOS / f"{name}.jsonl"
    on_doubles = play(path, tmp_path / "doubles")

    for kind in (StackOnNextVersion, Stack) if name in ON_MOTO else (StackOnNextVersion,):
        played = play(path, tmp_path / kind.__name__, kind)
        assert (played.failures, played.waiting, played.refused) == ([], on_doubles.waiting, [])
        assert list(played.saves) == list(on_doubles.saves)
        for save in on_doubles.saves:
            assert played.files(save) == on_doubles.files(save), save
            metas = [(run.out / f"{save}.meta.json").read_text() for run in (on_doubles, played)]
            assert metas[0] == metas[1], save


@pytest.mark.matrix
@pytest.mark.parametrize("name", IN_ANY_ORDER)
def test_events_received_in_any_order_end_in_the_same_files(name: str, tmp_path: Path) -> None:
    lines = playing.read(playing.SCENARIOS / f"{name}.jsonl")
    ordered = indexed(playing.play(lines, tmp_path / "ordered"))

    for seed in range(2):
        shuffled = playing.play(shuffle(lines, random.Random(seed)), tmp_path / str(seed))

        assert shuffled.waiting == {}
        assert indexed(shuffled) == ordered, f"seed {seed}"


def shuffle(lines: Sequence[Line], rng: random.Random) -> list[Line]:
    """Move all events to the end, as one burst in random order, after the sites, secrets and feeds."""
    events = [line for line in lines if line.kind in ("post", "event")]
    rng.shuffle(events)
    setup = [line for line in lines if line.kind in ("site", "secret", "feed")]
    end = lines[-1].at
    return setup + [Line(line.number, line.kind, end, line.step.model_copy(update={"at": end})) for line in events]


def indexed(played: Played) -> dict[str, bytes]:
    """Return the final files that the index lists, without the index itself, whose dates differ."""
    files = played.files(END)
    return {
        name: body
        for name, body in files.items()
        if f"{name}<".encode() in files[f"{name.partition('/')[0]}/sitemap.xml"]
    }


# ── more entries than a file holds ──


def published(number: int, at: str, published_at: str) -> Step:
    detail = {
        "site": HOST,
        "id": str(number),
        "url": f"https://{HOST}/flood-{number}",
        "title": f"Flood closes the harbour, part {number}",
        "published_at": published_at,
    }
    return {"at": at, "event": {"source": "cms", "detail-type": "article.published", "detail": detail}}


def expect(at: str, **expected: object) -> Step:
    return {"at": at, "expect": expected}


@pytest.mark.matrix
def test_1001_news_articles_take_two_news_sitemaps_until_they_expire(tmp_path: Path) -> None:
    site = {"at": "2026-11-20T07:00:00Z", "site": SITE}
    steps: list[Step] = [
        site,
        *(published(number, "2026-11-20T08:00:00Z", "2026-11-20T06:00:00Z") for number in range(1000)),
        published(1000, "2026-11-20T08:00:01Z", "2026-11-20T08:00:00Z"),
        expect("2026-11-20T08:01:00Z", news_files={"sitemap-news.xml": 1000, "sitemap-news-2.xml": 1}),
        {"save": "full"},
        # The thousand articles expire, the last article stays in its file; a new article takes the first file with room.
        expect("2026-11-22T06:00:30Z", news_files={"sitemap-news.xml": 0, "sitemap-news-2.xml": 1}),
        published(1001, "2026-11-22T07:00:00Z", "2026-11-22T07:00:00Z"),
        expect("2026-11-22T07:00:01Z", news_files={"sitemap-news.xml": 1, "sitemap-news-2.xml": 1}),
        {"save": "one-each"},
        # The second file is empty: it leaves the index immediately, and is deleted a day later.
        expect("2026-11-22T08:00:30Z", news_files={"sitemap-news.xml": 1, "sitemap-news-2.xml": 0}),
        expect("2026-11-22T08:00:30Z", index=["sitemap-2026-11.xml", "sitemap-news.xml"]),
        expect("2026-11-23T07:59:30Z", news_files={"sitemap-news.xml": 1, "sitemap-news-2.xml": 0}),
        expect("2026-11-23T08:01:30Z", news_files={"sitemap-news.xml": 1}),
        expect("2026-11-23T08:01:30Z", urls=[f"https://{HOST}/flood-{number}" for number in range(1002)]),
    ]

    played = playing.play(playing.written(steps), tmp_path)

    assert played.failures == []
    assert played.findings() == []
    assert played.waiting == {}


# ── checks that a scenario's steps cannot express ──


def test_a_rejected_request_is_answered_with_what_to_change(tmp_path: Path) -> None:
    names = ("bodies-that-are-not-accepted", "signatures-that-are-not-accepted", "unknown-site-and-unknown-source")
    answers = [
        text.partition("{")
        for name in names
        for text in play(playing.SCENARIOS / f"{name}.jsonl", tmp_path / name).messages
        if re.search("→ [45].. ", text)
    ]
    errors = [json.loads(brace + rest)["error"] for _, brace, rest in answers if "error" in rest]

    assert len(errors) > 50
    assert [error for error in errors if len(error.split()) < 5 or INTERNAL_WORDS.search(error)] == []


# The other pages that each page lists, by save. Pages are named by the last segment of their URLs.
ALL = {"flood": "hochwasser inondation", "inondation": "flood hochwasser", "hochwasser": "flood inondation"}
LISTED = {
    "listed-by-one-only": {"flood": "flut", "inondation": "flut", "flut": "flood inondation"},
    "the-french-page-is-removed": {"flood": "flut", "flut": "flood"},
    "the-french-page-comes-back": {"flood": "flut", "inondation": "flut", "flut": "flood inondation"},
    "the-german-page-has-moved": {"flood": "hochwasser", "inondation": "hochwasser", "hochwasser": "flood inondation"},
    "an-old-address-of-the-german-page": ALL,
    "all-list-all": ALL,
    "the-sites-no-longer-name-each-other": {"flood": "inondation", "inondation": "flood", "hochwasser": ""},
}


def test_pages_list_each_other_in_all_files_of_both_sites(tmp_path: Path) -> None:
    played = play(playing.SCENARIOS / "alternates-across-files.jsonl", tmp_path)
    for save, expected in LISTED.items():
        listed: dict[str, set[str]] = {}
        for line in b"".join(
            body for name, body in played.files(save).items() if "-2026-" in name or "news" in name
        ).splitlines():
            [page, *others] = re.findall(r'(?:<loc>|href=")https://[^<"]*/([^/<"]*)', line.decode()) or [""]
            listed.setdefault(page, set()).add(" ".join(sorted(set(others) - {page})))
        assert {page: links for page, links in listed.items() if page} == {
            page: {links} for page, links in expected.items()
        }


# The years of the shards that each index lists, by save; sitemap.xml is last. An index that lists only the home page has none.
# In these scenarios, an index of more than three shards is split: three shards move, and immediately if there are more than six.
INDEXES = {
    "more-files-than-an-index-lists": {
        "as-many-as-an-index-lists": ["2021 2022 2023"],
        "the-second-index-waits": ["", "2021 2022 2023 2024"],
        "the-second-index-waits-unchanged": ["", "2021 2022 2023 2024"],
        "files-have-moved": ["2021 2022 2023", "2024"],
        "each-in-its-index": ["2021 2022 2023", "2024 2025"],
        "the-second-index-is-empty": ["", "2024 2025"],
        "and-stays": ["", "2024 2025"],
        "and-is-filled-again": ["2020", "2024 2025"],
    },
    "a-year-begins-in-the-last-index": {
        "the-old-year": ["2020 2021 2022", "2023 2025 2026"],
        "the-new-year": ["2020 2021 2022", "", "2023 2025 2026 2027"],
        "an-old-page-is-edited": ["2020 2021 2022", "", "2023 2025 2026 2027"],
        "a-day-later": ["2020 2021 2022", "2023 2025 2026", "2027"],
    },
    "more-files-than-an-index-lists-with-a-robots-txt-of-its-own": {
        "one-index": ["2015 2016 2017 2018 2019 2020"],
        "three-indexes": ["2015 2016 2017", "2018 2019 2020", "2021"],
    },
}


@pytest.mark.parametrize("name", INDEXES)
def test_each_file_is_in_the_index_of_its_range(name: str, tmp_path: Path) -> None:
    played = play(playing.SCENARIOS / f"{name}.jsonl", tmp_path)
    for save, expected in INDEXES[name].items():
        files = {path.removeprefix(f"{HOST}/"): body.decode() for path, body in played.files(save).items()}
        indexes = [file for file in sorted(files) if file.startswith("sitemap-index-") or file == "sitemap.xml"]
        assert [" ".join(re.findall(r"/sitemap-(\d+).xml<", files[file])) for file in indexes] == expected, save
        if "robots.txt" in files:
            assert {*re.findall(r"Sitemap: \S*/(\S*)", files["robots.txt"])} == {*indexes, "sitemap-news.xml"}, save


@pytest.mark.moto
def test_doctor_status_and_sites_robots_report_the_lines_of_new_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site's own robots.txt lists sitemap.xml and the news sitemap alone."""
    printed: dict[str, str] = {}

    def run_commands(stack: Stack) -> None:
        host, objects = check_host.Host(check_host.pages()), event_files.objects(stack)
        host.answers |= {key.removeprefix(HOST): (200, {}, body) for key, body in objects.items()}
        operated.pretend_deployed(monkeypatch)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "host.pem"))
        monkeypatch.setattr(address, "_tls", address._tls.__wrapped__)  # not the certificates of an earlier test
        monkeypatch.setattr(served, "PAUSE_SECONDS", 0.0)
        with operated.connected(stack), host.served(tmp_path) as (place, port):
            for words in ("sites robots", "status", f"doctor --connect {place}:{port}"):
                printed[words] = CliRunner().invoke(app, [*words.split(), HOST, "--stack", "newsroom"]).stdout

    name = "more-files-than-an-index-lists-with-a-robots-txt-of-its-own"
    play(playing.SCENARIOS / f"{name}.jsonl", tmp_path, Stack, watch=run_commands)

    for words, text in printed.items():
        for number in (2, 3):
            assert f"Sitemap: https://{HOST}/sitemap-index-{number}.xml\n" in text, words
    assert text.count("fault       robots.txt") == 2
