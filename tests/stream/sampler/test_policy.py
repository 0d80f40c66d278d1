"""The policy: the first rule or the default, safety above it, rates in force, caps, and no needless reading."""

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
    at: int = START,
    is_broker_time: bool = True,
    **fields: Any,
) -> LazyRecord:
    body = {"id": key, "question": "q", "answer": "a", **fields} if value is None else value
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return LazyRecord(key.encode() if key is not None else None, encoded, at, headers, is_broker_time=is_broker_time)


def rule(name: str, rate: float | None = None, *, match: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "match": match, **({} if rate is None else {"rate": rate}), **more}


def decided(subject: SamplingPolicy, **fields: Any) -> tuple[str, float, str]:
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
    assert decided(subject, app="test") == ("drop-tests", 0.0, "main")
    assert decided(subject, app="shop", tenant="globex") == ("vip", 1.0, "gold")
    assert decided(subject, app="shop", tenant="other") == ("shop", 0.5, "main")
    assert decided(subject, app="docs", headers=(("x-env", b"live"),)) == ("live", 0.25, "main")
    assert decided(subject, app="docs", tenant="acme") == (DEFAULT_RULE, 0.1, "main")
    assert decided(subject) == (DEFAULT_RULE, 0.1, "main")


def test_a_decision_says_why() -> None:
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
        rate: {policy(rate=rate).decide(facts(f"id-{at}")).outcome for at in range(50)} for rate in (0.0, 0.5, 1.0)
    }
    assert outcomes == {
        0.0: {SamplingOutcome.FILTERED},
        0.5: {SamplingOutcome.SAMPLED, SamplingOutcome.SAMPLED_OUT},
        1.0: {SamplingOutcome.SAMPLED},
    }


@given(ids, rates, rates)
def test_raising_a_rate_keeps_what_was_chosen_by_default_or_by_rule(identity: str, one: float, two: float) -> None:
    low, high = sorted((one, two))
    rules = [rule("r", high, match={"app": {"exists": True}})]
    if policy(rate=low).decide(facts(identity)).chosen:
        assert policy(rate=high).decide(facts(identity)).chosen
        assert policy(rate=0.0, rules=rules).decide(facts(identity, app="x")).chosen


@given(ids, rates)
def test_the_choice_is_the_draw_below_the_rate(identity: str, rate: float) -> None:
    assert policy(rate=rate).decide(facts(identity)).chosen == (COHORT.draw(identity) < rate)


def test_another_salt_chooses_others() -> None:
    plain, salted = policy(rate=0.5), policy(rate=0.5, salt="other")
    pairs = [(plain.decide(facts(f"{at}")).chosen, salted.decide(facts(f"{at}")).chosen) for at in range(2000)]
    assert abs(sum(one == two for one, two in pairs) - 1000) < 4 * math.sqrt(500)


# Ids


def test_a_record_is_drawn_by_its_key_and_without_one_by_the_id_in_it() -> None:
    subject = policy(rate=0.5)
    for identity in ("id-1", "вопрос-42", "🙂"):
        keyed = subject.decide(LazyRecord(identity.encode(), b"not looked at", 0))
        assert keyed == subject.decide(facts(None, value={"id": identity, "question": "q", "answer": "a"}))
        assert keyed.outcome is subject.decide(LazyRecord(b"", facts(identity).value, 0)).outcome
        assert subject.record_id(facts(None, value={"id": identity})) == identity.encode()


def test_the_id_in_the_body_counts_where_the_configuration_says_so() -> None:
    by_body = policy(rate=0.5, id="body")
    assert by_body.fixed is None
    assert by_body.record_id(LazyRecord(b"key", b'{"id": "body"}', 0)) == b"body"
    assert policy(MAPPED, id="body").record_id(facts("key", value={"req": {"id": "x"}})) == b"x"


def test_a_number_is_an_id_where_the_adapter_reads_it_as_one() -> None:
    value = {"req": {"id": 17}, "q": "q", "a": "a"}
    assert policy(MAPPED).record_id(facts(None, value=value)) == b"17"
    with pytest.raises(RecordError, match="id: "):
        policy().record_id(facts(None, value={"id": 17, "question": "q", "answer": "a"}))


@pytest.mark.parametrize("identity", [None, "", "x" * 513, 5, ["a"]])
def test_a_record_without_a_usable_id_is_refused_in_the_words_of_the_reader(identity: object) -> None:
    with pytest.raises(RecordError) as caught:
        policy(rate=0.5).decide(facts(None, value={"id": identity, "question": "q", "answer": "a"}))
    assert caught.value.kind == "invalid_record"


# How much is read


