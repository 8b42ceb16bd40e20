"""Archives as files and sitemaps: valid entries are imported, others are problems with their place, and nothing loops."""

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stoppress.http import client
from stoppress.http.client import Response
from stoppress.model.event import Listed, ListingError, Page
from stoppress.model.site import Site
from stoppress_cli.check import checker
from stoppress_cli.check.findings import Findings
from stoppress_cli.inputs.folder import collect
from stoppress_cli.inputs.rows import Rows
from stoppress_cli.inputs.sitemap_pages import Sitemaps
from tests.support.check_good_site import good
from tests.support.check_planted import CASES

HOST = "www.example.com"
ROOT = f"https://{HOST}"
SITE = Site(host=HOST, publication="Example News")


class Web:
    """A web server: bodies by URL. `requests` are the URLs of all requests."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}
        self.requests: list[str] = []

    def fetch(self, url: str, headers: Mapping[str, str] | None = None, **limits: Any) -> Response:
        self.requests.append(url)
        body = self.bodies.get(url)
        return Response(self.statuses.get(url, 200 if body is not None else 404), {}, body or b"", url)

    def sitemap(self, name: str, *paths: str, extra: str = "") -> str:
        urls = "".join(f"<url><loc>{ROOT}/{path}</loc>{extra}</url>" for path in paths)
        return self.put(name, f"<urlset>{urls}</urlset>")

    def index(self, name: str, *names: str) -> str:
        named = "".join(f"<sitemap><loc>{ROOT}/{child}</loc></sitemap>" for child in names)
        return self.put(name, f"<sitemapindex>{named}</sitemapindex>")

    def put(self, name: str, text: str | bytes) -> str:
        self.bodies[f"{ROOT}/{name}"] = text.encode() if isinstance(text, str) else text
        return f"{ROOT}/{name}"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    web_server = Web()
    monkeypatch.setattr(client, "fetch", web_server.fetch)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return web_server


def read(pages: Iterator[Page]) -> tuple[list[str], list[str]]:
    """Return the paths of a listing's articles, and its problems with their places."""
    listed = list(pages)
    assert [page.cursor for page in listed[-1:]] == [None]
    items = [item for page in listed for item in page.items]
    problems = [f"{problem.place}: {problem.reason}" for page in listed for problem in page.problems]
    return [str(item.event.url).removeprefix(f"{ROOT}/") for item in items], problems


def only(pages: Iterator[Page]) -> Listed:
    [item] = [item for page in pages for item in page.items]
    return item


# ── sitemaps ──


def test_a_nested_compressed_index_in_a_robots_txt_returns_all_its_pages(web: Web) -> None:
    web.sitemap("a.xml", "1", "2")
    web.sitemap("b.xml", "3")
    web.put("b.xml.gz", gzip.compress(web.bodies[f"{ROOT}/b.xml"]))
    web.put("list.txt", f"{ROOT}/4\n\n{ROOT}/5\n")
    web.index("inner.xml", "b.xml.gz", "list.txt")
    web.index("sitemap.xml", "a.xml", "inner.xml")
    robots = web.put("robots.txt", f"User-agent: *\nDisallow:\nSitemap: {ROOT}/sitemap.xml\n")
    assert read(Sitemaps(robots, SITE).pages()) == (["1", "2", "3", "4", "5"], [])


def test_a_page_of_a_sitemap_ranks_below_feed_and_cms_and_is_never_news(web: Web) -> None:
    lastmod = f"<lastmod>{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}</lastmod>"
    event = only(Sitemaps(web.sitemap("s.xml", "flood", extra=lastmod), SITE).pages()).event
    assert (event.source, event.id, event.news) == ("sitemap", f"{ROOT}/flood", False)
    assert event.published_at is None  # a date of the last 48 hours could bring an article without a date into the news
    assert event.updated_at
    assert str(event.delivery).startswith("import:")


