"""The nginx configuration docs/how-to/sitemaps.conf, run verbatim in front of the bucket of a played scenario."""

import gzip
import http.client
import re
import struct
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario import player
from stoppress_cli.scenario.player import Player
from tests.support import http_server
from tests.support.nginx import SKIPS, START_S, nginx
from tests.support.operated import serving
from tests.support.playing import SCENARIOS, TEMPLATE, read, written

NEWS_HOST, HARBOUR = "www.example.com", "harbour.example.net"
HOSTS = (NEWS_HOST, HARBOUR)
SHARDS = {NEWS_HOST: "sitemap-2026-11.xml", HARBOUR: "sitemap-2026.xml"}
FILES = [(host, name) for host in HOSTS for name in ("sitemap.xml", "sitemap-news.xml", SHARDS[host])]
# All except the header by which poll_feeds recognises files of Stoppress.
INSIDE = re.compile(r"x-amz-(?!meta-config$)|via$|x-cache$|age$", re.IGNORECASE)

pytestmark = [pytest.mark.deployed, *SKIPS]

by_host = pytest.mark.parametrize("host", HOSTS)
by_file = pytest.mark.parametrize(("host", "name"), FILES)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def cache(self) -> str:
        return self.headers["x-cache-status"]


@dataclass
class Front:
    """nginx, the stack behind it, and nginx's cache folder."""

    port: int
    origin: str
    kept: Path
    stack: Stack
    play: Player

    def ask(self, host: str, path: str, method: str = "GET", **headers: str) -> Answer:
        return ask(self.port, host, path, method, **headers)

    def stored(self, host: str, name: str) -> bytes:
        bucket = self.stack.only("AWS::S3::Bucket").ref
        body: bytes = self.stack.client("s3").get_object(Bucket=bucket, Key=f"{host}/{name}")["Body"].read()
        return body

    def cached_s(self, host: str, name: str) -> int:
        """Return the seconds for which nginx caches an answer."""
        return cached_s(self.kept, f"{host}/{name}")

    def let_it_age(self, host: str, name: str) -> None:
        """Make a cached answer expire now, instead of waiting."""
        entry = _entry(self.kept, f"{host}/{name}")
        version, _, _ = _head(entry)
        with entry.open("r+b") as file:
            file.write(struct.pack("=QQ", version, 1))


