"""The JSON document of a site: its check, the parameters that hold it, and its JSON Schema."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoppress.model.site import BadConfiguration, Outputs, Shards, Site, read_site

Document = dict[str, Any]

# Parameter Store: the largest value of a parameter, in the advanced tier.
PARAMETER_BYTES_MAX = 8_192
# The last part of the name of a site's own parameter. Parameters with further feeds have `feeds-1`, `feeds-2`, …
OWN = ""
# A version that no parameter reaches: the size of a configuration includes the digits of its versions (`check_size`).
_VERSION_MAX = 1_000_000
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A document that the functions can read, and the values of its parameters by the last part of their names."""

    site: Site
    values: Mapping[str, str]


def read(text: str) -> SiteFile:
    """Read a site's document as the functions do. Raises BadConfiguration, with a line for each error."""
    site = read_site(text, 0)
    values = _values(json.loads(text))
    if len(values) > 1:
        from stoppress.aws.sites import check_size  # most sites have one parameter, and need no boto3

        check_size(site, " ".join(f"{name}:{_VERSION_MAX}" for name in values))
    return SiteFile(site, values)


def joined(values: Mapping[str, str]) -> Document:
    """The document that a site's parameters hold, with all its feeds. Raises BadConfiguration where a value is not JSON."""
    try:
        document, *lists = (json.loads(values[name]) for name in sorted(values, key=_number))
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"the value is not JSON: {error}") from None
    if not isinstance(document, dict) or not all(isinstance(feeds, list) for feeds in lists):
        raise BadConfiguration(
            "the site's parameter is not a JSON object, or one of its lists of feeds is not a JSON list"
        )
    if not lists:
        return document
    return {**document, "feeds": [*(document.get("feeds") or []), *(feed for feeds in lists for feed in feeds)]}


def schema() -> Document:
    """The JSON Schema of a site's document. It cannot express every rule: `read` knows them all."""
    for part in (Shards, Outputs):  # pydantic builds these schemas late, and Site has defaults of these types
        part.model_rebuild()
    made = Site.model_json_schema()
    for key in ("feeds", "pages"):
        made["properties"][key]["items"] = {"anyOf": [{"type": "string"}, made["properties"][key]["items"]]}
    return {"$schema": SCHEMA_DIALECT, **made, "title": "The configuration of a site of Stoppress"}


def _number(name: str) -> int:
    return int(name.removeprefix("feeds-") or 0)


def _values(document: Document) -> dict[str, str]:
    """What the parameters hold: the document, without the feeds that do not fit, and lists of these feeds."""
    bare = len(_text({**document, "feeds": []}).encode())
    if bare > PARAMETER_BYTES_MAX:
        raise BadConfiguration(
            f"the document has {bare:,} bytes without its feeds, and a parameter holds {PARAMETER_BYTES_MAX:,}:"
            " shorten `pages` or `robots`"
        )
    if len((text := _text(document)).encode()) <= PARAMETER_BYTES_MAX:
        return {OWN: text}
    feeds = document["feeds"]
    count = _fitting(feeds, PARAMETER_BYTES_MAX - bare)
    values = {OWN: _text({**document, "feeds": feeds[:count]})}
    while feeds := feeds[count:]:
        count = _fitting(feeds, PARAMETER_BYTES_MAX - len("[]"))
        if not count:
            raise BadConfiguration(f"feeds: {str(feeds[0])[:80]} … does not fit into a parameter: shorten it")
        values[f"feeds-{len(values)}"] = _text(feeds[:count])
    return values


def _fitting(feeds: Sequence[Any], bytes_max: int) -> int:
    """How many of the feeds, from the first, fit into so many bytes."""
    for count, feed in enumerate(feeds):
        bytes_max -= len(_text(feed).encode()) + len(",")
        if bytes_max < 0:
            return count
    return len(feeds)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
