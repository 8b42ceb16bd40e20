"""Every recorded delivery has its expected verdicts: our own, and other people's if they are beside the repository."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from stoppress.cms.engine import read_delivery
from stoppress.cms.mapping import load
from stoppress.model.adapters import names
from stoppress.model.event import ArticleEvent, Incomplete, from_message, to_message
from stoppress.model.exclusion_reasons import FOREIGN_HOST, excluded_because
from stoppress.model.http_request import BadDelivery, Request
from stoppress.model.site import Site
from stoppress.primitives.urls import host_of
from stoppress.receive.queueing import Taker, take_delivery
from tests.support.adjacent_paths import needs_shared
from tests.support.recorded import OF_OTHERS, OWN, Case, cases, differences, now_of, verdicts

OURS = cases(OWN)


def outcome(case: Case) -> list[str]:
    recorded = case.recorded
    shown = [verdict.shown(now_of(recorded)) for verdict in verdicts(case.document["mapping"], recorded)]
    assert json.loads(json.dumps(shown)) == shown, "what is shown is JSON"
    return differences(shown, recorded.expected)


@pytest.mark.parametrize("case", OURS, ids=lambda case: case.name)
def test_our_own_delivery_comes_out_as_expected(case: Case) -> None:
    assert outcome(case) == []


@needs_shared
@pytest.mark.parametrize("case", cases(OF_OTHERS), ids=lambda case: case.name)
def test_a_recorded_delivery_comes_out_as_expected(case: Case) -> None:
    assert outcome(case) == []


def test_there_is_a_delivery_of_our_own_for_every_adapter() -> None:
    assert {case.document["mapping"] for case in OURS} == set(names())


# ── mutated values of a delivery ──

HUGE = "9" * 5_000
# Every value is replaced by some of these in turn, which often break careless code.
CURIOUS: list[Any] = [
    None, "\ud800", 7, [None], "//evil.example.net/x", HUGE, {"a": {"b": "c"}}, -1.5e300, True, "javascript:alert(1)", [[]], {},
]  # fmt: skip
TURNS = 4
# In a document with more places, every second, third … is replaced.
PATHS_MAX = 15


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return changed


def mutations(case: Case) -> Iterator[tuple[str, Request]]:
    received = case.recorded.received
    try:
        document = json.loads(received.body)
    except ValueError:
        document = None
    every_path = list(paths(document)) if document is not None else []
    for number, path in enumerate(every_path[:: 1 + len(every_path) // (PATHS_MAX + 1)]):
        for value in CURIOUS[number % TURNS :: TURNS]:
            body = json.dumps(replaced(document, path, value)).encode()
            yield f"{path} = {str(value)[:20]!r}", replace(received, body=body)
    for name in received.headers:
        for value in ("", "[", "\ud800", HUGE):
            yield f"{name}: {value[:20]!r}", replace(received, headers={**received.headers, name: value})


def site_of(case: Case) -> Site:
    recorded = case.recorded
    source = {"adapter": case.document["mapping"], "settings": recorded.settings, "secret": "cms"}
    return Site.model_validate({"host": "www.example.com", "publication": "Example News", "sources": {"cms": source}})


@pytest.mark.matrix
@pytest.mark.parametrize("case", cases(OWN), ids=lambda case: case.name)
def test_mutated_deliveries_break_nothing_and_add_no_url_of_another_host(case: Case) -> None:
    site, now = site_of(case), now_of(case.recorded)

    def nobody(host: str) -> Site:
        raise LookupError(host)

    seen = 0
    for what, received in mutations(case):
        seen += 1
        try:
            results = take_delivery(received, site, "cms", now, nobody)
        except BadDelivery:
            continue
        for taken in results:
            json.dumps(taken.answer)
            if isinstance(taken.message, ArticleEvent):
                event = taken.message
                assert event.site == site.host, what
                assert event.url is None or host_of(event.url) == site.host, what
                assert from_message(to_message(event)) == event, what
                assert event.received_at == now, what
                if event.action == "publish":
                    assert not excluded_because(event, site).startswith(FOREIGN_HOST), what
            elif isinstance(taken.message, Incomplete):
                assert json.loads(taken.message.message())["site"] == site.host, what
    assert seen > 10 or not isinstance(case.document["request"]["body"], dict)


BODIES = [
    b"",
    b"[",
    b"null",
    b"7",
    b"[]",
    b'"x"',
    b"\xff",
    b"a=b&c",
    b"[" * 50_000,
    b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
]


@pytest.mark.matrix
@pytest.mark.parametrize("adapter", names())
def test_no_body_breaks_an_adapter(adapter: str) -> None:
    source = {"adapter": adapter}
    site = Site.model_validate({"host": "www.example.com", "publication": "Example News", "sources": {"cms": source}})
    now = now_of(cases(OWN)[0].recorded)
    for body in BODIES:
        verdicts = []
        with suppress(BadDelivery):
            verdicts = read_delivery(load(adapter), Request(body=body), {}, site, now)
        assert {verdict.disposition for verdict in verdicts} <= {"ignore", "incomplete"}, body[:9]
        json.dumps([verdict.shown(now) for verdict in verdicts])
        for taken in map(Taker(site, "cms", now, lambda host: site, {}).take, verdicts):
            assert not isinstance(taken.message, ArticleEvent), body[:9]
            json.dumps(taken.answer)
