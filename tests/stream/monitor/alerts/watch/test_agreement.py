"""The alert when a judge agrees less with people: rarely false, raised after a change, the same after restarts."""

from collections.abc import Iterable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.values.label import Label
from stream.config.model import Config
from stream.monitor.alerts.alert import Alert, Cause, Subject, moment
from stream.monitor.alerts.labels.memory import JoinedLabel, ScoredAnswer
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.agreement import AgreementWatch
from stream.monitor.alerts.watch.partition import PartitionWatch
from stream.monitor.detection import EventKind
from tests.stream.monitor.alerts.traffic import BEGIN, Traffic, plan_of, restore_watch

PLAN = plan_of()
WITH_TARGET = WatchPlan(Config.model_validate({"labels": {"agreement": {"target": 0.85}}}))
EVERY_SECONDS = 3600.0
Step = ScoreRecord | Label


class Reviewed:
    """Answers that two judges score, and the labels of a designed queue: it prefers answers that the judges dispute."""

    def __init__(self, seed: int) -> None:
        self._draw, self._number = Random(seed), 0

    def labels(self, count: int, wrong: float = 0.1) -> Iterator[JoinedLabel]:
        """Yield labels of answers; the judge `local` differs from people on this share of all answers."""
        while count:
            label = float(self._draw.random() < 0.8)
            local = 1.0 - label if self._draw.random() < wrong else label
            other = 1.0 - label if self._draw.random() < 0.1 else label
            chance = 0.4 if local != other else 0.1
            self._number += 1
            if self._draw.random() < chance / 0.4:
                count -= 1
                at = BEGIN + EVERY_SECONDS * self._number
                judges = {"clarity": {"local": local, "other": other}}
                answer = ScoredAnswer(f"i-{self._number}", None, "shop", at, 0.1, {}, judges)
                yield JoinedLabel(label_of(answer.interaction_id, label, at, 0.1 * chance), answer)


def label_of(interaction: str, score: float, at: float, probability: float) -> Label:
    return Label(
        label_id=f"l-{interaction}",
        interaction_id=interaction,
        criterion="clarity",
        score=score,
        who="ada",
        labelled_at=moment(at),
        probability=probability,
    )


def compare(watch: AgreementWatch, labels: Iterable[JoinedLabel]) -> list[Alert]:
    return [
        alert
        for joined in labels
        for alert in watch.compare([joined], at=0.0 if joined.answer is None else joined.answer.at, count=0)
    ]


def means_of(watch: AgreementWatch) -> dict[str, float | None]:
    return {key.judge: reading.current.mean for key, reading in watch.readings().items()}


@pytest.mark.slow
def test_unchanged_judges_raise_at_most_one_false_alert_in_a_hundred_periods() -> None:
    """Two judges in 30 periods of 30 days or more: with a rate of 1 %, more than 4 alerts are very unlikely."""
    watches = [(AgreementWatch(PLAN), Reviewed(seed)) for seed in range(30)]
    assert sum(len(compare(watch, reviewed.labels(500))) for watch, reviewed in watches) <= 4


def test_a_judge_that_agrees_less_raises_an_alert_which_is_cleared_when_it_agrees_again() -> None:
    watch, reviewed = AgreementWatch(PLAN), Reviewed(3)
    assert compare(watch, reviewed.labels(260)) == []
    raised, *updates = compare(watch, reviewed.labels(300, wrong=0.5))
    assert (raised.kind, raised.subject, raised.series.value) == (EventKind.RAISED, Subject.AGREEMENT, "local")
    assert raised.key == "shop/clarity/judge=local/"
    assert raised.summary.startswith("The agreement of the judge local with people on clarity in shop has fallen below")
    assert raised.examples
    assert {update.kind for update in updates} <= {EventKind.UPDATED}
    assert {key.judge: reading.is_raised for key, reading in watch.readings().items()} == {
        "local": True,
        "other": False,
    }
    *_, cleared = compare(watch, reviewed.labels(400))
    assert (cleared.kind, cleared.cause, cleared.alert_id) == (EventKind.CLEARED, Cause.RECOVERED, raised.alert_id)
    assert "has recovered" in cleared.summary


