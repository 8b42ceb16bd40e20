"""One run of a seed: play the script under faults, recover without faults, and check the files with the oracle."""

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
from tests.simulation import file_reader
from tests.simulation.checker import LATE_MAX, Checker, Violation
from tests.simulation.oracle import Act
from tests.simulation.recovery import Backup
from tests.simulation.script import HOSTS, START, WITHOUT_IDS, Delivery, apply_configuration, generate_script
from tests.simulation.senders import keywords, text
from tests.simulation.wiring import wiring
from tests.simulation.world import MINUTE, World
from tests.support.moto_aws import put_site

SECRET = "whsec_c3RvcHByZXNz"
# A few entries fill a file.
NEWS_MAX = 3
# Patched constants: the limit of news entries, lowered.
SMALL = [(module, "NEWS_ENTRIES_MAX", NEWS_MAX) for module in (render, fold, file_names)]
# The author of a version, which needs an AWS service that has no double.
AUTHOR = [(write_sites, "author", lambda: "a test")]
# On odd seeds, even small files are large enough for folding; on even seeds, they are rendered from all entries.
FOLDING = [(rendering, "READ_UNIT_BYTES", 64)]
# On some seeds, an index is split when it lists two shards; files move after some minutes, or immediately.
SPLITTING = [(index_ranges, "INDEX_FILES_MAX", 1), (index_ranges, "CUT_WAITS", timedelta(minutes=7))]
URGENT = [(index_ranges, "INDEX_FILES_URGENT", 1)]
# Maximum attempts at a backup while events are in transit to the table.
BACKUPS_MAX = 30
# A failed server is retried within an hour, a failed message within 15 minutes.
LONGEST_WAIT = timedelta(minutes=61)


