"""A feed as it is fetched: one answer, and where that is an index of sitemaps, those of the sitemaps it names."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from stoppress.feeds import parse
from stoppress.feeds.documents import Document, FeedError, read_document
from stoppress.feeds.entries import Reading, joined
from stoppress.http import body, client, errors
from stoppress.model.site import Site

# For all sitemaps of an index together; what was not fetched by then counts as failed, and the next poll tries again.
CHILDREN_SECONDS_MAX = 15.0
# What the bucket says of a file of ours (`bucket.write`), and passes on to readers: to hear ourselves would make every story
# its own source, which nobody could remove.
_OWN_HEADER = "x-amz-meta-config-version"


@dataclass(frozen=True)
class Fetched:
    """The answer at a feed's URL; of an index also the good answers of its sitemaps, and why the others are none."""

    answer: client.Response
    children: tuple[client.Response, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def is_index(self) -> bool:
        """Whether other answers count, of which the validators of this one know nothing."""
        return bool(self.children or self.failures)

    @property
    def body_digest(self) -> str:
        """Of all that was fetched: equal where all bodies are."""
        digest = hashlib.sha256(self.answer.body)
        for child in self.children:
            digest.update(hashlib.sha256(child.body).digest())
        return digest.hexdigest()[:32]

    @property
    def size_bytes(self) -> int:
        """Of all bodies."""
        return len(self.answer.body) + sum(len(child.body) for child in self.children)


def fetch(url: str, headers: Mapping[str, str], site: Site) -> Fetched:
    """GET a feed. Raises FetchError, and FeedError for an index that cannot be read."""
    deadline = time.monotonic() + CHILDREN_SECONDS_MAX
    answer = client.fetch(url, headers)
    if _OWN_HEADER in answer.headers:
        raise FeedError("Stoppress writes this file itself: take it out of the site's feeds")
    named = parse.children_of(answer.body, answer.headers, answer.url, site) if answer.status == HTTPStatus.OK else ()
    fetched = Fetched(answer)
    for child in named:
        reason = "there was no time left for it" if time.monotonic() >= deadline else ""
        try:
            got = (
                None
                if reason
                else client.fetch(child, {name: headers[name] for name in headers if name == "User-Agent"})
            )
        except errors.FetchError as error:
            got, reason = None, str(error)
        if got and got.status != HTTPStatus.OK:
            reason = f"the server answered {got.status}"
        elif got and _OWN_HEADER in got.headers:
            reason = "Stoppress writes this file itself"
        elif got and sum(len(one.body) for one in (*fetched.children, got)) > body.BODY_BYTES_MAX:
            reason = f"with it, the sitemaps of the index are larger than {body.BODY_BYTES_MAX:,} bytes"
        if got and not reason:
            fetched = replace(fetched, children=(*fetched.children, got))
        else:
            fetched = replace(fetched, failures=(*fetched.failures, f"{child}: {reason}"))
    return fetched


def read(fetched: Fetched, site: Site, take: Sequence[str]) -> tuple[Document, Reading]:
    """What a good answer says: its document, and the entries. Raises FeedError; of an index where nothing can be read."""
    document = read_document(fetched.answer.body, fetched.answer.headers)
    if not fetched.is_index:
        return document, parse.read(document, fetched.answer.url, site, take)
    readings, failures = [], list(fetched.failures)
    for child in fetched.children:
        try:
            readings.append(parse.read(read_document(child.body, child.headers), child.url, site, take))
        except FeedError as error:
            failures.append(f"{child.url}: {error}")
    if not readings:
        raise FeedError("; ".join(failures))
    return document, joined(readings, failures)
