"""Turn a feed's entries into article events, or into reasons why an entry has none."""

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from stoppress.cms.contract import DROPPED_SHOWN, read_media
from stoppress.cms.contract_fields import KEYWORDS_MAX
from stoppress.feeds.feed_documents import Entry, Reading
from stoppress.model.event import ID_BYTES_MAX, ArticleEvent
from stoppress.model.site import FEED_SOURCE, Site
from stoppress.primitives.text import clean, language_code
from stoppress.primitives.urls import canonical, key_of, on_site


@dataclass(frozen=True, slots=True)
class Judged:
    """An entry with its event, or with the reason why it has none. `url` is canonical, or None."""

    entry: Entry
    id: str | None
    url: str | None
    event: ArticleEvent | None
    reason: str = ""


def judged(reading: Reading, site: Site, now: datetime, shared: Collection[str] = (), *, feed: str) -> list[Judged]:
    """Return each entry of the document at the URL `feed`, in order, with its event or the reason why it has none.

    The identity is the guid, else the URL. A guid that several URLs share identifies none of them (kbh-sprogcenter.dk in FreshRSS's
    pull request 1887). `shared` are the hashes of such guids in earlier readings (`shared_guids`). Of two entries with one identity
    the newer counts, or the first if neither is newer, because feeds list the newest first. A tombstone counts if it is newer than
    its entry, or if the entry has no date (RFC 6721, 3). `now` is when the document was fetched.
    """
    verdicts = [_place_entry(entry, site, feed) for entry in reading.entries]
    shared = {*shared, *_hash_shared(verdicts)}
    deleted_at = {_id_of(deletion.guid, feed): deletion.at for deletion in reading.deleted}
    newest: dict[str, int] = {}
    for number, verdict in enumerate(verdicts):
        entry, url = verdict.entry, verdict.url
        if url is None:
            continue
        is_own_guid = entry.guid and _guid_hash(entry.guid) not in shared
        identity = verdict.id if verdict.id and is_own_guid else id_within_limit(url)
        if _is_deleted(entry, deleted_at.get(identity), now):
            verdicts[number] = Judged(entry, identity, url, None, "its feed marks it as deleted")
            continue
        event = _event(entry, identity, url, site, now)
        verdicts[number] = Judged(entry, identity, url, event)
        before = newest.setdefault(event.name, number)
        if before != number:
            is_newer = _changed_at(entry) > _changed_at(verdicts[before].entry)
            newest[event.name], older = (number, before) if is_newer else (before, number)
            verdicts[older] = replace(verdicts[older], event=None, reason="another entry of the same id counts")
    return verdicts


def _is_deleted(entry: Entry, deleted_at: datetime | None, now: datetime) -> bool:
    """Return True if a tombstone of the feed itself is newer than the entry."""
    if deleted_at is None or entry.source != FEED_SOURCE:
        return False
    return _changed_at(entry) <= min(deleted_at, now).timestamp()


def _place_entry(entry: Entry, site: Site, feed: str) -> Judged:
    """Return the entry with its canonical URL, or with the reason why it has none."""
    identity = _id_of(entry.guid, feed) if entry.guid else None
    if entry.url is None:
        return Judged(entry, identity, None, None, "it has no http or https link")
    try:
        return Judged(entry, identity, on_site(canonical(entry.url), site.host), None)
    except ValueError as error:
        return Judged(entry, identity, None, None, str(error))


def shared_guids(reading: Reading, site: Site) -> tuple[str, ...]:
    """Return short hashes of the guids that several pages of a feed share."""
    counts = Counter(entry.guid for entry in reading.entries)
    return _hash_shared([_place_entry(entry, site, "") for entry in reading.entries if counts[entry.guid] > 1])


def _hash_shared(verdicts: list[Judged]) -> tuple[str, ...]:
    pages_of: dict[str, set[str]] = {}
    for verdict in verdicts:
        if verdict.entry.guid and verdict.url:
            pages_of.setdefault(verdict.entry.guid, set()).add(verdict.url)
    return tuple(_guid_hash(guid) for guid, pages in pages_of.items() if len(pages) > 1)


def to_events(
    reading: Reading, site: Site, now: datetime, shared: Collection[str] = (), *, feed: str
) -> tuple[list[ArticleEvent], list[str]]:
    """Return the article events of a reading (entries, then tombstones), and the reasons why some entries have no event.

    `shared` are the hashes of guids that several pages shared in earlier readings (`shared_guids`).
    """
    verdicts = judged(reading, site, now, shared, feed=feed)
    events = [verdict.event for verdict in verdicts if verdict.event]
    published = {event.id for event in events}
    removals = {
        identity: ArticleEvent(site=site.host, source=FEED_SOURCE, id=identity, action="remove", received_at=now)
        for deletion in reading.deleted
        if (identity := _id_of(deletion.guid, feed)) not in published
    }
    skipped = [
        f"entry {(verdict.entry.guid or verdict.entry.title)[:80]!r}: {verdict.reason}"
        for verdict in verdicts
        if verdict.url is None
    ]
    return [*events, *removals.values()], skipped + list(reading.left_out)


def _event(entry: Entry, identity: str, url: str, site: Site, now: datetime) -> ArticleEvent:
    media, dropped = read_media(list(entry.images), list(entry.videos), list(entry.alternates), url)
    return ArticleEvent(
        site=site.host,
        source=entry.source,
        id=identity,
        action="publish",
        received_at=now,
        url=url,
        title=entry.title,
        published_at=entry.published_at,
        updated_at=entry.updated_at,
        language=language_code(entry.language) if entry.language else None,
        keywords=entry.keywords[:KEYWORDS_MAX],
        dropped=tuple(map(clean, dropped[:DROPPED_SHOWN])),
        **media,
    )


def _changed_at(entry: Entry) -> float:
    """Return when the entry changed, by its own dates, in seconds since 1970; 0 without a date."""
    changed_at = entry.updated_at or entry.published_at
    return changed_at.timestamp() if changed_at else 0.0


def _id_of(guid: str, feed: str) -> str:
    """Return the article's id: a guid that is a URI, or any other guid with the key of its feed before it.

    A URI identifies one story in every feed (RFC 4287, 4.2.6). Other guids belong to their feed: the guid "77" of two
    feeds means two stories.
    """
    is_uri = "://" in guid or guid.startswith(("tag:", "urn:"))
    return id_within_limit(guid if is_uri else f"{key_of(feed)[:8]}:{guid}")


def id_within_limit(identity: str) -> str:
    """Return an article's id from a guid or a URL: the text, or its hash if the text is too long for a key of the table."""
    encoded = identity.encode()
    return identity if len(encoded) <= ID_BYTES_MAX else f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def _guid_hash(guid: str) -> str:
    return hashlib.sha256(guid.encode()).hexdigest()[:16]
