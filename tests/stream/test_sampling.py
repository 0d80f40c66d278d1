"""The sampling decision: fixed for ever by id and salt, uniform, nested in the rate, and by the first rule."""

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.interaction import Interaction
from stream.config import SamplingConfig
from stream.sampling import DEFAULT_RULE, Decision, SamplingPolicy, draw, salt_key

DEFAULT_SALT = "streamjury"
KEY = salt_key(DEFAULT_SALT)
MANY = 20_000

# Computed once. A change here changes who is chosen in every installation: it needs a new DECISION_VERSION.
GOLDEN = {
    "0": "0x1.9c0d697bb1accp-1",
    "1": "0x1.408674e52cbfcp-2",
    "2": "0x1.2099530f14042p-1",
    "3": "0x1.80342195c9f57p-1",
    "a": "0x1.0080837fb517cp-3",
    "A": "0x1.4ddb6dd627147p-1",
    "id-000001": "0x1.4a86b9bbda880p-5",
    "id-000002": "0x1.5d27890c23dc4p-2",
    "id-000003": "0x1.d7e9132febeb3p-1",
    "order/2024/17": "0x1.6ad2efc3a5ad4p-3",
    "user@example.org": "0x1.492363f398ca9p-1",
    "550e8400-e29b-41d4-a716-446655440000": "0x1.a37443eb20be8p-3",
    "  spaced  ": "0x1.808c72c02ea20p-3",
    "line\nbreak": "0x1.7014145845b41p-1",
    "вопрос-42": "0x1.4481facf5beb8p-2",
    "問い": "0x1.82e205c28ee10p-2",
    "🙂": "0x1.9fd33c282a6b9p-1",
    "e\u0301": "0x1.6d53a1d069ad5p-1",
    "\u00e9": "0x1.77838c0c6ad8ap-2",
    "x" * 512: "0x1.831269d7fd28ep-2",
}


def interaction(identity: str = "id-1", **fields: Any) -> Interaction:
    return Interaction.model_validate({"id": identity, "question": "q", "answer": "a", **fields})


def policy(**config: Any) -> SamplingPolicy:
    return SamplingPolicy(SamplingConfig.model_validate(config))


def rule(name: str, rate: float, lane: str = "main", **match: list[str]) -> dict[str, Any]:
    return {"name": name, "rate": rate, "lane": lane, "match": match}


@pytest.mark.parametrize("identity", GOLDEN, ids=lambda identity: ascii(identity)[:40])
def test_draws_of_the_default_salt_are_fixed_for_ever(identity: str) -> None:
    assert draw(identity, KEY).hex() == GOLDEN[identity]


def test_the_default_salt_is_the_one_of_the_golden_draws() -> None:
    assert len(GOLDEN) == 20
    for identity, drawn in GOLDEN.items():
        at = float.fromhex(drawn)
        assert not policy(rate=at).decide(interaction(identity)).chosen
        assert policy(rate=math.nextafter(at, 1.0)).decide(interaction(identity)).chosen


@given(st.text(), st.text(min_size=1, max_size=200))
def test_a_draw_is_a_multiple_of_2_to_the_minus_53_in_0_to_1(identity: str, salt: str) -> None:
    drawn = draw(identity, salt_key(salt.encode("utf-8", "replace").decode()))
    assert 0.0 <= drawn < 1.0
    assert (drawn * 2**53).is_integer()


def test_draws_are_uniform() -> None:
    draws = [draw(f"id-{at}", KEY) for at in range(MANY)]
    assert abs(statistics.fmean(draws) - 0.5) < 4 * math.sqrt(1 / 12 / MANY)
    counts = [sum(at <= 20 * drawn < at + 1 for drawn in draws) for at in range(20)]
    # Chi squared with 19 degrees of freedom: 1 in 100,000 is above 55.
    assert sum((count - MANY / 20) ** 2 / (MANY / 20) for count in counts) < 55


