"""`stoppress crawlers`: reads crawlers' requests from access logs. Memory does not grow with the logs, whose lines may have any order."""

import gzip
import sys
import zlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from io import BufferedReader
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import bucket, sites
from stoppress.aws.inventory import news_entries, read_articles, read_claims
from stoppress.model.file_names import is_index, is_news, is_shard
from stoppress.model.site import Site
from stoppress.primitives.instants import iso, whole
from stoppress.show.read_files import find_entry
from stoppress.show.stack_status import Access
from stoppress_cli.check.report import Format, Group, print_report
from stoppress_cli.connect import describe_error
from stoppress_cli.inputs.log_lines import FIELDS, LINE_BYTES_MAX, Fetch, Ranges, is_crawler, load_ranges, read_fetches
from stoppress_cli.options import READS, Commands
from stoppress_cli.output import fail, progress

app = Commands()

Listings = Mapping[str, Sequence[tuple[datetime, str]]]  # by file, when each story entered it, the earliest first
MINUTES_MAX = 50_000  # five weeks with a fetch in each minute
CELLS = "crawler files story listed first_fetch after_s statuses bytes median_interval longest_interval".split()
ROW: dict[str, Any] = dict.fromkeys(CELLS)
KINDS = {"robots": lambda file: file == "robots.xml", "index": is_index, "news": is_news, "shards": is_shard}
_LATE = "logs are late and incomplete, and a CDN may serve older copies: this is what these logs show"


@app.command(effect=READS, example="stoppress crawlers logs --site example.com --stack stoppress", may_lack_stack=True)
def crawlers(
    access: Access | None,
    files: Annotated[list[str], typer.Argument(help="Logs: a file, a folder, s3://BUCKET/PREFIX, or - for stdin.")],
    site: Annotated[str, typer.Option("--site", help="Host of the site.")],
    fields: Annotated[
        str, typer.Option(help="Fields in JSON logs, such as time=ts,address=client.ip; see docs/how-to/crawlers.md.")
    ] = "",
    trust_proxy: Annotated[
        bool, typer.Option("--trust-proxy", help="Use the last address in X-Forwarded-For as the client's.")
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="Format of the report: text, json, csv or html.")] = "text",
) -> None:
    """Read access logs, and report how crawlers fetch robots.txt and sitemaps; with a stack, also how soon they fetched files with current news."""
    skipped, host = Counter[str](), site.lower()
    names = dict(pair.partition("=")[::2] for pair in fields.split(",") if pair)
    if names.keys() - FIELDS.keys():
        fail(f"--fields {fields!r}: the names are {', '.join(FIELDS)}")
    ranges, notes = load_ranges(datetime.now(UTC))
    tally = Tally(ranges, read_listings(sites.load(host)) if access else {})
    try:
        for fetch in read_fetches(read_lines(files, skipped), host, names, skipped, trust_proxy=trust_proxy):
            tally.add(fetch)
    except OSError as error:
        fail(error)
    except (ClientError, BotoCoreError) as error:
        fail(describe_error(error))
    rows = list(tally.rows())
    groups = [Group("ok", "; ".join(f"{name} {cell}" for name, cell in row.items() if cell)) for row in rows]
    groups += [Group("hint", f"{name}: requests from other addresses: {n:,}") for name, n in tally.unverified.items()]
    groups += [Group("not checked", f"{reason}: {n:,} lines") for reason, n in skipped.items()]
    groups += [Group("hint", note) for note in notes]
    value = {"rows": rows, "unverified": tally.unverified, "skipped": skipped, "notes": notes}
    print_report(f"stoppress crawlers {host}", groups, lambda: (_LATE, value, rows), form)


