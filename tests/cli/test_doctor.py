"""`stoppress doctor`: a healthy host has no findings, and each fault is reported by its check."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress.http import address, client
from stoppress.http.client import Response
from stoppress.model.http_request import Request
from stoppress.notify import fetch_page
from stoppress_cli.app import app
from stoppress_cli.commands import doctor as command
from stoppress_cli.inputs import page_answers, served
from stoppress_cli.inputs.host_checks import Doctor
from stoppress_cli.inputs.served import Known, Served, load_known
from stoppress_cli.local.stack import Stack
from stoppress_cli.output import Check
from tests.docs.pages import blocks, text_of
from tests.support import check_host
from tests.support.check_host import BROKEN, HOST, INDEX, NEWS, NOW, SHARD, Host, Outcomes, good, pages, published, url
from tests.support.http_server import Answers, serving
from tests.support.nginx import SKIPS, certificate_for, nginx
from tests.support.operated import CMS, event, later, operated

KEY = "a1b2c3d4e5f6"
KEY_FILE = f"/sitemap-indexnow-{KEY}.txt"
STORIES = ("flood", "ferry", "bridge")


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trust the certificate of the test's host, keep no robots.txt, and do not wait between requests."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "host.pem"))
    monkeypatch.setattr(served, "PAUSE_SECONDS", 0.0)
    fetch_page._rules.clear()
    address._tls.cache_clear()
    yield
    address._tls.cache_clear()


def examine(host: Host, folder: Path, now: datetime = NOW, known: Known | None = None, **options: Any) -> list[Check]:
    """Return the doctor's checks of a host."""
    with host.served(folder) as server:
        return list(Doctor(Served(HOST, now, known, server, lambda: host.elapsed), **options).checks())


def outcomes(checks: list[Check]) -> Outcomes:
    return {(check.check, check.outcome) for check in checks if check.outcome != "ok"}


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)], catch_exceptions=False)


# ── without a stack ──


def test_a_good_host_is_clean(tmp_path: Path) -> None:
    checks = examine(good(), tmp_path)

    assert {check.outcome for check in checks} == {"ok"}, checks
    assert [check.check for check in checks] == [
        "address", "certificate", "HTTP/2", "user agents", "robots.txt", "crawlers", "answers", "headers", "compression",
        "freshness", "scope", "rules", "pages", "name", "speed",
    ]  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_each_broken_server_is_reported(fault: str, tmp_path: Path) -> None:
    plant, expected, words = BROKEN[fault]
    host = good()
    plant(host)
    checks = examine(host, tmp_path)

    assert outcomes(checks) == expected, checks
    assert any(words in check.text for check in checks if check.outcome != "ok"), checks


def test_each_file_is_requested_once_per_user_agent(tmp_path: Path) -> None:
    host = good()
    examine(host, tmp_path)
    requests = Counter(path for path, _ in host.requests)

    assert {path: requests[path] for path in ("/robots.txt", INDEX, NEWS, "/", SHARD)} == {
        "/robots.txt": 3, INDEX: 3, NEWS: 3, "/": 3, SHARD: 1,
    }  # fmt: skip
    assert len({agent for _, agent in host.requests}) == 3


def test_a_difference_is_reported_with_each_user_agents_response(tmp_path: Path) -> None:
    host = good()
    check_host.refuse_crawlers(host)
    faults = [check for check in examine(host, tmp_path) if (check.check, check.outcome) == ("user agents", "fault")]

    assert faults[0].text.startswith(
        f"{url('robots.txt')}: Googlebot gets 403 with 9 bytes, Bingbot gets 403 with 9 bytes"
    )
    assert all("compare with URL Inspection" in fault.fix for fault in faults)


