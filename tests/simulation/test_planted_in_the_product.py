"""The simulation tested: each fault planted in the product breaks the run of a seed that is sound without it."""

import functools
import inspect
import sys

import pytest

from stoppress.model import event
from stoppress.record import article
from tests.simulation.faults import FAULTS
from tests.simulation.judgement import Broken
from tests.simulation.run import Run
from tests.simulation.swaps import Swap, named, planted

pytestmark = pytest.mark.matrix


def breaks(seed: int) -> bool:
    """Whether a run ends badly, and says how to see it again."""
    try:
        Run(seed).play()
    except Broken as broken:
        return f"--first-seed {seed} --seeds 1" in str(broken)
    return False


breaks_without_a_fault = functools.cache(breaks)  # many faults share a seed


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_planted_is_caught(name: str, request: pytest.FixtureRequest) -> None:
    fault, seeds = FAULTS[name], range(1, request.config.getoption("--seeds") + 1)
    for seed in (fault.seed, *seeds):
        with planted(fault):
            is_broken = breaks(seed)
        if is_broken and (
            seed in seeds or not breaks_without_a_fault(seed)
        ):  # test_seeds.py plays `seeds` without a fault
            sys.stdout.write(f"{name}: seed {seed} instead of {fault.seed}\n" if seed != fault.seed else "")
            return
    pytest.fail(f"seed {fault.seed} and {len(seeds)} others miss it: find one with --seeds 1000 -rP, and record it")


@pytest.mark.parametrize("name", FAULTS)
def test_what_stands_in_for_a_function_takes_its_arguments(name: str) -> None:
    """Otherwise any run would fail, and the fault would seem caught."""
    original = named(FAULTS[name].where)
    stand_in = FAULTS[name].by(original)
    if not (inspect.isfunction(original) and inspect.isfunction(stand_in)):
        pytest.skip("it stands in for a value, not for a function")
    parameters = inspect.signature(original).parameters.values()
    by_name = {parameter.name: None for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}

    inspect.signature(stand_in).bind(*[None] * (len(parameters) - len(by_name)), **by_name)


def test_a_fault_of_a_function_that_is_gone_is_named() -> None:
    with pytest.raises(AssertionError, match="is gone"), planted(Swap("aws.table:transmogrify", lambda _: str, 1)):
        pass


def test_a_function_is_replaced_wherever_it_was_imported_and_only_for_a_while() -> None:
    def functions() -> list[object]:
        return [vars(event)["names_of"], vars(article)["decide"]]

    before = functions()
    with (
        planted(Swap("record.decide:decide", lambda _: str, 1)),
        planted(Swap("model.event:names_of", lambda _: str, 1)),
    ):
        assert functions() == [str, str]

    assert functions() == before
