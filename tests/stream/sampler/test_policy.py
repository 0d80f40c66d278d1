"""The policy: the first matching rule or the default, safety, adaptive rates, caps, and no needless parsing."""

import json
import math
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import Headers
from stream.config.names import DEFAULT_RULE
from stream.config.rate_scale import rate_of
from stream.config.sections.input import InputConfig
from stream.config.sections.sampling import SamplingConfig
from stream.errors import RecordError, StageError
from stream.records.decision import Cohort
from stream.records.facts import LazyRecord
from stream.sampler.policy import Cap, Decision, SamplingOutcome, SamplingPolicy
from stream.sampler.step_log import read_step_log

COHORT = Cohort("streamjury")
START = 1_790_000_000_000
MINUTE = 60_000
MAPPED = InputConfig.model_validate(
    {"adapter": "mapping", "mapping": {"id": "req.id", "question": "q", "answer": "a", "app": "svc"}}
)

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=50)
rates = st.floats(min_value=0.0, max_value=1.0)


def policy(records: InputConfig | None = None, **config: Any) -> SamplingPolicy:
    return SamplingPolicy(SamplingConfig.model_validate(config), records or InputConfig())


def facts(
    key: str | None = "id-1",
    *,
    value: Any = None,
    headers: Headers = (),
    at_ms: int = START,
    is_broker_time: bool = True,
    **fields: Any,
) -> LazyRecord:
    body = {"id": key, "question": "q", "answer": "a", **fields} if value is None else value
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return LazyRecord(key.encode() if key is not None else None, encoded, at_ms, headers, is_broker_time=is_broker_time)


def rule(name: str, rate: float | None = None, *, match: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"name": name, "match": match, **({} if rate is None else {"rate": rate}), **keys}


def decide_fields(subject: SamplingPolicy, **fields: Any) -> tuple[str, float, str]:
    decision = subject.decide(facts(**fields))
    return decision.rule, decision.probability, decision.lane


# Rules


def test_the_first_rule_that_matches_decides() -> None:
    subject = policy(
        rate=0.1,
        rules=[
            rule("drop-tests", 0.0, match={"app": "test"}),
            rule("vip", 1.0, match={"app": "shop", "tenant": ["acme", "globex"]}, lane="gold"),
            rule("shop", 0.5, match={"app": ["shop", "test"]}),
            rule("live", 0.25, match={"headers": {"x-env": "live"}}),
        ],
    )
    assert decide_fields(subject, app="test") == ("drop-tests", 0.0, "main")
    assert decide_fields(subject, app="shop", tenant="globex") == ("vip", 1.0, "gold")
    assert decide_fields(subject, app="shop", tenant="other") == ("shop", 0.5, "main")
    assert decide_fields(subject, app="docs", headers=(("x-env", b"live"),)) == ("live", 0.25, "main")
    assert decide_fields(subject, app="docs", tenant="acme") == (DEFAULT_RULE, 0.1, "main")
    assert decide_fields(subject) == (DEFAULT_RULE, 0.1, "main")


def test_a_decision_has_its_reason() -> None:
    subject = policy(rules=[rule("checkout", 1.0, match={"app": "shop", "tags": {"tier": ["gold", 1]}})])
    assert subject.decide(facts(app="shop", tags={"tier": 1})) == Decision(
        outcome=SamplingOutcome.SAMPLED,
        probability=1.0,
        rule="checkout",
        lane="main",
        app="shop",
        why="rule checkout: app is shop; tag tier is gold or 1",
    )
    assert subject.decide(facts()).why == "no rule matches"


def test_rate_1_always_chooses_and_rate_0_filters_and_sampled_out_is_neither() -> None:
    outcomes = {
        rate: {policy(rate=rate).decide(facts(f"id-{number}")).outcome for number in range(50)}
        for rate in (0.0, 0.5, 1.0)
    }
    assert outcomes == {
        0.0: {SamplingOutcome.FILTERED},
        0.5: {SamplingOutcome.SAMPLED, SamplingOutcome.SAMPLED_OUT},
        1.0: {SamplingOutcome.SAMPLED},
    }


@given(ids, rates, rates)
def test_raising_a_rate_keeps_the_records_chosen_by_default_or_by_rule(identity: str, one: float, two: float) -> None:
    low, high = sorted((one, two))
    rules = [rule("r", high, match={"app": {"exists": True}})]
    if policy(rate=low).decide(facts(identity)).chosen:
        assert policy(rate=high).decide(facts(identity)).chosen
        assert policy(rate=0.0, rules=rules).decide(facts(identity, app="x")).chosen