@pytest.mark.parametrize(
    ("path", "date"),
    [
        ("2019/03/07/flood", "2019-03-07"),
        ("news/2019-03-07/flood", "2019-03-07"),
        ("2019-03-07-flood", "2019-03-07"),
        ("2019/3/7/flood", "2019-03-07"),
        ("2019/03/flood", "2019-03-01"),
        ("2019/04/31/flood", "2019-04-01"),
        ("2019/13/flood", "2020-01-02"),
        ("flood-20190307", "2020-01-02"),
        ("2999/03/07/flood", "2020-01-02"),
        ("flood?d=/2019/03/07/", "2020-01-02"),
        ("2019/03/a", "2018-01-02"),
    ],
)
def test_the_publication_date_then_the_url_then_lastmod_choose_the_period(web: Web, path: str, date: str) -> None:
    news = "<news:news><news:publication_date>2018-01-02</news:publication_date><news:title>A</news:title></news:news>"
    lastmod = "<lastmod>2020-01-02T10:00:00Z</lastmod>"
    url = web.sitemap("s.xml", path, extra=news if date.startswith("2018") else lastmod)
    published = only(Sitemaps(url, SITE).pages()).event.published_at
    assert published
    assert published.date().isoformat() == date


def test_an_unreadable_entry_of_an_index_is_a_problem_and_the_rest_is_imported(web: Web) -> None:
    web.sitemap("a.xml", "1")
    web.put("page.xml", "<!doctype html><html><body><p>Not found<br></body></html>")
    web.put("feed.xml", "<rss><channel><item><title>Cut")
    web.put("cut.xml", f"<urlset><url><loc>{ROOT}/2</loc></url><url></url><url><loc>mailto:a@b.c</loc></url><url>")
    web.put("odd.xml", "hello")
    web.statuses[web.put("slow.xml", "")] = 503
    web.sitemap("z.xml", "3")
    index = web.index("i.xml", "a.xml", "gone.xml", "page.xml", "feed.xml", "cut.xml", "odd.xml", "slow.xml", "z.xml")
    paths, problems = read(Sitemaps(index, SITE).pages())
    assert paths == ["1", "2", "3"]
    assert [problem.partition(": ")[0].removeprefix(f"{ROOT}/") for problem in problems] == [
        "gone.xml", "page.xml", "feed.xml", "cut.xml, <url> 2", "cut.xml, <url> 3", "cut.xml, line 1", "odd.xml", "slow.xml",
    ]  # fmt: skip
    for number, words in ((0, "answers 404"), (1, "is no sitemap"), (2, "is cut off"), (7, "answers 503")):
        assert words in problems[number]
    for name in ("page.xml", "odd.xml", "slow.xml"):  # by itself it is refused whole
        with pytest.raises(ListingError, match=name):
            list(Sitemaps(f"{ROOT}/{name}", SITE).pages())


def test_an_rss_or_atom_feed_that_an_index_lists_is_read_like_a_sitemap(web: Web) -> None:
    web.put("feed.xml", f"<rss><channel><item><link>{ROOT}/1?a&amp;b</link></item></channel></rss>")
    atom = "".join(f'<entry><link href="{ROOT}/{path}"/></entry>' for path in "23")
    web.put("atom.xml", f'<feed xmlns="http://www.w3.org/2005/Atom">{atom}</feed>')
    assert read(Sitemaps(web.index("i.xml", "feed.xml", "atom.xml"), SITE).pages()) == (["1?a&b", "2", "3"], [])


def test_a_bare_ampersand_does_not_end_the_sitemap(web: Web) -> None:
    urls = [f"<url><loc>{ROOT}/{n}?a=1&b=2</loc></url>" for n in range(2_000)]
    section = f"<url><loc><![CDATA[{ROOT}/c?a=1&b=2]]></loc></url>"
    url = web.put("s.xml", f"<urlset>{''.join(urls)}{section * 3_000}</urlset>")
    paths, problems = read(Sitemaps(url, SITE).pages())
    assert problems == []
    assert paths == [*(f"{n}?a=1&b=2" for n in range(2_000)), *["c?a=1&b=2"] * 3_000]


