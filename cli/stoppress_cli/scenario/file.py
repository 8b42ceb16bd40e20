"""The scenario file: JSON Lines, one step a line. Each kind of step has a model here, and errors name the line.

docs/contributing/local-stack.md describes the kinds of steps and the keys of `post`.
"""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    IPvAnyAddress,
    ValidationError,
    model_validator,
)

from stoppress_cli.local.wire import Fault

Json = dict[str, Any]


class ScenarioError(ValueError):
    """A scenario that cannot be played; the text contains the file and line, what is wrong and what to do."""


def body_bytes(body: Any) -> Any:
    """Return a text or null of a step as the bytes of a body. A lone surrogate becomes invalid UTF-8."""
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else b"" if body is None else body


# Bodies and headers of a step, as they are sent: header names are lower case.
Body = Annotated[bytes, BeforeValidator(body_bytes)]
Headers = Annotated[dict[str, str], AfterValidator(lambda headers: {name.lower(): headers[name] for name in headers})]


class Strict(BaseModel):
    """A model without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FeedAnswer(Strict):
    """The answer of a feed's URL.

    `delay_s` passes before the answer, `drip_s` between its bytes. `length` replaces the true Content-Length. `gzip` compresses
    the body. With `bomb_bytes` the body is gzip that inflates to this many zeros. With `changing_etag` each answer has a new ETag.
    `addresses` are the addresses of the URL's host.
    """

    status: int = 200
    headers: Headers = {}
    body: Body = b""
    delay_s: float = Field(default=0, ge=0)
    drip_s: float = Field(default=0, ge=0)
    length: int | None = Field(default=None, ge=0)
    gzip: bool = False
    bomb_bytes: int = Field(default=0, ge=0)
    changing_etag: bool = False
    addresses: tuple[IPvAnyAddress, ...] = ()

    def sent(self) -> bytes:
        if self.status in (204, 304):
            return b""
        if self.bomb_bytes:
            return gzip.compress(bytes(self.bomb_bytes), mtime=0)
        return gzip.compress(self.body, mtime=0) if self.gzip else self.body


class _Step(Strict):
    at: AwareDatetime | None = None
    tick: bool = False


class SiteStep(_Step):
    """Puts the next version of a site; or, with `gone`, removes the site, with `deletes_files` also its files."""

    site: Json
    gone: bool = False
    deletes_files: bool = False

    @model_validator(mode="after")
    def _has_a_host(self) -> Self:
        if not isinstance(self.site.get("host"), str) or not self.site["host"]:
            raise ValueError("a site needs its `host`, such as www.example.com")
        return self


class Secret(Strict):
    name: str
    value: str


class SecretStep(_Step):
    """Puts a secret."""

    secret: Secret


class PostStep(_Step):
    """Sends one request through the API."""

    post: str = Field(pattern="^/")
    method: str = "POST"
    query: str | dict[str, str] = ""
    headers: Headers = Field({})
    body: str | Json | list[Any] | None = None
    sign: bool = False


class Event(Strict):
    source: str
    detail_type: str = Field(alias="detail-type")
    detail: Json
    time: datetime | None = None


class EventStep(_Step):
    """Puts an event on the bus of the template."""

    event: Event


class FeedStep(_Step, FeedAnswer):
    """Sets what a feed's URL answers from now on."""

    feed: str = Field(pattern="^https?://")
    file: str | None = None

    @model_validator(mode="after")
    def _has_one_body(self) -> Self:
        if {"body", "file"} <= self.model_fields_set:
            raise ValueError("`body` or `file` may be given, not both")
        return self


class HubStep(_Step):
    """Sets how a hub treats requests from now on; or, with `asks`, sends a request to the subscriber of a topic now.

    `status` and `body` answer a subscription request. With `verifies` false the hub does not verify the subscriber. `lease_s` is
    the lease in seconds, `denies` the reason for denying the subscription. `asks` is the query string for the subscriber of `topic`.
    """

    hub: str = Field(pattern="^https?://")
    status: int = 202
    body: str = ""
    verifies: bool = True
    lease_s: int | None = 864_000
    denies: str | None = None
    topic: str | None = None
    asks: dict[str, str] | None = None

    @model_validator(mode="after")
    def _asks_of_a_topic(self) -> Self:
        if (self.asks is None) != (self.topic is None):
            raise ValueError("`asks` and `topic` of a hub belong together: give both, or neither")
        return self


class PushStep(_Step):
    """Has a hub push to the subscriber of `topic`, a feed's URL. `sign` is the hash of the signature, or `wrong`, or `none`."""

    push: str = Field(pattern="^https?://")
    topic: str
    headers: Headers = Field({})
    body: Body = b""
    sign: Literal["sha1", "sha256", "sha384", "sha512", "wrong", "none"] = "sha256"