def test_one_rate_for_all_is_decided_by_the_key_alone() -> None:
    fixed = policy(rate=0.3).fixed
    assert fixed is not None
    assert (fixed.chosen.rule, fixed.chosen.lane, fixed.chosen.probability) == (DEFAULT_RULE, "main", 0.3)
    assert (fixed.chosen.outcome, fixed.left_out.outcome) == (SamplingOutcome.SAMPLED, SamplingOutcome.SAMPLED_OUT)
    for at in range(200):
        assert fixed.chooses(b"id-%d" % at) == policy(rate=0.3).decide(facts(f"id-{at}")).chosen


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
def test_whatever_needs_more_than_the_key_is_not_decided_by_it_alone(config: dict[str, Any]) -> None:
    assert policy(**config).fixed is None


def test_rules_on_headers_never_read_the_value_and_leave_the_app_unknown() -> None:
    subject = policy(rate=1.0, rules=[rule("r", 1.0, match={"headers": {"x": {"exists": True}}})])
    for headers in ((("x", b""),), ()):
        assert subject.decide(LazyRecord(b"k", b"no json", 0, headers)).app is None


def test_the_app_is_told_wherever_the_value_was_read() -> None:
    subject = policy(rules=[rule("r", 1.0, match={"body": {"x": 1}})])
    assert subject.decide(facts(app="shop")).app == "shop"
    assert subject.decide(facts(app=["shop"])).app is None
    assert policy(MAPPED, rules=[rule("r", 1.0, match={"app": "s"})]).decide(facts("k", value={"svc": "t"})).app == "t"


def test_a_value_that_cannot_be_read_is_refused_where_a_rule_needs_it() -> None:
    with pytest.raises(RecordError, match="not JSON"):
        policy(rules=[rule("r", 1.0, match={"app": "x"})]).decide(facts(value=b"{"))


# Safety


SAFETY = {"rate": 0.8, "triggers": ["thumbs_down", "empty_contexts"]}
BAD: dict[str, Any] = {"tags": {"thumbs": "down"}}


def test_a_sign_of_trouble_gives_a_record_the_safety_rate_and_lane() -> None:
    subject = policy(rate=0.1, safety=SAFETY)
    assert decided(subject, **BAD) == ("safety", 0.8, "safety")
    assert decided(subject) == (DEFAULT_RULE, 0.1, "main")
    assert subject.decide(facts(**BAD)).why == "safety: thumbs_down"
    assert decided(policy(rate=0.1, safety={**SAFETY, "lane": "red"}), contexts=[]) == ("safety", 0.8, "red")


def test_a_rule_with_as_high_a_rate_keeps_its_records() -> None:
    for rate in (0.8, 1.0):
        assert decided(policy(rate=rate, safety=SAFETY), **BAD) == (DEFAULT_RULE, rate, "main")


def test_what_is_filtered_stays_filtered() -> None:
    subject = policy(rate=0.1, safety=SAFETY, rules=[rule("off", 0.0, match={"app": "x"})])
    assert subject.decide(facts(app="x", **BAD)).outcome is SamplingOutcome.FILTERED


@given(ids, rates, rates)
def test_the_safety_lane_keeps_all_that_the_rule_would_have_chosen(identity: str, rate: float, safety: float) -> None:
    plain = policy(rate=rate).decide(facts(identity, **BAD))
    safe = policy(rate=rate, safety={**SAFETY, "rate": safety}).decide(facts(identity, **BAD))
    if plain.chosen:
        assert safe.chosen
    assert safe.probability == (max(rate, safety) if rate > 0 else 0.0)
    assert safe.chosen == (COHORT.draw(identity) < safe.probability)


def test_an_adaptive_rule_loses_records_to_safety_only_where_its_rate_is_lower() -> None:
    subject = policy(target_per_minute=6000, safety=SAFETY)
    assert decided(subject, **BAD)[0] == "safety"
    for number in range(600):
        subject.decide(facts(at=START + number * 100))
    assert decided(subject, at=START + MINUTE, **BAD) == (DEFAULT_RULE, 1.0, "main")


@pytest.mark.parametrize("rate", [0.8, 0.3])
def test_a_cap_sheds_nothing_that_the_safety_lane_is_to_see(rate: float) -> None:
    subject = policy(rules=[rule("r", rate, match={"app": "x"}, max_per_minute=1)], safety=SAFETY)
    for at in range(100):
        found = subject.decide(facts(f"{at}", app="x", **BAD))
        assert (found.rule, found.probability) == ("safety", 0.8)
        assert found.outcome is (SamplingOutcome.SAMPLED if COHORT.draw(f"{at}") < 0.8 else SamplingOutcome.SAMPLED_OUT)
    plain = [subject.decide(facts(f"{at}", app="x")).outcome for at in range(100)]
    assert plain.count(SamplingOutcome.SAMPLED) == 1
    assert SamplingOutcome.SHED in plain


