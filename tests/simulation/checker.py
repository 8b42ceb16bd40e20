"""Checks invariants of the files after each write, and compares idle stacks with the oracle and with `stoppress explain`."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from tests.simulation import explain_oracle, file_reader, oracle
from tests.simulation.arrivals import Arrivals
from tests.simulation.oracle import FEED, Act, ExpectedArticle, ExpectedPages, edition
from tests.simulation.script import SOURCES, Script
from tests.simulation.world import MINUTE, World

# roll_window runs each minute, and the scheduler may start it a minute late.
LATE_MAX = 2 * MINUTE
# If a newsroom's clock is ahead, a release may be five minutes early.
EARLY_MAX = timedelta(minutes=5, seconds=30)


class Violation(AssertionError):
    """A broken promise of the product. The message contains the command for a replay."""


class Checker:
    """Compares a stack with the oracle. All methods raise Violation."""

    def __init__(self, world: World, script: Script, news_max: int) -> None:
        self.world, self.script, self.news_max = world, script, news_max
        self.skew = timedelta(seconds=world.call_faults.skew_s)
        self.arrivals = Arrivals(self.skew)
        self._public_from = script.public_from()

    def check_object_change(self, operation: str, key: str) -> None:
        """Check the invariants of all files, after each change of an object."""
        objects = self.world.backend.objects()
        host, _, name = key.partition("/")
        if operation == "put_object":
            errors = file_reader.file_errors(host, name, objects[key], news_max=self.news_max, shard_max=50)
            if errors:
                raise Violation(f"{key} was put with: {'; '.join(errors)}")
            self._assert_none_is_early(key, file_reader.urls(name, objects[key]))
        absent = [file for file in file_reader.in_index(objects, host) if f"{host}/{file}" not in objects]
        if absent:
            raise Violation(f"after {operation} of {name}, the index lists missing files: {absent}")

    def check_event(self, event: dict[str, Any]) -> None:
        if event["source"] not in SOURCES:
            self._assert_none_is_early(
                f"the event {event['detail-type']}", file_reader.urls("", json.dumps(event).encode())
            )

    def _assert_none_is_early(self, where: str, urls: Collection[str]) -> None:
        now = self.world.now
        early = {url: at for url in urls if (at := self._public_from.get(url, now)) > now + self.skew}
        if early:
            raise Violation(f"at {now}, {where} lists pages that are not public yet: {early}")

    def check(self, *, compares_answers: bool = True, is_idle: bool = False) -> None:
        objects = self.world.backend.objects()
        if is_idle:
            self._compare_versions(objects)
        for host in self.script.hosts:
            self.compare(host, objects)
            if differing := file_reader.differing_forms(objects, host):
                raise Violation(f"{host}: other forms have different content: {differing}")
            if files := file_reader.files_of_other_scheme(objects, host, self.script.scheme[host]):
                raise Violation(f"{host}: {files} list pages under another scheme than {self.script.scheme[host]}")
            outputs = self.script.outputs[host]
            if error := file_reader.form_errors(objects, host, outputs):
                raise Violation(f"{host}: {error}, where {outputs} is configured")
            if error := file_reader.robots_errors(objects, host, self.script.robots[host], self.script.editions[host]):
                raise Violation(f"{host}: {error}")
            if compares_answers:
                self._compare_answers(host, objects)

    def _compare_versions(self, objects: dict[str, bytes]) -> None:
        """Check that two pages list each other or neither does, and that versions which both declare each other are listed."""
        links, pages, acts = dict[str, dict[str, str]](), dict[str, ExpectedArticle](), self.received()
        for host in self.script.hosts:
            links |= file_reader.read_listing(objects, host).links
            pages |= oracle.expected_pages(acts, host, self.script.excluded[host], self.world.now, self.arrivals).pages
        items = [
            {name: next(iter(value.values())) for name, value in item.items()} for item in self.world.backend.items()
        ]
        removed = {
            item["url"]
            for item in items
            if item["pk"].startswith("url#") and item.get("owner") and not item.get("live")
        }
        for url, listed in links.items():
            for other in set(listed.values()) - {url}:
                if other in links and url not in links[other].values():
                    raise Violation(f"{url} lists {other}, which does not list it")
                if other not in links and other in removed:
                    raise Violation(f"{url} lists {other}, which was removed")
        for url, page in pages.items():
            for other in self._always_lists(page.act) & pages.keys() if url in links else ():
                is_certain = url in self._always_lists(pages[other].act) or self._is_free(page.act, pages[other].act)
                if other in links and other not in links[url].values() and is_certain:
                    raise Violation(f"{url} does not list {other}, which can list it")

    def _acts_of_article(self, act: Act) -> list[Act]:
        return [other for other in self.script.acts if (other.site, other.article) == (act.site, act.article)]

    def _always_lists(self, act: Act) -> set[str]:
        """Return the pages that all acts of an article list under languages other than its own."""
        acts = [other for other in self._acts_of_article(act) if not other.removal]
        lists = [{url for code, url in other.alternates if code != act.language and url != act.url} for other in acts]
        return set.intersection(*lists)

    def _is_free(self, lister: Act, act: Act) -> bool:
        """Return True if no other page with the lister's language code is linked with the act's page."""
        code, own = _code(lister), self._acts_of_article(act)
        others = (other for other in self.script.acts if _code(other) == code and other.url != lister.url)
        is_listed = any(url == act.url for other in others for _, url in other.alternates)
        return _code(act) not in ("", code) and not is_listed and not any(code in dict(past.alternates) for past in own)

    def _compare_answers(self, host: str, objects: dict[str, bytes]) -> None:
        """Check that `stoppress explain` agrees with the files about each page, and with the oracle about the reason."""
        listing = file_reader.read_listing(objects, host)
        spellings = {act.url: act.written for act in self.script.acts if act.site == host}
        reasons = explain_oracle.ReasonOracle(
            host, self.received(), self.script.excluded[host], self._instants_around(), self.arrivals
        )
        for url, story in explain_oracle.stories(self.world.backend.clients, host, spellings, self.world.now):
            if difference := explain_oracle.difference(listing, url, story) or reasons.difference(url, story):
                raise Violation(f"{host}: {difference}")
        shown = explain_oracle.news_of_surfaces(self.world.backend.clients, host, self._instants_around())
        certain, possible = set.intersection(*shown["page"]), set.union(*shown["page"])
        news = sorted(listing.news)
        if not certain <= set(map(identity, news)) <= possible:
            raise Violation(f"{host}: the page shows {sorted(possible)} in the news, the files list {news}")
        if [len(urls) for urls in shown["page"]] != [len(rows) for rows in shown["status"]]:
            raise Violation(f"{host}: the page shows {shown['page']}, status counts {shown['status']}")

    def _instants_around(self) -> tuple[datetime, ...]:
        """Return instants between which due work may be done or still be pending."""
        return self.world.now - LATE_MAX, self.world.now, self.world.now + EARLY_MAX

    def compare(self, host: str, objects: dict[str, bytes]) -> None:
        listing = file_reader.read_listing(objects, host)
        acts, excluded = self.received(), self.script.excluded[host]
        expected = [oracle.expected_pages(acts, host, excluded, at, self.arrivals) for at in self._instants_around()]
        if listing.twice:
            raise Violation(f"{host}: listed twice: {sorted(listing.twice)}")
        undecidable = set().union(*(pages.undecidable for pages in expected))
        if difference := _difference(listing.pages.keys(), [pages.pages.keys() for pages in expected], undecidable):
            raise Violation(f"{host}: pages {difference}")
        undecidable.update(*(pages.undecidable_news for pages in expected))
        if difference := _difference(listing.news.keys(), [pages.news.keys() for pages in expected], undecidable):
            raise Violation(f"{host}: news {difference}")
        for name, history in oracle.histories(acts, host).items():
            others = {act.url for act in acts if act.article != name}
            if len(twice := {act.url for act in history} & listing.pages.keys() - others) > 1:
                raise Violation(f"{host}: {name} has several pages: {sorted(twice)}")
        for series, urls in listing.news_of.items() if self.script.fixed_editions[host] else ():
            name = series.removeprefix("sitemap-news").removeprefix("-")
            if others := {url for url in urls if edition(url, self.script.editions[host]).get("news", "") != name}:
                raise Violation(f"{host}: {series} lists {sorted(others)}, which belong to another series")
        self._compare_texts(host, listing, expected)

    def _compare_texts(self, host: str, listing: file_reader.Listing, expected: Sequence[ExpectedPages]) -> None:
        def possible_pages(url: str) -> list[ExpectedArticle]:
            is_undecidable = any(url in pages.undecidable for pages in expected)  # perhaps since the end of an embargo
            return [] if is_undecidable else [pages.pages[url] for pages in expected if url in pages.pages]

        for url, loc in listing.written.items():
            pages = possible_pages(url)
            if pages and loc not in [file_reader.escaped(page.act.written) for page in pages]:
                raise Violation(f"{host}: {url} is written {loc}, not {pages[-1].act.written}")
        for url, (title, date, name) in listing.news.items():
            expected_name = edition(url, self.script.editions[host]).get("publication", self.script.publication[host])
            if name != expected_name:
                raise Violation(f"{host}: {url} is of {name!r}, not of {expected_name!r}")
            if (pages := possible_pages(url)) and not any(title == page.act.title for page in pages):
                raise Violation(f"{host}: {url} is called {title!r}, not {pages[-1].act.title!r}")
            if pages and not any(page.may_be_dated(date) for page in pages):
                raise Violation(f"{host}: {url} is dated {date}, not {_ranges(pages[-1].dates)}")
        for url, lastmod in listing.pages.items():
            pages = possible_pages(url)
            if pages and not any(page.was_embargoed or page.may_have_changed(lastmod) for page in pages):
                raise Violation(
                    f"{host}: {url} changed {lastmod}, not {_ranges(pages[-1].lastmods)} nor {_ranges(pages[-1].dates)}"
                )

    def received(self) -> list[Act]:
        """Return the acts that reached the stack. An entry may leave a feed before it is polled."""
        return [act for act in self.script.acts if self.arrivals.may_be_received(act)]

    def instants(self) -> list[datetime]:
        """Return the instants of all publications and expiries of public or embargoed articles."""
        dates = set[datetime]()
        for host in self.script.hosts:
            for history in oracle.histories(self.received(), host).values():
                article = oracle.expected_article(history, self.world.now, self.arrivals)
                dates |= {date for range_ in article.dates for date in range_} if article.is_public else set()
                dates |= {article.embargo} if article.embargo else set()
        return sorted({at for date in dates for at in (date, date + timedelta(hours=48))})

    def check_table(self) -> None:
        items = [
            {name: next(iter(value.values())) for name, value in item.items()} for item in self.world.backend.items()
        ]
        acts, horizon = self.received(), exact(self.world.now)
        undecided = {
            name
            for host in self.script.hosts
            for name, history in oracle.histories(acts, host).items()
            if not self.arrivals.history_is_known(history)
        }
        # If the last act is undecidable, an article may have an embargo due to a mistyped year.
        held = {item["sk"] for item in items if item["sk"] > horizon and item["sk"].partition("#")[2] in undecided}
        if due := [item["sk"] for item in items if item["pk"].startswith("due#") and item["sk"] not in held]:
            raise Violation(f"these items stay due forever: {due}")
        quarantined = {item["event"] for item in items if item["pk"].startswith("quarantine#") and item["reason"]}
        if quarantined != set(self.script.poison):
            raise Violation(f"{self.script.poison} could not be read, and {quarantined} are in quarantine")
        items_by_key = {item["pk"]: item for item in items}
        for act in self.script.acts:
            if act.source == FEED or not act.id:
                continue
            article = items_by_key.get(f"article#{act.site}#{act.article}")
            if article is None:
                raise Violation(f"{act.article} was acknowledged, and has no item")
            if article["state"] != "listed" and not article.get("reason"):
                raise Violation(f"{act.article} is {article['state']} without a reason")


def _code(act: Act) -> str:
    """Return the language code of an act's page: the code under which the page lists itself, or its language."""
    return min((code for code, url in act.alternates if url == act.url), default=act.language)


def _ranges(ranges: Sequence[tuple[datetime, datetime] | None]) -> str:
    return " or ".join(f"{range_[0]} to {range_[1]}" if range_ else "never" for range_ in ranges) or "never"


def _difference(urls: Collection[str], expected: Sequence[Collection[str]], undecidable: Collection[str]) -> str:
    """Return the URLs that all `expected` contain and `urls` lacks, and those in none of them; empty if there are none."""
    missing = set.intersection(*(set(pages) for pages in expected)) - set(urls) - set(undecidable)
    too_many = set(urls).difference(*expected) - set(undecidable)
    return f"missing {sorted(missing)}, too many {sorted(too_many)}" if missing or too_many else ""