def ask(port: int, host: str, path: str, method: str = "GET", **headers: str) -> Answer:
    """Send a request; names of headers are written with underscores."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers={"Host": host, **sent})
        answer = connection.getresponse()
        names = {name.lower() for name, _ in answer.getheaders()}
        values = {name: str(answer.getheader(name)) for name in names}  # repeated headers, joined by a comma
        return Answer(answer.status, values, answer.read())
    finally:
        connection.close()


def cached_s(kept: Path, key: str) -> int:
    """Return the seconds for which nginx caches an answer."""
    _, valid, date = _head(_entry(kept, key))
    return valid - date


def _entry(kept: Path, key: str) -> Path:
    """Return the file of a cached answer, and wait for its name, which nginx sets after the client has read it all."""
    line = f"\nKEY: {key}\n".encode()
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        # An unfinished file has a dot in its name, and may be renamed at any time.
        for path in (path for path in kept.rglob("*") if path.is_file() and "." not in path.name):
            if line in path.read_bytes():
                return path
        time.sleep(0.01)
    raise AssertionError(f"nginx has not kept {key} within {START_S} s")


def _head(entry: Path) -> tuple[int, int, int]:
    """Return the head of a cached answer: version of the format, expiry, and time of the response (seconds)."""
    version, valid, _, _, _, date = struct.unpack_from("=QQQQQQ", entry.read_bytes())
    if version != 5:  # that of all nginx since 1.11.10
        pytest.skip(f"this nginx caches answers in format {version}; this test reads format 5")
    return version, valid, date


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder, out = tmp_path_factory.mktemp("nginx"), tmp_path_factory.mktemp("out")
    path = SCENARIOS / "two-sites.jsonl"
    lines = [line for line in read(path) if line.at <= datetime.fromisoformat("2026-11-20T08:01:00Z")]
    with (
        Stack(TEMPLATE, start=lines[0].at) as stack,
        player.playing(stack, path, out, lambda _line, _text: None) as play,
    ):
        play.play([*lines, *written(more(range(5), "08:02"))])
        with serving(stack) as server, nginx(folder, server.url) as port:
            yield Front(port, server.url, folder / "kept", stack, play)


def more(numbers: range, at: str) -> list[dict[str, object]]:
    """Return the steps of further articles of both hosts."""
    return [
        {
            "at": f"2026-11-20T{at}:00Z",
            "post": f"/webhooks/{host}/cms",
            "sign": True,
            "body": {
                "type": "article.published",
                "timestamp": f"2026-11-20T{at}:00Z",
                "data": {
                    "id": f"more-{number}",
                    "url": f"https://{host}/harbour/a-rather-long-path-to-article-{number}",
                    "title": f"What article {number} is about",
                    "published_at": f"2026-11-20T{at}:00Z",
                },
            },
        }
        for host in HOSTS
        for number in numbers
    ]


@by_file
def test_a_file_is_served_at_the_root_of_its_host_and_supports_304(front: Front, host: str, name: str) -> None:
    bucket = front.stack.only("AWS::S3::Bucket").ref
    stored = front.stack.client("s3").head_object(Bucket=bucket, Key=f"{host}/{name}")
    answer, head = front.ask(host, f"/{name}"), front.ask(host, f"/{name}", "HEAD")
    max_age_s = 300 if name in SHARDS.values() else 60

    assert (answer.status, answer.body) == (200, front.stored(host, name))
    assert answer.headers["content-type"] == "application/xml; charset=utf-8"
    assert answer.headers["cache-control"] == f"public, max-age={max_age_s}"
    assert "content-encoding" not in answer.headers
    assert answer.headers["etag"] == stored["ETag"]
    assert answer.headers["last-modified"] == stored["ResponseMetadata"]["HTTPHeaders"]["last-modified"]
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(answer.body)))
    for condition in (
        {"If_None_Match": answer.headers["etag"]},
        {"If_None_Match": f"W/{answer.headers['etag']}"},
        {"If_Modified_Since": answer.headers["last-modified"]},
    ):
        again = front.ask(host, f"/{name}", **condition)
        assert (again.status, again.body) == (304, b""), condition
    assert front.ask(host, f"/{name}", If_None_Match='"another"').status == 200
    assert (front.ask(host, f"/{name}").cache, front.cached_s(host, name)) == ("HIT", max_age_s)
    # No internal header reaches a crawler.
    with urllib.request.urlopen(f"{front.origin}{host}/{name}") as inside:  # noqa: S310 - loopback
        assert any(INSIDE.match(header) for header in inside.headers), "else the test shows nothing"
    assert not [header for header in answer.headers if INSIDE.match(header)]


@by_host
def test_a_client_that_accepts_gzip_gets_gzip(front: Front, host: str) -> None:
    plain = front.ask(host, "/sitemap-news.xml")
    packed = front.ask(host, "/sitemap-news.xml", Accept_Encoding="gzip")

    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body)
    assert packed.headers["etag"] == f"W/{plain.headers['etag']}"
    assert packed.headers["content-type"] == plain.headers["content-type"]
    assert [answer.headers.get("vary") for answer in (plain, packed)] == ["Accept-Encoding"] * 2
    assert front.ask(host, "/sitemap-news.xml", If_None_Match=packed.headers["etag"]).status == 304


@by_host
def test_a_missing_file_is_404_and_cached_briefly(front: Front, host: str) -> None:
    assert front.ask(host, "/sitemap-1999.xml").status == 404
    assert front.cached_s(host, "sitemap-1999.xml") == 10


@by_host
def test_a_query_string_changes_neither_the_file_nor_the_cache_key(front: Front, host: str) -> None:
    front.ask(host, "/sitemap.xml")
    answer = front.ask(host, "/sitemap.xml?list-type=2&prefix=")

    assert (answer.status, answer.body, answer.cache) == (200, front.stored(host, "sitemap.xml"), "HIT")


@pytest.mark.parametrize("host", ["elsewhere.example.org", "127.0.0.1", ""])
def test_an_unknown_host_gets_no_file_of_another(front: Front, host: str) -> None:
    for name in ("sitemap.xml", "sitemap-news.xml", f"{NEWS_HOST}/sitemap.xml"):
        answer = front.ask(host, f"/{name}")
        assert answer.status == (404 if host else 400)
        assert b"example.com" not in answer.body


@by_host
def test_only_files_are_served_read_only_and_without_a_listing(front: Front, host: str) -> None:
    for path in ("/", f"/{NEWS_HOST}/", f"/{HARBOUR}/sitemap.xml", "/sitemap", "/.%2fsitemaps/", "/sitemap.xml/"):
        answer = front.ask(host, path)
        assert (path, answer.status, b"sitemap" in answer.body) == (path, 404, False)
    assert [front.ask(host, "/sitemap.xml", method).status for method in ("PUT", "POST", "DELETE")] == [403] * 3


def test_an_expired_copy_of_an_unchanged_file_is_revalidated(front: Front) -> None:
    before = front.ask(NEWS_HOST, "/sitemap.xml")
    front.let_it_age(NEWS_HOST, "sitemap.xml")
    after = front.ask(NEWS_HOST, "/sitemap.xml")

    assert (after.cache, after.body, after.headers["etag"]) == ("REVALIDATED", before.body, before.headers["etag"])
    assert front.ask(NEWS_HOST, "/sitemap.xml").cache == "HIT"


def test_a_changed_file_is_served_at_the_first_request_after_its_max_age(front: Front) -> None:
    before = front.ask(HARBOUR, "/sitemap-news.xml")
    front.play.play(written(more(range(5, 6), "08:30")))
    assert front.ask(HARBOUR, "/sitemap-news.xml").body == before.body
    front.let_it_age(HARBOUR, "sitemap-news.xml")
    after = front.ask(HARBOUR, "/sitemap-news.xml")

    assert after.cache == "EXPIRED"
    assert b"article-5" in after.body
    assert after.body == front.stored(HARBOUR, "sitemap-news.xml")
    assert after.headers["etag"] != before.headers["etag"]


SAID_BY_CLOUDFRONT = {
    "Content-Type": "application/xml; charset=utf-8",
    "ETag": '"1"',
    "Vary": "Accept-Encoding",
    "Age": "59",
    "Via": "1.1 abc.cloudfront.net (CloudFront)",
    "X-Cache": "Hit from cloudfront",
    "X-Amz-Cf-Pop": "FRA1-P1",
    "X-Amz-Cf-Id": "abc==",
    "x-amz-server-side-encryption": "AES256",
    "x-amz-version-id": "abc",
}


SITEMAP = b"<urlset>" + b"<url/>" * 300 + b"</urlset>"
Distribution = tuple[str, list[str], list[dict[str, str]]]


@pytest.fixture
def distribution() -> Iterator[Distribution]:
    """Yield the URL of a server that sends CloudFront's headers, and the paths and headers of its requests."""
    received: list[dict[str, str]] = []
    answers = {f"/{NEWS_HOST}/sitemap.xml": (200, SAID_BY_CLOUDFRONT, SITEMAP)}
    with http_server.serving(answers, received) as (url, paths):
        yield f"{url}/", paths, received


