"""`stoppress forget`: erases a page for good, from the table, the quarantine, the queues and the older versions of the files.

First the article is removed as its source would remove it, so that rewrite_sitemaps updates the files. Then the rest is
erased. A tombstone without content stays: a hash of the URL, and the id in the CMS. Without the tombstone a late event
would bring the article back.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from stoppress.aws import bucket, items, queues, table
from stoppress.aws.items import Item
from stoppress.model.article import Article
from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.primitives.instants import parse
from stoppress_cli.commands.forget.traces import Traces, count_letters, gather, read_articles, tombstone
from stoppress_cli.options import WRITES, Commands, DryRun, Json, SiteOption, Yes
from stoppress_cli.output import ATTENTION, OK, confirmed, print_json, printer

app = Commands()

OUT_OF_REACH = (
    "Out of reach: point-in-time recovery keeps the old table for 35 days, the logs keep URLs for LogRetentionDays"
    " (30 days), CDNs and browsers keep the old files for five minutes. Make sure that the CMS and its feed do not send"
    " the article again, nor its URL as an alternate of other pages. Give earlier URLs of the article to this command too."
)
# How long to wait until the functions have removed the article and written its files.
PATIENCE = timedelta(minutes=2)
_LOOKS_EVERY_S = 2
# Texts in items that are JSON: queue messages, and events in quarantine.
_JSON = ("message", "event")


@app.command(effect=WRITES, example="stoppress forget https://www.example.com/news/flood --stack stoppress")
def forget(
    target: Annotated[str, typer.Argument(metavar="URL|ID", help="URL of the page, or an article as source#id.")],
    site: SiteOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove a page and erase what is known of it: table, quarantine, dead letters, older versions of its files.

    Exit code 0: only a tombstone without content is left; 1: more is left, run the command again; 2: the stack cannot be reached.
    """
    show = printer(as_json=as_json)
    left = gather(target, site)
    lines = list(left.lines())
    for line in lines or ["the stack has nothing about it"]:
        show(line)
    asked = f"Forget {', '.join(left.urls) or target} for good?"
    is_agreed = bool(lines) and not dry_run and confirmed(asked, yes=yes, as_json=as_json)
    if is_agreed:
        lines = list(erase(left, datetime.now(UTC)).lines())
        for line in ["not erased yet, run the command again:", *lines] if lines else []:
            show(line)
    if is_agreed or (dry_run and lines):
        show(OUT_OF_REACH)
    if as_json:
        print_json({"urls": list(left.urls), "left": lines, "done": is_agreed})
    raise typer.Exit(ATTENTION if lines else OK)


def erase(traces: Traces, now: datetime, *, pause: Callable[[float], None] = time.sleep) -> Traces:
    """Remove the page, wait until no file lists it, and erase it. Return what is left.

    Raises Conflict and the errors of `gather`. The articles and claims come last: a run that stops before finds the page again.
    """
    stay = [item for item in traces.mentions if not _erase_mention(item, traces.pattern)]
    queues.send_articles([_removal(traces.site, article, now) for article in traces.listed])
    for _ in range(int(PATIENCE.total_seconds() / _LOOKS_EVERY_S)):
        if not (traces.listed or traces.files):
            break
        pause(_LOOKS_EVERY_S)
        traces.articles = read_articles(traces.site, [article.name for article in traces.articles])
        traces.find_files()
    for queue in traces.letters:
        count_letters(traces, queue, erase=True)
    if traces.listed or traces.files:
        return traces
    traces.find_versions()
    bucket.delete_objects(traces.versions)
    host = traces.site.host
    own = [item for some in traces.items.values() for item in some]
    # The removal has added lines to the page's story.
    own += [line for url in traces.urls for line in table.query(items.story_pk(host, url))]
    for item in own:
        table.delete(item["pk"], item["sk"])
    claims = table.get_many(items.claim_key(host, url) for url in traces.urls)
    for article in traces.removed:
        table.transact([table.Put(items.article_item(tombstone(article)), article.rev)])
    for claim in claims.values():
        without = {name: value for name, value in claim.items() if name not in ("url", "waiting")}
        table.put(without | {"live": False}, int(claim["rev"]))
    return Traces(traces.site, traces.urls, mentions=stay)


def _erase_mention(item: Item, pattern: re.Pattern[str]) -> bool:
    """Write an item of another page without the mention, unless it has changed meanwhile. Return False if a mention stays.

    Lines of stories are deleted.
    """
    if item["pk"].startswith("story#"):
        table.delete(item["pk"], item["sk"])
        return True
    without = _without(item, pattern)
    changed = [name for name in item if without[name] != item[name]]
    if changed:
        condition = " AND ".join(f"{name} = :{name}" for name in changed)
        table.put_if(without, condition, {f":{name}": item[name] for name in changed})
    return not pattern.search(str(without))


def _without(values: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[str, Any]:
    """Return the values, with lists and alternates that no longer mention the page, also in an event that is a part of them."""
    without = dict(values)
    for name, value in values.items():
        if isinstance(value, list):
            without[name] = [each for each in value if not pattern.search(str(each))]
        elif isinstance(value, dict) and name == "alternates":
            without[name] = {code: url for code, url in value.items() if not pattern.search(str(url))}
        elif isinstance(value, dict):
            without[name] = _without(value, pattern)
        elif name in _JSON and pattern.search(value):
            with suppress(ValueError, RecursionError):
                without[name] = json.dumps(_without(json.loads(value), pattern), ensure_ascii=False)
    return without


def _removal(site: Site, article: Article, now: datetime) -> ArticleEvent:
    """Return a removal that is newer than every known version."""
    version, timestamp = article.order.version, article.order.timestamp
    source, _, id_ = article.name.partition("#")
    return ArticleEvent(
        site=site.host,
        source=source,
        id=id_,
        action="remove",
        verb="unpublished",
        timestamp=max(now, parse(timestamp)) if timestamp else None,
        received_at=now,
        version=max(now, parse(version)) if isinstance(version, str) else version,
    )
