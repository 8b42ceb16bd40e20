"""xml-sitemap-writer, which writes gzip files: `python xml_sitemap_writer_peer.py 50k_gzip PAGES.jsonl REPEATS`."""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from xml_sitemap_writer import XMLSitemap

from bench.workers import usage

ZLIB_LEVEL = 6
URLS_A_FILE = 50_000


class OneFile(XMLSitemap):  # type: ignore[misc]
    """All in one file, packed as tightly as the others pack; unless told it makes files of 15,000 at level 9."""

    URLS_PER_FILE = URLS_A_FILE
    GZIP_COMPRESSION_LEVEL = ZLIB_LEVEL


def main() -> None:
    """Render as often as asked for."""
    path, repeats = Path(sys.argv[2]), int(sys.argv[3])
    pages = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    origin = "/".join(pages[0]["loc"].split("/")[:3])
    paths = [(page["loc"].removeprefix(origin), page["lastmod"]) for page in pages]
    del pages

    def render() -> list[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            with OneFile(folder, origin) as sitemap:
                for loc, lastmod in paths:
                    sitemap.add_url(loc, lastmod=lastmod)
            return [file.read_bytes() for file in sorted(Path(folder).glob("sitemap-*.gz"))]

    usage.report(render, repeats, version=version("xml_sitemap_writer"))


if __name__ == "__main__":
    main()