@pytest.mark.parametrize("salt", ["streamjury2", "Streamjury", "streamjury ", "другая соль", "x" * 200])
def test_draws_of_two_salts_are_independent(salt: str) -> None:
    other = salt_key(salt)
    pairs = [(draw(f"id-{at}", KEY), draw(f"id-{at}", other)) for at in range(MANY)]
    assert abs(statistics.correlation(*zip(*pairs, strict=True))) < 4 / math.sqrt(MANY)
    both = sum(one < 0.1 and two < 0.1 for one, two in pairs)
    assert abs(both - 0.01 * MANY) < 4 * math.sqrt(0.01 * 0.99 * MANY)


rates = st.floats(min_value=0.0, max_value=1.0)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50), rates, rates)
def test_raising_the_rate_keeps_what_was_chosen(identity: str, one: float, two: float) -> None:
    low, high = sorted((one, two))
    if policy(rate=low).decide(interaction(identity)).chosen:
        assert policy(rate=high).decide(interaction(identity)).chosen


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_the_share_chosen_is_the_rate(rate: float) -> None:
    decide = policy(rate=rate).decide
    chosen = sum(decide(interaction(f"id-{at}")).chosen for at in range(MANY))
    assert abs(chosen - rate * MANY) < 4 * math.sqrt(rate * (1 - rate) * MANY)


def test_rate_1_always_chooses_and_rate_0_filters() -> None:
    for identity in GOLDEN:
        assert policy(rate=1.0).decide(interaction(identity)) == Decision(
            chosen=True, probability=1.0, rule=DEFAULT_RULE, lane="main"
        )
        decision = policy(rate=0.0).decide(interaction(identity))
        assert (decision.chosen, decision.filtered) == (False, True)


def test_sampled_out_is_not_filtered() -> None:
    decisions = [policy(rate=0.5).decide(interaction(identity)) for identity in GOLDEN]
    assert not any(decision.filtered for decision in decisions)
    assert {decision.chosen for decision in decisions} == {True, False}


def test_the_first_rule_that_matches_decides() -> None:
    subject = policy(
        rate=0.1,
        rules=[
            rule("drop-tests", 0.0, app=["test"]),
            rule("vip", 1.0, lane="gold", app=["shop"], tenant=["acme", "globex"]),
            rule("shop", 0.5, app=["shop", "test"]),
        ],
    )

    def decided(**fields: str) -> tuple[str, float, str]:
        decision = subject.decide(interaction(**fields))
        return decision.rule, decision.probability, decision.lane

    assert decided(app="test") == ("drop-tests", 0.0, "main")
    assert decided(app="shop", tenant="globex") == ("vip", 1.0, "gold")
    assert decided(app="shop", tenant="other") == ("shop", 0.5, "main")
    assert decided(app="shop") == ("shop", 0.5, "main")
    assert decided(app="docs", tenant="acme") == (DEFAULT_RULE, 0.1, "main")
    assert decided() == (DEFAULT_RULE, 0.1, "main")


@pytest.mark.parametrize("name", ["app", "tenant", "model"])
def test_each_field_of_a_match_is_looked_at(name: str) -> None:
    subject = policy(rate=0.0, rules=[{"name": "r", "rate": 1.0, "match": {name: ["wanted"]}}])
    assert subject.decide(interaction(**{name: "wanted"})).rule == "r"
    assert subject.decide(interaction(**{name: "Wanted"})).rule == DEFAULT_RULE
    assert subject.decide(interaction()).rule == DEFAULT_RULE


@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=50),
    st.text(st.characters(codec="utf-8")),
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers()),
)
def test_the_choice_depends_on_the_id_alone(identity: str, words: str, tags: dict[str, int]) -> None:
    plain = policy(rate=0.3).decide(interaction(identity))
    assert policy(rate=0.3).decide(interaction(identity, question=words, answer=words, tags=tags)) == plain


def test_a_rule_draws_like_the_default_so_that_rates_nest_across_rules() -> None:
    ruled = policy(rate=0.0, rules=[rule("r", 0.3, app=["shop"])])
    for identity in GOLDEN:
        plain = policy(rate=0.3).decide(interaction(identity)).chosen
        assert ruled.decide(interaction(identity, app="shop")).chosen == plain
