"""What is watched in a partition: drops are announced with what is behind them, once, whatever comes in between."""

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
    announced,
    plan_of,
    restored,
)

PLAN = plan_of()


def story(seed: int = 1) -> list[ScoreRecord]:
    """Healthy, then wrong, then healthy again."""
    traffic = Traffic(seed)
    return [*traffic.many(200), *traffic.many(150, WRONG), *traffic.many(500)]


def about(alerts: list[Alert], dimension: str) -> list[Alert]:
    return [alert for alert in alerts if alert.series.dimension == dimension and alert.kind is not EventKind.UPDATED]


STORY = story()
TOLD = announced(PartitionWatch(PLAN, 0), STORY)


def test_a_drop_is_raised_and_cleared_for_what_dropped_and_for_nothing_else() -> None:
    assert {alert.series.dimension for alert in TOLD} == {"groundedness", "composite", "good_share"}
    for dimension in ("groundedness", "composite", "good_share"):
        assert [alert.kind for alert in about(TOLD, dimension)] == [EventKind.RAISED, EventKind.CLEARED]
    assert {alert.series.app for alert in TOLD} == {"shop"}
    assert {alert.subject for alert in TOLD} == {Subject.QUALITY}


def test_an_alert_says_what_is_known() -> None:
    raised, cleared = about(TOLD, "groundedness")
    began, ended = BEGIN + 200 * EVERY_SECONDS, BEGIN + 350 * EVERY_SECONDS
    assert abs(raised.onset_at.timestamp() - began) < 10 * EVERY_SECONDS
    assert raised.low <= raised.estimate <= raised.high < raised.target == 0.85
    assert abs(raised.estimate - WRONG["groundedness"]) < 0.2
    assert raised.evidence >= raised.enough > 4
    assert raised.effective_n == pytest.approx(raised.scores)
    assert cleared.alert_id == raised.alert_id
    assert cleared.raised_at == raised.raised_at == raised.at
    assert cleared.recovered_at is not None
    assert abs(cleared.recovered_at.timestamp() - ended) < 10 * EVERY_SECONDS
    assert cleared.cause is Cause.RECOVERED


def test_an_alert_names_the_worst_dimensions_and_three_examples_of_what_is_wrong() -> None:
    scores = {record.interaction_id: record for record in STORY}
    composite = about(TOLD, "composite")[0]
    assert composite.worst_dimensions[0].dimension == "groundedness"
    assert len(composite.examples) == 3
    for example in composite.examples:
        assert scores[example.interaction_id].scores["composite"] == example.score < 0.85
        assert example.at >= composite.onset_at


def test_it_is_said_in_plain_words() -> None:
    raised, cleared = about(TOLD, "groundedness")
    assert raised.summary.startswith("The groundedness of shop has dropped below its target of 0.85: 0.")
    assert " since 2023-11-1" in raised.summary
    assert cleared.summary.startswith("The groundedness of shop has recovered: ")


@given(cuts=st.lists(st.integers(0, len(STORY)), max_size=6).map(sorted), back=st.integers(0, 40))
@settings(max_examples=15)
def test_whoever_goes_on_from_what_was_stored_announces_what_one_who_never_stopped_does(
    cuts: list[int], back: int
) -> None:
    """After each stop some records come again, in their order, as they do when a process is killed."""
    watch, told, at = PartitionWatch(PLAN, 0), [], 0
    stored: dict[str, bytes] = {}
    for cut in [*cuts, len(STORY)]:
        told += announced(watch, STORY[max(0, at - back) : cut])
        watch, at = restored(PLAN, watch, stored), cut
    assert told == TOLD


@given(seed=st.integers(0, 2**32))
@settings(max_examples=10)
def test_evaluations_that_are_published_twice_count_once(seed: int) -> None:
    """Such a repeat has an offset of its own."""
    draw, traffic = Random(seed), Traffic()
    once = [*traffic.many(200), *traffic.many(100, WRONG)]
    twice = []
    for record in once:
        twice.append(record)
        if draw.random() < 0.3:
            again = draw.choice(twice[-50:])
            source = record.source.model_copy(update={"offset": 10_000 + len(twice)})
            twice.append(again.model_copy(update={"source": source}))
    # What is counted by offset must not take the others for repeats.
    numbered = [
        record.model_copy(update={"source": record.source.model_copy(update={"partition": 0, "offset": number})})
        for number, record in enumerate(twice)
    ]
    assert announced(PartitionWatch(PLAN, 0), numbered) == announced(PartitionWatch(PLAN, 0), once)


