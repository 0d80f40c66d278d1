"""Metrics of scores: estimates from the counters alone equal those from the judgements themselves."""

import math
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import CompositeStatus, Dimension, SafetyStatus, Status
from sinks.metrics.scrape import ScrapeView, ShownSeries
from sinks.statistics.estimates import Estimate, Sums, estimate
from tests.sinks.metrics.measured import Scraped, dimension, estimate_of, evaluation
from tests.sinks.statistics.computed import check


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


class Judged(NamedTuple):
    score: float | None
    probability: float
    app: str = "shop"
    tenant: str | None = None

    @property
    def weight(self) -> float:
        return 1 / self.probability


judgements = st.lists(
    st.builds(
        Judged,
        score=st.none() | st.floats(min_value=0.0, max_value=1.0),
        probability=st.floats(min_value=0.001, max_value=1.0),
        app=st.sampled_from(["shop", "bank"]),
        tenant=st.none() | st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=30,
)


def count(scraped: Scraped, judgements: list[Judged]) -> None:
    for judgement in judgements:
        scraped.scores.write(
            [
                evaluation(
                    judgement.score,
                    app=judgement.app,
                    tenant=judgement.tenant,
                    probability=judgement.probability,
                    dimensions={"clarity": dimension(judgement.score)},
                )
            ]
        )


@given(judgements)
def test_mean_variance_effective_size_and_coverage_of_the_counters_are_the_direct_ones(
    judgements: list[Judged],
) -> None:
    scraped = Scraped()
    count(scraped, judgements)
    scored = [
        (judgement.score, judgement.weight)
        for judgement in judgements
        if judgement.app == "shop" and judgement.score is not None
    ]
    missing = math.fsum(
        judgement.weight for judgement in judgements if judgement.app == "shop" and judgement.score is None
    )
    for name in ("composite", "clarity"):
        labels = {"app": "shop", "dimension": name}
        assert (scraped("score_missing_weight_total", **labels) or 0.0) == pytest.approx(missing)
        if not scored:
            assert not scraped("score_weight_total", **labels)
            assert not scraped("score_weighted_sum_total", **labels)
            continue
        summed, squares, weight, squared = (
            scraped(f"score_{sums}_total", **labels) or 0.0
            for sums in ("weighted_sum", "weighted_square_sum", "weight", "weight_squared")
        )
        total = math.fsum(w for _, w in scored)
        mean = math.fsum(w * s for s, w in scored) / total
        assert summed / weight == pytest.approx(mean)
        assert squares / weight - mean**2 == pytest.approx(
            math.fsum(w * (s - mean) ** 2 for s, w in scored) / total, abs=1e-12
        )
        assert weight**2 / squared == pytest.approx(total**2 / math.fsum(w**2 for _, w in scored))
        assert weight / (weight + missing) == pytest.approx(total / (total + missing))


SUMS = ("weighted_sum", "weighted_square_sum", "weight", "weight_squared", "missing_weight")


@given(judgements)
def test_all_sums_of_a_series_are_born_together(judgements: list[Judged]) -> None:
    """`increase()` extrapolates each sum by its age; with different ages, a mean could be above 1."""
    scraped = Scraped()
    for judgement in judgements:
        count(scraped, [judgement])
        born = [
            {(sample.labels["app"], sample.labels["dimension"]) for sample in scraped.samples(f"score_{name}_total")}
            for name in SUMS
        ]
        assert all(series == born[0] for series in born)
        assert (judgement.app, "clarity") in born[0]


@pytest.mark.parametrize("late", [False, True])
def test_a_mean_right_after_the_first_scores_is_not_above_1(tmp_path: Path, late: bool) -> None:
    """Ten minutes without a score, then scores of 0.8. Sums that appear late would give a mean above 1."""
    scraped, shown_series = Scraped(), ShownSeries()
    lines: dict[str, list[str]] = {}
    for scrape in range(45):
        count(scraped, [Judged(None if scrape < 40 else 0.8, 0.05)])
        for metric in ScrapeView(scraped.registry, shown_series).collect():
            for sample in metric.samples:
                if sample.name.startswith("streamjury_score_weight") and sample.labels["dimension"] == "clarity":
                    lines.setdefault(sample.name, ["_"] * scrape).append(repr(sample.value))
    if late:  # as if the counter were created with the first score
        born = "streamjury_score_weighted_sum_total"
        lines[born] = ["_"] * 40 + ["0"] + lines[born][41:]
    mean = "increase(streamjury_score_weighted_sum_total[1h]) / increase(streamjury_score_weight_total[1h])"
    expected = {f"({mean} > bool 1)": ("{app='shop', dimension='clarity'}", float(late))}
    series = [
        {"series": f"{name}{{app='shop', dimension='clarity'}}", "values": " ".join(values)}
        for name, values in lines.items()
    ]
    check(tmp_path, series, expected, interval="15s", at="10m44s")


@given(judgements)
def test_the_counters_of_several_processes_add_up_to_the_estimate_of_all(judgements: list[Judged]) -> None:
    """Half of the judgements were counted elsewhere, as after a restart or with several monitors."""
    processes = (Scraped(), Scraped())
    for index, scraped in enumerate(processes):
        count(scraped, judgements[index::2])
    direct = estimate(sum((Sums.of(judgement.score, judgement.probability) for judgement in judgements), Sums()))

    def total_of(name: str) -> float:
        samples = (sample for scraped in processes for sample in scraped.samples(f"score_{name}_total"))
        return sum(sample.value for sample in samples if sample.labels["dimension"] == "composite")

    weight, missing = total_of("weight"), total_of("missing_weight")
    assert weight / (weight + missing) == pytest.approx(direct.coverage)
    if direct.mean is not None:
        assert total_of("weighted_sum") / weight == pytest.approx(direct.mean, abs=1e-12)
        assert weight**2 / total_of("weight_squared") == pytest.approx(direct.effective_size)


@given(judgements, st.floats(min_value=0.0, max_value=1.0))
def test_good_events_are_the_weight_at_or_above_the_score_of_the_app(judgements: list[Judged], good: float) -> None:
    scraped = Scraped(good_score={"shop": good, "bank": 0.5}.__getitem__)
    count(scraped, judgements)
    for app, least in (("shop", good), ("bank", 0.5)):
        scored = [judgement for judgement in judgements if judgement.app == app and judgement.score is not None]
        events, better = scraped("objective_events_total", app=app), scraped("objective_good_events_total", app=app)
        if not scored:
            assert (events, better) == (None, None)
            continue
        assert events == pytest.approx(math.fsum(judgement.weight for judgement in scored))
        assert better == pytest.approx(
            math.fsum(judgement.weight for judgement in scored if round(judgement.score or 0.0, 9) >= least)
        )


def test_without_any_good_event_there_are_0_and_not_none(scraped: Scraped) -> None:
    """The share would be absent otherwise, and no alert would see that every answer is bad."""
    scraped.scores.write([evaluation(0.1, probability=0.5)])
    assert scraped("objective_good_events_total", app="shop") == 0.0
    assert scraped("objective_events_total", app="shop") == 2.0


def test_a_composite_just_below_the_threshold_by_rounding_is_good(scraped: Scraped) -> None:
    scraped.scores.write([evaluation(math.nextafter(0.7, 0.0))])
    assert scraped("objective_good_events_total", app="shop") == 1.0
    assert scraped("score_bucket", app="shop", le="0.7") == 1.0


def test_without_scores_the_coverage_is_0_and_not_absent(scraped: Scraped) -> None:
    scraped.scores.write([evaluation(None, probability=0.25, dimensions={"clarity": dimension(None)})])
    for name in ("composite", "clarity"):
        labels = {"app": "shop", "dimension": name}
        assert (scraped("score_weight_total", **labels), scraped("score_missing_weight_total", **labels)) == (0.0, 4.0)
    assert scraped("objective_events_total", app="shop") is None


def test_an_unscored_dimension_is_missing_only_if_it_should_have_a_score(scraped: Scraped) -> None:
    scraped.scores.write(
        [
            evaluation(
                None,
                dimensions={
                    "clarity": dimension(None),
                    "groundedness": dimension(None, status=Status.NOT_APPLICABLE),
                    "conciseness": dimension(0.9, status=Status.INSUFFICIENT),
                    "tone": Dimension(status=Status.SCORED, option="warm"),
                },
            )
        ]
    )
    missing = {sample.labels["dimension"]: sample.value for sample in scraped.samples("score_missing_weight_total")}
    assert missing == {"composite": 1.0, "clarity": 1.0, "conciseness": 1.0}
    assert scraped.total("score_weight_total") == 0.0
    assert scraped("evaluations_total", app="shop", status="safety_unknown") == 1


def test_a_score_of_0_counts(scraped: Scraped) -> None:
    scraped.scores.write([evaluation(0.0, probability=0.5)])
    assert scraped("score_weighted_sum_total", app="shop", dimension="composite") == 0.0
    assert scraped("score_weight_total", app="shop", dimension="composite") == 2.0
    assert scraped("score_bucket", app="shop", le="0.3") == 1


def test_composites_are_spread_over_buckets_each_counted_once(scraped: Scraped) -> None:
    for score in (0.05, 0.3, 0.31, 0.75, 1.0, None):
        scraped.scores.write([evaluation(score, probability=0.01)])
    buckets = {sample.labels["le"]: sample.value for sample in scraped.samples("score_bucket")}
    assert buckets == {"0.3": 2, "0.5": 3, "0.7": 3, "0.8": 4, "0.9": 4, "1.0": 5, "+Inf": 5}
    assert scraped("score_sum", app="shop") == pytest.approx(2.41)


def test_safety_is_counted_by_status_and_an_app_without_incidents_has_0(scraped: Scraped) -> None:
    for status in (SafetyStatus.SAFE, SafetyStatus.SAFE, SafetyStatus.QUESTIONABLE):
        scraped.scores.write([evaluation(safety=status)])
    scraped.scores.write([evaluation(0.0, app="bank", status=CompositeStatus.UNSAFE, safety=SafetyStatus.UNSAFE)])
    counts = {
        (sample.labels["app"], sample.labels["status"]): sample.value for sample in scraped.samples("safety_total")
    }
    assert counts == {
        **{("shop", status): number for status, number in zip(SafetyStatus, (2, 1, 0, 0), strict=True)},
        **{("bank", status): number for status, number in zip(SafetyStatus, (0, 0, 1, 0), strict=True)},
    }
    assert scraped("evaluations_total", app="bank", status="unsafe") == 1


def test_diagnoses_are_weighted_and_an_app_with_any_has_all_cells(scraped: Scraped) -> None:
    for sufficiency, groundedness in ((1.0, 1.0), (1.0, 0.0), (0.5, 0.0), (0.0, 0.5)):
        dimensions = {"context_sufficiency": dimension(sufficiency), "groundedness": dimension(groundedness)}
        scraped.scores.write([evaluation(dimensions=dimensions, probability=0.25)])
    scraped.scores.write([evaluation(app="bank", dimensions={"groundedness": dimension(0.0)})])
    counts = {
        (sample.labels["app"], sample.labels["cell"]): sample.value for sample in scraped.samples("diagnosis_total")
    }
    assert counts == {("shop", "good"): 4, ("shop", "generation"): 4, ("shop", "lucky"): 0, ("shop", "retrieval"): 8}


def test_refusals_are_weighted_where_the_criterion_is_judged(scraped: Scraped) -> None:
    for refusal, sufficiency in (("refusal", 0.0), ("refusal", 1.0), ("refusal", 1.0), ("compliance", 1.0)):
        dimensions = {
            "refusal": dimension(float(refusal == "compliance"), option=refusal),
            "context_sufficiency": dimension(sufficiency),
        }
        scraped.scores.write([evaluation(dimensions=dimensions, probability=0.5)])
    scraped.scores.write([evaluation(app="bank", dimensions={"groundedness": dimension(0.0)})])
    counts = {
        (sample.labels["app"], sample.labels["outcome"]): sample.value for sample in scraped.samples("refusals_total")
    }
    assert counts == {
        ("shop", "answered"): 2,
        ("shop", "justified"): 2,
        ("shop", "unjustified"): 4,
        ("shop", "unknown"): 0,
    }


# Labels


@given(judgements)
def test_sums_over_optional_labels_equal_the_values_without_them(judgements: list[Judged]) -> None:
    plain, labelled = Scraped(), Scraped(labels=("tenant", "model"), top=2)
    count(plain, judgements)
    count(labelled, judgements)
    for name in (
        "evaluations",
        "safety",
        "score_weighted_sum",
        "score_weighted_square_sum",
        "score_weight",
        "score_weight_squared",
        "score_missing_weight",
        "objective_events",
        "objective_good_events",
    ):
        assert labelled.total(f"{name}_total") == pytest.approx(plain.total(f"{name}_total"))
        assert all({"tenant", "model"} <= sample.labels.keys() for sample in labelled.samples(f"{name}_total"))
    assert labelled.values("model") == {"unknown"}


def test_models_and_tenants_are_labels_only_when_enabled() -> None:
    for labels in ((), ("model",), ("tenant",), ("model", "tenant")):
        scraped = Scraped(labels=labels)
        for _ in range(20):
            scraped.scores.write([evaluation(model="gpt", tenant="acme")])
        assert scraped.values("model") == ({"gpt", "other"} if "model" in labels else set())
        assert scraped.values("tenant") == ({"acme", "other"} if "tenant" in labels else set())
        assert scraped.total("evaluations_total") == 20


def test_the_histogram_of_scores_has_no_further_labels() -> None:
    scraped = Scraped(labels=("model", "tenant"))
    scraped.scores.write([evaluation(1.0, tenant="acme")])
    assert scraped("score_count", app="shop") == 1


def test_no_number_of_apps_makes_more_than_a_bounded_number_of_series(scraped: Scraped) -> None:
    for index in range(500):
        scraped.scores.write([evaluation(app=f"app-{index}")])
        scraped.scores.show_recent(scraped.scores.apps.label(f"app-{index}"), estimate_of(0.5))
    apps = scraped.values("app")
    assert len(apps) == 51
    assert "other" in apps
    assert scraped("evaluations_total", app="app-0", status="ok") == 1
    assert scraped("evaluations_total", app="other", status="ok") == 450


def test_the_number_of_app_labels_can_be_configured() -> None:
    scraped = Scraped(apps=3)
    for index in range(9):
        scraped.scores.write([evaluation(app=f"app-{index}")])
    assert scraped.values("app") == {"app-0", "app-1", "app-2", "other"}


def test_a_reserved_app_has_its_own_label_however_late_it_comes() -> None:
    scraped = Scraped(apps=3, reserved=("late", "later"))
    for app in ("app-0", "app-1", "app-2", "late", "later"):
        scraped.scores.write([evaluation(app=app)])
        scraped.scores.show_recent(scraped.scores.apps.label(app), estimate_of(0.5))
    assert scraped.values("app") == {"app-0", "late", "later", "other"}
    assert scraped("evaluations_total", app="other", status="ok") == 2


def test_an_app_that_comes_after_many_junk_names_has_its_own_label_in_every_metric(scraped: Scraped) -> None:
    for index in range(60):
        scraped.scores.write([evaluation(app=f"junk-{index}")])
    scraped.scores.write([evaluation(app="bank")] * 100)
    assert scraped("evaluations_total", app="bank", status="ok") == 81
    assert scraped("score_weight_total", app="bank", dimension="composite") == 81
    assert scraped("score_count", app="bank") == 81
    assert scraped.total("evaluations_total") == 160


def test_all_series_of_an_app_that_lost_its_place_are_eventually_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    scraped = Scraped(labels=("model",), apps=1)
    now = 0.0
    monkeypatch.setattr(scraped.scores.apps, "_clock", lambda: now)
    scraped.scores.write([evaluation(app="early")])
    scraped.scores.write([evaluation(app="bank")] * 30)
    assert scraped.values("app") == {"early", "bank", "other"}
    now = 301.0
    scraped.scores.write([evaluation(app="bank")])
    assert scraped.values("app") == {"bank", "other"}


def test_the_good_score_is_looked_up_by_the_published_app() -> None:
    """Rules see labels only: the objective of an app must not affect the events of `other`."""
    scraped = Scraped(apps=1, good_score={"shop": 0.9, "other": 0.5, "unknown": 0.6, "bank": 0.99}.__getitem__)
    for app in ("shop", "bank", None):
        scraped.scores.write([evaluation(0.8, app=app)])
    good = {sample.labels["app"]: sample.value for sample in scraped.samples("objective_good_events_total")}
    assert good == {"shop": 0.0, "other": 1.0, "unknown": 1.0}


def test_no_number_of_criteria_makes_more_than_a_bounded_number_of_series(scraped: Scraped) -> None:
    names = [f"criterion_{index}" for index in range(200)]
    scraped.scores.write([evaluation(dimensions={name: dimension(1.0) for name in names})])
    assert len(scraped.values("dimension")) == 51
    assert scraped("score_weight_total", app="shop", dimension="other") == 151


def test_an_app_that_was_known_first_keeps_its_name(scraped: Scraped) -> None:
    for name in ["early", *map(str, range(100)), "early"]:
        scraped.scores.write([evaluation(app=name)])
    assert scraped("evaluations_total", app="early", status="ok") == 2


@pytest.mark.parametrize("app", [None, ""])
def test_no_app_is_called_unknown(scraped: Scraped, app: str | None) -> None:
    scraped.scores.write([evaluation(app=app)])
    assert scraped("evaluations_total", app="unknown", status="ok") == 1


# The rolling window


def test_a_rolling_mean_is_set_replaced_and_withdrawn(scraped: Scraped) -> None:
    scraped.scores.show_recent("shop", estimate_of(0.5))
    scraped.scores.show_recent("shop", estimate_of(0.25))
    low, mean, high = (scraped(f"score_recent{part}", app="shop") or 0.0 for part in ("_low", "", "_high"))
    assert 0.0 < low < mean == 0.25 < high
    scraped.scores.withdraw_recent("shop")
    for part in ("", "_low", "_high"):
        assert scraped(f"score_recent{part}", app="shop") is None


def test_the_interval_of_a_single_judgement_is_not_published(scraped: Scraped) -> None:
    lone: Estimate = estimate(Sums.of(0.5, 0.1))
    scraped.scores.show_recent("shop", estimate_of(0.5))
    scraped.scores.show_recent("shop", lone)
    assert (scraped("score_recent", app="shop"), scraped("score_recent_low", app="shop")) == (0.5, None)
