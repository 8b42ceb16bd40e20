"""Checks single values: URLs, dates, titles, codes of languages and territories. Reports faults by `report(name of the rule, message)`."""

import html
import ipaddress
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from stoppress.primitives.instants import utc
from stoppress.primitives.text import COUNTRIES, LANGUAGES, MEANT
from stoppress_cli.check.findings import shown
from stoppress_cli.check.rulebook import LOC_CHARACTERS_MAX

Report = Callable[[str, str], None]

DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_CHARACTERS_MAX = 253  # RFC 1035, as text

# Most URLs match this, and need no further check.
_PLAIN_URL = re.compile(r"(https?)://([a-z0-9-]+(?:\.[a-z0-9-]+)+)(/[A-Za-z0-9._~/!()*+,=-]*)")
_NOT_URI = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}|[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")  # RFC 1035: at most 63 characters
_TRACKING = re.compile(
    r"(?:^|[?&;#])(utm_\w+|xtor|partner|emc|wt_mc|fbclid|gclid|dclid|msclkid|mc_cid|mc_eid|igshid|ocid|cmpid"
    r"|at_(?:medium|campaign))(?==|&|$)",
    re.IGNORECASE,
)
_SESSION = re.compile(
    r";jsessionid=|[?&;](?:phpsessid|jsessionid|aspsessionid\w*|session_?id|cftoken)=|[?&;]sid=(?=\d*[a-z])(?=[a-z]*\d)\w{8,}|/\(s\(\w{24}\)\)/",
    re.IGNORECASE,
)
# Hosts of buckets and distributions, which no publisher's site has (R1.9).
_STORAGE = re.compile(
    r"(?:.*[.-])?s3(?:[.-][a-z0-9.-]+)?\.amazonaws\.com(?:\.cn)?|[a-z0-9]+\.cloudfront\.net|storage\.googleapis\.com"
    r"|.*\.storage\.googleapis\.com|.*\.blob\.core\.windows\.net|.*\.r2\.cloudflarestorage\.com|.*\.r2\.dev"
)

_ESCAPE = re.compile(r"&(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NAMED_ENTITY = re.compile(r"&[A-Za-z][A-Za-z0-9]{1,31};")
# Elements of HTML that CMSs leave in headlines. Any other "<x>" may belong to the headline.
_MARKUP = re.compile(
    r"</?(?:a|abbr|b|big|br|cite|code|del|div|em|font|h[1-6]|i|img|ins|li|mark|p|q|s|small|span|strike|strong|sub|sup|tt|u"
    r"|ul|wbr)(?:\s+[A-Za-z-]+\s*=[^<>]*)?\s*/?>|<!--|<!\[CDATA\[",
    re.IGNORECASE,
)
_LOOSE = re.compile(r"[\t\n\r]| {2}")
# Characters without a visible form. XML 1.0 allows some of them: C1 controls, DEL, noncharacters.
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")

# The parts of a date: from a year alone to a time with fractions of a second and a zone.
_DATE = re.compile(
    r"(?P<year>\d{4})(?:(?P<month>-\d\d)(?:(?P<day>-\d\d)"
    r"(?:(?P<minute>T\d\d:\d\d)(?:(?P<second>:\d\d)(?P<fraction>\.\d+)?)?(?P<zone>Z|[+-]\d\d:\d\d)?)?)?)?"
)
# The offsets of XML Schema. The world's time zones reach from -12:00 to +14:00.
_ZONE = re.compile(r"Z|[+-](?:(?:0\d|1[0-3]):[0-5]\d|14:00)")

# Codes of ISO 639-2 with three letters. Their languages have codes of two letters, which hreflang demands.
LONG_FORMS = frozenset(Path(__file__).with_name("long_language_codes.txt").read_text(encoding="ascii").split())

_NEWS_LANGUAGE = re.compile(r"zh-cn|zh-tw|[a-z]{2,3}")
_SCRIPT = re.compile(r"[A-Za-z]{4}")
_THREE_LETTERS = re.compile(r"[a-z]{3}")

# A day begins first at UTC+14 and ends last at UTC-12.
_EAST, _WEST = timedelta(hours=14), timedelta(hours=12)
_A_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Place:
    """The parts of a URL: protocol, path, and host in lower case with any port that is not the default."""

    scheme: str
    host: str
    path: str

    @property
    def directory(self) -> str:
        """Return the path up to its last slash."""
        return self.path[: self.path.rfind("/") + 1] or "/"

    @property
    def is_home(self) -> bool:
        return self.path in {"", "/"}


@dataclass(frozen=True, slots=True)
class Moment:
    """The time that a date means: an instant, or a day in any time zone."""

    at: datetime
    is_day: bool = False

    @property
    def earliest(self) -> datetime:
        return self.at - _EAST if self.is_day else self.at

    @property
    def latest(self) -> datetime:
        return self.at + _A_DAY + _WEST if self.is_day else self.at

    @property
    def end_in_utc(self) -> datetime:
        return self.at + _A_DAY if self.is_day else self.at


def place_of(url: str) -> Place | None:
    """Return the parts of an http or https URL, or None if it is not absolute. Reports nothing."""
    if plain := _PLAIN_URL.fullmatch(url):
        return Place(plain[1], plain[2], plain[3])
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS or not host:
        return None
    name = f"[{host}]" if ":" in host else host
    path = parts.path or "/"
    if path == "/" and parts.query:
        path = f"/?{parts.query}"  # another page than the home page
    return Place(scheme, name if port in (None, DEFAULT_PORTS[scheme]) else f"{name}:{port}", path)


def check_url(text: str, report: Report) -> Place | None:
    """Check the URL of a page, a sitemap or an image (R1.2, R1.4 to R1.6). Return its parts, or None."""
    url = text.strip()
    if url != text and url:
        report("loc-white-space", f"{shown(text)} has white space around it")
    place = place_of(url)
    if not url:
        report("loc-empty", "there is no URL in it")
    elif place is None:
        report("loc-not-absolute", f"{shown(url)} is no absolute http or https URL")
    elif len(url) > LOC_CHARACTERS_MAX or not _PLAIN_URL.fullmatch(url) or _host_fault(place.host):
        _check_parts(url, place, report)
    return place


def _check_parts(url: str, place: Place, report: Report) -> None:
    if len(url) > LOC_CHARACTERS_MAX:
        report("loc-too-long", f"{shown(url)} has {len(url):,} characters, and the limit is {LOC_CHARACTERS_MAX:,}")
    parts = urlsplit(url)
    if fault := _host_fault((parts.hostname or "").lower()):
        report("loc-host", f"the host of {shown(url)} {fault}")
    elif wrong := _NOT_URI.search(url):
        report("loc-characters", f"{shown(url)} has {shown(wrong[0])} in it")
    if escape := _ESCAPE.search(url):
        report("escaped-twice", f"{shown(url)} still has {escape[0]} after unescaping")
    if "#" in url:
        report("loc-fragment", f"{shown(url)} has a fragment")
    if "@" in parts.netloc:
        report("loc-user-information", f"the URL of {shown(place.host)} has a user name in it")
    if _SESSION.search(url):
        report("loc-session", f"{shown(url)} has a session id")
    if names := _TRACKING.findall(url.partition("?")[2] or url.partition("#")[2]):
        report("loc-tracking", f"{shown(url)} has tracking parameters ({', '.join(names[:5])})")
    if parts.netloc.rpartition("@")[2].endswith(f":{DEFAULT_PORTS[place.scheme]}"):
        report("default-port", f"{shown(url)} contains the default port")


@lru_cache(maxsize=1_024)
def _host_fault(host: str) -> str | None:
    """Return the fault of a host (in lower case, without port), or None."""
    if not host.isascii():
        return "is not ASCII"
    if ":" in host or host.replace(".", "").isdigit():
        with suppress(ValueError):
            ipaddress.ip_address(host)
            return None
        return "is no IP address"
    if len(host) > HOST_CHARACTERS_MAX or not all(map(_LABEL.fullmatch, host.removesuffix(".").split("."))):
        return "is no host name"
    return None


@lru_cache(maxsize=1_024)
def is_storage(host: str) -> bool:
    """Return True if a host belongs to a bucket or a distribution (R1.9)."""
    return len(host) <= HOST_CHARACTERS_MAX and _STORAGE.fullmatch(host) is not None


def read_date(text: str) -> tuple[Moment | None, str | None, str]:
    """Return the time that a date means, the kind of fault ("form", "precision" or None), and the message (R1.17, R2.11)."""
    parts = _DATE.fullmatch(text)
    if parts is None:
        return None, "form", f"{shown(text)} is no date of a sitemap"
    year, month, day, minute, second, fraction, zone = parts.groups()
    if zone and not _ZONE.fullmatch(zone):
        return None, "form", f"{shown(text)} has an offset that no time zone has"
    if minute and not zone:
        return None, "form", f"{shown(text)} has no zone"
    time = f"{minute or 'T00:00'}{second or ''}{(fraction or '')[:7]}{zone or 'Z'}"
    try:
        at = utc(datetime.fromisoformat(f"{year}{month or '-01'}{day or '-01'}{time}"))
    except ValueError:
        return None, "form", f"{shown(text)} is a date that does not exist"
    if not day:
        return None, "precision", f"{shown(text)} has no day, which the schema wants"
    if minute and not second:
        return Moment(at), "precision", f"{shown(text)} has no seconds, which the schema wants"
    return Moment(at, is_day=not minute), None, ""


def check_date(text: str, now: datetime, report: Report, kind: str = "date") -> Moment | None:
    """Check a date that must not be in the future (R1.17, R2.11). Its faults break the rules `<kind>-form` and so on."""
    trimmed = text.strip()
    if trimmed != text:
        report("date-white-space", f"the date {shown(text)} has white space around it")
    moment, fault, message = read_date(trimmed)
    if fault:
        report(f"{kind}-{fault if moment or kind == 'date' else 'form'}", message)
    if moment and moment.earliest > now:
        report(f"{kind}-future", f"{shown(trimmed)} is in the future")
    return moment


def check_plain_text(text: str) -> str | None:
    """Return the reason why a title or a name is not plain text (R2.12), or None."""
    if markup := _MARKUP.search(text):
        return f"markup ({shown(markup[0])})"
    if escape := _ESCAPE.search(text) or next(
        (entity for entity in _NAMED_ENTITY.finditer(text) if html.unescape(entity[0]) != entity[0]), None
    ):
        return f"an entity ({escape[0]}) after unescaping"
    return None


def is_escaped_twice(text: str) -> bool:
    """Return True if a value still has escapes of XML after unescaping (R1.2)."""
    return _ESCAPE.search(text) is not None


def is_spaced(text: str) -> bool:
    """Return True if a text has white space around it, or anything but single spaces between its words.

    Non-breaking spaces are allowed: French typography has them before colons.
    """
    return text != text.strip() or _LOOSE.search(text) is not None


def news_language_fault(code: str) -> str | None:
    """Return the fault of a news:language (R2.10), or None. Any three letters are accepted."""
    if not _NEWS_LANGUAGE.fullmatch(code):
        return "is neither zh-cn, zh-tw nor an ISO 639 code of two or three small letters"
    if code == "zh":
        return "does not say which Chinese"
    if len(code) == 2 and code not in LANGUAGES:
        return f"is no ISO 639 language{_hint(code)}"
    return None


def hreflang_fault(code: str) -> str | None:
    """Return the fault of an hreflang (R5.2), or None. Case does not matter."""
    if code.lower() == "x-default":
        return None
    language, *rest = code.split("-")
    is_language = language.lower() in LANGUAGES or _THREE_LETTERS.fullmatch(language.lower())
    if not is_language or language.lower() in LONG_FORMS:
        return f"starts with {language!r}, which is no ISO 639-1 language{_hint(language.lower())}"
    if rest and _SCRIPT.fullmatch(rest[0]):
        rest = rest[1:]
    if not rest:
        return None
    if len(rest) > 1 or rest[0].upper() not in COUNTRIES:
        return f"ends with {'-'.join(rest)!r}, which is no ISO 3166-1 territory of two letters{_hint(rest[0].upper())}"
    return None


def _hint(code: str) -> str:
    return f"; {MEANT[code]}" if code in MEANT else ""