@pytest.mark.matrix
@pytest.mark.parametrize("rule", sorted({rule for rule, _, _ in CASES if not rule.startswith("too-many")}))
def test_each_url_of_a_file_that_check_can_read_is_imported_or_a_problem(rule: str, tmp_path: Path) -> None:
    site, fault = good(), next(fault for name, _, fault in CASES if name == rule)
    fault(site)
    for name, body in site.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(body)
    checked = checker.check(collect(tmp_path, ROOT).sources, Findings(each_max=1), datetime(2026, 11, 12, tzinfo=UTC))
    readable = {facts.name: facts.urls for facts in checked.files if facts.is_sitemap and facts.is_whole}
    for name, urls in readable.items():
        pages = list(Sitemaps(str(tmp_path / name), SITE).pages())
        assert urls <= sum(len(page.items) + len(page.problems) for page in pages), name


def test_an_index_with_a_loop_or_too_many_levels_ends(web: Web) -> None:
    web.index("b.xml", "a.xml", "c.xml")
    web.sitemap("c.xml", "1")
    paths, problems = read(Sitemaps(web.index("a.xml", "a.xml", "b.xml", "c.xml"), SITE).pages())
    assert paths == ["1"]
    assert [problem.rpartition(": ")[2] for problem in problems] == [
        f"{ROOT}/a.xml was read before", f"{ROOT}/a.xml was read before", f"{ROOT}/c.xml was read before",
    ]  # fmt: skip
    assert len(web.requests) == 3
    for number in range(10):
        web.index(f"{number}.xml", f"{number + 1}.xml")
    assert "an index in an index" in read(Sitemaps(f"{ROOT}/0.xml", SITE).pages())[1][0]


def test_a_listing_can_continue_after_each_of_its_pages(web: Web) -> None:
    web.sitemap("a.xml", *(f"a{n}" for n in range(250)))
    web.sitemap("b.xml", *(f"b{n}" for n in range(150)))
    web.index("inner.xml", "b.xml", "gone.xml")
    index = web.index("i.xml", "a.xml", "inner.xml", "a.xml")
    pages = list(Sitemaps(index, SITE).pages())
    every, _ = read(iter(pages))
    assert len(every) == 400
    assert max(len(page.items) for page in pages) == 100
    done = 0
    for page in pages[:-1]:
        done += len(page.items)
        rest, _ = read(Sitemaps(index, SITE).pages(page.cursor))
        assert rest == every[done:]


def test_a_sitemap_that_changed_before_the_checkpoint_is_read_again(web: Web) -> None:
    url = web.sitemap("a.xml", *(f"a{n}" for n in range(250)))
    with pytest.raises(ListingError, match="damaged"):
        list(Sitemaps(url, SITE).pages('["x"]'))
    cursor = next(iter(Sitemaps(url, SITE).pages())).cursor
    web.sitemap("a.xml", *(f"a{n}" for n in range(50, 250)))
    assert len(read(Sitemaps(url, SITE).pages(cursor))[0]) == 200
    web.sitemap("a.xml", "a1")  # it has become shorter than what was read
    assert read(Sitemaps(url, SITE).pages(cursor)) == (["a1"], [])


# ── CSV and JSON Lines ──


def rows(tmp_path: Path, content: str | bytes, source: str | None = "cms", *, is_json: bool = False) -> Rows:
    path = tmp_path / "archive"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Rows(path, SITE, source, is_json)


