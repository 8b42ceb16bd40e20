"""A seed from its first event to the judgement: the storm, the quiet after it, and what the oracle says of the files."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from functools import partial
from types import ModuleType
from typing import Any
from xml.sax.saxutils import escape

from stoppress.aws import queues, site_versions, sites
from stoppress.aws.inventory import all_files
from stoppress.aws.queues import RewriteRequest
from stoppress.http import client
from stoppress.model import file_names, index_ranges
from stoppress.model.http_request import Request
from stoppress.model.site import BadConfiguration
from stoppress.primitives.instants import exact
from stoppress.rewrite import file_lines as rendering
from stoppress.sitemaps import fold, render
from stoppress_cli.commands import restore
from stoppress_cli.commands.sites import write_sites
from stoppress_cli.connect import BadRequest
from stoppress_cli.scenario import signing
from tests.simulation import reading, story as stories
from tests.simulation.judgement import LATE_MAX, Broken, Judge
from tests.simulation.oracle import Act
from tests.simulation.recovery import Backup
from tests.simulation.senders import keywords, text
from tests.simulation.story import WITHOUT_IDS, Delivery
from tests.simulation.wiring import wiring
from tests.simulation.world import MINUTE, World
from tests.support.moto_aws import put_site

SECRET = "whsec_c3RvcHByZXNz"
# A few entries fill a file.
NEWS_MAX = 3
# What is made small: the limit.
SMALL = [(module, "NEWS_ENTRIES_MAX", NEWS_MAX) for module in (render, fold, file_names)]
# Who writes a version: asking AWS takes another double.
AUTHOR = [(write_sites, "author", lambda: "a test")]
# On odd seeds even these files are large enough for changes to be folded in; on the others they are read as a whole.
FOLDING = [(rendering, "READ_UNIT_BYTES", 64)]
# On some seeds an index is split when it lists two shards. Files move after some minutes, or at once.
SPLITTING = [(index_ranges, "INDEX_FILES_MAX", 1), (index_ranges, "CUT_WAITS", timedelta(minutes=7))]
URGENT = [(index_ranges, "INDEX_FILES_URGENT", 1)]
# How often a backup is tried again while something is on its way to the table.
BACKUPS_MAX = 30
# A server that failed is asked again after an hour at the latest, and a message that failed after a quarter of one.
LONGEST_WAIT = timedelta(minutes=61)


class Run:
    news_max = NEWS_MAX

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.story = stories.tell(random.Random(f"story {seed}"))
        self._left = list(self.story.deliveries)
        self._on_the_bus: dict[str, Act] = {}
        self._served: dict[str, int] = {}  # the newest state of a feed that anybody has had
        self._wiring = wiring()
        self._backup: Backup | None = None
        self.world: World
        self.objects: dict[str, bytes] = {}  # at the end
        # Until then a host may be unknown: roll_window registers it, and each webhook function reads the registry every five seconds.
        self._unknown_until = dict.fromkeys(stories.HOSTS, stories.START + timedelta(minutes=2))

    # ── the whole of it ──

    def play(self) -> None:
        """From the first event to the last expiry. Raises Broken."""
        self._make_world()
        with self.world.open(self._constants()):
            for host in stories.HOSTS:
                self.world.backend.put_secret(f"{self._wiring.variable('SECRETS_PATH')}/webhooks/{host}/cms", SECRET)
            try:
                self.world.run_with_faults(self._next_at, self._due)
                self._come_to_rest()
                self.judge.judge(is_at_rest=True)
                if self._backup:
                    self._restore(self._backup)
                for host, deletes_files in self.story.leaves.items():
                    self._leave_and_come_back(host, deletes_files=deletes_files)
                self._wait_for_what_expires()
                if self.story.is_damaged:
                    self._mend_at_night()
                self._a_day_after_the_last()
                self.objects = dict(self.world.backend.objects())
            except Broken as broken:
                raise self._told(str(broken)) from None
            except Exception as error:
                raise self._told(f"{type(error).__name__}: {error}") from error

    def _constants(self) -> list[tuple[ModuleType, str, Any]]:
        group = self.seed % 6
        return (
            [*SMALL, *AUTHOR, (restore, "client", self.world.doors.__getitem__)]
            + FOLDING * (self.seed % 2)
            + SPLITTING * (group in (0, 1, 2))
            + URGENT * (group in (1, 2))
        )

    def _make_world(self) -> None:
        self.world = World(self.seed, self._wiring, stories.START)
        self.judge = Judge(self.world, self.story, self.news_max)
        self.arrivals = self.judge.arrivals
        self.world.fetch, self.world.look = self._feed, self.judge.look
        self.world.routed, self.world.overheard = self._routed, self.judge.overhear

    def _told(self, what: str) -> Broken:
        replay = f".venv/bin/pytest tests/simulation/test_seeds.py --first-seed {self.seed} --seeds 1"
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
            if one.kind == "backup":
                self._back_up(one)
            else:
                self.world.start(one.kind, lambda: self._arrive(one))

        return begin

    def _back_up(self, one: Delivery) -> None:
        """Keep the table as it is, if all that was received is recorded; else try again, but not for ever."""
        tries = one.body or 0
        if Backup.is_possible(self.world, self.story):
            self._backup = Backup(self.world, self.story, self.arrivals)
        elif tries < BACKUPS_MAX:
            self._left.append(replace(one, at=self.world.now + timedelta(seconds=20), body=tries + 1))

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
            case "unreadable":
                if one.body in self.story.publication:
                    document = json.loads(self._document(one.body))
                    self._put_site(document | {"publication": "Unreadable", "unknown": True})
            case "rollback":
                with suppress(BadRequest, BadConfiguration):  # there is no earlier version, or it cannot be read
                    document = json.loads(write_sites.find_earlier(one.body, None))
                    site_versions.check_document(json.dumps(document))
                    if "outputs" in document:  # the version of the template's parameters has no source of the story
                        self._put_site(document)
                        stories.configured(self.story, document)
            case "rebuild":
                site = site_versions.check_document(self._document(one.body))
                queues.send_rewrites([RewriteRequest(one.body, file, checks_all=True) for file in all_files(site)])
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
        self._put_site(json.loads(self._document(host)))

    def _document(self, host: str) -> str:
        """The newest document of a site that can be read."""
        for version in site_versions.history(host):
            with suppress(BadConfiguration):
                site_versions.check_document(str(version.document))
                return str(version.document)
        raise AssertionError(f"no version of {host} can be read")

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

    def _look_at_versions(self) -> None:
        """A site whose newest version cannot be read is reported, and no other."""
        found, expected = set[str](), set[str]()

        def look() -> None:
            found.update(site.host for site in sites.load_all()[1])
            for host in self.story.hosts:
                if self._document(host) != str(next(site_versions.history(host)).document):
                    expected.add(host)

        self.world.start("operator", look)
        self.world.rest()
        if found != expected:
            raise Broken(f"{found} are reported, and the newest versions of {expected} cannot be read")

    def _come_to_rest(self) -> None:
        """All faults are over: what waits is tried again, and an operator does what docs/reference/metrics-and-alarms.md says of an alarm."""
        world = self.world
        world.is_failing = False
        for _ in range(3):
            # A changed configuration is applied again after two minutes and a half.
            self._until_nothing_waits(ticks=4)
            self._go_to(world.now + LONGEST_WAIT)
            # What was tried again may have other pages recorded again, and those others.
            self._until_nothing_waits(ticks=4)
            given_up = self._operate()
            if not given_up:
                self._look_at_versions()
                return
        raise Broken(f"what was given up on is given up on again and again: {given_up}")

    def _until_nothing_waits(self, ticks: int = 0, removed: str = "") -> None:
        world = self.world
        for tick in range(200):
            while step := self._due():
                step()
            world.rest()
            instants = [at for at in (world.next_instant(), self._next_at()) if at]
            if not instants and tick >= ticks and not self._is_due_soon(removed):
                return
            tick_at = world.now + MINUTE
            world.advance(max(tick_at, min(instants, default=tick_at)) if tick >= ticks else tick_at)
        raise Broken("something is tried again for ever, though nothing fails any more")

    def _is_due_soon(self, removed: str) -> bool:
        """Whether the next minute has work: a page that is released in the last one has its versions recorded again.

        What is due of a removed site waits until the site is put again.
        """
        soon = exact(self.world.now + MINUTE)
        keys = [(item["pk"]["S"], item["sk"]["S"]) for item in self.world.backend.items()]
        return any(pk.startswith("due#") and pk != f"due#{removed}" and sk <= soon for pk, sk in keys)

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

    def _wait_for_what_expires(self) -> None:
        """An expiry and a release, each at its minute: what is due is done two minutes later at the latest."""
        instants = [at for at in self.judge.instants() if self.world.now + timedelta(minutes=10) < at]
        for at in instants[:2]:
            if at - timedelta(minutes=6) > self.world.now:
                self._go_to(at - timedelta(minutes=6))
                self.judge.judge(compares_answers=False)  # the items are those of the judgement before
            self._go_to(max(at + timedelta(seconds=1), self.world.now))
            while self.world.now < at + LATE_MAX:
                self._go_to(self.world.now + MINUTE)
            self.judge.judge()

    def _a_day_after_the_last(self) -> None:
        """All news has expired, all that was emptied is gone, nothing is due any more."""
        self._go_to(max([self.world.now, self.story.ends, *self.judge.instants()]))
        self._go_to(self.world.now + timedelta(hours=49))
        self._until_nothing_waits()
        self._go_to(self.world.now + timedelta(hours=25))
        self._until_nothing_waits()
        self.judge.judge(is_at_rest=True)
        objects = self.world.backend.objects()
        for host in self.story.hosts:
            indexed = {name.removesuffix(".gz") for name in reading.in_index(objects, host)}
            here = {key.removeprefix(f"{host}/") for key in objects if key.startswith(f"{host}/")}
            left = {name for name in here if name.endswith(".xml")} - indexed - set(reading.indexes(objects, host))
            if left:
                raise Broken(f"{host}: {sorted(left)} are in no index, and nobody takes them away")
        self.judge.look_at_the_table()

    def _leave_and_come_back(self, host: str, *, deletes_files: bool) -> None:
        """A site is removed under faults: its files stay as they are, or go. Then it is put again."""
        world = self.world
        before, documents = dict(world.backend.objects()), list[str]()

        def remove() -> None:
            newest = next(site_versions.history(host))
            documents.append(self._document(host))
            write_sites._remove(host, newest.number, delete_files=deletes_files)

        world.look = lambda _operation, _key: None  # files of a removed site go in any order
        world.is_failing = True
        world.start("operator", remove)
        world.run_with_faults(lambda: None, lambda: None)
        world.is_failing = False
        self._until_nothing_waits(ticks=4, removed=host)
        left = {key: body for key, body in world.backend.objects().items() if key.startswith(f"{host}/")}
        stays = {} if deletes_files else {key: body for key, body in before.items() if key.startswith(f"{host}/")}
        if left != stays:
            raise Broken(f"{host} was removed, and {sorted(left)} are left of {sorted(stays)}")
        world.look = self.judge.look
        world.start("operator", lambda: self._put_site(json.loads(documents[0])))
        self._come_to_rest()
        self.judge.judge(is_at_rest=True)

    def _restore(self, backup: Backup) -> None:
        """The table is restored to an earlier instant. Until all files are written, an index may list one that had been deleted."""
        self.world.look = lambda _operation, _key: None
        self._left += backup.restore()
        self.world.look = self.judge.look
        self._come_to_rest()
        for host in self.story.hosts:
            self.judge.compare(host, self.world.backend.objects())
        self._pass_two_nights()  # objects that the table does not have stay for a day
        self.judge.judge(is_at_rest=True)

    def _mend_at_night(self) -> None:
        """Somebody overwrites or deletes a file, which is found and mended at night.

        That may be the second night: a clock that jumped has compared all files late, and the first night looks at suspects only.
        """
        chance, s3 = random.Random(f"damage {self.seed}"), self.world.backend.clients["s3"]
        key = chance.choice(sorted(self.world.backend.objects()))
        name = self._wiring.only("AWS::S3::Bucket").ref
        self.world.look = lambda _operation, _key: None  # an index may be unreadable, or list the file
        if chance.random() < 0.5:
            s3.delete_object(Bucket=name, Key=key)
        else:
            s3.put_object(Bucket=name, Key=key, Body=b"by hand")
        self._pass_two_nights()
        self.world.look = self.judge.look
        self.judge.judge(is_at_rest=True)

    def _pass_two_nights(self) -> None:
        night = (self.world.now + timedelta(days=1)).replace(hour=3, minute=17, second=0, microsecond=0)
        for minutes in (0, 30, 24 * 60, 24 * 60 + 30):
            self._go_to(night + timedelta(minutes=minutes))
            self._until_nothing_waits()

    def _go_to(self, instant: datetime) -> None:
        self.world.advance(instant)
        self.world.rest()


def _key(source: str, kind: str, time: str, detail: dict[str, Any]) -> str:
    """What tells an event of the bus from others."""
    return f"{source} {kind} {time} {json.dumps(detail, sort_keys=True)}"


def _rss(entries: list[Act], changed: str) -> bytes:
    items = "".join(
        f'<item><guid isPermaLink="false">{entry.id.rpartition(" ")[2]}</guid><link>{entry.written}</link>'
        f"<title>{escape(entry.title)}</title>{''.join(f'<category>{word}</category>' for word in keywords(entry))}"
        f"{f'<pubDate>{format_datetime(entry.published_at)}</pubDate>' if entry.published_at else ''}"
        f"{f'<atom:updated>{text(entry.updated_at)}</atom:updated>' if entry.updated_at else ''}</item>"
        for entry in reversed(entries)
    )
    changed = changed and f"<lastBuildDate>{changed}</lastBuildDate>"
    return (
        '<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
        f"<title>Feed</title>{changed}{items}</channel></rss>"
    ).encode()
