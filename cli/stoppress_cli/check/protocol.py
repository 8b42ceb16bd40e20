"""Limits and namespaces of the protocol and of Google. The checker has its own, because it also judges Stoppress's files."""

from datetime import timedelta

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO = "http://www.google.com/schemas/sitemap-video/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
ATOM = "http://www.w3.org/2005/Atom"

URLS_MAX = 50_000  # R1.10; sitemaps of an index: R1.11
BYTES_MAX = 52_428_800  # R1.10
LOC_CHARACTERS_MAX = 2_047  # R1.4: fewer than 2,048
NEWS_ENTRIES_MAX = 1_000  # R2.4
NEWS_HOURS = 48  # R2.5
NEWS_WINDOW = timedelta(hours=NEWS_HOURS)
IMAGES_MAX = 1_000  # R3.1, of a page

VIDEO_TITLE_MAX = 100  # characters
VIDEO_DESCRIPTION_MAX = 2_048  # characters, R4.1
VIDEO_DURATION_S_MAX = 28_800  # R4.2, as the next four
VIDEO_RATING_MAX = 5
VIDEO_UPLOADER_MAX = 255  # characters
VIDEO_TAGS_MAX = 32
VIDEO_PLATFORMS = {"web", "mobile", "tv"}
