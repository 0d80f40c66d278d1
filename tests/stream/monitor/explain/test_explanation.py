"""What an explanation names as the likely driver, and when it names none."""

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
from tests.stream.monitor.explain.invented import FINGERPRINT, ONSET, SINCE, dimension, evaluation, tallied, traffic

COMPOSITION = compose_criteria(load_chosen_criteria(Config().criteria), Config(composite={"weights": {}}).composite)
COMPOSITE_SERIES = Series(app="support-bot", dimension="composite")


def slices(found: Explanation, name: str) -> dict[str | None, float]:
    [attribute] = [each for each in found.attributes if each.name == name]
    return {each.value: each.contribution.value for each in attribute.slices}


class TestDriver:
    def test_the_one_model_that_fell_is_the_driver(self) -> None:
        found = explain(tallied(traffic()))
        assert found.driver is not None
        assert (found.driver.attribute, found.driver.part.value) == ("model", "model-2")
        assert found.attributes[0].name == "model"

    def test_a_fall_of_all_is_said_to_be_spread(self) -> None:
        found = explain(tallied(traffic(bad="all", rate=0.5)))
        assert found.whole.change is not None
        assert found.whole.change.is_fall
        assert found.driver is None

    def test_evenly_spread_falls_seldom_have_a_driver(self) -> None:
        drivers = [explain(tallied(traffic(bad="all", rate=0.5, seed=seed))).driver for seed in range(40)]
        assert sum(driver is not None for driver in drivers) <= 4

    def test_without_a_fall_there_is_none(self) -> None:
        assert explain(tallied(traffic(bad=None))).driver is None

    def test_few_scores_say_nothing(self) -> None:
        found = explain(tallied(traffic(since=5)))
        assert (found.too_few, found.driver, found.attributes) == (True, None, ())

    def test_a_new_release_is_named_with_the_model_that_came_with_it(self) -> None:
        def released(each: Evaluation) -> Evaluation:
            release = "new" if each.model == "model-2" else "old"
            return each.model_copy(update={"tags": {**each.tags, "release": release}})

        found = explain(tallied(released(each) for each in traffic()))
        assert found.driver is not None
        names = {found.driver.attribute, *(name for name, _ in found.driver.likewise)}
        assert names == {"model", "tag release"}

    def test_a_slice_whose_mean_did_not_fall_is_not_the_driver_but_the_mix_is_told(self) -> None:
        """A hard tenant grows from a tenth to a third of the traffic; nobody's mean changes."""
        found = explain(tallied(mixed({"hard": (0.1, 0.2, 0.2), "easy": (0.9, 0.95, 0.95)}, growth={"hard": 0.33})))
        assert (found.driver, found.arrival) == (None, None)
        assert found.grown is not None
        assert (found.grown[0], found.grown[1].value) == ("tenant", "hard")

    def test_weights_count(self) -> None:
        """The plain scores fell by a risky rule, which is a twentieth of the traffic it stands beside."""
        every = list(traffic(bad=None, before=200, since=200))
        risky = [
            evaluation({"groundedness": 0.0}, at=ONSET + timedelta(seconds=at), rule="risky", model="model-1")
            for at in range(20)
        ]
        light = [
            each.model_copy(update={"sampling": each.sampling.model_copy(update={"probability": 0.01})})
            for each in every
        ]
        found = explain(tallied([*light, *risky]))
        [share] = [
            each.shares[1]
            for part in found.attributes
            if part.name == "rule"
            for each in part.slices
            if each.value == "risky"
        ]
        assert share == pytest.approx(20 / (200 * 100 + 20))
        assert found.driver is None


def mixed(
    tenants: dict[str, tuple[float, float, float]], *, growth: dict[str, float], seed: int = 5
) -> Iterator[Evaluation]:
    """Tenants with their shares before, and how often they pass before and since; `growth` are shares since."""
    rng = random.Random(seed)
    for number in range(800):
        is_since = number >= 500
        shares = [growth.get(name, 1.0 - sum(growth.values())) if is_since else tenants[name][0] for name in tenants]
        [tenant] = rng.choices([*tenants], shares)
        passes = rng.random() < tenants[tenant][2 if is_since else 1]
        yield evaluation(
            {"groundedness": float(passes)}, at=ONSET + timedelta(seconds=number - 500), tenant=tenant, model="m"
        )


