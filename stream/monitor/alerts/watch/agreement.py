"""Watches how well each judge of an app agrees with people: raises an alert when it has fallen, and clears it.

The agreement on one labelled answer is 1 − |score − label|. The mean of these numbers is watched like that of any
series, and its target is learnt from the first labels. Each answer counts once, with its first label, weighted by
1 / probability of the label: so the mean is that of all traffic, and a queue that prefers other answers than before
does not look like another judge. Labels without a probability do not count.

Scores of several evaluators are one series here: a new prompt that makes a judge worse is news.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from sinks.statistics.judge_quality import JudgeCriterion
from stream.monitor.alerts.alert import Alert, Cause, Series, Subject
from stream.monitor.alerts.labels.memory import JoinedLabel
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.series import SeriesWatch, Watched
from stream.monitor.detection import SeriesReading, State
from stream.monitor.detection.attribution import ReviewGap, explains_drop, observe_review

JUDGE = "judge"
"""The attribute of these series."""

_MOST_JUDGES = 64
# A judge is gone if it was not among this many records.
_GONE_AFTER = 1000
# Labels that come at once still have different times, and so do their alerts.
_LEAST_STEP = 0.001


class _Compared(NamedTuple):
    """A labelled answer, as a detector takes it."""

    interaction_id: str
    probability: float
    at: float


class AgreementWatch:
    """The judges of one app, by criterion."""

    def __init__(self, plan: WatchPlan) -> None:
        self._settings = plan.agreement_settings()
        self._judges: dict[JudgeCriterion, SeriesWatch] = {}
        self._review_settings = plan.review_settings()
        self._reviews: dict[str, ReviewGap] = {}
        """Gaps between the panel's scores and the labels, by criterion."""

    def compare(self, joined: Iterable[JoinedLabel], *, at: float, count: int) -> list[Alert]:
        """Take labels, each the first one of its answer, at the time and with the number of the latest record."""
        alerts: list[Alert] = []
        for label, answer in joined:
            if answer is None or label.score is None or label.probability is None:
                continue
            self._review(label.criterion, answer.scores.get(label.criterion), label.score, label.probability, at)
            for judge, score in answer.judges.get(label.criterion, {}).items():
                key = JudgeCriterion(judge, label.criterion)
                compared = _Compared(answer.interaction_id, label.probability, at)
                alerts += self._score(key, answer.app, 1.0 - abs(score - label.score), compared, count)
        return alerts

    def _review(self, criterion: str, score: float | None, label: float, probability: float, at: float) -> None:
        gap = self._reviews.get(criterion, ReviewGap())
        if score is not None and (criterion in self._reviews or len(self._reviews) < _MOST_JUDGES):
            settings = self._review_settings
            self._reviews[criterion] = observe_review(gap, settings, score, label, probability, at=at)

    def explains_drop(self, criteria: Collection[str] | None, live: State) -> bool:
        """Return whether reviews show that the judges became stricter by these criteria, or by any, before a drop."""
        gaps = self._reviews.items()
        return any(explains_drop(gap.changed_at, live) for name, gap in gaps if criteria is None or name in criteria)

    def _score(
        self, key: JudgeCriterion, app: str, agreement: float, compared: _Compared, count: int
    ) -> Iterator[Alert]:
        own = self._judges.get(key)
        if own is not None and not own.can_go_on(self._settings):  # the configuration has no target any more
            yield from self._remove(key, app, compared.at, Cause.EVALUATOR_CHANGED)
            own = None
        own = own or self._start(key, count)
        if own is None:
            return
        about = self._about(app, key)
        time = max(compared.at, (own.state.at or 0.0) + _LEAST_STEP)
        event = own.observe(about, agreement, compared._replace(at=time))
        if event is not None:
            yield own.announce(about, event)

    def _start(self, key: JudgeCriterion, count: int) -> SeriesWatch | None:
        if len(self._judges) >= _MOST_JUDGES:
            return None
        own = self._judges[key] = SeriesWatch(heard=count)
        return own

    def see(self, record: ScoreRecord, count: int) -> list[Alert]:
        """Note the judges of a record, and remove those that judge no more, with their alerts."""
        for criterion, scores in record.judges.items():
            for judge in scores:
                own = self._judges.get(JudgeCriterion(judge, criterion))
                if own is not None:
                    own.heard = count
        gone = [key for key, own in self._judges.items() if count - own.heard > _GONE_AFTER]
        return [alert for key in gone for alert in self._remove(key, record.app, record.at)]

    def withdraw_all(self, app: str, at: float) -> list[Alert]:
        """Clear all alerts before the app is removed."""
        return [alert for key in list(self._judges) for alert in self._remove(key, app, at)]

    def _remove(self, key: JudgeCriterion, app: str, at: float, cause: Cause = Cause.GONE) -> Iterator[Alert]:
        alert = self._judges.pop(key).withdraw(self._about(app, key), at=at, cause=cause)
        if alert is not None:
            yield alert

    @property
    def has_judges(self) -> bool:
        return bool(self._judges)

    def readings(self) -> dict[JudgeCriterion, SeriesReading]:
        return {key: own.quality_reading(self._settings) for key, own in self._judges.items()}

    def _about(self, app: str, key: JudgeCriterion) -> Watched:
        series = Series(app=app, dimension=key.criterion, attribute=JUDGE, value=key.judge)
        return Watched(series, self._settings, "", Subject.AGREEMENT)

    # The stored state

    def forget_examples(self) -> None:
        """Drop the examples of alerts."""
        for own in self._judges.values():
            own.lowest = []

    def as_data(self) -> dict[str, Any]:
        return {
            "agreement": [[*key, own.as_data()] for key, own in self._judges.items()],
            "reviews": {name: [gap.state.as_json(), gap.changed_at] for name, gap in self._reviews.items()},
        }

    @classmethod
    def from_data(cls, plan: WatchPlan, data: Mapping[str, Any]) -> Self:
        watch = cls(plan)
        watch._reviews = {
            name: ReviewGap(state=State.from_json(state), changed_at=changed_at)
            for name, (state, changed_at) in data["reviews"].items()
        }
        watch._judges = {
            JudgeCriterion(judge, criterion): SeriesWatch.from_data(own) for judge, criterion, own in data["agreement"]
        }
        return watch
