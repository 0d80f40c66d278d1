"""The watch of a partition announces each drop once, with its cause, across restarts and repeats."""

import functools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.monitor.alerts.alert import Alert, Cause, Subject
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.partition import PartitionWatch
from stream.monitor.detection import EventKind
from tests.stream.monitor.alerts.traffic import (
    BEGIN,
    EVERY_SECONDS,
    HEALTHY,
    WRONG,
    Traffic,
    collect_alerts,
    plan_of,
    restore_watch,
)

PLAN = plan_of()


def make_story(seed: int = 1) -> list[ScoreRecord]:
    """Return records that are healthy, then wrong, then healthy again."""
    traffic = Traffic(seed)
    return [*traffic.many(200), *traffic.many(150, WRONG), *traffic.many(500)]


def changes_of(alerts: list[Alert], dimension: str) -> list[Alert]:
    return [alert for alert in alerts if alert.series.dimension == dimension and alert.kind is not EventKind.UPDATED]


STORY = make_story()


@functools.cache
def alerts_of_the_story() -> list[Alert]:
    return collect_alerts(PartitionWatch(PLAN, 0), STORY)


def test_an_alert_is_raised_and_cleared_only_for_series_that_dropped() -> None:
    alerts = alerts_of_the_story()
    assert {alert.series.dimension for alert in alerts} == {"groundedness", "composite", "good_share"}
    for dimension in ("groundedness", "composite", "good_share"):
        assert [alert.kind for alert in changes_of(alerts, dimension)] == [EventKind.RAISED, EventKind.CLEARED]
    assert {alert.series.app for alert in alerts} == {"shop"}
    assert {alert.subject for alert in alerts} == {Subject.QUALITY}


def test_an_alert_has_its_times_estimates_and_evidence() -> None:
    raised, cleared = changes_of(alerts_of_the_story(), "groundedness")
    start, end = BEGIN + 200 * EVERY_SECONDS, BEGIN + 350 * EVERY_SECONDS
    assert abs(raised.onset_at.timestamp() - start) < 10 * EVERY_SECONDS
    assert raised.low <= raised.estimate <= raised.high < raised.target == 0.85
    assert abs(raised.estimate - WRONG["groundedness"]) < 0.2
    assert raised.evidence >= raised.enough > 4
    assert raised.effective_n == pytest.approx(raised.scores)
    assert cleared.alert_id == raised.alert_id
    assert cleared.raised_at == raised.raised_at == raised.at
    assert cleared.recovered_at is not None
    assert abs(cleared.recovered_at.timestamp() - end) < 10 * EVERY_SECONDS
    assert cleared.cause is Cause.RECOVERED


def test_an_alert_names_the_worst_dimensions_and_three_examples() -> None:
    scores = {record.interaction_id: record for record in STORY}
    composite = changes_of(alerts_of_the_story(), "composite")[0]
    assert composite.worst_dimensions[0].dimension == "groundedness"
    assert len(composite.examples) == 3
    for example in composite.examples:
        assert scores[example.interaction_id].scores["composite"] == example.score < 0.85
        assert example.at >= composite.onset_at


def test_an_alert_has_a_summary_in_plain_words() -> None:
    raised, cleared = changes_of(alerts_of_the_story(), "groundedness")
    assert raised.summary.startswith("The groundedness of shop has dropped below its target of 0.85: 0.")
    assert " since 2023-11-1" in raised.summary
    assert cleared.summary.startswith("The groundedness of shop has recovered: ")


@pytest.mark.slow
@given(cuts=st.lists(st.integers(0, len(STORY)), max_size=6).map(sorted), repeated=st.integers(0, 40))
@settings(max_examples=8)
def test_a_restored_watch_announces_the_same_alerts_as_one_that_never_stopped(cuts: list[int], repeated: int) -> None:
    """After each stop some records are repeated in order, as when a process is killed."""
    watch, alerts, position = PartitionWatch(PLAN, 0), [], 0
    stored: dict[str, bytes] = {}
    for cut in [*cuts, len(STORY)]:
        alerts += collect_alerts(watch, STORY[max(0, position - repeated) : cut])
        watch, position = restore_watch(PLAN, watch, stored), cut
    assert alerts == alerts_of_the_story()


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@settings(max_examples=5)
def test_evaluations_that_are_published_twice_count_once(seed: int) -> None:
    """Such a repeat has a different offset."""
    draw, traffic = Random(seed), Traffic()
    records = [*traffic.many(200), *traffic.many(100, WRONG)]
    with_repeats = []
    for record in records:
        with_repeats.append(record)
        if draw.random() < 0.3:
            repeat = draw.choice(with_repeats[-50:])
            source = record.source.model_copy(update={"offset": 10_000 + len(with_repeats)})
            with_repeats.append(repeat.model_copy(update={"source": source}))
    # Detection of repeats by offset must not take the other records for repeats.
    numbered = [
        record.model_copy(update={"source": record.source.model_copy(update={"partition": 0, "offset": number})})
        for number, record in enumerate(with_repeats)
    ]
    assert collect_alerts(PartitionWatch(PLAN, 0), numbered) == collect_alerts(PartitionWatch(PLAN, 0), records)


