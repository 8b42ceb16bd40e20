"""`stoppress crawlers`: a newsroom's day in the logs of three formats, and logs that are broken, repeated, forged or hostile."""

import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from stoppress.http import client
from stoppress.http.client import Response
from stoppress.http.errors import Unreachable
from stoppress.model.article import Claim
from stoppress.model.entries import NewsEntry
from stoppress.model.site import read_site
from stoppress_cli.app import app
from stoppress_cli.commands import crawlers
from stoppress_cli.commands.crawlers import Tally, read_lines
from stoppress_cli.inputs import log_lines
from stoppress_cli.inputs.log_lines import REPEATS_FOUND_MAX, Fetch, Ranges, is_crawler, load_ranges, read_fetches
from tests.support import operated
from tests.support.operated import HOST, event, url

DAY = datetime(2026, 11, 20, tzinfo=UTC)
AGENTS = {
    "Googlebot": ("66.249.66.{}", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    "Bingbot": ("157.55.39.{}", "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"),
    "GPTBot": ("51.8.102.{}", "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"),
}
FORGED = "198.51.100.7"
FILES = ("sitemap-news.xml", "sitemap-2026-11.xml.gz", "sitemap.xml", "robots.txt")


@pytest.fixture(autouse=True)
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Have every fetch of a list fail, with an empty cache; return the list of requested addresses."""
    addresses: list[str] = []

    def refuse(address: str, *_: object, **_options: object) -> Response:
        addresses.append(address)
        raise Unreachable("no answer")

    monkeypatch.setattr(client, "fetch", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return addresses


# ── a day ──


def combined(fetch: Fetch, forwarded: str = "-") -> str:
    size = fetch.bytes or "-"
    return (
        f'{fetch.address} - - [{fetch.at:%d/%b/%Y:%H:%M:%S} +0000] "{fetch.method} /{fetch.file}?v=1 HTTP/1.1"'
        f' {fetch.status} {size} "-" "{fetch.agent}" "{forwarded}"'
    )


def as_json(fetch: Fetch) -> str:
    request = {"path": f"/{fetch.file}", "method": fetch.method, "status": fetch.status}
    return json.dumps(
        {"ts": fetch.at.timestamp(), "client": {"ip": fetch.address}, "ua": fetch.agent, "size": fetch.bytes, **request}
    )


def cloudfront(fetch: Fetch) -> str:
    agent = quote(fetch.agent, safe="/();,:+")
    values = (f"{fetch.at:%Y-%m-%d}", f"{fetch.at:%H:%M:%S}", "DFW3", fetch.bytes, fetch.address, fetch.method)
    return "\t".join(map(str, (*values, "d1.cloudfront.net", f"/{fetch.file}", fetch.status, agent, HOST)))


HEADER = (
    "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status"
    " cs(User-Agent) x-host-header"
)
FORMS = {"combined": combined, "json": as_json, "cloudfront": cloudfront}
NAMES = {"time": "ts", "address": "client.ip", "agent": "ua", "bytes": "size"}


class Day:
    """A simulated day: the times at which stories were listed, the requests, and the correct results."""

    def __init__(self, seed: int) -> None:
        chance = self.chance = random.Random(seed)
        self.listings: dict[str, list[tuple[datetime, str]]] = {
            file: sorted((self.instant(), url(f"story-{number}")) for number in range(40))
            for file in ("sitemap-news.xml", "sitemap-2026-11.xml")
        }
        self.fetches: list[Fetch] = []
        self.forged: list[Fetch] = []
        for _ in range(3_000):
            address, agent = AGENTS[chance.choice(list(AGENTS))]
            status, method = chance.choice((200, 200, 304, 404)), chance.choice(("GET", "GET", "GET", "HEAD"))
            is_forged = chance.random() < 0.3
            where = FORGED if is_forged else address.format(chance.randrange(1, 255))
            fetch = Fetch(self.instant(), where, method, chance.choice(FILES), status, chance.randrange(9_000), agent)
            (self.forged if is_forged else self.fetches).append(fetch)

    def instant(self) -> datetime:
        return DAY + timedelta(seconds=self.chance.randrange(86_400))

    def log(self, form: str) -> list[bytes]:
        """Return the lines in random order, with 5 % broken and 10 % repeated, because clocks go back."""
        lines = [FORMS[form](fetch) for fetch in {*self.fetches, *self.forged}]
        lines += [f'203.0.113.9 - - [bad] "GET /sitemap.xml" {number}' for number in range(len(lines) // 40)]
        lines += [line[: len(line) // 2] for line in self.chance.sample(lines, len(lines) // 40)]
        lines += self.chance.sample(lines, len(lines) // 10)
        self.chance.shuffle(lines)
        head = HEADER.splitlines() if form == "cloudfront" else []
        return [f"{line}\n".encode() for line in [*head, *lines]]

    def first_fetches(self) -> dict[tuple[str, str], datetime]:
        """Return the first fetch by crawler and story, computed from the definition."""
        first: dict[tuple[str, str], datetime] = {}
        for fetch in self.fetches:
            name = next(name for name in AGENTS if name.lower() in fetch.agent.lower())
            for since, story in self.listings.get(fetch.file.removesuffix(".gz"), ()):
                if fetch.method == "GET" and fetch.status in (200, 304) and fetch.at > since:
                    first[name, story] = min(first.get((name, story), fetch.at), fetch.at)
        return first


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_first_fetch_of_every_story_by_every_crawler_is_correct(form: str, seed: int) -> None:
    day, skipped = Day(seed), Counter[str]()
    tally = Tally(load_ranges(DAY)[0], day.listings)
    lines = day.log(form)
    for fetch in read_fetches(lines, HOST, NAMES, skipped):
        tally.add(fetch)

    rows = list(tally.rows())
    first = {(row["crawler"], row["story"]): datetime.fromisoformat(row["first_fetch"]) for row in rows if row["story"]}
    assert first == day.first_fetches()
    assert tally.unverified.total() == len({*day.forged})
    counted = Counter(row["crawler"] for row in rows for _ in range(total(row["statuses"])))
    assert counted.total() == len({*day.fetches})
    assert skipped.total() == len(lines) - len({*day.fetches, *day.forged})
    assert skipped["repeated line"] > 0.05 * len(lines)
    assert any("broken" in why for why in skipped)


def total(statuses: str | None) -> int:
    return sum(int(part.partition("×")[2]) for part in (statuses or "").split())


def test_intervals_do_not_depend_on_the_order_of_the_lines() -> None:
    at = [DAY + timedelta(minutes=minute) for minute in (30, 0, 10, 5, 5)]
    tally = Tally(load_ranges(DAY)[0], {})
    for instant in at:
        tally.add(Fetch(instant, "66.249.66.1", "GET", "sitemap-news.xml", 304, 7, AGENTS["Googlebot"][1]))
    [row] = tally.rows()
    assert (row["median_interval"], row["longest_interval"], row["statuses"], row["bytes"]) == (5, 20, "304×5", 35)


# ── lines ──


def fetches(*lines: str, **options: Any) -> tuple[list[Fetch], Counter[str]]:
    skipped = Counter[str]()
    return list(read_fetches((f"{line}\n".encode() for line in lines), HOST, {}, skipped, **options)), skipped


ONE = Fetch(DAY, "66.249.66.1", "GET", "sitemap.xml", 200, 5, "Googlebot")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "other file"),
        ("\x1b[2J\x00\x07sitemap", "broken"),
        ("{" * 5_000 + "sitemap", "broken"),
        pytest.param(combined(ONE).partition(" HTTP")[0] + "sitemap" * 9_000, "broken", id="without end"),
        ('{"path": "/sitemap.xml"}', "broken"),
        ('{"path": ["/sitemap.xml"], "time": 1}', "other file"),
        (combined(ONE._replace(status=999)), "broken"),
        (combined(ONE).replace("20/Nov", "20/Foo"), "broken"),
        (combined(ONE).replace("20/Nov/2026", "99/Nov/2026"), "broken"),
        (combined(ONE).replace("/sitemap.xml", "http://[/sitemap.xml"), "broken"),
        (combined(ONE).replace("/sitemap.xml", "https://other.example.com/sitemap.xml"), "other host"),
        (f"other.example.com:443 {combined(ONE)}", "other host"),
        (combined(ONE).replace("/sitemap.xml", "/news/sitemap.xml"), "other file"),
        (combined(ONE).replace("/sitemap.xml", "/sitemap\x1b.xml"), "other file"),
        ('{"time": 1e400, "path": "/sitemap.xml", "status": 200}', "broken"),
    ],
)
def test_a_line_that_is_no_request_for_a_sitemap_is_counted_with_a_reason(line: str, reason: str) -> None:
    read, skipped = fetches(line)
    assert read == []
    assert [why.partition(":")[0] for why in skipped.elements()] == [reason]


def test_lines_of_page_views_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(log_lines, "_values", lambda text, *_: parsed.append(text))
    view = ONE._replace(file="news/flood")
    _, skipped = fetches(combined(view), as_json(view), *HEADER.splitlines(), cloudfront(view))
    assert (parsed, skipped) == ([], {"other file": 5})


def test_each_form_of_a_line_gives_the_same_request() -> None:
    v2 = {
        "date": "2026-11-20",
        "time": "00:00:00",
        "c-ip": ONE.address,
        "cs-method": "GET",
        "cs-uri-stem": "/sitemap.xml",
    }
    v2 |= {"sc-status": "200", "sc-bytes": "5", "cs(User-Agent)": "Googlebot", "x-host-header": HOST}
    plain = {"time": "2026-11-20T01:00:00+01:00", "address": ONE.address, "method": "GET", "status": 200, "bytes": 5}
    plain |= {"path": f"https://{HOST}/sitemap.xml", "agent": "Googlebot", "host": f"{HOST}:443"}
    lines = [combined(ONE), f"{HOST}:443 {combined(ONE)}", json.dumps(v2), json.dumps(plain), HEADER, cloudfront(ONE)]
    read, skipped = fetches(*lines[:4], *lines[4].splitlines(), lines[5])
    read += fetches(combined(ONE).replace("?v=1 HTTP/1.1", ""))[0]
    assert read == [ONE] * 6
    assert skipped == {"other file": 2}


def test_a_forwarded_address_counts_only_on_request() -> None:
    line = combined(ONE._replace(address="10.0.0.1"), forwarded="66.249.66.99, 198.51.100.7")
    assert [fetch.address for fetch in fetches(line)[0]] == ["10.0.0.1"]
    assert [fetch.address for fetch in fetches(line, trust_proxy=True)[0]] == ["198.51.100.7"]  # what our proxy saw


def test_a_repeated_line_is_found_again_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoppress_cli.inputs.log_lines.REPEATS_FOUND_MAX", 2)
    assert REPEATS_FOUND_MAX > 2
    lines = [combined(ONE._replace(bytes=size)) for size in (1, 2, 1, 3, 4, 1)]
    read, skipped = fetches(*lines)
    assert [fetch.bytes for fetch in read] == [1, 2, 3, 4, 1]
    assert skipped == {"repeated line": 1}


def test_plain_gzip_and_damaged_logs_are_read_and_endless_lines_in_parts(tmp_path: Path) -> None:
    lines = b"a\n" * 3
    (tmp_path / "day").mkdir()
    (tmp_path / "day/1.log").write_bytes(lines)
    (tmp_path / "day/2.log.gz").write_bytes(gzip.compress(lines) + gzip.compress(lines))
    (tmp_path / "day/3.log.gz").write_bytes(gzip.compress(os.urandom(90_000))[:50_000])
    (tmp_path / "long.log").write_bytes(b"x" * 200_000)
    skipped = Counter[str]()
    assert [line for line in read_lines([str(tmp_path / "day")], skipped) if line == b"a\n"] == [b"a\n"] * 9
    assert skipped == {"broken: the rest of a gzip file": 1}
    assert max(map(len, read_lines([str(tmp_path / "long.log")], skipped))) == 65_536


# ── ranges ──


def test_published_ranges_are_fetched_once_a_day_and_a_bad_list_is_ignored(
    monkeypatch: pytest.MonkeyPatch, packaged: list[str], tmp_path: Path
) -> None:
    good = b'{"creationTime": "x", "prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}]}'
    answers = {
        "bingbot": (200, b"<html>"),
        "applebot": (503, b"{}"),
        "gptbot": (200, b'{"prefixes": [{"ipv4Prefix": "all"}]}'),
    }

    def answer(address: str, *_: object, **_options: object) -> Response:
        packaged.append(address)
        status, body = next((value for name, value in answers.items() if name in address), (200, good))
        return Response(status, {}, body, address)

    monkeypatch.setattr(client, "fetch", answer)
    ranges, notes = load_ranges(datetime.now(UTC))
    assert is_crawler(ranges, "Googlebot", "192.0.2.9")
    assert is_crawler(ranges, "Googlebot", "2001:db8::1")
    assert not is_crawler(ranges, "Googlebot", "66.249.66.1")
    assert is_crawler(ranges, "Bingbot", "157.55.39.1")
    assert [note.split()[3] for note in notes] == ["Bingbot", "Applebot", "GPTBot"]
    assert len(packaged) == 8
    load_ranges(datetime.now(UTC))
    assert len(packaged) == 8 + 1  # Applebot, whose server failed
    load_ranges(datetime.now(UTC) + timedelta(hours=25))
    assert len(packaged) == 9 + 8


@pytest.mark.parametrize("address", ["", "-", "66.249.66.1.example", "66.249.66.1'", "::ffff:1", "1" * 99])
def test_an_invalid_address_verifies_no_crawler(address: str) -> None:
    ranges: Ranges = load_ranges(DAY)[0]
    assert all(ranges.values())  # of each crawler there is a copy
    assert not any(is_crawler(ranges, name, address) for name in ranges)


# ── the command ──


def run(*words: str, typed: bytes = b"") -> Any:
    return CliRunner().invoke(app, ["crawlers", *words, "--site", HOST], input=typed)


def test_the_report_shows_no_forged_crawler_and_no_text_of_the_log(tmp_path: Path) -> None:
    lines = [combined(ONE), combined(ONE._replace(address=FORGED, agent="Googlebot \x1b[31m")), "\x1b]0;x\x07"]
    log = "\n".join(lines).encode()
    shown = run("-", typed=log)
    assert shown.exit_code == 0
    assert "crawler Googlebot; files index; statuses 200×1; bytes 5" in shown.stdout
    assert "Googlebot: requests from other addresses: 1" in shown.stdout
    assert "\x1b" not in shown.output
    assert "this is what these logs show" in shown.stdout
    report = json.loads(run("-", "--format", "json", typed=log).stdout)
    assert (len(report["rows"]), report["unverified"]) == (1, {"Googlebot": 1})
    assert run("-", "--format", "csv", typed=log).stdout.splitlines()[0].startswith("crawler,files,story,listed")
    assert run(str(tmp_path / "none.log")).exit_code == 2
    assert run("-", "--fields", "when=ts").exit_code == 2


@pytest.mark.moto
def test_with_a_stack_the_first_fetch_of_each_story_is_reported_also_from_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operated.pretend_deployed(monkeypatch)
    steps = [event(1, "1", "flood"), event(5, "2", "ferry", title="Ferry sails")]
    noon = DAY + timedelta(hours=12)
    reads = [ONE._replace(at=noon + timedelta(minutes=minute), file="sitemap-news.xml") for minute in (1, 4, 9, 30)]
    log = "\n".join(map(combined, reads))
    with operated.operated(steps, tmp_path, versioned=True) as stack:
        name = stack.only("AWS::S3::Bucket").ref
        stack.client("s3").put_object(Bucket=name, Key="logs/1.gz", Body=gzip.compress(log.encode()))
        shown = run(f"s3://{name}/logs/", "--format", "json", "--stack", stack.name)
        missing = run("s3://no-such-bucket/logs/", "--stack", stack.name)
    assert missing.exit_code == 2
    assert "ListObjectsV2" in missing.output
    rows = [row for row in json.loads(shown.stdout)["rows"] if row["story"]]
    assert [(row["story"], row["first_fetch"], row["after_s"]) for row in rows] == [
        (url("ferry"), "2026-11-20T12:09:00Z", 240),
        (url("flood"), "2026-11-20T12:04:00Z", 180),
    ]


def test_memory_is_bounded_by_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tally of many requests keeps minutes, crawlers and statuses, each within a bound."""
    monkeypatch.setattr(crawlers, "MINUTES_MAX", 1_000)
    tally = Tally(load_ranges(DAY)[0], {"sitemap-news.xml": [(DAY, url("a"))]})

    def fetches() -> Iterator[Fetch]:
        for number in range(20_000):
            yield ONE._replace(
                at=DAY + timedelta(minutes=number), file=f"sitemap-news-{number}.xml", status=100 + number % 500
            )

    for fetch in fetches():
        tally.add(fetch)
    assert len(tally._counts) == 1
    assert len(next(iter(tally._minutes.values()))) == 1_000
    assert not tally._earliest


def test_a_story_that_has_left_the_files_has_no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = Claim(HOST, f"https://{HOST}/news/flood", "cms#1", live=True)
    monkeypatch.setattr(crawlers, "news_entries", lambda _host: [NewsEntry(claim.url, "Flood", DAY)])
    monkeypatch.setattr(crawlers, "read_claims", lambda _host, _urls: {claim.url: claim})
    monkeypatch.setattr(crawlers, "read_articles", lambda _host, _names: {})

    assert crawlers.read_listings(read_site(json.dumps({"host": HOST, "publication": "Example"}), 1)) == {}