class SaveStep(_Step):
    """Saves the files of every site."""

    save: str = Field(pattern=r"^[A-Za-z0-9._-]+$")


class Expectation(Strict):
    """The expected state; absent keys are not compared."""

    site: str | None = None  # selects one of several sites
    news: list[str] | None = None  # URLs in the news sitemaps
    urls: list[str] | None = None  # URLs in the general sitemaps
    files: list[str] | None = None  # of the site
    index: list[str] | None = None  # the files in the index
    titles: dict[str, str] | None = None  # by URL
    lastmod: dict[str, str | None] | None = None  # by URL
    news_files: dict[str, int] | None = None  # entries by news sitemap
    status: int | None = None  # of the answer to the last `post`
    reply: Json | None = None  # a part of the JSON of that answer
    quarantined: list[str] | None = None  # a part of each reason in quarantine
    articles: dict[str, Json | None] | None = None  # attributes by `<source>/<id>`; null: no item, as in `feeds`
    feeds: dict[str, Json | None] | None = None  # attributes by the feed's URL
    asked: dict[str, int] | None = None  # requests sent, by URL
    subscriptions: dict[str, Json | None] | None = None  # attributes by the feed's URL
    subscribed: dict[str, list[str]] | None = None  # verified topics, by hub


class ExpectStep(_Step):
    """Compares the stack with an expectation."""

    expect: Expectation


class FaultStep(_Step):
    """Makes the next calls of an operation fail."""

    fault: Fault


class Damage(Strict):
    """A manual change of an object or an item; it is deleted where `body` or `set` is null."""

    file: str | None = None
    body: str | None = None
    item: tuple[str, str] | None = None
    set: Json | None = None

    @model_validator(mode="after")
    def _has_one_target(self) -> Self:
        if (self.file is None) == (self.item is None):
            raise ValueError("damage is done to a `file` (<host>/<name>) or to an `item` ([pk, sk])")
        return self


class DamageStep(_Step):
    """Changes an object or an item as no function would, so that reconciliation has to repair it."""

    damage: Damage


KINDS: dict[str, type[_Step]] = {
    "site": SiteStep, "secret": SecretStep, "post": PostStep, "event": EventStep, "feed": FeedStep, "hub": HubStep,
    "push": PushStep, "save": SaveStep, "expect": ExpectStep, "fault": FaultStep, "damage": DamageStep,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A step with its line number (from 1), kind and instant."""

    number: int
    kind: str  # a key of KINDS
    at: datetime
    step: Any


def read(path: Path) -> list[Line]:
    """Return the steps of a scenario file. Raises ScenarioError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read ({error}); give the path of a UTF-8 text file") from error
    return parse(text.split("\n"), path)


def parse(lines: Sequence[str], path: Path) -> list[Line]:
    """Return the steps of a scenario's lines. Errors contain `path`, and files are relative to its folder. Raises ScenarioError."""
    steps: list[Line] = []
    now: datetime | None = None
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        where = f"{path}:{number}"
        kind, step = _step(text, where)
        at = step.at.astimezone(UTC) if step.at is not None else now
        if at is None:
            raise ScenarioError(f"{where}: the first step needs `at`, an instant such as 2026-11-20T08:00:00Z")
        if now is not None and at < now:
            raise ScenarioError(
                f"{where}: `at` {at.isoformat()} is before the step above ({now.isoformat()}); time cannot go back"
            )
        if isinstance(step, FeedStep) and step.file is not None:
            try:
                body = (path.parent / step.file).read_bytes()
            except OSError as error:
                raise ScenarioError(f"{where}: {kind}: there is no file {step.file} beside the scenario") from error
            step = step.model_copy(update={"body": body})
        now = at
        steps.append(Line(number, kind, at, step))
    if not steps:
        raise ScenarioError(f"{path}: contains no step; write one JSON object a line")
    return steps


def _step(text: str, where: str) -> tuple[Any, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{where}: not JSON ({error}); a step is one JSON object on one line") from error
    if not isinstance(raw, dict):
        raise ScenarioError(f"{where}: a step is a JSON object, not {type(raw).__name__}")
    kinds = [kind for kind in KINDS if kind in raw]
    # Exactly one key is the kind; keys such as `headers` and `body` belong to it.
    if len(kinds) != 1:
        names = " and ".join(kinds) if kinds else "none"
        raise ScenarioError(f"{where}: a step has exactly one of {', '.join(KINDS)}; found {names}")
    try:
        return kinds[0], KINDS[kinds[0]].model_validate(raw)
    except ValidationError as error:
        raise ScenarioError(f"{where}: {kinds[0]}: {'; '.join(map(_sentence, error.errors()))}") from error


def _sentence(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown key `{place}`; remove it or correct its spelling"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"`{place}`: {message}" if place else message
