"""`stoppress check URL`: the files that are fetched, their hosts, the limits, and the headers."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from stoppress_cli.check import checker
from stoppress_cli.check.findings import Findings
from stoppress_cli.check.input import CHUNK_BYTES
from stoppress_cli.inputs import website
from stoppress_cli.inputs.folder import Unreadable
from tests.support import http_server
from tests.support.check_good_site import BASE, INDEX, NEWS, NOW, OLD, PAGES, ROBOTS, SHARD, good
from tests.support.http_server import Answers

AT = datetime.fromisoformat(NOW)


@contextmanager
def serving(answers: Answers) -> Iterator[tuple[str, list[str]]]:
    """Serve the answers at a URL that ends in a slash."""
    with http_server.serving(answers) as (url, paths):
        yield f"{url}/", paths


@contextmanager
def serving_good_site() -> Iterator[tuple[str, list[str], Answers]]:
    """Serve the good site as if it were at this origin; its answers can be changed."""
    answers: Answers = {}
    with serving(answers) as (origin, paths):
        answers.update(site(origin))
        yield origin, paths, answers


def site(origin: str) -> Answers:
    answers: Answers = {}
    for name, body in good().files.items():
        kind = "text/plain" if name.endswith(".txt") else "application/gzip" if name == OLD else "application/xml"
        headers = {"Content-Type": kind, "Cache-Control": "public, max-age=60"}
        answers[f"/{name}"] = (200, headers, body.replace(BASE.encode(), origin.encode()))
    del answers[f"/{OLD}"]
    index = answers[f"/{INDEX}"]
    lines = [line for line in index[2].splitlines(keepends=True) if OLD.encode() not in line]
    answers[f"/{INDEX}"] = (index[0], index[1], b"".join(lines))
    return answers


def findings(
    url: str, base_url: str | None = None, notes: list[str] | None = None
) -> list[tuple[str, str, int | None]]:
    report = Findings(each_max=20)
    fetcher = website.Fetcher(report)
    checker.check([fetcher.first(url, base_url)], report, AT, is_all=False, follow=fetcher.follow)
    if notes is not None:
        notes += fetcher.notes
    return [(finding.rule.name, finding.file, finding.line) for finding in report]


def at_another_address(below: str = "") -> Answers:
    """Return the good site's unchanged files, with URLs of their own host, below a folder of another host."""
    return {f"/{below}{path.lstrip('/')}": answer for path, answer in site(BASE).items()}


@pytest.mark.parametrize(("first", "more"), [(INDEX, set()), (ROBOTS, {ROBOTS, PAGES})])
def test_listed_files_are_fetched_and_a_good_site_has_no_findings(first: str, more: set[str]) -> None:
    with serving_good_site() as (origin, paths, _):
        assert findings(origin + first) == []
        assert set(paths) == {f"/{name}" for name in (INDEX, SHARD, "sitemap-media.xml", NEWS, *more)}


def test_the_headers_of_the_response_are_checked() -> None:
    with serving_good_site() as (origin, _, answers):
        answers[f"/{NEWS}"] = (200, {"Content-Type": "text/html"}, answers[f"/{NEWS}"][2])

        assert {(name, file) for name, file, _ in findings(origin + INDEX)} == {
            ("content-type", NEWS),
            ("cache-control", NEWS),
        }


def test_a_missing_sitemap_is_a_finding_in_its_index() -> None:
    with serving_good_site() as (origin, _, answers):
        del answers[f"/{SHARD}"]

        assert findings(origin + INDEX) == [("not-served", INDEX, 3)]
    answers = at_another_address()
    del answers[f"/{SHARD}"]
    with serving(answers) as (origin, _):
        assert findings(origin + INDEX, BASE) == [("not-served", INDEX, 3)]


