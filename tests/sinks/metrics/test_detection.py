"""Metrics of the detectors: urgent series are shown, every alarm is counted, and the number of series is bounded."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from sinks.metrics import DetectionMetrics
from sinks.metrics.bounded_labels import app_label
from sinks.metrics.detection import PLACES
from sinks.metrics.names import JUDGES, VERSIONS
from sinks.statistics.corrected import CorrectedEstimate, MeanInterval
from sinks.statistics.difference import Difference
from sinks.statistics.judge_quality import JudgeCriterion, JudgeSlice, RangedShare
from tests.sinks.metrics.measured import QUALITY, STANDING

CALM: dict[str, Any] = {
    "evidence": -3.0,
    "enough": 4.6,
    "mean": 0.9,
    "low": 0.85,
    "high": 0.95,
    "target": 0.8,
    "raised": False,
}
PRESSING = {**CALM, "evidence": 2.4}
ALARM = {**CALM, "evidence": -1.0, "enough": 2.3, "mean": 0.6, "low": 0.5, "high": 0.7, "raised": True}
PARTS = ("log_evidence", "log_evidence_needed", "mean", "low", "high", "target", "raised")


class Watched:
    """Metrics of detectors on a separate registry."""

    def __init__(self, apps: int = 50, places: int = PLACES) -> None:
        self.registry = CollectorRegistry()
        self.apps = app_label(apps)
        self.metrics = DetectionMetrics(self.registry, self.apps, places=places)

    def show(self, app: str, dimension: str, standing: dict[str, Any] = CALM, **changed: Any) -> None:
        self.apps.count(app)  # as the metrics of scores do
        self.metrics.show(app, dimension, **{**standing, **changed})

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"streamjury_{name}", labels)

    def all_of(self, app: str, dimension: str) -> dict[str, float | None]:
        return {part: self(f"detection_{part}", app=app, dimension=dimension) for part in PARTS}

    def raised_alarms(self) -> dict[tuple[str, str], float]:
        return {
            (sample.labels["app"], sample.labels["dimension"]): sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == "streamjury_detection_raised"
        }

    def series(self) -> int:
        """Return the number of series that have an app label."""
        samples = (sample for metric in self.registry.collect() for sample in metric.samples)
        return sum("app" in sample.labels for sample in samples)


# Visible series


def test_a_series_is_shown_with_its_evidence_its_bounds_and_its_alarm() -> None:
    watched = Watched()
    watched.show("shop", "composite", ALARM)
    assert watched.all_of("shop", "composite") == {
        "log_evidence": -1.0,
        "log_evidence_needed": 2.3,
        "mean": 0.6,
        "low": 0.5,
        "high": 0.7,
        "target": 0.8,
        "raised": 1.0,
    }
    watched.show("shop", "composite", CALM)
    assert watched("detection_raised", app="shop", dimension="composite") == 0.0
    assert watched("detection_mean", app="shop", dimension="composite") == 0.9


def test_a_value_that_is_no_longer_known_is_absent_instead_of_stale() -> None:
    watched = Watched()
    watched.show("shop", "composite", CALM)
    watched.show("shop", "composite", ALARM, mean=None, low=None, high=None)
    metrics = watched.all_of("shop", "composite")
    assert (metrics["mean"], metrics["low"], metrics["high"]) == (None, None, None)
    assert (metrics["target"], metrics["raised"]) == (0.8, 1.0)


def test_while_a_target_is_learnt_there_is_no_evidence() -> None:
    watched = Watched()
    watched.show("shop", "composite", CALM, target=None)
    metrics = watched.all_of("shop", "composite")
    assert (metrics["target"], metrics["log_evidence"], metrics["log_evidence_needed"]) == (None, None, None)
    assert (metrics["mean"], metrics["raised"]) == (0.9, 0.0)


def test_an_app_that_is_no_longer_watched_here_leaves_no_series() -> None:
    watched = Watched(places=2)
    for dimension in ("composite", "clarity", "tone"):
        watched.show("shop", dimension, ALARM)
    watched.metrics.versions("new", "shop", evidence=0.0, enough=4.6, low=-0.1, high=0.1, worse=False)
    watched.metrics.withdraw("shop")
    assert watched.series() == 0
    watched.show("bank", "composite")
    watched.metrics.withdraw("shop")
    assert watched.raised_alarms() == {("bank", "composite"): 0.0}


def test_an_app_that_was_withdrawn_can_come_back() -> None:
    watched = Watched(places=1)
    for dimension in ("composite", "clarity"):
        watched.show("shop", dimension, ALARM)
    watched.metrics.withdraw("shop")
    for dimension in ("composite", "clarity"):
        watched.show("shop", dimension, ALARM)
    assert watched.raised_alarms() == {("shop", "composite"): 1.0, ("shop", "other"): 1.0}


def test_dimensions_that_a_new_evaluator_lacks_are_removed_with_their_alarms() -> None:
    watched = Watched(places=2)
    for dimension in ("composite", "clarity", "tone", "style"):
        watched.show("shop", dimension, ALARM)
    watched.show("bank", "tone", ALARM)
    watched.metrics.keep("shop", ("composite", "style"))
    assert watched.raised_alarms() == {("shop", "composite"): 1.0, ("shop", "other"): 1.0, ("bank", "other"): 1.0}
    assert watched.all_of("shop", "clarity") == dict.fromkeys(PARTS)


# Places


def test_an_app_as_a_whole_takes_the_place_of_a_single_dimension_and_not_that_of_another_app() -> None:
    watched = Watched(places=2)
    watched.show("shop", "clarity")
    watched.show("shop", "good_share")
    watched.show("shop", "composite")
    assert set(watched.raised_alarms()) == {("shop", "good_share"), ("shop", "composite")}
    watched.show("bank", "composite")
    assert set(watched.raised_alarms()) == {("shop", "good_share"), ("shop", "composite")}


@pytest.mark.parametrize(("evidence", "has_place"), [(2.3, False), (2.31, True)])
def test_more_than_half_of_the_evidence_makes_a_dimension_urgent(evidence: float, has_place: bool) -> None:
    watched = Watched(places=1)
    watched.show("shop", "composite")
    watched.show("shop", "clarity", CALM, evidence=evidence)
    assert (("shop", "clarity") in watched.raised_alarms()) == has_place
    assert (watched("detection_mean", app="shop", dimension="composite") is None) == has_place


def test_an_alarm_takes_the_place_of_a_quiet_series_and_keeps_it_from_other_alarms() -> None:
    watched = Watched(places=1)
    watched.show("shop", "clarity", PRESSING)
    watched.show("shop", "tone", ALARM)
    watched.show("shop", "composite", ALARM)
    assert watched.raised_alarms() == {("shop", "tone"): 1.0, ("shop", "other"): 1.0}


def test_an_alarm_without_a_place_is_counted_until_it_is_over_and_then_known_to_be_over() -> None:
    watched = Watched(places=1)
    for dimension in ("composite", "clarity", "tone"):
        watched.show("shop", dimension, ALARM)
        watched.show("shop", dimension, ALARM)
    watched.show("bank", "composite", ALARM)
    assert watched.raised_alarms() == {("shop", "composite"): 1.0, ("shop", "other"): 2.0, ("bank", "other"): 1.0}
    watched.show("shop", "tone", CALM)
    watched.show("bank", "composite", CALM)
    assert watched.raised_alarms() == {("shop", "composite"): 1.0, ("shop", "other"): 1.0, ("bank", "other"): 0.0}


def test_an_alarm_that_was_counted_gets_the_place_of_one_that_is_over() -> None:
    watched = Watched(places=1)
    watched.show("shop", "composite", ALARM)
    watched.show("shop", "clarity", ALARM)
    watched.show("shop", "composite", CALM)
    watched.show("shop", "clarity", ALARM)
    assert watched.raised_alarms() == {("shop", "clarity"): 1.0, ("shop", "other"): 0.0}
    assert watched.all_of("shop", "composite") == dict.fromkeys(PARTS)


def test_apps_without_a_label_have_no_place_and_their_alarms_are_counted_together() -> None:
    watched = Watched(apps=1)
    for app in ("shop", "bank", "mail"):
        watched.show(app, "composite", ALARM)
    assert watched.raised_alarms() == {("shop", "composite"): 1.0, ("other", "other"): 2.0}
    watched.metrics.withdraw("bank")
    assert watched.raised_alarms() == {("shop", "composite"): 1.0, ("other", "other"): 1.0}


def test_an_app_that_loses_its_label_has_no_gauges_and_its_alarms_are_counted_under_other() -> None:
    watched = Watched(apps=1, places=1)
    watched.show("shop", "composite", ALARM)
    watched.show("shop", "clarity", ALARM)
    watched.metrics.versions("new", "shop", evidence=0.0, enough=4.6, low=-0.1, high=0.1, worse=False)
    assert watched.raised_alarms() == {("shop", "composite"): 1.0, ("shop", "other"): 1.0}
    for _ in range(30):
        watched.show("bank", "composite", CALM)
    assert watched.raised_alarms() == {("bank", "composite"): 0.0, ("other", "other"): 2.0}
    assert watched("versions_worse", app="shop", comparison="new") is None
    watched.show("shop", "composite", CALM)
    assert watched.raised_alarms() == {("bank", "composite"): 0.0, ("other", "other"): 1.0}


STANDINGS = st.sampled_from([CALM, PRESSING, ALARM, {**CALM, "target": None, "mean": None}])
EVENTS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["composite", "good_share", "tone", "clarity"]), STANDINGS)
    | st.sampled_from("abcd"),
    max_size=60,
)


@given(EVENTS, st.integers(min_value=1, max_value=5), st.integers(min_value=1, max_value=4))
def test_all_alarms_are_counted_and_the_series_are_bounded(events: list[Any], places: int, apps: int) -> None:
    """An event is an observation of a series, or the name of an app that is withdrawn."""
    watched = Watched(apps=apps, places=places)
    open_alarms: set[tuple[str, str]] = set()
    names: dict[str, None] = {}
    for event in events:
        if isinstance(event, str):
            watched.metrics.withdraw(event)
            open_alarms = {(app, dimension) for app, dimension in open_alarms if app != event}
            names[event] = None
        else:
            app, dimension, standing = event
            watched.show(app, dimension, standing)
            (open_alarms.add if standing["raised"] else open_alarms.discard)((app, dimension))
            names[app] = None
        alarm_counts = watched.raised_alarms()
        assert sum(alarm_counts.values()) == len(open_alarms)
        by_label = {app: watched.apps.label(app) for app in names}
        for label in set(by_label.values()):
            alarms = sum(by_label[app] == label for app, _ in open_alarms)
            assert sum(number for (app, _), number in alarm_counts.items() if app == label) == alarms
        assert watched.series() <= 7 * places + apps + 1


# Announcements, judges and versions


def test_announcements_are_counted_by_subject() -> None:
    watched = Watched()
    for kind in ("raised", "updated", "updated", "cleared"):
        watched.metrics.count_announcement("quality", kind)
    assert watched("alerts_total", subject="quality", kind="updated") == 2.0
    assert watched("alerts_total", subject="quality", kind="raised") == 1.0
    assert watched("alerts_total", subject="judges", kind="raised") is None


def test_without_canaries_and_comparisons_there_are_no_metrics_about_them() -> None:
    watched = Watched()
    watched.show("shop", "composite")
    watched.metrics.withdraw("shop")
    watched.metrics.withdraw_judges()
    names = {metric.name for metric in watched.registry.collect()}
    assert not any(name.startswith((JUDGES, VERSIONS)) for name in names)


def test_judge_stability_is_shown_until_another_process_follows_the_canaries() -> None:
    watched = Watched()
    watched.metrics.judges("clarity", evidence=1.0, enough=4.6, low=0.9, high=1.0, changed=False)
    watched.metrics.judges("clarity", evidence=-9.0, enough=2.3, low=None, high=None, changed=True)
    judge_metrics = [
        watched(f"judges_{part}", dimension="clarity") for part in ("log_evidence", "changed", "stability_low")
    ]
    assert judge_metrics == [-9.0, 1.0, None]
    watched.metrics.withdraw_judges()
    assert watched("judges_changed", dimension="clarity") is None


def test_dimensions_that_canaries_are_no_longer_judged_by_are_removed() -> None:
    watched = Watched()
    watched.metrics.keep_judges(())
    for dimension in ("clarity", "tone"):
        watched.metrics.judges(dimension, evidence=1.0, enough=4.6, low=0.9, high=1.0, changed=True)
    watched.metrics.keep_judges(["tone"])
    assert watched("judges_changed", dimension="tone") == 1.0
    assert watched("judges_changed", dimension="clarity") is None


def test_a_comparison_is_shown_by_app_and_ends_with_it() -> None:
    watched = Watched(apps=2)
    for app in ("shop", "bank", "mail"):
        watched.metrics.keep(app, ())
        watched.metrics.versions("new", app, evidence=5.0, enough=4.6, low=-0.2, high=-0.1, worse=app == "shop")
    assert watched("versions_worse", app="shop", comparison="new") == 1.0
    assert watched("versions_worse", app="bank", comparison="new") == 0.0
    assert watched("versions_worse", app="other", comparison="new") is None, "several apps at once have no difference"
    assert watched("versions_difference_high", app="shop", comparison="new") == -0.1
    watched.metrics.withdraw("shop")
    assert watched("versions_worse", app="shop", comparison="new") is None
    assert watched("versions_worse", app="bank", comparison="new") == 0.0


def test_the_source_of_a_drop_is_shown_when_it_is_known() -> None:
    watched, series = Watched(), {"app": "shop", "dimension": "composite"}
    for is_judges, value in ((None, None), (True, 1.0), (False, 0.0), (None, None)):
        watched.show("shop", "composite", ALARM, attributed_to_judges=is_judges)
        assert watched("detection_attributed_to_judges", **series) == value


# Labels


def corrected(labels: int, mean: float | None = 0.6) -> CorrectedEstimate:
    interval = None if mean is None else MeanInterval(mean=mean, low=mean - 0.1, high=mean + 0.1)
    return CorrectedEstimate(
        judged=90,
        labels=labels,
        effective_labels=float(labels),
        judge_mean=0.8,
        corrected=interval,
        anytime=None if mean is None else MeanInterval(mean=mean, low=mean - 0.3, high=mean + 0.3),
    )


def test_a_mean_with_too_few_labels_is_uncorrected_and_the_judges_mean_is_shown() -> None:
    watched = Watched()
    watched.apps.count("shop")
    watched.metrics.correct("shop", {}, {})
    assert not any("corrected" in metric.name for metric in watched.registry.collect())
    for estimate, score, uncorrected in ((corrected(40), 0.6, 0.0), (corrected(3, None), None, 1.0)):
        watched.metrics.correct("shop", {"clarity": estimate}, {})
        series = {"app": "shop", "dimension": "clarity"}
        assert watched("corrected_score", **series) == score
        assert watched("corrected_score_low", **series) == (None if score is None else 0.5)
        anytime = watched("corrected_score_anytime_low", **series), watched("corrected_score_anytime_high", **series)
        assert anytime == ((None, None) if score is None else (pytest.approx(0.3), pytest.approx(0.9)))
        assert watched("corrected_uncorrected", **series) == uncorrected
        assert watched("corrected_judges_score", **series) == 0.8
        assert watched("corrected_labelled", **series) == estimate.labels


def test_series_without_labels_and_apps_of_another_process_are_withdrawn() -> None:
    watched = Watched()
    for app in ("shop", "bank"):
        watched.apps.count(app)
        watched.metrics.correct(app, {"clarity": corrected(40), "tone": corrected(40)}, {"thumbs": (4, 0.75)})
    assert watched("feedback_score", app="shop", series="thumbs") == 0.75
    assert watched("feedback_reactions", app="shop", series="thumbs") == 4.0
    watched.metrics.correct("shop", {"tone": corrected(41)}, {})
    watched.metrics.withdraw("bank")
    assert watched("corrected_labelled", app="shop", dimension="clarity") is None
    assert watched("corrected_labelled", app="shop", dimension="tone") == 41.0
    assert watched("feedback_score", app="shop", series="thumbs") is None
    assert watched("corrected_labelled", app="bank", dimension="tone") is None


def test_judges_are_shown_with_intervals_and_withdrawn_with_their_labels() -> None:
    watched = Watched()
    watched.apps.count("shop")
    watched.metrics.agree("shop", {}, {})
    assert not any("agreement" in metric.name for metric in watched.registry.collect())
    local, other = JudgeCriterion("local", "clarity"), JudgeCriterion("other", "clarity")
    unknown = replace(QUALITY, labels=1, kappa=RangedShare(), bias=Difference(rows=1, mean=0.25))
    watched.metrics.agree("shop", {local: QUALITY, other: unknown}, {local: STANDING})
    series = {"app": "shop", "criterion": "clarity", "judge": "local"}
    for name, value in (("kappa", 0.8), ("kappa_low", 0.7), ("bias_high", 0.2), ("labels", 40.0), ("fallen", 0.0)):
        assert watched(f"judge_agreement_{name}", **series) == value
    shown = {
        name: watched(f"judge_agreement_{name}", **{**series, "judge": "other"}) for name in ("kappa", "bias", "fallen")
    }
    assert shown == {"kappa": None, "bias": 0.25, "fallen": None}
    watched.metrics.agree("shop", {other: unknown}, {})
    assert watched("judge_agreement_labels", **series) is None
    watched.metrics.withdraw("shop")
    assert watched("judge_agreement_labels", **{**series, "judge": "other"}) is None


def test_the_number_of_judges_with_gauges_is_bounded_and_one_with_an_alert_has_them() -> None:
    watched, local = Watched(), JudgeCriterion("local", "clarity")
    for number in range(30):
        watched.apps.count(f"app-{number}")
        watched.metrics.agree(f"app-{number}", {local: QUALITY}, {local: STANDING})
    assert watched.series() == 20 * 20
    watched.metrics.agree("app-29", {local: QUALITY}, {local: STANDING._replace(fallen=True)})
    assert watched("judge_agreement_fallen", app="app-29", criterion="clarity", judge="local") == 1.0
    assert watched.series() == 20 * 20


def test_families_and_languages_are_shown_and_withdrawn_with_their_labels_or_the_label_of_their_app() -> None:
    watched = Watched(apps=1)
    watched.apps.count("shop")
    watched.metrics.agree_on_slices("shop", {})
    assert not any("slice" in metric.name for metric in watched.registry.collect())
    english, gpt = (JudgeSlice("local", "clarity", *part) for part in (("language", "en"), ("family", "gpt")))
    watched.metrics.agree_on_slices("shop", {english: QUALITY, gpt: replace(QUALITY, kappa=RangedShare())})
    watched.metrics.agree_on_slices("bank", {english: QUALITY})  # without a label of its own
    names = {"app": "shop", "criterion": "clarity", "judge": "local"}
    series = [{**names, "attribute": part.attribute, "value": part.value} for part in (english, gpt)]
    assert [watched("judge_agreement_slice_kappa", **labels) for labels in series] == [0.8, None]
    assert [watched("judge_agreement_slice_bias_high", **labels) for labels in series] == [0.2, 0.2]
    assert watched.series() == 13 + 10
    watched.metrics.agree_on_slices("shop", {gpt: QUALITY})
    assert [watched("judge_agreement_slice_kappa", **labels) for labels in series] == [None, 0.8]
    for _ in range(30):
        watched.show("bank", "composite", CALM)
    assert watched("judge_agreement_slice_kappa", **series[1]) is None
    watched.metrics.agree_on_slices("bank", {english: QUALITY})
    watched.metrics.withdraw("bank")
    assert watched.series() == 0


def test_the_number_of_families_and_languages_with_gauges_is_bounded() -> None:
    watched = Watched()
    for number in range(100):
        app = f"app-{number % 10}"
        watched.apps.count(app)
        parts = [JudgeSlice("local", "clarity", "family", f"family-{part}") for part in range(number)]
        watched.metrics.agree_on_slices(app, dict.fromkeys(parts, QUALITY))
    assert watched.series() == 60 * 13


def test_the_number_of_corrected_series_is_bounded() -> None:
    watched = Watched()
    for number in range(30):
        app = f"app-{number}"
        watched.apps.count(app)
        watched.metrics.correct(app, {"clarity": corrected(40), "tone": corrected(40)}, {})
    assert watched.series() == 40 * 8
