"""Dates as feeds write them, read in a newsroom of Paris where they name no zone."""

from zoneinfo import ZoneInfo

import pytest

from stoppress.primitives.dates import instant
from stoppress.primitives.instants import iso

PARIS = ZoneInfo("Europe/Paris")
SAID = {
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
    "20261120080000": "2026-11-20T07:00:00Z",
    "Freitag, 20.11.2026 08:00": "2026-11-20T07:00:00Z",
    "Fri, 20 Nov 2026 08.00.09 GMT": "2026-11-20T08:00:09Z",
    "ven 20 nov 2026 08.30": "2026-11-20T07:30:00Z",
    "Vendredi 20 novembre 2026 08h05": "2026-11-20T07:05:00Z",
    # The weekday is the name of a month as well, and is not meant.
    "mar, 20 oct 2026 08:00:00 +0200": "2026-10-20T06:00:00Z",
    "1 juin 2026 08:00": "2026-06-01T06:00:00Z",
    "1 juil 2026 08:00": "2026-07-01T06:00:00Z",
    "ma, 20 mrt 2026 08:00:00 +0100": "2026-03-20T07:00:00Z",
    "ons, 20 maj 2026 08:00:00 +0200": "2026-05-20T06:00:00Z",
    "Cum, 20 Kas 2026 08:00:00 +0300": "2026-11-20T05:00:00Z",
    "2026-október-31 11:37": "2026-10-31T10:37:00Z",
    "Пятница, 20 ноября 2026 08:00:00 +0300": "2026-11-20T05:00:00Z",
    "пт, 20 лис 2026 08:00:00 +0200": "2026-11-20T06:00:00Z",
    "Κυρ, 11 Ιούλ 2004 12:00:00 EST": "2004-07-11T17:00:00Z",
    "2026年11月20日 08:00:00": "2026-11-20T07:00:00Z",
    "2026年11月20日 下午 1:05": "2026-11-20T12:05:00Z",
    "2026년 11월 20일 오전 12:05:00": "2026-11-19T23:05:00Z",
    "2026-11-20 T 08:00:00Z": "2026-11-20T08:00:00Z",
    "2026-11-20, 08:00": "2026-11-20T07:00:00Z",
    "Fri, 20 Nov 2026T08:00:00Z": "2026-11-20T08:00:00Z",
    "Fri, 20 Nov 2026 8:0:5 GMT": "2026-11-20T08:00:05Z",
    "2026-11-20T08:00:00\N{MINUS SIGN}05:00": "2026-11-20T13:00:00Z",
    # Day and month in digits, where the weekday or the number of the day says which is which.
    "Fri, 11/06/2026 - 15:21": "2026-11-06T14:21:00Z",
    "Thu, 11/06/2026 - 15:21": "2026-06-11T13:21:00Z",
    "20/11/2026 08:00": "2026-11-20T07:00:00Z",
    "11/20/2026 8:00:00 PM": "2026-11-20T19:00:00Z",
    "20-11-2026": "2026-11-19T23:00:00Z",
    "11/11/2026": "2026-11-10T23:00:00Z",
    # A zone that the year round is one of two, and one that is none.
    "Fri, 20 Nov 2026 08:00:00 ET": "2026-11-20T13:00:00Z",
    "Mon, 20 Jul 2026 08:00:00 PT": "2026-07-20T15:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 WIB": "2026-11-20T01:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 +3000": "2026-11-20T07:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 America/New_York": "2026-11-20T13:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 America/Nowhere": "2026-11-20T07:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 Australia/NSW": "2026-11-19T21:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 Indian/": "2026-11-20T07:00:00Z",
    "2026-11-20T08:00:00+05:30[Asia/Kolkata]": "2026-11-20T02:30:00Z",
    # The instant is said before the place.
    "2026-07-20T08:00:00Z[Europe/London]": "2026-07-20T08:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 UTC (America/New_York)": "2026-11-20T08:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 CST/CDT": "2026-11-20T14:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 GMT | News/World": "2026-11-20T08:00:00Z",
    "Fri, 20 Nov 2026 08:00:00 Etc/GMT+5": "2026-11-20T13:00:00Z",
    "2026-11-20T08:00:00 05:30": "2026-11-20T02:30:00Z",
    "Fri, 20 Nov 2026 08:00:00 0530": "2026-11-20T02:30:00Z",
    "Fri, 20 Nov 2026 08:00:00 &#43;0530": "2026-11-20T02:30:00Z",
    # Half of the day, and hours that have no minutes.
    "20 de noviembre del 2026, 8:05 p. m.": "2026-11-20T19:05:00Z",
    "20 نوفمبر 2026 8:05 م": "2026-11-20T19:05:00Z",
    "20 نوفمبر 2026 12:05 ص": "2026-11-19T23:05:00Z",
    "20 نوفمبر 2026 8:05 مساءً": "2026-11-20T19:05:00Z",
    "20 Νοεμβρίου 2026, 8:05 μ.μ.": "2026-11-20T19:05:00Z",
    "20 Νοεμβρίου 2026, 8:05 πμ": "2026-11-20T07:05:00Z",
    "Nov. 20, 2026, 8 a.m. ET": "2026-11-20T13:00:00Z",
    "November 20, 2026 12 PM": "2026-11-20T11:00:00Z",
    "Freitag, 20. November 2026, 8 Uhr": "2026-11-20T07:00:00Z",
    "20 novembre 2026 à 8h": "2026-11-20T07:00:00Z",
    "20 novembre 2026 à 8 h 05": "2026-11-20T07:05:00Z",
    # Days in digits, and what stands between them and the time.
    "2026-11-20T08:00:9+05:30": "2026-11-20T02:30:09Z",
    "2026-11-20T8:0:0Z": "2026-11-20T08:00:00Z",
    "2026-11-20Z": "2026-11-20T00:00:00Z",
    "2026-11-20-05:00": "2026-11-20T05:00:00Z",
    "Fri, 2026-11-20 08:00:00 +0000": "2026-11-20T08:00:00Z",
    "20.11.2026 um 08:00": "2026-11-20T07:00:00Z",
    "20. 11. 2026 8:00": "2026-11-20T07:00:00Z",
    "20/11/2026 à 08h05": "2026-11-20T07:05:00Z",
    "2026. 11. 20. 오후 1:05": "2026-11-20T12:05:00Z",
    "2026년 11월 20일 오후 1시 5분": "2026-11-20T12:05:00Z",
    "2026年11月20日(金) 08時05分": "2026-11-20T07:05:00Z",
    "2026年11月20日08:00": "2026-11-20T07:00:00Z",
    # What stands between day and time may belong to the time.
    "2026-11-20 PM 08:00": "2026-11-20T19:00:00Z",
    "2026-11-20 p.m. 8:0:0": "2026-11-20T19:00:00Z",
    "20/11/2026 AM 12:05": "2026-11-19T23:05:00Z",
    "Fri, 20 Nov 2026 PM 08:00 +0000": "2026-11-20T20:00:00Z",
    "2026-11-20 GMT 08:00": "2026-11-20T08:00:00Z",
    "20.11.2026 в 08:00": "2026-11-20T07:00:00Z",
    "2026-11-20 um 08:00 -0500": "2026-11-20T13:00:00Z",
    # "marraskuu" is November, and no kind of March.
    "20. marraskuuta 2026 08:00": "2026-11-20T07:00:00Z",
    "wt, 20 paź 2026 08:00:00 +0200": "2026-10-20T06:00:00Z",
    "пет, 20 нов 2026 08:00:00 +0100": "2026-11-20T07:00:00Z",
    "20 نوفمبر 2026 08:00": "2026-11-20T07:00:00Z",
    "20 de\N{NO-BREAK SPACE}de\u0301c. 2026": "2026-12-19T23:00:00Z",
    # One name, two months: October in Croatian, November in Polish and Czech. The day of the week tells.
    "pią, 20 lis 2026 08:00:00 +0100": "2026-11-20T07:00:00Z",
    "Fri, 20 lis 2026 08:00:00 +0100": "2026-11-20T07:00:00Z",
    "uto, 20 lis 2026 08:00:00 +0200": "2026-10-20T06:00:00Z",
    "sub, 31 lis 2026 08:00:00 +0100": "2026-10-31T07:00:00Z",
    "pią, 31 lip 2026 08:00:00 +0200": "2026-07-31T06:00:00Z",
    "po, 31 srp 2026 08:00:00 +0200": "2026-08-31T06:00:00Z",
    # Places that begin like months.
    "Lisboa, 20 nov 2026 08:00": "2026-11-20T07:00:00Z",
    "20 Nov 2026, Dublin 08:00": "2026-11-20T07:00:00Z",
    "20. Oktober 2026, Stuttgart": "2026-10-19T22:00:00Z",
}
# Two meanings, no day, or none at all: a guess would put a story hours or months away from its place.
UNSAID = (
    "11/10/2026 08:00",
    "Fri, 11/10/2026 08:00",
    "2026-11-20T25:00:00Z",
    "Fri, 20 Nov 2026 08:61:00 GMT",
    "20 lis 2026 08:00:00 +0100",
    "Mon, 20 lis 2026 08:00:00 +0100",
    "2026-11-20T08",
    "2026-11-20 - 2026-11-25",
    "2026-11-20, 2026-11-25",
    "2026/11/20 to 2026/11/25",
    "20261120 20261125",
    "2026年11月20日 晚上 8:00",
    "1605859200",
    "2026-11",
    "2026-02-30T08:00:00Z",
    "31.11.2026",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "0000-00-00 00:00:00",
    "soon",
    "",
    "Fri, 20 Nov 2026 08:00:00 GMT" + " " * 100,
)


@pytest.mark.parametrize("text", SAID)
def test_a_date_is_read_as_it_is_meant(text: str) -> None:
    found = instant(text, PARIS)

    assert found
    assert iso(found) == SAID[text]


@pytest.mark.parametrize("text", UNSAID)
def test_what_is_no_date_or_could_be_two_is_none(text: str) -> None:
    assert instant(text, PARIS) is None


@pytest.mark.parametrize(
    "zone", ["GMT", "UTC", "+0000", "-0000", "+0530", "-0330", "+1400", "+1430", "-1359", "+1560", "CET", "Z"]
)
@pytest.mark.parametrize(
    "day", ["Fri, 20 Nov 2026", "20 nov 2026", "Mar, 31 Apr 2026", "Sun, 1 Jan 1970", "Thu, 31 Dec 9999"]
)
@pytest.mark.parametrize("time", ["08:00:00", "23:59:60", "24:00:00"])
def test_the_usual_spelling_means_what_it_means_among_all_others(day: str, time: str, zone: str) -> None:
    # Two spaces are not usual.
    assert instant(f"{day} {time} {zone}", PARIS) == instant(f"{day}  {time} {zone}", PARIS)