def test_a_topic_that_was_made_anew_is_not_taken_for_repeats() -> None:
    watch, traffic = PartitionWatch(PLAN, 0), Traffic()
    announced(watch, traffic.many(200))
    anew = [
        record.model_copy(update={"source": record.source.model_copy(update={"offset": number})})
        for number, record in enumerate(traffic.many(100, WRONG))
    ]
    assert about(announced(watch, anew), "groundedness")


def test_another_evaluator_begins_its_own_series_and_the_alarms_of_one_that_is_gone_are_closed() -> None:
    watch, traffic = PartitionWatch(PLAN, 0), Traffic()
    raised = announced(watch, [*traffic.many(100), *traffic.many(100, WRONG)])
    assert about(raised, "groundedness")[-1].kind is EventKind.RAISED
    traffic.fingerprint = "f2"
    told = announced(watch, traffic.many(300))
    closed = [alert for alert in told if alert.cause is Cause.EVALUATOR_CHANGED]
    assert {alert.series.dimension for alert in closed} == {"groundedness", "composite", "good_share"}
    assert {alert.fingerprint for alert in closed} == {"f1"}
    assert not [alert for alert in told if alert.fingerprint == "f2"]


def test_two_evaluators_side_by_side_are_two_series() -> None:
    """As while workers are replaced one by one: what one of them finds bad is not mixed with what the other does."""
    watch, one, two = PartitionWatch(PLAN, 0), Traffic(1), Traffic(2, fingerprint="f2")
    two.number = 1_000_000
    told = []
    for _ in range(150):
        told += watch.observe(one.next())
        told += watch.observe(two.next(WRONG).model_copy(update={"at": BEGIN + EVERY_SECONDS * one.number}))
    assert {alert.fingerprint for alert in about(told, "groundedness")} == {"f2"}


