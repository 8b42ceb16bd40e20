"""`stoppress forget`: erases a page for good, from the table, the quarantine, the queues and the older versions of the files.

First the article is removed as its source would remove it, so that rewrite_sitemaps updates the files. Then the rest is
erased. A tombstone without content stays: a hash of the URL, and the id in the CMS. Without the tombstone a late event
would bring the article back.
"""

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Annotated, Any

import typer

from stoppress.aws import bucket, items, queues, table
from stoppress.aws.inventory import all_files, read_articles
from stoppress.aws.items import Item
from stoppress.aws.refusals import FIELD, refused_pk
from stoppress.model.article import FORGOTTEN, Article
from stoppress.model.event import ArticleEvent
from stoppress.model.file_names import is_news
from stoppress.model.site import SOURCE, UNKNOWN_SITE, Site
from stoppress.notify.changed_files import COPIES
from stoppress.notify.page_state import notified_pk
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import identity
from stoppress.show.question import find_question
from stoppress.show.read_files import read_files
from stoppress.show.read_story import article_of, is_about
from stoppress_cli.commands import redrive
from stoppress_cli.commands.restore import scan
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, Commands, DryRun, Yes
from stoppress_cli.output import agrees, counted, end, show, track

app = Commands()

OUT_OF_REACH = (
    "Out of reach: point-in-time recovery keeps the old table for 35 days, the logs keep URLs for LogRetentionDays"
    " (30 days), the table keeps what engines were notified of for 14 days, each CDN and browser keeps the old files"
    " for five minutes. Make sure that the CMS and its feed do not send the article again, nor its URL as an alternate of"
    " other pages. Give earlier URLs of the article to this command too."
)
# The attributes of a claim with the pages that list its page, and that its page lists.
_VERSIONS = ("lists", "links")
# The checks whether the functions have removed the article and written its files: for two minutes.
_CHECKS_EVERY_S, _CHECKS_MAX = 2, 60
# The fields of an article that its tombstone keeps.
_KEPT = (
    "site", "name", "state", "order", "deliveries", "received_at", "known_since", "reborn", "shard",
    "is_undated", "is_unlisted", "rev",
)  # fmt: skip