class Tally:
    """The counts of access logs. `unverified` counts the requests whose address is not in the ranges of the crawler in their user agent."""

    def __init__(self, ranges: Ranges, listings: Listings) -> None:
        self.ranges, self.listings, self.unverified = ranges, listings, Counter[str]()
        self._is_crawler = lru_cache(maxsize=10_000)(partial(is_crawler, ranges))
        # By crawler and kind of file: requests by status and bytes, and the minutes of requests.
        self._counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._minutes: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        # By crawler, file, and number of stories that it listed: the first fetch.
        self._earliest: dict[tuple[str, str, int], datetime] = {}

    def add(self, fetch: Fetch) -> None:
        """Count a request, if its user agent contains the name of a crawler. Googlebot-News has the user agent of Googlebot."""
        name = next((name for name in self.ranges if name.casefold() in fetch.agent.casefold()), None)
        if name is None or not self._is_crawler(name, fetch.address):
            self.unverified.update(filter(None, [name]))
            return
        file = f"{fetch.file.partition('.')[0]}.xml"  # a file and its other forms list the same
        key = name, next((kind for kind, is_of in KINDS.items() if is_of(file)), "other")
        self._counts[key].update({str(fetch.status): 1, "bytes": fetch.bytes})
        if len(self._minutes[key]) < MINUTES_MAX:
            self._minutes[key].add(int(fetch.at.timestamp()) // 60)
        # In the second of a story's entry, the file may lack it.
        listed = bisect_left(self.listings.get(file, ()), (fetch.at, ""))
        if listed and fetch.method == "GET" and fetch.status in (200, 304):
            self._earliest[name, file, listed] = min(fetch.at, self._earliest.get((name, file, listed), fetch.at))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the counts by crawler and kind of file, with intervals in minutes; then the first fetch of each story by each crawler."""
        for (name, kind), counts in sorted(self._counts.items()):
            gaps = [later - earlier for earlier, later in pairwise(sorted(self._minutes[name, kind]))] or [0]
            statuses = " ".join(f"{status}×{number}" for status, number in sorted(counts.items()) if status != "bytes")
            intervals = {"median_interval": median(gaps), "longest_interval": max(gaps)}
            yield ROW | {"crawler": name, "files": kind, "statuses": statuses, "bytes": counts["bytes"]} | intervals
        fetches: dict[tuple[str, str], tuple[datetime, str, datetime]] = {}
        counted = Counter[tuple[str, str]]()
        for (name, file, listed), first in sorted(self._earliest.items(), key=itemgetter(1)):
            for since, url in self.listings[file][counted[name, file] : listed]:
                fetches.setdefault((url, name), (first, file, since))
            counted[name, file] = listed
        for (url, name), (first, file, since) in sorted(fetches.items(), key=lambda row: row[1][2], reverse=True):
            after_s = int((first - since).total_seconds())
            instants = {"listed": iso(since), "first_fetch": iso(first), "after_s": after_s}
            yield ROW | {"crawler": name, "files": file, "story": url} | instants


def read_lines(names: Sequence[str], skipped: Counter[str]) -> Iterator[bytes]:
    """Yield the lines of logs, decompressed, and show how much was read. Raises OSError, and the errors of AWS."""
    with progress("MB of logs") as show:
        size = 0
        for raw in chain.from_iterable(map(_open_logs, names)):
            log = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw
            try:
                while line := log.readline(LINE_BYTES_MAX):
                    yield line
                    size += len(line)
                    if size % 1_000_000 < len(line):
                        show(size // 1_000_000, None)
            except (EOFError, gzip.BadGzipFile, zlib.error):
                skipped["broken: the rest of a gzip file"] += 1
            raw.close()


def _open_logs(name: str) -> Iterator[BufferedReader]:
    """Yield the logs of one argument of the command. Raises OSError, and the errors of AWS."""
    if name.startswith("s3://"):
        bucket_name, _, prefix = name.removeprefix("s3://").partition("/")
        yield from bucket.read_all(bucket_name, prefix)
    elif name == "-":
        yield BufferedReader(sys.stdin.buffer)  # type: ignore[arg-type]
    else:
        yield from (path.open("rb") for path in sorted(filter(Path.is_file, Path(name).rglob("*"))) or [Path(name)])


def read_listings(site: Site) -> Listings:
    """Return when each story of the news entered its files, from the versions of the files in the bucket."""
    received: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    claims = read_claims(site.host, [entry.loc for entry in news_entries(site.host)])
    articles = read_articles(site.host, {claim.owner for claim in claims.values()})
    for url, claim in claims.items():
        if article := articles.get(claim.owner):  # else it left the news during these reads
            for place in filter(None, (article.news, article.shard)):
                received[place.file][url] = whole(article.received_at)
    return {file: list(_entries(site, file, stories)) for file, stories in received.items()}


def _entries(site: Site, file: str, received: dict[str, datetime]) -> Iterator[tuple[datetime, str]]:
    """Yield when stories entered a file, the earliest first. `received`: when each was received first."""
    for version in [*bucket.versions(site.host, file)][::-1]:
        recent = [url for url, at in received.items() if version.until is None or version.until >= at]
        stored = bucket.read(site.host, file, version.id) if recent and version.id else None
        for url in (url for url in recent if find_entry(site, file, stored, [url])):
            yield version.put_at, url
            del received[url]