@given(ids, rates)
def test_a_record_is_chosen_if_its_draw_is_below_the_rate(identity: str, rate: float) -> None:
    assert policy(rate=rate).decide(facts(identity)).chosen == (COHORT.draw(identity) < rate)


def test_another_salt_chooses_other_records() -> None:
    plain, salted = policy(rate=0.5), policy(rate=0.5, salt="other")
    pairs = [
        (plain.decide(facts(f"{number}")).chosen, salted.decide(facts(f"{number}")).chosen) for number in range(2000)
    ]
    assert abs(sum(one == two for one, two in pairs) - 1000) < 4 * math.sqrt(500)


# Ids


def test_a_record_is_sampled_by_its_key_or_else_by_the_id_in_its_body() -> None:
    subject = policy(rate=0.5)
    for identity in ("id-1", "вопрос-42", "🙂"):
        keyed = subject.decide(LazyRecord(identity.encode(), b"not looked at", 0))
        assert keyed == subject.decide(facts(None, value={"id": identity, "question": "q", "answer": "a"}))
        assert keyed.outcome is subject.decide(LazyRecord(b"", facts(identity).value, 0)).outcome
        assert subject.record_id(facts(None, value={"id": identity})) == identity.encode()


def test_the_id_in_the_body_is_used_if_configured() -> None:
    by_body = policy(rate=0.5, id="body")
    assert by_body.fixed is None
    assert by_body.record_id(LazyRecord(b"key", b'{"id": "body"}', 0)) == b"body"
    assert policy(MAPPED, id="body").record_id(facts("key", value={"req": {"id": "x"}})) == b"x"


def test_a_number_is_an_id_if_the_adapter_accepts_it() -> None:
    value = {"req": {"id": 17}, "q": "q", "a": "a"}
    assert policy(MAPPED).record_id(facts(None, value=value)) == b"17"
    with pytest.raises(RecordError, match="id: "):
        policy().record_id(facts(None, value={"id": 17, "question": "q", "answer": "a"}))


@pytest.mark.parametrize("identity", [None, "", "x" * 513, 5, ["a"]])
def test_a_record_without_a_usable_id_is_refused_like_by_the_reader(identity: object) -> None:
    with pytest.raises(RecordError) as caught:
        policy(rate=0.5).decide(facts(None, value={"id": identity, "question": "q", "answer": "a"}))
    assert caught.value.kind == "invalid_record"


# How much of a record is parsed


def test_a_single_rate_is_decided_by_the_key_only() -> None:
    fixed = policy(rate=0.3).fixed
    assert fixed is not None
    assert (fixed.chosen.rule, fixed.chosen.lane, fixed.chosen.probability) == (DEFAULT_RULE, "main", 0.3)
    assert (fixed.chosen.outcome, fixed.left_out.outcome) == (SamplingOutcome.SAMPLED, SamplingOutcome.SAMPLED_OUT)
    for number in range(200):
        assert fixed.chooses(b"id-%d" % number) == policy(rate=0.3).decide(facts(f"id-{number}")).chosen


@pytest.mark.parametrize(
    "config",
    [
        {"rules": [rule("r", 0.1, match={"headers": {"x": "y"}})]},
        {"safety": {}},
        {"target_per_minute": 5},
        {"max_per_minute": 5},
        {"id": "body"},
    ],
)
def test_a_configuration_that_needs_more_than_the_key_is_not_decided_by_it_only(config: dict[str, Any]) -> None:
    assert policy(**config).fixed is None


def test_rules_on_headers_never_parse_the_value_and_leave_the_app_unknown() -> None:
    subject = policy(rate=1.0, rules=[rule("r", 1.0, match={"headers": {"x": {"exists": True}}})])
    for headers in ((("x", b""),), ()):
        assert subject.decide(LazyRecord(b"k", b"no json", 0, headers)).app is None


def test_the_app_is_known_if_the_value_was_parsed() -> None:
    subject = policy(rules=[rule("r", 1.0, match={"body": {"x": 1}})])
    assert subject.decide(facts(app="shop")).app == "shop"
    assert subject.decide(facts(app=["shop"])).app is None
    assert policy(MAPPED, rules=[rule("r", 1.0, match={"app": "s"})]).decide(facts("k", value={"svc": "t"})).app == "t"


