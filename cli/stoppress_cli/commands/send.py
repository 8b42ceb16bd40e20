"""`stoppress send`: sends a test article through a stack's webhook, and watches it arrive in the files and leave them again."""

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from stoppress.aws import bucket, items, secrets, sites, table
from stoppress.http.errors import reason_of
from stoppress.model.article import Article
from stoppress.model.file_names import INDEX_FILE, index_part_name
from stoppress.model.rules import NO_TRAITS, excluding_rule
from stoppress.model.signature_schemes import Scheme
from stoppress.model.site import Site
from stoppress.model.site_sources import secret_path
from stoppress.primitives.instants import exact
from stoppress.primitives.text import escaped
from stoppress.receive.webhook import scheme_of
from stoppress.show.site import Access
from stoppress.sitemaps.tags import under_scheme
from stoppress_cli.connect import BadRequest
from stoppress_cli.local.gateway import Request
from stoppress_cli.options import WRITES, Commands, Json
from stoppress_cli.output import ATTENTION, OK, console, errors, print_json
from stoppress_cli.scenario import signing

# The programs that `--print` prints are files with the placeholders @WEBHOOK@, @PAGE@, @ID@ and @TITLE@.
Program = Literal["curl", "node", "php", "python"]
_PROGRAMS = Path(__file__).with_name("programs")

TITLE = "Stoppress test article: please ignore"
_ANSWER_SECONDS_MAX = 30.0
_LOOKS_EVERY_S = 0.1
_POSTS_EVERY_S = 2.0
# Characters that need no escape in the quotation marks of any program.
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]/_~$%-]+")
# Errors of urllib3 that come before a request is sent.
_NOT_CONNECTED = (NewConnectionError, ConnectTimeoutError)
# 404: the function has not read a new site yet. The other statuses ask the sender to send again.
_SENT_AGAIN = {404, 429, 500, 502, 503, 504}


class NotReached(Exception):
    """A stage that the article did not reach, and why."""


@dataclass(frozen=True)
class Stage:
    """A stage that the article has reached, and the milliseconds since it was sent."""

    name: str
    ms: int


@dataclass(frozen=True)
class Target:
    """A source of a site, and the address of its webhook."""

    site: Site
    source: str
    address: str

    @property
    def scheme(self) -> Scheme:
        """How deliveries to the source are signed."""
        return scheme_of("standard", self.site.sources[self.source].settings)

    def secret(self) -> str:
        """Return a secret that the source accepts, from Secrets Manager. Raises BadRequest."""
        try:
            return secrets.load(secret_path("webhooks", self.site.host, str(self.site.sources[self.source].secret)))[0]
        except secrets.NoSecret as error:
            raise BadRequest(str(error)) from None


app = Commands()


