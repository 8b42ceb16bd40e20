"""The contract of Stoppress: reads a newsroom's webhook or bus event into an article event.

    {"type": "article.published", "timestamp": "2026-11-20T08:00:00Z", "data": {"id": "1042", "url": …, "title": …}}

A publication needs id, url and title. A removal needs the id, or the URL if the sender does not know the id. Events of type
`page.*` are for pages that are not articles, and need no title.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any, get_args
from urllib.parse import urljoin, urlsplit, urlunsplit

from pydantic import ValidationError

from stoppress.cms.contract_fields import PagePublication, Publication, Removal, read_instant
from stoppress.model.alternates import read_alternates
from stoppress.model.event import PREVIOUS_URLS_MAX, ArticleEvent, Verb
from stoppress.model.media import items_of, read_images, read_videos
from stoppress.model.site import Site
from stoppress.model.validation import explain, explain_each
from stoppress.primitives.text import clean, shown
from stoppress.primitives.urls import canonical, host_of, identity, on_site
from stoppress.sitemaps.tags import fit

PUBLISHES = ("article.published", "article.updated", "page.published", "page.updated")
REMOVES = ("article.unpublished", "article.deleted", "page.unpublished", "page.deleted")
TYPES = PUBLISHES + REMOVES
PAGE = "page."
_VERBS: dict[str, Verb] = {verb: verb for verb in get_args(Verb)}

# For images, videos and alternates together. A message of SQS may have 1 MiB, an item of DynamoDB 400 KB.
MEDIA_BYTES_MAX = 100_000
# Enough to show a misspelt name. An answer does not repeat a whole document.
UNKNOWN_FIELDS_SHOWN = 20
DROPPED_SHOWN = 20
FLAGS_MAX = 100
# The fields that `_read_droppable` reads.
_DROPPABLE = ("type", "flags", "images", "videos", "alternates")


class BadArticle(ValueError):
    """An event that cannot be applied. The text has a line for each wrong field; `field` is the first, if any.

    `errors` has the name of each wrong field, and what to change.
    """

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(f"{field}: {text}" if field else text)
        self.field = field
        self.errors = [(field, text)] if field else []

    @classmethod
    def of(cls, error: ValidationError) -> "BadArticle":
        """Return the error for the faults that pydantic reports."""
        bad = cls(explain(error))
        bad.errors = [(".".join(map(str, place)), reason) for place, _, reason in explain_each(error)]
        bad.field = bad.errors[0][0]
        return bad


class UnknownType(ValueError):
    """An event whose type does not concern articles or pages."""


# The least ratio of difflib for a misspelt word. A word with two of its seven letters exchanged reaches it. `image` for
# `page` does not.
_ALIKE = 0.75
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def _meant_type(kind: str) -> str | None:
    """Return the type that a misspelt one means: `article.published` for `Article.publish`. None if it is like no type of the contract."""
    from difflib import get_close_matches  # imported here, because only a misspelt type needs it

    for noun, verb in pairwise(word.lower() for word in _WORD.findall(kind[:200])):
        nouns = get_close_matches(noun, ["article", "page"], n=1, cutoff=_ALIKE)
        # The first letter must agree: `depublished` is like `published` and means the opposite.
        verbs = [name for name in ("published", "updated", "unpublished", "deleted") if name[0] == verb[0]]
        if nouns and (verb_alike := get_close_matches(verb, verbs, n=1, cutoff=_ALIKE)):
            return f"{nouns[0]}.{verb_alike[0]}"
    return None


def unknown_type(kind: str) -> BadArticle | UnknownType:
    """Return the error for an unknown type: BadArticle for a misspelt type, UnknownType for any other."""
    if meant := _meant_type(kind):
        return BadArticle(f"{kind[:100]!r} is not known: did you mean {meant}?", "type")
    return UnknownType(f"{kind[:100]!r} is not one of {', '.join(TYPES)}")


def read_delivery(
    document: object, site: Site, source: str, now: datetime, *, delivery: str | None = None
) -> tuple[ArticleEvent, list[str]]:
    """Return the article event of a webhook's JSON that arrived at `now`, and the names of unknown fields.

    `delivery` is the sender's id of the delivery. Raises BadArticle and UnknownType.
    """
    if not isinstance(document, dict):
        raise BadArticle('the body is not a JSON object: {"type": "article.published", "data": {…}}')
    kind = document.get("type")
    if not isinstance(kind, str):
        raise BadArticle(f"is missing; give one of {', '.join(TYPES)}", "type")
    if kind not in TYPES:
        raise unknown_type(kind)
    try:
        timestamp = read_instant(document.get("timestamp"))
    except ValueError as error:
        raise BadArticle(str(error), "timestamp") from None
    event, unknown = read_article(kind, document.get("data"), site, source, timestamp, now)
    return replace(event, delivery=delivery), unknown


def read_bus_event(envelope: Mapping[str, Any], site: Site, now: datetime) -> tuple[ArticleEvent, list[str]]:
    """Return the article event of an event on the bus: `detail-type` is the type, `detail` is `data` with `site` added.

    Return the names of unknown fields too. Raises BadArticle and UnknownType.
    """
    source = envelope.get("source")
    if not isinstance(source, str) or source not in site.sources:
        names = ", ".join(site.sources) or "none"
        raise BadArticle(f"{source!r} is not among the sources of {site.host} ({names}); add it there", "source")
    document = {"type": envelope.get("detail-type"), "timestamp": envelope.get("time"), "data": envelope.get("detail")}
    event, unknown = read_delivery(document, site, source, now)
    return event, [name for name in unknown if name != "site"]


def read_article(
    kind: str, data: object, site: Site, source: str, timestamp: datetime | None, now: datetime
) -> tuple[ArticleEvent, list[str]]:
    """Return the article event of a known type and its `data`, and the names of unknown fields. Raises BadArticle."""
    if not isinstance(data, dict):
        raise BadArticle('send the object that contains the article: {"id": …, "url": …, "title": …}', "data")
    page, verb = kind.startswith(PAGE), _VERBS[kind.partition(".")[2]]
    try:
        fields = model_of(verb, page=page).model_validate(data)
    except ValidationError as error:
        raise BadArticle.of(error) from None
    if verb == "updated" and fields.updated_at is None:
        fields.updated_at = timestamp
    extra = fields.model_extra if isinstance(fields, Publication) else None
    unknown = [clean(name, 80) for name in sorted(extra or {})[:UNKNOWN_FIELDS_SHOWN]]
    event = event_of(fields, site, source, verb, page=page, timestamp=timestamp, received_at=now)
    return event, unknown


def model_of(verb: Verb, *, page: bool) -> type[Removal]:
    """Return the fields that an event has."""
    if verb in ("unpublished", "deleted"):
        return Removal
    return PagePublication if page else Publication


def event_of(fields: Removal, site: Site, source: str, verb: Verb, *, page: bool, **instants: Any) -> ArticleEvent:
    """Return the article event of fields that were read. Raises BadArticle."""
    values = fields.model_dump(exclude={*_DROPPABLE, *(fields.model_extra or {})}, exclude_none=True)
    values |= {"source": source, "verb": verb, **instants}
    if not isinstance(fields, Publication):
        return ArticleEvent(site=site.host, action="remove", **values | _removal_fields(fields, site))
    values |= _urls(fields, site)
    return ArticleEvent(site=site.host, action="publish", page=page, **values, **_read_droppable(fields, values["url"]))


def _read_droppable(publication: Publication, url: str) -> dict[str, Any]:
    """Return type, flags, images, videos and alternates, as many as fit, and the reasons for the values dropped."""
    if publication.model_fields_set.isdisjoint(_DROPPABLE):
        return {}
    types, bad_types = _read_names("type", publication.type, 1)
    flags, bad_flags = _read_flags(publication.flags)
    media, bad_media = read_media(publication.images, publication.videos, publication.alternates, url)
    dropped = [clean(reason) for reason in (*bad_media, *bad_types, *bad_flags)]
    if len(dropped) > DROPPED_SHOWN:
        dropped[DROPPED_SHOWN:] = [f"and {len(dropped) - DROPPED_SHOWN} more"]
    return {"type": next(iter(types), None), "flags": flags, "dropped": tuple(dropped), **media}


def read_media(images: object, videos: object, alternates: object, url: str) -> tuple[dict[str, Any], list[str]]:
    """Return images, videos and alternates of a page, as many as fit, and the reasons for values left out."""
    kept_images, bad_images = read_images(images, url)
    kept_videos, bad_videos = read_videos(videos, url)
    kept_alternates, bad_alternates = read_alternates(alternates, url)
    *media, too_much = fit(kept_images, kept_videos, kept_alternates, MEDIA_BYTES_MAX)
    names = ("images", "videos", "alternates")
    return dict(zip(names, media, strict=True)), [*bad_images, *bad_videos, *bad_alternates, *too_much]


def _read_flags(value: object) -> tuple[tuple[str, ...], list[str]]:
    """Return the flags of a text, a list of texts, or an object (its names with true); and the reasons for flags left out."""
    if not isinstance(value, dict):
        return _read_names("flags", value, FLAGS_MAX)
    flags, reasons = _read_names("flags", [name for name, is_set in value.items() if is_set is True], FLAGS_MAX)
    unclear = [(name, is_set) for name, is_set in value.items() if not isinstance(is_set, bool | None)]
    return flags, reasons + [
        f"flags[{shown(name)}]: {shown(is_set)} is neither true nor false" for name, is_set in unclear
    ]


def _read_names(field: str, value: object, most: int) -> tuple[tuple[str, ...], list[str]]:
    """Return the different texts of a list or of a single text, and the reasons for the values left out."""
    reasons: list[str] = []
    names: dict[str, None] = {}
    for place, item in items_of(field, value, reasons):
        if not isinstance(item, str):
            reasons.append(f"{place}: {shown(item)} is no text: give it in quotation marks")
        elif plain := clean(item, 200):
            names[plain] = None
    if len(names) > most:
        reasons.append(f"{field}: an article takes {most}; the last {len(names) - most:,} were left out")
    return tuple(names)[:most], reasons


def _removal_fields(removal: Removal, site: Site) -> dict[str, Any]:
    """Return the id and the URL of a removal. Beside an id the URL is only a hint, and a bad one is left out. Raises BadArticle."""
    try:
        url = on_site(canonical(removal.url), site.host) if removal.url else None
    except ValueError as error:
        if not removal.id:
            raise BadArticle(str(error), "url") from None
        url = None
    if not removal.id and not url:
        raise BadArticle("is missing; give the article's id in the CMS, or its url where no id is known", "id")
    if url and host_of(url) != site.host:
        if not removal.id:
            raise BadArticle(f"its host is {host_of(url)}, not {site.host}: post the removal to its own site", "url")
        url = None
    return {"id": removal.id or "", "url": url}


def _urls(publication: Publication, site: Site) -> dict[str, Any]:
    """Return the URLs of a publication. If `url` and `canonical_url` differ only by the last slash, the canonical one is listed."""
    try:
        url = on_site(publication.url, site.host)
    except ValueError as error:
        raise BadArticle(str(error), "url") from None
    urls: dict[str, Any] = {"url": url}
    previous = []
    if publication.canonical_url and publication.canonical_url.strip():
        try:
            canonical_url = on_site(canonical(urljoin(url, publication.canonical_url.strip())), site.host)
        except ValueError as error:
            raise BadArticle(str(error), "canonical_url") from None
        urls["canonical_url"] = canonical_url
        if identity(canonical_url) != identity(url) and _without_slash(canonical_url) == _without_slash(url):
            previous, urls["url"] = [url], canonical_url
    for text in publication.previous_urls[:PREVIOUS_URLS_MAX]:
        with suppress(ValueError):  # only a hint: the article's id also leads to its earlier URL
            previous.append(on_site(canonical(urljoin(url, text.strip())), site.host))
    urls["previous_urls"] = tuple(dict.fromkeys(text for text in previous if text != urls["url"]))
    return urls


def _without_slash(url: str) -> str:
    parts = urlsplit(identity(url))
    return urlunsplit(parts._replace(path=parts.path.rstrip("/")))
