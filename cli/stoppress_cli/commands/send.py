"""`stoppress send`: sends a test article through a stack's webhook, and watches it arrive in the files and leave them again."""

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from stoppress.aws import bucket, items, secrets, table
from stoppress.aws.inventory import read_indexes
from stoppress.http.errors import reason_of
from stoppress.model.article import Article
from stoppress.model.entries import NO_TRAITS, excluding_rule
from stoppress.model.file_names import Place
from stoppress.model.http_request import Request
from stoppress.model.site import Site
from stoppress.model.site_parts import secret_path
from stoppress.primitives.instants import exact
from stoppress.receive.webhook import scheme_of
from stoppress.show.question import choose_site
from stoppress.show.read_files import read_files
from stoppress.show.stack_status import Access
from stoppress.sitemaps.fold import listed_files
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, Commands
from stoppress_cli.output import console, end, errors, show
from stoppress_cli.scenario import signing

# The programs that `--print` prints are files with the placeholders @WEBHOOK@, @PAGE@, @ID@ and @TITLE@.
Program = Literal["curl", "node", "php", "python"]
_PROGRAMS = Path(__file__).with_name("programs")

TITLE = "Stoppress test article: please ignore"
_ANSWER_SECONDS_MAX = 30.0
_CHECKS_EVERY_S = 0.1
_POSTS_EVERY_S = 2.0
# Characters that need no escape in the quotation marks of any program.
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]/_~$%-]+")
# Errors of urllib3 that come before a request is sent.
_NOT_CONNECTED = (NewConnectionError, ConnectTimeoutError)
# 404: the function has not read a new site yet. The other statuses request a retry.
_RETRIED = {404, 429, 500, 502, 503, 504}


class NotReached(Exception):
    """A stage that the article did not reach, and why."""


app = Commands()


@app.command(effect=WRITES, example="stoppress send www.example.com cms --stack stoppress")
def send(
    access: Access,
    site: Annotated[str | None, typer.Argument(help="Host of the site; default: the only site.")] = None,
    source: Annotated[
        str | None, typer.Argument(help="Source with a secret and the `standard` adapter; default: the only one.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the article in the files instead of removing it.")] = False,
    timeout_s: Annotated[
        float, typer.Option(help="Seconds to wait until files list it, and again until they no longer do.", min=1)
    ] = 120,
    api: Annotated[str | None, typer.Option(help="The webhook's URL before /webhooks/; default: the stack's.")] = None,
    program: Annotated[
        Program | None,
        typer.Option("--print", help="Instead of sending, print a curl, node, php or python program that sends."),
    ] = None,
) -> None:
    """Send a signed test article through the webhook, wait until the files list it, and remove it again.

    Exit code 1: the webhook refused the article, or it was not recorded, listed or removed as expected.
    """
    sample = sample_of(site, source, api, timeout_s)
    if program is not None:
        console.print(sample.program(program), end="")
        return
    show(f"{sample.url}\n")
    values = sample.load_secret()
    if len(values) > 1:
        end_command = access.command(f"secrets rotate {sample.site.host} {sample.source} --finish")
        show(f"the secret is being rotated, {len(values)} values are valid: the old one ends with `{end_command}`\n")
    try:
        sample.follow(sample.arrive)
    finally:  # after Ctrl-C too
        if sample.may_be_accepted and not keep:
            try:
                sample.follow(sample.leave)
            finally:
                if not sample.is_removed:
                    removal = access.command(f"forget {sample.url}")
                    errors.print(f"stoppress: the test article may stay in the files: remove it with `{removal}`")
    advice = []
    if sample.missed:
        advice = [f"\nsee why: {access.command(f'explain {sample.url}')}; {access.command('status')}"]
    elif keep:
        advice = [
            "\nthe article leaves the news sitemap after 48 hours, and the general sitemap after `stoppress forget`"
        ]
    end({"url": sample.url, "stages": sample.stages, "missed": sample.missed}, advice, is_ok=not sample.missed)


