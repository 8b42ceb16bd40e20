"""Compares an expectation with the stack: a sentence for every difference."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
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

_SHOWN_MAX = 20  # of a long list of URLs
_OF_NO_SITE = {"status", "reply", "asked", "subscribed"}
_OF_FILES = {"news", "urls", "files", "index", "titles", "lastmod", "news_files"}


def differences(
    wanted: Expectation, site: str | None, stack: Stack, feeds: FeedServer, answer: Answer | None
) -> list[str]:
    """Return a sentence for each part of the expectation that does not hold.

    `site` is the host that the expectation is about, `answer` the answer to the last request.
    """
    parts = {name: value for name, value in wanted if name != "site" and value is not None}
    lines: list[str] = []
    if site is None and parts.keys() - _OF_NO_SITE:
        lines.append("there is not one site but several or none: say which with `site`")
        parts = _choose(parts, _OF_NO_SITE)
    if of_files := _choose(parts, _OF_FILES):
        lines += _compare_listed(of_files, site, stack)
    for name, value in _choose(parts, parts.keys() - _OF_FILES).items():
        if name in _STORED:
            lines += _compare_stored(name, value, str(site), stack)
        else:
            lines += _compare_other(name, value, str(site), stack, feeds, answer)
    return lines


def _choose(parts: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if name in names}


def _compare_listed(parts: Mapping[str, Any], site: str | None, stack: Stack) -> list[str]:
    """Compare what the files list. Of the news sitemaps, all are compared."""
    try:
        listed = listed_pages.listed(list(listed_pages.read(stack, site)))
    except ValueError as error:
        return [str(error)]
    lines = []
    for name, wanted in parts.items():
        actual = getattr(listed, name)
        if isinstance(wanted, list):
            lines += _compare_sets(name, wanted, actual)
        else:
            names = _compare_sets(name, [*wanted], [*actual]) if name == "news_files" else []
            lines += names or _compare(name, wanted, actual)
    return lines


def _compare_other(
    name: str, value: Any, site: str, stack: Stack, feeds: FeedServer, answer: Answer | None
) -> list[str]:
    """Compare what is neither in the files nor a stored item."""
    match name:
        case "status":
            return _compare(name, value, answer.status if answer else None)
        case "reply":
            return _compare(name, value, _json(answer))
        case "asked":
            return _compare(name, value, {url: feeds.requests_for(url) for url in value})
        case "subscribed":
            topics = ((hub, listed, feeds.hubs.subscribed(hub)) for hub, listed in value.items())
            return [line for hub, *both in topics for line in _compare_sets(f"{name}: {hub}", *both)]
    with stack.as_operator():
        reasons = [str(item.get("reason", "")) for item in table.query(quarantine_pk(site))]
    return _compare_reasons(value, reasons)


def _article(site: str, key: str) -> dict[str, Any] | None:
    """Return the stored article `<source>/<id>` of a site, with the attributes of its order beside its own."""
    source, _, article_id = key.partition("/")
    item = table.get(*article_key(site, f"{source}#{article_id}"))
    if item is None:
        return None
    attributes = _attributes(read_article(item))
    return {**attributes["order"], **attributes}


def _read_item(kind: type[Any], key: Callable[[str, str], Any], site: str, url: str) -> dict[str, Any] | None:
    """Return what is stored of a feed: its state, or its subscription."""
    item = table.get(*key(site, url))
    return None if item is None else _attributes(from_item(kind, item))


def _attributes(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON has them, so that an expectation does not depend on how the table stores them."""
    attributes: dict[str, Any] = json.loads(json.dumps(asdict(value), default=exact))
    return attributes


_STORED: dict[str, Callable[[str, str], dict[str, Any] | None]] = {
    "articles": _article,
    "feeds": partial(_read_item, FeedState, feed_key),
    "subscriptions": partial(_read_item, Subscription, subscription_key),
}


def _compare(name: str, wanted: Any, actual: Any) -> list[str]:
    """Compare the keys that are given."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return [line for key in wanted for line in _compare(f"{name}: {key}", wanted[key], actual.get(key))]
    return [] if wanted == actual else [f"{name}: expected {_text(wanted)}, found {_text(actual)}"]


def _compare_stored(name: str, wanted: Mapping[str, Mapping[str, Any] | None], site: str, stack: Stack) -> list[str]:
    """Compare attributes of items. Null expects no value: the table stores neither null nor an empty list."""
    lines = []
    for key, attributes in wanted.items():
        with stack.as_operator():
            actual = _STORED[name](site, key)
        expected = attributes
        if attributes is not None and actual is not None:
            expected = {each: value for each, value in attributes.items() if value is not None or actual.get(each)}
        lines += _compare(f"{name}: {key}", expected, actual)
    return lines


def _compare_sets(name: str, wanted: Sequence[str], actual: Sequence[str]) -> list[str]:
    """Compare lists as sets. A value that the files list twice is a difference too."""
    missing, unexpected = sorted(set(wanted) - set(actual)), sorted(set(actual) - set(wanted))
    twice = sorted(value for value, count in Counter(actual).items() if count > 1)
    shown = (("missing", missing), ("unexpected", unexpected), ("listed more than once", twice))
    return [f"{name}: {what}: {_shown(values)}" for what, values in shown if values]


def _compare_reasons(wanted: Sequence[str], reasons: Sequence[str]) -> list[str]:
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
