"""Whether the answers of `stoppress explain` agree with the files and with the oracle, for every page of a run."""

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
from tests.simulation import reading
from tests.simulation.oracle import FEED, Act, Knowledge, Meant, histories, meant, wanted


def stories(
    clients: Mapping[str, Any], host: str, spellings: Mapping[str, str], now: datetime
) -> Iterator[tuple[str, Story]]:
    """The answer about each page, read without a fault. `spellings` has a spelling to ask for by URL."""
    with ExitStack() as opening:
        for module in (bucket, table):
            opening.enter_context(mock.patch.object(module, "client", clients.__getitem__))
        site = sites.load(host, age_max=timedelta())
        for url, spelling in sorted(spellings.items()):
            yield url, answer_story(read_facts(Question(spelling, site, canonical(spelling)), now), now)


def news_of_surfaces(clients: Mapping[str, Any], host: str, instants: Sequence[datetime]) -> dict[str, list[set[str]]]:
    """The stories in the news at some instants, by the surface that shows them: the editors' page and `stoppress status`."""
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


def difference(found: reading.Listed, url: str, story: Story) -> str:
    """Where an answer and the files differ; empty if they agree."""
    for name, answer, pages in (("news", story.news, found.news), ("general", story.general, found.pages)):
        if answer.listed != (url in pages):
            return f"{url}: the files list it: {url in pages}, but the answer of the {name} sitemap is {answer}"
    return ""


@dataclass
class Oracle:
    """What the newsroom meant at some instants that are close together: the reasons that follow from it.

    `acts` are those that the stack has received, `kept_out` beginnings of paths that the site's rules exclude.
    """

    host: str
    acts: Sequence[Act]
    kept_out: Sequence[str]
    instants: Sequence[datetime]
    known: Knowledge

    def __post_init__(self) -> None:
        self._wants = [wanted(self.acts, self.host, (), at, self.known) for at in self.instants]
        self._articles = [
            {name: meant(history, at, self.known) for name, history in histories(self.acts, self.host).items()}
            for at in self.instants
        ]

    def difference(self, url: str, story: Story) -> str:
        """Where the reasons of an answer are not those that follow; empty if they are, or if nobody can say."""
        if any(url in want.doubtful or url in want.doubtful_news for want in self._wants):
            return ""
        pages = [want.pages.get(url) for want in self._wants]
        if len({page is None for page in pages}) > 1:
            return ""
        kinds = {reason.kind for reason in story.news.reasons}
        if pages[0] is None:
            meanings = self._absent(url, story)
            decides = story.news.reasons[0].kind if story.news.reasons else "no reason"
            return f"{url} is absent for {decides}, not for {meanings}" if decides not in meanings else ""
        not_news = [self._not_news(url, page, at) for page, at in zip(pages, self.instants, strict=True) if page]
        # A rewriter whose clock is ahead of the reader's ends the window earlier: then the answer is "not written" until its end.
        is_ending = set() in not_news and {"expired"} in not_news
        if kinds not in not_news and None not in not_news and not (is_ending and kinds == {"not written"}):
            return f"{url} is no news for {kinds}, not for {not_news}"
        is_ruled = any(reason.kind == "rule" for reason in story.general.reasons)
        return f"{url} is ruled out: {is_ruled}" if is_ruled != self._is_kept_out(url) else ""

    def _is_kept_out(self, url: str) -> bool:
        return any(url.split("/", 3)[3].startswith(beginning) for beginning in self.kept_out)

    def _not_news(self, url: str, page: Meant, at: datetime) -> set[str] | None:
        """All reasons that keep a page out of the news sitemap; None if that cannot be said."""
        kinds = {"rule"} if self._is_kept_out(url) else set()
        kinds |= set() if page.act.news else {"not news"}
        if not page.dates:
            return kinds | {"no date"}
        by_date = replace(page, act=replace(page.act, news=True)).news_at(at)
        if len(by_date) > 1:
            return None
        return kinds | (set() if by_date == {True} else {"expired"})

    def _absent(self, url: str, story: Story) -> set[str]:
        """What may keep a page out of all sitemaps."""
        here = {act.article for act in self.acts if act.site == self.host and act.url == url}
        if not here:
            return {"never received"}
        kinds = set().union(*(self._of_article(articles[name], url) for articles in self._articles for name in here))
        is_elsewhere = kinds <= {"removed", "moved"}
        if all(name.startswith(f"{FEED}#") or (is_elsewhere and self._may_be_lost(name, story)) for name in here):
            kinds.add("never received")  # an entry may have left the feed before a poll
        by_url = (act for act in self.acts if act.removal and act.names == "url" and act.url == url)
        if not story.received and next(by_url, None):
            kinds.add("removed")  # after 90 days, only the claim on the URL is left of an excluded article
        return kinds if len(here) == 1 else kinds | {"other article"}

    def _may_be_lost(self, name: str, story: Story) -> bool:
        """Whether nothing may be left that says that an article had this URL before.

        Only the page's story has the earlier URL of a held article and the URL of a late event. A killed function writes no story,
        and a story is kept for 90 days.
        """
        history = histories(self.acts, self.host)[name]
        is_forgotten = self.known.received(history[-1]).latest + STORY_KEPT < self.instants[-1]
        return not story.received and (is_forgotten or not self.known.received_in_order(history))

    @staticmethod
    def _of_article(article: Meant, url: str) -> set[str]:
        if not article.live:  # without an id its source removed the URL itself
            return {"removed"} | ({"moved"} if article.act.url != url else set())
        if article.act.url != url:
            return {"moved"}
        if not (article.embargo or article.act.noindex):
            return {"other article"}
        # The answer names either reason if an article has both.
        return ({"held"} if article.embargo else set()) | ({"excluded"} if article.act.noindex else set())