def test_records_of_a_recreated_topic_are_not_taken_for_repeats() -> None:
    watch, traffic = PartitionWatch(PLAN, 0), Traffic()
    collect_alerts(watch, traffic.many(200))
    recreated = [
        record.model_copy(update={"source": record.source.model_copy(update={"offset": number})})
        for number, record in enumerate(traffic.many(100, WRONG))
    ]
    assert changes_of(collect_alerts(watch, recreated), "groundedness")


def test_another_evaluator_starts_a_new_series_and_the_alerts_of_the_old_one_are_closed() -> None:
    watch, traffic = PartitionWatch(PLAN, 0), Traffic()
    raised = collect_alerts(watch, [*traffic.many(100), *traffic.many(100, WRONG)])
    assert changes_of(raised, "groundedness")[-1].kind is EventKind.RAISED
    traffic.fingerprint = "f2"
    alerts = collect_alerts(watch, traffic.many(300))
    closed = [alert for alert in alerts if alert.cause is Cause.EVALUATOR_CHANGED]
    assert {alert.series.dimension for alert in closed} == {"groundedness", "composite", "good_share"}
    assert {alert.fingerprint for alert in closed} == {"f1"}
    assert not [alert for alert in alerts if alert.fingerprint == "f2"]


def test_two_evaluators_side_by_side_are_two_series() -> None:
    """Workers may be replaced one by one; the scores of the two evaluators are not mixed."""
    watch, one, two = PartitionWatch(PLAN, 0), Traffic(1), Traffic(2, fingerprint="f2")
    two.number = 1_000_000
    alerts = []
    for _ in range(150):
        alerts += watch.observe(one.next())
        alerts += watch.observe(two.next(WRONG).model_copy(update={"at": BEGIN + EVERY_SECONDS * one.number}))
    assert {alert.fingerprint for alert in changes_of(alerts, "groundedness")} == {"f2"}


