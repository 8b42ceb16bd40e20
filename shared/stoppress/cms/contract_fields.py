"""The fields of the contract: how each is read, and which of them a publication and a removal need.

A reader returns the value as an event keeps it, and raises ValueError with what to change.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from stoppress.model.event import ID_BYTES_MAX
from stoppress.model.validation import ChangeFreq, explain_each, priority_text
from stoppress.primitives.instants import parse
from stoppress.primitives.text import clean, language_code, publication_name
from stoppress.primitives.urls import canonical

KEYWORDS_MAX = 100
# Larger than any revision counter, and within the 38 digits of DynamoDB's numbers.
VERSION_MAX = 2**63 - 1


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


def read_instant(value: object) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("give an ISO 8601 text such as 2026-11-20T08:00:00Z")
    return parse(value)


def _version(value: object) -> object:
    if value is None or isinstance(value, datetime):
        return value
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


def _hint(value: object) -> object:
    """Read a changefreq. A wrong one counts as none, because search engines ignore changefreq."""
    text = value.strip().lower() if isinstance(value, str) else None
    return text if text in get_args(ChangeFreq) else None


def _priority(value: object) -> object:
    try:
        return priority_text(value)
    except ValueError:
        return None


def _texts(value: object) -> object:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else value or ()


_Instant: TypeAlias = Annotated[datetime | None, BeforeValidator(read_instant)]


class Removal(BaseModel):
    # Built at first use: an event needs one of the four models.
    model_config = ConfigDict(extra="allow", defer_build=True)

    id: Annotated[str | None, BeforeValidator(_id)] = None
    url: str | None = None
    version: Annotated[int | datetime | None, BeforeValidator(_version)] = None
    sequence: Annotated[int | None, Field(ge=0, le=VERSION_MAX)] = None
    updated_at: _Instant = None


class Publication(Removal):
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
    # An article is not refused for a broken image: wrong values in these fields are dropped, each with its reason.
    type: Any = None
    flags: Any = None
    images: Any = None
    videos: Any = None
    alternates: Any = None


class PagePublication(Publication):
    title: Annotated[str, BeforeValidator(lambda title: _plain_or_none(title) or "")] = ""


_MINIMAL = {"id": "1", "url": "https://stoppress.invalid/", "title": "A title"}


def read_field(name: str, value: object) -> object:
    """Return the value of one field as an event keeps it. Fields of parts that may be dropped stay as given. Raises ValueError."""
    try:
        return getattr(Publication.model_validate({**_MINIMAL, name: value}), name)
    except ValidationError as error:
        raise ValueError("; ".join(dict.fromkeys(reason for _, _, reason in explain_each(error)))) from None