def test_a_target_with_a_cap_gives_its_records_to_safety_whatever_its_rate_is() -> None:
    subject = policy(target_per_minute=6000, max_per_minute=5, safety={**SAFETY, "rate": 1.0})
    for number in range(1200):
        found = subject.decide(facts(f"{number}", at=START + number * 50, **(BAD if number % 2 else {})))
        assert found.rule == (DEFAULT_RULE, "safety")[number % 2]
        if number % 2:
            assert (found.outcome, found.probability) == (SamplingOutcome.SAMPLED, 1.0)
    assert subject.decide(facts(at=START + MINUTE)).probability == 1.0, "the rates were equal in the end"


def test_a_capped_rule_with_a_higher_rate_than_safety_keeps_its_records() -> None:
    assert decided(policy(rate=0.9, max_per_minute=5, safety=SAFETY), **BAD) == (DEFAULT_RULE, 0.9, "main")


def test_a_suspicious_record_that_brings_the_rate_down_does_not_suffer_by_it(tmp_path: Path) -> None:
    """The rate is high enough until the record itself, the first of its moment, shows that there is a flood."""
    log = str(tmp_path / "steps.jsonl")
    adaptive: dict[str, Any] = {"target_per_minute": 60, "safety": SAFETY}
    subject = policy(**adaptive, step_log=log)
    for number in range(120):
        subject.decide(facts(at=START + number * 5000))
    begin = START + 120 * 5000
    for number in range(5000):
        subject.decide(facts(at=begin + number % 2000))
    record = facts("id-1", at=begin + 2000, **BAD)
    assert policy(**adaptive, step_log=log).explain(record).decision.rule == DEFAULT_RULE, "before it was counted"
    found = subject.decide(record)
    subject.close()
    assert (found.rule, found.probability) == ("safety", 0.8)
    assert policy(**adaptive, replay_steps=log).decide(record) == found


# Adaptive rates


def test_the_rate_in_force_is_the_probability_and_meets_the_target() -> None:
    subject = policy(rules=[rule("busy", match={"app": "shop"}, target_per_minute=60)])
    decisions = [subject.decide(facts(f"id-{at}", app="shop", at=START + at * 50)) for at in range(6000)]
    late = decisions[1200:]
    assert 0.7 * 60 < sum(each.chosen for each in late) / 4 < 1.4 * 60
    assert {each.probability for each in decisions} <= {rate_of(step) for step in range(80)}
    for number, each in enumerate(decisions):
        assert each.chosen == (COHORT.draw(f"id-{number}") < each.probability)


def stream(seed: int = 1) -> list[LazyRecord]:
    """Traffic that rises and falls, a little out of order."""
    rng, at = random.Random(seed), START
    found: list[tuple[str, str, int]] = []
    for per_minute in (300, 3000, 100):
        end = at + 2 * MINUTE
        while at < end:
            at += max(1, int(rng.expovariate(per_minute / MINUTE)))
            found.append((f"id-{len(found)}", rng.choice("ab"), at - rng.choice((0, 0, 0, 4000))))
    return [facts(key, app=app, at=when) for key, app, when in found]


ADAPTIVE: dict[str, Any] = {"target_per_minute": 40, "rules": [rule("a", match={"app": "a"}, target_per_minute=20)]}


def test_the_same_records_with_the_same_step_log_are_decided_the_same(tmp_path: Path) -> None:
    log = str(tmp_path / "steps.jsonl")
    live = policy(**ADAPTIVE, step_log=log)
    decisions = [live.decide(each) for each in stream()]
    live.close()
    assert len(list(read_step_log(Path(log)))) > 6
    replayed = policy(**ADAPTIVE, replay_steps=log)
    assert [replayed.decide(each) for each in stream()] == decisions
    other_order = list(zip(stream(), decisions, strict=True))
    random.Random(2).shuffle(other_order)
    again = policy(**ADAPTIVE, replay_steps=log)
    assert all(again.decide(each) == decision for each, decision in other_order)


def test_a_restart_goes_on_with_the_rate_that_was_in_force(tmp_path: Path) -> None:
    log = str(tmp_path / "steps.jsonl")
    records = stream()
    first = policy(**ADAPTIVE, step_log=log)
    before = [first.decide(each).probability for each in records[:2000] if b'"app": "a"' in (each.value or b"")]
    first.close()
    second = policy(**ADAPTIVE, step_log=log)
    assert second.decide(facts(app="a", at=records[1999].at_ms)).probability == before[-1]
    second.close()


