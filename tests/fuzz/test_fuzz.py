"""The short form of the fuzzing: a few hundred broken inputs for every reader of bytes from outside."""

import logging
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.models.flow import FlowLimits
from tests.fuzz.campaign import Campaign, Hang, fault_of, is_refused, limit_time, shrink_input
from tests.fuzz.mutation import ODD_VALUES, Mutator
from tests.fuzz.targets import TARGETS, Run, Target

SLOW = {"config", "overrides", "criteria", "tail", "judged", "deadletter"}

every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
runs: dict[str, Run] = {}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable the log line per broken input, and the delays between a model's attempts."""
    monkeypatch.setattr("judges.models.flow.flow.FlowLimits", partial(FlowLimits, backoff_seconds=0.0))
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@every_target
def test_broken_seeds_are_read_or_refused_in_the_documented_way(target: Target) -> None:
    seed = Random().randrange(2**32)
    campaign = Campaign(target, seed=seed)
    campaign.begin()
    campaign.go_on(30 if target.name in SLOW else 400)
    assert not campaign.account.found, f"seed {seed}: {campaign.account.messages}"


@every_target
@settings(max_examples=30, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_any_bytes_are_read_or_refused_in_the_documented_way(target: Target, data: st.DataObject) -> None:
    run = runs.setdefault(target.name, target.make())
    is_refused(run, data.draw(st.binary(max_size=300) | broken(target)), target.allowed)


def broken(target: Target) -> st.SearchStrategy[bytes]:
    mutator = Mutator(target.seeds(), target.words)
    return st.integers(min_value=0, max_value=2**32).map(lambda seed: mutator.mutate(Random(seed)))


# The fuzzing itself can fail


def target_of(run: Run) -> Target:
    return Target(name="probe", make=lambda: run, seeds=lambda: (b'{"a": {"b": 1}}',), allowed=(ValueError,))


def test_breaking_inputs_leaves_the_odd_values_as_they_are() -> None:
    """A value that was inserted into one input may be broken there, and inserted into another."""
    before, random = repr(ODD_VALUES), Random(7)
    mutator = Mutator([b'{"a": {"b": [1]}}'])
    for _ in range(20_000):
        mutator.mutate(random)
    assert repr(ODD_VALUES) == before


def test_an_error_that_is_not_documented_is_found_once_with_its_smallest_input() -> None:
    def run(data: bytes) -> None:
        if b"a" in data:
            raise KeyError("a")
        raise ValueError("refused")

    campaign = Campaign(target_of(run), seed=1)
    campaign.go_on(200)
    campaign.shrink()
    [(fault, data)] = campaign.account.found.items()
    assert (fault.kind, data) == ("KeyError", b"a")
    assert 0 < campaign.account.refused < campaign.account.inputs == 200


def test_an_input_that_never_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.campaign.LIMIT_SECONDS", 0.05)

    def run(_data: bytes) -> None:
        while True:
            pass

    with pytest.raises(Hang):
        is_refused(run, b"", ())


def test_the_limit_ends_with_its_block() -> None:
    with limit_time(0.01):
        pass
    sum(range(2_000_000))


def test_the_same_seed_gives_the_same_inputs() -> None:
    mutator = Mutator((b'{"a": [1, {"b": "c"}]}', b"x\x1fy"))
    first, second = ([mutator.mutate(random) for _ in range(50)] for random in (Random(3), Random(3)))
    assert first == second
    assert len(set(first)) > 25
    assert ODD_VALUES


def test_shrinking_keeps_what_matters() -> None:
    assert shrink_input(b"....x....y....", lambda data: b"x" in data and b"y" in data) == b"xy"


def test_a_fault_is_named_by_its_place_in_our_code() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        print(1 // 0)
    assert fault_of(caught.value, "t").place.startswith("tests/fuzz/test_fuzz.py:")
