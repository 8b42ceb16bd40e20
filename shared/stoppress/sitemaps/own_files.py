"""Recognises a file that Stoppress wrote, even if a proxy removed the file's `x-amz-meta-config` header."""

import re
from collections.abc import Sequence
from html import unescape
from urllib.parse import urlsplit

from stoppress.model.file_names import ATOM, WRITTEN
from stoppress.model.site import Site
from stoppress.primitives.urls import host_of
from stoppress.sitemaps import render

_PUBLISHED = re.compile(r"<news:publication_date>([^<]*)")
_LASTMOD = re.compile(r"<lastmod>([^<]*)")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def is_own_file(url: str, body: bytes, site: Site) -> bool:
    """Return True if a body has the name and the bytes of a file that Stoppress wrote for the site.

    The name alone is no proof: before a migration the CMS serves its own `/sitemap.xml`. So the body must equal, byte for byte,
    what Stoppress would write with the same lines. Lines must have Stoppress's order, and instants its form.
    """
    name = urlsplit(url).path.rpartition("/")[2]
    if not WRITTEN.fullmatch(name):
        return False
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    if name.endswith(".atom"):
        id_line = rf"<id>https://{re.escape(site.host)}/{re.escape(name)}</id>"
        return re.match(rf'[^\n]*\n<feed xmlns="{ATOM}" xml:lang="[^"]*">\n{id_line}\n', text) is not None
    lines = text.split("\n")[2:-2]
    if not lines or host_of(_loc(lines[0])) != site.host or not _has_our_instants(lines, site):
        return False
    if lines[0].startswith("<sitemap>"):
        names = (urlsplit(_loc(line)).path.removeprefix("/") for line in lines)
        return render.index_file(lines) == body and all(map(WRITTEN.fullmatch, names))
    if _PUBLISHED.search(lines[0]):
        dates = [date[1] if (date := _PUBLISHED.search(line)) else "" for line in lines]
        return render.news_file(lines) == body and dates == sorted(dates, reverse=True)
    pages = [_loc(line) for line in lines]
    return render.general_file(lines) == body and pages == sorted(pages)


def _loc(line: str) -> str:
    loc = re.match(r"<(?:url|sitemap)><loc>([^<]*)</loc>", line)
    return unescape(loc[1]) if loc else ""


def _has_our_instants(lines: Sequence[str], site: Site) -> bool:
    """Return True if all instants have Stoppress's form. Lines without any instant must list the home page or pages of the configuration."""
    instants = [instant for line in lines for pattern in (_LASTMOD, _PUBLISHED) for instant in pattern.findall(line)]
    if not instants:  # the scheme is ignored, because it may have changed since the file was written
        pages = {url.partition("://")[2] for url in (site.home, *site.pages_by_url)}
        return all(_loc(line).partition("://")[2] in pages for line in lines)
    return all(map(_INSTANT.fullmatch, instants))