def test_a_step_log_that_cannot_be_used_ends_the_stage_with_a_reason(tmp_path: Path) -> None:
    broken = tmp_path / "steps.jsonl"
    broken.write_text("x\n")
    with pytest.raises(StageError, match=r"sampling\.step_log: .*line 1 is not a step"):
        policy(target_per_minute=5, step_log=str(broken))


def test_a_step_log_whose_last_line_was_cut_short_does_not_keep_the_stage_from_starting(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    log.write_bytes('{"at_ms": 1, "rule": "default", "k": 8}\n{"at_ms": 2, "rule": "соль'.encode()[:-1])
    subject = policy(target_per_minute=5, min_rate=0.2, step_log=str(log))
    assert subject.decide(facts()).probability == 0.25
    for number in range(100):
        subject.decide(facts(at=START + number * MINUTE))
    subject.close()
    steps = list(read_step_log(log))
    assert steps[0] == (1, DEFAULT_RULE, 8)
    assert len(steps) > 1, "what was added begins a line of its own"


def test_a_log_to_replay_must_be_whole(tmp_path: Path) -> None:
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


def test_more_than_the_cap_is_shed_and_every_minute_begins_anew() -> None:
    subject = policy(rate=1.0, max_per_minute=3)
    first = [subject.decide(facts(f"{at}", at=START + at)).outcome for at in range(5)]
    assert first == [SamplingOutcome.SAMPLED] * 3 + [SamplingOutcome.SHED] * 2
    assert subject.decide(facts(at=START + MINUTE)).outcome is SamplingOutcome.SAMPLED
    assert subject.decide(facts(at=START)).outcome is SamplingOutcome.SHED, "a late record counts for its own minute"


def test_what_is_not_chosen_does_not_count_for_the_cap_and_rules_have_their_own() -> None:
    subject = policy(rate=0.5, max_per_minute=5, rules=[rule("r", 1.0, match={"app": "x"}, max_per_minute=1)])
    outcomes = [subject.decide(facts(f"{at}")).outcome for at in range(100)]
    assert outcomes.count(SamplingOutcome.SAMPLED) == 5
    expected = [COHORT.draw(f"{at}") < 0.5 for at in range(100)]
    assert [outcome is not SamplingOutcome.SAMPLED_OUT for outcome in outcomes] == expected
    assert [subject.decide(facts(f"{at}", app="x")).outcome for at in range(2)] == [
        SamplingOutcome.SAMPLED,
        SamplingOutcome.SHED,
    ]


def test_a_share_of_the_cap_is_at_least_one() -> None:
    for share, allowed in ((0.5, 5), (0.01, 1), (0.0, 1)):
        subject = policy(rate=1.0, max_per_minute=10)
        subject.share = share
        outcomes = [subject.decide(facts(f"{at}")).outcome for at in range(20)]
        assert outcomes.count(SamplingOutcome.SAMPLED) == allowed


# Times that a producer chose


class Clock:
    """The wall clock, in seconds."""

    def __init__(self) -> None:
        self.now = START / 1000

    def __call__(self) -> float:
        return self.now


def policy_at(clock: Clock, **config: Any) -> SamplingPolicy:
    return SamplingPolicy(SamplingConfig.model_validate(config), InputConfig(), clock=clock)


def sampled_under_cap(subject: SamplingPolicy, times: Iterable[int]) -> int:
    decisions = (subject.decide(facts(f"{at}", at=at, is_broker_time=False)) for at in times)
    return sum(decision.chosen for decision in decisions)


@pytest.mark.parametrize("step", [MINUTE, -MINUTE, 1_000 * MINUTE, -1_000 * MINUTE])
def test_a_producer_cannot_escape_a_cap_by_the_times_of_its_records(step: int) -> None:
    """Of 5,000 records at once, each in a minute of its own, no more pass than the believable minutes allow."""
    times = [START + number * step for number in range(5000)]
    random.Random(3).shuffle(times)
    clock = Clock()
    subject = policy_at(clock, rate=1.0, max_per_minute=1)
    assert 1 <= sampled_under_cap(subject, times) <= 12
    clock.now += 60
    assert sampled_under_cap(subject, times) <= 2


def test_a_producer_cannot_raise_an_adaptive_rate_by_the_times_of_its_records() -> None:
    """6,000 a minute stay 6,000 a minute, though their times say one an hour."""
    clock = Clock()
    subject = policy_at(clock, target_per_minute=60)
    for number in range(12_000):
        clock.now += 0.01
        found = subject.decide(facts(f"{number}", at=START + number * 60 * MINUTE, is_broker_time=False))
    assert 0.005 < found.probability < 0.02


def test_a_record_that_is_a_few_minutes_late_counts_for_its_own_minute() -> None:
    subject = policy_at(Clock(), rate=1.0, max_per_minute=1)
    assert sampled_under_cap(subject, [START, START - 9 * MINUTE, START - 9 * MINUTE]) == 2


def test_times_that_the_broker_set_are_believed_however_long_ago_they_are() -> None:
    subject = policy_at(Clock(), rate=1.0, max_per_minute=1)
    assert all(subject.decide(facts(f"{hour}", at=START - hour * 60 * MINUTE)).chosen for hour in range(24))


@pytest.mark.parametrize("none", [0, -1])
def test_records_without_a_time_count_for_the_minute_in_which_they_come(none: int) -> None:
    clock = Clock()
    subject = policy_at(clock, rate=1.0, max_per_minute=2)
    assert sampled_under_cap(subject, [none] * 4) == 2
    clock.now += 60
    assert sampled_under_cap(subject, [none] * 3) == 2


def test_memory_does_not_grow_with_minutes() -> None:
    cap = Cap(1)
    for at in range(1000):
        cap.take(START + at * MINUTE)
    assert len(cap._counts) <= 128


def test_memory_does_not_grow_with_apps_however_many_rules_and_outcomes_there_are() -> None:
    subject = policy(rate=0.5, rules=[rule(name, 0.5, match={"tenant": name}) for name in ("a", "b", "c", "d")])
    for at in range(25_000):
        found = subject.decide(facts(f"{at}", app=f"app-{at}", tenant="abcde"[at % 5]))
        assert found.app == f"app-{at}"
    plans = (*subject._plans, subject._default)
    kept = sum(len(part) for plan in plans for part in plan._decisions._kept.values())
    assert 0 < kept <= 16_384


# Explaining


def test_an_explanation_tells_the_rules_tried_and_comes_to_the_decision_made() -> None:
    config: dict[str, Any] = {
        "rate": 0.5,
        "safety": SAFETY,
        "rules": [
            rule("off", 0.0, match={"app": "off"}),
            rule("vip", 0.9, match={"app": "shop", "tags": {"tier": "gold"}}, max_per_minute=7),
        ],
    }
    for fields in ({"app": "off"}, {"app": "shop", "tags": {"tier": "gold"}}, {"app": "shop"}, BAD):
        found = policy(**config).explain(facts(**fields))
        assert found.decision == policy(**config).decide(facts(**fields))
        assert found.draw == COHORT.draw("id-1")
    vip = policy(**config).explain(facts(app="shop", tags={"tier": "gold"}))
    assert [(each.rule, each.matched) for each in vip.tried] == [("off", False), ("vip", True)]
    assert vip.tried[0].why == "app is not off (it is shop)"
    assert (vip.max_per_minute, vip.bounds) == (7, None)
    assert policy(**config).explain(facts(app="off", **BAD)).triggers == {}


def test_an_explanation_looks_at_triggers_only_where_the_decision_does() -> None:
    """Reading the record for them could fail where deciding about it does not."""
    subject = policy(rate=0.1, safety=SAFETY, rules=[rule("all", 1.0, match={"headers": {"x": "y"}})])
    unreadable = facts(value=b"no json", headers=(("x", b"y"),))
    found = subject.explain(unreadable)
    assert (found.decision, found.triggers) == (subject.decide(unreadable), {})
    assert set(subject.explain(facts()).triggers) == {"thumbs_down", "empty_contexts"}


def test_an_explanation_says_whether_it_knows_the_rate_in_force(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    assert policy(rate=0.5).explain(facts()).rate_known
    assert not policy(target_per_minute=5).explain(facts()).rate_known
    assert not policy(target_per_minute=5, step_log=str(log)).explain(facts()).rate_known
    log.write_text('{"at_ms": 1, "rule": "default", "k": 8}\n')
    assert policy(target_per_minute=5, step_log=str(log)).explain(facts()).rate_known
    assert policy(target_per_minute=5, replay_steps=str(log)).explain(facts()).rate_known


def test_explaining_counts_nothing(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    subject = policy(target_per_minute=60, min_rate=0.01, max_per_minute=1, step_log=str(log))
    for at in range(200):
        found = subject.explain(facts(f"{at}", at=START + at * MINUTE))
    lowest, highest = found.bounds or (0.0, 0.0)
    assert 0.01 <= lowest < 0.012
    assert (found.decision.probability, highest) == (lowest, 1.0)
    assert not log.exists()
