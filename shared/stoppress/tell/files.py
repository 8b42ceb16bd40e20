"""Receivers are told that files changed: a CDN, which forgets its copies, and a WebSub hub, which reads the feeds again.

After an event about a file, a delayed message goes to the engines queue: when it arrives, the file's commit mark and the index are
written too. The marks, and what a receiver was told last, show what is left to tell. So a repeated message does no harm.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import cdn, items, queues, secrets, table
from stoppress.aws.clients import OutOfTime
from stoppress.aws.items import Item
from stoppress.http import client
from stoppress.http.errors import FetchError, Refused
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_FILE, atom_name, is_news, series_of
from stoppress.model.site import Site, secret_path
from stoppress.primitives.instants import epoch_seconds, exact, parse
from stoppress.signatures.verify import BadSecret
from stoppress.tell import hub, purge
from stoppress.tell.indexnow import WRONG_SECONDS, Meaning, retry_after
from stoppress.tell.state import STATE_KEPT, told_pk

# The names of the receivers, in messages, in sort keys and in `stoppress status`.
CDN, HUB = "CDN", "hub"
# Beginning of the sort keys of what receivers were told.
FILES = "files#"
# After an event about a file, rewrite_sitemaps writes the file's commit mark, and then the index.
WRITTEN_AFTER = timedelta(seconds=10)
# The shortest time between two requests. CloudFront: 1,000 paths a month are free, a further one costs $0.005.
INVALIDATION_PAUSE = timedelta(minutes=5)
POST_PAUSE = timedelta(minutes=1)
# How long a cache may serve the old file: `CACHE_FRESH`.
CACHED_FOR = timedelta(minutes=1)
# When to repeat a request that a receiver cannot take now.
LATER_SECONDS = 60
# The longest delay of a message.
_DELAY_MAX = timedelta(seconds=queues.RETRY_DELAY_MAX_SECONDS)
_REASON_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a file: a digest, and when the file changed last."""

    digest: str
    changed: datetime


@dataclass(frozen=True, slots=True)
class Receiver:
    """A CDN or a hub.

    `pause`: the shortest time between two requests. `served_after`: how long the receiver may read the old file from caches. It is
    told of the file once more after that. `versions` gives the files that concern the receiver. `ask` sends a request, which has an id.
    """

    pause: timedelta
    served_after: timedelta
    versions: Callable[[Sequence[Mark]], dict[str, Version]]
    ask: Callable[[Site, Sequence[str], str, datetime], Meaning]


@dataclass(frozen=True, slots=True)
class _State:
    """What a receiver was told: digests by file. `paused`: it gets no request before. `due`: when its next message arrives."""

    digests: Mapping[str, str] = field(default_factory=dict)
    paused: datetime | None = None
    due: datetime | None = None
    rev: int | None = None


def receivers(site: Site) -> dict[str, Receiver]:
    """The receivers of a site, by name."""
    by_name = {}
    if site.engines and site.engines.purge:
        if site.engines.purge.distribution:  # it reads the bucket itself
            by_name[CDN] = Receiver(INVALIDATION_PAUSE, timedelta(), _purged_versions, _purge)
        else:  # it reads the files through the distribution of template-cdn.yaml, and could fetch and keep the old file again
            by_name[CDN] = Receiver(POST_PAUSE, WRITTEN_AFTER + CACHED_FOR, _purged_versions, _purge)
    if site.engines and site.outputs.atom and site.outputs.hub:
        # A hub reads the feed through two caches, such as that distribution and nginx.
        by_name[HUB] = Receiver(POST_PAUSE, WRITTEN_AFTER + 2 * CACHED_FOR, _feed_versions, _publish)
    return by_name


def receiver_message(host: str, name: str, due: datetime) -> str:
    """A message that asks to tell a receiver of the files that changed. `due`: when the message arrives."""
    return json.dumps({"site": host, "receiver": name, "due": exact(due)})