def test_only_the_path_of_a_request_is_forwarded_to_the_origin(tmp_path: Path, distribution: Distribution) -> None:
    sent = {"Cookie": "a=b", "Accept_Encoding": "gzip", "Authorization": "Basic YQ==", "User_Agent": "a crawler"}
    url, paths, received = distribution
    with nginx(tmp_path, url) as port:
        ask(port, NEWS_HOST, "/sitemap.xml?x=1", "HEAD", If_None_Match='"0"', **sent)

    assert paths == [f"/{NEWS_HOST}/sitemap.xml"]
    assert received[0].keys() <= {"host", "connection"}


def test_the_headers_of_cloudfront_are_removed_by_nginx(tmp_path: Path, distribution: Distribution) -> None:
    with nginx(tmp_path, distribution[0]) as port:
        ask(port, NEWS_HOST, "/sitemap.xml")
        plain = ask(port, NEWS_HOST, "/sitemap.xml")
        packed = ask(port, NEWS_HOST, "/sitemap.xml", Accept_Encoding="gzip")

    assert not [header for header in plain.headers if INSIDE.match(header)]
    assert [answer.headers["vary"] for answer in (plain, packed)] == ["Accept-Encoding"] * 2
    assert (plain.cache, packed.cache) == ("HIT", "HIT"), "one copy serves all"
    assert gzip.decompress(packed.body) == plain.body == SITEMAP


def test_a_file_without_a_max_age_is_cached_for_a_minute(tmp_path: Path, distribution: Distribution) -> None:
    with nginx(tmp_path, distribution[0]) as port:
        ask(port, NEWS_HOST, "/sitemap.xml")

    assert cached_s(tmp_path / "kept", f"{NEWS_HOST}/sitemap.xml") == 60


def test_the_last_good_file_is_served_while_the_origin_is_unavailable(tmp_path: Path, front: Front) -> None:
    origin = ExitStack()
    server = origin.enter_context(serving(front.stack))
    with origin, nginx(tmp_path, server.url) as port:
        alone = Front(port, server.url, tmp_path / "kept", front.stack, front.play)
        before = alone.ask(NEWS_HOST, "/sitemap.xml")
        origin.close()
        alone.let_it_age(NEWS_HOST, "sitemap.xml")
        during = alone.ask(NEWS_HOST, "/sitemap.xml")
        never = alone.ask(NEWS_HOST, "/sitemap-news.xml")

    assert (during.status, during.body, during.cache) == (200, before.body, "STALE")
    assert never.status == 502
