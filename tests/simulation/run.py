"""A seed from its first event to the judgement: the storm, the quiet after it, and what the oracle says of the files."""

import json
import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any
from xml.sax.saxutils import escape

from stoppress.aws import site_versions
from stoppress.http import client
from stoppress.model import file_names
from stoppress.model.http_request import Request
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from stoppress.rewrite import file_lines as rendering
from stoppress.sitemaps import fold, render
from stoppress_cli.scenario import signing
from tests.simulation import explaining, reading, story as stories
from tests.simulation.knowable import Arrivals
from tests.simulation.oracle import FEED, Act, Meant, Wanted, edition, histories, meant, wanted
from tests.simulation.senders import text
from tests.simulation.story import SOURCES, WITHOUT_IDS, Delivery
from tests.simulation.wiring import wiring
from tests.simulation.world import MINUTE, World
from tests.support.moto_aws import put_site

SECRET = "whsec_c3RvcHByZXNz"
# A few entries fill a file.
NEWS_MAX = 3
# What is made small: the limit.
SMALL = [(module, "NEWS_ENTRIES_MAX", NEWS_MAX) for module in (render, fold, file_names)]
# On odd seeds even these files are large enough for changes to be folded in; on the others they are read as a whole.
FOLDING = [(rendering, "READ_UNIT_BYTES", 64)]
# roll_window runs each minute, and the scheduler may start it a minute late.
LATE_MAX = 2 * MINUTE
# A server that failed is asked again after an hour at the latest, and a message that failed after a quarter of one.
LONGEST_WAIT = timedelta(minutes=61)
# A release may be five minutes early where a newsroom's clock is ahead: so much its date may be before what was said.
EARLY_MAX = timedelta(minutes=5, seconds=30)


class Broken(AssertionError):
    """What the product promises does not hold. The text says what, and how to see it again."""


