"""Play a scenario on a stack: move the clock, and do each step."""

import hashlib
import json
import shutil
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from moto.dynamodb.models import dynamodb_backends

from stoppress.aws import secrets, table
from stoppress.model.http_request import Request
from stoppress.model.site_parts import secret_path
from stoppress.receive.webhook import scheme_of
from stoppress_cli.inputs.folder import SAVED_HEADERS
from stoppress_cli.local.gateway import Answer
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.local.wire import Fault
from stoppress_cli.output import counted
from stoppress_cli.scenario import expect, file, hubs, listed_pages, signing
from stoppress_cli.scenario.feeds_server import FeedServer
from stoppress_cli.scenario.file import Line, ScenarioError, body_bytes

MINUTE = timedelta(minutes=1)


class Player:
    """Plays lines one after the other; `show(line, text)` receives a short text for each step."""

    def __init__(
        self, stack: Stack, feeds: FeedServer, path: Path, out: Path, show: Callable[[Line, str], None]
    ) -> None:
        self.stack = stack
        self.steps = 0  # played so far
        self.failures: list[str] = []  # expectations that do not hold, each with its line
        self.sites: dict[str, dict[str, Any]] = {}
        self._secrets: dict[str, str] = {}
        self.answer: Answer | None = None
        self._feeds, self._path, self._out, self._show = feeds, path, out, show

    def play(self, lines: list[Line]) -> list[str]:
        """Play all lines and come to rest. Return the failures. Raises ScenarioError for a step that cannot be done."""
        for line in lines:
            self.step(line)
        self.stack.rest()
        return self.failures

    def step(self, line: Line) -> None:
        """Play a line: come to rest and move the clock if its instant is later, then do its step."""
        now = self.stack.clock.now()
        if line.at > now or line.kind in ("expect", "save"):
            self.stack.rest()
        if line.at > now:
            self._move(now, line.at, every_minute=line.step.tick)
        try:
            text = getattr(self, f"_{line.kind}")(line)
        except (ClientError, BotoCoreError) as error:  # an error of the step itself; functions handle theirs
            raise self._error(line, str(error)) from error
        self.steps += 1
        self._show(line, text)

    def _move(self, now: datetime, later: datetime, every_minute: bool) -> None:
        minute = now.replace(second=0, microsecond=0) + MINUTE
        while every_minute and minute < later:
            self.stack.advance(minute)
            self._send_verifications()
            minute += MINUTE
        self.stack.advance(later, every_schedule=True)
        self._send_verifications()

    def _send_verifications(self) -> None:
        """Send the hubs' verification requests, after the poller has ended."""
        for subscriber, parameters in self._feeds.hubs.verifications():
            hubs.verify(subscriber, parameters, self.stack.request)

    def rows(self, seconds: float) -> dict[str, str]:
        """Return what `stoppress play` prints at the end, by heading; `seconds` is how long the run took."""
        stack, meter = self.stack, self.stack.wire.meter
        # moto's table is read in place, because its Scan is slow.
        partitions = dynamodb_backends[ACCOUNT][REGION].get_table(stack.only("AWS::DynamoDB::Table").ref).items
        stored = (partition for key, partition in partitions.items() if key.value.startswith("article#"))
        articles = Counter(item.attrs["state"].value for partition in stored for item in partition.values())
        files = Counter(file.host for file in listed_pages.read(stack))
        rows = {
            "steps": f"{self.steps:,} in {seconds:.1f} s, {counted(len(self.failures), 'difference')}",
            "articles": _format(articles) or "none",
            "files": _format(files) or "none",
            "API calls": f"{sum(meter.calls.values()):,}: {_format(meter.operations())}" if meter.calls else "none",
            "capacity": f"{meter.write_units:,g} write units, {meter.read_units:,g} read units",
            "S3": f"{meter.s3_bytes_put:,} bytes put, {meter.s3_bytes_got:,} bytes got",
            "metrics": ", ".join(f"{name} {value:,g}" for name, value in sorted(stack.metrics.items())) or "none",
        }
        return rows | {name: text for name, text in _problem_rows(stack).items() if text}

    # ── the kinds of steps ──────────────────────────────────────────────────────────────────────

    def _site(self, line: Line) -> str:
        step: file.SiteStep = line.step
        host = step.site["host"]
        if step.gone:
            version = self.stack.remove_site(host, deletes_files=step.deletes_files)
            return f"{host}, removed with version {version}"
        self.sites[host] = step.site
        for secret, secret_value in self._secrets.items():
            self._put_secret(secret, secret_value)
        value = json.dumps(step.site, ensure_ascii=False)
        version, fault = self.stack.put_site(host, value)
        return f"{host}, version {version}" + (f", cannot be read: {fault}" if fault else "")

    def _secret(self, line: Line) -> str:
        secret = line.step.secret
        self._secrets[secret.name] = secret.value
        self._put_secret(secret.name, secret.value)
        return str(secret.name)

    def _put_secret(self, name: str, value: str) -> None:
        """Put a secret under the path of each site that refers to it, and under the bare name, where the stack's own secrets are."""
        client = self.stack.client("secretsmanager")
        hosts = (host for host, site in self.sites.items() if name in _secret_names(site))
        for place in {name, *(secret_path("webhooks", host, name) for host in hosts)}:
            secret_id = f"{self.stack.variable('SECRETS_PATH')}/{place}"
            try:
                client.put_secret_value(SecretId=secret_id, SecretString=value)
            except client.exceptions.ResourceNotFoundException:
                client.create_secret(Name=secret_id, SecretString=value)
        secrets.forget()

    def _post(self, line: Line) -> str:
        step: file.PostStep = line.step
        path, _, query = step.post.partition("?")
        more = step.query if isinstance(step.query, str) else urllib.parse.urlencode(step.query)
        headers = dict(step.headers)
        if step.body is not None and not isinstance(step.body, str):
            headers.setdefault("content-type", "application/json")
        body = step.body if isinstance(step.body, str | None) else json.dumps(step.body)
        query = "&".join(part for part in (query, more) if part)
        request = Request(headers, body_bytes(body), step.method.upper(), path, query)
        if step.sign:
            request = self._sign(line, request)
        self.answer = self.stack.request(request)
        self.stack.sources.drain_deep_queues()
        text = self.answer.body.decode("utf-8", "replace")
        return f"{request.method} {path} → {self.answer.status}" + (f" {text}" if self.answer.status >= 300 else "")

    def _sign(self, line: Line, request: Request) -> Request:
        parts = [urllib.parse.unquote(part) for part in request.path.strip("/").split("/")]
        host, source = (parts[1], parts[2]) if len(parts) >= 3 else ("", "")
        settings = self.sites.get(host, {}).get("sources", {}).get(source, {})
        # Some scenarios post to a site or source that does not exist; any key will do.
        chosen, name = settings.get("settings") or {}, settings.get("secret")
        if name and name not in self._secrets:
            raise self._error(line, f"the secret {name} does not exist; put a `secret` step before")
        secret = self._secrets[name] if name else "whsec_c3RvcHByZXNz"
        try:
            scheme = scheme_of(settings.get("adapter", "standard"), chosen)
            to_sign = replace(request, path=chosen.get("signed_path", request.path))
            # Equal bodies are one delivery that is sent again. A step with another `webhook-id` is another delivery.
            message_id = f"msg_{hashlib.sha256(request.body).hexdigest()[:16]}"
            signed = signing.signed(to_sign, scheme, secrets.split(secret)[0], message_id, self.stack.clock.now())
            return replace(signed, path=request.path)
        except ValueError as error:
            raise self._error(line, str(error)) from error

    def _event(self, line: Line) -> str:
        event: file.Event = line.step.event
        entry: dict[str, Any] = {
            "Source": event.source,
            "DetailType": event.detail_type,
            "Detail": json.dumps(event.detail),
            "EventBusName": self.stack.only("AWS::Events::EventBus").ref,
        } | ({"Time": event.time} if event.time else {})
        answer = self.stack.client("events").put_events(Entries=[entry])
        if answer["FailedEntryCount"]:
            raise self._error(line, str(answer["Entries"][0].get("ErrorMessage")))
        return f"{entry['DetailType']} from {entry['Source']}"

    def _feed(self, line: Line) -> str:
        step: file.FeedStep = line.step
        self._feeds.set(step.feed, step)
        return f"{step.feed} answers {step.status}, {len(step.body):,} bytes"

    def _hub(self, line: Line) -> str:
        step: file.HubStep = line.step
        if step.asks is None:
            self._feeds.hubs.set(step)
            return f"{step.hub} answers {step.status}"
        subscriber = self._subscriber(line, step.hub, str(step.topic))
        self.answer = hubs.verify(subscriber, step.asks, self.stack.request)
        return f"{step.hub} asks for {step.asks.get('hub.mode')} → {self.answer.status}"

    def _push(self, line: Line) -> str:
        step: file.PushStep = line.step
        self.answer = self.stack.request(hubs.push(self._subscriber(line, step.push, step.topic), step))
        return f"{step.push} pushes {len(step.body):,} bytes → {self.answer.status}"

    def _subscriber(self, line: Line, hub: str, topic: str) -> Any:
        subscriber = self._feeds.hubs.subscriber(hub, topic)
        if subscriber is None:
            raise self._error(line, f"no request has reached {hub} for {topic}")
        return subscriber

    def _save(self, line: Line) -> str:
        name = line.step.save
        shutil.rmtree(self._out / name, ignore_errors=True)  # files of an earlier save must not stay
        meta = {}
        for stored in listed_pages.read(self.stack):
            target = self._out / name / stored.key
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(stored.body)
            meta[stored.key] = {heading: stored.headers.get(header) for heading, header in SAVED_HEADERS.items()}
        (self._out / name).mkdir(parents=True, exist_ok=True)
        (self._out / f"{name}.meta.json").write_text(json.dumps(meta, indent=2, sort_keys=True) + "\n")
        return f"{counted(len(meta), 'file')} in {self._out / name}"

    def _expect(self, line: Line) -> str:
        expected = line.step.expect
        site = expected.site or (next(iter(self.sites)) if len(self.sites) == 1 else None)
        differences = expect.differences(expected, site, self.stack, self._feeds, self.answer)
        self.failures += [f"{self._path}:{line.number}: {difference}" for difference in differences]
        return "as expected" if not differences else counted(len(differences), "difference")

    def _fault(self, line: Line) -> str:
        fault: Fault = replace(line.step.fault)  # `times` counts down
        self.stack.wire.faults.append(fault)
        return f"the next {fault.times} {fault.service}.{fault.operation} fail with {fault.error}"

    def _damage(self, line: Line) -> str:
        damage: file.Damage = line.step.damage
        if damage.file is not None:
            where = {"Bucket": self.stack.only("AWS::S3::Bucket").ref, "Key": damage.file}
            if damage.body is None:
                self.stack.client("s3").delete_object(**where)
            else:
                self.stack.client("s3").put_object(**where, Body=damage.body.encode())
            return f"{damage.file} {'deleted' if damage.body is None else 'put by hand'}"
        assert damage.item
        pk, sk = damage.item
        with self.stack.as_operator():
            if damage.set is None:
                table.delete(pk, sk)
            else:
                table.put_if({**(table.get(pk, sk) or {"pk": pk, "sk": sk}), **damage.set})
        return f"{pk} {sk} {'deleted' if damage.set is None else 'changed by hand'}"

    def _error(self, line: Line, text: str) -> ScenarioError:
        return ScenarioError(f"{self._path}:{line.number}: {line.kind}: {text}")


