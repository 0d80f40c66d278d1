"""What the audit works out about records that the sampler left out: the same as the sampler decided."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stream.config.model import Config
from stream.jobs.audit.account import FateKind
from stream.jobs.audit.audit import Recalled
from stream.records.facts import LazyRecord
from stream.sampler.policy import SamplingOutcome, SamplingPolicy

RATES = st.floats(0, 1)
IDS = st.text(min_size=1, max_size=20)


def recalled(sampling: dict[str, Any], facts: LazyRecord) -> tuple[FateKind, bool]:
    fate = Recalled(Config.model_validate({"sampling": sampling})).fate(facts)
    return fate.kind, fate.estimated


def record(record_id: str, app: str = "shop", answer: str = "It is open.") -> LazyRecord:
    body = {"id": record_id, "app": app, "question": "Is it open?", "answer": answer}
    return LazyRecord(record_id.encode(), json.dumps(body).encode(), 0)


def sampler(sampling: dict[str, Any]) -> SamplingPolicy:
    config = Config.model_validate({"sampling": sampling})
    return SamplingPolicy(config.sampling, config.input)


@given(IDS, RATES, RATES, st.sampled_from(["shop", "docs"]), st.booleans())
def test_at_fixed_rates_the_decision_is_the_samplers(
    record_id: str, rate: float, ruled: float, app: str, rules: bool
) -> None:
    """What it should have sampled and is nowhere is missing."""
    sampling: dict[str, Any] = {"rate": rate}
    if rules:
        sampling["rules"] = [{"name": "docs", "match": {"app": "docs"}, "rate": ruled}]
        sampling["safety"] = {"rate": 1.0}
    decided = sampler(sampling).decide(record(record_id, app)).outcome
    expected = {
        SamplingOutcome.SAMPLED: FateKind.MISSING,
        SamplingOutcome.SAMPLED_OUT: FateKind.SAMPLED_OUT,
        SamplingOutcome.FILTERED: FateKind.FILTERED,
    }
    assert recalled(sampling, record(record_id, app)) == (expected[decided], False)


@given(IDS, st.floats(0.01, 0.3), st.floats(0.5, 1))
def test_a_rate_that_follows_the_traffic_leaves_open_what_lies_between_its_bounds(
    record_id: str, low: float, high: float
) -> None:
    sampling = {"rate": None, "target_per_minute": 10, "min_rate": low, "max_rate": high}
    draw = sampler({"rate": 0.5}).explain(record(record_id)).draw
    found = recalled(sampling, record(record_id))
    if draw < low:
        assert found == (FateKind.MISSING, False)
    elif draw < high:
        assert found == (FateKind.SAMPLED_OUT, True)
    else:
        assert found == (FateKind.SAMPLED_OUT, False)


@given(IDS, st.floats(0.01, 1))
def test_under_a_cap_what_was_chosen_may_have_been_shed(record_id: str, rate: float) -> None:
    chosen = sampler({"rate": rate}).decide(record(record_id)).chosen
    found = recalled({"rate": rate, "max_per_minute": 3}, record(record_id))
    assert found == ((FateKind.SHED, True) if chosen else (FateKind.SAMPLED_OUT, False))


def test_a_record_whose_rules_cannot_be_looked_at_should_be_a_dead_letter() -> None:
    sampling = {"rate": 0.5, "rules": [{"name": "docs", "match": {"app": "docs"}, "rate": 1.0}]}
    assert recalled(sampling, LazyRecord(b"a", b"no json", 0)) == (FateKind.MISSING, False)
