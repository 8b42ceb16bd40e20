"""Rendering of a case in its own process, by Stoppress or a peer: `python -m bench.worker RENDERER CASE PAGES.jsonl REPEATS`.

It prints the CPU, and the memory that the first rendering adds. Each renderer has its entries ready before it is measured.
"""

import ctypes
import gc
import gzip
import json
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MIB_IN_KIB = 1_024
ZLIB_LEVEL = 6
URLS_A_FILE = 50_000

Pages = list[dict[str, Any]]
Render = Callable[[], bytes]


def prepare_stoppress(case: str, pages: Pages) -> Render:
    """Return the rendering of Stoppress, of entries as the rewriter has them after it has read the table."""
    from stoppress.model.entries import Alternate, GeneralEntry, NewsEntry
    from stoppress.model.site import Site
    from stoppress.sitemaps.other_forms import compressed
    from stoppress.sitemaps.render import render_general, render_news

    site = Site(host="www.example.com", publication="Example News", language="en")
    time_of = datetime.fromisoformat
    if case == "1k_news":
        articles = [
            NewsEntry(page["loc"], page["title"], time_of(page["published"]), time_of(page["lastmod"]))
            for page in pages
        ]
        now = max(article.published for article in articles).astimezone(UTC)
        return lambda: render_news(articles, site, now).body
    entries = [
        GeneralEntry(
            page["loc"],
            time_of(page["lastmod"]),
            images=tuple(page.get("images", ())),
            videos=tuple(tuple(video.items()) for video in page.get("videos", ())),
            alternates=tuple(Alternate(*alternate) for alternate in page.get("alternates", ())),
        )
        for page in pages
    ]
    if case == "zlib6_alone":
        body = render_general(entries, site).body
        return lambda: zlib.compress(body, ZLIB_LEVEL)
    if case.endswith("_gzip"):
        return lambda: compressed(render_general(entries, site).body)
    return lambda: render_general(entries, site).body


def prepare_django(case: str, pages: Pages) -> Render:
    """Return the rendering of django.contrib.sitemaps' template, of entries as Sitemap.get_urls creates them."""
    import django
    from django.conf import settings
    from django.template.loader import get_template

    settings.configure(
        INSTALLED_APPS=["django.contrib.sitemaps"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        USE_TZ=True,
    )
    django.setup()
    urls = [{"location": page["loc"], "lastmod": datetime.fromisoformat(page["lastmod"])} for page in pages]
    template = get_template("sitemap.xml")

    def render() -> bytes:
        body: bytes = template.render({"urlset": urls}).encode()
        return gzip.compress(body, ZLIB_LEVEL, mtime=0) if case.endswith("_gzip") else body

    return render


def prepare_xml_sitemap_writer(_case: str, pages: Pages) -> Render:
    """Return xml-sitemap-writer's rendering: one gzip file at our level, where its default is files of 15,000 at level 9."""
    from xml_sitemap_writer import XMLSitemap

    settings = {"URLS_PER_FILE": URLS_A_FILE, "GZIP_COMPRESSION_LEVEL": ZLIB_LEVEL}
    writer = type("OneFile", (XMLSitemap,), settings)
    origin = "/".join(pages[0]["loc"].split("/")[:3])
    paths = [(page["loc"].removeprefix(origin), page["lastmod"]) for page in pages]

    def render() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            with writer(folder, origin) as sitemap:
                for loc, lastmod in paths:
                    sitemap.add_url(loc, lastmod=lastmod)
            return b"".join(file.read_bytes() for file in sorted(Path(folder).glob("sitemap-*.gz")))

    return render


RENDERERS: dict[str, Callable[[str, Pages], Render]] = {
    "stoppress": prepare_stoppress, "django": prepare_django, "xml-sitemap-writer": prepare_xml_sitemap_writer,
}  # fmt: skip


def measure(render: Render, repeats: int) -> dict[str, float]:
    """Render `repeats` times; return the median CPU, the peak memory that the first rendering adds, and the size."""
    gc.collect()
    before_mib = _trimmed_mib()
    body = b""
    times = []
    added_mib = 0.0
    for number in range(repeats):
        body = b""
        gc.collect()
        began = time.process_time()
        body = render()
        times.append(time.process_time() - began)
        if number == 0:
            added_mib = _peak_mib() - before_mib
    return {"cpu_ms": round(median(times) * 1_000, 2), "peak_mib": round(added_mib, 1), "bytes": len(body)}


def _trimmed_mib() -> float:
    """Return the resident memory after freed memory is released, and reset the peak where Linux can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text("5")
        return _status_mib("VmRSS")
    except (OSError, AttributeError):
        return _peak_mib()


def _peak_mib() -> float:
    try:
        return _status_mib("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB_IN_KIB


def _status_mib(name: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / MIB_IN_KIB


def main() -> None:
    """Measure and print one line of JSON."""
    renderer, case, path, repeats = sys.argv[1:]
    pages = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    render = RENDERERS[renderer](case, pages)
    del pages
    print(json.dumps(measure(render, int(repeats)) | {"version": version(renderer)}))


if __name__ == "__main__":
    main()
