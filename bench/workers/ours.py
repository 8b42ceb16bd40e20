"""Our own rendering of a case: `python -m bench.workers.ours CASE PAGES.jsonl REPEATS`."""

import json
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.workers import usage
from stoppress.model.alternates import Alternate
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.media import Video
from stoppress.model.site import Site
from stoppress.sitemaps.gzip_text import compressed
from stoppress.sitemaps.render import render_general, render_news

SITE = Site(host="www.example.com", publication="Example News", language="en")
ZLIB_LEVEL = 6


def general(page: dict[str, Any]) -> GeneralEntry:
    """A page as the rewriter has it after it has read the table."""
    return GeneralEntry(
        page["loc"],
        datetime.fromisoformat(page["lastmod"]),
        images=tuple(page.get("images", ())),
        videos=tuple(Video(**video) for video in page.get("videos", ())),
        alternates=tuple(Alternate(*alternate) for alternate in page.get("alternates", ())),
    )


def news(page: dict[str, Any]) -> NewsEntry:
    """An article likewise."""
    return NewsEntry(
        page["loc"], page["title"], datetime.fromisoformat(page["published"]), datetime.fromisoformat(page["lastmod"])
    )


def main() -> None:
    """Render a case as often as asked for."""
    case, path, repeats = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    pages = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if case == "1k_news":
        articles = [news(page) for page in pages]
        now = max(article.published for article in articles)
        usage.report(lambda: render_news(articles, SITE, now.astimezone(UTC)).body, repeats)
        return
    entries = [general(page) for page in pages]
    del pages
    if case == "zlib6_alone":
        body = render_general(entries, SITE).body
        usage.report(lambda: zlib.compress(body, ZLIB_LEVEL), repeats, of_bytes=len(body))
    elif case.endswith("_gzip"):
        usage.report(lambda: compressed(render_general(entries, SITE).body), repeats)
    else:
        usage.report(lambda: render_general(entries, SITE).body, repeats)


if __name__ == "__main__":
    main()
