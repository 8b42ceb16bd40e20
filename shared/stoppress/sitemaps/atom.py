"""The Atom feed of a series of news sitemaps. Pure functions: equal content gives equal bytes."""

from collections.abc import Iterable
from datetime import UTC, datetime

from stoppress.model.entries import NewsEntry
from stoppress.model.namespaces import ATOM
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.text import escaped
from stoppress.sitemaps.tags import language_of, publication_of, under_scheme

# The limit for a feed: a day of a newsroom that publishes or edits a page every 15 minutes, about 40 KB. Each reader
# fetches all of it.
FEED_ENTRIES_MAX = 100
# `updated` of an empty feed. The date is fixed, so that the bytes stay equal. It is after 1990, because validators doubt older
# dates.
_BEFORE_ANY_ENTRY = datetime(2005, 12, 1, tzinfo=UTC)


def atom_feed(
    entries: Iterable[NewsEntry],
    site: Site,
    *,
    file: str,
    hub: str | None = None,
    title: str | None = None,
    entries_max: int = FEED_ENTRIES_MAX,
) -> bytes:
    """An Atom 1.0 feed (RFC 4287) of the articles that changed last. The title defaults to the publication's name.

    Ids are https URLs whatever the site's scheme, so that they stay when the scheme changes. `hub` is a WebSub hub.
    """
    newest = sorted(sorted(entries, key=lambda entry: entry.loc), key=_updated_at, reverse=True)[:entries_max]
    updated = _updated_at(newest[0]) if newest else _BEFORE_ANY_ENTRY
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<feed xmlns="{ATOM}" xml:lang="{escaped(site.language)}">',
        f"<id>{escaped(f'https://{site.host}/{file}')}</id>",
        f'<title type="text">{escaped(title or site.publication)}</title>',
        f"<updated>{iso(updated)}</updated>",
        _author(site.publication),
        f'<link rel="self" type="application/atom+xml" href="{escaped(f"{site.origin}/{file}")}"/>',
        f'<link rel="alternate" type="text/html" href="{escaped(site.home)}"/>',
        *([f'<link rel="hub" href="{escaped(hub)}"/>'] if hub else []),
    ]
    return "\n".join([*head, *(_atom_line(entry, site) for entry in newest), "</feed>\n"]).encode()


def _atom_line(entry: NewsEntry, site: Site) -> str:
    publication, language = publication_of(entry, site), language_of(entry, site)
    xml_lang = f' xml:lang="{escaped(language)}"' if language != site.language else ""
    author = _author(publication) if publication != site.publication else ""
    return (
        f'<entry{xml_lang}><id>{escaped(entry.loc)}</id><title type="text">{escaped(entry.title)}</title>'
        f'<link rel="alternate" type="text/html" href="{escaped(under_scheme(entry.loc, site))}"/>'
        f"<published>{iso(entry.published)}</published><updated>{iso(_updated_at(entry))}</updated>{author}</entry>"
    )


def _updated_at(entry: NewsEntry) -> datetime:
    """When the article last changed for readers: an edit before its publication counts as its publication."""
    return max(entry.lastmod or entry.published, entry.published)


def _author(publication: str) -> str:
    return f"<author><name>{escaped(publication)}</name></author>"
