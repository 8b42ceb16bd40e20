"""The local stack, built from template.yaml: moto has its resources, `Sources` calls its functions."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TextIO

import boto3
from moto import mock_aws

from stoppress.aws import bucket, clients, secrets, site_versions, sites
from stoppress.model.http_request import Request
from stoppress.model.site import BadConfiguration
from stoppress.receive import refused
from stoppress_cli.local import bus, local_queues, moto_fixes, resources
from stoppress_cli.local.event_sources import Sources
from stoppress_cli.local.gateway import Answer
from stoppress_cli.local.guard import Guard, missing_grants
from stoppress_cli.local.lambda_functions import OUTPUT, Function
from stoppress_cli.local.permissions import Permissions
from stoppress_cli.local.process import Clock, environment, no_aws_settings
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import STACK_NAME, WITH_ALL, TemplateError, load
from stoppress_cli.local.wire import LOCK, Wire


class Stack:
    """A running stack; use it as a context manager, one at a time in a process.

    `parameters` are the template's. `first_site` creates the site parameter and the secret of the template; scenarios create
    their own. The functions' output goes to `log`.
    `start` is the instant at which the virtual clock starts; without it the clock is this machine's.

    Raises TemplateError for a template that it cannot run completely.
    """

    def __init__(
        self,
        template: Path,
        parameters: Mapping[str, str] | None = None,
        *,
        first_site: bool = False,
        log: TextIO | None = None,
        start: datetime | None = None,
    ) -> None:
        self.name = STACK_NAME
        self.clock = Clock()
        self.metrics: Counter[str] = Counter()
        loaded = load(template, parameters, WITH_ALL)
        self.resources = {resource.logical: resource for resource in resources.resolve(loaded)}
        resources.check_properties(self.resources.values())
        permissions = Permissions(self.resources.values())
        if faults := missing_grants(self.resources.values(), permissions):
            raise TemplateError("\n".join(faults))
        self.wire = Wire(Guard(permissions, self.resources.values()))
        functions = resources.of_type(self.resources.values(), "AWS::Lambda::Function")
        self.functions = {item.logical: Function(item, loaded.code[item.logical]) for item in functions}
        self.sources = Sources(self.functions.values())
        self._first_site, self._log, self._start = first_site, log, start
        self._open = contextlib.ExitStack()
        self._clients: dict[str, Any] = {}
        # The cache of `stoppress.aws.sites` in each function.
        self._sites: dict[str, Any] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opening:
            opening.enter_context(environment(no_aws_settings()))
            opening.callback(self.clock.release)
            if self._start is not None:
                self.clock.move(self._start)
            opening.enter_context(mock_aws())
            opening.enter_context(self.wire.attach())
            opening.enter_context(moto_fixes.applied())
            opening.enter_context(bus.observe_events(self.sources.event_arrived))
            self.metrics = opening.enter_context(OUTPUT.write_to(self._log))
            self.forget_clients()
            opening.callback(self.forget_clients)
            self._create_resources()
            self._open = opening.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    # ── running ──────────────────────────────────────────────────────────────────────────────

    def advance(self, instant: datetime, *, every_schedule: bool = False) -> None:
        """Move the clock to `instant`, fire what is due once, and come to rest.

        With `every_schedule` the schedules that fire every minute also fire if no new minute has begun since they last did:
        on AWS their minutes may begin at any second.
        """
        self.clock.move(instant)
        self.come_due(every_schedule=every_schedule)

    def come_due(self, *, every_schedule: bool = False) -> None:
        """Fire what is due now, and come to rest."""
        self.sources.fire_due(every_schedule=every_schedule)
        self.sources.rest()

    def request(self, request: Request) -> Answer:
        """Send an HTTP request through the API. Its effects wait for `rest`."""
        return self.sources.request(request)

    def rest(self) -> None:
        """Deliver until no work is due at this instant."""
        self.sources.rest()

    def put_site(self, host: str, document: str) -> tuple[int, str]:
        """Write the next version of a site. Return its number, and why it cannot be read; such a version is put without a check."""
        with self.as_operator():
            expected = self._version(host)
            try:
                return site_versions.put(document, expected, "the scenario", self.clock.now()), ""
            except BadConfiguration as error:
                number = site_versions.put_unchecked(host, document, expected, "the scenario", self.clock.now())
                return number, str(error)

    def remove_site(self, host: str, *, deletes_files: bool) -> int:
        """Write the removal of a site as its next version, and return its number. With `deletes_files`, delete its folder."""
        with self.as_operator():
            now, expected = self.clock.now(), self._version(host)
            version = site_versions.remove(host, expected, "the scenario", now, deletes_files=deletes_files)
            for file in bucket.listed(host) if deletes_files else ():
                bucket.delete(host, file.file, file)
        return version

    def _version(self, host: str) -> int:
        current = sites.read_current(host)
        return current.version if current else 0

    @contextlib.contextmanager
    def as_operator(self) -> Iterator[None]:
        """Let the product's code use the stack's table and bucket without a function's cache while the block runs."""
        functions_cache, sites._cache = sites._cache, sites.Cache()
        places = {"TABLE_NAME": "AWS::DynamoDB::Table", "BUCKET_NAME": "AWS::S3::Bucket"}
        with environment({name: self.only(kind).ref for name, kind in places.items()}):
            try:
                yield
            finally:
                sites._cache = functions_cache

    def forget_clients(self) -> None:
        """Empty all caches of the functions, as new execution environments would."""
        secrets.forget()
        clients.client.cache_clear()
        refused.forget()
        self._sites.clear()

    # ── contents ───────────────────────────────────────────────────────────────────────────

    def client(self, service: str) -> Any:
        """Return a client for the stack's own use; its calls are not counted."""
        with LOCK:  # creating a client is not thread-safe
            if service not in self._clients:
                self._clients[service] = boto3.client(service)  # type: ignore[call-overload]
            return self._clients[service]

    def only(self, kind: str) -> Resource:
        matching = resources.of_type(self.resources.values(), kind)
        if len(matching) != 1:
            raise TemplateError(f"the template has {len(matching)} resources of {kind}, the local stack needs one")
        return matching[0]

    def variable(self, name: str) -> str:
        """Return an environment variable of some function in the template."""
        values = {key: value for function in self.functions.values() for key, value in function.variables.items()}
        if name not in values:
            raise TemplateError(f"no function of the template has the environment variable {name}")
        return values[name]

    def waiting_messages(self) -> dict[str, int]:
        """Return the number of messages in each queue that is not empty, by logical name: to be retried, delayed, or dead."""
        sources = resources.of_type(self.resources.values(), "AWS::SQS::Queue")
        numbers = {source.logical: len(local_queues.queue(source.arn)._messages) for source in sources}
        return {name: number for name, number in numbers.items() if number}

    # ── creation ───────────────────────────────────────────────────────────────────────────────

    def _create_resources(self) -> None:
        # A redrive policy refers to an existing queue, so queues without a policy come first.
        for resource in sorted(self.resources.values(), key=lambda resource: "RedrivePolicy" in resource.properties):
            if self._first_site or not resources.is_given(resource):
                resources.create(resource, self.client)
        for resource in self.resources.values():
            self.sources.add(resource)
        self.sources.running = self._running

    def _running(self, function: str | None) -> None:
        self.wire.thread.running = function
        # On Lambda each function has its own cache, so one may still use a configuration that another has replaced.
        if function is not None:
            sites._cache = self._sites.setdefault(function, sites.Cache())