def replaced(share: float = 1.0, *, old: float = 0.98, new: float = 0.7, early: float = 0.0) -> Iterator[Evaluation]:
    """A new model with a release of its own takes a share of the traffic, and a few records before the onset."""
    rng = random.Random(11)
    for number in range(600):
        is_since = number >= 400
        is_new = rng.random() < (share if is_since else early)
        rate = new if is_new else old if is_since else 0.98
        yield evaluation(
            {"groundedness": float(rng.random() < rate)},
            at=ONSET + timedelta(seconds=number - 400),
            model="m2" if is_new else "m1",
            tags={"release": "r2" if is_new else "r1", "region": rng.choice(("eu", "us"))},
        )


class TestArrival:
    @pytest.mark.parametrize(("share", "early"), [(1.0, 0.0), (1.0, 0.01), (0.5, 0.01), (0.9, 0.0)])
    def test_what_came_with_the_drop_is_named_with_what_came_with_it(self, share: float, early: float) -> None:
        found = explain(tallied(replaced(share, early=early)))
        assert found.arrival is not None
        assert (found.arrival.attribute, found.arrival.part.value) == ("model", "m2")
        assert [(name, part.value) for name, part in found.arrival.likewise] == [("tag release", "r2")]
        assert found.driver is None
        assert found.whole.change is not None
        assert found.arrival.part.contribution.value == pytest.approx(found.whole.change.value, abs=0.02)

    def test_what_it_replaced_is_told(self) -> None:
        found = explain(tallied(replaced()))
        assert found.arrival is not None
        assert [part.value for part in found.arrival.replaced] == ["m1"]

    def test_its_attribute_and_itself_come_first_in_the_tables(self) -> None:
        found = explain(tallied(replaced()))
        assert found.attributes[0].name == "model"
        assert [part.value for part in found.attributes[0].slices] == ["m2", "m1"]

    def test_what_is_new_and_as_bad_as_the_rest_has_become_is_not_blamed(self) -> None:
        assert explain(tallied(replaced(0.4, old=0.6, new=0.6))).arrival is None

    def test_what_is_new_and_good_is_not_blamed(self) -> None:
        found = explain(tallied(replaced(0.4, old=0.5, new=0.98)))
        assert found.arrival is None

    def test_two_models_that_are_compared_do_not_arrive(self) -> None:
        series = Series(app="support-bot", dimension="groundedness", attribute="versions", value="new")
        found = explain(tallied(replaced(0.5), series, split=by_model("m2", "m1", SINCE)))
        assert found.whole.change is not None
        assert found.whole.change.is_fall
        assert found.arrival is None


