"""Compares the answers of `stoppress explain` with the files and with the oracle, for every page of a run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from unittest import mock
from urllib.parse import unquote

from stoppress.aws import bucket, inventory, sites, table
from stoppress.aws.items import STORY_KEPT
from stoppress.primitives.urls import canonical, identity
from stoppress.show.page import render_content
from stoppress.show.question import Question
from stoppress.show.read_page import SitePage
from stoppress.show.read_site import Quarantine, SiteFacts, StackFacts
from stoppress.show.read_story import read_facts
from stoppress.show.stack_status import Access, stack_status
from stoppress.show.story import Story, answer_story
from tests.simulation import file_reader, oracle
from tests.simulation.oracle import FEED, Act, ArrivalFacts, ExpectedArticle


def stories(
    clients: Mapping[str, Any], host: str, spellings: Mapping[str, str], now: datetime
) -> Iterator[tuple[str, Story]]:
    """Yield the answer about each page, read without faults. `spellings` has the spelling to query for each URL."""
    with ExitStack() as opening:
        for module in (bucket, table):
            opening.enter_context(mock.patch.object(module, "client", clients.__getitem__))
        site = sites.load(host, age_max=timedelta())
        for url, spelling in sorted(spellings.items()):
            yield url, answer_story(read_facts(Question(spelling, site, canonical(spelling)), now), now)


def news_of_surfaces(clients: Mapping[str, Any], host: str, instants: Sequence[datetime]) -> dict[str, list[set[str]]]:
    """Return the stories in the news at each instant, as the editors' page and `stoppress status` show them."""
    shown: dict[str, list[set[str]]] = {"page": [], "status": []}
    with ExitStack() as opening:
        for module in (bucket, inventory, table):
            opening.enter_context(mock.patch.object(module, "client", clients.__getitem__, create=True))
        site, news = sites.load(host, age_max=timedelta()), tuple(inventory.news_entries(host))
    for now in instants:
        status = stack_status(
            StackFacts((SiteFacts(site, {}, (), (), news, None, Quarantine()),), rolled_at=now), now, Access()
        )
        html = render_content(SitePage(site, status, news)).partition('id="window"')[2].partition("</section>")[0]
        urls = {identity(unquote(target)) for target in re.findall(r'href="\?q=([^"]*)"', html)}
        shown["page"].append(urls)
        shown["status"].append({str(number) for number in range(status.sites[0]["window"]["stories"])})
    return shown


def difference(listing: file_reader.Listing, url: str, story: Story) -> str:
    """Return the difference between an answer and the files, empty if they agree."""
    for name, answer, pages in (("news", story.news, listing.news), ("general", story.general, listing.pages)):
        if answer.listed != (url in pages):
            return f"{url}: the files list it: {url in pages}, but the answer of the {name} sitemap is {answer}"
    return ""


@dataclass
class ReasonOracle:
    """Expected reasons for a page's presence or absence, at instants that are close together.

    `acts` are the acts that the stack has received, `excluded` the path prefixes that the site's rules exclude.
    """

    host: str
    acts: Sequence[Act]
    excluded: Sequence[str]
    instants: Sequence[datetime]
    arrivals: ArrivalFacts

    def __post_init__(self) -> None:
        acts_of = oracle.histories(self.acts, self.host).items()
        self._expected = [oracle.expected_pages(self.acts, self.host, (), at, self.arrivals) for at in self.instants]
        self._articles = [
            {name: oracle.expected_article(history, at, self.arrivals) for name, history in acts_of}
            for at in self.instants
        ]

    def difference(self, url: str, story: Story) -> str:
        """Return the difference between an answer's reasons and the expected ones, empty if equal or undecidable."""
        if any(url in expected.undecidable or url in expected.undecidable_news for expected in self._expected):
            return ""
        pages = [expected.pages.get(url) for expected in self._expected]
        if len({page is None for page in pages}) > 1:
            return ""
        kinds = {reason.kind for reason in story.news.reasons}
        if pages[0] is None:
            expected_kinds = self._absence_reasons(url, story)
            kind = story.news.reasons[0].kind if story.news.reasons else "no reason"
            return f"{url} is absent for {kind}, not for {expected_kinds}" if kind not in expected_kinds else ""
        not_news = [self._news_reasons(url, page, at) for page, at in zip(pages, self.instants, strict=True) if page]
        # If a rewriter's clock is ahead of the reader's, the window ends earlier in the file: "not written" until it ends here.
        is_ending = set() in not_news and {"expired"} in not_news
        if kinds not in not_news and None not in not_news and not (is_ending and kinds == {"not written"}):
            return f"{url} is not news for {kinds}, not for {not_news}"
        is_ruled = any(reason.kind == "rule" for reason in story.general.reasons)
        return f"{url} is excluded by a rule: {is_ruled}" if is_ruled != self._is_excluded(url) else ""

    def _is_excluded(self, url: str) -> bool:
        return any(url.split("/", 3)[3].startswith(prefix) for prefix in self.excluded)

    def _news_reasons(self, url: str, page: ExpectedArticle, at: datetime) -> set[str] | None:
        """Return all reasons that exclude a page from the news sitemap, None if undecidable."""
        kinds = {"rule"} if self._is_excluded(url) else set()
        kinds |= set() if page.act.news else {"not news"}
        if not page.dates:
            return kinds | {"no date"}
        by_date = replace(page, act=replace(page.act, news=True)).news_at(at)
        if len(by_date) > 1:
            return None
        return kinds | (set() if by_date == {True} else {"expired"})

    def _absence_reasons(self, url: str, story: Story) -> set[str]:
        """Return the possible reasons that exclude a page from all sitemaps."""
        here = {act.article for act in self.acts if act.site == self.host and act.url == url}
        if not here:
            return {"never received"}
        kinds = set().union(*(self._reasons_of(articles[name], url) for articles in self._articles for name in here))
        is_elsewhere = kinds <= {"removed", "moved"}
        if all(name.startswith(f"{FEED}#") or (is_elsewhere and self._may_be_lost(name, story)) for name in here):
            kinds.add("never received")  # an entry may have left the feed before a poll
        by_url = (act for act in self.acts if act.removal and act.ref == "url" and act.url == url)
        if not story.received and next(by_url, None):
            kinds.add("removed")  # after 90 days, an excluded article has only its claim on the URL
        return kinds if len(here) == 1 else kinds | {"other article"}

    def _may_be_lost(self, name: str, story: Story) -> bool:
        """Return True if perhaps no item shows that an article had this URL before.

        Only the page's story contains the earlier URL of a held article and the URL of a late event. A killed function writes no
        story, and stories expire after 90 days.
        """
        history = oracle.histories(self.acts, self.host)[name]
        is_forgotten = self.arrivals.received(history[-1]).latest + STORY_KEPT < self.instants[-1]
        return not story.received and (is_forgotten or not self.arrivals.received_in_order(history))

    @staticmethod
    def _reasons_of(article: ExpectedArticle, url: str) -> set[str]:
        if not article.live:  # an act without an id removed the URL itself
            return {"removed"} | ({"moved"} if article.act.url != url else set())
        if article.act.url != url:
            return {"moved"}
        if not (article.embargo or article.act.noindex):
            return {"other article"}
        return ({"held"} if article.embargo else set()) | ({"excluded"} if article.act.noindex else set())
