"""Django's sitemap renderer, the template of django.contrib.sitemaps: `python django_sitemap.py CASE PAGES.jsonl REPEATS`."""

import gzip
import json
import sys
from datetime import datetime
from pathlib import Path

import django
from django.conf import settings
from django.template.loader import get_template

from bench.workers import usage

ZLIB_LEVEL = 6


def main() -> None:
    """Render a case as often as asked for; the entries are ready, as Sitemap.get_urls makes them."""
    case, path, repeats = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    settings.configure(
        INSTALLED_APPS=["django.contrib.sitemaps"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        USE_TZ=True,
    )
    django.setup()
    pages = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    urls = [{"location": page["loc"], "lastmod": datetime.fromisoformat(page["lastmod"])} for page in pages]
    del pages
    template = get_template("sitemap.xml")

    def render() -> bytes:
        body = template.render({"urlset": urls}).encode()
        return gzip.compress(body, ZLIB_LEVEL, mtime=0) if case.endswith("_gzip") else body

    usage.report(render, repeats, version=django.get_version())


if __name__ == "__main__":
    main()
