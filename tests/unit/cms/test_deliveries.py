"""Every recorded delivery comes out as it is expected to: our own, and other people's where they are beside the repository."""

import json

import pytest

from stoppress.model.adapters import names
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