@app.command(effect=WRITES, example="stoppress forget https://www.example.com/news/flood --stack stoppress")
def forget(
    target: Annotated[str, typer.Argument(metavar="URL|ID", help="URL of the page, or an article as source#id.")],
    site: Annotated[
        str | None, typer.Option("--site", help="Host of the article's site, for source#id; default: the only site.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove a page and erase its data from the table, quarantine, dead letters, and older versions of its files.

    Exit code 1: something is left to erase; run the command again.
    """
    traces = gather(target, site)
    planned = rest = list(traces.lines())
    for line in ["to erase:", *planned] if planned else ["the stack has nothing about it"]:
        show(line)
    is_agreed = bool(rest) and not dry_run and agrees(f"Forget {', '.join(traces.urls) or target} for good?", yes=yes)
    erased, answer = list[str](), list[str]()
    if is_agreed:
        rest = list(erase(traces, datetime.now(UTC)).lines())
        erased = [line for line in planned if line not in rest]
        answer = ["erased:", *erased, *(["not erased yet, run the command again:", *rest] if rest else [])]
    if is_agreed or (dry_run and rest):
        answer.append(OUT_OF_REACH)
    for line in answer:
        show(line)
    end({"urls": list(traces.urls), "left": rest, "erased": erased, "done": is_agreed and not rest}, is_ok=not rest)


@dataclass
class Traces:
    """The data that the stack has about a page: `items` to delete, by kind, and noncurrent `versions` of its files."""

    site: Site
    urls: tuple[str, ...]
    articles: list[Article] = field(default_factory=list)  # also those that have only a tombstone
    claims: list[Item] = field(default_factory=list)
    items: dict[str, list[Item]] = field(default_factory=lambda: defaultdict(list))
    mentions: list[Item] = field(default_factory=list)  # items of other pages that mention the page
    files: list[str] = field(default_factory=list)  # that list the page now
    versions: list[dict[str, str]] = field(default_factory=list)
    letters: dict[redrive.Name, int] = field(default_factory=dict)

    @property
    def listed(self) -> list[Article]:
        """Return the articles that are not removed yet."""
        return [article for article in self.articles if article.state != "removed"]

    @property
    def full(self) -> list[Article]:
        """Return the articles that still have content."""
        return [article for article in self.articles if article != tombstone(article)]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Match each spelling of the page's URL in a text."""
        return re.compile(f"(?:{'|'.join(map(re.escape, self.urls))})(?![^\\s\"'<>,;)\\\\])")

    @cached_property
    def _kinds(self) -> dict[str, str]:
        """Return the partitions in which all or some items are about the page, with what they contain."""
        host = self.site.host
        kinds = {items.due_pk(host): "what is due", refused_pk(host): "refused deliveries"}
        kinds |= {items.quarantine_pk(where): "quarantine" for where in (host, UNKNOWN_SITE)}
        for url in self.urls:
            kinds[items.claim_key(host, url)[0]] = "what waits for a URL"
            kinds[items.story_pk(host, url)] = "the page's story"
        return kinds

    def find_kind(self, item: Item) -> str:
        """Return what an item is, if it is about the page; else an empty text."""
        kind, is_about = self._kinds.get(item["pk"], ""), True
        if kind in ("what is due", "what waits for a URL"):
            is_about = item["sk"].partition("#")[2] in {article.name for article in self.articles}
        elif kind in ("quarantine", "refused deliveries"):
            is_about = self.concerns(item.get("event") or json.dumps(item))
        return kind if is_about else ""

    def lines(self) -> Iterator[str]:
        """Yield a line for each thing to erase."""
        yield from (f"article {article.name}: removed; a tombstone stays" for article in self.full)
        yield from (f"{file}: written again without" for file in self.files)
        for claim in self.claims:
            yield f"the claim on {claim['url']}: a tombstone stays, known by a hash of the URL"
        yield from (f"{counted(len(group), 'item')} of {kind}" for kind, group in self.items.items())
        for item in self.mentions:
            yield f"{item['pk']} {item.get('loc', item['sk'])}: the mention, for example as an alternate"
        yield from (f"{counted(number, 'dead letter')} of {queue}" for queue, number in self.letters.items())
        yield from (f"older versions of {key}" for key in dict.fromkeys(version["Key"] for version in self.versions))

    def add(self, item: Item) -> None:
        """Add an item of the table, if it is about the page or mentions it."""
        host, pk = self.site.host, item["pk"]
        if pk in self._kinds and item["sk"] == "-":  # a claim
            self.claims += [item] if "url" in item else []
        elif kind := self.find_kind(item):
            self.items[kind].append(item)
        elif self.urls and self.pattern.search(str(item)):
            is_article = pk in {items.article_key(host, article.name)[0] for article in self.articles}
            is_entry = identity(item.get("loc") or item.get("url") or "") in set(map(identity, self.urls))
            # The records of a page's notifications expire by themselves (OUT_OF_REACH).
            if not (is_article or is_entry or pk == notified_pk(host)):
                self.mentions.append(item)

    def concerns(self, event: str) -> bool:
        """Return True if an event, or a report of refusals, is about the page or one of its articles."""
        ids = {article.id for article in self.articles}
        events = [event]
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            events += map(json.dumps, json.loads(event)[FIELD])
        return any(is_about(text, url, self.site, ids) for text in events for url in self.urls or ("",))

    def find_files(self) -> None:
        """Read the files that can list the page, and keep those that do, also as an alternate of another page."""
        answers = read_files(self.site, self.urls, self._candidates(), tags=("<loc>{}</loc>", 'href="{}"'))
        self.files = [answer.file for answer in answers if answer.lists]

    def _candidates(self) -> list[str]:
        """Return the files in which a page can be: its series of shards, the news, and the files of pages that mention it."""
        series = tuple(f"sitemap-{article.shard.series}" for article in self.articles if article.shard)
        mentioning = {item["pk"] for item in self.mentions}
        return [
            file
            for file in all_files(self.site)
            if is_news(file) or file.startswith(series) or items.file_pk(self.site.host, file) in mentioning
        ]

    def find_versions(self) -> None:
        """Keep the noncurrent versions of the site's files, and of their copies for notify_engines, that may list the page.

        They are versions since the page's first event, unless other pages may have listed it before.
        """
        first = None if self.mentions else min((article.received_at for article in self.articles), default=None)
        stems = {file.partition(".")[0] for file in self._candidates()}
        self.versions = [
            {"Key": f"{folder}/{version.file}", "VersionId": version.id}
            for folder in (self.site.host, f"{COPIES}/{self.site.host}")
            for version in bucket.versions(folder)
            if version.id and version.until and version.file.partition(".")[0] in stems
            and (first is None or version.put_at >= first - timedelta(seconds=1))
        ]  # fmt: skip


def gather(target: str, host: str | None) -> Traces:
    """Return the data that the stack has about a URL, or about an article (`source#id`).

    Reads the whole table once. Raises BadRequest, Unclear, UnknownSite, BadConfiguration, and the errors of the table, the bucket
    and the queues.
    """
    traces = _start_traces(target, host)
    for item in scan(os.environ["TABLE_NAME"]):
        traces.add(item)
    traces.find_files()
    traces.letters = {
        queue: number for queue in redrive.NAMES if (number := redrive.count_letters(queue, traces.concerns))
    }
    # If there are only tombstones, the versions were erased before.
    if any((traces.full, traces.claims, traces.items, traces.mentions)):
        traces.find_versions()
    return traces


def _start_traces(target: str, host: str | None) -> Traces:
    """Return the site, the spellings of the URL, and the articles that have or had its page.

    An article that has moved to another URL belongs to another page now. The URL of a displaced article belongs to another article.
    """
    source, _, id_ = target.partition("#")
    if "://" not in target and not (id_ and SOURCE.fullmatch(source)):  # `question` also takes a part of a path
        raise BadRequest(f"{target!r} is neither a URL nor an article: give one, such as source#id")
    page = find_question(target, host, datetime.now(UTC))
    site, names = page.site, {page.article} - {""}
    if page.url:
        claim = table.get(*items.claim_key(site.host, page.url))
        names |= {str(claim["owner"])} if claim and "owner" in claim else set()
        names |= {article_of(line) for line in table.query(items.story_pk(site.host, page.url))}
    articles = [
        article
        for article in read_articles(site.host, sorted(names)).values()
        if not page.url or identity(article.url or "") == identity(page.url) or article.reason == FORGOTTEN
    ]
    if not articles and not page.url:
        raise BadRequest(f"{site.host} has no article {target!r}")
    urls = [page.url, *(article.url for article in articles if article.url and article.state != "displaced")]
    return Traces(site, tuple(dict.fromkeys(filter(None, urls))), articles)


def tombstone(article: Article) -> Article:
    """Return the article without its content. Its shard stays, because the article keeps its place there."""
    kept: dict[str, Any] = {name: getattr(article, name) for name in _KEPT}
    return Article(**kept, digest="", reason=FORGOTTEN)


def erase(traces: Traces, now: datetime, *, pause: Callable[[float], None] = time.sleep) -> Traces:
    """Remove the page, wait until no file lists it, and erase it. Return the data that remains.

    Raises Conflict and the errors of `gather`. The articles and claims come last: a run that stops before finds the page again.
    """
    host = traces.site.host
    remaining = [item for item in traces.mentions if not _erase_mention(item, traces.pattern)]
    queues.send_articles([_removal(article, now) for article in traces.listed])
    for _ in track(range(_CHECKS_MAX), "looks at the files, one each two seconds"):
        if not (traces.listed or traces.files):
            break
        pause(_CHECKS_EVERY_S)
        traces.articles = list(read_articles(host, [article.name for article in traces.articles]).values())
        traces.find_files()
    for queue in traces.letters:
        redrive.count_letters(queue, traces.concerns, erase=True)
    if traces.listed or traces.files:
        return replace(traces, letters={}, mentions=remaining)
    traces.find_versions()
    bucket.delete_objects(traces.versions)
    # The removal has added lines to the page's story, and itself to the refusals.
    changed = [*(items.story_pk(host, url) for url in traces.urls), refused_pk(host)]
    added = filter(traces.find_kind, chain(*map(table.query, changed)))
    for item in chain(*traces.items.values(), added):
        table.delete(item["pk"], item["sk"])
    for article in traces.full:
        table.transact([table.Put(items.article_item(tombstone(article)), article.rev)])
    for claim in table.get_many(items.claim_key(host, url) for url in traces.urls).values():
        without = {name: value for name, value in claim.items() if name not in ("url", "waiting", *_VERSIONS)}
        table.put(without | {"live": False}, int(claim["rev"]))
    return Traces(traces.site, traces.urls, mentions=remaining)


def _erase_mention(item: Item, pattern: re.Pattern[str]) -> bool:
    """Write an item of another page without the mention, unless it has changed meanwhile. Return False if a mention stays.

    Lines of stories are deleted.
    """
    if item["pk"].startswith("story#"):
        table.delete(item["pk"], item["sk"])
        return True
    without = _without(item, pattern)
    changed = [name for name in item if without[name] != item[name]]
    if changed and "rev" in item:
        table.put(without, int(item["rev"]))
    elif changed:
        condition = " AND ".join(f"{name} = :{name}" for name in changed)
        table.put_if(without, condition, {f":{name}": item[name] for name in changed})
    return not pattern.search(str(without))


def _without(values: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[str, Any]:
    """Return the values, with lists and alternates that no longer mention the page, also in an event within them."""
    without = dict(values)
    for name, value in values.items():
        if isinstance(value, list):
            without[name] = [part for part in value if not pattern.search(str(part))]
        elif isinstance(value, dict) and name in ("alternates", *_VERSIONS):
            without[name] = {key: text for key, text in value.items() if not pattern.search(f"{key} {text}")}
        elif isinstance(value, dict):
            without[name] = _without(value, pattern)
        elif name in ("message", "event") and pattern.search(value):  # of a queue, or in quarantine: JSON
            with suppress(ValueError, RecursionError):
                without[name] = json.dumps(_without(json.loads(value), pattern), ensure_ascii=False)
    return without


def _removal(article: Article, now: datetime) -> ArticleEvent:
    """Return a removal that is newer than every known version."""
    version, timestamp = article.order.version, article.order.timestamp
    return ArticleEvent(
        site=article.site,
        source=article.source,
        id=article.id,
        action="remove",
        verb="unpublished",
        timestamp=max(now, parse(timestamp)) if timestamp else None,
        received_at=now,
        version=max(now, parse(version)) if isinstance(version, str) else version,
    )
