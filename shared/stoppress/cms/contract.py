"""Our own contract: what a newsroom posts or puts on the bus, read into an article event.

Events of type `page.*` tell the same of pages that are no articles, and need no title.

    {"type": "article.published", "timestamp": "2026-11-20T08:00:00Z", "data": {"id": "1042", "url": …, "title": …}}

Publishing needs id, url and title. A removal needs the id, or the URL where the sender knows no id.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias, get_args
from urllib.parse import urljoin, urlsplit, urlunsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from stoppress.model.alternates import read_alternates
from stoppress.model.event import ID_BYTES_MAX, PREVIOUS_URLS_MAX, ArticleEvent, Verb
from stoppress.model.media import items_of, read_images, read_videos
from stoppress.model.media_values import shown
from stoppress.model.site import ChangeFreq, Site, explain, priority_text
from stoppress.primitives.instants import parse
from stoppress.primitives.languages import language_code
from stoppress.primitives.text import clean, publication_name
from stoppress.primitives.urls import canonical, host_of, identity, on_site
from stoppress.sitemaps.tags import fit

PUBLISHES = ("article.published", "article.updated", "page.published", "page.updated")
REMOVES = ("article.unpublished", "article.deleted", "page.unpublished", "page.deleted")
TYPES = PUBLISHES + REMOVES
PAGE = "page."
_VERBS: dict[str, Verb] = {verb: verb for verb in get_args(Verb)}

KEYWORDS_MAX = 100
FLAGS_MAX = 100
# What images, videos and alternates take of one page's item; a message of a queue holds 1 MiB, a table's item 400 KB.
MEDIA_BYTES_MAX = 100_000
# Enough to see a misspelt name; an answer is not the place for a whole document.
UNKNOWN_FIELDS_SHOWN = 20
DROPPED_SHOWN = 20
# Larger than any revision counter, smaller than what DynamoDB's numbers lose digits at.
VERSION_MAX = 2**63 - 1


class BadArticle(ValueError):
    """An event that cannot be applied; the text names each field that is wrong and what to do, a line each."""


class UnknownType(ValueError):
    """An event that says nothing of an article."""


# difflib's measure: a word with two of its seven letters exchanged is alike, `image` and `page` are not.
_ALIKE = 0.75
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def _meant_type(kind: str) -> str | None:
    """The type of the contract that a misspelt one means: `article.published` for `Article.publish`; None for others'."""
    from difflib import get_close_matches  # for misspelt types alone

    for noun, verb in pairwise(word.lower() for word in _WORD.findall(kind[:200])):
        things = get_close_matches(noun, ["article", "page"], n=1, cutoff=_ALIKE)
        # `depublished` is like `published` and means the opposite.
        verbs = [known for known in ("published", "updated", "unpublished", "deleted") if known[0] == verb[0]]
        if things and (likely := get_close_matches(verb, verbs, n=1, cutoff=_ALIKE)):
            return f"{things[0]}.{likely[0]}"
    return None


def unknown_type(kind: str) -> BadArticle | UnknownType:
    """Why a type that is none of the contract's is refused, where it is misspelt, or ignored."""
    if meant := _meant_type(kind):
        return BadArticle(f"type: {kind[:100]!r} is not known: did you mean {meant}?")
    return UnknownType(f"{kind[:100]!r} is not one of {', '.join(TYPES)}")


def _id(value: object) -> object:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str):
        text = text.strip()
        if not text:
            raise ValueError("is empty: give the article's id in the CMS")
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            raise ValueError("has half a character in it (a lone surrogate)") from None
        if size_bytes > ID_BYTES_MAX:
            raise ValueError(f"is longer than {ID_BYTES_MAX} bytes")
    return text


