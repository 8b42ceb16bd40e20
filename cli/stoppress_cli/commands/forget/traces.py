"""What the stack holds of a page that `stoppress forget` is to erase."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from stoppress.aws import bucket, items, table
from stoppress.aws.clients import client
from stoppress.aws.inventory import all_files
from stoppress.aws.items import Item
from stoppress.aws.refusals import FIELD, refused_pk
from stoppress.model.article import FORGOTTEN, Article
from stoppress.model.file_names import is_news
from stoppress.model.site import SOURCE, UNKNOWN_SITE, Site
from stoppress.notify.changed_files import COPIES
from stoppress.notify.state import notified_pk
from stoppress.primitives.urls import identity
from stoppress.show.question import find_question
from stoppress.show.read_story import article_of, is_about, read_files
from stoppress_cli.commands import redrive
from stoppress_cli.commands.restore import scan
from stoppress_cli.connect import BadRequest
from stoppress_cli.output import counted

# Where a file lists a page: as a page, and as an alternate of another page.
_TAGS = ("<loc>{}</loc>", 'href="{}"')


@dataclass
class Traces:
    """What the stack holds of a page. `items` are to be deleted, by kind; `versions` are noncurrent ones of its files."""

    site: Site
    urls: tuple[str, ...]
    articles: list[Article] = field(default_factory=list)  # also those of which only a tombstone is left
    claims: list[Item] = field(default_factory=list)
    items: dict[str, list[Item]] = field(default_factory=lambda: defaultdict(list))
    mentions: list[Item] = field(default_factory=list)  # items of other pages that mention the page
    files: list[str] = field(default_factory=list)  # that list the page now
    versions: list[dict[str, str]] = field(default_factory=list)
    letters: dict[redrive.Name, int] = field(default_factory=dict)

    @property
    def listed(self) -> list[Article]:
        """The articles that are not removed yet."""
        return [article for article in self.articles if article.state != "removed"]

    @property
    def removed(self) -> list[Article]:
        """Removed articles that still have content."""
        return [article for article in self.articles if article.state == "removed" and article != tombstone(article)]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches each spelling of the page's URL in a text."""
        return re.compile(f"(?:{'|'.join(map(re.escape, self.urls))})(?![^\\s\"'<>,;)\\\\])")

    @cached_property
    def _kinds(self) -> dict[str, str]:
        """Partitions in which all or some items are about the page, with what they hold."""
        host = self.site.host
        kinds = {items.due_pk(host): "what is due", refused_pk(host): "refused deliveries"}
        kinds |= {items.quarantine_pk(where): "quarantine" for where in (host, UNKNOWN_SITE)}
        for url in self.urls:
            kinds |= {
                items.claim_key(host, url)[0]: "what waits for a URL",
                items.story_pk(host, url): "the page's story",
            }
        return kinds

    def lines(self) -> Iterator[str]:
        """Yield a line for each thing to erase."""
        for article in self.listed:
            yield f"article {article.name} is {article.state}: it is removed first, as its source would"
        yield from (f"{file} lists it: it is written again without" for file in self.files)
        for article in self.removed:
            yield f"article {article.name}: all but its id and its order is erased; a tombstone stays"
        yield from (
            f"the claim on {claim['url']}: a tombstone stays, known by a hash of the URL" for claim in self.claims
        )
        yield from (f"{counted(len(some), 'item')} of {kind}" for kind, some in self.items.items())
        for item in self.mentions:
            yield f"{item['pk']} {item.get('loc', item['sk'])} mentions it, for example as an alternate"
        yield from (f"{counted(number, 'dead letter')} of {queue}" for queue, number in self.letters.items())
        for key, number in Counter(version["Key"] for version in self.versions).items():
            yield f"{counted(number, 'older version')} of {key}"

    def add(self, item: Item) -> None:
        """Add an item of the table, if it is about the page or mentions it."""
        pk, name, kind = item["pk"], item["sk"].partition("#")[2], self._kinds.get(item["pk"], "")
        if kind == "what waits for a URL" and not name:  # the claim itself
            self.claims += [item] if "url" in item else []
        elif (
            kind == "the page's story"
            or (kind in ("what is due", "what waits for a URL") and name in {article.name for article in self.articles})
            or (kind in ("quarantine", "refused deliveries") and self.are_in(item.get("event") or _as_event(item)))
        ):
            self.items[kind].append(item)
        elif self.urls and self.pattern.search(str(item)):
            is_article = pk in {items.article_key(self.site.host, article.name)[0] for article in self.articles}
            is_entry = identity(item.get("loc") or item.get("url") or "") in set(map(identity, self.urls))
            # What engines were notified of a page expires by itself (OUT_OF_REACH).
            if not (is_article or is_entry or pk == notified_pk(self.site.host)):
                self.mentions.append(item)

    def are_in(self, event: str) -> bool:
        """Whether an event, or a report of refusals, is about the page or one of its articles."""
        ids = {article.name.partition("#")[2] for article in self.articles}
        events = [event]
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            events += map(_as_event, json.loads(event)[FIELD])
        return any(is_about(each, url, self.site, ids) for each in events for url in self.urls or ("",))

    def find_files(self) -> None:
        """Read the files that can list the page, and keep those that do, also as an alternate of another page."""
        read = read_files(self.site, self.urls, self._candidates(), tags=_TAGS)
        self.files = [each.file for each in read if each.lists]

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
        first = min((article.received_at for article in self.articles), default=None)
        since = None if self.mentions or first is None else first - timedelta(seconds=1)
        stems = {file.partition(".")[0] for file in self._candidates()}
        pages = client("s3").get_paginator("list_object_versions")
        self.versions = [
            {"Key": row["Key"], "VersionId": row["VersionId"]}
            for folder in (f"{self.site.host}/", f"{COPIES}/{self.site.host}/")
            for page in pages.paginate(Bucket=bucket.bucket_name(), Prefix=folder)
            for row in page.get("Versions", [])
            if row["Key"].removeprefix(folder).partition(".")[0] in stems
            and not row["IsLatest"]
            and (since is None or row["LastModified"] >= since)
        ]