class TestCanaries:
    def judge_rounds(self, watch: PartitionWatch, traffic: Traffic, verdict: str, rounds: int) -> list[Alert]:
        return collect_alerts(
            watch, [traffic.canary(f"c{number}", verdict) for _ in range(rounds) for number in range(20)]
        )

    def test_a_change_of_the_verdicts_is_a_change_of_the_judges(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        assert not self.judge_rounds(watch, traffic, "good", 20)
        alerts = self.judge_rounds(watch, traffic, "bad", 2)
        assert [(alert.kind, alert.subject, alert.series.key) for alert in alerts] == [
            (EventKind.RAISED, Subject.JUDGES, "canaries/groundedness")
        ]
        assert alerts[0].summary.startswith("The judges have changed: ")

    def test_after_a_change_the_new_verdicts_are_expected_and_the_alert_ends(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        alerts = self.judge_rounds(watch, traffic, "bad", 60)
        assert [alert.kind for alert in alerts if alert.kind is not EventKind.UPDATED] == [
            EventKind.RAISED,
            EventKind.CLEARED,
        ]

    def test_quality_alerts_on_dimensions_in_which_the_judges_changed_are_withdrawn(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        alerts = collect_alerts(watch, [*traffic.many(100), *traffic.many(60, WRONG)])
        alerts += self.judge_rounds(watch, traffic, "bad", 2)
        withdrawn = [alert for alert in alerts if alert.cause is Cause.JUDGES_CHANGED]
        assert {alert.series.dimension for alert in withdrawn} == {"groundedness", "composite", "good_share"}
        assert all("the judges have changed" in alert.summary for alert in withdrawn)

    def test_after_a_change_a_target_for_the_former_judges_raises_no_alert(self) -> None:
        """A new target is learnt, and a drop below it is an alert again."""
        plan = plan_of(reference_scores=200)
        watch, traffic = PartitionWatch(plan, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        collect_alerts(watch, traffic.many(100))
        self.judge_rounds(watch, traffic, "bad", 2)
        strict = {"groundedness": 0.7, "clarity": 0.99}
        watch = restore_watch(plan, watch)
        alerts = collect_alerts(watch, traffic.many(400, strict))
        assert not [alert for alert in alerts if alert.subject is Subject.QUALITY]
        assert changes_of(collect_alerts(watch, traffic.many(200, WRONG)), "composite")

    def test_after_a_change_a_new_app_is_not_measured_by_such_a_target_either(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        self.judge_rounds(watch, traffic, "bad", 2)
        assert not collect_alerts(watch, traffic.many(100, WRONG))

    def test_a_rare_first_verdict_does_not_become_the_expected_one(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "bad", 1)
        assert not self.judge_rounds(watch, traffic, "good", 10)
        assert not self.judge_rounds(watch, traffic, "good", 30)
        assert self.judge_rounds(watch, traffic, "bad", 2)

    def test_judges_that_vary_as_usual_have_not_changed(self) -> None:
        draw, watch, traffic = Random(5), PartitionWatch(PLAN, 0), Traffic()
        for _ in range(150):
            for number in range(20):
                verdict = "good" if draw.random() < 0.9925 else "bad"
                assert not watch.observe(traffic.canary(f"c{number}", verdict))

    def test_judges_that_return_to_their_former_verdicts_are_measured_by_the_targets_again(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        self.judge_rounds(watch, traffic, "bad", 2)
        assert watch.canaries.changed_dimensions("f1") == {"groundedness"}
        watch = restore_watch(PLAN, watch)
        self.judge_rounds(watch, traffic, "good", 5)
        assert watch.canaries.changed_dimensions("f1") == frozenset()
        assert changes_of(collect_alerts(watch, traffic.many(100, WRONG)), "groundedness")

    def test_an_alert_about_judges_that_are_no_longer_used_is_closed(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        assert self.judge_rounds(watch, traffic, "bad", 2)
        traffic.fingerprint = "f2"
        alerts = self.judge_rounds(watch, traffic, "bad", 11)
        assert [(alert.kind, alert.cause) for alert in alerts] == [(EventKind.CLEARED, Cause.EVALUATOR_CHANGED)]

    def test_the_canaries_are_stored_after_the_apps_whose_alerts_they_withdraw(self) -> None:
        """A monitor that resumes from a partial write must withdraw the alerts again."""
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        collect_alerts(watch, traffic.many(5))
        assert [key for key, _ in watch.take_changes()] == ["answers:0", "app:shop", "canaries"]

    def test_every_partition_watches_the_canaries_and_only_one_announces(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 3), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        collect_alerts(watch, [*traffic.many(100), *traffic.many(60, WRONG)])
        alerts = self.judge_rounds(watch, traffic, "bad", 2)
        assert {alert.cause for alert in alerts} == {Cause.JUDGES_CHANGED}

    def test_the_state_of_the_canaries_is_stored(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judge_rounds(watch, traffic, "good", 10)
        assert self.judge_rounds(restore_watch(PLAN, watch), traffic, "bad", 2)


class TestModels:
    PLAN = plan_of(by=["model"], versions=[{"name": "new", "a": "m2", "b": "m1", "margin": 0.15}], reference_scores=100)

    def alerts_with_worse(self, worse_model: str) -> list[Alert]:
        watch, traffic, alerts = PartitionWatch(self.PLAN, 0), Traffic(), []
        for number in range(1000):
            model = f"m{1 + number % 2}"
            means = WRONG if model == worse_model and number > 400 else HEALTHY
            alerts += watch.observe(traffic.next(means, model=model))
        return alerts

    def test_a_model_that_is_worse_than_the_other_raises_an_alert(self) -> None:
        alerts = [alert for alert in self.alerts_with_worse("m2") if alert.subject is Subject.VERSIONS]
        assert [alert.series.value for alert in alerts] == ["new"]
        assert alerts[0].estimate < -0.15
        assert alerts[0].summary.startswith(
            "m2 is worse than m1 in shop (new) by more than 0.15, with high confidence: -0."
        )

    def test_a_model_that_is_better_raises_no_alert(self) -> None:
        assert not [alert for alert in self.alerts_with_worse("m1") if alert.subject is Subject.VERSIONS]

    def test_the_series_of_a_model_shows_which_one_dropped(self) -> None:
        alerts = [alert for alert in self.alerts_with_worse("m2") if alert.series.attribute == "model"]
        assert {alert.series.value for alert in alerts} == {"m2"}

    def test_the_alert_of_a_model_that_improves_is_cleared(self) -> None:
        watch, traffic, alerts = PartitionWatch(self.PLAN, 0), Traffic(), []
        for number in range(800):
            model = f"m{1 + number % 2}"
            alerts += watch.observe(traffic.next(WRONG if model == "m2" and number < 200 else HEALTHY, model=model))
        versions = [alert.kind for alert in alerts if alert.subject is Subject.VERSIONS]
        assert versions == [EventKind.RAISED, EventKind.CLEARED]

    def test_alerts_about_models_and_evaluators_that_are_gone_are_closed(self) -> None:
        """The model no longer answers, and the evaluator of the comparison is no longer used."""
        watch, traffic = PartitionWatch(self.PLAN, 0), Traffic()
        alerts = []
        for number in range(1000):
            model = f"m{1 + number % 2}"
            alerts += watch.observe(traffic.next(WRONG if model == "m2" and number > 400 else HEALTHY, model=model))
        alerts += collect_alerts(watch, traffic.many(1200, model="m1"))
        closed = [alert for alert in alerts if alert.cause is Cause.GONE]
        assert {alert.series.value for alert in closed} == {"m2"}
        traffic.fingerprint = "f2"
        alerts = collect_alerts(watch, traffic.many(250, model="m1"))
        assert {alert.series.value for alert in alerts if alert.subject is Subject.VERSIONS} == {"new"}
        assert {alert.cause for alert in alerts} == {Cause.EVALUATOR_CHANGED}


def test_after_an_alert_its_figures_are_shown_until_the_scores_since_then_say_something() -> None:
    """The interval of the first score after an alert is 0 to 1, which says nothing."""
    watch = PartitionWatch(PLAN, 0)
    story = iter(STORY)
    while not (raised := changes_of(watch.observe(next(story)), "groundedness")):
        pass
    watch.observe(next(story))
    shown = {series.dimension: reading for series, reading in watch.apps["shop"].readings()}["groundedness"].current
    [alert] = raised
    assert (shown.mean, shown.low, shown.high) == (alert.estimate, alert.low, alert.high)
    for record in (next(story) for _ in range(40)):
        watch.observe(record)
    later = {series.dimension: reading for series, reading in watch.apps["shop"].readings()}["groundedness"].current
    assert (later.mean, later.scores) != (alert.estimate, shown.scores)
    assert later.is_informative


def test_readings_show_an_alert_of_any_evaluator() -> None:
    watch, one, two = PartitionWatch(PLAN, 0), Traffic(1), Traffic(2, fingerprint="f2")
    two.number = 1_000_000
    for _ in range(60):
        watch.observe(two.next(WRONG).model_copy(update={"at": BEGIN + EVERY_SECONDS * one.number}))
        watch.observe(one.next())
    readings = {series.dimension: reading for series, reading in watch.apps["shop"].readings()}
    assert readings["groundedness"].is_raised
    assert not readings["clarity"].is_raised


def test_evaluators_beyond_the_limit_do_not_evict_each_other() -> None:
    watch, alerts = PartitionWatch(PLAN, 0), []
    traffic = Traffic()
    for number in range(1500):
        traffic.fingerprint = f"f{number % 10}"
        alerts += watch.observe(traffic.next(WRONG))
    assert {alert.kind for alert in changes_of(alerts, "groundedness")} == {EventKind.RAISED}


class TestStoredState:
    def test_the_state_is_small(self) -> None:
        watch = PartitionWatch(PLAN, 0)
        collect_alerts(watch, STORY)
        state = dict(watch.take_changes())["app:shop"]
        assert state is not None
        assert len(state) < 30_000

    def test_restoring_returns_the_last_alerts_so_that_they_can_be_published(self) -> None:
        watch = PartitionWatch(PLAN, 0)
        alerts = collect_alerts(watch, STORY[:230])
        assert alerts
        restored = PartitionWatch(PLAN, 0)
        assert restored.restore({key: value for key, value in watch.take_changes() if value}) == alerts

    def test_an_unreadable_state_starts_over(self, caplog: pytest.LogCaptureFixture) -> None:
        watch = PartitionWatch(PLAN, 0)
        assert watch.restore({"app:shop": b'{"v": 99}', "app:bank": b"?"}) == []
        assert watch.apps == {}
        assert "app:shop" in caplog.text
        assert "restarting its detectors" in caplog.text

    def test_the_app_that_was_silent_the_longest_is_evicted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stream.monitor.alerts.watch.partition.MOST_APPS", 2)
        watch = PartitionWatch(PLAN, 0)
        alerts = collect_alerts(watch, Traffic(app="two").many(40, WRONG))
        assert {alert.kind for alert in changes_of(alerts, "groundedness")} == {EventKind.RAISED}
        one = Traffic(app="one")
        collect_alerts(watch, one.many(1))
        alerts = collect_alerts(watch, Traffic(app="three").many(1))
        assert set(watch.apps) == {"one", "three"}
        assert watch.forgotten == ["two"]
        assert {(alert.series.app, alert.cause) for alert in alerts} == {("two", Cause.GONE)}
        assert dict(watch.take_changes())["app:two"] is None