@pytest.mark.parametrize(
    ("delimiter", "mark", "end"), [(",", b"", "\n"), (";", b"\xef\xbb\xbf", "\r\n"), ("\t", b"", "\r\n")]
)
def test_a_csv_file_with_any_delimiter_byte_order_mark_and_line_end(
    tmp_path: Path, delimiter: str, mark: bytes, end: str
) -> None:
    table = [["ID", " url", "title", "published_at", "noindex", "keywords"],
             ["1", f"{ROOT}/1", f'"Flood{delimiter} again"', "2019-03-07T10:00:00Z", "", '"a,b"'],
             ["2", f"{ROOT}/2", '"Two' + end + 'lines"', "", "true", ""]]  # fmt: skip
    text = mark + end.join(delimiter.join(row) for row in table).encode()
    pages = list(rows(tmp_path, text).pages())
    assert read(iter(pages)) == (["1", "2"], [])
    first, second = (item.event for page in pages for item in page.items)
    title = f"Flood{delimiter} again".replace("\t", "")
    assert (first.source, first.id, first.title, first.keywords) == ("cms", "1", title, ("a", "b"))
    assert (first.news, first.noindex, second.noindex, second.title) == (True, False, True, "Two lines")


def test_broken_rows_are_problems_with_line_numbers_and_the_rest_is_imported(tmp_path: Path) -> None:
    lines = [
        b"id,url,title",
        f"1,{ROOT}/1,A".encode(),
        f'2,{ROOT}/2,"does not close'.encode(),
        f'3,{ROOT}/3,"C"'.encode(),
        f"4,{ROOT}/4".encode(),
        b"",
        f"5,{ROOT}/5,caf\xe9".encode("latin-1"),
        b"6,no url,F",
        f"7,{ROOT}/7,G,more".encode(),
        b"8," + b"x" * 2_000_000,
        f"9,{ROOT}/9,I".encode(),
        f"10,{ROOT}/10,A\rB".encode(),
        f"11,{ROOT}/11,{'x' * 200_000}".encode(),
        f'12,{ROOT}/12,"does not close either'.encode(),
    ]
    paths, problems = read(rows(tmp_path, b"\n".join(lines)).pages())
    assert paths == ["1", "3", "9"]
    assert [problem.partition(":")[0] for problem in problems] == [f"line {n}" for n in (3, 5, 7, 8, 9, 10, 12, 13, 14)]
    assert "quotation mark" in problems[0]
    assert "too few" in problems[1]
    assert "UTF-8" in problems[2]
    assert "too many" in problems[4]
    assert "carriage return" in problems[6]
    assert "more than 131,072 characters" in problems[7]


def test_a_row_of_several_lines_with_a_wrong_number_of_values_is_one_problem(tmp_path: Path) -> None:
    text = f'id,url,title\n1,{ROOT}/1,"Three\nshort\nlines",more\n2,{ROOT}/2,B\n'
    paths, [problem] = read(rows(tmp_path, text).pages())
    assert (paths, problem.partition(":")[0]) == (["2"], "line 2")


@pytest.mark.parametrize(("column", "meant"), [("publish_date", "published_at"), ("Titel", "title"), ("colour", None)])
def test_an_unknown_column_is_noted_once_with_the_one_that_was_meant(
    tmp_path: Path, column: str, meant: str | None
) -> None:
    text = f"id,url,title,{column}\n" + "".join(f"{n},{ROOT}/{n},A,x\n" for n in range(250))
    [note] = [note for page in rows(tmp_path, text).pages() for note in page.notes]
    assert note.place == "line 2"
    assert f"did you mean {meant}?" in note.reason if meant else "did you mean" not in note.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"1,{ROOT}/1,A\n2,{ROOT}/2,B", "no column is called id"),
        ("", "no column is called id"),
        ("id,title\n1,A", "no column is called url"),
        (b"\xff\xfei\0d\0", "UTF-8"),
        (f"id,url,title\r1,{ROOT}/1,A\r2,{ROOT}/2,B", "line feed"),
        (f"id,url\rtitle\n1,{ROOT}/1,A\n", "line feed"),
        (f"id,url,URL \n1,{ROOT}/1,{ROOT}/2", "two columns are called 'url'"),
    ],
)
def test_a_csv_file_without_a_usable_header_is_refused_whole(tmp_path: Path, text: str | bytes, reason: str) -> None:
    with pytest.raises(ListingError, match=reason):
        list(rows(tmp_path, text).pages())


