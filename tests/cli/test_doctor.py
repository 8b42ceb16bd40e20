"""`stoppress doctor` in front of the nginx of docs/how-to/serve.md: clean where nothing is wrong, and it finds each planted fault."""

import gzip
import json
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
from stoppress_cli.commands.doctor import Doctor
from stoppress_cli.inputs.served import Known, Served, known
from stoppress_cli.local.stack import Stack
from stoppress_cli.output import Check
from tests.docs.pages import blocks, text_of
from tests.support.http_server import Answers, serving
from tests.support.nginx import SKIPS, certificate_for, nginx
from tests.support.operated import CMS, HOST, event, later, operated, url

needs_nginx = [pytest.mark.moto, pytest.mark.deployed, *SKIPS]

# Minutes after twelve at which each story was published.
STORIES = {"flood": 0, "ferry": 1, "bridge": 20}
KEY = "a1b2c3d4e5f6"
NEWS = f"/{HOST}/sitemap-news.xml"
SHARD = f"/{HOST}/sitemap-2026-11.xml"
INDEX = f"/{HOST}/sitemap.xml"


@dataclass(frozen=True)
class Newsroom:
    """A stack with published stories: what it knows, and the files in its bucket now and before the last story."""

    stack: Stack
    known: Known
    files: Answers
    files_before: Answers
    now: datetime