def _instant(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("give an ISO 8601 text such as 2026-11-20T08:00:00Z")
    return parse(value)


def _version(value: object) -> object:
    if value is None:
        return None
    if isinstance(value, str) and not value.isascii():
        raise ValueError("give an instant such as 2026-11-20T08:00:00Z, or a whole number")
    if isinstance(value, int | str) and not isinstance(value, bool):
        if isinstance(value, str) and not value.isdigit():
            return parse(value)
        if len(str(value)) <= len(str(VERSION_MAX)) and 0 <= int(value) <= VERSION_MAX:
            return int(value)
    raise ValueError(f"give an instant such as 2026-11-20T08:00:00Z, or a whole number from 0 to {VERSION_MAX}")


def _title(value: object) -> object:
    if not isinstance(value, str):
        return value
    plain = clean(value)
    if not plain:
        raise ValueError("is empty: give the headline as readers see it")
    return plain


def _plain_or_none(value: object) -> object:
    return (clean(value) or None) if isinstance(value, str) else value


def _plain_or_empty(value: object) -> object:
    return clean(value) if isinstance(value, str) else value or ""


def _publication(value: object) -> object:
    return (publication_name(value) or None) if isinstance(value, str) else value


def _language(value: object) -> object:
    if not isinstance(value, str):
        return value or None
    if not value.strip():
        return None
    code = language_code(value)
    if code is None:
        raise ValueError(f"{value[:40]!r} is no language code: give one such as en, fr or zh-tw")
    return code


def _keywords(value: object) -> object:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return () if words is None else words
    return tuple(dict.fromkeys(plain for word in words[:KEYWORDS_MAX] if (plain := clean(word, 200))))


def _flags(value: object) -> tuple[tuple[str, ...], list[str]]:
    """A list of texts or a single one, an object gives the names that are true in it; and what was left out."""
    if not isinstance(value, dict):
        return _names("flags", value, FLAGS_MAX)
    flags, reasons = _names("flags", [name for name, there in value.items() if there is True], FLAGS_MAX)
    unclear = {name: there for name, there in value.items() if there is not None and not isinstance(there, bool)}
    return flags, reasons + [
        f"flags[{shown(name)}]: {shown(there)} is neither true nor false" for name, there in unclear.items()
    ]


def _type(value: object) -> tuple[str | None, list[str]]:
    """The first text, and what was left out."""
    texts, reasons = _names("type", value, 1)
    return next(iter(texts), None), reasons


def _names(field: str, value: object, most: int) -> tuple[tuple[str, ...], list[str]]:
    """The texts of a list or a single one, each once, and what was left out."""
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


def _hint(value: object) -> object:
    """A changefreq; what is none is no reason to refuse an article, since search engines ignore it."""
    text = value.strip().lower() if isinstance(value, str) else None
    return text if text in get_args(ChangeFreq) else None


def _priority(value: object) -> object:
    try:
        return priority_text(value)
    except ValueError:
        return None


def _texts(value: object) -> object:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else value or ()


_Instant: TypeAlias = Annotated[datetime | None, BeforeValidator(_instant)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="allow", defer_build=True)  # of three models an event needs one


class _Removal(_Said):
    id: Annotated[str | None, BeforeValidator(_id)] = None
    url: str | None = None
    version: Annotated[int | datetime | None, BeforeValidator(_version)] = None
    sequence: Annotated[int | None, Field(ge=0, le=VERSION_MAX)] = None
    updated_at: _Instant = None


class _Publication(_Removal):
    id: Annotated[str, BeforeValidator(_id)]
    url: Annotated[str, AfterValidator(canonical)]
    title: Annotated[str, BeforeValidator(_title)]
    published_at: _Instant = None
    language: Annotated[str | None, BeforeValidator(_language)] = None
    publication: Annotated[str | None, BeforeValidator(_publication)] = None
    section: Annotated[str | None, BeforeValidator(_plain_or_none)] = None
    keywords: Annotated[tuple[str, ...], BeforeValidator(_keywords)] = ()
    access: Literal["public", "registration", "subscription", "protected"] | None = "public"
    noindex: bool | None = False
    news: bool | None = True
    canonical_url: str | None = None
    previous_urls: Annotated[tuple[str, ...], BeforeValidator(_texts)] = ()
    changefreq: Annotated[ChangeFreq | None, BeforeValidator(_hint)] = None
    priority: Annotated[str | None, BeforeValidator(_priority)] = None
    # A broken image keeps no article out: what is wrong in these is dropped, each with its reason.
    type: Any = None
    flags: Any = None
    images: Any = None
    videos: Any = None
    alternates: Any = None


# What a reader of its own takes out of a publication, and drops what it cannot use.
_DROPPED_FROM = ("type", "flags", "images", "videos", "alternates")


class _PagePublication(_Publication):
    title: Annotated[str, BeforeValidator(_plain_or_empty)] = ""


class _Alone(_Publication):
    """A publication of which nothing is needed, so that one field can be read by itself."""

    id: Annotated[str, BeforeValidator(_id)] = ""
    url: Annotated[str, AfterValidator(canonical)] = ""
    title: Annotated[str, BeforeValidator(_title)] = ""


def read_field(name: str, value: object) -> object:
    """One field of an article as it would be kept; what has a reader of its own as it is. Raises ValueError."""
    try:
        return getattr(_Alone.model_validate({name: value}), name)
    except ValidationError as error:
        raise ValueError(explain(error).partition(": ")[2]) from None


def read_delivery(
    document: object, site: Site, source: str, now: datetime, *, delivery: str | None = None
) -> tuple[ArticleEvent, list[str]]:
    """A webhook's JSON as an article event, and the names of fields that the contract does not know. `now`: it was heard.

    Raises BadArticle, and UnknownType for an event of another kind.
    """
    if not isinstance(document, dict):
        raise BadArticle('the body is not a JSON object: {"type": "article.published", "data": {…}}')
    kind = document.get("type")
    if not isinstance(kind, str):
        raise BadArticle(f"type: is missing; give one of {', '.join(TYPES)}")
    if kind not in TYPES:
        raise unknown_type(kind)
    try:
        timestamp = _instant(document.get("timestamp"))
    except ValueError as error:
        raise BadArticle(f"timestamp: {error}") from None
    event, unknown = read_article(kind, document.get("data"), site, source, timestamp, now)
    return replace(event, delivery=delivery), unknown


def read_bus_event(envelope: Mapping[str, Any], site: Site, now: datetime) -> tuple[ArticleEvent, list[str]]:
    """An event of the bus as an article event: `detail-type` is the type, `detail` is `data` plus `site`.

    Raises BadArticle and UnknownType.
    """
    source = envelope.get("source")
    if not isinstance(source, str) or source not in site.sources:
        known = ", ".join(site.sources) or "none"
        raise BadArticle(f"source: {source!r} is not among the sources of {site.host} ({known}); add it there")
    document = {"type": envelope.get("detail-type"), "timestamp": envelope.get("time"), "data": envelope.get("detail")}
    event, unknown = read_delivery(document, site, source, now, delivery=delivery_id({}, envelope))
    return event, [name for name in unknown if name != "site"]


# Headers that carry a delivery's id, which is the same in every attempt: Standard Webhooks, CloudEvents, Contentful, Sanity.
DELIVERY_HEADERS = ("webhook-id", "ce-id", "x-contentful-idempotency-key", "idempotency-key")


def delivery_id(headers: Mapping[str, str], envelope: Mapping[str, Any] | None = None) -> str | None:
    """The sender's id of a delivery, from its headers (names in small letters), or the `id` of a bus event's envelope."""
    ids = [headers.get(name) for name in DELIVERY_HEADERS] + [(envelope or {}).get("id")]
    return next((text for text in ids if isinstance(text, str) and text), None)


def read_article(
    kind: str, data: object, site: Site, source: str, timestamp: datetime | None, now: datetime
) -> tuple[ArticleEvent, list[str]]:
    """`data` of a type that is known as an article event, and the names of its unknown fields. Raises BadArticle."""
    if not isinstance(data, dict):
        raise BadArticle('data: give the object that holds the article: {"id": …, "url": …, "title": …}')
    try:
        said = _model(kind).model_validate(data)
    except ValidationError as error:
        raise BadArticle(explain(error)) from None
    values = said.model_dump(exclude={*_DROPPED_FROM, *(said.model_extra or {})}, exclude_none=True)
    verb = _VERBS[kind.partition(".")[2]]
    values |= {"timestamp": timestamp, "heard_at": now, "verb": verb}
    if verb == "updated" and timestamp:
        values.setdefault("updated_at", timestamp)  # what was updated has changed, and this is when
    action: Literal["publish", "remove"] = "remove"
    if isinstance(said, _Publication):
        action = "publish"
        values |= _urls(said, site)
        values |= _usable(said, values["url"])
        values["page"] = kind.startswith(PAGE)
    else:
        values |= _removed(said, site)
    unknown = sorted(said.model_extra or {}) if action == "publish" else []
    named = [clean(name, 80) for name in unknown[:UNKNOWN_FIELDS_SHOWN]]
    return ArticleEvent(site=site.host, source=source, action=action, **values), named


def _model(kind: str) -> type[_Removal]:
    if kind in REMOVES:
        return _Removal
    return _PagePublication if kind.startswith(PAGE) else _Publication


def _usable(said: _Publication, url: str) -> dict[str, Any]:
    """Type, flags, images, videos and alternates, as many as fit, and what was dropped of them."""
    type_, bad_types = _type(said.type)
    flags, bad_flags = _flags(said.flags)
    images, bad_images = read_images(said.images, url)
    videos, bad_videos = read_videos(said.videos, url, url)
    alternates, bad_alternates = read_alternates(said.alternates, url)
    images, videos, alternates, too_much = fit(images, videos, alternates, MEDIA_BYTES_MAX)
    dropped = [
        clean(reason) for reason in (*bad_images, *bad_videos, *bad_alternates, *too_much, *bad_types, *bad_flags)
    ]
    told = dropped[:DROPPED_SHOWN] + (
        [f"and {len(dropped) - DROPPED_SHOWN} more"] if len(dropped) > DROPPED_SHOWN else []
    )
    return {
        "type": type_,
        "flags": flags,
        "images": images,
        "videos": videos,
        "alternates": alternates,
        "dropped": tuple(told),
    }


def _removed(removal: _Removal, site: Site) -> dict[str, Any]:
    """The id and the URL of a removal. A URL beside an id is a hint: one that cannot be read is left out. Raises BadArticle."""
    try:
        url = on_site(canonical(removal.url), site.host) if removal.url else None
    except ValueError as error:
        if not removal.id:
            raise BadArticle(f"url: {error}") from None
        url = None
    if not removal.id and not url:
        raise BadArticle("id: is missing; give the article's id in the CMS, or its url where no id is known")
    if url and host_of(url) != site.host:
        if not removal.id:
            raise BadArticle(f"url: its host is {host_of(url)}, not {site.host}: post the removal to its own site")
        url = None
    return {"id": removal.id or "", "url": url}


def _urls(said: _Publication, site: Site) -> dict[str, Any]:
    """The URLs of a publication. A canonical URL that differs by its last slash alone is the page's own: it is listed."""
    try:
        url = on_site(said.url, site.host)
    except ValueError as error:
        raise BadArticle(f"url: {error}") from None
    urls: dict[str, Any] = {"url": url}
    previous = []
    if said.canonical_url and said.canonical_url.strip():
        try:
            canonical_url = on_site(canonical(urljoin(url, said.canonical_url.strip())), site.host)
        except ValueError as error:
            raise BadArticle(f"canonical_url: {error}") from None
        urls["canonical_url"] = canonical_url
        if identity(canonical_url) != identity(url) and _without_slash(canonical_url) == _without_slash(url):
            previous, urls["url"] = [url], canonical_url
    for text in said.previous_urls[:PREVIOUS_URLS_MAX]:
        try:
            previous.append(on_site(canonical(urljoin(url, text.strip())), site.host))
        except ValueError:
            continue  # a hint, without which the removal by id still works
    urls["previous_urls"] = tuple(dict.fromkeys(text for text in previous if text != urls["url"]))
    return urls


def _without_slash(url: str) -> str:
    parts = urlsplit(identity(url))
    return urlunsplit(parts._replace(path=parts.path.rstrip("/")))
