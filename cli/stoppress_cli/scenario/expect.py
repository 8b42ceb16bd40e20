"""Compares an expectation with the stack: a sentence for every difference."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any, cast

from boto3.dynamodb.types import TypeDeserializer

from stoppress.aws.codec import from_item
from stoppress.aws.items import article_key, quarantine_pk, read_article
from stoppress.feeds.schedule import FeedState
from stoppress.feeds.subscription import Subscription
from stoppress.poll.items import feed_key, subscription_key
from stoppress.primitives.instants import exact
from stoppress_cli.local.gateway import Answer
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario import sitemaps
from stoppress_cli.scenario.file import Expectation

_SHOWN_MAX = 20  # of a long list of URLs
_deserialize = TypeDeserializer().deserialize


def differences(wanted: Expectation, site: str | None, stack: Stack, answer: Answer | None) -> list[str]:
    """A sentence for each part of the expectation that does not hold.

    `site` is the host that the expectation is about, `answer` the answer to the last request.
    """
    lines: list[str] = []
    if wanted.status is not None:
        lines += _value("status", wanted.status, answer.status if answer else None)
    if wanted.reply is not None:
        lines += _subset("reply", wanted.reply, _json(answer))
    of_site = wanted.model_dump(exclude_none=True).keys() - {"status", "reply", "asked", "subscribed"}
    if not of_site:
        return lines
    if site is None:
        return [*lines, "there is not one site but several or none: say which with `site`"]
    try:
        lines += _of_files(wanted, stack, site)
    except ValueError as error:
        return [*lines, str(error)]
    if wanted.quarantined is not None:
        lines += _quarantined(wanted.quarantined, quarantine(stack, site))
    stored: tuple[tuple[str, Mapping[str, Any], Callable[[Stack, str, str], Mapping[str, Any] | None]], ...] = (
        ("articles", wanted.articles or {}, article),
        ("feeds", wanted.feeds or {}, feed),
        ("subscriptions", wanted.subscriptions or {}, subscription),
    )
    for name, items, read in stored:
        for key, attributes in items.items():
            lines += _item(f"{name}: {key}", attributes, read(stack, site, key))
    return lines


def _of_files(wanted: Expectation, stack: Stack, site: str) -> list[str]:
    """The differences in the site's files. Raises ValueError for a file that is not XML."""
    parts = {name: value for name in _COMPARISONS if (value := getattr(wanted, name)) is not None}
    if not parts:
        return []
    listed = sitemaps.listed(list(sitemaps.read(stack, site)))
    return [line for name, value in parts.items() for line in _COMPARISONS[name](name, value, getattr(listed, name))]


def _item(name: str, wanted: Mapping[str, Any] | None, actual: Mapping[str, Any] | None) -> list[str]:
    if wanted is None:
        return [f"{name} is there, expected none"] if actual else []
    if actual:  # null expects no value: the table stores neither null nor an empty list
        wanted = {key: value for key, value in wanted.items() if value is not None or actual.get(key)}
    return _subset(name, wanted, actual)


def requests(wanted: Expectation, number_of: Callable[[str], int]) -> list[str]:
    """The differences in the numbers of requests; `number_of` returns the number for a URL."""
    numbers = (wanted.asked or {}).items()
    return [line for url, number in numbers for line in _value(f"asked: {url}", number, number_of(url))]


def subscribed(wanted: Expectation, topics_of: Callable[[str], list[str]]) -> list[str]:
    """The differences in the subscriptions; `topics_of` returns the topics that a hub has verified."""
    hubs = (wanted.subscribed or {}).items()
    return [line for hub, topics in hubs for line in _list(f"subscribed: {hub}", topics, topics_of(hub))]


def feed(stack: Stack, site: str, url: str) -> dict[str, Any] | None:
    """The stored state of a feed, without its subscription."""
    item = _stored(stack, *feed_key(site, url))
    return None if item is None else _attributes(from_item(FeedState, item))


def subscription(stack: Stack, site: str, url: str) -> dict[str, Any] | None:
    """The stored subscription of a feed."""
    item = _stored(stack, *subscription_key(site, url))
    return None if item is None else _attributes(from_item(Subscription, item))