@dataclass
class Web:
    """What the origin answers, by path, and how nginx serves it. A fault changes it before the doctor comes."""

    answers: Answers
    known: Known | None
    certificate: Path | None
    before: Callable[[int], None] = lambda _port: None

    def change(self, path: str, old: str, new: str) -> None:
        status, headers, body = self.answers[path]
        assert old.encode() in body, "else nothing is planted"
        self.answers[path] = (status, headers, body.replace(old.encode(), new.encode()))

    def headers(self, path: str, **headers: str) -> None:
        status, before, body = self.answers[path]
        self.answers[path] = (status, before | {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newsroom]:
    *first, last = [event(minute, name, name, published_at=published(name)) for name, minute in STORIES.items()]

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
        yield Newsroom(stack, known(HOST), look(stack), before, stack.clock.now())


def published(name: str) -> str:
    return f"2026-11-20T12:{STORIES[name]:02}:00Z"


def site() -> Answers:
    """What the publisher serves beside the sitemaps."""
    html = {"Content-Type": "text/html; charset=utf-8"}
    robots = f"User-agent: *\nDisallow: /intern/\n\nSitemap: {url('sitemap.xml')}\nSitemap: {url('sitemap-news.xml')}\n"
    home = '<title>Home</title><script type="application/ld+json">{"@type": "WebSite", "name": "Example News"}</script>'
    page = (
        '<title>{name}</title><link rel="canonical" href="{url}"><script type="application/ld+json">'
        '{{"@type": "NewsArticle", "datePublished": "{date}"}}</script>'
    )
    return {
        "/robots.txt": (200, {"Content-Type": "text/plain; charset=utf-8"}, robots.encode()),
        "/": (200, html, home.encode()),
        **{
            f"/{name}": (200, html, page.format(name=name, url=url(name), date=published(name)).encode())
            for name in STORIES
        },
    }


@pytest.fixture(autouse=True)
def _no_robots_txt_of_another_test() -> None:
    fetch_page._rules.clear()


@pytest.fixture
def web(newsroom: Newsroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """The web as it should be. Its certificate is trusted."""
    certificate = certificate_for(
        HOST, tmp_path / "good.pem", datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    address._tls.cache_clear()
    key = {KEY_FILE: (200, {"Content-Type": "text/plain"}, KEY.encode())}
    engines = SimpleNamespace(indexnow=SimpleNamespace(key=KEY))
    known = replace(newsroom.known, site=newsroom.known.site.model_copy(update={"engines": engines}))
    yield Web({**newsroom.files, **site(), **key}, known, certificate)
    address._tls.cache_clear()


def faults(checks: list[Check]) -> list[tuple[str, str]]:
    return [(check.check, check.text) for check in checks if check.outcome == "fault"]


def examined(web: Web, now: datetime, folder: Path, **options: Any) -> list[Check]:
    """What the doctor says of the web behind nginx."""
    with serving(web.answers) as (origin, _), nginx(folder, f"{origin}/", origin, web.certificate) as port:
        web.before(port)
        return list(Doctor(Served(HOST, now, web.known, ("127.0.0.1", port)), **options).checks())


# ── planted faults, and the checks that find them ──


def compress_twice(web: Web, *_: object) -> None:
    status, headers, body = web.answers[NEWS]
    web.answers[NEWS] = (status, headers | {"Content-Encoding": "gzip"}, gzip.compress(gzip.compress(body)))


def keep_in_cache(web: Web, newsroom: Newsroom, _folder: Path) -> None:
    """Have the cache of nginx keep the news file of before the last story."""
    now = web.answers[NEWS]
    web.answers[NEWS] = newsroom.files_before[NEWS]

    def fill(port: int) -> None:
        client.fetch(url("sitemap-news.xml"), server=("127.0.0.1", port))
        web.answers[NEWS] = now

    web.before = fill


def redirect(web: Web, *_: object) -> None:
    web.answers["/news.xml"] = web.answers[NEWS]
    web.answers[NEWS] = (301, {"Location": url("news.xml")}, b"")


def expire_certificate(web: Web, _newsroom: Newsroom, folder: Path) -> None:
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    web.certificate = certificate_for(HOST, folder / "good.pem", begin, begin + timedelta(days=90))


def empty_title(web: Web, *_: object) -> None:
    web.change("/ferry", "<title>ferry</title>", "<title> </title>")


Plant = Callable[[Web, Newsroom, Path], object]
KEY_FILE = f"/{HOST}/sitemap-indexnow-{KEY}.txt"
FOREIGN = "<url><loc>https://www.example.org/bridge</loc></url>\n</urlset>"
BLOCKED = "User-agent: Googlebot-News\nDisallow: /f\n\nUser-agent: *"
# By fault: how it is planted, and the checks that find it.
PLANTED: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "wrong type": (lambda web, *_: web.headers(NEWS, Content_Type="text/html"), ("headers",)),
    "compressed twice": (compress_twice, ("headers", "compression")),
    "stale cache": (keep_in_cache, ("freshness",)),
    "redirect": (redirect, ("answers",)),
    "missing line of robots.txt": (
        lambda web, *_: web.change("/robots.txt", f"Sitemap: {url('sitemap-news.xml')}\n", ""), ("robots.txt",),
    ),
    "foreign host": (lambda web, *_: web.change(SHARD, "</urlset>", FOREIGN), ("scope",)),
    "noindex": (lambda web, *_: web.headers("/ferry", X_Robots_Tag="noindex"), ("pages",)),
    "canonical elsewhere": (
        lambda web, *_: web.change("/ferry", f'href="{url("ferry")}"', f'href="{url("flood")}"'), ("pages",),
    ),
    "missing page": (lambda web, *_: web.answers.pop("/ferry"), ("pages",)),
    "blocked crawler": (lambda web, *_: web.change("/robots.txt", "User-agent: *", BLOCKED), ("crawlers", "rules")),
    "missing key": (lambda web, *_: web.answers.pop(KEY_FILE), ("IndexNow",)),
    "wrong key": (lambda web, *_: web.change(KEY_FILE, KEY, "<!doctype html><title>Not found</title>"), ("IndexNow",)),
    "plain HTTP": (lambda web, *_: setattr(web, "certificate", None), ("certificate",)),
    "empty title": (empty_title, ("pages",)),
    "expired certificate": (expire_certificate, ("certificate",)),
    "lagging index": (lambda web, newsroom, _: web.answers.update({INDEX: newsroom.files_before[INDEX]}), ("freshness",)),
    "no robots.txt": (lambda web, *_: web.answers.pop("/robots.txt"), ("robots.txt",)),
    "another name": (lambda web, *_: web.change("/", "Example News", "The Example"), ("name",)),
}  # fmt: skip
# What the doctor compares with the stack where there is one, and with the index or the files without.
WITHOUT_STACK = (
    "stale cache",
    "missing line of robots.txt",
    "foreign host",
    "blocked crawler",
    "lagging index",
    "another name",
)


class TestNginx:
    pytestmark = needs_nginx

    def test_where_all_is_well_no_check_finds_anything(
        self, web: Web, newsroom: Newsroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def post(url: str, form: dict[str, str]) -> Response:
            answer = newsroom.stack.request(Request(path=url.removeprefix("https://api.example.net")))
            return Response(answer.status, {}, b"", url)

        monkeypatch.setattr(client, "post", post)
        checks = examined(web, newsroom.now, tmp_path, webhook=f"https://api.example.net{CMS}")

        assert {check.outcome for check in checks} == {"ok"}, checks
        assert [check.check for check in checks] == [
            "certificate", "HTTP/2", "robots.txt", "crawlers", "answers", "headers", "compression", "freshness", "scope",
            "rules", "pages", "name", "IndexNow", "webhook",
        ]  # fmt: skip

    def test_it_needs_no_stack(self, web: Web, newsroom: Newsroom, tmp_path: Path) -> None:
        web.known = None

        assert {check.outcome for check in examined(web, newsroom.now, tmp_path)} == {"ok"}

    @pytest.mark.parametrize(
        ("fault", "with_stack"),
        [*((fault, True) for fault in PLANTED), *((fault, False) for fault in WITHOUT_STACK)],
        ids=lambda value: value if isinstance(value, str) else "with a stack" if value else "without a stack",
    )
    def test_it_finds_each_planted_fault(
        self, web: Web, newsroom: Newsroom, tmp_path: Path, fault: str, with_stack: bool
    ) -> None:
        plant, expected = PLANTED[fault]
        web.known = web.known if with_stack else None
        plant(web, newsroom, tmp_path)
        reported = faults(examined(web, newsroom.now, tmp_path))

        assert {check for check, _ in reported} == set(expected), reported

    def test_a_certificate_that_expires_in_two_days_is_a_fault(self, web: Web, tmp_path: Path) -> None:
        checks = examined(web, datetime(2099, 12, 30, tzinfo=UTC), tmp_path)

        assert faults(checks)[0] == ("certificate", "the certificate expires at 2100-01-01T00:00:00Z")
        assert checks[-1].check == "IndexNow", "crawlers still accept the certificate, so the other checks follow"

    @pytest.mark.parametrize(
        ("path", "old", "new", "note"),
        [
            ("/", "WebSite", "WebPage", "name: the home page gives no name"),
            (
                "/robots.txt", "User-agent: *", "User-agent: PerplexityBot\nDisallow: /\n\nUser-agent: *",
                "crawlers: robots.txt keeps out search engines that answer with AI: PerplexityBot",
            ),
        ],
        ids=["no name", "no crawler of AI"],
    )  # fmt: skip
    def test_what_may_be_on_purpose_is_noted(
        self, web: Web, newsroom: Newsroom, tmp_path: Path, path: str, old: str, new: str, note: str
    ) -> None:
        web.change(path, old, new)
        [check] = [check for check in examined(web, newsroom.now, tmp_path) if check.outcome != "ok"]

        assert check.outcome == "note"
        assert f"{check.check}: {check.text}".startswith(note)

    @pytest.mark.parametrize("status", [200, 404])
    def test_a_webhook_has_to_refuse_an_unsigned_request(
        self, web: Web, newsroom: Newsroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        monkeypatch.setattr(client, "post", lambda url, form: Response(status, {}, b"", url))
        checks = examined(web, newsroom.now, tmp_path, webhook="https://api.example.net/webhooks/x")

        text = f"https://api.example.net/webhooks/x answers {status} to an unsigned request, not 401"
        assert faults(checks) == [("webhook", text)]

    def test_the_command_prints_what_its_page_shows(self, web: Web, tmp_path: Path, newsroom: Newsroom) -> None:
        empty_title(web, newsroom, tmp_path)
        with serving(web.answers) as (origin, _), nginx(tmp_path, f"{origin}/", origin, web.certificate) as port:
            arguments = ["doctor", HOST, "--connect", f"127.0.0.1:{port}"]
            printed = CliRunner().invoke(app, arguments, catch_exceptions=False)
            as_json = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)

        assert (printed.exit_code, as_json.exit_code) == (1, 1)
        [shown] = blocks(text_of("docs/how-to/doctor.md"), "console")
        assert f"$ stoppress doctor {HOST}\n{printed.stdout}" == shown
        assert {row["check"]: row["outcome"] for row in json.loads(as_json.stdout)}["pages"] == "fault"


# ── without nginx ──


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


def test_a_server_without_http_2_is_a_fault() -> None:
    doctor = Doctor(Served(HOST, datetime(2026, 11, 20, 12, tzinfo=UTC)), _protocol="http/1.1")

    assert faults(list(doctor._check("HTTP/2", doctor._http_2))) == [("HTTP/2", "the server does not offer HTTP/2")]


@pytest.mark.parametrize(("age", "is_stale"), [("300", False), ("301", True), ("x", False)])
def test_a_file_that_a_cache_has_kept_for_too_long_is_a_fault(age: str, is_stale: bool) -> None:
    doctor = Doctor(Served(HOST, datetime(2026, 11, 20, 12, tzinfo=UTC)))
    answer = Response(200, {"age": age}, b"<urlset/>", url("sitemap-news.xml"))
    doctor.served.__dict__ |= {"files": {"sitemap-news.xml": answer}, "findings": {}}

    text = "sitemap-news.xml has been in a cache for 301 seconds"
    assert faults(list(doctor._check("freshness", doctor._freshness))) == ([("freshness", text)] if is_stale else [])


def test_a_host_with_a_private_address_needs_its_server_named() -> None:
    doctor = Doctor(Served("localhost", datetime(2026, 11, 20, 12, tzinfo=UTC)))
    [check] = doctor._check("robots.txt", doctor._robots)

    assert (check.outcome, check.fix) == ("fault", "if this is the right server, give its address with --connect")
    assert "which is not public" in check.text
