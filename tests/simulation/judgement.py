"""What must hold of the files: at every moment, and when all is quiet, by the oracle and by the product's own answers."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from tests.simulation import explaining, reading
from tests.simulation.knowable import Arrivals
from tests.simulation.oracle import FEED, Act, Meant, Wanted, edition, histories, meant, wanted
from tests.simulation.story import SOURCES, Story
from tests.simulation.world import MINUTE, World

# roll_window runs each minute, and the scheduler may start it a minute late.
LATE_MAX = 2 * MINUTE
# A release may be five minutes early where a newsroom's clock is ahead: so much its date may be before what was said.
EARLY_MAX = timedelta(minutes=5, seconds=30)


class Broken(AssertionError):
    """What the product promises does not hold. The text says what, and how to see it again."""


class Judge:
    """Compares a stack with what its newsroom means. Every method raises Broken."""

    def __init__(self, world: World, story: Story, news_max: int) -> None:
        self.world, self.story, self.news_max = world, story, news_max
        self.skew = timedelta(seconds=world.call_faults.skew_s)
        self.arrivals = Arrivals(self.skew)
        self._public_from = story.public_from()

    def look(self, operation: str, key: str) -> None:
        """What holds at every moment, looked at after each change of an object."""
        objects = self.world.backend.objects()
        host, _, name = key.partition("/")
        if operation == "put_object":
            faults = reading.faults(host, name, objects[key], news_max=self.news_max, shard_max=50)
            if faults:
                raise Broken(f"{key} was put with: {'; '.join(faults)}")
            self._assert_none_is_early(key, reading.urls(name, objects[key]))
        absent = [file for file in reading.in_index(objects, host) if f"{host}/{file}" not in objects]
        if absent:
            raise Broken(f"after {operation} of {name} the index names what is not there: {absent}")

    def overhear(self, event: dict[str, Any]) -> None:
        if event["source"] not in SOURCES:
            self._assert_none_is_early(
                f"the event {event['detail-type']}", reading.urls("", json.dumps(event).encode())
            )

    def _assert_none_is_early(self, where: str, urls: Collection[str]) -> None:
        now = self.world.now
        early = {url: at for url in urls if (at := self._public_from.get(url, now)) > now + self.skew}
        if early:
            raise Broken(f"{where} names at {now} what is not public yet: {early}")

    def judge(self, *, compares_answers: bool = True, is_at_rest: bool = False) -> None:
        objects = self.world.backend.objects()
        if is_at_rest:
            self._compare_versions(objects)
        for host in self.story.hosts:
            self.compare(host, objects)
            if differing := reading.forms_that_differ(objects, host):
                raise Broken(f"{host}: other forms say something else: {differing}")
            if files := reading.of_another_scheme(objects, host, self.story.scheme[host]):
                raise Broken(f"{host}: {files} list pages under another scheme than {self.story.scheme[host]}")
            outputs = self.story.outputs[host]
            if told := reading.forms_that_are_not_as_wanted(objects, host, outputs):
                raise Broken(f"{host}: {told}, where {outputs} was said")
            if told := reading.robots_that_is_not_as_wanted(
                objects, host, self.story.robots[host], self.story.editions[host]
            ):
                raise Broken(f"{host}: {told}")
            if compares_answers:
                self._compare_answers(host, objects)

    def _compare_versions(self, objects: dict[str, bytes]) -> None:
        """Every two pages list each other or neither does; whoever both say that they belong together are listed."""
        links, wants, acts = dict[str, dict[str, str]](), dict[str, Meant](), self.received()
        for host in self.story.hosts:
            links |= reading.listed(objects, host).links
            wants |= wanted(acts, host, self.story.kept_out[host], self.world.now, self.arrivals).pages
        items = [
            {name: next(iter(value.values())) for name, value in item.items()} for item in self.world.backend.items()
        ]
        gone = {
            item["url"]
            for item in items
            if item["pk"].startswith("url#") and item.get("owner") and not item.get("live")
        }
        for url, listed in links.items():
            for other in set(listed.values()) - {url}:
                if other in links and url not in links[other].values():
                    raise Broken(f"{url} lists {other}, which does not list it")
                if other not in links and other in gone:
                    raise Broken(f"{url} lists {other}, which is gone")
        for url, want in wants.items():
            for other in self._always_lists(want.act) & wants.keys() if url in links else ():
                is_certain = url in self._always_lists(wants[other].act) or self._is_free(want.act, wants[other].act)
                if other in links and other not in links[url].values() and is_certain:
                    raise Broken(f"{url} does not list {other}, which can list it")

    def _words(self, act: Act) -> list[Act]:
        """What was ever said of an act's article."""
        return [word for word in self.story.acts if (word.site, word.article) == (act.site, act.article)]

    def _always_lists(self, act: Act) -> set[str]:
        """The pages that each word of an act's article lists, other than as of its own language."""
        words = [word for word in self._words(act) if not word.removal]
        lists = [{url for code, url in word.alternates if code != act.language and url != act.url} for word in words]
        return set.intersection(*lists)

    def _is_free(self, lister: Act, act: Act) -> bool:
        """Whether the page of an act has no other page of the code of the lister's page."""
        code, own = _code(lister), self._words(act)
        others = (word for word in self.story.acts if _code(word) == code and word.url != lister.url)
        is_listed = any(url == act.url for word in others for _, url in word.alternates)
        return _code(act) not in ("", code) and not is_listed and not any(code in dict(word.alternates) for word in own)

    def _compare_answers(self, host: str, objects: dict[str, bytes]) -> None:
        """What `stoppress explain` answers about each page is what the files list, for the reason that the newsroom gave."""
        found = reading.listed(objects, host)
        spellings = {act.url: act.written for act in self.story.acts if act.site == host}
        oracle = explaining.Oracle(
            host, self.received(), self.story.kept_out[host], self._instants_around(), self.arrivals
        )
        for url, story in explaining.stories(self.world.backend.clients, host, spellings, self.world.now):
            if told := explaining.difference(found, url, story) or oracle.difference(url, story):
                raise Broken(f"{host}: {told}")
        shown = explaining.news_of_surfaces(self.world.backend.clients, host, self._instants_around())
        certain, possible = set.intersection(*shown["page"]), set.union(*shown["page"])
        if not certain <= {identity(url) for url in found.news} <= possible:
            raise Broken(f"{host}: the page shows {sorted(possible)} in the news, the files list {sorted(found.news)}")
        if [len(urls) for urls in shown["page"]] != [len(rows) for rows in shown["status"]]:
            raise Broken(f"{host}: the page shows {shown['page']}, status counts {shown['status']}")

    def _instants_around(self) -> tuple[datetime, ...]:
        """What is due between these instants may have been done or not."""
        return self.world.now - LATE_MAX, self.world.now, self.world.now + EARLY_MAX

    def compare(self, host: str, objects: dict[str, bytes]) -> None:
        found = reading.listed(objects, host)
        acts = self.received()
        wants = [wanted(acts, host, self.story.kept_out[host], at, self.arrivals) for at in self._instants_around()]
        if found.twice:
            raise Broken(f"{host}: listed twice: {sorted(found.twice)}")
        doubtful = set().union(*(want.doubtful for want in wants))
        if told := _difference(found.pages.keys(), [want.pages.keys() for want in wants], doubtful):
            raise Broken(f"{host}: pages {told}")
        doubtful_news = doubtful.union(*(want.doubtful_news for want in wants))
        if told := _difference(found.news.keys(), [want.news.keys() for want in wants], doubtful_news):
            raise Broken(f"{host}: news {told}")
        for name, history in histories(acts, host).items():
            others = {act.url for act in acts if act.article != name}
            if len(twice := {act.url for act in history} & found.pages.keys() - others) > 1:
                raise Broken(f"{host}: {name} has several pages: {sorted(twice)}")
        for series, urls in found.news_of.items() if self.story.steady[host] else ():
            name = series.removeprefix("sitemap-news").removeprefix("-")
            if others := {url for url in urls if edition(url, self.story.editions[host]).get("news", "") != name}:
                raise Broken(f"{host}: {series} lists {sorted(others)}, which are not its own")
        self._compare_texts(host, found, wants)

    def _compare_texts(self, host: str, found: reading.Listed, wants: Sequence[Wanted]) -> None:
        def meanings(url: str) -> list[Meant]:
            is_doubtful = any(url in want.doubtful for want in wants)  # perhaps only since an embargo's hour has come
            return [] if is_doubtful else [want.pages[url] for want in wants if url in want.pages]

        for url, loc in found.written.items():
            if (pages := meanings(url)) and not any(reading.escaped(page.act.written) == loc for page in pages):
                raise Broken(f"{host}: {url} is written {loc}, not {pages[-1].act.written}")
        for url, (title, date, name) in found.news.items():
            wanted_name = edition(url, self.story.editions[host]).get("publication", self.story.publication[host])
            if name != wanted_name:
                raise Broken(f"{host}: {url} is of {name!r}, not of {wanted_name!r}")
            if (pages := meanings(url)) and not any(title == page.act.title for page in pages):
                raise Broken(f"{host}: {url} is called {title!r}, not {pages[-1].act.title!r}")
            if pages and not any(page.may_be_dated(date) for page in pages):
                raise Broken(f"{host}: {url} is dated {date}, not {_ranges(pages[-1].dates)}")
        for url, lastmod in found.pages.items():
            pages = meanings(url)
            if pages and not any(page.was_embargoed or page.may_have_changed(lastmod) for page in pages):
                raise Broken(
                    f"{host}: {url} changed {lastmod}, not {_ranges(pages[-1].lastmods)} nor {_ranges(pages[-1].dates)}"
                )

    def received(self) -> list[Act]:
        """What has reached the stack: of what a feed said some may have been gone before anybody asked."""
        return [act for act in self.story.acts if self.arrivals.may_be_received(act)]

    def instants(self) -> list[datetime]:
        """When something is published or expires that is there, or will be."""
        found = set()
        for host in self.story.hosts:
            for history in histories(self.received(), host).values():
                article = meant(history, self.world.now, self.arrivals)
                dates = {date for dated in article.dates for date in dated} if article.is_public else set()
                found |= dates | ({article.embargo} if article.embargo else set())
        return sorted({at for date in found for at in (date, date + timedelta(hours=48))})

    def look_at_the_table(self) -> None:
        items = [
            {name: next(iter(value.values())) for name, value in item.items()} for item in self.world.backend.items()
        ]
        acts, horizon = self.received(), exact(self.world.now)
        undecided = {
            name
            for host in self.story.hosts
            for name, history in histories(acts, host).items()
            if not self.arrivals.history_is_known(history)
        }
        # If nobody can know which act was the last, a mistyped year may hold the article.
        held = {item["sk"] for item in items if item["sk"] > horizon and item["sk"].partition("#")[2] in undecided}
        if due := [item["sk"] for item in items if item["pk"].startswith("due#") and item["sk"] not in held]:
            raise Broken(f"these stay due for ever: {due}")
        quarantined = {item["event"] for item in items if item["pk"].startswith("quarantine#") and item["reason"]}
        if quarantined != set(self.story.poison):
            raise Broken(f"{self.story.poison} could not be read, and {quarantined} are in quarantine")
        known = {item["pk"]: item for item in items}
        for act in self.story.acts:
            if act.source == FEED or not act.id:
                continue
            article = known.get(f"article#{act.site}#{act.article}")
            if article is None:
                raise Broken(f"{act.article} was acknowledged, and nothing is known of it")
            if article["state"] != "listed" and not article.get("reason"):
                raise Broken(f"{act.article} is {article['state']}, and nobody can say why")


def _code(act: Act) -> str:
    """The code of an act's page: the one under which it lists itself comes before its language."""
    return min((code for code, url in act.alternates if url == act.url), default=act.language)


def _ranges(ranges: Sequence[tuple[datetime, datetime] | None]) -> str:
    return " or ".join(f"{found[0]} to {found[1]}" if found else "never" for found in ranges) or "never"


def _difference(found: Collection[str], wants: Sequence[Collection[str]], doubtful: Collection[str]) -> str:
    """What is in each of what is wanted and was not found, and what was found and is in none; empty where that is nothing."""
    missing = set.intersection(*(set(want) for want in wants)) - set(found) - set(doubtful)
    too_many = set(found).difference(*wants) - set(doubtful)
    return f"missing {sorted(missing)}, too many {sorted(too_many)}" if missing or too_many else ""
