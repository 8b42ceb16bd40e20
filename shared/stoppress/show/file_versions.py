"""The pages that files listed at an earlier moment, from their versions in the bucket. S3 has whole seconds: a moment ends its second."""

import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any

from stoppress.aws import bucket
from stoppress.model.site import Site
from stoppress.notify.sitemap_reports import reads_since
from stoppress.primitives.dates import instant
from stoppress.show.question import Unclear, find_question
from stoppress.show.read_files import find_entry
from stoppress.show.read_story import candidates, read_facts

# The answer, under the keys of `explain --at --json`.
Past = dict[str, Any]
# The texts of a page that an answer shows, and their tags in a file.
TAGS = {"title": "news:title", "published": "news:publication_date", "lastmod": "lastmod"}


def read_moment(text: str, site: Site, now: datetime) -> datetime:
    """Read an earlier moment, cut to the second; one without a zone is in the site's zone. Raises Unclear."""
    at = instant(text, site.zone)
    if at is None or at > now:
        raise Unclear(f"{text[:60]!r} is no date and time of the past such as 2026-11-20T14:03")
    return at


def past_of(asked: str, host: str | None, moment: str, now: datetime) -> Past:
    """Return which files listed a page at a moment: `url`, `site`, `timezone`, `at`, `listings`, and `unknown` for files without a version.

    A listing has `file`, its version's `put_at` and `until` (None: it is the present one), the next read of Google as `_find_next_read`
    returns it, and the texts of TAGS. Raises the errors of `find_question` and `read_moment`.
    """
    question = find_question(asked, host, now)
    site, facts = question.site, read_facts(question, now)
    at, listings, unknown = read_moment(moment, site, now), [], []
    for file in candidates(facts):
        version, stored = bucket.read_at(site.host, file, at, now)
        if version is None:
            unknown.append(file)
        elif entry := find_entry(site, file, stored, facts.spellings):
            tags = {name: re.search(f"<{tag}>([^<]*)<", entry.decode()) for name, tag in TAGS.items()}
            of_version = {"file": file, "put_at": version.put_at, "until": version.until}
            texts = {name: unescape(tag[1]) if tag else "" for name, tag in tags.items()}
            listings.append(of_version | _find_next_read(site.host, file, at, now) | texts)
    of_site = {"site": site.host, "timezone": site.timezone}
    return {"url": facts.url, **of_site, "at": at, "listings": listings, "unknown": unknown}


def _find_next_read(host: str, file: str, at: datetime, now: datetime) -> dict[str, datetime | None]:
    """Return when Google first read a file after a moment, as far as reports show it, and when the version that it read was put.

    A version of the same second does not count: Google may have come before it.
    """
    read = min((read for read, _ in reads_since(host, file, at)), default=None)
    version = bucket.version_at(bucket.versions(host, file), read - timedelta(seconds=1), now) if read else None
    put_at = version.put_at if version and version.id else None
    return {"next_read_by_google": read, "version_read_by_google": put_at}
