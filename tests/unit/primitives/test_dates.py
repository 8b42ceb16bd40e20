"""Dates of feeds; dates without a zone are read in the newsroom's zone, Paris."""

from zoneinfo import ZoneInfo

import pytest

from stoppress.primitives.dates import instant
from stoppress.primitives.instants import iso

PARIS = ZoneInfo("Europe/Paris")
DATES = {
    "Fri, 20 Nov 2026 08:00:00 +0530": "2026-11-20T02:30:00Z",
    "Fri, 20 Nov 2026 08:00:00 GMT+05:30": "2026-11-20T02:30:00Z",
    "Fri, 20 Nov 2026 08:00:00 -0330": "2026-11-20T11:30:00Z",
    "Fri, 20 Nov 26 08:00 EST": "2026-11-20T13:00:00Z",
    "Fri, 20 Nov 99 08:00 EST": "1999-11-20T13:00:00Z",
    "Fri, 20 Nov 2026 24:00:00 GMT": "2026-11-21T00:00:00Z",
    "Fri, 20 Nov 2026 23:59:60 GMT": "2026-11-21T00:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 GMT (Friday)": "2026-11-20T08:00:00Z",
    "Fri, 20 Nov 2026 12:30 AM GMT": "2026-11-20T00:30:00Z",
    "Fri Nov 20 08:00:00 CET 2026": "2026-11-20T07:00:00Z",
    "November 20th, 2026": "2026-11-19T23:00:00Z",
    "2026-11-20T08:00:00.123456789+0530": "2026-11-20T02:30:00Z",
    "20261120T080000Z": "2026-11-20T08:00:00Z",
    # From other readers: freeCodeCamp issue 43079, RssSyndication 2, feedjira 186.
    "mié., 14 jul. 2021 13:00:00 +0000": "2021-07-14T13:00:00Z",
    "Вс, 12 фев 2017 00:00:00 +0700": "2017-02-11T17:00:00Z",
    "Ke, 30 Lok 2013 11:34:37 +0000": "2013-10-30T11:34:37Z",
    # The weekday is also the name of a month.
    "mar, 20 oct 2026 08:00:00 +0200": "2026-10-20T06:00:00Z",
    "1 juin 2026 08:00": "2026-06-01T06:00:00Z",
    "1 juil 2026 08:00": "2026-07-01T06:00:00Z",
    "ma, 20 mrt 2026 08:00:00 +0100": "2026-03-20T07:00:00Z",
    "2026-október-31 11:37": "2026-10-31T10:37:00Z",
    "Пятница, 20 ноября 2026 08:00:00 +0300": "2026-11-20T05:00:00Z",
    "Κυρ, 11 Ιούλ 2004 12:00:00 EST": "2004-07-11T17:00:00Z",
    "Fri, 20 Nov 2026T08:00:00Z": "2026-11-20T08:00:00Z",
    "Fri, 20 Nov 2026 8:0:5 GMT": "2026-11-20T08:00:05Z",
    # Day and month in digits, which the weekday or the number of the day distinguishes.
    "Fri, 11/06/2026 - 15:21": "2026-11-06T14:21:00Z",
    "Thu, 11/06/2026 - 15:21": "2026-06-11T13:21:00Z",
    "20/11/2026 08:00": "2026-11-20T07:00:00Z",
    "11/20/2026 8:00:00 PM": "2026-11-20T19:00:00Z",
    "20-11-2026": "2026-11-19T23:00:00Z",
    "11/11/2026": "2026-11-10T23:00:00Z",
    # A zone that has two offsets in a year, and a name that is no zone.
    "Fri, 20 Nov 2026 08:00:00 ET": "2026-11-20T13:00:00Z",
    "Mon, 20 Jul 2026 08:00:00 PT": "2026-07-20T15:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 +3000": "2026-11-20T07:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 America/New_York": "2026-11-20T13:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 America/Nowhere": "2026-11-20T07:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 Indian/": "2026-11-20T07:00:00Z",
    "2026-11-20T08:00:00+05:30[Asia/Kolkata]": "2026-11-20T02:30:00Z",
    # The time comes before the place.
    "2026-07-20T08:00:00Z[Europe/London]": "2026-07-20T08:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 UTC (America/New_York)": "2026-11-20T08:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 CST/CDT": "2026-11-20T14:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 GMT | News/World": "2026-11-20T08:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 Etc/GMT+5": "2026-11-20T13:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 &#43;0530": "2026-11-20T02:30:00Z",
    "20 de noviembre del 2026, 8:05 p. m.": "2026-11-20T19:05:00Z",
    # Days in digits, and separators between them and the time.
    "2026-11-20T08:00:9+05:30": "2026-11-20T02:30:09Z",
    "2026-11-20 at 08:00:00": "2026-11-20T07:00:00Z",
    "2004년 05월 28일  01:31:15": "2004-05-27T23:31:15Z",
    "2004-05-25 오후 11:23:17": "2004-05-25T21:23:17Z",
    "20.11.2026 08:00": "2026-11-20T07:00:00Z",
    "2026-11-20T8:0:0Z": "2026-11-20T08:00:00Z",
    "2026-11-20-05:00": "2026-11-20T05:00:00Z",
    "Fri, 2026-11-20 08:00:00 +0000": "2026-11-20T08:00:00Z",
    # "marraskuu" is November, although it begins like March.
    "20. marraskuuta 2026 08:00": "2026-11-20T07:00:00Z",
    "20 de\N{NO-BREAK SPACE}de\u0301c. 2026": "2026-12-19T23:00:00Z",
    # A place that begins like a month.
    "20. Oktober 2026, Stuttgart": "2026-10-19T22:00:00Z",
}
# Two meanings, no day, or no date: a guess could be wrong by hours or months.
NO_DATES = (
    "11/10/2026 08:00",
    "Fri, 11/10/2026 08:00",
    "2026-11-20T25:00:00Z",
    "Fri, 20 Nov 2026 08:61:00 GMT",
    "20 lis 2026 08:00:00 +0100",
    "20 Νοεμβρίου 2026, 8:05 μ.μ.",
    "20 novembre 2026 à 8h",
    "2026-11-20 PM 08:00",
    "2026-11-20T08",
    "2026-11-20 - 2026-11-25",
    "20261120 20261125",
    "1605859200",
    "2026-02-30T08:00:00Z",
    "31.11.2026",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "soon",
    "",
    "Fri, 20 Nov 2026 08:00:00 GMT" + " " * 100,
)


@pytest.mark.parametrize("text", DATES)
def test_a_date_of_a_feed_is_read(text: str) -> None:
    date = instant(text, PARIS)

    assert date
    assert iso(date) == DATES[text]


@pytest.mark.parametrize("text", NO_DATES)
def test_an_ambiguous_or_invalid_date_is_none(text: str) -> None:
    assert instant(text, PARIS) is None