def test_a_file_that_changes_between_two_requests_is_no_difference(tmp_path: Path) -> None:
    host = good()
    seen: list[str] = []

    def publish(path: str, agent: str) -> None:
        if path == NEWS and not seen:
            seen.append(agent)
        elif path == NEWS and len(seen) == 1:
            seen.append(agent)
            host.change(NEWS, "The ferry", "The new ferry")

    host.special = publish

    assert outcomes(examine(host, tmp_path)) == set()


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("/robots.txt", f"Sitemap: {url('sitemap-news.xml')}\n", "", ("robots.txt", "hint")),
        ("/robots.txt", f"Sitemap: {url('sitemap.xml')}\n", "", ("robots.txt", "fault")),
        ("/robots.txt", "User-agent: *", "User-agent: PerplexityBot\nDisallow: /\n\nUser-agent: *", ("crawlers", "hint")),
        ("/robots.txt", "Disallow: /intern/", "Disallow: /ferry\nAllow: /x\n", ("crawlers", "fault")),
        ("/", "WebSite", "WebPage", ("name", "hint")),
        ("/", "Example News", "The Example", ("name", "fault")),
        ("/ferry", "<title>ferry</title>", "<title> </title>", ("pages", "fault")),
        (SHARD, "</urlset>", "<url><loc>https://www.example.org/x</loc></url></urlset>", ("scope", "fault")),
        (SHARD, "</urlset>", "<url><loc>a & b</loc></url></urlset>", ("rules", "not checked")),
        (SHARD, "<lastmod>2026-11-20T12:00:00Z</lastmod>", "<lastmod>2026-11-20</lastmod><priority>x</priority>", ("rules", "fault")),
    ],
)  # fmt: skip
def test_a_fault_costs_visibility_and_a_hint_is_advice(
    path: str, old: str, new: str, expected: tuple[str, str], tmp_path: Path
) -> None:
    host = good()
    host.change(path, old, new)

    assert expected in outcomes(examine(host, tmp_path))


def test_an_unperformed_check_is_never_ok(tmp_path: Path) -> None:
    host = good()
    host.special = lambda _path, _agent: (403, {}, b"no")
    by_check = {check.check: check.outcome for check in examine(host, tmp_path)}

    assert {
        by_check[name] for name in ("headers", "compression", "freshness", "scope", "pages", "crawlers", "name")
    } == {"not checked"}


def test_a_certificate_that_expires_in_two_days_is_a_fault(tmp_path: Path) -> None:
    checks = examine(good(), tmp_path, datetime(2099, 12, 30, tzinfo=UTC))

    assert ("certificate", "fault") in outcomes(checks)
    assert checks[-1].check == "speed", "crawlers still accept the certificate, so the other checks follow"


def test_all_pages_of_the_news_sitemap_and_a_sample_of_the_shards_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, first = good(), "<url><loc>https://www.example.com/flood</loc>"
    host.change(SHARD, first, "".join(f"<url><loc>{url(f'old/{number}')}</loc></url>" for number in range(50)) + first)
    examine(host, tmp_path)
    paths = {path for path, _ in host.requests}

    assert {f"/{name}" for name in check_host.STORIES} <= paths
    assert len([path for path in paths if path.startswith("/old/")]) == page_answers.SHARD_PAGES_MAX - 1


