"""Alerts about quality say whether the answers or the judges moved the scores, from the labels of people."""

from collections.abc import Iterator

import pytest

from judges.values.label import Label
from stream.config.model import Config
from stream.monitor.alerts.alert import Alert, Attribution, Cause, Subject, moment
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.partition import PartitionWatch
from stream.monitor.detection import EventKind
from tests.stream.monitor.alerts.traffic import BEGIN, WRONG, Traffic, plan_of, restore_watch

GUARD, CANARIES = 40, 6
PLAN = plan_of(canaries={"file": "canaries.jsonl", "guard_scores": GUARD})


def anchor_label(number: int, **more: object) -> Label:
    fields: dict[str, object] = {
        "label_id": f"a-{number}",
        "interaction_id": f"canary:c-{number}:7" if number % 2 else f"c-{number}",
        "criterion": "groundedness",
        "score": 1.0,
        "who": "ada",
        "labelled_at": moment(BEGIN),
        "kind": "anchor",
    }
    return Label.model_validate({**fields, **more})


class Anchored:
    """Live traffic with a canary after every second answer."""

    def __init__(self, plan: WatchPlan = PLAN, labels: int = CANARIES) -> None:
        self.traffic, self.plan, self.stored = Traffic(2), plan, dict[str, bytes]()
        self.watch = PartitionWatch(plan, 0)
        for number in range(labels):
            self.watch.observe_label(anchor_label(number))

    def records(
        self, answers: int, means: dict[str, float] | None, score: float, verdict: str
    ) -> Iterator[ScoreRecord]:
        for number in range(answers):
            yield self.traffic.next() if means is None else self.traffic.next(means)
            if number % 2:
                yield self.traffic.anchor(f"c-{number // 2 % CANARIES}", score, verdict)

    def feed(
        self, answers: int, means: dict[str, float] | None = None, *, score: float = 0.75, verdict: str = "same"
    ) -> list[Alert]:
        alerts = []
        for number, record in enumerate(self.records(answers, means, score, verdict)):
            alerts += self.watch.observe(record)
            if number % 50 == 7:
                self.watch = restore_watch(self.plan, self.watch, self.stored)
        return [alert for alert in alerts if alert.subject is Subject.QUALITY]


def of_groundedness(alerts: list[Alert]) -> list[Alert]:
    return [alert for alert in alerts if alert.series.dimension == "groundedness"]


def test_a_drop_is_the_systems_if_labelled_canaries_keep_their_scores() -> None:
    anchored = Anchored()
    assert anchored.feed(80) == []
    first, *updates = of_groundedness(anchored.feed(110, WRONG))
    assert (first.kind, first.attribution) == (EventKind.RAISED, Attribution.UNKNOWN)
    known = [update for update in updates if update.attribution is not Attribution.UNKNOWN]
    assert {update.attribution for update in known} == {Attribution.SYSTEM}
    assert known[0].kind is EventKind.UPDATED
    assert known[0].summary.endswith("the judges score labelled canaries as before, so the answers are worse")
    # Announced once, and then with the updates that come anyway.
    assert len(known) <= 2
    *_, cleared = of_groundedness(anchored.feed(250))
    assert (cleared.kind, cleared.attribution) == (EventKind.CLEARED, Attribution.SYSTEM)


def test_a_drop_is_the_judges_if_the_scores_of_labelled_canaries_fall() -> None:
    anchored = Anchored()
    anchored.feed(80)
    alerts = of_groundedness(anchored.feed(110, WRONG, score=0.25))
    assert alerts[0].kind is EventKind.RAISED
    assert {alert.attribution for alert in alerts[1:]} == {Attribution.JUDGE}
    assert "the judges have changed, the answers may be as good as before" in alerts[-1].summary


def test_an_alert_that_is_withdrawn_with_the_verdicts_on_canaries_is_the_judges() -> None:
    anchored = Anchored(labels=0)
    anchored.feed(80)
    assert anchored.feed(40, WRONG)
    withdrawn = of_groundedness(anchored.feed(60, WRONG, verdict="other"))[0]
    assert (withdrawn.cause, withdrawn.attribution) == (Cause.JUDGES_CHANGED, Attribution.JUDGE)


@pytest.mark.parametrize("labels", [0, CANARIES])
def test_without_labelled_canaries_or_their_scores_the_cause_is_unknown(labels: int) -> None:
    anchored = Anchored(labels=labels)
    for record in anchored.traffic.many(80):
        anchored.watch.observe(record)
    alerts = [alert for record in anchored.traffic.many(110, WRONG) for alert in anchored.watch.observe(record)]
    assert {alert.attribution for alert in alerts} == {Attribution.UNKNOWN}


def test_reviewed_answers_show_stricter_judges() -> None:
    targets = {"composite": 0.85, "groundedness": 0.85}
    content = {"detection": {"targets": targets}, "labels": {"agreement": {"reference_labels": 40}}}
    plan = WatchPlan(Config.model_validate(content))
    traffic, watch = Traffic(2), PartitionWatch(plan, 0)
    alerts: list[Alert] = []
    for means, answers in (({"groundedness": 0.99, "clarity": 0.99}, 80), (WRONG, 110)):
        for record in traffic.many(answers, means):
            alerts += watch.observe(record)
            # People call all of these answers good.
            review = {"kind": "review", "interaction_id": record.interaction_id, "probability": 0.1}
            alerts += watch.observe_label(anchor_label(0, label_id=record.interaction_id, **review))
    quality = of_groundedness([alert for alert in alerts if alert.subject is Subject.QUALITY])
    assert quality[0].kind is EventKind.RAISED
    assert quality[-1].attribution is Attribution.JUDGE
