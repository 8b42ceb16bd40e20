"""The sitemaps of the sites as readers see them, parsed with the standard library instead of our own code."""

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from stoppress_cli.local.stack import Stack

INDEX = "sitemap.xml"
MORE_INDEXES_PREFIX = "sitemap-index-"
NEWS_PREFIX = "sitemap-news"
_SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
_NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"


@dataclass(frozen=True)
class File:
    key: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def text(self) -> bytes:
        return gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body


@dataclass
class Listed:
    """The pages and files that all files of a site list."""

    files: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    news: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    lastmod: dict[str, str | None] = field(default_factory=dict)
    news_files: dict[str, int] = field(default_factory=dict)
    found_in: dict[str, str] = field(default_factory=dict)  # the general shard of each URL


def read(stack: Stack, host: str | None = None) -> Iterator[File]:
    """Return the objects of the bucket, or of one site, in the order of their keys."""
    client, bucket = stack.client("s3"), stack.only("AWS::S3::Bucket").ref
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{host}/" if host else "")
    for row in (row for page in pages for row in page.get("Contents", [])):
        answer = client.get_object(Bucket=bucket, Key=row["Key"])
        yield File(row["Key"], answer["Body"].read(), answer["ResponseMetadata"]["HTTPHeaders"])


def listed(files: list[File]) -> Listed:
    """Return what the files of one site list: articles with news:news, and the URLs in the shards of the index.

    If the index lists a file's gzip, the XML beside it is read. Other forms (.txt, .atom, robots.txt) count as files. An emptied
    file lists the home page, which does not count: its entry has no news:news, and the index does not list an emptied
    shard. Raises ValueError for a file that is not XML.
    """
    result = Listed(files=sorted(file.name for file in files))
    roots = {file.name: _root(file) for file in files if file.name.endswith(".xml")}
    if (index := roots.get(INDEX)) is not None:
        indexes = [index, *(root for name, root in roots.items() if name.startswith(MORE_INDEXES_PREFIX))]
        locations = [
            str(loc.text).strip() for root in indexes for loc in root.findall(f"{_SITEMAP}sitemap/{_SITEMAP}loc")
        ]
        result.index = [location.rsplit("/", 1)[-1] for location in locations]
    for name, root in roots.items():
        if name.startswith(NEWS_PREFIX):
            result.news_files[name] = 0
        for url in root.iter(f"{_SITEMAP}url"):
            _add(result, name, url)
    return result


def _root(file: File) -> ET.Element:
    try:
        return ET.fromstring(file.text)  # noqa: S314 - our own files
    except ET.ParseError as error:
        raise ValueError(f"{file.key} is not XML: {error}") from error


def _add(result: Listed, name: str, url: ET.Element) -> None:
    loc = (url.findtext(f"{_SITEMAP}loc") or "").strip()
    news = url.find(f"{_NEWS}news")
    if name.startswith(NEWS_PREFIX):
        if news is not None:
            result.news.append(loc)
            result.news_files[name] += 1
            result.titles[loc] = news.findtext(f"{_NEWS}title") or ""
    elif name in result.index or f"{name}.gz" in result.index:
        result.urls.append(loc)
        result.lastmod[loc] = url.findtext(f"{_SITEMAP}lastmod")
        result.found_in[loc] = name
