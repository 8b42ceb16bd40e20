"""The HTTP headers of published files: Content-Type and Cache-Control."""

from collections.abc import Mapping

from stoppress.model.file_names import is_shard

# By the end of the file's name. Gzip is the file itself, not an encoding of it: no Content-Encoding (R9.1, R9.2).
CONTENT_TYPES: Mapping[str, str] = {
    ".xml": "application/xml; charset=utf-8",
    ".xml.gz": "application/gzip",
    ".txt": "text/plain; charset=utf-8",  # robots.txt too (RFC 9309, 2.3)
    ".atom": "application/atom+xml; charset=utf-8",
}
# Crawlers see new articles after a minute (R9.3), an edited page of a shard after five.
CACHE_FRESH = "public, max-age=60"
CACHE_SHARD = "public, max-age=300"


def content_type(file: str) -> str:
    return next(kind for suffix, kind in CONTENT_TYPES.items() if file.endswith(suffix))


def headers(file: str) -> tuple[str, str]:
    return content_type(file), CACHE_SHARD if is_shard(file) else CACHE_FRESH
