"""Forgetting: what is to leave the table, the quarantine, the queues and the older versions of the files, for good.

First the article is removed as its source would remove it, so that the files are rewritten by who writes them; what is left of
it is erased after that. A tombstone without content stays, known by a hash of the URL and the id in the CMS: without it an event
that is late would bring the article back.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoppress.aws import bucket, queues, sites, table
from stoppress.aws.bucket import bucket_name
from stoppress.aws.clients import client
from stoppress.aws.inventory import all_files
from stoppress.aws.items import (
    Item,
    article_item,
    article_key,
    claim_item,
    claim_key,
    read_article,
    read_claim,
    waiting_key,
)
from stoppress.aws.table import Put
from stoppress.model.article import FORGOTTEN, Article, Claim
from stoppress.model.event import ArticleEvent
from stoppress.model.file_names import is_news
from stoppress.model.site import FEED_SOURCE, Site
from stoppress.primitives.instants import parse
from stoppress.primitives.text import escaped
from stoppress.primitives.urls import canonical, host_of, identity, key_of, on_site
from stoppress.record.message import UNKNOWN_SITE
from stoppress.sitemaps.render import under_scheme
from stoppress_cli.printing import counted
from stoppress_cli.stack import redrive
from stoppress_cli.stack.explain import is_said_of

# How long the functions are given to remove the article and to write its files.
PATIENCE = timedelta(minutes=2)
_LOOKS_EVERY_S = 2
# S3: at most 1,000 keys in a DeleteObjects.
_DELETE_MAX = 1_000


@dataclass
class Traces:
    """What there is of a page, by where it is."""

    site: Site
    urls: tuple[str, ...]
    articles: list[Article] = field(default_factory=list)
    claims: list[tuple[Claim, Item]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # that list it now
    items: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # keys of story, quarantine and due records
    versions: dict[str, list[str]] = field(default_factory=dict)  # by key, of the files that may have listed it
    letters: dict[redrive.Name, int] = field(default_factory=dict)

    @property
    def listed(self) -> list[Article]:
        """The articles that are still to be removed."""
        return [one for one in self.articles if one.state != "removed"]

    @property
    def told(self) -> list[Article]:
        """Removed articles of which more is known than that."""
        return [one for one in self.articles if one.state == "removed" and one != _tombstone(one)]

    @property
    def anything(self) -> bool:
        """Whether anything is left but tombstones."""
        named = any("url" in item for _, item in self.claims)
        return bool(
            self.listed or self.told or named or self.files or any(self.items.values()) or self.versions
        ) or bool(sum(self.letters.values()))

    def lines(self) -> Iterator[str]:
        """What is to go, a line each."""
        for one in self.listed:
            yield f"article {one.name} is {one.state}: it is removed first, as its source would"
        for file in self.files:
            yield f"{file} lists it: it is written again without"
        for one in self.told:
            yield f"article {one.name}: all but its id and its order is erased; a tombstone stays"
        for claim, item in self.claims:
            if "url" in item:
                yield f"the claim on {claim.url}: a tombstone stays, known by a hash of the URL"
        for kind, keys in self.items.items():
            yield f"{counted(len(keys), 'item')} of {kind}"
        for queue, number in self.letters.items():
            yield f"{counted(number, 'dead letter')} of {queue}"
        for key, versions in self.versions.items():
            yield f"{counted(len(versions), 'older version')} of {key}"


def gather(target: str, host: str | None) -> Traces:
    """What there is of a URL, or of an article by its id (`1042`, or `cms#1042` where several sources have it).

    Raises ValueError, UnknownSite, BadConfiguration, and what the doors raise.
    """
    if "://" in target:
        url = canonical(target)
        site = sites.load_usable(host or host_of(url))
        asked = on_site(url, site.host)
        articles = _of_urls(site, (asked,))
        # The spelling that was asked for, and those that the articles have.
        urls: tuple[str, ...] = tuple(dict.fromkeys([asked, *(one.url for one in articles if one.url)]))
    else:
        site = _site_of_id(host)
        articles = _of_id(site, target)
        # A displaced article's URL is another's page.
        urls = tuple(dict.fromkeys(one.url for one in articles if one.url and one.state != "displaced"))
        if not articles:
            raise ValueError(f"{site.host} knows no article {target!r}: give its URL, or <source>#<id>")
    traces = Traces(site, urls, articles)
    found = table.get_many(claim_key(site.host, url) for url in urls)
    traces.claims = [
        (read_claim(found[key], url), found[key]) for url in _pages(urls) if (key := claim_key(site.host, url)) in found
    ]
    traces.files = [file for file in _may_list(site, articles) if _lists(site, file, urls)]
    traces.items = {kind: keys for kind, keys in _items(site, urls, articles).items() if keys}
    traces.versions = dict(_older_versions(site, articles)) if articles or traces.claims else {}
    traces.letters = {queue: number for queue in redrive.NAMES if (number := _letters(traces, queue, erase=False))}
    return traces


def forget(
    target: str,
    host: str | None,
    now: datetime,
    *,
    show: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> Traces:
    """Remove, wait until the files are without it, erase; what is left afterwards, to be tried again. Raises as `gather`."""
    traces = gather(target, host)
    for line in traces.lines():
        show(line)
    queues.send_articles([_removal(traces.site, one, now) for one in traces.listed])
    for _ in range(int(PATIENCE.total_seconds() / _LOOKS_EVERY_S)):
        if not (traces.listed or traces.files):
            break
        pause(_LOOKS_EVERY_S)
        known = table.get_many(article_key(traces.site.host, one.name) for one in traces.articles)
        traces.articles = [read_article(item) for item in known.values()]
        traces.files = [
            file for file in _may_list(traces.site, traces.articles) if _lists(traces.site, file, traces.urls)
        ]
    _erase(traces)
    return gather(target, host)


# ── finding it ──


def _site_of_id(host: str | None) -> Site:
    if host:
        return sites.load_usable(host)
    good, _ = sites.load_all()
    if len(good) != 1:
        raise ValueError(f"an id is one of a site, and there are {len(good)}: say which with --site")
    return good[0]


def _of_urls(site: Site, urls: tuple[str, ...]) -> list[Article]:
    """The articles that have or had these pages. One that has moved on to another URL is another page now."""
    claims = table.get_many(claim_key(site.host, url) for url in urls)
    names = {str(item["owner"]) for item in claims.values()}
    for url in urls:
        names |= {"#".join(line["sk"].split("#")[1:-1]) for line in table.query(f"story#{site.host}#{key_of(url)}")}
    found = map(read_article, table.get_many(article_key(site.host, name) for name in sorted(names)).values())
    pages = {identity(url) for url in urls}
    return [one for one in found if identity(one.url or "") in pages or one.reason == FORGOTTEN]


def _of_id(site: Site, target: str) -> list[Article]:
    names = [target] if "#" in target else [f"{source}#{target}" for source in (*site.sources, FEED_SOURCE)]
    found = [read_article(item) for item in table.get_many(article_key(site.host, name) for name in names).values()]
    if len(found) > 1:
        raise ValueError(f"{target!r} names {' and '.join(one.name for one in found)}: say which, as <source>#<id>")
    return found


def _may_list(site: Site, articles: list[Article]) -> list[str]:
    """The files in which a page can be: its series of shards, and the news."""
    series = {one.shard.series for one in articles if one.shard}
    return [
        file for file in all_files(site) if is_news(file) or any(file.startswith(f"sitemap-{name}") for name in series)
    ]


def _forms(file: str) -> Iterator[str]:
    stem = file.removesuffix(".xml")
    yield from (file, f"{file}.gz", f"{stem}.txt", f"{stem}.atom")


def _pages(urls: tuple[str, ...]) -> list[str]:
    """One spelling of each page."""
    return list({identity(url): url for url in urls}.values())


def _lists(site: Site, file: str, urls: tuple[str, ...]) -> bool:
    stored = bucket.read(site.host, file)
    return stored is not None and any(
        f"<loc>{escaped(under_scheme(url, site))}</loc>".encode() in stored.body for url in urls
    )


def _items(site: Site, urls: tuple[str, ...], articles: list[Article]) -> dict[str, list[tuple[str, str]]]:
    ids = {one.name.partition("#")[2] for one in articles}
    names = {one.name for one in articles}
    story = [item for url in _pages(urls) for item in table.query(f"story#{site.host}#{key_of(url)}")]
    due = [item for item in table.query(f"due#{site.host}") if item["sk"].partition("#")[2] in names]
    kept = [
        item
        for host in (site.host, UNKNOWN_SITE)
        for item in table.query(f"quarantine#{host}")
        if any(is_said_of(item["event"], url, site, ids) for url in urls or ("",))
    ]
    waiting = table.get_many(waiting_key(site.host, one.url, one.name) for one in articles if one.url)
    found = {
        "the page's story": story,
        "what is due": due,
        "what waits for a URL": list(waiting.values()),
        "quarantine": kept,
    }
    return {kind: [(item["pk"], item["sk"]) for item in items] for kind, items in found.items()}


def _older_versions(site: Site, articles: list[Article]) -> Iterator[tuple[str, list[str]]]:
    """Noncurrent versions of the files that can have listed it, since it was first heard of."""
    since = min((one.heard_at for one in articles), default=None)
    pages = client("s3").get_paginator("list_object_versions")
    for name in dict.fromkeys(form for file in _may_list(site, articles) for form in _forms(file)):
        key = f"{site.host}/{name}"
        listed = pages.paginate(Bucket=bucket_name(), Prefix=key)
        rows = [row for page in listed for row in page.get("Versions", []) if row["Key"] == key and not row["IsLatest"]]
        if old := [
            row["VersionId"] for row in rows if since is None or row["LastModified"] >= since - timedelta(seconds=1)
        ]:
            yield key, old


def _letters(traces: Traces, queue: redrive.Name, *, erase: bool) -> int:
    """Dead letters that speak of it; with `erase` they go. What waits in the articles queue itself is recorded in seconds."""
    if queue == "rewrites":  # names of files only
        return 0
    ids = {one.name.partition("#")[2] for one in traces.articles}
    found = 0
    with redrive.messages(queue) as received:
        for message in received:
            if any(is_said_of(message["Body"], url, traces.site, ids) for url in traces.urls or ("",)):
                found += 1
                if erase:
                    redrive.delete(queue, message["ReceiptHandle"])
    return found


# ── taking it out ──


def _removal(site: Site, article: Article, now: datetime) -> ArticleEvent:
    """A removal that is newer than all that is known."""
    version, timestamp = article.order.version, article.order.timestamp
    source, _, id_ = article.name.partition("#")
    return ArticleEvent(
        site=site.host,
        source=source,
        id=id_,
        action="remove",
        verb="unpublished",
        timestamp=max(now, parse(timestamp)) if timestamp else None,
        heard_at=now,
        version=max(now, parse(version)) if isinstance(version, str) else version,
    )


def _tombstone(article: Article) -> Article:
    """The same article, without what tells anything of it. Its shard is a place, and stays its own."""
    return replace(
        article,
        digest="",
        deliveries=(),
        url=None,
        first_published=None,
        dated_by=0,
        dated_order=None,
        held_order=None,
        changed_at=None,
        news=None,
        release_at=None,
        reason=FORGOTTEN,
        news_reason="",
        dropped=(),
        title="",
        publication=None,
    )


def _erase(traces: Traces) -> None:
    """Take out all that does not stand in a file any more. Raises Conflict where the article was written meanwhile."""
    for queue in traces.letters:
        _letters(traces, queue, erase=True)
    if traces.listed or traces.files:
        return
    host = traces.site.host
    items = _items(traces.site, traces.urls, traces.articles)  # what was told of the removal is among them now
    for pk, sk in [key for keys in items.values() for key in keys]:
        table.delete(pk, sk)
    claims = table.get_many(claim_key(host, url) for url in traces.urls)
    for one in traces.told:
        table.transact([Put(article_item(_tombstone(one)), one.rev)])
    for url in _pages(traces.urls):
        if (item := claims.get(claim_key(host, url))) and "url" in item:
            claim = read_claim(item, url)
            nameless = {name: value for name, value in claim_item(claim).items() if name not in ("url", "waiting")}
            table.put(nameless | {"live": False}, claim.rev)
    for key, versions in _older_versions(traces.site, traces.articles):
        for start in range(0, len(versions), _DELETE_MAX):
            named = [{"Key": key, "VersionId": version} for version in versions[start : start + _DELETE_MAX]]
            answer = client("s3").delete_objects(Bucket=bucket_name(), Delete={"Objects": named, "Quiet": True})
            if refused := answer.get("Errors"):
                raise ValueError(
                    f"S3 did not delete {counted(len(refused), 'version')} of {key}: {refused[0].get('Message')}"
                )
