"""Erases a page for good: from the table, the quarantine, the queues and the older versions of the files.

First the article is removed as its source would remove it, so that rewrite_sitemaps updates the files. Then the rest is
erased. A tombstone without content stays: a hash of the URL, and the id in the CMS. Without the tombstone a late event
would bring the article back.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoppress.aws import bucket, items, queues, refusals, sites, table
from stoppress.aws.clients import client
from stoppress.aws.inventory import all_files
from stoppress.aws.items import Item
from stoppress.aws.refusals import Refusal, read_report
from stoppress.model.article import FORGOTTEN, Article, Claim
from stoppress.model.event import ArticleEvent
from stoppress.model.file_names import is_news
from stoppress.model.site import FEED_SOURCE, UNKNOWN_SITE, Site
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import identity
from stoppress.show.read_story import article_of, is_about, page_of, read_files
from stoppress.tell.engines import COPIES
from stoppress_cli.printing import counted
from stoppress_cli.stack import redrive
from stoppress_cli.stack.find import BadRequest

# How long to wait until the functions have removed the article and written its files.
PATIENCE = timedelta(minutes=2)
_LOOKS_EVERY_S = 2
# S3: DeleteObjects takes at most 1,000 keys.
_DELETE_MAX = 1_000


@dataclass
class Traces:
    """What the stack holds of a page."""

    site: Site
    urls: tuple[str, ...]
    articles: list[Article] = field(default_factory=list)
    claims: list[tuple[Claim, Item]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # that list the page now
    items: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # keys in the table, by kind
    # Version ids by key, of the files that may have listed the page.
    versions: dict[str, list[str]] = field(default_factory=dict)
    letters: dict[redrive.Name, int] = field(default_factory=dict)  # dead letters by queue

    @property
    def listed(self) -> list[Article]:
        """The articles that are not removed yet."""
        return [article for article in self.articles if article.state != "removed"]

    @property
    def removed(self) -> list[Article]:
        """Removed articles that still have content."""
        return [article for article in self.articles if article.state == "removed" and article != _tombstone(article)]

    @property
    def anything(self) -> bool:
        """Whether anything is left but tombstones."""
        is_named = any("url" in item for _, item in self.claims)
        parts = (self.listed, self.removed, self.files, self.versions)
        return is_named or any(map(bool, (*parts, *self.items.values(), *self.letters.values())))

    def are_in(self, event: str) -> bool:
        """Whether an event, or a report of refusals, is about the page or one of its articles."""
        ids = {article.name.partition("#")[2] for article in self.articles}
        events = [event, *_reported(event)]
        return any(is_about(each, url, self.site, ids) for each in events for url in self.urls or ("",))

    def lines(self) -> Iterator[str]:
        """A line for each thing to erase."""
        for article in self.listed:
            yield f"article {article.name} is {article.state}: it is removed first, as its source would"
        for file in self.files:
            yield f"{file} lists it: it is written again without"
        for article in self.removed:
            yield f"article {article.name}: all but its id and its order is erased; a tombstone stays"
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
    """What the stack holds of a URL, or of an article's id (`1042`, or `cms#1042` where several sources have it).

    Raises BadRequest, Unclear, UnknownSite, BadConfiguration, and the errors of the table, the bucket and the queues.
    """
    site, urls, articles = _of_url(target, host) if "://" in target else _of_id(target, host)
    traces = Traces(site, urls, articles)
    traces.claims = _claims(site, urls)
    traces.files = _listing(traces)
    traces.items = {kind: keys for kind, keys in _items(traces).items() if keys}
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
    """Removes the page, waits until no file lists it, and erases it. Returns what is left. Raises as `gather`, and Conflict."""
    traces = gather(target, host)
    for line in traces.lines():
        show(line)
    queues.send_articles([_removal(traces.site, article, now) for article in traces.listed])
    for _ in range(int(PATIENCE.total_seconds() / _LOOKS_EVERY_S)):
        if not (traces.listed or traces.files):
            break
        pause(_LOOKS_EVERY_S)
        traces.articles = _articles(traces.site, [article.name for article in traces.articles])
        traces.files = _listing(traces)
    _erase(traces)
    return gather(target, host)


# ── search ──


def _of_url(target: str, host: str | None) -> tuple[Site, tuple[str, ...], list[Article]]:
    """The site, the spellings of the URL, and the articles that have or had its page.

    An article that has moved to another URL belongs to another page now.
    """
    site, url = page_of(target, host)
    claim = table.get(*items.claim_key(site.host, url))
    names = {str(claim["owner"])} if claim else set()
    names |= {article_of(line) for line in table.query(items.story_pk(site.host, url))}
    known = _articles(site, sorted(names))
    articles = [each for each in known if identity(each.url or "") == identity(url) or each.reason == FORGOTTEN]
    return site, tuple(dict.fromkeys([url, *(article.url for article in articles if article.url)])), articles


def _of_id(target: str, host: str | None) -> tuple[Site, tuple[str, ...], list[Article]]:
    """The site, the URLs, and the article of an id."""
    site = _site_of_id(host)
    names = [target] if "#" in target else [f"{source}#{target}" for source in (*site.sources, FEED_SOURCE)]
    articles = _articles(site, names)
    if len(articles) > 1:
        raise BadRequest(
            f"{target!r} names {' and '.join(article.name for article in articles)}: say which, as <source>#<id>"
        )
    if not articles:
        raise BadRequest(f"{site.host} has no article {target!r}: give its URL, or <source>#<id>")
    # The URL of a displaced article belongs to another article's page.
    urls = (article.url for article in articles if article.url and article.state != "displaced")
    return site, tuple(dict.fromkeys(urls)), articles


def _articles(site: Site, names: Iterable[str]) -> list[Article]:
    stored = table.get_many(items.article_key(site.host, name) for name in names)
    return [items.read_article(item) for item in stored.values()]


def _site_of_id(host: str | None) -> Site:
    if host:
        return sites.load_usable(host)
    good, _ = sites.load_all()
    if len(good) != 1:
        raise BadRequest(f"an id belongs to one site, and there are {len(good)} sites: give one with --site")
    return good[0]


def _claims(site: Site, urls: tuple[str, ...]) -> list[tuple[Claim, Item]]:
    """The claims on the pages, each with its item."""
    keys = {items.claim_key(site.host, url): url for url in _pages(urls)}
    stored = table.get_many(keys)
    return [(items.read_claim(stored[key], url), stored[key]) for key, url in keys.items() if key in stored]


def _may_list(site: Site, articles: list[Article]) -> list[str]:
    """The files in which a page can be: its series of shards, and the news."""
    series = tuple(f"sitemap-{article.shard.series}" for article in articles if article.shard)
    return [file for file in all_files(site) if is_news(file) or file.startswith(series)]


def _forms(file: str) -> Iterator[str]:
    stem = file.removesuffix(".xml")
    yield from (file, f"{file}.gz", f"{stem}.txt", f"{stem}.atom")


def _pages(urls: tuple[str, ...]) -> list[str]:
    """One spelling of each page."""
    return list({identity(url): url for url in urls}.values())


def _listing(traces: Traces) -> list[str]:
    """The files that list the page now."""
    files = _may_list(traces.site, traces.articles)
    return [each.file for each in read_files(traces.site, traces.urls, files) if each.lists]


def _items(traces: Traces) -> dict[str, list[tuple[str, str]]]:
    """Keys of the table's items about the page, besides its claims and articles, by kind."""
    host, names = traces.site.host, {article.name for article in traces.articles}
    story = [item for url in _pages(traces.urls) for item in table.query(items.story_pk(host, url))]
    due = [item for item in table.query(items.due_pk(host)) if item["sk"].partition("#")[2] in names]
    kept = [item for where in (host, UNKNOWN_SITE) for item in table.query(items.quarantine_pk(where))]
    waiting = table.get_many(items.waiting_key(host, each.url, each.name) for each in traces.articles if each.url)
    by_kind: dict[str, Iterable[Item]] = {
        "the page's story": story,
        "what is due": due,
        "what waits for a URL": waiting.values(),
        "quarantine": [item for item in kept if traces.are_in(item["event"])],
        "refused deliveries": [item for item, refusal in refusals.stored(host) if traces.are_in(_named(refusal))],
    }
    return {kind: [(item["pk"], item["sk"]) for item in some] for kind, some in by_kind.items()}