@app.command(effect=WRITES, example="stoppress send www.example.com cms --stack stoppress")
def send(
    access: Access,
    site: Annotated[
        str | None, typer.Argument(help="Host of the site; default: the only one.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Argument(
            help="A source with the adapter standard; default: the only one of the site.", show_default=False
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the article in the files.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", help="Seconds to wait for the article to arrive, and again to leave.", min=1)
    ] = 120,
    api: Annotated[
        str | None,
        typer.Option("--api", help="Address before /webhooks/; default: that of the stack's API.", show_default=False),
    ] = None,
    program: Annotated[
        Program | None,
        typer.Option(
            "--print", help="Print a program that sends such an article, and send nothing.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Send a signed test article through the webhook, wait until the files list it, and remove it again.

    The secret is read from Secrets Manager. Exit code 0: the article reached every stage; 1: it did not reach one in time, or the
    webhook refused it; 2: the stack or its webhook cannot be reached, or the source cannot be tested.
    """
    target = target_of(site, source, api)
    if program is not None:
        console.print(program_for(program, target), end="")
        return
    sample = Sample(target, timeout_s)
    stages: list[Stage] = []
    missed: list[str] = []

    def show(text: str) -> None:
        if not as_json:
            console.print(text)

    def follow(reached: Iterator[Stage]) -> None:
        try:
            for stage in reached:
                stages.append(stage)
                show(f"{stage.ms:>8,} ms  {stage.name}")
        except NotReached as error:
            missed.append(str(error))
            show(f"not reached  {error}")

    show(f"{sample.url}\n")
    try:
        follow(sample.arrive())
    finally:  # after Ctrl-C too
        if sample.may_be_taken and not keep:
            try:
                follow(sample.leave())
            finally:
                if not sample.is_removed:
                    removal = access.command(f"forget {sample.url}")
                    errors.print(f"stoppress: the test article may stay in the files: remove it with `{removal}`")
    if as_json:
        print_json({"url": sample.url, "stages": [asdict(stage) for stage in stages], "missed": missed})
    elif missed:
        console.print(f"\nsee why: {access.command(f'explain {sample.url}')}; {access.command('status')}")
    elif keep:
        console.print(
            "\nthe article stays: remove it with `stoppress forget`, or let it leave the news sitemap in 48 hours"
        )
    raise typer.Exit(ATTENTION if missed else OK)


def target_of(host: str | None, source: str | None, api: str | None) -> Target:
    """Return the source to send to. Without names, the only site of the stack, and its only source that can be tested.

    `api` is the address before `/webhooks/`, if it is not the stack's own. Raises BadRequest, UnknownSite and BadConfiguration.
    """
    site = sites.load(host.lower()) if host else _only_site()
    name = _source_of(site, source)
    api = (api or os.environ["WEBHOOKS_URL"]).rstrip("/")
    if not api:
        raise BadRequest("the stack has no output WebhookUrl: give the address of its API with --api")
    if not _ADDRESS.fullmatch(api):
        raise BadRequest(f"{api!r} is no address of an API: give one such as https://hooks.example.com")
    return Target(site, name, f"{api}/webhooks/{site.host}/{name}")


def _only_site() -> Site:
    hosts = sorted(sites.hosts())
    if len(hosts) > 1:
        raise BadRequest(f"the stack has several sites: choose one of {', '.join(hosts)}")
    if not hosts:
        raise BadRequest("the stack has no site: `stoppress sites put` adds one")
    return sites.load(hosts[0])


def _source_of(site: Site, name: str | None) -> str:
    usable = [each for each, source in site.sources.items() if source.adapter == "standard" and source.secret]
    if name in usable:
        return str(name)
    if name is None and len(usable) == 1:
        return usable[0]
    known = ", ".join(f"{each} ({source.adapter})" for each, source in site.sources.items()) or "none"
    if name is not None and name not in site.sources:
        raise BadRequest(f"{site.host} has no source {name!r}: it has {known}")
    if usable:
        raise BadRequest(f"name the source to test: one of {', '.join(usable)}")
    raise BadRequest(
        "only a source with the adapter standard and a secret can be tested"
        f" (sources of {site.host}: {known}): publish an article in the CMS, and run `stoppress explain URL`"
    )


def program_for(name: Program, target: Target) -> str:
    """Return a program that posts a test article as `Sample` does. It reads the secret from STOPPRESS_SECRET. Raises BadRequest."""
    if target.scheme != "standard":
        raise BadRequest(f"the source {target.source} has a signature of its own: --print knows Standard Webhooks only")
    text = (_PROGRAMS / f"{name}.txt").read_text(encoding="utf-8")
    article = _new_id()
    values = {"@WEBHOOK@": target.address, "@PAGE@": _page(target.site, article), "@ID@": article, "@TITLE@": TITLE}
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text


def _new_id() -> str:
    return f"stoppress-test-{uuid.uuid4().hex[:12]}"


def _page(site: Site, article: str) -> str:
    return f"https://{site.host}/{article}"


class Sample:
    """A test article. `arrive` publishes it, `leave` removes it; each waits at most `timeout_s` until the files show that.

    `may_be_taken`: the webhook has or may have taken the article, so `leave` has to remove it. `is_removed`: it has
    taken the removal.
    """

    def __init__(self, target: Target, timeout_s: float) -> None:
        self.id = _new_id()
        self.url = _page(target.site, self.id)
        self.may_be_taken = self.is_removed = False
        self._target, self._secret, self._timeout_s = target, target.secret(), timeout_s
        self._article: Article | None = None
        self._files: list[str] = []
        self._began = 0.0

    def arrive(self) -> Iterator[Stage]:
        """Publish the article; yield each stage when it is reached. Raises NotReached, and BadRequest if nobody answers."""
        yield self._post("article.published")
        yield from self._reached({"recorded": self._is_recorded})
        yield from self._find_files()
        listed = {f"listed in {file}": partial(self._lists, file) for file in self._files}
        yield from self._reached({**listed, f"named in {INDEX_FILE}": self._is_indexed})

    def _find_files(self) -> Iterator[Stage]:
        """Set the files that have to list the article. Yield each rule of the site that keeps it out of a file. Raises NotReached."""
        article = self._article
        assert article is not None
        rules = []
        targets: tuple[Literal["news", "general"], ...] = ("news", "general")
        for target, place in zip(targets, (article.news, article.shard), strict=True):
            if rule := excluding_rule(self._target.site.rules, target, self.url, NO_TRAITS):
                rules.append(rule)
                yield self._stage(f"kept out of the {target} sitemap by {rule}")
            elif place:
                self._files.append(place.file)
            else:
                raise NotReached(f"listed in the {target} sitemap: {article.reason or article.news_reason}")
        if not self._files:
            raise NotReached(f"listed in any file: {rules[0]} keeps it out")

    def leave(self) -> Iterator[Stage]:
        """Remove the article; yield each stage when it is reached. Raises as `arrive`."""
        answered = self._post("article.deleted")
        self.is_removed = True
        yield answered
        yield from self._reached(
            {f"gone from {file}": partial(self._lists, file, is_gone=True) for file in self._files}
        )

    def _post(self, kind: str) -> Stage:
        """Post an event of the article until the webhook takes it."""
        self._began = time.monotonic()
        delivery = f"msg_{uuid.uuid4()}"
        while True:
            status, text = self._answer(kind, delivery)
            if status == 200:
                return self._stage(f"answered 200 to {kind}")
            if status not in _SENT_AGAIN or self._is_late(_POSTS_EVERY_S):
                raise NotReached(f"answered 200 to {kind}: {self._target.address} answers {status} {text}")
            time.sleep(_POSTS_EVERY_S)

    def _answer(self, kind: str, delivery: str) -> tuple[int, str]:
        now = datetime.now(UTC)
        data = {"id": self.id, "url": self.url, "title": TITLE, "published_at": exact(now)}
        body = json.dumps({"type": kind, "timestamp": exact(now), "data": data}).encode()
        request = Request("POST", "", "", {"content-type": "application/json"}, body)
        try:
            signed = signing.signed(request, self._target.scheme, self._secret, delivery, now)
        except ValueError as error:
            raise BadRequest(f"the source {self._target.source}: {error}") from None
        url = self._target.address + (f"?{signed.query}" if signed.query else "")
        # Until the answer says otherwise: Ctrl-C or a lost connection may hide that the webhook took the article.
        was_taken, self.may_be_taken = self.may_be_taken, True
        try:
            answer = urllib3.request(
                "POST", url, body=signed.body, headers=dict(signed.headers), retries=False, timeout=_ANSWER_SECONDS_MAX
            )
        except HTTPError as error:
            if isinstance(error, _NOT_CONNECTED):
                self.may_be_taken = was_taken
            raise BadRequest(f"nobody answers at {self._target.address}: {reason_of(error)}") from None
        if 400 <= answer.status < 500:
            self.may_be_taken = was_taken
        return answer.status, answer.data.decode(errors="replace").strip()[:500]

    def _reached(self, stages: Mapping[str, Callable[[], bool]]) -> Iterator[Stage]:
        """Yield each stage when its condition holds. Raises NotReached."""
        left = dict(stages)
        while left:
            for name in [name for name, is_reached in left.items() if is_reached()]:
                del left[name]
                yield self._stage(name)
            if left:
                if self._is_late(_LOOKS_EVERY_S):
                    raise NotReached(" and ".join(left))
                time.sleep(_LOOKS_EVERY_S)

    def _is_late(self, pause_s: float) -> bool:
        return time.monotonic() + pause_s > self._began + self._timeout_s

    def _stage(self, name: str) -> Stage:
        return Stage(name, round((time.monotonic() - self._began) * 1_000))

    def _is_recorded(self) -> bool:
        """Whether the article is recorded and not held. If this machine's clock is ahead, the article is held until its date."""
        item = table.get(*items.article_key(self._target.site.host, f"{self._target.source}#{self.id}"))
        self._article = items.read_article(item) if item else None
        return self._article is not None and self._article.state != "held"

    def _lists(self, file: str, *, is_gone: bool = False) -> bool:
        stored = bucket.read(self._target.site.host, file)
        loc = f"<loc>{escaped(under_scheme(self.url, self._target.site))}</loc>"
        return (stored is not None and loc.encode() in stored.body) is not is_gone

    def _is_indexed(self) -> bool:
        """Whether the index names the files, perhaps in their compressed form. A large site has an index of several parts."""
        missing, number = set(self._files), 1
        while missing and (stored := bucket.read(self._target.site.host, _index_part(number))):
            missing = {
                file for file in missing if not re.search(rf"/{re.escape(file)}(\.gz)?</loc>".encode(), stored.body)
            }
            number += 1
        return not missing


def _index_part(number: int) -> str:
    return INDEX_FILE if number == 1 else index_part_name(number)
