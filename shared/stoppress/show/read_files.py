"""Read files of the bucket, and find a page's entry in them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoppress.aws import bucket
from stoppress.aws.bucket import StoredFile
from stoppress.model.file_names import is_news
from stoppress.model.site import Site
from stoppress.primitives.text import escaped
from stoppress.sitemaps.tags import under_scheme


@dataclass(frozen=True)
class FileRead:
    """A file that was read: whether it lists the page, and its last change; None if the file does not exist."""

    file: str
    lists: bool
    changed: datetime | None


def read_files(
    site: Site, urls: Sequence[str], files: Iterable[str], *, tags: Sequence[str] = ("<loc>{}</loc>",)
) -> Iterator[FileRead]:
    """Read files, and find out whether they list one of the URLs in one of the tags."""
    for file in dict.fromkeys(files):
        stored = bucket.read(site.host, file)
        lists = find_entry(site, file, stored, urls, tags) is not None
        yield FileRead(file, lists, stored.changed if stored else None)


def find_entry(
    site: Site, file: str, stored: StoredFile | None, urls: Sequence[str], tags: Sequence[str] = ("<loc>{}</loc>",)
) -> bytes | None:
    """Return the entry of a file that has one of the URLs in one of the tags, or None.

    An empty news sitemap lists the home page, but not as news.
    """
    body, spellings = stored.body if stored else b"", [escaped(under_scheme(url, site)) for url in dict.fromkeys(urls)]
    places = [body.find(tag.format(url).encode()) for url in spellings for tag in tags]
    entries = (body[body.rfind(b"<url>", 0, at) : body.find(b"</url>", at)] for at in places if at >= 0)
    return next((entry for entry in entries if b"<news:news>" in entry or not is_news(file)), None)


def listed_at(site: Site, url: str, file: str, at: datetime, now: datetime) -> bool:
    """Return True if a file listed a page before an instant, or if the bucket no longer has its version of that instant."""
    version, stored = bucket.read_at(site.host, file, at - timedelta(seconds=1), now)
    return version is None or find_entry(site, file, stored, [url]) is not None
