"""`stoppress sites put` predicts what a configuration would change: for random pairs of configurations, the files equal the prediction.

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
from stoppress.sitemaps.other_forms import unpacked
from stoppress_cli.local.process import environment
from tests.simulation.configurations import Case, Document, case
from tests.simulation.stack import StackOnDoubles
from tests.support.playing import TEMPLATE

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
# In the middle of a minute: roll_window has not removed the stories yet that have just expired.
CHANGED = START + timedelta(seconds=50)
# By then, all files have been rewritten twice for a configuration, and unconfigured forms are deleted.
SETTLE_TIME = timedelta(minutes=9)
# All sites of a run share a stack, whose schedules process each of them.
SITES_A_STACK = 15
Files = dict[str, bytes]


@contextmanager
def stack_of(cases: list[Case], *, settled: bool) -> Iterator[StackOnDoubles]:
    """Open a stack at the instant of the change, on which the sites with their first configurations have received their stories.

    Unless `settled`, the first configurations were put with the stories, and have been applied only once.
    """
    with StackOnDoubles(TEMPLATE, start=START - SETTLE_TIME if settled else START) as stack:
        for site in cases:
            if site.before is not None:
                put(stack, site.before)
        stack.rest()
        if settled:
            settle(stack)
        [bus] = [resource.ref for resource in stack.resources.values() if resource.type == "AWS::Events::EventBus"]
        for site in cases:
            for kind, data in site.events:
                detail = json.dumps(data | {"site": site.host})
                stack.client("events").put_events(
                    Entries=[
                        {"EventBusName": bus, "Source": "bus", "DetailType": kind, "Time": START, "Detail": detail}
                    ]
                )
            stack.rest()
        for site in cases:
            for name in site.edited:
                bucket = stack.variable("BUCKET_NAME")
                stack.client("s3").put_object(Bucket=bucket, Key=f"{site.host}/{name}", Body=b"by hand", Metadata={})
        stack.clock.move(CHANGED)
        with environment({name: stack.variable(name) for name in ("TABLE_NAME", "BUCKET_NAME")}):
            yield stack


def settle(stack: StackOnDoubles) -> None:
    for _ in range(3):
        stack.advance(stack.clock.now() + SETTLE_TIME / 3)


def put(stack: StackOnDoubles, document: Document) -> None:
    stack.put_site(document["host"], json.dumps(document))


def files_of(stack: StackOnDoubles, host: str) -> Files:
    objects = stack.backend.objects()
    return {key.removeprefix(f"{host}/"): body for key, body in objects.items() if key.startswith(f"{host}/")}


def after(before: Files, new: Site) -> Files:
    """Return the predicted files. Files without a predicted change stay."""
    changes = list(predict(new, CHANGED))
    assert {change.file: change.before for change in changes if change.before is not None}.items() <= before.items()
    assert len({change.file for change in changes}) == len(changes)
    files = before | {change.file: change.after for change in changes if change.after is not None}
    deleted = {change.file for change in changes if change.after is None}
    return {name: body for name, body in files.items() if name not in deleted}


def predicted_and_applied(cases: list[Case], *, settled: bool) -> Iterator[tuple[Case, Files, Files, Files]]:
    """Yield each site with its files before the change, as predicted, and after its new configuration is applied."""
    with stack_of(cases, settled=settled) as stack:
        before = {site.host: files_of(stack, site.host) for site in cases}
        predicted = {
            site.host: after(before[site.host], read_site(json.dumps(site.after), 1 + (site.before is not None)))
            for site in cases
        }
        assert {site.host: files_of(stack, site.host) for site in cases} == before
        for site in cases:
            put(stack, site.after)
        stack.rest()
        settle(stack)
        # No page can be fetched, so notifications of engines stay in the queue.
        assert stack.waiting_messages().keys() <= {"EnginesQueue"}
        yield from ((site, before[site.host], predicted[site.host], files_of(stack, site.host)) for site in cases)


def test_files_equal_the_prediction_after_a_configuration_is_applied(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "fetch", mock.Mock(side_effect=errors.Unreachable("pages are not served")))
    for module in (render, fold, file_names):
        monkeypatch.setattr(module, "NEWS_ENTRIES_MAX", 3)  # for several news sitemaps
    first, pairs = request.config.getoption("--first-seed"), request.config.getoption("--pairs")
    changed = 0
    for start in range(first, first + pairs, SITES_A_STACK):
        cases = [case(seed, START) for seed in range(start, min(start + SITES_A_STACK, first + pairs))]
        for site, before, predicted, applied in predicted_and_applied(cases, settled=bool(start // SITES_A_STACK % 2)):
            # The time in the header of a gzip file is that of its creation.
            differing = sorted(
                name
                for name in predicted.keys() | applied.keys()
                if unpacked(name, predicted.get(name, b"")) != unpacked(name, applied.get(name, b""))
            )
            assert not differing, f"{site.host}: {differing} are not as predicted"
            changed += before != applied
    assert changed > pairs / 2