def test_an_unreadable_value_is_refused_if_a_rule_needs_it() -> None:
    with pytest.raises(RecordError, match="not JSON"):
        policy(rules=[rule("r", 1.0, match={"app": "x"})]).decide(facts(value=b"{"))


# Safety


SAFETY = {"rate": 0.8, "triggers": ["thumbs_down", "empty_contexts"]}
BAD: dict[str, Any] = {"tags": {"thumbs": "down"}}


def test_a_sign_of_trouble_gives_a_record_the_safety_rate_and_lane() -> None:
    subject = policy(rate=0.1, safety=SAFETY)
    assert decide_fields(subject, **BAD) == ("safety", 0.8, "safety")
    assert decide_fields(subject) == (DEFAULT_RULE, 0.1, "main")
    assert subject.decide(facts(**BAD)).why == "safety: thumbs_down"
    assert decide_fields(policy(rate=0.1, safety={**SAFETY, "lane": "red"}), contexts=[]) == ("safety", 0.8, "red")


def test_a_rule_with_as_high_a_rate_keeps_its_records() -> None:
    for rate in (0.8, 1.0):
        assert decide_fields(policy(rate=rate, safety=SAFETY), **BAD) == (DEFAULT_RULE, rate, "main")


def test_filtered_records_stay_filtered() -> None:
    subject = policy(rate=0.1, safety=SAFETY, rules=[rule("off", 0.0, match={"app": "x"})])
    assert subject.decide(facts(app="x", **BAD)).outcome is SamplingOutcome.FILTERED


@given(ids, rates, rates)
def test_the_safety_lane_keeps_every_record_that_the_rule_would_have_chosen(
    identity: str, rate: float, safety: float
) -> None:
    plain = policy(rate=rate).decide(facts(identity, **BAD))
    safe = policy(rate=rate, safety={**SAFETY, "rate": safety}).decide(facts(identity, **BAD))
    if plain.chosen:
        assert safe.chosen
    assert safe.probability == (max(rate, safety) if rate > 0 else 0.0)
    assert safe.chosen == (COHORT.draw(identity) < safe.probability)


def test_an_adaptive_rule_loses_records_to_safety_only_while_its_rate_is_lower() -> None:
    subject = policy(target_per_minute=6000, safety=SAFETY)
    assert decide_fields(subject, **BAD)[0] == "safety"
    for number in range(600):
        subject.decide(facts(at_ms=START + number * 100))
    assert decide_fields(subject, at_ms=START + MINUTE, **BAD) == (DEFAULT_RULE, 1.0, "main")


@pytest.mark.parametrize("rate", [0.8, 0.3])
def test_a_cap_sheds_no_record_of_the_safety_lane(rate: float) -> None:
    subject = policy(rules=[rule("r", rate, match={"app": "x"}, max_per_minute=1)], safety=SAFETY)
    for number in range(100):
        decision = subject.decide(facts(f"{number}", app="x", **BAD))
        assert (decision.rule, decision.probability) == ("safety", 0.8)
        assert decision.outcome is (
            SamplingOutcome.SAMPLED if COHORT.draw(f"{number}") < 0.8 else SamplingOutcome.SAMPLED_OUT
        )
    plain = [subject.decide(facts(f"{number}", app="x")).outcome for number in range(100)]
    assert plain.count(SamplingOutcome.SAMPLED) == 1
    assert SamplingOutcome.SHED in plain


def test_a_capped_target_always_gives_suspicious_records_to_safety() -> None:
    subject = policy(target_per_minute=6000, max_per_minute=5, safety={**SAFETY, "rate": 1.0})
    for number in range(1200):
        decision = subject.decide(facts(f"{number}", at_ms=START + number * 50, **(BAD if number % 2 else {})))
        assert decision.rule == (DEFAULT_RULE, "safety")[number % 2]
        if number % 2:
            assert (decision.outcome, decision.probability) == (SamplingOutcome.SAMPLED, 1.0)
    assert subject.decide(facts(at_ms=START + MINUTE)).probability == 1.0, "the rates are equal at the end"


def test_a_capped_rule_with_a_higher_rate_than_safety_keeps_its_records() -> None:
    assert decide_fields(policy(rate=0.9, max_per_minute=5, safety=SAFETY), **BAD) == (DEFAULT_RULE, 0.9, "main")