class Run:
    news_max = NEWS_MAX

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.script = generate_script(random.Random(f"story {seed}"))
        self._pending = list(self.script.deliveries)
        self._acts_on_bus: dict[str, Act] = {}
        self._served: dict[str, int] = {}  # number of the newest state that each feed has served
        self._wiring = wiring()
        self._backup: Backup | None = None
        self.world: World
        self.objects: dict[str, bytes] = {}  # at the end
        # roll_window registers a host; webhook functions read the registry every five seconds, and may answer 404 before.
        self._unknown_until = dict.fromkeys(HOSTS, START + timedelta(minutes=2))

    # ── the run ──

    def play(self) -> None:
        """Run from the first event to the last expiry. Raises Violation."""
        self._make_world()
        with self.world.open(self._constants()):
            for host in HOSTS:
                self.world.backend.put_secret(f"{self._wiring.variable('SECRETS_PATH')}/webhooks/{host}/cms", SECRET)
            try:
                self.world.run_with_faults(self._next_delivery_at, self._due_delivery)
                self._run_until_healthy()
                self.checker.check(is_idle=True)
                if self._backup:
                    self._restore(self._backup)
                for host, deletes_files in self.script.removals.items():
                    self._remove_and_put_site(host, deletes_files=deletes_files)
                self._run_past_next_expiries()
                if self.script.is_damaged:
                    self._check_nightly_repair()
                self._run_past_last_expiry()
                self.objects = dict(self.world.backend.objects())
            except Violation as broken:
                raise self._with_replay_command(str(broken)) from None
            except Exception as error:
                raise self._with_replay_command(f"{type(error).__name__}: {error}") from error

    def _constants(self) -> list[tuple[ModuleType, str, Any]]:
        group = self.seed % 6
        return (
            [*SMALL, *AUTHOR, (restore, "client", self.world.clients.__getitem__)]
            + FOLDING * (self.seed % 2)
            + SPLITTING * (group in (0, 1, 2))
            + URGENT * (group in (1, 2))
        )

    def _make_world(self) -> None:
        self.world = World(self.seed, self._wiring, START)
        self.checker = Checker(self.world, self.script, self.news_max)
        self.arrivals = self.checker.arrivals
        self.world.fetch, self.world.on_object_change = self._serve_feed, self.checker.check_object_change
        self.world.on_event_routed, self.world.on_event_put = self._note_routed_event, self.checker.check_event

    def _with_replay_command(self, message: str) -> Violation:
        replay = f".venv/bin/pytest tests/simulation/test_seeds.py --first-seed {self.seed} --seeds 1"
        return Violation(f"{message}\nreplay: {replay}")

    # ── events, under faults ──

    def _next_delivery_at(self) -> datetime | None:
        return min((delivery.at for delivery in self._pending), default=None)

    def _due_delivery(self) -> Callable[[], None] | None:
        due = [delivery for delivery in self._pending if delivery.at <= self.world.now]
        if not due:
            return None
        delivery = self.world.rng.choice(due)

        def begin() -> None:
            self._pending.remove(delivery)
            if delivery.kind == "backup":
                self._back_up(delivery)
            else:
                self.world.start(delivery.kind, lambda: self._arrive(delivery))

        return begin

    def _back_up(self, delivery: Delivery) -> None:
        """Copy the table if all received events are recorded; otherwise retry later, up to BACKUPS_MAX times."""
        tries = delivery.body or 0
        if Backup.is_possible(self.world, self.script):
            self._backup = Backup(self.world, self.script, self.arrivals)
        elif tries < BACKUPS_MAX:
            self._pending.append(replace(delivery, at=self.world.now + timedelta(seconds=20), body=tries + 1))

    def _arrive(self, delivery: Delivery) -> None:
        match delivery.kind:
            case "webhook":
                self._post(delivery)
            case "bus":
                self._put_event(delivery)
            case "site":
                self._put_site(delivery.body)
                apply_configuration(self.script, delivery.body)
            case "unreadable":
                if delivery.body in self.script.publication:
                    document = json.loads(self._document(delivery.body))
                    self._put_site(document | {"publication": "Unreadable", "unknown": True})
            case "rollback":
                with suppress(BadRequest, BadConfiguration):  # no earlier version, or an unreadable one
                    document = json.loads(write_sites.find_earlier(delivery.body, None))
                    site_versions.check_document(json.dumps(document))
                    if "outputs" in document:  # the version from the template's parameters has no source of the script
                        self._put_site(document)
                        apply_configuration(self.script, document)
            case "rebuild":
                site = site_versions.check_document(self._document(delivery.body))
                queues.send_rewrites([RewriteRequest(delivery.body, file, checks_all=True) for file in all_files(site)])
            case "rewrite file":
                self._send(self._wiring.variable("REWRITES_QUEUE_URL"), json.dumps(delivery.body))
            case "poison":
                self._send(self._wiring.variable("ARTICLES_QUEUE_URL"), delivery.body)

    def _put_site(self, document: dict[str, Any]) -> None:
        """Write the next version of a site, with retries until the write succeeds."""
        while True:
            with suppress(site_versions.Replaced):
                put_site(document)
                return

    def _put_site_again(self, host: str) -> None:
        self._put_site(json.loads(self._document(host)))

    def _document(self, host: str) -> str:
        """Return the newest readable document of a site."""
        for version in site_versions.history(host):
            with suppress(BadConfiguration):
                site_versions.check_document(str(version.document))
                return str(version.document)
        raise AssertionError(f"no version of {host} can be read")

    def _send(self, url: str, body: str) -> None:
        self.world.backend.clients["sqs"].send_message_batch(
            QueueUrl=url, Entries=[{"Id": "0", "MessageBody": body, "DelaySeconds": 0}]
        )

    def _post(self, delivery: Delivery) -> None:
        """Send a webhook. Unless the answer is 200, schedule another attempt."""
        assert delivery.act
        begin, body = self.world.now, json.dumps(delivery.body).encode()
        headers = {"content-type": "application/json"}
        path = f"/webhooks/{delivery.act.site}/{delivery.act.source}"
        scheme = "standard" if delivery.id else WITHOUT_IDS
        request = signing.signed(Request(headers, body, path=path), scheme, SECRET, delivery.id, begin)
        answer = self.world.request(request)
        self.arrivals.record_attempt(delivery.act, begin, self.world.now, delivery.id, accepted=answer.status == 200)
        if answer.status == 200:
            return
        is_unknown = answer.status == 404 and begin < self._unknown_until[delivery.act.site]
        if answer.status < 500 and not is_unknown:
            raise Violation(f"a valid event was answered {answer.status}: {answer.body!r}")
        retry_at = self.world.now + timedelta(seconds=self.world.rng.choice((1, 30, 300)))
        self._pending.append(replace(delivery, at=retry_at))

    def _put_event(self, delivery: Delivery) -> None:
        act, kind = delivery.act, delivery.body["type"]
        assert act
        assert act.stamp
        detail = delivery.body["data"] | {"site": act.site}
        self._acts_on_bus[_key(act.source, kind, text(act.stamp), detail)] = act
        self.world.backend.clients["events"].put_events(
            Entries=[
                {
                    "EventBusName": self._wiring.only("AWS::Events::EventBus").ref,
                    "Source": act.source,
                    "DetailType": kind,
                    "Time": act.stamp,
                    "Detail": json.dumps(detail),
                }
            ]
        )

    def _note_routed_event(self, event: dict[str, Any], *, resent: bool = False) -> None:
        """Record that an event of the bus was received by its queue; `resent` if an operator sent the event there again."""
        key = _key(event["source"], event["detail-type"], event["time"], event["detail"])
        if act := self._acts_on_bus.get(key):
            self.arrivals.record_attempt(act, self.world.now, self.world.now, resent=resent)

    def _serve_feed(self, url: str, headers: dict[str, str], requested_at: datetime) -> client.Response:
        """Answer a request for a feed. Under faults, some answers come from a stale cache."""
        feed = self.script.feeds[url]
        number = sum(at <= self.world.now for at, _ in feed.states) - 1
        if self.world.is_failing and feed.has_build_date and number > 1 and self.world.rng.random() < 0.1:
            number -= 1
        known_etag = headers.get("If-None-Match", "")
        if known_etag == f'"{self._served.get(url)}"':  # the poller stores an ETag after it has sent all entries
            for act in feed.states[self._served[url]][1]:
                self.arrivals.acknowledge(act)
        etag = f'"{number}"'
        if known_etag == etag:
            return client.Response(304, {"etag": etag}, b"", url)
        at, entries = feed.states[number]
        is_new = number >= self._served.get(url, 0)
        self._served[url] = max(number, self._served.get(url, 0))
        for act in entries:
            if is_new or not self.arrivals.may_be_received(act):
                self.arrivals.record_attempt(act, requested_at, self.world.now, "", accepted=not self.world.is_failing)
        changed = format_datetime(at, usegmt=True)
        answer = {"etag": etag, "content-type": "application/rss+xml"}
        answer |= {"last-modified": changed} if feed.has_build_date else {}
        return client.Response(200, answer, _rss(entries, changed if feed.has_build_date else ""), url)

    # ── recovery and checks, without faults ──

    def _check_unreadable_versions(self) -> None:
        """Check that exactly the sites with an unreadable newest version are reported."""
        reported, expected = set[str](), set[str]()

        def read_versions() -> None:
            reported.update(site.host for site in sites.load_all()[1])
            for host in self.script.hosts:
                if self._document(host) != str(next(site_versions.history(host)).document):
                    expected.add(host)

        self.world.start("operator", read_versions)
        self.world.run_until_idle()
        if reported != expected:
            raise Violation(f"{reported} are reported, and the newest versions of {expected} cannot be read")

    def _run_until_healthy(self) -> None:
        """Stop the faults, let retries finish, and act on alarms as docs/reference/metrics-and-alarms.md describes."""
        world = self.world
        world.is_failing = False
        for _ in range(3):
            # A changed configuration is applied a second time after two and a half minutes.
            self._drain(ticks=4)
            self._advance_to(world.now + LONGEST_WAIT)
            # Retries may cause other pages to be recorded again, and those may cause more.
            self._drain(ticks=4)
            dead_letters = self._redrive()
            if not dead_letters:
                self._check_unreadable_versions()
                return
        raise Violation(f"redriven messages fail again and again: {dead_letters}")

    def _drain(self, ticks: int = 0, removed: str = "") -> None:
        world = self.world
        for tick in range(200):
            while step := self._due_delivery():
                step()
            world.run_until_idle()
            instants = [at for at in (world.next_instant(), self._next_delivery_at()) if at]
            if not instants and tick >= ticks and not self._is_due_soon(removed):
                return
            tick_at = world.now + MINUTE
            world.advance(max(tick_at, min(instants, default=tick_at)) if tick >= ticks else tick_at)
        raise Violation("retries never end, although nothing fails any more")

    def _is_due_soon(self, removed: str) -> bool:
        """Return True if work is due within a minute, since a released page has its language versions recorded again.

        Due items of the site `removed` do not count: they wait until the site is put again.
        """
        soon = exact(self.world.now + MINUTE)
        keys = [(item["pk"]["S"], item["sk"]["S"]) for item in self.world.backend.items()]
        return any(pk.startswith("due#") and pk != f"due#{removed}" and sk <= soon for pk, sk in keys)

    def _redrive(self) -> list[str]:
        """Redrive dead letters and act on failures, as docs/how-to/operate.md describes. Return the message bodies."""
        backend = self.world.backend
        redriven = []
        for url, queue in self._wiring.queues().items():
            if queue.dead is None:
                continue
            dead = backend.queue(queue.dead.arn)
            for body in backend.bodies(dead):
                redriven.append(body)
                self._send(url, body)
                if '"detail-type"' in body and body not in self.script.poison:
                    self._note_routed_event(json.loads(body), resent=True)
            backend.purge(dead)
        [failures] = [backend.queue(sqs.arn) for sqs in self._wiring.of("AWS::SQS::Queue") if sqs.logical == "Failures"]
        if bodies := backend.bodies(failures):
            redriven += bodies
            backend.purge(failures)
            for host in self.script.hosts:
                self.world.start("operator", partial(self._put_site_again, host))
        return redriven

    def _run_past_next_expiries(self) -> None:
        """Check the files before and after the next two expiries or releases: due work is done within two minutes."""
        instants = [at for at in self.checker.instants() if self.world.now + timedelta(minutes=10) < at]
        for at in instants[:2]:
            if at - timedelta(minutes=6) > self.world.now:
                self._advance_to(at - timedelta(minutes=6))
                self.checker.check(compares_answers=False)  # the table has not changed since the previous check
            self._advance_to(max(at + timedelta(seconds=1), self.world.now))
            while self.world.now < at + LATE_MAX:
                self._advance_to(self.world.now + MINUTE)
            self.checker.check()

    def _run_past_last_expiry(self) -> None:
        """Run until all news has expired and empty files are deleted, then check that no work is due."""
        self._advance_to(max([self.world.now, self.script.ends, *self.checker.instants()]))
        self._advance_to(self.world.now + timedelta(hours=49))
        self._drain()
        self._advance_to(self.world.now + timedelta(hours=25))
        self._drain()
        self.checker.check(is_idle=True)
        objects = self.world.backend.objects()
        for host in self.script.hosts:
            indexed = {name.removesuffix(".gz") for name in file_reader.in_index(objects, host)}
            names = {key.removeprefix(f"{host}/") for key in objects if key.startswith(f"{host}/")}
            orphans = (
                {name for name in names if name.endswith(".xml")} - indexed - set(file_reader.indexes(objects, host))
            )
            if orphans:
                raise Violation(f"{host}: {sorted(orphans)} are in no index, and are not deleted")
        self.checker.check_table()

    def _remove_and_put_site(self, host: str, *, deletes_files: bool) -> None:
        """Remove a site under faults, and check that its files stay unchanged or are deleted. Then put the site again."""
        world = self.world
        before, documents = dict(world.backend.objects()), list[str]()

        def remove() -> None:
            newest = next(site_versions.history(host))
            documents.append(self._document(host))
            write_sites._remove(host, newest.number, delete_files=deletes_files)

        world.on_object_change = lambda _operation, _key: None  # files of a removed site are deleted in any order
        world.is_failing = True
        world.start("operator", remove)
        world.run_with_faults(lambda: None, lambda: None)
        world.is_failing = False
        self._drain(ticks=4, removed=host)
        files = {key: body for key, body in world.backend.objects().items() if key.startswith(f"{host}/")}
        expected = {} if deletes_files else {key: body for key, body in before.items() if key.startswith(f"{host}/")}
        if files != expected:
            raise Violation(f"{host} was removed, and has the files {sorted(files)} instead of {sorted(expected)}")
        world.on_object_change = self.checker.check_object_change
        world.start("operator", lambda: self._put_site(json.loads(documents[0])))
        self._run_until_healthy()
        self.checker.check(is_idle=True)

    def _restore(self, backup: Backup) -> None:
        """Restore the table to an earlier instant. Until all files are written, an index may list a deleted file."""
        self.world.on_object_change = lambda _operation, _key: None
        self._pending += backup.restore()
        self.world.on_object_change = self.checker.check_object_change
        self._run_until_healthy()
        for host in self.script.hosts:
            self.checker.compare(host, self.world.backend.objects())
        self._pass_two_nights()  # objects without items in the table are kept for a day
        self.checker.check(is_idle=True)

    def _check_nightly_repair(self) -> None:
        """Overwrite or delete a file, and check that the nightly comparison repairs it.

        It may take two nights: if a clock jump delayed the comparison of all files, the first night checks only suspects.
        """
        rng, s3 = random.Random(f"damage {self.seed}"), self.world.backend.clients["s3"]
        key = rng.choice(sorted(self.world.backend.objects()))
        name = self._wiring.only("AWS::S3::Bucket").ref
        self.world.on_object_change = lambda _operation, _key: None  # an index may be unreadable, or list the file
        if rng.random() < 0.5:
            s3.delete_object(Bucket=name, Key=key)
        else:
            s3.put_object(Bucket=name, Key=key, Body=b"by hand")
        self._pass_two_nights()
        self.world.on_object_change = self.checker.check_object_change
        self.checker.check(is_idle=True)

    def _pass_two_nights(self) -> None:
        night = (self.world.now + timedelta(days=1)).replace(hour=3, minute=17, second=0, microsecond=0)
        for minutes in (0, 30, 24 * 60, 24 * 60 + 30):
            self._advance_to(night + timedelta(minutes=minutes))
            self._drain()

    def _advance_to(self, instant: datetime) -> None:
        self.world.advance(instant)
        self.world.run_until_idle()


def _key(source: str, kind: str, time: str, detail: dict[str, Any]) -> str:
    """Return a key that identifies an event of the bus."""
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