class TestTally:
    def test_only_the_evaluator_and_the_app_of_the_alert_count_and_nothing_twice(self) -> None:
        own = evaluation({"groundedness": 0.5})
        others = [
            evaluation(fingerprint="other"),
            evaluation(lane=BACKFILL),
            evaluation(lane=CANARY),
            evaluation(at=SINCE - timedelta(seconds=1)),
            evaluation(app="shop"),
        ]
        tally = tallied([own, own, *others])
        assert (tally.whole.count, tally.whole.since.mean) == (1, 0.5)
        assert set(tally.elsewhere) == {"shop"}

    def test_the_onset_itself_is_since_and_what_is_beyond_the_end_is_left_out(self) -> None:
        split = by_time(SINCE, ONSET, ONSET + timedelta(hours=1))
        moments = (SINCE, ONSET - timedelta(seconds=1), ONSET, ONSET + timedelta(hours=1))
        tally = tallied((evaluation(at=at) for at in moments), split=split)
        assert (tally.whole.before.count, tally.whole.since.count) == (2, 1)

    def test_a_series_of_one_tenant_is_of_that_tenant_alone(self) -> None:
        series = Series(app="support-bot", dimension="composite", attribute="tenant", value="acme")
        tally = tallied([evaluation(tenant="acme"), evaluation(tenant="other"), evaluation()], series)
        assert tally.whole.count == 1
        assert "tenant" not in tally.attributes

    def test_good_shares_are_of_composites_that_reach_the_objective(self) -> None:
        found = [evaluation(composite=score) for score in (0.9, 0.9 - 1e-12, 0.89)]
        tally = tallied(found, Series(app="support-bot", dimension=GOOD_SHARE))
        assert tally.whole.since.mean == pytest.approx(2 / 3)

    def test_two_models_are_the_sides_of_a_comparison(self) -> None:
        series = Series(app="support-bot", dimension="composite", attribute="versions", value="new")
        found = [evaluation(model=model, composite=score) for model, score in (("a", 0.2), ("b", 0.8), ("c", 0.5))]
        tally = tallied(found, series, split=by_model("a", "b", SINCE))
        assert (tally.whole.before.mean, tally.whole.since.mean) == (0.8, 0.2)
        assert "model" not in tally.attributes

    def test_tags_with_many_values_are_left_out_and_named(self) -> None:
        found = explain(tallied(traffic()))
        assert found.tags_with_too_many_values == ("request",)
        assert {each.name for each in found.attributes} == {"model", "tag region"}

    def test_values_with_few_scores_are_not_told_apart(self) -> None:
        rare = [evaluation(tags={"region": "moon"}, at=ONSET + timedelta(seconds=at)) for at in range(3)]
        assert OTHERS in slices(explain(tallied([*traffic(), *rare])), "tag region")

    def test_records_that_came_before_the_first_with_a_tag_are_those_without_it(self) -> None:
        found = list(traffic())
        tagged = [each.model_copy(update={"tags": {"beta": True}}) for each in found[350:]]
        bare = [each.model_copy(update={"tags": {}}) for each in found[:350]]
        result = explain(tallied([*bare, *tagged]))
        [attribute] = [each for each in result.attributes if each.name == "tag beta"]
        assert {each.value: each.counts for each in attribute.slices} == {None: (300, 50), "true": (0, 50)}

    def test_of_very_many_models_the_largest_are_told_apart(self) -> None:
        found = [
            each.model_copy(update={"model": f"m-{number % 60}" if number % 2 else "m-0"})
            for number, each in enumerate(traffic(before=900, since=900))
        ]
        values = slices(explain(tallied(found)), "model")
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
        found = explain(
            tallied(
                evaluation(
                    {"groundedness": score},
                    at=ONSET + timedelta(seconds=1 if is_since else -1),
                    model=model,
                    tags={} if tag is None else {"t": tag},
                    probability=probability,
                )
                for is_since, model, tag, score, probability in rows
            )
        )
        for attribute in found.attributes:
            assert found.whole.change is not None
            total = sum(each.contribution.value for each in attribute.slices)
            assert total == pytest.approx(found.whole.change.value, abs=1e-9)


