"""Titles, languages and instants of any source are written in one form."""

import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, strategies as st
from lxml import etree

from stoppress.primitives.instants import epoch_seconds, exact, iso, parse, utc, whole
from stoppress.primitives.text import TITLE_CHARACTERS_MAX, clean, clean_html, escaped, language_code, publication_name

EIGHT = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


# ── titles ──


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("  Flood\n\tcloses  the harbour ", "Flood closes the harbour"),
        ("Fish &amp; chips", "Fish & chips"),
        ("How to write &amp;amp;amp;", "How to write &amp;"),
        ("&#8220;Flood&#8221; &eacute;t&eacute; &#x1F30A;", "“Flood” été 🌊"),
        ("<b>Flood</b> closes<br/>", "Flood closes"),
        ("Flood<br />closes&lt;BR&gt;the<p>harbour</p>", "Flood closes the harbour"),
        ("Flo<b>o</b>d <i>pro</i>gress", "Flood progress"),
        ("<![CDATA[Flood]]>", "Flood"),
        ("Flood <!-- desk: check --> closes", "Flood closes"),
        ("a < b and b > a", "a < b and b > a"),
        ("Flood\x00\x08\x1f\x7f\x9f", "Flood"),
        ("Flood\u0085closes", "Flood closes"),
        ("Flood\ud800", "Flood"),
        ("&#xD800;Flood&#0;", "\ufffdFlood\ufffd"),
        ("Flood\ufffe\uffff\U0001ffff\ufdd0", "Flood"),
        ("\ufeffFl\u200bo\u00adod\u2060", "Flood"),
        ("Cafe\u0301", "Caf\u00e9"),
        ("👩‍🚀 in space", "👩‍🚀 in space"),
        ("", ""),
        ("<p></p>", ""),
    ],
)
def test_a_title_is_what_a_reader_would_see(html: str, title: str) -> None:
    assert clean_html(html) == title


def test_a_plain_text_keeps_what_looks_like_html() -> None:
    assert clean(" What <T> &amp;\n means ") == "What <T> &amp; means"


def test_a_title_is_cut_to_its_limit_and_does_not_end_in_a_space() -> None:
    assert len(clean("x" * 5_000)) == TITLE_CHARACTERS_MAX
    assert clean("ab cd", limit=3) == "ab"


@given(st.text(alphabet=st.characters(), max_size=200) | st.text("<>&;!-[]/abCDATA#x0 \ud800\udc00", max_size=80))
def test_every_title_is_legal_xml_in_one_line(text: str) -> None:
    for title in (clean(text), clean_html(text)):
        title.encode()
        etree.Element("title").text = title  # lxml refuses what XML 1.0 forbids
        assert title == " ".join(title.split())
        assert unicodedata.is_normalized("NFC", title)
        assert len(title) <= TITLE_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Example News (subscription)", "Example News"),
        ("Example News (en) (beta) Daily", "Example News Daily"),
        ("(all of it)", ""),
        ("News (UK", "News UK"),
        ("Example ) ( News", "Example News"),
        ("Example (the (old) one) News", "Example News"),
    ],
)
def test_a_publication_has_nothing_in_parentheses(text: str, name: str) -> None:
    assert publication_name(text) == name


# ── in XML ──


@given(st.text("&<>\"';#amplgtquos🌊 ") | st.text())
def test_a_text_is_escaped_as_the_standard_library_escapes_it(text: str) -> None:
    assert escaped(text) == escape(text, {'"': "&quot;", "'": "&apos;"})


# ── languages ──


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("en", "en"), ("en-US", "en"), ("pt_BR", "pt"), (" FR ", "fr"), ("haw", "haw"), ("zh", "zh-cn"),
        ("zh-SG", "zh-cn"), ("zh-Hans-HK", "zh-cn"), ("zh-Hant-CN", "zh-tw"), ("zh-HK", "zh-tw"), ("mo-MD", "ro"),
        ("cmn-Hant", "zh-tw"), ("fil", "fil"), ("jp", None), ("uk-UA", "uk"), ("english", None), ("e1", None),
        ("д", None),
    ],
)  # fmt: skip
def test_a_language_is_written_as_google_news_wants_it(text: str, code: str | None) -> None:
    assert language_code(text) == code


# ── instants ──


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-20T08:00:00Z", EIGHT),
        (" 2026-11-20t08:00:00z\n", EIGHT),
        ("2026-11-20 08:00:00Z", EIGHT),
        ("2026-11-20T08:00Z", EIGHT),
        ("2026-11-20T08:00:00+0000", EIGHT),
        ("2026-11-20T13:30:00+05:30", EIGHT),
        ("2026-11-20T03:00:00-05:00", EIGHT),
        ("2026-11-20T08:00:00.1234567Z", EIGHT + timedelta(microseconds=123_456)),
        ("2026-11-20T08:00:00.1234567+0000", EIGHT + timedelta(microseconds=123_456)),
        ("2026-11-20T08:00:00,5Z", EIGHT + timedelta(milliseconds=500)),
        ("20261120T080000+0000", EIGHT),
    ],
)
def test_an_iso_instant_is_read_in_utc(text: str, instant: datetime) -> None:
    assert parse(text) == instant
    assert parse(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("2026-11-20T08:00:00", "has no zone: add Z"),
        ("yesterday", "is not an ISO 8601 instant such as 2026-11-20T08:00:00Z"),
        ("1795161600", "is not an ISO 8601 instant"),
        ("2026-11-20T08:00:00+25:00", "is not an ISO 8601 instant"),
        ("0001-01-01T00:00:00+14:00", "outside what a sitemap can contain"),
        ("0001-01-01T00:00:00Z", "outside what a sitemap can contain"),
        ("9999-12-31T23:59:59Z", "outside what a sitemap can contain"),
        ("9999-12-31T23:59:59-14:00", "outside what a sitemap can contain"),
    ],
)
def test_a_text_that_is_no_instant_is_refused_with_the_correction(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        parse(text)


@given(st.text(max_size=60) | st.text("0123456789-:+.,TZtz ", max_size=40))
def test_no_text_raises_more_than_a_value_error(text: str) -> None:
    try:
        instant = parse(text)
    except ValueError:
        return
    assert parse(exact(instant)) == instant


ZONES = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
INSTANTS = st.datetimes(datetime(2, 1, 1), datetime(9999, 12, 1), timezones=ZONES)  # noqa: DTZ001 - the zones come beside


@given(INSTANTS, INSTANTS)
def test_formatted_instants_can_be_parsed_and_sort_by_time(one: datetime, other: datetime) -> None:
    one, other = utc(one), utc(other)
    assert parse(exact(one)) == one
    assert parse(iso(one)) == whole(one)
    assert (exact(one) < exact(other)) == (one < other)
    assert len(exact(one)) == len("2026-11-20T08:00:00.000000Z")
    assert len(iso(one)) == len("2026-11-20T08:00:00Z")


def test_seconds_since_1970_are_whole_ones() -> None:
    assert epoch_seconds(EIGHT + timedelta(milliseconds=999)) == 1_795_161_600
