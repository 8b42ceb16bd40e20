"""Compares an expectation with the stack: a sentence for every difference."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stoppress.aws import table
from stoppress.aws.codec import from_item
from stoppress.aws.items import article_key, quarantine_pk, read_article
from stoppress.feeds.feed_schedule import FeedState
from stoppress.feeds.subscription import Subscription
from stoppress.poll.feed_items import feed_key, subscription_key
from stoppress.primitives.instants import exact
from stoppress_cli.local.gateway import Answer
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario import listed_pages
from stoppress_cli.scenario.feeds_server import FeedServer
from stoppress_cli.scenario.file import Expectation
from stoppress_cli.scenario.listed_pages import Listed

_VALUES_MAX = 20  # of a long list of URLs
_OF_NO_SITE = {"status", "reply", "asked", "subscribed"}
_OF_FILES = {"news", "urls", "files", "index", "titles", "lastmod", "news_files"}


def differences(
    expected: Expectation, site: str | None, stack: Stack, feeds: FeedServer, answer: Answer | None
) -> list[str]:
    """Return a sentence for each part of the expectation that does not hold.

    `site` is the host that the expectation is about, `answer` the answer to the last request.
    """
    parts = {name: value for name, value in expected if name != "site" and value is not None}
    if site is None and parts.keys() - _OF_NO_SITE:
        return ["there is not one site but several or none: set `site`"]
    listed = Listed()
    if parts.keys() & _OF_FILES:
        try:
            listed = listed_pages.listed(list(listed_pages.read(stack, site)))
        except ValueError as error:
            return [str(error)]
    with stack.as_operator():
        compared = (_compare_part(name, value, str(site), listed, feeds, answer) for name, value in parts.items())
        return [line for lines in compared for line in lines]


def _compare_part(
    name: str, expected: Any, site: str, listed: Listed, feeds: FeedServer, answer: Answer | None
) -> list[str]:
    match name:
        case "news" | "urls" | "files" | "index":
            return _compare_sets(name, expected, getattr(listed, name))
        case "news_files":  # all of them are compared
            return _compare_sets(name, [*expected], [*listed.news_files]) or _compare(name, expected, listed.news_files)
        case "status":
            return _compare(name, expected, answer.status if answer else None)
        case "reply":
            return _compare(name, expected, _json(answer))
        case "asked":
            return _compare(name, expected, {url: feeds.requests_for(url) for url in expected})
        case "subscribed":
            topics = ((hub, listed, feeds.hubs.subscribed(hub)) for hub, listed in expected.items())
            return [line for hub, *both in topics for line in _compare_sets(f"{name}: {hub}", *both)]
        case "quarantined":
            return _compare_reasons(expected, [str(row.get("reason", "")) for row in table.query(quarantine_pk(site))])
        case "articles" | "feeds" | "subscriptions":
            return [line for key, value in expected.items() for line in _compare_stored(name, key, value, site)]
    return _compare(name, expected, getattr(listed, name))


def _read_stored(name: str, site: str, key: str) -> dict[str, Any] | None:
    """Return the stored attributes of an article, `<source>/<id>`; or of a feed's state or subscription."""
    match name:
        case "articles":
            source, _, article_id = key.partition("/")
            item = table.get(*article_key(site, f"{source}#{article_id}"))
            attributes = item and _attributes(read_article(item))
            # The attributes of its order beside its own.
            return attributes and {**attributes["order"], **attributes}
        case "feeds":
            item = table.get(*feed_key(site, key))
            return item and _attributes(from_item(FeedState, item))
    item = table.get(*subscription_key(site, key))
    return item and _attributes(from_item(Subscription, item))


def _attributes(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass in their JSON form, so that an expectation does not depend on how the table stores them."""
    attributes: dict[str, Any] = json.loads(json.dumps(asdict(value), default=exact))
    return attributes


def _compare(name: str, expected: Any, actual: Any) -> list[str]:
    """Compare the keys of `expected`."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return [line for key in expected for line in _compare(f"{name}: {key}", expected[key], actual.get(key))]
    return [] if expected == actual else [f"{name}: expected {_text(expected)}, found {_text(actual)}"]


def _compare_stored(name: str, key: str, expected: Mapping[str, Any] | None, site: str) -> list[str]:
    """Compare attributes of an item. Null expects no value: the table stores neither null nor an empty list."""
    actual = _read_stored(name, site, key)
    if expected is not None and actual is not None:
        expected = {field: value for field, value in expected.items() if value is not None or actual.get(field)}
    return _compare(f"{name}: {key}", expected, actual)


def _compare_sets(name: str, expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    """Compare lists as sets. A value that the files list twice is a difference too."""
    missing, unexpected = sorted(set(expected) - set(actual)), sorted(set(actual) - set(expected))
    twice = sorted(value for value, count in Counter(actual).items() if count > 1)
    shown = (("missing", missing), ("unexpected", unexpected), ("listed more than once", twice))
    return [f"{name}: {what}: {_join(values)}" for what, values in shown if values]


def _compare_reasons(expected: Sequence[str], reasons: Sequence[str]) -> list[str]:
    """Compare substrings with reasons. Each substring needs its own reason."""
    remaining = list(reasons)
    missing = []
    for part in sorted(expected, key=len, reverse=True):  # the most specific first
        matching = min((reason for reason in remaining if part in reason), key=len, default=None)
        if matching is None:
            missing.append(part)
        else:
            remaining.remove(matching)
    lines = [f"quarantined: no reason with {_text(part)}" for part in missing]
    return lines + [f"quarantined: unexpected: {_text(reason)}" for reason in remaining]


def _json(answer: Answer | None) -> Any:
    try:
        return json.loads(answer.body) if answer is not None else None
    except ValueError:
        return answer.body.decode("utf-8", "replace") if answer is not None else None


def _join(values: Sequence[str]) -> str:
    more = f" and {len(values) - _VALUES_MAX} more" if len(values) > _VALUES_MAX else ""
    return ", ".join(values[:_VALUES_MAX]) + more


def _text(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