def test_a_suspicious_record_that_lowers_the_rate_still_gets_the_safety_rate(tmp_path: Path) -> None:
    """The rate is high enough until the record itself reveals the flood."""
    log = str(tmp_path / "steps.jsonl")
    adaptive: dict[str, Any] = {"target_per_minute": 60, "safety": SAFETY}
    subject = policy(**adaptive, step_log=log)
    for number in range(120):
        subject.decide(facts(at_ms=START + number * 5000))
    begin = START + 120 * 5000
    for number in range(5000):
        subject.decide(facts(at_ms=begin + number % 2000))
    record = facts("id-1", at_ms=begin + 2000, **BAD)
    assert policy(**adaptive, step_log=log).explain(record).decision.rule == DEFAULT_RULE, (
        "the record is not counted yet"
    )
    decision = subject.decide(record)
    subject.close()
    assert (decision.rule, decision.probability) == ("safety", 0.8)
    assert policy(**adaptive, replay_steps=log).decide(record) == decision


# Adaptive rates


def test_the_adaptive_rate_is_the_probability_and_meets_the_target() -> None:
    subject = policy(rules=[rule("busy", match={"app": "shop"}, target_per_minute=60)])
    decisions = [subject.decide(facts(f"id-{number}", app="shop", at_ms=START + number * 50)) for number in range(6000)]
    settled = decisions[1200:]
    assert 0.7 * 60 < sum(decision.chosen for decision in settled) / 4 < 1.4 * 60
    assert {decision.probability for decision in decisions} <= {rate_of(step) for step in range(80)}
    for number, decision in enumerate(decisions):
        assert decision.chosen == (COHORT.draw(f"id-{number}") < decision.probability)


def stream(seed: int = 1) -> list[LazyRecord]:
    """Return traffic that rises and falls, slightly out of order."""
    rng, clock = random.Random(seed), START
    arrivals: list[tuple[str, str, int]] = []
    for per_minute in (300, 3000, 100):
        end = clock + 2 * MINUTE
        while clock < end:
            clock += max(1, int(rng.expovariate(per_minute / MINUTE)))
            arrivals.append((f"id-{len(arrivals)}", rng.choice("ab"), clock - rng.choice((0, 0, 0, 4000))))
    return [facts(key, app=app, at_ms=at_ms) for key, app, at_ms in arrivals]


ADAPTIVE: dict[str, Any] = {"target_per_minute": 40, "rules": [rule("a", match={"app": "a"}, target_per_minute=20)]}


def test_the_same_records_with_the_same_step_log_are_decided_the_same(tmp_path: Path) -> None:
    log = str(tmp_path / "steps.jsonl")
    live = policy(**ADAPTIVE, step_log=log)
    decisions = [live.decide(record) for record in stream()]
    live.close()
    assert len(list(read_step_log(Path(log)))) > 6
    replayed = policy(**ADAPTIVE, replay_steps=log)
    assert [replayed.decide(record) for record in stream()] == decisions
    other_order = list(zip(stream(), decisions, strict=True))
    random.Random(2).shuffle(other_order)
    again = policy(**ADAPTIVE, replay_steps=log)
    assert all(again.decide(record) == decision for record, decision in other_order)


def test_a_restart_resumes_with_the_last_rate(tmp_path: Path) -> None:
    log = str(tmp_path / "steps.jsonl")
    records = stream()
    first = policy(**ADAPTIVE, step_log=log)
    before = [first.decide(record).probability for record in records[:2000] if b'"app": "a"' in (record.value or b"")]
    first.close()
    second = policy(**ADAPTIVE, step_log=log)
    assert second.decide(facts(app="a", at_ms=records[1999].at_ms)).probability == before[-1]
    second.close()


def test_an_invalid_step_log_stops_the_stage_with_a_reason(tmp_path: Path) -> None:
    broken = tmp_path / "steps.jsonl"
    broken.write_text("x\n")
    with pytest.raises(StageError, match=r"sampling\.step_log: .*line 1 is not a step"):
        policy(target_per_minute=5, step_log=str(broken))