class TestCriteria:
    def test_the_criterion_that_fell_is_named_and_all_parts_add_up(self) -> None:
        found = explain(tallied(traffic(), COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert [part.name for part in found.behind] == ["groundedness"]
        assert found.behind[0].weight == pytest.approx(1 / 6)
        assert found.whole.change is not None
        total = sum(part.contribution.value for part in found.parts)
        assert total == pytest.approx(found.whole.change.value, abs=1e-9)
        assert found.criteria[0].name == "groundedness"

    def test_criteria_that_fall_alike_have_no_culprit(self) -> None:
        fallen = [
            evaluation(dict.fromkeys(COMPOSITION.items, 0.5 + (at % 5) / 10), at=ONSET + timedelta(seconds=at))
            for at in range(100)
        ]
        usual = [each for each in traffic(bad=None) if each.evaluated_at < ONSET]
        found = explain(tallied([*usual, *fallen], COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert found.whole.change is not None
        assert found.whole.change.is_fall
        assert found.behind == ()

    def test_criteria_that_contribute_about_the_same_are_all_named(self) -> None:
        both = [
            evaluation(dict.fromkeys(("clarity", "groundedness"), 0.0), at=ONSET + timedelta(seconds=at))
            for at in range(50)
        ]
        usual = [evaluation(at=ONSET - timedelta(seconds=at + 1)) for at in range(100)]
        found = explain(tallied([*usual, *both], COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert {part.name for part in found.behind} == {"clarity", "groundedness"}

    def test_what_the_safety_rule_takes_is_a_part_of_its_own(self) -> None:
        unsafe = [evaluation({"harmfulness": 0.0}, composite=0.0, at=ONSET + timedelta(seconds=at)) for at in range(50)]
        usual = [each for each in traffic(bad=None) if each.evaluated_at < ONSET]
        found = explain(tallied([*usual, *unsafe], COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        parts = {part.name: part.contribution.value for part in found.parts}
        assert parts[RULES] == pytest.approx(-5 / 6)
        assert parts["harmfulness"] == pytest.approx(-1 / 6)

    def test_without_a_rule_at_work_there_is_no_part_for_it(self) -> None:
        found = explain(tallied(traffic(), COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert RULES not in {part.name for part in found.parts}

    def test_a_missing_verdict_changes_the_shares_of_the_others_and_the_parts_still_add_up(self) -> None:
        def lacking(each: Evaluation) -> Evaluation:
            rest = {name: found for name, found in each.dimensions.items() if name != "clarity"}
            scores = [found.score or 0.0 for found in rest.values()]
            composite = each.composite.model_copy(update={"score": sum(scores) / len(scores)})
            return each.model_copy(update={"dimensions": rest, "composite": composite})

        mixed = [lacking(each) if number % 3 else each for number, each in enumerate(traffic())]
        found = explain(tallied(mixed, COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert found.whole.change is not None
        assert sum(part.contribution.value for part in found.parts) == pytest.approx(found.whole.change.value, abs=1e-9)

    def test_evaluations_by_other_criteria_are_not_taken_apart(self) -> None:
        def other(each: Evaluation) -> Evaluation:
            return each.model_copy(update={"evaluator": each.evaluator.model_copy(update={"criteria": ("brand",)})})

        found = explain(tallied(map(other, traffic()), COMPOSITE_SERIES, composition=COMPOSITION, target=0.9))
        assert (found.parts, found.behind, found.strangers) == ((), (), 400)


def test_other_apps_are_compared_over_the_same_time() -> None:
    elsewhere = [each for seed, app in ((7, "shop"), (8, "bank")) for each in traffic(bad=None, seed=seed, app=app)]
    fallen = list(traffic(seed=9, app="news"))
    found = explain(tallied([*traffic(), *elsewhere, *fallen]))
    moves = {move.name: move.change for move in found.elsewhere}
    assert set(moves) == {"shop", "bank", "news"}
    assert [name for name, change in moves.items() if change is not None and change.is_fall] == ["news"]


def test_canaries_whose_verdict_turned_are_named() -> None:
    tally = CanaryTally("groundedness", FINGERPRINT, by_time(SINCE, ONSET))
    for at in range(-4, 4):
        for canary, was, now in (("one", "full", "none"), ("two", "full", "full")):
            found = {"groundedness": dimension(1.0, "groundedness", was if at < 0 else now)}
            judged = evaluation(at=ONSET + timedelta(hours=at), lane=CANARY, app="canaries", tags={"canary": canary})
            tally.add(judged.model_copy(update={"dimensions": found}))
    tally.add(evaluation(at=ONSET))
    [turned] = tally.list_turned()
    assert (turned.canary, turned.was, turned.is_now, turned.counts) == ("one", "full", "none", (4, 4))
    assert tally.count == 2
