"""Tests of the simulation: each fault planted in the product breaks the run of a seed that passes without the fault."""

import functools
import inspect
import sys

import pytest

from stoppress.model import event
from stoppress.record import article
from tests.simulation.checker import Violation
from tests.simulation.faults import FAULTS
from tests.simulation.patches import Patch, planted, resolve
from tests.simulation.run import Run

pytestmark = pytest.mark.matrix


def breaks(seed: int) -> bool:
    """Return True if a run fails, and its message contains the command for a replay."""
    try:
        Run(seed).play()
    except Violation as violation:
        return f"--first-seed {seed} --seeds 1" in str(violation)
    return False


breaks_without_a_fault = functools.cache(breaks)  # many faults share a seed


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, request: pytest.FixtureRequest) -> None:
    fault, seeds = FAULTS[name], range(1, request.config.getoption("--seeds") + 1)
    for seed in (fault.seed, *seeds):
        with planted(fault):
            is_broken = breaks(seed)
        if is_broken and (
            seed in seeds or not breaks_without_a_fault(seed)
        ):  # test_seeds.py plays `seeds` without a fault
            sys.stdout.write(f"{name}: seed {seed} instead of {fault.seed}\n" if seed != fault.seed else "")
            return
    pytest.fail(f"seed {fault.seed} and {len(seeds)} others pass: find a seed with --seeds 1000 -rP, and record it")


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_function_accepts_the_arguments_of_the_original(name: str) -> None:
    """Otherwise any run would fail, and the fault would appear to be caught."""
    original = resolve(FAULTS[name].where)
    replacement = FAULTS[name].wrap(original)
    if not (inspect.isfunction(original) and inspect.isfunction(replacement)):
        pytest.skip("the fault replaces a value, not a function")
    parameters = inspect.signature(original).parameters.values()
    by_name = {parameter.name: None for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}

    inspect.signature(replacement).bind(*[None] * (len(parameters) - len(by_name)), **by_name)


def test_a_fault_in_a_missing_function_is_an_error() -> None:
    with pytest.raises(AssertionError, match="not exist"), planted(Patch("aws.table:transmogrify", lambda _: str, 1)):
        pass


def test_a_function_is_replaced_in_all_modules_and_then_restored() -> None:
    def functions() -> list[object]:
        return [vars(event)["names_of"], vars(article)["decide"]]

    before = functions()
    with (
        planted(Patch("record.decide:decide", lambda _: str, 1)),
        planted(Patch("model.event:names_of", lambda _: str, 1)),
    ):
        assert functions() == [str, str]

    assert functions() == before
