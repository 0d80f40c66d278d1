"""The audit recomputes the sampler's decisions for records that were not sampled."""

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


def recall_fate(sampling: dict[str, Any], facts: LazyRecord) -> tuple[FateKind, bool]:
    fate = Recalled(Config.model_validate({"sampling": sampling})).fate(facts)
    return fate.kind, fate.estimated


def record(record_id: str, app: str = "shop", answer: str = "It is open.") -> LazyRecord:
    body = {"id": record_id, "app": app, "question": "Is it open?", "answer": answer}
    return LazyRecord(record_id.encode(), json.dumps(body).encode(), 0)


def sampler(sampling: dict[str, Any]) -> SamplingPolicy:
    config = Config.model_validate({"sampling": sampling})
    return SamplingPolicy(config.sampling, config.input)


@given(IDS, RATES, RATES, st.sampled_from(["shop", "docs"]), st.booleans())
def test_at_fixed_rates_the_audit_agrees_with_the_sampler(
    record_id: str, rate: float, docs_rate: float, app: str, with_rules: bool
) -> None:
    """A record that should have been sampled, but is on no topic, is missing."""
    sampling: dict[str, Any] = {"rate": rate}
    if with_rules:
        sampling["rules"] = [{"name": "docs", "match": {"app": "docs"}, "rate": docs_rate}]
        sampling["safety"] = {"rate": 1.0}
    outcome = sampler(sampling).decide(record(record_id, app)).outcome
    expected = {
        SamplingOutcome.SAMPLED: FateKind.MISSING,
        SamplingOutcome.SAMPLED_OUT: FateKind.SAMPLED_OUT,
        SamplingOutcome.FILTERED: FateKind.FILTERED,
    }
    assert recall_fate(sampling, record(record_id, app)) == (expected[outcome], False)


@given(IDS, st.floats(0.01, 0.3), st.floats(0.5, 1))
def test_under_an_adaptive_rate_a_draw_between_its_bounds_is_only_estimated(
    record_id: str, low: float, high: float
) -> None:
    sampling = {"rate": None, "target_per_minute": 10, "min_rate": low, "max_rate": high}
    draw = sampler({"rate": 0.5}).explain(record(record_id)).draw
    fate = recall_fate(sampling, record(record_id))
    if draw < low:
        assert fate == (FateKind.MISSING, False)
    elif draw < high:
        assert fate == (FateKind.SAMPLED_OUT, True)
    else:
        assert fate == (FateKind.SAMPLED_OUT, False)


@given(IDS, st.floats(0.01, 1))
def test_under_a_cap_a_chosen_record_may_have_been_shed(record_id: str, rate: float) -> None:
    chosen = sampler({"rate": rate}).decide(record(record_id)).chosen
    fate = recall_fate({"rate": rate, "max_per_minute": 3}, record(record_id))
    assert fate == ((FateKind.SHED, True) if chosen else (FateKind.SAMPLED_OUT, False))


def test_a_record_that_cannot_be_parsed_for_its_rules_is_missing_without_a_dead_letter() -> None:
    sampling = {"rate": 0.5, "rules": [{"name": "docs", "match": {"app": "docs"}, "rate": 1.0}]}
    assert recall_fate(sampling, LazyRecord(b"a", b"no json", 0)) == (FateKind.MISSING, False)