def test_a_configured_target_finds_a_smaller_fall_and_is_no_longer_used_when_it_is_removed() -> None:
    watch, reviewed = AgreementWatch(WITH_TARGET), Reviewed(3)
    assert compare(watch, reviewed.labels(100)) == []
    raised, *_ = compare(watch, reviewed.labels(300, wrong=0.3))
    assert (raised.target, raised.series.value) == (0.85, "local")
    learning = AgreementWatch.from_data(PLAN, watch.as_data())
    [closed] = compare(learning, reviewed.labels(1))
    assert (closed.alert_id, closed.cause) == (raised.alert_id, Cause.EVALUATOR_CHANGED)


def test_the_queue_does_not_change_the_mean() -> None:
    """Disputed answers are labelled four times as often; the mean is still that of all answers."""
    watch = AgreementWatch(PLAN)
    compare(watch, Reviewed(5).labels(900, wrong=0.2))
    assert means_of(watch) == {"local": pytest.approx(0.8, abs=0.04), "other": pytest.approx(0.9, abs=0.04)}


def make_steps(answers: int) -> Iterator[Step]:
    draw, traffic = Random(7), Traffic(7)
    for _ in range(answers):
        record = traffic.next(judges={"clarity": {"local": float(draw.random() < 0.8), "other": 1.0}})
        label = label_of(record.interaction_id, float(draw.random() < 0.8), record.at, 0.05)
        yield from draw.sample([record, label], 2)


STEPS = list(make_steps(40))


def take(watch: PartitionWatch, step: Step) -> list[Alert]:
    alerts = watch.observe_label(step) if isinstance(step, Label) else watch.observe(step)
    return [alert for alert in alerts if alert.subject is Subject.AGREEMENT]


@settings(max_examples=10, deadline=None)
@given(st.sets(st.integers(0, len(STEPS) - 1), max_size=4), st.randoms(use_true_random=False))
def test_each_answer_counts_once_whatever_is_repeated_and_restarted(stops: set[int], draw: Random) -> None:
    steady, watch, stored = PartitionWatch(PLAN, 0), PartitionWatch(PLAN, 0), dict[str, bytes]()
    for place, step in enumerate(STEPS):
        take(steady, step)
        take(watch, step)
        if isinstance(step, Label):
            # A second opinion does not count again.
            other = {"label_id": f"{step.label_id}-2", "who": draw.choice(("ada", "bob")), "score": 0.5}
            take(watch, step.model_copy(update=other))
        if place in stops:
            watch = restore_watch(PLAN, watch, stored)
            for earlier in STEPS[max(0, place - 5) : place + 1]:
                take(watch, earlier)
    agreement = watch.apps["shop"].agreement
    assert agreement.as_data() == steady.apps["shop"].agreement.as_data()
    assert [reading.current.scores for reading in agreement.readings().values()] == [40, 40]


def test_labels_that_were_not_chosen_at_random_or_are_retracted_before_their_answer_do_not_count() -> None:
    watch = PartitionWatch(PLAN, 0)
    first, second, third = [step for step in STEPS if isinstance(step, Label)][:3]
    take(watch, first.model_copy(update={"probability": None}))
    take(watch, second)
    take(watch, second.model_copy(update={"label_id": "r", "retracts": second.label_id}))
    take(watch, third.model_copy(update={"kind": "feedback"}))
    for step in STEPS[:10]:
        if isinstance(step, ScoreRecord):
            take(watch, step)
    assert not watch.apps["shop"].agreement.has_judges


def test_a_judge_that_judges_no_more_is_removed_with_its_alert() -> None:
    watch, reviewed = AgreementWatch(PLAN), Reviewed(3)
    raised, *_ = compare(watch, [*reviewed.labels(260), *reviewed.labels(300, wrong=0.5)])
    record = Traffic(9).next(judges={"clarity": {"other": 1.0}})
    assert watch.see(record, 1000) == []
    [gone] = watch.see(record, 1001)
    assert (gone.alert_id, gone.kind, gone.cause) == (raised.alert_id, EventKind.CLEARED, Cause.GONE)
    assert means_of(watch).keys() == {"other"}