class TestCanaries:
    def judged(self, watch: PartitionWatch, traffic: Traffic, verdict: str, rounds: int) -> list[Alert]:
        return announced(watch, [traffic.canary(f"c{at}", verdict) for _ in range(rounds) for at in range(20)])

    def test_a_change_of_the_verdicts_is_a_change_of_the_judges(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        assert not self.judged(watch, traffic, "good", 20)
        told = self.judged(watch, traffic, "bad", 2)
        assert [(alert.kind, alert.subject, alert.series.key) for alert in told] == [
            (EventKind.RAISED, Subject.JUDGES, "canaries/groundedness")
        ]
        assert told[0].summary.startswith("The judges have changed: ")

    def test_afterwards_what_they_say_now_is_expected_and_the_alarm_ends(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        told = self.judged(watch, traffic, "bad", 60)
        assert [alert.kind for alert in told if alert.kind is not EventKind.UPDATED] == [
            EventKind.RAISED,
            EventKind.CLEARED,
        ]

    def test_quality_alarms_about_what_the_judges_changed_in_are_withdrawn(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        told = announced(watch, [*traffic.many(100), *traffic.many(60, WRONG)])
        told += self.judged(watch, traffic, "bad", 2)
        withdrawn = [alert for alert in told if alert.cause is Cause.JUDGES_CHANGED]
        assert {alert.series.dimension for alert in withdrawn} == {"groundedness", "composite", "good_share"}
        assert all("the judges have changed" in alert.summary for alert in withdrawn)

    def test_afterwards_a_target_that_was_meant_for_other_judges_raises_nothing(self) -> None:
        """What they are like now is learnt; and a drop from there is one again."""
        plan = plan_of(reference_scores=200)
        watch, traffic = PartitionWatch(plan, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        announced(watch, traffic.many(100))
        self.judged(watch, traffic, "bad", 2)
        strict = {"groundedness": 0.7, "clarity": 0.99}
        watch = restored(plan, watch)
        told = announced(watch, traffic.many(400, strict))
        assert not [alert for alert in told if alert.subject is Subject.QUALITY]
        assert about(announced(watch, traffic.many(200, WRONG)), "composite")

    def test_an_app_that_is_new_then_is_not_measured_by_such_a_target_either(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        self.judged(watch, traffic, "bad", 2)
        assert not announced(watch, traffic.many(100, WRONG))

    def test_a_first_verdict_that_was_the_rare_one_is_not_what_is_expected(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "bad", 1)
        assert not self.judged(watch, traffic, "good", 10)
        assert not self.judged(watch, traffic, "good", 30)
        assert self.judged(watch, traffic, "bad", 2)

    def test_judges_that_waver_as_much_as_is_usual_have_not_changed(self) -> None:
        draw, watch, traffic = Random(5), PartitionWatch(PLAN, 0), Traffic()
        for _ in range(150):
            for at in range(20):
                verdict = "good" if draw.random() < 0.9925 else "bad"
                assert not watch.observe(traffic.canary(f"c{at}", verdict))

    def test_judges_that_are_again_what_they_were_are_measured_by_the_targets_again(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        self.judged(watch, traffic, "bad", 2)
        assert watch.canaries.changed_dimensions("f1") == {"groundedness"}
        watch = restored(PLAN, watch)
        self.judged(watch, traffic, "good", 5)
        assert watch.canaries.changed_dimensions("f1") == frozenset()
        assert about(announced(watch, traffic.many(100, WRONG)), "groundedness")

    def test_an_alarm_about_judges_that_are_no_longer_asked_is_closed(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        assert self.judged(watch, traffic, "bad", 2)
        traffic.fingerprint = "f2"
        told = self.judged(watch, traffic, "bad", 11)
        assert [(alert.kind, alert.cause) for alert in told] == [(EventKind.CLEARED, Cause.EVALUATOR_CHANGED)]

    def test_what_they_show_is_stored_after_the_alarms_that_are_withdrawn_for_it(self) -> None:
        """Who goes on from less than all of it must withdraw them again."""
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        announced(watch, traffic.many(5))
        assert [key for key, _ in watch.take_changes()] == ["app:shop", "canaries"]

    def test_every_partition_knows_and_one_announces(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 3), Traffic()
        self.judged(watch, traffic, "good", 10)
        announced(watch, [*traffic.many(100), *traffic.many(60, WRONG)])
        told = self.judged(watch, traffic, "bad", 2)
        assert {alert.cause for alert in told} == {Cause.JUDGES_CHANGED}

    def test_what_is_known_of_them_is_stored(self) -> None:
        watch, traffic = PartitionWatch(PLAN, 0), Traffic()
        self.judged(watch, traffic, "good", 10)
        assert self.judged(restored(PLAN, watch), traffic, "bad", 2)


class TestModels:
    PLAN = plan_of(by=["model"], versions=[{"name": "new", "a": "m2", "b": "m1", "margin": 0.15}], reference_scores=100)

    def told(self, wrong: str) -> list[Alert]:
        watch, traffic, told = PartitionWatch(self.PLAN, 0), Traffic(), []
        for number in range(1500):
            model = f"m{1 + number % 2}"
            means = WRONG if model == wrong and number > 400 else HEALTHY
            told += watch.observe(traffic.next(means, model=model))
        return told

    def test_a_model_that_is_worse_than_the_other_is_told_of(self) -> None:
        told = [alert for alert in self.told("m2") if alert.subject is Subject.VERSIONS]
        assert [alert.series.value for alert in told] == ["new"]
        assert told[0].estimate < -0.15
        assert told[0].summary.startswith(
            "m2 is worse than m1 in shop (new) by more than 0.15, with high confidence: -0."
        )

    def test_one_that_is_better_is_not(self) -> None:
        assert not [alert for alert in self.told("m1") if alert.subject is Subject.VERSIONS]

    def test_the_series_of_a_model_tells_which_one_dropped(self) -> None:
        told = [alert for alert in self.told("m2") if alert.series.attribute == "model"]
        assert {alert.series.value for alert in told} == {"m2"}

    def test_one_that_gets_better_is_no_longer_told_of(self) -> None:
        watch, traffic, told = PartitionWatch(self.PLAN, 0), Traffic(), []
        for number in range(4000):
            model = f"m{1 + number % 2}"
            told += watch.observe(traffic.next(WRONG if model == "m2" and number < 1000 else HEALTHY, model=model))
        versions = [alert.kind for alert in told if alert.subject is Subject.VERSIONS]
        assert versions == [EventKind.RAISED, EventKind.CLEARED]

    def test_alarms_about_what_is_no_longer_there_are_closed(self) -> None:
        """A model that answers no more, and a comparison of an evaluator that is not asked any more."""
        watch, traffic = PartitionWatch(self.PLAN, 0), Traffic()
        told = []
        for number in range(1400):
            model = f"m{1 + number % 2}"
            told += watch.observe(traffic.next(WRONG if model == "m2" and number > 400 else HEALTHY, model=model))
        told += announced(watch, traffic.many(1200, model="m1"))
        gone = [alert for alert in told if alert.cause is Cause.GONE]
        assert {alert.series.value for alert in gone} == {"m2"}
        traffic.fingerprint = "f2"
        told = announced(watch, traffic.many(250, model="m1"))
        assert {alert.series.value for alert in told if alert.subject is Subject.VERSIONS} == {"new"}
        assert {alert.cause for alert in told} == {Cause.EVALUATOR_CHANGED}


def test_after_an_alert_its_figures_are_shown_until_the_scores_since_then_say_something() -> None:
    """The interval of the first score after an alert is 0 to 1, which says nothing."""
    watch = PartitionWatch(PLAN, 0)
    story = iter(STORY)
    while not (raised := about(watch.observe(next(story)), "groundedness")):
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


def test_while_one_evaluator_has_an_alarm_it_is_shown() -> None:
    watch, one, two = PartitionWatch(PLAN, 0), Traffic(1), Traffic(2, fingerprint="f2")
    two.number = 1_000_000
    for _ in range(60):
        watch.observe(two.next(WRONG).model_copy(update={"at": BEGIN + EVERY_SECONDS * one.number}))
        watch.observe(one.next())
    shown = {series.dimension: reading for series, reading in watch.apps["shop"].readings()}
    assert shown["groundedness"].is_raised
    assert not shown["clarity"].is_raised


def test_more_evaluators_than_can_be_followed_do_not_push_each_other_out() -> None:
    watch, told = PartitionWatch(PLAN, 0), []
    traffic = Traffic()
    for number in range(1500):
        traffic.fingerprint = f"f{number % 10}"
        told += watch.observe(traffic.next(WRONG))
    assert {alert.kind for alert in about(told, "groundedness")} == {EventKind.RAISED}


class TestWhatIsStored:
    def test_it_is_small(self) -> None:
        watch = PartitionWatch(PLAN, 0)
        announced(watch, STORY)
        (state,) = [value for _key, value in watch.take_changes() if value is not None]
        assert len(state) < 30_000

    def test_what_was_announced_last_comes_back_so_that_it_can_be_published(self) -> None:
        watch = PartitionWatch(PLAN, 0)
        told = announced(watch, STORY[:230])
        assert told
        after = PartitionWatch(PLAN, 0)
        assert after.restore({key: value for key, value in watch.take_changes() if value}) == told

    def test_what_cannot_be_read_begins_anew(self, caplog: pytest.LogCaptureFixture) -> None:
        watch = PartitionWatch(PLAN, 0)
        assert watch.restore({"app:shop": b'{"v": 99}', "app:bank": b"?"}) == []
        assert watch.apps == {}
        assert "app:shop" in caplog.text
        assert "restarting its detectors" in caplog.text

    def test_the_app_that_was_silent_for_the_longest_makes_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stream.monitor.alerts.watch.partition.MOST_APPS", 2)
        watch = PartitionWatch(PLAN, 0)
        told = announced(watch, Traffic(app="two").many(40, WRONG))
        assert {alert.kind for alert in about(told, "groundedness")} == {EventKind.RAISED}
        one = Traffic(app="one")
        announced(watch, one.many(1))
        told = announced(watch, Traffic(app="three").many(1))
        assert set(watch.apps) == {"one", "three"}
        assert watch.forgotten == ["two"]
        assert {(alert.series.app, alert.cause) for alert in told} == {("two", Cause.GONE)}
        assert dict(watch.take_changes())["app:two"] is None
