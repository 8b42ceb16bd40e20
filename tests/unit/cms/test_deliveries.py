"""Every recorded delivery comes out as it is expected to: our own, and other people's where they are beside the repository."""

import json

import pytest

from stoppress.model.adapters import names
from tests.support.beside import needs_shared
from tests.support.recorded import OF_OTHERS, OWN, Case, cases, differences, now_of, verdicts
from tests.support.stories import SENDERS

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


@pytest.mark.parametrize("sender", SENDERS)
def test_a_first_class_sender_has_deliveries_that_apply_and_some_that_do_not(sender: str) -> None:
    dispositions = {
        verdict["disposition"]
        for case in OURS
        if case.document["mapping"] == sender
        for verdict in case.document["expected"]
    }
    assert dispositions >= {"apply"}
    assert sender == "eventbridge" or len(dispositions) > 1 or sender == "superdesk-publisher"


def test_what_differs_is_said() -> None:
    shown = [{"disposition": "apply", "id": "1", "published_at": "2026-11-20T08:00:00.000000Z"}]
    wanted = [{"disposition": "apply", "published_at": "2026-11-20T09:00:00+01:00", "why": "…"}]
    assert differences(shown, wanted) == []
    assert differences(shown, [{"id": "2"}]) == ["0.id: '1', expected '2'"]
    assert differences(shown, []) == ["1 items, expected 0"]