@pytest.mark.parametrize("hops", [1, 3])
def test_a_redirect_on_the_same_host_is_followed_and_reported(hops: int) -> None:
    with serving_good_site() as (origin, _, answers):
        answers[f"/moved{hops}.xml"] = answers[f"/{SHARD}"]
        answers[f"/{SHARD}"] = (301, {"Location": "/moved1.xml"}, b"")
        answers |= {f"/moved{hop}.xml": (301, {"Location": f"/moved{hop + 1}.xml"}, b"") for hop in range(1, hops)}

        assert findings(origin + INDEX) == [("redirected", SHARD, None)]


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest/", "http://localhost.example.net/", "file:///etc/passwd", "//[::1"]
)
def test_a_redirect_to_another_place_is_not_followed(location: str) -> None:
    with serving({"/sitemap.xml": (302, {"Location": location}, b"")}) as (origin, paths):
        with pytest.raises(Unreadable, match=r"another host|cannot be fetched"):
            findings(origin + "sitemap.xml")
        assert paths == ["/sitemap.xml"]


def test_sitemaps_of_another_host_are_not_fetched() -> None:
    with serving_good_site() as (origin, _, answers), serving({}) as (elsewhere, paths):
        status, headers, body = answers[f"/{INDEX}"]
        body = body.replace(f"{origin}{SHARD}".encode(), f"{elsewhere}x.xml".encode())
        answers[f"/{INDEX}"] = (status, headers, body)

        assert ("index-scope", INDEX, 3) in findings(origin + INDEX)
        assert paths == []


@pytest.mark.parametrize(
    ("path", "base_url", "reason", "requests"),
    [
        ("a", None, "more than 5 redirects", 6),
        ("sitemap.xml", None, "answers 404", 1),
        ("a", "www.example.com", r"--base-url 'www\.example\.com' is no absolute", 0),
    ],
)
def test_a_url_that_cannot_be_checked_is_refused(path: str, base_url: str | None, reason: str, requests: int) -> None:
    with serving({"/a": (302, {"Location": "/a"}, b"")}) as (origin, paths):
        with pytest.raises(Unreadable, match=reason):
            findings(origin + path, base_url)
        assert len(paths) == requests


def test_the_number_of_files_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(website, "FILES_MAX", 2)
    with serving_good_site() as (origin, paths, _):
        findings(origin + INDEX)

        assert paths == [f"/{INDEX}", f"/{SHARD}"]


def test_a_body_without_end_is_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(website, "BYTES_MAX", 100_000)
    with serving({"/sitemap.xml": (200, {}, b" " * 5_000_000)}) as (origin, _):
        source = website.Fetcher(Findings(each_max=20)).first(origin + "sitemap.xml")

        assert isinstance(source.content, bytes)
        assert 100_001 <= len(source.content) <= 100_001 + CHUNK_BYTES


@pytest.mark.parametrize(
    ("below", "base_url"), [("", BASE), ("www.example.com/", BASE.rstrip("/")), ("", f"{BASE}{INDEX}")]
)
def test_files_at_another_address_are_checked_against_the_base_url(below: str, base_url: str) -> None:
    answers = at_another_address(below)
    with serving(answers) as (origin, paths):
        assert findings(f"{origin}{below}{INDEX}", base_url) == []
        assert paths == [f"/{below}{name}" for name in (INDEX, SHARD, "sitemap-media.xml", NEWS)]


def test_urls_in_a_file_are_checked_against_the_base_url() -> None:
    with serving(at_another_address()) as (origin, _):
        assert ("other-host", SHARD, 3) in findings(f"{origin}{SHARD}", "https://example.org/")
        assert ("out-of-scope", f"sport/{SHARD}", 3) in findings(f"{origin}{SHARD}", f"{BASE}sport/")
        assert findings(f"{origin}{SHARD}", f"{BASE}{SHARD}") == []


def test_sitemaps_of_other_hosts_are_listed_with_the_option_to_check_them() -> None:
    notes: list[str] = []
    with serving(at_another_address()) as (origin, paths):
        findings(origin + INDEX, notes=notes)

        assert paths == [f"/{INDEX}"]
    assert notes == [
        f"sitemaps on https://www.example.com are not fetched (3); if these files will be published there, give --base-url {BASE}"
    ]
