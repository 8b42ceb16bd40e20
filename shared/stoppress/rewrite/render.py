"""Rendering: a file as the table has it now, whole or folded, with its other forms; and whether it may be put.

For rewriting. Nothing here writes.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from stoppress.aws import table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.items import file_pk, read_general, read_mark, read_news, read_series, series_files
from stoppress.aws.queues import RewriteRequest
from stoppress.check.checker import check
from stoppress.check.findings import Findings
from stoppress.check.input import InMemory, Source
from stoppress.model.entries import NewsEntry
from stoppress.model.file_names import (
    INDEX_FILE,
    ROBOTS_FILE,
    atom_name,
    index_part_name,
    is_news,
    is_pages,
    is_shard,
    series_of,
    text_name,
)
from stoppress.model.site import Site
from stoppress.sitemaps.atom import atom_feed
from stoppress.sitemaps.fold import fold_general, fold_index, fold_news
from stoppress.sitemaps.gzip_text import compressed, text_sitemap
from stoppress.sitemaps.lines import RENDERER
from stoppress.sitemaps.render import Rendered, in_window, render_general, render_index, render_news, render_pages
from stoppress.sitemaps.robots import named_in_robots, robots_txt

# DynamoDB: what a strongly consistent read unit reads.
READ_UNIT_BYTES = 4_096
# More entries than one call reads are not folded in.
FOLD_ENTRIES_MAX = table.BATCH_KEYS_MAX
# Into an older file nothing is folded: whatever it has missed, by a fault of ours or of others, it misses for so long.
WHOLE_EVERY = timedelta(hours=6)

# What the words of one entry can break harms that entry: it is no reason to hold back the file of all the others.
SPARED = frozenset(
    {
        "alternate-not-mutual",
        "escaped-twice",
        "hreflang",
        "news-home",
        "news-language",
        "news-name",
        "title-empty",
        "title-markup",
        "video-description",
        "video-url",
        "video-value",
    }
)

# The other files that are published with a file, by their names: its gzip, its text, the feed of a news sitemap.
Forms = Callable[[], dict[str, bytes]]


class BrokenFile(ValueError):
    """A file would break a rule of the protocol. Nothing is written; the last good file stands."""


def fold(site: Site, work: RewriteRequest, stored: StoredFile | None, now: datetime) -> tuple[Rendered, Forms] | None:
    """The file as it is with the entries that changed as they are now; None where all of its entries have to be read.

    The entries are read after the object, as the whole partition would be: who writes first with an older one loses.
    """
    file, entries = work.file, work.entries
    if entries is None or stored is None or not _can_fold(site, file, stored, now):
        return None
    # A key is a unit to read, however small its item is; read as a whole, a partition is one for each 4 KB.
    if len(entries) > min(FOLD_ENTRIES_MAX, len(stored.body) // READ_UNIT_BYTES):
        return None
    pk = file_pk(site.host, file)
    found = table.get_many((pk, sk) for sk, _ in sorted(entries))
    items = {(sk, loc): found.get((pk, sk)) for sk, loc in sorted(entries)}
    rendered: Rendered | None
    if file == INDEX_FILE:
        marks = {name: read_mark(item) if item else None for (name, _), item in items.items() if name != INDEX_FILE}
        rendered = fold_index(stored.body, marks, site)
    elif is_news(file):
        dated = {(sk.partition("#")[0], loc): read_news(item) if item else None for (sk, loc), item in items.items()}
        rendered = fold_news(stored.body, dated, site, now)
    else:
        pages = {loc: read_general(item) if item else None for (_, loc), item in items.items()}
        rendered = fold_general(stored.body, pages, site)
    if rendered is None:
        return None
    text = partial(_text, site, file, rendered) if is_shard(file) else dict
    return rendered, lambda: _packed(site, {file: rendered.body}) | text()


def _can_fold(site: Site, file: str, stored: StoredFile, now: datetime) -> bool:
    """Whether the object was written by us, by this configuration, line by line, and as a whole not long ago.

    A feed is made from whole entries.
    """
    made_alike = stored.config_version == site.version and stored.form == form_of(site)
    young = stored.whole is not None and now < stored.whole + WHOLE_EVERY
    return made_alike and young and not is_pages(file) and not (is_news(file) and site.outputs.atom)


def form_of(site: Site) -> str:
    """What a line is made by, besides its entry."""
    return f"{RENDERER}.{site.digest}"


def render(site: Site, file: str, now: datetime) -> tuple[Rendered, Forms]:
    """A file as its partition, the configuration and the clock have it now. Raises FileTooLarge, and what the doors raise."""
    if file == ROBOTS_FILE:
        body = robots_txt(site, named_in_robots(site), site.robots) if site.robots is not None else b""
        return Rendered(body, len(body), None), dict
    items = table.query(file_pk(site.host, file))
    if file == INDEX_FILE:
        parts = render_index((mark for mark in map(read_mark, items) if mark.file != INDEX_FILE), site)
        more = {index_part_name(number): part.body for number, part in enumerate(parts[1:], 2)}
        return parts[0], lambda: more | _packed(site, {file: parts[0].body} | more)
    if is_news(file):
        news = [read_news(item) for item in items]
        rendered = render_news(news, site, now)
        return rendered, lambda: _packed(site, {file: rendered.body}) | _feed(site, file, news, now)
    entries = [read_general(item) for item in items]
    rendered = (render_pages if is_pages(file) else render_general)(entries, site)
    return rendered, lambda: _packed(site, {file: rendered.body}) | _text(site, file, rendered)


def _packed(site: Site, bodies: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": compressed(body) for name, body in bodies.items()} if site.outputs.gzip else {}


def _text(site: Site, file: str, rendered: Rendered) -> dict[str, bytes]:
    return {text_name(file): text_sitemap(rendered.locs, site)} if site.outputs.text else {}


def _feed(site: Site, file: str, news: list[NewsEntry], now: datetime) -> dict[str, bytes]:
    """The feed of a series of news sitemaps, from all its files."""
    if not site.outputs.atom:
        return {}
    name = series_of(file)
    series = read_series(name, table.get(f"places#{site.host}", name))
    others = [table.query(file_pk(site.host, other)) for other in series_files(series) if other != file]
    entries = in_window([*news, *(read_news(item) for items in others for item in items)], site, now)
    return {atom_name(name): atom_feed(entries, site, file=atom_name(name), hub=site.outputs.hub)}


def assert_valid(site: Site, file: str, rendered: Rendered, changed: datetime) -> None:
    """What `stoppress check` asks of anybody's files, asked of ours before anybody can read them. Raises BrokenFile.

    Of a file that was folded into, the lines that are new: the others have been held to it.
    """
    body = rendered.body if rendered.fresh is None else rendered.fresh
    if file == ROBOTS_FILE or not body:
        return
    findings = Findings(each_max=1, severities=frozenset({"error"}))
    source = Source(file, f"{site.origin}/{file}", InMemory(file, body))
    check([source], findings, changed, is_all=False)
    if broken := [found for found in findings if found.rule.name not in SPARED]:
        said = "; ".join(f"line {found.line}: {found.rule.id} {found.message}" for found in broken)
        raise BrokenFile(f"{file} would break the protocol, and is not written: {said}")
