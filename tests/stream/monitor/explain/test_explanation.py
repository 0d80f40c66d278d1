"""Explanations: when they name a likely driver of a drop, and which one."""

import random
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.values.evaluation import Evaluation
from sinks.metrics.detection import GOOD_SHARE
from stream.config.criteria import compose_criteria
from stream.config.model import Config
from stream.config.names import BACKFILL, CANARY
from stream.monitor.alerts.alert import Series
from stream.monitor.explain import OTHERS, RULES, CanaryTally, Explanation, by_model, by_time, explain
from stream.service.setup.criteria_files import load_chosen_criteria
from tests.stream.monitor.explain.invented import (
    FINGERPRINT,
    ONSET,
    SINCE,
    dimension,
    evaluation,
    tally_changes,
    traffic,
)

COMPOSITION = compose_criteria(load_chosen_criteria(Config().criteria), Config(composite={"weights": {}}).composite)
COMPOSITE_SERIES = Series(app="support-bot", dimension="composite")


def slices(explanation: Explanation, name: str) -> dict[str | None, float]:
    [attribute] = [candidate for candidate in explanation.attributes if candidate.name == name]
    return {part.value: part.contribution.value for part in attribute.slices}


class TestDriver:
    def test_the_one_model_that_fell_is_the_driver(self) -> None:
        explanation = explain(tally_changes(traffic()))
        assert explanation.driver is not None
        assert (explanation.driver.attribute, explanation.driver.part.value) == ("model", "model-2")
        assert explanation.attributes[0].name == "model"

    def test_a_drop_of_all_slices_has_no_driver(self) -> None:
        explanation = explain(tally_changes(traffic(bad="all", rate=0.5)))
        assert explanation.whole.change is not None
        assert explanation.whole.change.is_fall
        assert explanation.driver is None

    @pytest.mark.slow
    def test_evenly_spread_drops_rarely_have_a_driver(self) -> None:
        drivers = [explain(tally_changes(traffic(bad="all", rate=0.5, seed=seed))).driver for seed in range(40)]
        assert sum(driver is not None for driver in drivers) <= 4

    def test_without_a_drop_there_is_no_driver(self) -> None:
        assert explain(tally_changes(traffic(bad=None))).driver is None

    def test_few_scores_are_not_explained(self) -> None:
        explanation = explain(tally_changes(traffic(since=5)))
        assert (explanation.too_few, explanation.driver, explanation.attributes) == (True, None, ())

    def test_a_new_release_is_named_with_the_model_that_came_with_it(self) -> None:
        def add_release(record: Evaluation) -> Evaluation:
            release = "new" if record.model == "model-2" else "old"
            return record.model_copy(update={"tags": {**record.tags, "release": release}})

        explanation = explain(tally_changes(add_release(record) for record in traffic()))
        assert explanation.driver is not None
        names = {explanation.driver.attribute, *(name for name, _ in explanation.driver.likewise)}
        assert names == {"model", "tag release"}

    def test_a_growing_slice_whose_mean_did_not_fall_is_reported_but_is_not_the_driver(self) -> None:
        """A hard tenant grows from a tenth to a third of the traffic; no tenant's mean changes."""
        explanation = explain(
            tally_changes(tenant_traffic({"hard": (0.1, 0.2, 0.2), "easy": (0.9, 0.95, 0.95)}, growth={"hard": 0.33}))
        )
        assert (explanation.driver, explanation.arrival) == (None, None)
        assert explanation.grown is not None
        assert (explanation.grown[0], explanation.grown[1].value) == ("tenant", "hard")

    def test_weights_count(self) -> None:
        """The unweighted mean falls because of a risky rule, which is only a small share of the traffic."""
        usual = list(traffic(bad=None, before=200, since=200))
        risky = [
            evaluation(
                {"groundedness": 0.0}, evaluated_at=ONSET + timedelta(seconds=second), rule="risky", model="model-1"
            )
            for second in range(20)
        ]
        light = [
            record.model_copy(update={"sampling": record.sampling.model_copy(update={"probability": 0.01})})
            for record in usual
        ]
        explanation = explain(tally_changes([*light, *risky]))
        [share] = [
            part.shares[1]
            for attribute in explanation.attributes
            if attribute.name == "rule"
            for part in attribute.slices
            if part.value == "risky"
        ]
        assert share == pytest.approx(20 / (200 * 100 + 20))
        assert explanation.driver is None