def _secret_names(site: dict[str, Any]) -> set[str]:
    """Return the names of the secrets in a site's configuration. The configuration may be invalid."""
    sources = site.get("sources")
    settings = sources.values() if isinstance(sources, dict) else ()
    return {str(source.get("secret")) for source in settings if isinstance(source, dict)}


@contextmanager
def playing(stack: Stack, path: Path, out: Path, show: Callable[[Line, str], None]) -> Iterator[Player]:
    """Return a player with a running feed server."""
    with FeedServer().running() as feeds:
        yield Player(stack, feeds, path, out, show)


def _problem_rows(stack: Stack) -> dict[str, str]:
    """Return the rows of failures, refused calls, faults without a call, and waiting messages; an empty text where there are none."""
    functions, mappings = stack.functions.items(), [*stack.sources.queue_mappings, *stack.sources.stream_mappings]
    refused = stack.wire.guard.refused
    unmet = [fault for fault in stack.wire.faults if fault.times > 0]
    return {
        "failed": ", ".join(f"{name} {counted(item.errors, 'time')}" for name, item in functions if item.errors),
        "retried": ", ".join(f"{item.name} {counted(item.reported, 'record')}" for item in mappings if item.reported),
        "refused": f"{counted(len(refused), 'call')}; the first: {refused[0]}" if refused else "",
        "faults": ", ".join(f"{fault.service}.{fault.operation} {fault.times:,} not met" for fault in unmet),
        "queues": ", ".join(f"{name} {number:,}" for name, number in stack.waiting_messages().items()),
    }


def _format(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(numbers.items()))