def _stored(stack: Stack, pk: str, sk: str) -> dict[str, Any] | None:
    answer = stack.client("dynamodb").get_item(
        TableName=stack.only("AWS::DynamoDB::Table").ref,
        Key={"pk": {"S": pk}, "sk": {"S": sk}},
        ConsistentRead=True,
    )
    return _plain_item(answer["Item"]) if "Item" in answer else None


def article(stack: Stack, site: str, key: str) -> dict[str, Any] | None:
    """The stored article `<source>/<id>` of a site, with the attributes of its order beside its own."""
    source, _, article_id = key.partition("/")
    item = _stored(stack, *article_key(site, f"{source}#{article_id}"))
    if item is None:
        return None
    attributes = _attributes(read_article(item))
    return {**attributes["order"], **attributes}


def _attributes(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON has them, so that an expectation does not depend on how the table stores them."""
    return cast(dict[str, Any], json.loads(json.dumps(asdict(value), default=exact)))


def quarantine(stack: Stack, site: str) -> list[str]:
    """The reasons of a site's quarantined events, oldest first."""
    pages = stack.client("dynamodb").get_paginator("query").paginate(
        TableName=stack.only("AWS::DynamoDB::Table").ref,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": quarantine_pk(site)}},
        ConsistentRead=True,
    )  # fmt: skip
    return [str(_plain_item(item).get("reason", "")) for page in pages for item in page["Items"]]


def _list(name: str, wanted: Sequence[str], actual: Sequence[str]) -> list[str]:
    """Compares lists as sets. A value that the files list twice is a difference too."""
    missing, unexpected = sorted(set(wanted) - set(actual)), sorted(set(actual) - set(wanted))
    twice = sorted(value for value, count in Counter(actual).items() if count > 1)
    shown = (("missing", missing), ("unexpected", unexpected), ("listed more than once", twice))
    return [f"{name}: {what}: {_shown(values)}" for what, values in shown if values]


def _value(name: str, wanted: Any, actual: Any) -> list[str]:
    return [] if wanted == actual else [f"{name}: expected {_text(wanted)}, found {_text(actual)}"]


def _map(name: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    return [line for key in wanted for line in _value(f"{name}: {key}", wanted[key], actual.get(key))]


def _whole_map(name: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    keys = [*wanted, *(key for key in actual if key not in wanted)]
    return [line for key in keys for line in _value(f"{name}: {key}", wanted.get(key), actual.get(key))]


_COMPARISONS: dict[str, Callable[[str, Any, Any], list[str]]] = {
    "news": _list, "urls": _list, "files": _list, "index": _list,
    "titles": _map, "lastmod": _map, "news_files": _whole_map,
}  # fmt: skip


def _subset(name: str, wanted: Mapping[str, Any], actual: Any) -> list[str]:
    if not isinstance(actual, Mapping):
        return [f"{name}: expected {_text(dict(wanted))}, found {_text(actual)}"]
    lines = []
    for key, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(actual.get(key), Mapping):
            lines += _subset(f"{name}: {key}", value, actual[key])
        else:
            lines += _value(f"{name}: {key}", value, actual.get(key))
    return lines


def _quarantined(wanted: Sequence[str], reasons: Sequence[str]) -> list[str]:
    """Each substring needs a reason of its own."""
    left = list(reasons)
    missing = []
    for part in sorted(wanted, key=len, reverse=True):  # the most specific first
        fitting = min((reason for reason in left if part in reason), key=len, default=None)
        if fitting is None:
            missing.append(part)
        else:
            left.remove(fitting)
    lines = [f"quarantined: no reason with {_text(part)}" for part in missing]
    return lines + [f"quarantined: unexpected: {_text(reason)}" for reason in left]


def _json(answer: Answer | None) -> Any:
    try:
        return json.loads(answer.body) if answer is not None else None
    except ValueError:
        return answer.body.decode("utf-8", "replace") if answer is not None else None


def _shown(values: Sequence[str]) -> str:
    more = f" and {len(values) - _SHOWN_MAX} more" if len(values) > _SHOWN_MAX else ""
    return ", ".join(values[:_SHOWN_MAX]) + more


def _text(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _plain_item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(_deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | set):
        return [_plain(part) for part in value]
    return value
