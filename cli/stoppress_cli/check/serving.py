"""Checks the HTTP headers of a file (R9.1 to R9.3)."""

import re

from stoppress_cli.check.findings import shown
from stoppress_cli.check.input import Source
from stoppress_cli.check.one_pass import Pass

FRESH_AGE_SECONDS_MAX = 300  # R9.3: caches must not keep articles that expire

_TYPES = {
    "urlset": {"application/xml", "text/xml"},
    "sitemapindex": {"application/xml", "text/xml"},
    "feed": {"application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "application/rdf+xml"},
    "text": {"text/plain"},
    "robots": {"text/plain"},
}
_COMPRESSED_TYPES = {"application/gzip", "application/x-gzip"}
_AGE = re.compile(r"\b(s-maxage|max-age)\s*=\s*\"?(\d{1,12})", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w-]+)", re.IGNORECASE)
_KEPT_BY_NOBODY = re.compile(r"\bno-(?:store|cache)\b", re.IGNORECASE)


def check_headers(source: Source, at: Pass) -> None:
    """Checks Content-Type, Content-Encoding and Cache-Control, if the headers are known."""
    if source.headers is None:
        return
    is_compressed = source.name.lower().endswith((".gz", ".gzip"))
    given = source.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    wanted = _COMPRESSED_TYPES if is_compressed else _TYPES.get(at.facts.kind)
    if wanted and kind.strip().lower() not in wanted:
        served = f"as {shown(given)}" if given else "without Content-Type"
        at.tell("content-type", None, f"it is served {served}: serve it as {min(wanted)}")
    elif wanted and not is_compressed and (charset := _CHARSET.search(parameters)):
        if charset[1].lower() != "utf-8":
            at.tell("content-type", None, f"it is served as {shown(given)}: serve it as UTF-8")
    elif kind.strip().lower() == "text/xml" and wanted:
        message = "it is served as text/xml without charset, which some readers take for ASCII: add charset=utf-8"
        at.tell("content-type", None, message)
    if encoding := source.headers.get("content-encoding", "").strip():
        whoever = "so clients unpack it" if is_compressed else "whatever the client accepts"
        at.tell(
            "content-encoding",
            None,
            f"it has Content-Encoding {shown(encoding)}, {whoever}: store it without Content-Encoding",
        )
    is_empty_news = at.facts.only_home and "news" in source.name
    if at.facts.is_news or is_empty_news or at.facts.kind == "sitemapindex":
        _check_cache(source.headers.get("cache-control", ""), at)


def _check_cache(control: str, at: Pass) -> None:
    if not control:
        message = "it has no Cache-Control, so caches may keep it for a day: set public, max-age=60"
        at.tell("cache-control", None, message)
        return
    if _KEPT_BY_NOBODY.search(control):
        return
    ages = {name.lower(): int(age) for name, age in _AGE.findall(control)}
    if not ages or max(ages.values()) > FRESH_AGE_SECONDS_MAX:
        message = f"Cache-Control {shown(control)} lets caches keep it longer than {FRESH_AGE_SECONDS_MAX} s: set public, max-age=60"
        at.tell("cache-control", None, message)