def test_a_step_log_with_an_incomplete_last_line_does_not_prevent_the_start(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    log.write_bytes('{"at_ms": 1, "rule": "default", "k": 8}\n{"at_ms": 2, "rule": "соль'.encode()[:-1])
    subject = policy(target_per_minute=5, min_rate=0.2, step_log=str(log))
    assert subject.decide(facts()).probability == 0.25
    for number in range(100):
        subject.decide(facts(at_ms=START + number * MINUTE))
    subject.close()
    steps = list(read_step_log(log))
    assert steps[0] == (1, DEFAULT_RULE, 8)
    assert len(steps) > 1, "an added step starts a new line"


def test_a_log_to_replay_must_be_complete(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    log.write_text('{"at_ms": 1, "rule": "default", "k": 8}\n{"at_ms": 2')
    config = SamplingConfig().model_copy(update={"replay_steps": str(log)})
    with pytest.raises(StageError, match=r"sampling\.replay_steps: .*line 2 is not a step"):
        SamplingPolicy(config, InputConfig())


def test_a_policy_shares_targets_and_caps_with_the_other_processes() -> None:
    subject = policy(target_per_minute=60, max_per_minute=10)
    assert subject.share == 1.0
    subject.share = 0.25
    assert subject.share == 0.25
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="share"):
            subject.share = wrong


# Caps


def test_records_over_the_cap_are_shed_and_every_minute_starts_over() -> None:
    subject = policy(rate=1.0, max_per_minute=3)
    first = [subject.decide(facts(f"{number}", at_ms=START + number)).outcome for number in range(5)]
    assert first == [SamplingOutcome.SAMPLED] * 3 + [SamplingOutcome.SHED] * 2
    assert subject.decide(facts(at_ms=START + MINUTE)).outcome is SamplingOutcome.SAMPLED
    assert subject.decide(facts(at_ms=START)).outcome is SamplingOutcome.SHED, "a late record counts for its own minute"


def test_records_not_chosen_do_not_count_for_the_cap_and_rules_have_separate_caps() -> None:
    subject = policy(rate=0.5, max_per_minute=5, rules=[rule("r", 1.0, match={"app": "x"}, max_per_minute=1)])
    outcomes = [subject.decide(facts(f"{number}")).outcome for number in range(100)]
    assert outcomes.count(SamplingOutcome.SAMPLED) == 5
    expected = [COHORT.draw(f"{number}") < 0.5 for number in range(100)]
    assert [outcome is not SamplingOutcome.SAMPLED_OUT for outcome in outcomes] == expected
    assert [subject.decide(facts(f"{number}", app="x")).outcome for number in range(2)] == [
        SamplingOutcome.SAMPLED,
        SamplingOutcome.SHED,
    ]


def test_a_share_of_the_cap_is_at_least_one() -> None:
    for share, allowed in ((0.5, 5), (0.01, 1), (0.0, 1)):
        subject = policy(rate=1.0, max_per_minute=10)
        subject.share = share
        outcomes = [subject.decide(facts(f"{number}")).outcome for number in range(20)]
        assert outcomes.count(SamplingOutcome.SAMPLED) == allowed


# Times set by a producer


class Clock:
    """A manual wall clock, in seconds."""

    def __init__(self) -> None:
        self.now = START / 1000

    def __call__(self) -> float:
        return self.now


def policy_at(clock: Clock, **config: Any) -> SamplingPolicy:
    return SamplingPolicy(SamplingConfig.model_validate(config), InputConfig(), clock=clock)


def count_sampled(subject: SamplingPolicy, times: Iterable[int]) -> int:
    decisions = (subject.decide(facts(f"{at_ms}", at_ms=at_ms, is_broker_time=False)) for at_ms in times)
    return sum(decision.chosen for decision in decisions)


@pytest.mark.parametrize("step", [MINUTE, -MINUTE, 1_000 * MINUTE, -1_000 * MINUTE])
def test_a_producer_cannot_escape_a_cap_by_the_times_of_its_records(step: int) -> None:
    """Of 5,000 records at once, each in a different minute, only those of plausible minutes can pass."""
    times = [START + number * step for number in range(5000)]
    random.Random(3).shuffle(times)
    clock = Clock()
    subject = policy_at(clock, rate=1.0, max_per_minute=1)
    assert 1 <= count_sampled(subject, times) <= 12
    clock.now += 60
    assert count_sampled(subject, times) <= 2


def test_a_producer_cannot_raise_an_adaptive_rate_by_the_times_of_its_records() -> None:
    """6,000 records a minute count as that, even if their times claim one an hour."""
    clock = Clock()
    subject = policy_at(clock, target_per_minute=60)
    for number in range(12_000):
        clock.now += 0.01
        decision = subject.decide(facts(f"{number}", at_ms=START + number * 60 * MINUTE, is_broker_time=False))
    assert 0.005 < decision.probability < 0.02


def test_a_record_that_is_a_few_minutes_late_counts_for_its_own_minute() -> None:
    subject = policy_at(Clock(), rate=1.0, max_per_minute=1)
    assert count_sampled(subject, [START, START - 9 * MINUTE, START - 9 * MINUTE]) == 2


def test_times_set_by_the_broker_are_trusted_whatever_their_age() -> None:
    subject = policy_at(Clock(), rate=1.0, max_per_minute=1)
    assert all(subject.decide(facts(f"{hour}", at_ms=START - hour * 60 * MINUTE)).chosen for hour in range(24))


@pytest.mark.parametrize("no_time", [0, -1])
def test_records_without_a_time_count_for_the_minute_of_their_arrival(no_time: int) -> None:
    clock = Clock()
    subject = policy_at(clock, rate=1.0, max_per_minute=2)
    assert count_sampled(subject, [no_time] * 4) == 2
    clock.now += 60
    assert count_sampled(subject, [no_time] * 3) == 2


def test_memory_does_not_grow_with_minutes() -> None:
    cap = Cap(1)
    for number in range(1000):
        cap.take(START + number * MINUTE)
    assert len(cap._counts) <= 128


def test_memory_does_not_grow_with_the_number_of_apps() -> None:
    subject = policy(rate=0.5, rules=[rule(name, 0.5, match={"tenant": name}) for name in ("a", "b", "c", "d")])
    for number in range(25_000):
        decision = subject.decide(facts(f"{number}", app=f"app-{number}", tenant="abcde"[number % 5]))
        assert decision.app == f"app-{number}"
    plans = (*subject._plans, subject._default)
    cached = sum(len(part) for plan in plans for part in plan._decisions._kept.values())
    assert 0 < cached <= 16_384


# Explaining


def test_an_explanation_lists_the_tried_rules_and_agrees_with_the_decision() -> None:
    config: dict[str, Any] = {
        "rate": 0.5,
        "safety": SAFETY,
        "rules": [
            rule("off", 0.0, match={"app": "off"}),
            rule("vip", 0.9, match={"app": "shop", "tags": {"tier": "gold"}}, max_per_minute=7),
        ],
    }
    for fields in ({"app": "off"}, {"app": "shop", "tags": {"tier": "gold"}}, {"app": "shop"}, BAD):
        explanation = policy(**config).explain(facts(**fields))
        assert explanation.decision == policy(**config).decide(facts(**fields))
        assert explanation.draw == COHORT.draw("id-1")
    vip = policy(**config).explain(facts(app="shop", tags={"tier": "gold"}))
    assert [(attempt.rule, attempt.matched) for attempt in vip.tried] == [("off", False), ("vip", True)]
    assert vip.tried[0].why == "app is not off (it is shop)"
    assert (vip.max_per_minute, vip.bounds) == (7, None)
    assert policy(**config).explain(facts(app="off", **BAD)).triggers == {}


def test_an_explanation_checks_triggers_only_if_the_decision_does() -> None:
    """Parsing the record for them could fail although the decision does not need it."""
    subject = policy(rate=0.1, safety=SAFETY, rules=[rule("all", 1.0, match={"headers": {"x": "y"}})])
    unreadable = facts(value=b"no json", headers=(("x", b"y"),))
    explanation = subject.explain(unreadable)
    assert (explanation.decision, explanation.triggers) == (subject.decide(unreadable), {})
    assert set(subject.explain(facts()).triggers) == {"thumbs_down", "empty_contexts"}


def test_an_explanation_says_whether_the_current_rate_is_known(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    assert policy(rate=0.5).explain(facts()).rate_known
    assert not policy(target_per_minute=5).explain(facts()).rate_known
    assert not policy(target_per_minute=5, step_log=str(log)).explain(facts()).rate_known
    log.write_text('{"at_ms": 1, "rule": "default", "k": 8}\n')
    assert policy(target_per_minute=5, step_log=str(log)).explain(facts()).rate_known
    assert policy(target_per_minute=5, replay_steps=str(log)).explain(facts()).rate_known


def test_explaining_changes_no_state(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    subject = policy(target_per_minute=60, min_rate=0.01, max_per_minute=1, step_log=str(log))
    for number in range(200):
        explanation = subject.explain(facts(f"{number}", at_ms=START + number * MINUTE))
    lowest, highest = explanation.bounds or (0.0, 0.0)
    assert 0.01 <= lowest < 0.012
    assert (explanation.decision.probability, highest) == (lowest, 1.0)
    assert not log.exists()