def sample_of(host: str | None, source: str | None, api: str | None, timeout_s: float) -> "Sample":
    """Return a test article of a source. Without names, of the only site of the stack, and its only source that can be tested.

    `api` is the address before `/webhooks/`, if it is not the stack's own. Raises BadRequest and the errors of `choose_site`.
    """
    site = choose_site(host and host.lower())
    usable = [name for name, usable in site.sources.items() if usable.adapter == "standard" and usable.secret]
    if not usable:
        raise BadRequest(
            f"{site.host} has no source with the adapter standard and a secret, which alone can be tested: publish an article in"
            " the CMS, and run `stoppress explain URL`"
        )
    name = usable[0] if source is None and len(usable) == 1 else source
    if name not in usable:
        raise BadRequest(f"name a source of {site.host} to test, one of {', '.join(usable)}")
    api = (api or os.environ["WEBHOOKS_URL"]).rstrip("/")
    if not _ADDRESS.fullmatch(api):
        raise BadRequest(f"{api!r} is no address of an API: give one with --api, such as https://hooks.example.com")
    return Sample(site, name, f"{api}/webhooks/{site.host}/{name}", timeout_s)


@dataclass
class Sample:
    """A test article. `arrive` publishes it, `leave` removes it; each waits at most `timeout_s` until the files show that.

    `stages` has each stage that the article has reached, and the milliseconds since it was sent. `may_be_accepted`: the webhook
    may have accepted the article, so `leave` has to remove it. `is_removed`: it has accepted the removal.
    """

    site: Site
    source: str
    webhook: str
    timeout_s: float
    id: str = field(default_factory=lambda: f"stoppress-test-{uuid.uuid4().hex[:12]}")
    stages: list[dict[str, str | int]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    may_be_accepted: bool = False
    is_removed: bool = False
    _article: Article | None = None
    _files: list[str] = field(default_factory=list)
    _began: float = 0.0

    @property
    def url(self) -> str:
        return f"https://{self.site.host}/{self.id}"

    def program(self, name: Program) -> str:
        """Return a program that posts such an article. It reads the secret from STOPPRESS_SECRET. Raises BadRequest."""
        if scheme_of("standard", self.site.sources[self.source].settings) != "standard":
            raise BadRequest(f"the source {self.source} has its own signature: --print supports Standard Webhooks only")
        text = (_PROGRAMS / f"{name}.txt").read_text(encoding="utf-8")
        values = {"@WEBHOOK@": self.webhook, "@PAGE@": self.url, "@ID@": self.id, "@TITLE@": TITLE}
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        return text

    def follow(self, stage: Callable[[], None]) -> None:
        """Run `arrive` or `leave`, and record the stage that the article did not reach."""
        try:
            stage()
        except NotReached as error:
            self.missed.append(str(error))
            show(f"not reached  {error}")

    def arrive(self) -> None:
        """Publish the article, and wait until the files list it. Raises NotReached, and BadRequest without an answer."""
        self._post("article.published")
        self._wait_for({"recorded": self._is_recorded})
        self._find_files()
        listed = {f"listed in {file}": partial(self._lists, file) for file in self._files}
        self._wait_for({**listed, "named in the index": self._is_indexed})

    def leave(self) -> None:
        """Remove the article, and wait until no file lists it. Raises as `arrive`."""
        self._post("article.deleted")
        self._wait_for({f"gone from {file}": partial(self._lists, file, is_gone=True) for file in self._files})

    def _find_files(self) -> None:
        """Set the files that have to list the article. Each rule of the site that keeps it out of a file is a stage."""
        article = self._article
        assert article
        rules = []
        places: dict[Literal["news", "general"], Place | None] = {"news": article.news, "general": article.shard}
        for target, place in places.items():
            if rule := excluding_rule(self.site.rules, target, self.url, NO_TRAITS):
                rules.append(rule)
                self._reach(f"kept out of the {target} sitemap by {rule}")
            elif place:
                self._files.append(place.file)
            else:
                raise NotReached(f"listed in the {target} sitemap: {article.reason or article.news_reason}")
        if not self._files:
            raise NotReached(f"listed in any file: {rules[0]} keeps it out")

    def _post(self, kind: str) -> None:
        """Post an event of the article until the webhook accepts it."""
        self._began = time.monotonic()
        delivery = f"msg_{uuid.uuid4()}"
        while True:
            status, text = self._answer(kind, delivery)
            if status == 200:
                self.is_removed = kind == "article.deleted"
                self._reach(f"answered 200 to {kind}")
                return
            if status not in _RETRIED or self._is_late(_POSTS_EVERY_S):
                raise NotReached(f"answered 200 to {kind}: {self.webhook} answers {status} {text}")
            time.sleep(_POSTS_EVERY_S)

    def _answer(self, kind: str, delivery: str) -> tuple[int, str]:
        now = datetime.now(UTC)
        data = {"id": self.id, "url": self.url, "title": TITLE, "published_at": exact(now)}
        body = json.dumps({"type": kind, "timestamp": exact(now), "data": data}).encode()
        request = Request({"content-type": "application/json"}, body)
        source = self.site.sources[self.source]
        secret = self.load_secret()[0]
        try:
            signed = signing.signed(request, scheme_of("standard", source.settings), secret, delivery, now)
        except ValueError as error:
            raise BadRequest(f"the source {self.source}: {error}") from None
        url = self.webhook + (f"?{signed.query}" if signed.query else "")
        # Until the answer shows otherwise: Ctrl-C or a lost connection may hide that the webhook accepted the article.
        was_accepted, self.may_be_accepted = self.may_be_accepted, True
        try:
            answer = urllib3.request(
                "POST", url, body=signed.body, headers=dict(signed.headers), retries=False, timeout=_ANSWER_SECONDS_MAX
            )
        except HTTPError as error:
            if isinstance(error, _NOT_CONNECTED):
                self.may_be_accepted = was_accepted
            raise BadRequest(f"no answer from {self.webhook}: {reason_of(error)}") from None
        if 400 <= answer.status < 500:
            self.may_be_accepted = was_accepted
        return answer.status, answer.data.decode(errors="replace").strip()[:500]

    def load_secret(self) -> list[str]:
        """Return the valid values of the source's secret, the newest first. Raises NoSecret."""
        return secrets.load(secret_path("webhooks", self.site.host, str(self.site.sources[self.source].secret)))

    def _wait_for(self, stages: Mapping[str, Callable[[], bool]]) -> None:
        """Wait until the condition of each stage holds. Raises NotReached."""
        pending = dict(stages)
        while pending:
            for name in [name for name, is_reached in pending.items() if is_reached()]:
                del pending[name]
                self._reach(name)
            if pending:
                if self._is_late(_CHECKS_EVERY_S):
                    raise NotReached(" and ".join(pending))
                time.sleep(_CHECKS_EVERY_S)

    def _is_late(self, pause_s: float) -> bool:
        return time.monotonic() + pause_s > self._began + self.timeout_s

    def _reach(self, name: str) -> None:
        ms = round((time.monotonic() - self._began) * 1_000)
        self.stages.append({"name": name, "ms": ms})
        show(f"{ms:>8,} ms  {name}")

    def _is_recorded(self) -> bool:
        """Return True if the article is recorded and not held. If this machine's clock is ahead, the article is held until its date."""
        item = table.get(*items.article_key(self.site.host, f"{self.source}#{self.id}"))
        self._article = items.read_article(item) if item else None
        return self._article is not None and self._article.state != "held"

    def _lists(self, file: str, *, is_gone: bool = False) -> bool:
        [read] = read_files(self.site, [self.url], [file])
        return read.lists is not is_gone

    def _is_indexed(self) -> bool:
        """Return True if the indexes list the files, perhaps in their compressed form."""
        indexes = read_indexes(self.site.host)
        stored = {file: bucket.read(self.site.host, indexes.index_of(file)) for file in self._files}
        return all(index and file in listed_files(index.body) for file, index in stored.items())