class Run:
    """One seed."""

    news_max = NEWS_MAX

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.story = stories.tell(random.Random(f"story {seed}"))
        self._left = list(self.story.deliveries)
        self._public_from = self.story.public_from()
        self._on_the_bus: dict[str, Act] = {}
        self._served: dict[str, int] = {}  # the newest state of a feed that anybody has had
        self._wiring = wiring()
        self.world: World
        self.objects: dict[str, bytes] = {}  # at the end
        # Until then a host may be unknown: roll_window registers it, and each webhook function reads the registry every five seconds.
        self._unknown_until = dict.fromkeys(stories.HOSTS, stories.START + timedelta(minutes=2))

    # ── the whole of it ──

    def play(self) -> None:
        """From the first event to the last expiry. Raises Broken."""
        self._make_world()
        with self.world.open(SMALL + FOLDING * (self.seed % 2)):
            for host in stories.HOSTS:
                self.world.backend.put_secret(f"{self._wiring.variable('SECRETS_PATH')}/webhooks/{host}/cms", SECRET)
            try:
                self.world.run_with_faults(self._next_at, self._due)
                self._come_to_rest()
                self._judge()
                self._wait_for_what_expires()
                self._a_day_after_the_last()
                self.objects = dict(self.world.backend.objects())
            except Broken as broken:
                raise self._told(str(broken)) from None
            except Exception as error:
                raise self._told(f"{type(error).__name__}: {error}") from error

    def _make_world(self) -> None:
        self.world = World(self.seed, self._wiring, stories.START)
        self.world.fetch, self.world.look = self._feed, self._look
        self.world.routed, self.world.overheard = self._routed, self._overhear
        self._skew = timedelta(seconds=self.world.call_faults.skew_s)
        self.arrivals = Arrivals(self._skew)

    def _told(self, what: str) -> Broken:
        replay = f".venv/bin/pytest tests/simulation --first-seed {self.seed} --seeds 1"
        return Broken(f"{what}\nreplay: {replay}")

    # ── the storm ──

    def _next_at(self) -> datetime | None:
        return min((one.at for one in self._left), default=None)

    def _due(self) -> Callable[[], None] | None:
        due = [one for one in self._left if one.at <= self.world.now]
        if not due:
            return None
        one = self.world.chance.choice(due)

        def begin() -> None:
            self._left.remove(one)
            self.world.start(one.kind, lambda: self._arrive(one))

        return begin

    def _arrive(self, one: Delivery) -> None:
        variable = self._wiring.variable
        match one.kind:
            case "webhook":
                self._post(one)
            case "bus":
                self._put_on_the_bus(one)
            case "site":
                self._put_site(one.body)
                stories.configured(self.story, one.body)
            case "name a file":
                self._send(variable("REWRITES_QUEUE_URL"), json.dumps(one.body))
            case "poison":
                self._send(variable("ARTICLES_QUEUE_URL"), one.body)

    def _put_site(self, document: dict[str, Any]) -> None:
        """Write the next version of a site, as an operator does who tries again until it works."""
        while True:
            with suppress(site_versions.Replaced):
                put_site(document)
                return

    def _put_site_again(self, host: str) -> None:
        self._put_site(json.loads(str(next(site_versions.history(host)).document)))

    def _send(self, url: str, body: str) -> None:
        self.world.backend.clients["sqs"].send_message_batch(
            QueueUrl=url, Entries=[{"Id": "0", "MessageBody": body, "DelaySeconds": 0}]
        )

    def _post(self, one: Delivery) -> None:
        """A webhook, which is sent again until it is taken."""
        assert one.act
        begin, body = self.world.now, json.dumps(one.body).encode()
        headers = {"content-type": "application/json"}
        path = f"/webhooks/{one.act.site}/{one.act.source}"
        scheme = "standard" if one.id else WITHOUT_IDS
        request = signing.signed(Request(headers, body, path=path), scheme, SECRET, one.id, begin)
        answer = self.world.request(request)
        self.arrivals.note(one.act, begin, self.world.now, one.id, taken=answer.status == 200)
        if answer.status == 200:
            return
        # roll_window may have failed to register the site so far.
        is_unknown = answer.status == 404 and begin < self._unknown_until[one.act.site]
        if answer.status < 500 and not is_unknown:
            raise Broken(f"a good event was answered {answer.status}: {answer.body!r}")
        again = self.world.now + timedelta(seconds=self.world.chance.choice((1, 30, 300)))
        self._left.append(replace(one, at=again))

    def _put_on_the_bus(self, one: Delivery) -> None:
        assert one.act
        assert one.act.stamp
        detail = one.body["data"] | {"site": one.act.site}
        self._on_the_bus[_key(one.act.source, one.body["type"], text(one.act.stamp), detail)] = one.act
        self.world.backend.clients["events"].put_events(
            Entries=[
                {
                    "EventBusName": self._wiring.only("AWS::Events::EventBus").ref,
                    "Source": one.act.source,
                    "DetailType": one.body["type"],
                    "Time": one.act.stamp,
                    "Detail": json.dumps(detail),
                }
            ]
        )

    def _routed(self, event: dict[str, Any], *, anew: bool = False) -> None:
        """An event of the bus has come to its queue, where it is received; `anew` where it had to be sent there again."""
        key = _key(event["source"], event["detail-type"], event["time"], event["detail"])
        if act := self._on_the_bus.get(key):
            self.arrivals.note(act, self.world.now, self.world.now, anew=anew)

    def _feed(self, url: str, headers: dict[str, str], asked_at: datetime) -> client.Response:
        """What a feed answers at this instant, after it was asked; in the storm some answers come from a cache that is late."""
        feed = self.story.feeds[url]
        number = sum(at <= self.world.now for at, _ in feed.states) - 1
        if self.world.is_failing and feed.tells_its_age and number > 1 and self.world.chance.random() < 0.1:
            number -= 1
        had = headers.get("If-None-Match", "")
        if had == f'"{self._served.get(url)}"':  # who asks so has sent all that was in it
            for act in feed.states[self._served[url]][1]:
                self.arrivals.acknowledge(act)
        etag = f'"{number}"'
        if had == etag:
            return client.Response(304, {"etag": etag}, b"", url)
        at, entries = feed.states[number]
        is_new = number >= self._served.get(url, 0)
        self._served[url] = max(number, self._served.get(url, 0))
        for act in entries:
            if is_new or not self.arrivals.may_be_received(act):
                self.arrivals.note(act, asked_at, self.world.now, "", taken=not self.world.is_failing)
        changed = format_datetime(at, usegmt=True)
        found = {"etag": etag, "content-type": "application/rss+xml"}
        found |= {"last-modified": changed} if feed.tells_its_age else {}
        return client.Response(200, found, _rss(entries, changed if feed.tells_its_age else ""), url)

    # ── the quiet ──

    def _come_to_rest(self) -> None:
        """All faults are over: what waits is tried again, and an operator does what docs/reference/metrics-and-alarms.md says of an alarm."""
        world = self.world
        world.is_failing = False
        for _ in range(3):
            # A changed configuration is applied again after two minutes and a half.
            self._until_nothing_waits(ticks=4)
            self._go_to(world.now + LONGEST_WAIT)
            self._until_nothing_waits()
            given_up = self._operate()
            if not given_up:
                return
        raise Broken(f"what was given up on is given up on again and again: {given_up}")

    def _until_nothing_waits(self, ticks: int = 0) -> None:
        world = self.world
        for tick in range(200):
            while step := self._due():
                step()
            world.rest()
            instants = [at for at in (world.next_instant(), self._next_at()) if at]
            if not instants and tick >= ticks:
                return
            world.advance(max(world.now + MINUTE, min([*instants, world.now + MINUTE] if tick < ticks else instants)))
        raise Broken("something is tried again for ever, though nothing fails any more")

    def _operate(self) -> list[str]:
        """Redrive the dead letters and act on the failures, as docs/how-to/operate.md says; return what was there."""
        backend = self.world.backend
        found = []
        for url, queue in self._wiring.queues().items():
            if queue.dead is None:
                continue
            dead = backend.queue(queue.dead.arn)
            for body in backend.bodies(dead):
                found.append(body)
                self._send(url, body)
                if '"detail-type"' in body and body not in self.story.poison:
                    self._routed(json.loads(body), anew=True)
            backend.purge(dead)
        failures = backend.queue(self._failures())
        if bodies := backend.bodies(failures):
            found += bodies
            backend.purge(failures)
            for host in self.story.hosts:
                self.world.start("operator", partial(self._put_site_again, host))
        return found

    def _failures(self) -> str:
        [found] = [one.arn for one in self._wiring.of("AWS::SQS::Queue") if one.logical == "Failures"]
        return found

    # ── the judgement ──

    def _look(self, operation: str, key: str) -> None:
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

    def _overhear(self, event: dict[str, Any]) -> None:
        if event["source"] not in SOURCES:
            self._assert_none_is_early(
                f"the event {event['detail-type']}", reading.urls("", json.dumps(event).encode())
            )

    def _assert_none_is_early(self, where: str, urls: Collection[str]) -> None:
        now = self.world.now
        early = {url: at for url in urls if (at := self._public_from.get(url, now)) > now + self._skew}
        if early:
            raise Broken(f"{where} names at {now} what is not public yet: {early}")

    def _judge(self, *, compares_answers: bool = True) -> None:
        objects = self.world.backend.objects()
        for host in self.story.hosts:
            self._compare(host, objects)
            if differing := reading.forms_that_differ(objects, host):
                raise Broken(f"{host}: other forms say something else: {differing}")
            outputs = self.story.outputs[host]
            if told := reading.forms_that_are_not_as_wanted(objects, host, outputs):
                raise Broken(f"{host}: {told}, where {outputs} was said")
            if told := reading.robots_that_is_not_as_wanted(
                objects, host, self.story.robots[host], self.story.editions[host]
            ):
                raise Broken(f"{host}: {told}")
            if compares_answers:
                self._compare_answers(host, objects)

    def _compare_answers(self, host: str, objects: dict[str, bytes]) -> None:
        """What `stoppress explain` answers about each page is what the files list, for the reason that the newsroom gave."""
        found = reading.listed(objects, host)
        spellings = {act.url: act.written for act in self.story.acts if act.site == host}
        oracle = explaining.Oracle(
            host, self._received(), self.story.kept_out[host], self._instants_around(), self.arrivals
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

    def _compare(self, host: str, objects: dict[str, bytes]) -> None:
        found = reading.listed(objects, host)
        acts = self._received()
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
            return [want.pages[url] for want in wants if url in want.pages]

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

    def _received(self) -> list[Act]:
        """What has reached the stack: of what a feed said some may have been gone before anybody asked."""
        return [act for act in self.story.acts if self.arrivals.may_be_received(act)]

    def _instants(self) -> list[datetime]:
        """When something is published or expires that is there, or will be."""
        found = set()
        for host in self.story.hosts:
            for history in histories(self._received(), host).values():
                article = meant(history, self.world.now, self.arrivals)
                dates = {date for dated in article.dates for date in dated} if article.is_public else set()
                found |= dates | ({article.embargo} if article.embargo else set())
        return sorted({at for date in found for at in (date, date + timedelta(hours=48))})

    def _wait_for_what_expires(self) -> None:
        """An expiry and a release, each at its minute: what is due is done two minutes later at the latest."""
        instants = [at for at in self._instants() if self.world.now + timedelta(minutes=10) < at]
        for at in instants[:2]:
            if at - timedelta(minutes=6) > self.world.now:
                self._go_to(at - timedelta(minutes=6))
                self._judge(compares_answers=False)  # the items are those of the judgement before
            self._go_to(max(at + timedelta(seconds=1), self.world.now))
            while self.world.now < at + LATE_MAX:
                self._go_to(self.world.now + MINUTE)
            self._judge()

    def _a_day_after_the_last(self) -> None:
        """All news has expired, all that was emptied is gone, nothing is due any more."""
        self._go_to(max([self.world.now, self.story.ends, *self._instants()]))
        self._go_to(self.world.now + timedelta(hours=49))
        self._until_nothing_waits()
        self._go_to(self.world.now + timedelta(hours=25))
        self._until_nothing_waits()
        self._judge()
        objects = self.world.backend.objects()
        for host in self.story.hosts:
            indexed = {name.removesuffix(".gz") for name in reading.in_index(objects, host)}
            here = {key.removeprefix(f"{host}/") for key in objects if key.startswith(f"{host}/")}
            left = {name for name in here if name.endswith(".xml")} - indexed - {"sitemap.xml"}
            if left:
                raise Broken(f"{host}: {sorted(left)} are in no index, and nobody takes them away")
        self._look_at_the_table()

    def _look_at_the_table(self) -> None:
        items = [
            {name: next(iter(value.values())) for name, value in item.items()} for item in self.world.backend.items()
        ]
        acts, horizon = self._received(), exact(self.world.now)
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

    def _go_to(self, instant: datetime) -> None:
        self.world.advance(instant)
        self.world.rest()


def _key(source: str, kind: str, time: str, detail: dict[str, Any]) -> str:
    """What tells an event of the bus from others."""
    return f"{source} {kind} {time} {json.dumps(detail, sort_keys=True)}"


def _rss(entries: list[Act], changed: str) -> bytes:
    items = "".join(
        f'<item><guid isPermaLink="false">{entry.id.rpartition(" ")[2]}</guid><link>{entry.written}</link>'
        f"<title>{escape(entry.title)}</title>"
        f"{f'<pubDate>{format_datetime(entry.published_at)}</pubDate>' if entry.published_at else ''}"
        f"{f'<atom:updated>{text(entry.updated_at)}</atom:updated>' if entry.updated_at else ''}</item>"
        for entry in reversed(entries)
    )
    changed = changed and f"<lastBuildDate>{changed}</lastBuildDate>"
    return (
        '<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
        f"<title>Feed</title>{changed}{items}</channel></rss>"
    ).encode()


def _ranges(ranges: Sequence[tuple[datetime, datetime] | None]) -> str:
    return " or ".join(f"{found[0]} to {found[1]}" if found else "never" for found in ranges) or "never"


def _difference(found: Collection[str], wants: Sequence[Collection[str]], doubtful: Collection[str]) -> str:
    """What is in each of what is wanted and was not found, and what was found and is in none; empty where that is nothing."""
    missing = set.intersection(*(set(want) for want in wants)) - set(found) - set(doubtful)
    too_many = set(found).difference(*wants) - set(doubtful)
    return f"missing {sorted(missing)}, too many {sorted(too_many)}" if missing or too_many else ""
