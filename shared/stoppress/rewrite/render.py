"""Makes a file from the table: from all its entries, or by folding changed entries into the object. Nothing here writes."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.items import Item, file_pk, read_general, read_mark, read_news
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, is_news, is_pages
from stoppress.model.site import Site
from stoppress.rewrite.attempt import Attempt, form_of
from stoppress.rewrite.output_formats import Forms
from stoppress.sitemaps.fold import fold_general, fold_index, fold_news
from stoppress.sitemaps.render import Rendered, render_general, render_index, render_news, render_pages
from stoppress.sitemaps.robots import named_in_robots, robots_txt, rules_of

# DynamoDB: a strongly consistent read unit reads 4 KB.
READ_UNIT_BYTES = 4_096
# As many entries as one call reads.
FOLD_ENTRIES_MAX = table.BATCH_KEYS_MAX
# A file is made from all its entries at least this often, so that a change that was missed is corrected by then.
WHOLE_EVERY = timedelta(hours=6)


def fold(attempt: Attempt) -> tuple[Rendered, Forms] | None:
    """Replace the changed entries in the stored file. None if the file must be made from all its entries.

    The entries are read after the object, as in `render`: a rewriter that read older entries loses the conditional PUT.
    """
    site, file, stored, entries = attempt.site, attempt.file, attempt.stored, attempt.request.entries
    if entries is None or stored is None or not _can_fold(site, file, stored, attempt.now):
        return None
    # A key costs a read unit however small its item is; reading the partition costs one for each 4 KB.
    if len(entries) > min(FOLD_ENTRIES_MAX, len(stored.body) // READ_UNIT_BYTES):
        return None
    pk, keys = file_pk(site.host, file), sorted(entries)
    items = table.get_many((pk, sk) for sk, _ in keys)
    read: Callable[[Item], Any] = read_mark if file == INDEX_FILE else read_news if is_news(file) else read_general
    changed = {(sk, loc): read(items[pk, sk]) if (pk, sk) in items else None for sk, loc in keys}
    if file == INDEX_FILE:
        marks = {name: mark for (name, _), mark in changed.items() if name != INDEX_FILE}
        rendered = fold_index(stored.body, marks, site)
    elif is_news(file):
        dated = {(sk.partition("#")[0], loc): entry for (sk, loc), entry in changed.items()}
        rendered = fold_news(stored.body, dated, site, attempt.now)
    else:
        rendered = fold_general(stored.body, {loc: entry for (_, loc), entry in changed.items()}, site)
    news = list(filter(None, changed.values())) if is_news(file) else []
    return (rendered, Forms(site, file, rendered, attempt.now, news=news)) if rendered else None


def _can_fold(site: Site, file: str, stored: StoredFile, now: datetime) -> bool:
    """Return True if this configuration wrote the object, line by line, and made it from all its entries not long ago.

    A feed needs all entries.
    """
    is_made_alike = stored.form == form_of(site)
    is_young = stored.whole is not None and now < stored.whole + WHOLE_EVERY
    return is_made_alike and is_young and not is_pages(file) and not (is_news(file) and site.outputs.atom)


def render(site: Site, file: str, now: datetime) -> tuple[Rendered, Forms]:
    """Make a file from all entries of its partition. Raises FileTooLarge and the table's errors."""
    if file == ROBOTS_FILE:
        body = robots_txt(site, named_in_robots(site), rules) if (rules := rules_of(site)) is not None else b""
        rendered = Rendered(body, len(body), None)
        return rendered, Forms(site, file, rendered, now)
    items = table.query(file_pk(site.host, file))
    if file == INDEX_FILE:
        marks = (mark for mark in map(read_mark, items) if mark.file != INDEX_FILE)
        rendered, *more = render_index(marks, site)
        return rendered, Forms(site, file, rendered, now, more_indexes=more)
    if is_news(file):
        news = [read_news(item) for item in items]
        rendered = render_news(news, site, now)
        return rendered, Forms(site, file, rendered, now, news=news)
    stored = {item["sk"]: read_general(item) for item in items}
    departed = frozenset(key for key, entry in stored.items() if entry is None)
    entries = filter(None, stored.values())
    rendered = (render_pages if is_pages(file) else render_general)(entries, site, departed)
    return rendered, Forms(site, file, rendered, now)