def _reported(message: str) -> list[str]:
    """The refusals in a report, each in the form of an event; nothing for another message."""
    try:
        document = json.loads(message)
        return [_named(refusal) for refusal in read_report(document).refusals]
    except (ValueError, RecursionError):
        return []


def _named(refusal: Refusal) -> str:
    """The names in a refusal, in the form of an event."""
    return json.dumps({name: text for name, text in (("id", refusal.id), ("url", refusal.url)) if text})


def _older_versions(site: Site, articles: list[Article]) -> Iterator[tuple[str, list[str]]]:
    """Noncurrent versions, since the page's first event, of the files that can have listed it, and of their copies for tell_engines."""
    since = min((article.heard_at for article in articles), default=None)
    pages = client("s3").get_paginator("list_object_versions")
    names = dict.fromkeys(form for file in _may_list(site, articles) for form in _forms(file))
    for key in (f"{folder}/{name}" for name in names for folder in (site.host, f"{COPIES}/{site.host}")):
        listed = pages.paginate(Bucket=bucket.bucket_name(), Prefix=key)
        rows = [row for page in listed for row in page.get("Versions", []) if row["Key"] == key and not row["IsLatest"]]
        recent = [row for row in rows if since is None or row["LastModified"] >= since - timedelta(seconds=1)]
        if recent:
            yield key, [row["VersionId"] for row in recent]


