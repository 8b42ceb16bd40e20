"""A site's old sitemap, polled as a feed: its entries, their precedence, and an index with its sitemaps."""

from collections.abc import Mapping

import pytest

from stoppress.feeds import events, feed_documents
from stoppress.feeds.feed_documents import FeedError, read_document
from stoppress.feeds.parse import read
from stoppress.http import client, errors
from stoppress.model.site import Site
from stoppress.poll import fetch_feeds as fetching
from tests.support.article_events import HOST, MORNING, DecidedTable, page

SITE = Site(host=HOST, publication="Example News")
INDEX = f"https://{HOST}/old/index.xml"


def urlset(*paths: str, lastmod: str = "") -> bytes:
    dates = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    pages = "".join(f"<url><loc>https://{HOST}/{path}</loc>{dates}</url>" for path in paths)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{pages}</urlset>'.encode()


def index(*locs: str) -> bytes:
    named = "".join(
        f"<sitemap><loc>{loc}</loc><lastmod>2026-11-{day:02}</lastmod></sitemap>" for day, loc in enumerate(locs, 1)
    )
    return f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{named}</sitemapindex>'.encode()


# ── entries ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_pages_of_a_long_sitemap_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_documents, "ENTRIES_MAX", 3)
    new = urlset("new", lastmod="2026-11-19").partition(b"<url>")[2].partition(b"</urlset>")[0]
    body = urlset("1", "2", "3", "4").replace(b"</urlset>", b"<url>" + new + b"</urlset>")

    reading = read(read_document(body, {}), INDEX, SITE)

    assert [entry.url for entry in reading.entries] == [page("new"), page("1"), page("2")]
    assert reading.left_out == ("2 pages beside the newest 3",)


# ── precedence ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_data_of_a_news_sitemap_count_before_those_of_a_general_one() -> None:
    news = (
        f"<url><loc>https://{HOST}/flood</loc><news:news><news:publication_date>2026-11-20T07:50:00Z"
        "</news:publication_date><news:title>Flood</news:title></news:news></url>"
    )
    both = urlset("flood", lastmod="2026-11-20T07:59:00Z").replace(b"</urlset>", f"{news}</urlset>".encode())
    ledger = DecidedTable()

    for event in events.to_events(read(read_document(both, {}), INDEX, SITE), SITE, MORNING, feed=INDEX)[0]:
        ledger.apply(event)

    assert ledger.claims[page("flood")].owner == f"feed#{page('flood')}"
    assert [entry.title for entry in ledger.news_at(MORNING).values()] == ["Flood"]