def schedule(site: Site, file: str, now: datetime) -> None:
    """After an event about a file, send a message for each receiver, unless one that arrives in time was sent before."""
    for name in receivers(site):
        if name == HUB and not is_news(file):
            continue
        state = _read(site.host, name)
        written = now + WRITTEN_AFTER
        wanted = max(written, state.paused) if state.paused else written
        if state.due is None or not written <= state.due <= wanted:
            _send(site.host, name, state, wanted, now)


def tell(site: Site, name: str, due: datetime, now: datetime) -> Meaning | None:
    """Tell a receiver of the files that changed since it was told last. Returns what its answer means; None: no request was sent.

    `due` is that of the message. If something is left to tell, another message is sent. Raises Conflict, and errors of AWS.
    """
    receiver = receivers(site).get(name)
    if receiver is None:
        return None
    state = _read(site.host, name)
    stored = table.query(items.file_pk(site.host, INDEX_FILE), consistent=False)
    versions = receiver.versions([items.read_mark(item) for item in stored if item["sk"] != INDEX_FILE])
    changed = {file: version for file, version in versions.items() if state.digests.get(file) != version.digest}
    if not changed:
        return None
    if state.paused and state.paused > now:
        if state.due is None or state.due <= due:  # otherwise a later message is on its way
            _send(site.host, name, state, state.paused, now)
        return None
    answer = receiver.ask(site, sorted(changed), _id(site.host, changed), now)
    if answer.result != "told":
        paused = now + timedelta(seconds=answer.after_seconds)
        _send(site.host, name, replace(state, paused=paused), paused, now)
        return answer
    served = {
        file: version.digest for file, version in changed.items() if version.changed + receiver.served_after <= now
    }
    again = [version.changed + receiver.served_after for file, version in changed.items() if file not in served]
    known = {file: state.digests[file] for file in versions.keys() & state.digests.keys()}
    state = replace(state, digests=known | served, paused=now + receiver.pause)
    if again:
        due = max(*again, now + receiver.pause)
        state = replace(state, due=due)
        queues.send_engines([(receiver_message(site.host, name, due), _seconds(due - now))])
    table.put(_item(site.host, name, state, now), state.rev)  # after a conflict, the message comes again
    return answer


def _send(host: str, name: str, state: _State, at: datetime, now: datetime) -> None:
    """Send a receiver's message, and note when it arrives."""
    due = min(at, now + _DELAY_MAX)
    queues.send_engines([(receiver_message(host, name, due), _seconds(due - now))])
    with suppress(table.Conflict):  # without the note, a later event sends one more message
        table.put(_item(host, name, replace(state, due=due), now), state.rev)


