"""The envelope: a decision survives its headers exactly, and invalid headers are refused."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import MIN_PROBABILITY, Sampling
from sinks.base import Headers
from stream.config.model import Config
from stream.errors import RecordError
from stream.records.decision import DECISION_VERSION, Decision, SamplingOutcome
from stream.records.envelope import content_in, decision_headers, evaluation_headers, read_sampling
from stream.records.identity import UNKNOWN_CONTENT

AT = datetime(2026, 11, 15, 10, 30, tzinfo=UTC)
labels = st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True)


def headers(probability: float = 0.25, rule: str = "vip", lane: str = "gold") -> Headers:
    decision = Decision(outcome=SamplingOutcome.SAMPLED, probability=probability, rule=rule, lane=lane)
    return decision_headers(decision, salt="соль", sampled_at=AT)


@given(st.floats(min_value=MIN_PROBABILITY, max_value=1.0), labels, labels)
def test_a_decision_is_read_as_it_was_written(probability: float, rule: str, lane: str) -> None:
    assert read_sampling(headers(probability, rule, lane)) == Sampling(probability=probability, rule=rule, lane=lane)


@pytest.mark.parametrize("content", ["0f" * 16, UNKNOWN_CONTENT])
def test_a_digest_is_read_as_it_was_written(content: str) -> None:
    assert content_in(evaluation_headers(content, None)) == content


@pytest.mark.parametrize("value", [b"a" * 1_000_000, b"\xff" * 1_000_000])
def test_an_overlong_digest_is_truncated(value: bytes) -> None:
    assert len(content_in((("sj-content", value),))) == 32


def test_the_headers_are_those_of_the_wire_format() -> None:
    assert dict(headers()) == {
        "sj-probability": b"0.25",
        "sj-rule": b"vip",
        "sj-lane": b"gold",
        "sj-salt": "соль".encode(),
        "sj-version": DECISION_VERSION.encode(),
        "sj-sampled-at": b"2026-11-15T10:30:00+00:00",
    }


@pytest.mark.parametrize("record_headers", [(), (("traceparent", b"00-a-b-01"),), (("sj-rule", b"r"),)])
def test_a_record_without_a_decision_has_probability_1(record_headers: Headers) -> None:
    assert read_sampling(record_headers) == Sampling(probability=1.0, rule="direct", lane="main")


def test_the_last_of_repeated_headers_counts() -> None:
    assert read_sampling((*headers(0.5), *headers(0.25, "late"))).rule == "late"


def test_other_headers_are_ignored() -> None:
    assert read_sampling((("probability", b"\xff"), ("x-sj-rule", b"x"), *headers())).rule == "vip"


@pytest.mark.parametrize("left_out", ["sj-rule", "sj-lane"])
@pytest.mark.parametrize("empty", [b"", None])
def test_a_probability_without_rule_or_lane_is_accepted(left_out: str, empty: bytes | None) -> None:
    remaining = tuple(header for header in headers() if header[0] != left_out)
    for record_headers in (remaining, (*remaining, (left_out, empty))):
        sampling = read_sampling(record_headers)
        assert sampling.probability == 0.25
        assert {"sj-rule": sampling.rule, "sj-lane": sampling.lane}[left_out] in {"unknown", "main"}


@pytest.mark.parametrize(
    "value",
    [b"", None, b"0", b"-0.5", b"1.0000001", b"2", b"nan", b"inf", b"-inf", b"half", b"\xff", b"1e-320", b"0,5"],
)
def test_an_invalid_probability_is_refused_as_a_bad_envelope(value: bytes | None) -> None:
    with pytest.raises(RecordError, match="sampling headers") as caught:
        read_sampling((("sj-probability", value), ("sj-rule", b"r")))
    assert caught.value.kind == "bad_envelope"


@pytest.mark.parametrize("probability", [2.0**-53, 1e-9, 0.00099])
def test_a_probability_below_the_lowest_possible_one_is_refused(probability: float) -> None:
    with pytest.raises(RecordError, match=r"sampling\.min_probability") as caught:
        read_sampling(headers(probability), least_probability=0.001)
    assert caught.value.kind == "bad_probability"
    assert read_sampling(headers(0.001), least_probability=0.001).probability == 0.001


@pytest.mark.parametrize(
    ("sampling", "least"),
    [
        ({}, 0.001),
        ({"rate": 1.0}, 0.001),
        ({"rate": 0.0}, 0.001),
        ({"rate": 0.0001}, 0.0001),
        ({"rate": 0.1, "rules": [{"name": "r", "match": {"app": "a"}, "rate": 1e-5}]}, 1e-5),
        ({"target_per_minute": 60}, 0.001),
        ({"target_per_minute": 60, "min_rate": 1e-6}, 1e-6),
        ({"rate": 1e-300}, 2.0**-53),
        ({"rate": 0.5, "min_probability": 0.25}, 0.25),
        ({"rate": 0.5, "min_probability": 1e-9}, 1e-9),
    ],
)
def test_the_lowest_rate_of_the_rules_is_the_lowest_accepted_probability(
    sampling: dict[str, object], least: float
) -> None:
    config = Config.model_validate({"sampling": sampling})
    assert config.sampling.least_probability == least
    # When the budget runs low, a worker keeps at least a sixteenth.
    assert config.least_probability == max(2.0**-53, least / 16)


@pytest.mark.parametrize("name", ["sj-rule", "sj-lane"])
def test_labels_that_are_not_utf_8_are_refused_as_a_bad_envelope(name: str) -> None:
    with pytest.raises(RecordError) as caught:
        read_sampling((*headers(), (name, b"\xff\xfe")))
    assert caught.value.kind == "bad_envelope"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["sj-probability", "sj-rule", "sj-lane", "sj-salt", "other"]), st.none() | st.binary()
        )
    )
)
def test_any_headers_are_a_sampling_or_a_bad_envelope(record_headers: list[tuple[str, bytes | None]]) -> None:
    result: Sampling | str
    try:
        result = read_sampling(tuple(record_headers))
    except RecordError as error:
        result = error.kind
    if isinstance(result, str):
        assert result == "bad_envelope"
    else:
        assert 0.0 < result.probability <= 1.0
        assert result.rule
        assert result.lane
