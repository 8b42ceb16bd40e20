"""What a request adds to the log. It is limited: anyone can send a request, and CloudWatch bills each byte."""

from typing import Any

from stoppress.model.event import ArticleEvent
from stoppress.primitives.text import encodable

# A host name (at most 253 characters) is logged whole. A path of 8 KB and texts in a body of 1 MiB are cut.
CHARACTERS_MAX = 300
ITEMS_MAX = 20


def names_of(event: ArticleEvent) -> dict[str, str]:
    """`id` and `url` of an event, as far as it has them, to search the log for."""
    return {name: text for name, text in (("id", event.id), ("url", event.url)) if text}


def bounded(value: Any) -> Any:
    """Truncate a JSON value for the log: each text to CHARACTERS_MAX, each list and object to ITEMS_MAX.

    A lone surrogate becomes a question mark, because the whole log line would be lost with it.
    """
    match value:
        case str():
            return encodable(value[:CHARACTERS_MAX])
        case dict():
            return {bounded(name): bounded(item) for name, item in list(value.items())[:ITEMS_MAX]}
        case list() | tuple():
            return [bounded(item) for item in value[:ITEMS_MAX]]
    return value