def gather(target: str, host: str | None) -> Traces:
    """Return what the stack holds of a URL, or of an article (`source#id`).

    Reads the whole table once. Raises BadRequest, Unclear, UnknownSite, BadConfiguration, and the errors of the table, the bucket
    and the queues.
    """
    traces = _begin(target, host)
    deserialize = TypeDeserializer().deserialize
    for stored in scan(os.environ["TABLE_NAME"]):
        traces.add({name: deserialize(value) for name, value in stored.items()})
    traces.find_files()
    traces.letters = {queue: number for queue in redrive.NAMES if (number := count_letters(traces, queue, erase=False))}
    # Where only tombstones are left, the versions were erased before.
    if any((traces.listed, traces.removed, traces.claims, traces.items, traces.mentions)):
        traces.find_versions()
    return traces


def _begin(target: str, host: str | None) -> Traces:
    """Return the site, the spellings of the URL, and the articles that have or had its page.

    An article that has moved to another URL belongs to another page now. The URL of a displaced article belongs to another article.
    """
    source, _, id_ = target.partition("#")
    if "://" not in target and not (id_ and SOURCE.fullmatch(source)):  # `question` also takes a part of a path
        raise BadRequest(f"{target!r} is neither a URL nor an article: give one, such as source#id")
    asked = find_question(target, host, datetime.now(UTC))
    site, names = asked.site, {asked.article} - {""}
    if asked.url:
        claim = table.get(*items.claim_key(site.host, asked.url))
        names |= {str(claim["owner"])} if claim else set()
        names |= {article_of(line) for line in table.query(items.story_pk(site.host, asked.url))}
    articles = [
        each
        for each in read_articles(site, sorted(names))
        if not asked.url or identity(each.url or "") == identity(asked.url) or each.reason == FORGOTTEN
    ]
    if not articles and not asked.url:
        raise BadRequest(f"{site.host} has no article {target!r}")
    urls = [asked.url, *(each.url for each in articles if each.url and each.state != "displaced")]
    return Traces(site, tuple(dict.fromkeys(filter(None, urls))), articles)


def read_articles(site: Site, names: Iterable[str]) -> list[Article]:
    stored = table.get_many(items.article_key(site.host, name) for name in names)
    return [items.read_article(item) for item in stored.values()]


def _as_event(names: Mapping[str, Any]) -> str:
    """Return id and URL of a refusal in the form of an event."""
    return json.dumps({name: names[name] for name in ("id", "url") if names.get(name)})


def count_letters(traces: Traces, queue: redrive.Name, *, erase: bool) -> int:
    """Return the number of dead letters about the page; `erase` deletes them. The articles queue is not searched: it empties within seconds."""
    number = 0
    with redrive.messages(queue) as messages:
        for message in filter(lambda message: traces.are_in(message["Body"]), messages):
            number += 1
            if erase:
                redrive.delete(queue, message["ReceiptHandle"])
    return number


def tombstone(article: Article) -> Article:
    """Return the article without its content. Its shard stays, because the article keeps its place there."""
    return Article(
        site=article.site,
        name=article.name,
        state=article.state,
        order=article.order,
        digest="",
        received_at=article.received_at,
        known_since=article.known_since,
        reborn=article.reborn,
        shard=article.shard,
        reason=FORGOTTEN,
        is_undated=article.is_undated,
        is_unlisted=article.is_unlisted,
        rev=article.rev,
    )