class TestCommand:
    @pytest.fixture(autouse=True)
    def _now(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(command, "datetime", SimpleNamespace(now=lambda _zone: NOW))
        monkeypatch.setattr("time.time_ns", lambda: 1)

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[str]:
        host = good()
        host.change("/ferry", "<title>ferry</title>", "<title> </title>")
        host.headers("/harbour", X_Robots_Tag="noindex")
        host.headers("/bridge", X_Robots_Tag="noindex")
        with host.served(tmp_path) as (place, port):
            yield f"{place}:{port}"

    def test_the_command_prints_what_its_page_shows(self, server: str) -> None:
        printed = run(HOST, "--connect", server)
        [shown] = blocks(text_of("docs/how-to/check.md"), "console")

        assert printed.exit_code == 1
        parts = shown.partition("\n")[2].split("…\n")
        stdout = printed.stdout.replace(f"at {server.rpartition(':')[0]}", "at 203.0.113.7")
        assert len(parts) == 3
        assert re.fullmatch(".+".join(map(re.escape, parts)), stdout, re.DOTALL)

    def test_json_is_a_list_of_checks(self, server: str) -> None:
        as_json = run(HOST, "--connect", server, "--json")
        assert {row["check"]: row["outcome"] for row in json.loads(as_json.stdout)}["pages"] == "fault"
        assert run(HOST, "--connect", server, "--format", "json").stdout == as_json.stdout

    def test_a_hostile_title_cannot_move_the_cursor(self, tmp_path: Path) -> None:
        host = good()
        host.special = lambda path, _: (200, {}, b"<title>\x1b[2J\xe2\x80\xae</title>") if path[1:] in STORIES else None
        with host.served(tmp_path) as (place, port):
            printed = run(HOST, "--connect", f"{place}:{port}").stdout

        assert printed.replace("\n", "").isprintable()

    def test_csv_has_a_row_for_each_page_with_status_and_indexability(self, server: str) -> None:
        rows = list(csv.DictReader(io.StringIO(run(HOST, "--connect", server, "--format", "csv").stdout)))

        assert {(row["url"], row["status"], row["indexable"]) for row in rows} == {
            (url("flood"), "200", "yes"), (url("ferry"), "200", "yes"), (url("bridge"), "200", "no"),
            (url("harbour"), "200", "no"),
        }  # fmt: skip

    def test_html_has_the_checks_and_the_pages(self, server: str) -> None:
        page = run(HOST, "--connect", server, "--format", "html").stdout

        assert page.count("<section") == 16
        assert page.count("<tr>") == 5


# ── with a stack ──


@dataclass(frozen=True)
class Newsroom:
    """A stack with published stories: its data about the site, and its files now and before the last story."""

    stack: Stack
    known: Known
    files: Answers
    files_before: Answers
    now: datetime


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newsroom]:
    *first, last = [event(check_host.STORIES[name], name, name, published_at=published(name)) for name in STORIES]

    def look(stack: Stack) -> Answers:
        s3, bucket = stack.client("s3"), stack.only("AWS::S3::Bucket").ref
        files: Answers = {}
        for row in s3.list_objects_v2(Bucket=bucket)["Contents"]:
            answer = s3.get_object(Bucket=bucket, Key=row["Key"])
            headers = {"Content-Type": answer["ContentType"], "Cache-Control": answer["CacheControl"]}
            headers |= {"ETag": answer["ETag"], "Last-Modified": f"{answer['LastModified']:%a, %d %b %Y %H:%M:%S GMT}"}
            files[f"/{row['Key']}"] = (200, headers, answer["Body"].read())
        return files

    with operated(first, tmp_path_factory.mktemp("before")) as stack:
        before = look(stack)
    with operated([*first, last], tmp_path_factory.mktemp("after")) as stack:
        later(stack, 10)
        engines = SimpleNamespace(indexnow=SimpleNamespace(key=KEY))
        stored = load_known(HOST)
        stored = replace(stored, site=stored.site.model_copy(update={"engines": engines}))
        yield Newsroom(stack, stored, look(stack), before, stack.clock.now())


def host_of(newsroom: Newsroom) -> Host:
    """Return the host that serves the files of the bucket."""
    files = {path.removeprefix(f"/{HOST}"): answer for path, answer in newsroom.files.items()}
    return Host({**files, **pages(), KEY_FILE: (200, {"Content-Type": "text/plain"}, KEY.encode())})


def serve_before(path: str) -> Callable[[Host, Newsroom], object]:
    return lambda host, newsroom: host.answers.update({path: newsroom.files_before[f"/{HOST}{path}"]})


# By fault: how it is planted, and the check that compares with the stack, or with the index.
PLANTED: dict[str, tuple[Callable[[Host, Newsroom], object], str]] = {
    "old news file": (serve_before(NEWS), "freshness"),
    "lagging index": (serve_before(INDEX), "freshness"),
    "missing key": (lambda host, _: host.answers.pop(KEY_FILE), "IndexNow"),
    "wrong key": (lambda host, _: host.change(KEY_FILE, KEY, "<!doctype html><title>Not found</title>"), "IndexNow"),
    "another name": (lambda host, _: host.change("/", "Example News", "The Example"), "name"),
}