# ── an index ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Web:
    """Answers by URL, and the requests with their headers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, client.Response | errors.FetchError] = {}
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        monkeypatch.setattr(client, "fetch", self.fetch)

    def answer(self, url: str, body: bytes, status: int = 200) -> None:
        self.answers[url] = client.Response(status, {}, body, url)

    def fetch(self, url: str, headers: Mapping[str, str]) -> client.Response:
        self.requests.append((url, headers))
        answer = self.answers[url]
        if isinstance(answer, errors.FetchError):
            raise answer
        return answer


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Web:
    return Web(monkeypatch)


def fetch_index() -> fetching.Fetched:
    return fetching.fetch(INDEX, {"User-Agent": "Stoppress", "If-None-Match": '"1"'}, SITE)


def test_the_sitemaps_of_an_index_are_read_as_one_feed_the_newest_first(internet: Web) -> None:
    internet.answer(INDEX, index("/old/1.xml", INDEX, "https://maps.example.org/2.xml", "javascript:alert(1)"))
    internet.answer(page("old/1.xml"), urlset("a", "b"))
    internet.answer("https://maps.example.org/2.xml", urlset("c"))

    result = fetch_index()
    _, reading = fetching.read(result, SITE, ())

    assert [url for url, _ in internet.requests] == [INDEX, "https://maps.example.org/2.xml", page("old/1.xml")]
    assert [headers for _, headers in internet.requests[1:]] == [{"User-Agent": "Stoppress"}] * 2
    assert [entry.url for entry in reading.entries] == [page("c"), page("a"), page("b")]
    assert reading.incomplete is None
    assert result.is_index
    assert result.size_bytes == sum(len(body) for body in (result.answer.body, urlset("a", "b"), urlset("c")))


def test_the_newest_sitemaps_of_an_index_and_their_first_pages_are_read(
    internet: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_documents, "ENTRIES_MAX", 3)
    named = [page(f"old/{number}.xml") for number in range(1, 21)]
    internet.answer(INDEX, index(*named))
    for url in named:
        internet.answer(url, urlset(url[-6:-4]))

    _, reading = fetching.read(fetch_index(), SITE, ())

    assert [url for url, _ in internet.requests[1:]] == named[:-11:-1]
    assert [entry.url for entry in reading.entries] == [page("20"), page("19"), page("18")]
    assert reading.left_out == ("7 pages after the first 3",)


FAILING: list[tuple[bytes | errors.FetchError, int, str]] = [
    (b"", 404, "answered 404"),
    (errors.TooSlow("it did not answer in time"), 200, "in time"),
    (b"<html><body>Not here</body></html>", 200, "an HTML page"),
    (index("/old/6.xml"), 200, "an index of sitemaps stands"),
    (b"<urlset><url><loc>https://www.example.com/</url></urlset>", 200, "cannot be read"),
    (b"<urlset>" + b"<url>" * 100_000 + b"</urlset>", 200, "nested more than"),
    (urlset("b" * 2_000), 200, "larger than"),
    (urlset("b", "c")[:-30], 200, "damaged or cut off after 1 complete pages"),
]


def test_a_failed_sitemap_of_an_index_is_reported_and_the_rest_is_read(
    internet: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (answer, status, reason) in enumerate(FAILING):
        named = [page(f"old/{number}.xml"), page("good.xml")]
        internet.answer(INDEX, index(*named))
        internet.answer(named[1], urlset("a"))
        if isinstance(answer, bytes):
            internet.answer(named[0], answer, status)
        else:
            internet.answers[named[0]] = answer
        with monkeypatch.context() as patch:
            if reason == "larger than":
                patch.setattr(client, "BODY_BYTES_MAX", 2_000)
            _, reading = fetching.read(fetch_index(), SITE, ())

        assert page("a") in [entry.url for entry in reading.entries], reason
        assert reason in str(reading.incomplete)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (index("/old/1.xml"), 200, "the server answered 500"),
        (index("/old/1.xml").decode().encode("utf-16"), 200, "the server answered 500"),
        (index(), 200, "index of sitemaps"),
        (b"<sitemapindex><sitemap><loc>https://www.exa", 200, "cut off"),
        (b"<urlset><url><loc>https://www.example.com/</url></urlset>", 200, "cannot be read"),
    ],
)
def test_an_index_or_a_sitemap_of_which_nothing_can_be_read_is_a_failed_poll(
    internet: Web, body: bytes, status: int, reason: str
) -> None:
    internet.answer(INDEX, body, status)
    internet.answer(page("old/1.xml"), b"", 500)

    with pytest.raises(FeedError, match=reason):
        fetching.read(fetch_index(), SITE, ())


def test_no_sitemap_is_fetched_without_time_or_a_valid_index(internet: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    about = b'<rss version="2.0"><channel><item><title>&lt;sitemapindex></title><link>/a</link></item></channel></rss>'
    for body, status in ((index("/old/1.xml"), 304), (index("/old/1.xml"), 404), (about, 200)):
        internet.answer(INDEX, body, status)
        assert not fetch_index().is_index
    monkeypatch.setattr(fetching, "CHILDREN_SECONDS_MAX", -1.0)
    internet.answer(INDEX, index("/old/1.xml"))

    assert fetch_index().failures == (f"{page('old/1.xml')}: there was no time left for it",)
    assert {url for url, _ in internet.requests} == {INDEX}


def test_a_file_of_stoppress_is_not_polled(internet: Web) -> None:
    own = {"x-amz-meta-config": "3"}
    internet.answers[INDEX] = client.Response(200, own, urlset("a"), INDEX)
    with pytest.raises(FeedError, match="writes this file itself"):
        fetch_index()

    internet.answer(INDEX, index("/sitemap-news.xml", "/old.xml"))
    internet.answers[page("sitemap-news.xml")] = client.Response(200, own, urlset("a"), INDEX)
    internet.answer(page("old.xml"), urlset("b"))
    result = fetch_index()
    assert [child.body for child in result.children] == [urlset("b")]
    assert result.failures == (f"{page('sitemap-news.xml')}: Stoppress writes this file itself",)


def test_the_digest_of_an_index_changes_with_its_sitemaps(internet: Web) -> None:
    internet.answer(INDEX, index("/old/1.xml"))
    digests = []
    for name in "aab":
        internet.answer(page("old/1.xml"), urlset(name))
        digests.append(fetch_index().body_digest)

    assert digests[0] == digests[1] != digests[2]