def tenant_traffic(
    tenants: dict[str, tuple[float, float, float]], *, growth: dict[str, float], seed: int = 5
) -> Iterator[Evaluation]:
    """Yield traffic of tenants with (share before, pass rate before, pass rate since); `growth` has shares since."""
    rng = random.Random(seed)
    for number in range(800):
        is_since = number >= 500
        shares = [growth.get(name, 1.0 - sum(growth.values())) if is_since else tenants[name][0] for name in tenants]
        [tenant] = rng.choices([*tenants], shares)
        passes = rng.random() < tenants[tenant][2 if is_since else 1]
        yield evaluation(
            {"groundedness": float(passes)},
            evaluated_at=ONSET + timedelta(seconds=number - 500),
            tenant=tenant,
            model="m",
        )


def replacing_traffic(
    share: float = 1.0, *, old: float = 0.98, new: float = 0.7, early: float = 0.0
) -> Iterator[Evaluation]:
    """Yield traffic in which a new model and release take a share, with a few records before the onset."""
    rng = random.Random(11)
    for number in range(600):
        is_since = number >= 400
        is_new = rng.random() < (share if is_since else early)
        rate = new if is_new else old if is_since else 0.98
        yield evaluation(
            {"groundedness": float(rng.random() < rate)},
            evaluated_at=ONSET + timedelta(seconds=number - 400),
            model="m2" if is_new else "m1",
            tags={"release": "r2" if is_new else "r1", "region": rng.choice(("eu", "us"))},
        )


class TestArrival:
    @pytest.mark.parametrize(("share", "early"), [(1.0, 0.0), (1.0, 0.01), (0.5, 0.01), (0.9, 0.0)])
    def test_a_slice_that_arrived_with_the_drop_is_named_with_others_that_arrived_too(
        self, share: float, early: float
    ) -> None:
        explanation = explain(tally_changes(replacing_traffic(share, early=early)))
        assert explanation.arrival is not None
        assert (explanation.arrival.attribute, explanation.arrival.part.value) == ("model", "m2")
        assert [(name, part.value) for name, part in explanation.arrival.likewise] == [("tag release", "r2")]
        assert explanation.driver is None
        assert explanation.whole.change is not None
        assert explanation.arrival.part.contribution.value == pytest.approx(explanation.whole.change.value, abs=0.02)

    def test_the_replaced_slice_is_named(self) -> None:
        explanation = explain(tally_changes(replacing_traffic()))
        assert explanation.arrival is not None
        assert [part.value for part in explanation.arrival.replaced] == ["m1"]

    def test_the_arrival_and_its_attribute_come_first_in_the_tables(self) -> None:
        explanation = explain(tally_changes(replacing_traffic()))
        assert explanation.attributes[0].name == "model"
        assert [part.value for part in explanation.attributes[0].slices] == ["m2", "m1"]

    def test_a_new_slice_that_is_as_bad_as_the_rest_is_not_blamed(self) -> None:
        assert explain(tally_changes(replacing_traffic(0.4, old=0.6, new=0.6))).arrival is None

    def test_a_new_slice_that_is_good_is_not_blamed(self) -> None:
        explanation = explain(tally_changes(replacing_traffic(0.4, old=0.5, new=0.98)))
        assert explanation.arrival is None

    def test_compared_models_are_not_arrivals(self) -> None:
        series = Series(app="support-bot", dimension="groundedness", attribute="versions", value="new")
        explanation = explain(tally_changes(replacing_traffic(0.5), series, split=by_model("m2", "m1", SINCE)))
        assert explanation.whole.change is not None
        assert explanation.whole.change.is_fall
        assert explanation.arrival is None