@pytest.mark.moto
class TestStack:
    def test_with_a_stack_a_good_host_is_clean(
        self, newsroom: Newsroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def post(url: str, form: dict[str, str]) -> Response:
            answer = newsroom.stack.request(Request(path=url.removeprefix("https://api.example.net")))
            return Response(answer.status, {}, b"", url)

        monkeypatch.setattr(client, "post", post)
        webhook = f"https://api.example.net{CMS}"
        checks = examine(host_of(newsroom), tmp_path, newsroom.now, newsroom.known, webhook=webhook)

        assert outcomes(checks) == set(), checks
        assert [check.check for check in checks][-2:] == ["IndexNow", "webhook"]

    @pytest.mark.parametrize("fault", PLANTED)
    def test_it_finds_each_planted_fault(self, newsroom: Newsroom, tmp_path: Path, fault: str) -> None:
        plant, check = PLANTED[fault]
        host = host_of(newsroom)
        plant(host, newsroom)

        assert outcomes(examine(host, tmp_path, newsroom.now, newsroom.known)) == {(check, "fault")}

    @pytest.mark.parametrize("fault", ["old news file", "lagging index"])
    def test_without_the_stack_an_old_file_is_detected_by_the_index(
        self, newsroom: Newsroom, tmp_path: Path, fault: str
    ) -> None:
        host = host_of(newsroom)
        PLANTED[fault][0](host, newsroom)

        assert ("freshness", "fault") in outcomes(examine(host, tmp_path, newsroom.now))

    @pytest.mark.parametrize("status", [200, 404])
    def test_a_webhook_has_to_refuse_an_unsigned_request(
        self, newsroom: Newsroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        monkeypatch.setattr(client, "post", lambda url, form: Response(status, {}, b"", url))
        webhook = "https://api.example.net/webhooks/x"
        checks = examine(host_of(newsroom), tmp_path, newsroom.now, newsroom.known, webhook=webhook)

        assert outcomes(checks) == {("webhook", "fault")}
        assert checks[-1].text == f"{webhook} answers {status} to an unsigned request, not 401"

    @pytest.mark.deployed
    @pytest.mark.parametrize("fault", [None, "plain HTTP"])
    def test_behind_the_nginx_of_its_page_a_host_is_clean(
        self, newsroom: Newsroom, tmp_path: Path, fault: str | None
    ) -> None:
        begin = datetime(2020, 1, 1, tzinfo=UTC)
        certificate = certificate_for(HOST, tmp_path / "host.pem", begin, begin + timedelta(days=36_500))
        key_file = (200, {"Content-Type": "text/plain"}, KEY.encode())
        answers = {**newsroom.files, **pages(), f"/{HOST}{KEY_FILE}": key_file}
        with (
            serving(answers) as (origin, _),
            nginx(tmp_path, f"{origin}/", origin, None if fault else certificate) as port,
        ):
            checks = list(Doctor(Served(HOST, newsroom.now, newsroom.known, ("127.0.0.1", port))).checks())

        assert outcomes(checks) == ({("certificate", "fault"), ("others", "not checked")} if fault else set()), checks

    test_behind_the_nginx_of_its_page_a_host_is_clean.pytestmark += SKIPS  # type: ignore[attr-defined]


# ── arguments, and single checks ──


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        *(
            ([HOST, "--connect", server], f"--connect {server!r}: give an address and a port, such as 127.0.0.1:8443")
            for server in ("", "example.com", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "a@b:1", "h:1/x", "[::1:1")
        ),
        (["https://www.example.com/"], "'https://www.example.com/' is not a host"),
    ],
)
def test_it_needs_a_host_and_a_server_an_address_and_a_port(arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, ["doctor", *arguments])

    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize(("age", "is_stale"), [("300", False), ("301", True), ("x", False)])
def test_a_file_that_is_cached_for_too_long_is_a_fault(age: str, is_stale: bool, tmp_path: Path) -> None:
    host = good()
    host.headers(NEWS, Age=age)

    assert outcomes(examine(host, tmp_path)) == ({("freshness", "fault")} if is_stale else set())


def test_a_host_with_a_private_address_needs_the_server_option() -> None:
    first, others = Doctor(Served("localhost", NOW)).checks()

    assert (first.outcome, others.outcome) == ("not checked", "not checked")
    assert first.fix == "if this is the right server, give its address with --connect"
    assert "which is not public" in first.text
