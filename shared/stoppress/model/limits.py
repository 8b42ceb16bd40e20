"""Limits of the sitemap protocol and of Google News."""

# sitemaps.org: at most 50,000 URLs and 50 MiB uncompressed in a sitemap (R1.10), 50,000 sitemaps in an index (R1.11).
URLS_MAX = 50_000
INDEX_ENTRIES_MAX = 50_000
BYTES_MAX = 52_428_800
# Google: at most 1,000 news:news in a sitemap (R2.4).
NEWS_ENTRIES_MAX = 1_000
# Upper bound for declaration, root element, namespaces, and one byte for each page if the site changes to https.
FRAME_BYTES_MAX = 65_536


class FileTooLarge(ValueError):
    """A file would exceed a limit. Nothing is written; the last good file remains."""
