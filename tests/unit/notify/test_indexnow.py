"""IndexNow: requests as its documentation shows them, and the meaning of each documented answer."""

from datetime import UTC, datetime

import pytest

from stoppress.notify.indexnow import LATER_SECONDS, WRONG_SECONDS, key_file, meaning, request_body
from tests.support.web import ANSWERS

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)


def test_a_request_has_the_bytes_of_the_documentation_s_example() -> None:
    """indexnow.org/documentation, "Submitting set of URLs" with a key file elsewhere on the host, without its white space."""
    urls = ["https://www.example.com/url1", "https://www.example.com/folder/url2", "https://www.example.com/url3"]
    location = "https://www.example.com/myIndexNowKey63638.txt"

    assert request_body("www.example.com", "73134416ae45434d98edc086e0bf6740", location, urls) == (
        b'{"host":"www.example.com","key":"73134416ae45434d98edc086e0bf6740",'
        b'"keyLocation":"https://www.example.com/myIndexNowKey63638.txt",'
        b'"urlList":["https://www.example.com/url1","https://www.example.com/folder/url2","https://www.example.com/url3"]}'
    )


@pytest.mark.parametrize(
    ("answer", "result", "after_seconds", "is_certain", "words"),
    [
        ("ok", "accepted", LATER_SECONDS, False, ""),
        ("accepted", "accepted", LATER_SECONDS, False, ""),
        ("bad request", "wrong", WRONG_SECONDS, True, "report this"),
        ("key not found", "wrong", WRONG_SECONDS, True, "let the CDN serve the key file"),
        ("verification", "later", LATER_SECONDS, True, ""),
        ("unprocessable", "wrong", WRONG_SECONDS, True, "set a new `engines.indexnow.key`"),
        ("too many", "later", 60, True, "answers 429"),
        ("broken", "later", LATER_SECONDS, False, "answers 500: <html>"),
        ("overloaded", "later", 120, True, "answers 503"),
        ("in no document", "wrong", WRONG_SECONDS, True, "answers 404: correct `engines.indexnow.url`"),
        ("later than a day", "later", 86_400, True, "answers 429"),
        ("at no time", "later", LATER_SECONDS, True, "answers 429"),
    ],
)
def test_each_answer_has_its_meaning(
    answer: str, result: str, after_seconds: int, words: str, *, is_certain: bool
) -> None:
    others: dict[str, tuple[int, dict[str, str], bytes]] = {
        "in no document": (404, {}, b""),
        "later than a day": (429, {"Retry-After": "99999999"}, b""),
        "at no time": (429, {"Retry-After": "soon"}, b""),
    }
    status, headers, body = (ANSWERS | others)[answer]
    answered = meaning(status, {name.lower(): value for name, value in headers.items()}, body, NOW)
    assert (answered.result, answered.after_seconds, answered.is_certain) == (result, after_seconds, is_certain)
    assert words in answered.reason


def test_the_key_file_is_stored_beside_the_sitemaps_and_is_no_sitemap() -> None:
    from stoppress.model.file_names import WRITTEN

    name = key_file("0123abcd-4567")
    assert name == "sitemap-indexnow-0123abcd-4567.txt"
    assert not WRITTEN.fullmatch(name)
    assert WRITTEN.fullmatch("sitemap-2026-11.txt")
