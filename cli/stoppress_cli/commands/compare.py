"""`stoppress compare`: which pages only an old sitemap lists, or only a site's files, and why."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from stoppress.aws import bucket, sites
from stoppress.aws.inventory import all_files
from stoppress.model.event import Problem
from stoppress.model.file_names import is_news, is_shard
from stoppress.model.site import Site
from stoppress.primitives.urls import identity, on_site
from stoppress.show.question import Unclear, read_refused
from stoppress.show.story import Story, story_of
from stoppress.sitemaps.other_forms import text_sitemap
from stoppress_cli.inputs.sitemap_pages import Sitemaps
from stoppress_cli.options import READS, Commands
from stoppress_cli.output import counted, end, progress, track

app = Commands()

# The differences that get a reason, which costs some reads of the table and the bucket.
REASONS_MAX = 1_000
PROBLEMS_KEPT = 100


@app.command(effect=READS, example="stoppress compare old-sitemap.xml --site www.example.com --stack stoppress")
def compare(
    old: Annotated[str, typer.Argument(help="URL or file of the old sitemap, index or robots.txt.")],
    site: Annotated[str, typer.Option("--site", help="Host of the site.")],
) -> None:
    """Compare an old sitemap with a site's files, and show which pages only one of them lists, and why.

    Exit code 1: the sitemap and the files differ, or a part of the old sitemap cannot be read.
    """
    target = sites.load(site.lower())
    result = compare_pages(Sitemaps(old, target), target, datetime.now(UTC))
    end(result, result.lines(), is_ok=not (result.only_old or result.only_here or result.problems))


@dataclass(frozen=True, slots=True)
class Difference:
    """A page that only the old sitemap lists, or only the site's files (`here`), and the reason."""

    url: str
    listed: Literal["old", "here"]
    reason: str


@dataclass
class Comparison:
    """How many pages both sides list, or only one. `differences` has the first REASONS_MAX, `problems` the parts that were not read."""

    both: int = 0
    only_old: int = 0
    only_here: int = 0
    differences: list[Difference] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the comparison for people."""
        yield from (f"not read   {problem.place}: {problem.reason}" for problem in self.problems)
        yield from (f"only {row.listed:<5} {row.url}: {row.reason}" for row in self.differences)
        if omitted := self.only_old + self.only_here - len(self.differences):
            yield f"and {counted(omitted, 'more difference')}"
        yield f"{self.both:,} in both, {self.only_old:,} only old, {self.only_here:,} only here"


def compare_pages(old: Sitemaps, site: Site, now: datetime) -> Comparison:
    """Compare all pages. Raises ListingError, and the errors of table and bucket."""
    result = Comparison()
    old_urls, urls = set[str](), set(_read_urls(site))
    with progress("pages of the old sitemap") as show:
        for page in old.pages():
            old_urls |= {identity(item.event.url) for item in page.items if item.event.url}
            result.problems += page.problems[: PROBLEMS_KEPT - len(result.problems)]
            show(len(old_urls), page.total)
    only_old, only_here = sorted(old_urls - urls), sorted(urls - old_urls)
    result.both, result.only_old, result.only_here = len(old_urls & urls), len(only_old), len(only_here)
    refused = read_refused(site.host, now)
    for url in track((only_old + only_here)[:REASONS_MAX], "differences"):
        try:
            reason = _reason(story_of(url, site.host, now, refused), is_here=url in urls)
        except Unclear as error:
            reason = str(error)
        result.differences.append(Difference(url, "here" if url in urls else "old", reason))
    return result


def _read_urls(site: Site) -> Iterator[str]:
    """Yield the pages in the site's files. Leaves out the home page in a news sitemap: it only keeps the file from being empty."""
    for file in track(all_files(site), "files of the site"):
        if not (is_shard(file) or is_news(file)) or not file.endswith(".xml"):
            continue
        stored = bucket.read(site.host, file)
        urls = (on_site(url, site.host) for url in text_sitemap(stored.body if stored else b"").decode().splitlines())
        yield from (identity(url) for url in urls if not (is_news(file) and url == on_site(site.home, site.host)))


def _reason(story: Story, *, is_here: bool) -> str:
    if not is_here:
        return "; ".join(reason.text for reason in story.general.reasons) or "it is listed now"
    articles = (f"article {article['name']}, {article['state']}" for article in story.articles)
    return "; ".join(articles) or "a page of the configuration"