def _letters(traces: Traces, queue: redrive.Name, *, erase: bool) -> int:
    """Number of dead letters about the page; `erase` deletes them. The articles queue is not searched: it empties within seconds."""
    if queue == "rewrites":  # it holds names of files only
        return 0
    number = 0
    with redrive.messages(queue) as messages:
        for message in filter(lambda message: traces.are_in(message["Body"]), messages):
            number += 1
            if erase:
                redrive.delete(queue, message["ReceiptHandle"])
    return number


# ── erasure ──


def _removal(site: Site, article: Article, now: datetime) -> ArticleEvent:
    """A removal that is newer than every known version."""
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
    """The article without its content. Its shard stays, because the article keeps its place there."""
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
    """Erases the dead letters, and the rest once no file lists the page. Raises Conflict where the article was written meanwhile."""
    for queue in traces.letters:
        _letters(traces, queue, erase=True)
    if traces.listed or traces.files:
        return
    # Read again: the removal itself has added lines to the story.
    for pk, sk in [key for keys in _items(traces).values() for key in keys]:
        table.delete(pk, sk)
    claims = _claims(traces.site, traces.urls)  # before the articles are written: another writer's change must conflict
    for article in traces.removed:
        table.transact([table.Put(items.article_item(_tombstone(article)), article.rev)])
    for claim, item in claims:
        if "url" in item:
            tombstone = items.claim_item(claim) | {"live": False}
            table.put({name: tombstone[name] for name in tombstone.keys() - {"url", "waiting"}}, claim.rev)
    for key, versions in _older_versions(traces.site, traces.articles):
        _delete_versions(key, versions)


def _delete_versions(key: str, versions: list[str]) -> None:
    for start in range(0, len(versions), _DELETE_MAX):
        objects = [{"Key": key, "VersionId": version} for version in versions[start : start + _DELETE_MAX]]
        answer = client("s3").delete_objects(Bucket=bucket.bucket_name(), Delete={"Objects": objects, "Quiet": True})
        if refused := answer.get("Errors"):
            raise BadRequest(
                f"S3 did not delete {counted(len(refused), 'version')} of {key}: {refused[0].get('Message')}"
            )
