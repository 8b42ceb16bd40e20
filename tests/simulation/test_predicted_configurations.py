"""`stoppress sites put` shows what a configuration would change. For random pairs of configurations the prediction equals the files.

.venv/bin/pytest -q tests/simulation/test_predicted_configurations.py --pairs 300        more pairs than `make test` has
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest

from stoppress.http import client, errors
from stoppress.model import file_names
from stoppress.model.site import Site, read_site
from stoppress.rewrite.predict import predict
from stoppress.sitemaps import fold, render
from stoppress_cli.local.process import environment
from tests.simulation.configurations import Case, Document, case
from tests.simulation.stack import StackOnDoubles
from tests.support.playing import TEMPLATE

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
# In the middle of a minute: some stories have expired, and roll_window has not removed them yet.
CHANGED = START + timedelta(seconds=50)
# After this long all files have been rewritten twice by a configuration, and forms that it does not want are gone.
SETTLED = timedelta(minutes=9)
# All sites of a run share a stack, whose schedules look at each of them.
SITES_A_STACK = 15
Files = dict[str, bytes]


@contextmanager
def stack_of(cases: list[Case], *, settled: bool) -> Iterator[StackOnDoubles]:
    """A stack on which the sites with their first configurations have received their stories; at the instant of the change.

    Unless `settled`, the first configurations were put with the stories, and are applied once only.
    """
    with StackOnDoubles(TEMPLATE, start=START - SETTLED if settled else START) as stack:
        for made in cases:
            if made.before is not None:
                put(stack, made.before)
        stack.rest()
        if settled:
            settle(stack)
        [bus] = [one.ref for one in stack.resources.values() if one.type == "AWS::Events::EventBus"]
        for made in cases:
            for kind, data in made.events:
                detail = json.dumps(data | {"site": made.host})
                stack.client("events").put_events(
                    Entries=[
                        {"EventBusName": bus, "Source": "bus", "DetailType": kind, "Time": START, "Detail": detail}
                    ]
                )
            stack.rest()
        for made in cases:
            for name in made.edited:
                bucket = stack.variable("BUCKET_NAME")
                stack.client("s3").put_object(Bucket=bucket, Key=f"{made.host}/{name}", Body=b"by hand", Metadata={})
        stack.clock.move(CHANGED)
        with environment({name: stack.variable(name) for name in ("TABLE_NAME", "BUCKET_NAME")}):
            yield stack


def settle(stack: StackOnDoubles) -> None:
    for _ in range(3):
        stack.advance(stack.clock.now() + SETTLED / 3)


def put(stack: StackOnDoubles, document: Document) -> None:
    stack.put_site(document["host"], json.dumps(document))


def files_of(stack: StackOnDoubles, host: str) -> Files:
    objects = stack.backend.objects()
    return {key.removeprefix(f"{host}/"): body for key, body in objects.items() if key.startswith(f"{host}/")}


def after(before: Files, site: Site) -> Files:
    """The files that are predicted. Files that no change names stay."""
    changes = list(predict(site, CHANGED))
    assert {change.file: change.before for change in changes if change.before is not None}.items() <= before.items()
    assert len({change.file for change in changes}) == len(changes)
    files = before | {change.file: change.after for change in changes if change.after is not None}
    gone = {change.file for change in changes if change.after is None}
    return {name: body for name, body in files.items() if name not in gone}


def predicted_and_applied(cases: list[Case], *, settled: bool) -> Iterator[tuple[Case, Files, Files, Files]]:
    """Each site with its files before the change, as predicted, and once its new configuration is applied."""
    with stack_of(cases, settled=settled) as stack:
        before = {made.host: files_of(stack, made.host) for made in cases}
        predicted = {
            made.host: after(before[made.host], read_site(json.dumps(made.after), 1 + (made.before is not None)))
            for made in cases
        }
        assert {made.host: files_of(stack, made.host) for made in cases} == before
        for made in cases:
            put(stack, made.after)
        stack.rest()
        settle(stack)
        # No page can be fetched, so what engines are to be told waits.
        assert stack.waiting_messages().keys() <= {"EnginesQueue"}
        yield from ((made, before[made.host], predicted[made.host], files_of(stack, made.host)) for made in cases)


def test_what_is_predicted_of_a_configuration_are_the_bytes_after_it(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "fetch", mock.Mock(side_effect=errors.Unreachable("nobody serves the pages here")))
    for module in (render, fold, file_names):
        monkeypatch.setattr(module, "NEWS_ENTRIES_MAX", 3)  # so that there are several news sitemaps
    first, pairs = request.config.getoption("--first-seed"), request.config.getoption("--pairs")
    changed = 0
    for start in range(first, first + pairs, SITES_A_STACK):
        cases = [case(seed, START) for seed in range(start, min(start + SITES_A_STACK, first + pairs))]
        for made, before, predicted, applied in predicted_and_applied(cases, settled=bool(start // SITES_A_STACK % 2)):
            wrong = sorted(
                name for name in predicted.keys() | applied.keys() if predicted.get(name) != applied.get(name)
            )
            assert not wrong, f"{made.host}: {wrong} are not as predicted"
            changed += before != applied
    assert changed > pairs / 2