def _seconds(period: timedelta) -> int:
    return max(0, -(-period // timedelta(seconds=1)))


def _id(host: str, changed: Mapping[str, Version]) -> str:
    """The id of a request. Requests about the same versions of the same files have the same id."""
    what = json.dumps([host, sorted((file, version.digest) for file, version in changed.items())])
    return f"stoppress-{sha256(what.encode()).hexdigest()[:32]}"


# ── the CDN ──


def _purged_versions(marks: Sequence[Mark]) -> dict[str, Version]:
    """The news sitemaps and the index. The index changes with each file."""
    if not marks:
        return {}
    news = {name: mark for mark in marks if is_news(mark.file) for name in (mark.file, mark.served)}
    return {name: _version([mark]) for name, mark in news.items()} | {INDEX_FILE: _version(marks)}


def _version(marks: Sequence[Mark]) -> Version:
    lines = sorted(f"{mark.served} {exact(mark.changed)}" for mark in marks)
    return Version(sha256("\n".join(lines).encode()).hexdigest()[:32], max(mark.changed for mark in marks))


def _purge(site: Site, files: Sequence[str], id_: str, now: datetime) -> Meaning:
    assert site.engines
    assert site.engines.purge
    settings = site.engines.purge
    if settings.distribution:
        return _invalidate(settings.distribution, purge.paths(site.host, files), id_)
    assert settings.url
    assert settings.secret
    body = purge.request_body(site.host, [f"{site.origin}/{file}" for file in files])
    try:
        usable = secrets.load(secret_path(site.host, settings.secret))
        headers = purge.signed_headers(usable, id_, body, now)
    except (secrets.NoSecret, BadSecret) as error:
        if isinstance(error, secrets.NoSecret) and error.may_pass:
            return Meaning("later", str(error), LATER_SECONDS, is_certain=True)
        return Meaning("wrong", f"{error}: {purge.FIX}", WRONG_SECONDS, is_certain=True)
    return _post(settings.url, body, purge.CONTENT_TYPE, headers, purge.FIX, now)


def _invalidate(distribution: str, paths: Sequence[str], reference: str) -> Meaning:
    try:
        cdn.invalidate(distribution, paths, reference)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        meaning = purge.refusal(error.response["Error"]["Code"], status, error.response["Error"].get("Message", ""))
        return meaning if meaning.result == "wrong" else replace(meaning, after_seconds=LATER_SECONDS)
    except OutOfTime:
        raise
    except BotoCoreError as error:
        return Meaning("later", str(error), LATER_SECONDS)
    return Meaning("told")


# ── the hub ──


def _feed_versions(marks: Sequence[Mark]) -> dict[str, Version]:
    """The feeds, by the news sitemaps from which they are made."""
    by_feed: dict[str, list[Mark]] = {}
    for mark in marks:
        if is_news(mark.file) and (feed := atom_name(series_of(mark.file))) in mark.also:
            by_feed.setdefault(feed, []).append(mark)
    return {feed: _version(of_feed) for feed, of_feed in by_feed.items()}


def _publish(site: Site, feeds: Sequence[str], _: str, now: datetime) -> Meaning:
    assert site.outputs.hub
    body = hub.request_body(f"{site.origin}/{feed}" for feed in feeds)
    return _post(site.outputs.hub, body, hub.CONTENT_TYPE, {}, hub.FIX, now, https_only=False)


# ── requests ──


def _post(
    url: str,
    body: bytes,
    content_type: str,
    headers: Mapping[str, str],
    fix: str,
    now: datetime,
    *,
    https_only: bool = True,
) -> Meaning:
    try:
        answer = client.post_body(url, body, content_type, headers, https_only=https_only)
    except Refused as error:
        return Meaning("wrong", f"{error}: {fix}", WRONG_SECONDS, is_certain=True)
    except FetchError as error:
        return Meaning("later", str(error), LATER_SECONDS)
    return meaning(answer.status, answer.headers, answer.body, now, fix)


def meaning(status: int, headers: Mapping[str, str], body: bytes, now: datetime, fix: str) -> Meaning:
    """What the answer to a POST means. `fix` says what to do about an answer that refuses. Header names are in lower case."""
    if 200 <= status < 300:
        return Meaning("told")
    detail = " ".join(body[:_REASON_CHARACTERS_MAX].decode(errors="replace").split())
    answered = f"answers {status}: {detail}" if detail else f"answers {status}"
    if status == 429 or status >= 500:
        given = headers.get("retry-after", "")
        seconds = retry_after(given, now) if given else LATER_SECONDS
        return Meaning("later", answered, seconds, is_certain=status in (429, 503))
    return Meaning("wrong", f"{answered}: {fix}", WRONG_SECONDS, is_certain=True)


# ── the table ──


def _read(host: str, name: str) -> _State:
    item = table.get(told_pk(host), f"{FILES}{name}")
    if item is None:
        return _State()
    paused, due = (parse(item[key]) if key in item else None for key in ("paused", "due"))
    return _State(item["digests"], paused, due, int(item["rev"]))


def _item(host: str, name: str, state: _State, now: datetime) -> Item:
    instants = {"paused": state.paused, "due": state.due}
    return {
        "pk": told_pk(host),
        "sk": f"{FILES}{name}",
        "digests": dict(state.digests),
        **{key: exact(instant) for key, instant in instants.items() if instant},
        "ttl": epoch_seconds(now + STATE_KEPT),
    }