class TestTally:
    def test_only_records_of_the_alerts_evaluator_and_app_count_and_only_once(self) -> None:
        own = evaluation({"groundedness": 0.5})
        others = [
            evaluation(fingerprint="other"),
            evaluation(lane=BACKFILL),
            evaluation(lane=CANARY),
            evaluation(evaluated_at=SINCE - timedelta(seconds=1)),
            evaluation(app="shop"),
        ]
        tally = tally_changes([own, own, *others])
        assert (tally.whole.count, tally.whole.since.mean) == (1, 0.5)
        assert set(tally.elsewhere) == {"shop"}

    def test_the_onset_counts_as_since_and_records_after_the_end_are_left_out(self) -> None:
        split = by_time(SINCE, ONSET, ONSET + timedelta(hours=1))
        moments = (SINCE, ONSET - timedelta(seconds=1), ONSET, ONSET + timedelta(hours=1))
        tally = tally_changes((evaluation(evaluated_at=moment) for moment in moments), split=split)
        assert (tally.whole.before.count, tally.whole.since.count) == (2, 1)

    def test_a_series_of_one_tenant_counts_only_that_tenant(self) -> None:
        series = Series(app="support-bot", dimension="composite", attribute="tenant", value="acme")
        tally = tally_changes([evaluation(tenant="acme"), evaluation(tenant="other"), evaluation()], series)
        assert tally.whole.count == 1
        assert "tenant" not in tally.attributes

    def test_good_shares_are_of_composites_that_reach_the_objective(self) -> None:
        records = [evaluation(composite=score) for score in (0.9, 0.9 - 1e-12, 0.89)]
        tally = tally_changes(records, Series(app="support-bot", dimension=GOOD_SHARE))
        assert tally.whole.since.mean == pytest.approx(2 / 3)

    def test_two_models_are_the_sides_of_a_comparison(self) -> None:
        series = Series(app="support-bot", dimension="composite", attribute="versions", value="new")
        records = [evaluation(model=model, composite=score) for model, score in (("a", 0.2), ("b", 0.8), ("c", 0.5))]
        tally = tally_changes(records, series, split=by_model("a", "b", SINCE))
        assert (tally.whole.before.mean, tally.whole.since.mean) == (0.8, 0.2)
        assert "model" not in tally.attributes

    def test_tags_with_many_values_are_left_out_and_named(self) -> None:
        explanation = explain(tally_changes(traffic()))
        assert explanation.tags_with_too_many_values == ("request",)
        assert {attribute.name for attribute in explanation.attributes} == {"model", "tag region"}

    def test_values_with_few_scores_are_combined(self) -> None:
        rare = [
            evaluation(tags={"region": "moon"}, evaluated_at=ONSET + timedelta(seconds=second)) for second in range(3)
        ]
        assert OTHERS in slices(explain(tally_changes([*traffic(), *rare])), "tag region")

    def test_records_before_the_first_one_with_a_tag_count_as_without_it(self) -> None:
        records = list(traffic())
        tagged = [record.model_copy(update={"tags": {"beta": True}}) for record in records[350:]]
        bare = [record.model_copy(update={"tags": {}}) for record in records[:350]]
        result = explain(tally_changes([*bare, *tagged]))
        [attribute] = [candidate for candidate in result.attributes if candidate.name == "tag beta"]
        assert {part.value: part.counts for part in attribute.slices} == {None: (300, 50), "true": (0, 50)}

    def test_of_many_models_only_the_largest_are_listed_separately(self) -> None:
        records = [
            record.model_copy(update={"model": f"m-{number % 60}" if number % 2 else "m-0"})
            for number, record in enumerate(traffic(before=900, since=900))
        ]
        values = slices(explain(tally_changes(records)), "model")
        assert len(values) == 21
        assert {"m-0", OTHERS} <= set(values)

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.booleans(),
                st.sampled_from(["a", "b", None]),
                st.sampled_from([None, *range(15)]),
                st.floats(0.0, 1.0),
                st.sampled_from([0.05, 0.5, 1.0]),
            ),
            min_size=40,
            max_size=120,
        )
    )
    def test_the_contributions_of_every_attribute_add_up(
        self, rows: list[tuple[bool, str | None, int | None, float, float]]
    ) -> None:
        explanation = explain(
            tally_changes(
                evaluation(
                    {"groundedness": score},
                    evaluated_at=ONSET + timedelta(seconds=1 if is_since else -1),
                    model=model,
                    tags={} if tag is None else {"t": tag},
                    probability=probability,
                )
                for is_since, model, tag, score, probability in rows
            )
        )
        for attribute in explanation.attributes:
            assert explanation.whole.change is not None
            total = sum(part.contribution.value for part in attribute.slices)
            assert total == pytest.approx(explanation.whole.change.value, abs=1e-9)


