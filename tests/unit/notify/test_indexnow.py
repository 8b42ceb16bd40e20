"""IndexNow: requests as its documentation shows them, and the meaning of each documented answer."""

from datetime import UTC, datetime

import pytest

from stoppress.notify.indexnow import LATER_SECONDS, WRONG_SECONDS, Meaning, key_file, meaning, request_body
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
    ("answer", "result", "after_seconds", "is_certain"),
    [
        ("ok", "accepted", LATER_SECONDS, False),
        ("accepted", "accepted", LATER_SECONDS, False),
        ("bad request", "wrong", WRONG_SECONDS, True),
        ("key not found", "wrong", WRONG_SECONDS, True),
        ("verification", "later", LATER_SECONDS, True),
        ("unprocessable", "wrong", WRONG_SECONDS, True),
        ("too many", "later", 60, True),
        ("broken", "later", LATER_SECONDS, False),
        ("overloaded", "later", 120, True),
    ],
)
def test_each_documented_answer_has_its_meaning(
    answer: str, result: str, after_seconds: int, *, is_certain: bool
) -> None:
    status, headers, body = ANSWERS[answer]
    answered = meaning(status, {name.lower(): value for name, value in headers.items()}, body, NOW)
    assert (answered.result, answered.after_seconds, answered.is_certain) == (result, after_seconds, is_certain)


def test_an_answer_that_no_document_names_is_wrong_and_names_the_setting() -> None:
    answered = meaning(404, {}, b"", NOW)
    assert (answered.result, answered.reason) == ("wrong", "answers 404: correct `engines.indexnow.url`")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [("Fri, 20 Nov 2026 08:05:00 GMT", 300), ("0", 60), ("99999999", 86_400), ("soon", LATER_SECONDS)],
)
def test_retry_after_is_a_number_or_a_date(retry_after: str, seconds: int) -> None:
    assert meaning(429, {"retry-after": retry_after}, b"", NOW) == Meaning(
        "later", "answers 429", seconds, is_certain=True
    )


def test_the_key_file_is_served_with_the_sitemaps_and_is_no_sitemap() -> None:
    from stoppress.model.file_names import WRITTEN

    name = key_file("0123abcd-4567")
    assert name == "sitemap-indexnow-0123abcd-4567.txt"
    assert not WRITTEN.fullmatch(name)
    assert WRITTEN.fullmatch("sitemap-2026-11.txt")