@pytest.mark.parametrize(
    "text",
    [f"id,url,title{end}\n1,{ROOT}/1,A,,\n" for end in (",,", ", ,")]
    + [f'{{"id": 1, "url": "{ROOT}/1", "title": "A"}}\r'],
)
def test_missing_values_at_the_end_of_a_row_are_no_problem(tmp_path: Path, text: str) -> None:
    assert read(rows(tmp_path, text, is_json=text.startswith("{")).pages()) == (["1"], [])


def test_broken_lines_of_json_are_problems_with_line_numbers(tmp_path: Path) -> None:
    lines = ['\ufeff{"id": 1, "url": "https://www.example.com/1", "title": "A", "images": ["/i.jpg"]}', "{", "", "[1]",
             '{"id": 5, "title": "E"}', "[" * 100_000, '{"id": 7, "url": "https://www.example.com/7", "title": "G"}',
             '{"id": 8, "url": "https://www.example.com/8", "title": "H", "url": "https://www.example.com/9"}']  # fmt: skip
    pages = list(rows(tmp_path, "\n".join(lines), is_json=True).pages())
    paths, problems = read(iter(pages))
    assert paths == ["1", "7"]
    assert [problem.partition(":")[0] for problem in problems] == ["line 2", "line 4", "line 5", "line 6", "line 8"]
    assert "'url' more than once" in problems[4]
    assert pages[0].items[0].event.images == (f"{ROOT}/i.jpg",)


def test_rows_without_a_source_are_pages_like_those_of_a_sitemap(tmp_path: Path) -> None:
    event = only(rows(tmp_path, f"url\n{ROOT}/1\n", None).pages()).event
    assert (event.source, event.id, event.news, event.title) == ("sitemap", f"{ROOT}/1", False, "")


def test_a_file_is_not_newer_than_its_date(tmp_path: Path) -> None:
    reader = rows(tmp_path, f"id,url,title\n1,{ROOT}/1,A\n")
    os.utime(reader.path, (1_577_836_800, 1_577_836_800))
    assert only(reader.pages()).event.received_at == datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("is_json", "compressed"), [(True, False), (False, True)])
def test_a_file_can_continue_after_each_of_its_pages(tmp_path: Path, *, is_json: bool, compressed: bool) -> None:
    articles = [{"id": str(n), "url": f"{ROOT}/{n}", "title": "A\nB"} for n in range(350)]
    if is_json:
        text = "\n".join(map(json.dumps, articles))
    else:
        text = "id,url,title\n" + "\n".join(f'{row["id"]},{row["url"]},"A\nB"' for row in articles)
    content = gzip.compress(text.encode()) if compressed else text.encode()
    pages = list(rows(tmp_path, content, is_json=is_json).pages())
    assert len(pages) == 5
    every, problems = read(iter(pages))
    assert (len(every), problems) == (350, [])
    for number, page in enumerate(pages[:-1], 1):
        rest, problems = read(Rows(tmp_path / "archive", SITE, "cms", is_json).pages(page.cursor))
        assert (rest, problems) == (every[100 * number :], [])


def test_a_file_that_changed_since_the_checkpoint_is_refused(tmp_path: Path) -> None:
    reader = rows(tmp_path, "id,url,title\n" + "".join(f"{n},{ROOT}/{n},A\n" for n in range(150)))
    cursor = next(iter(reader.pages())).cursor
    reader.path.write_text("id,url,title\n")
    with pytest.raises(ListingError, match="has changed"):
        list(reader.pages(cursor))