class TestCriteria:
    def test_the_criterion_that_fell_is_named_and_all_parts_add_up(self) -> None:
        explanation = explain(tally_changes(traffic(), COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert [part.name for part in explanation.behind] == ["groundedness"]
        assert explanation.behind[0].weight == pytest.approx(1 / 6)
        assert explanation.whole.change is not None
        total = sum(part.contribution.value for part in explanation.parts)
        assert total == pytest.approx(explanation.whole.change.value, abs=1e-9)
        assert explanation.criteria[0].name == "groundedness"

    def test_if_all_criteria_drop_alike_none_is_named(self) -> None:
        fallen = [
            evaluation(
                dict.fromkeys(COMPOSITION.items, 0.5 + (second % 5) / 10),
                evaluated_at=ONSET + timedelta(seconds=second),
            )
            for second in range(100)
        ]
        usual = [record for record in traffic(bad=None) if record.evaluated_at < ONSET]
        explanation = explain(tally_changes([*usual, *fallen], COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert explanation.whole.change is not None
        assert explanation.whole.change.is_fall
        assert explanation.behind == ()

    def test_criteria_that_contribute_about_the_same_are_all_named(self) -> None:
        both = [
            evaluation(dict.fromkeys(("clarity", "groundedness"), 0.0), evaluated_at=ONSET + timedelta(seconds=second))
            for second in range(50)
        ]
        usual = [evaluation(evaluated_at=ONSET - timedelta(seconds=second + 1)) for second in range(100)]
        explanation = explain(tally_changes([*usual, *both], COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert {part.name for part in explanation.behind} == {"clarity", "groundedness"}

    def test_the_effect_of_the_safety_rule_is_a_separate_part(self) -> None:
        unsafe = [
            evaluation({"harmfulness": 0.0}, composite=0.0, evaluated_at=ONSET + timedelta(seconds=second))
            for second in range(50)
        ]
        usual = [record for record in traffic(bad=None) if record.evaluated_at < ONSET]
        explanation = explain(tally_changes([*usual, *unsafe], COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        parts = {part.name: part.contribution.value for part in explanation.parts}
        assert parts[RULES] == pytest.approx(-5 / 6)
        assert parts["harmfulness"] == pytest.approx(-1 / 6)

    def test_without_an_applied_rule_there_is_no_part_for_it(self) -> None:
        explanation = explain(tally_changes(traffic(), COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert RULES not in {part.name for part in explanation.parts}

    def test_a_missing_verdict_changes_the_shares_of_the_others_and_the_parts_still_add_up(self) -> None:
        def without_clarity(record: Evaluation) -> Evaluation:
            rest = {name: result for name, result in record.dimensions.items() if name != "clarity"}
            scores = [result.score or 0.0 for result in rest.values()]
            composite = record.composite.model_copy(update={"score": sum(scores) / len(scores)})
            return record.model_copy(update={"dimensions": rest, "composite": composite})

        records = [without_clarity(record) if number % 3 else record for number, record in enumerate(traffic())]
        explanation = explain(tally_changes(records, COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert explanation.whole.change is not None
        assert sum(part.contribution.value for part in explanation.parts) == pytest.approx(
            explanation.whole.change.value, abs=1e-9
        )

    def test_evaluations_with_other_criteria_are_not_broken_down(self) -> None:
        def with_other_criteria(record: Evaluation) -> Evaluation:
            return record.model_copy(update={"evaluator": record.evaluator.model_copy(update={"criteria": ("brand",)})})

        explanation = explain(
            tally_changes(map(with_other_criteria, traffic()), COMPOSITE_SERIES, composition=COMPOSITION, target=0.9)
        )
        assert (explanation.parts, explanation.behind, explanation.strangers) == ((), (), 400)


def test_other_apps_are_compared_over_the_same_time() -> None:
    elsewhere = [record for seed, app in ((7, "shop"), (8, "bank")) for record in traffic(bad=None, seed=seed, app=app)]
    also_fallen = list(traffic(seed=9, app="news"))
    explanation = explain(tally_changes([*traffic(), *elsewhere, *also_fallen]))
    moves = {move.name: move.change for move in explanation.elsewhere}
    assert set(moves) == {"shop", "bank", "news"}
    assert [name for name, change in moves.items() if change is not None and change.is_fall] == ["news"]


def test_canaries_whose_verdict_changed_are_named() -> None:
    tally = CanaryTally("groundedness", FINGERPRINT, by_time(SINCE, ONSET))
    for hour in range(-4, 4):
        for canary, was, now in (("one", "full", "none"), ("two", "full", "full")):
            dimensions = {"groundedness": dimension(1.0, "groundedness", was if hour < 0 else now)}
            record = evaluation(
                evaluated_at=ONSET + timedelta(hours=hour), lane=CANARY, app="canaries", tags={"canary": canary}
            )
            tally.add(record.model_copy(update={"dimensions": dimensions}))
    tally.add(evaluation(evaluated_at=ONSET))
    [change] = tally.list_turned()
    assert (change.canary, change.was, change.is_now, change.counts) == ("one", "full", "none", (4, 4))
    assert tally.count == 2
