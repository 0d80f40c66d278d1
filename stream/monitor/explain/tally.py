"""The tally: takes evaluations one by one, and keeps the sums that an explanation needs."""

import json
from collections.abc import Callable
from datetime import datetime

from judges.composite import MultiCriteria
from judges.values.evaluation import Evaluation
from judges.values.interaction import TagValue
from sinks.base import COMPOSITE, UNKNOWN
from sinks.metrics.detection import GOOD_SHARE
from stream.config.names import BACKFILL, CANARY
from stream.monitor.alerts.alert import Series
from stream.monitor.explain.criterion_parts import PartSums
from stream.monitor.explain.faults import FaultTally
from stream.monitor.explain.slices import Slices
from stream.monitor.explain.sums import Pair, Period

Split = Callable[[Evaluation], Period | None]
"""Returns the side of an evaluation; None if it is on neither."""

GoodScore = Callable[[str], float]
"""The lowest composite that is good, by app."""

TAG = "tag "
"""Prefix of the attributes that are tags."""

# More tags than this are invented per record.
_MOST_TAGS = 50
_DIGITS = 9
_SHOWN = 3
# Scores of other apps are followed for at most this many apps.
_MOST_APPS = 100


def by_time(since: datetime, onset: datetime, until: datetime | None = None) -> Split:
    """Split by time: before the onset, and from it on."""

    def side(evaluation: Evaluation) -> Period | None:
        at = evaluation.evaluated_at
        if at < since or (until is not None and at >= until):
            return None
        return Period.BEFORE if at < onset else Period.SINCE

    return side


def by_model(a: str, b: str, since: datetime, until: datetime | None = None) -> Split:
    """Split by model: `b` is the side before, `a` the side since."""
    sides = {b: Period.BEFORE, a: Period.SINCE}

    def side(evaluation: Evaluation) -> Period | None:
        at = evaluation.evaluated_at
        if at < since or (until is not None and at >= until):
            return None
        return sides.get(evaluation.model or "")

    return side


class ChangeTally:
    """The sums of a series on two sides.

    Only evaluations by one evaluator count, each once. Backfilled history and canaries are left out, because they say
    nothing about live traffic.
    """

    def __init__(
        self,
        series: Series,
        fingerprint: str,
        split: Split,
        *,
        good_score: GoodScore,
        composition: MultiCriteria | None = None,
        target: float = 0.5,
    ) -> None:
        self._series, self._fingerprint, self._split, self._good_score = series, fingerprint, split, good_score
        self._seen: set[int] = set()
        self.whole = Pair()
        self.criteria: dict[str, Pair] = {}
        self.elsewhere: dict[str, Pair] = {}
        """Other apps, in the same series."""
        self.attributes: dict[str, Slices] = {
            name: Slices(is_tag=False) for name in ("model", "tenant", "lane", "rule") if name != self._fixed
        }
        self.faults = FaultTally()
        self.tags_left_out = 0
        self.lowest: list[tuple[float, Evaluation]] = []
        """The lowest scores of the second side."""
        of_composite = composition is not None and series.dimension in {COMPOSITE, GOOD_SHARE}
        self.parts = PartSums(composition, target) if composition is not None and of_composite else None

    @property
    def compares_models(self) -> bool:
        """Whether the sides are two models and not two periods."""
        return self._series.attribute == "versions"

    @property
    def _fixed(self) -> str | None:
        """The attribute that is the same in the whole series, or that defines the sides."""
        return "model" if self.compares_models else self._series.attribute

    def add(self, evaluation: Evaluation) -> None:
        period = self._side(evaluation)
        if period is None:
            return
        weight, app = 1.0 / evaluation.sampling.probability, evaluation.app or UNKNOWN
        score = self._score(evaluation, app)
        if app != self._series.app:
            if score is not None and (app in self.elsewhere or len(self.elsewhere) < _MOST_APPS):
                self.elsewhere.setdefault(app, Pair()).add(period, score, weight)
        elif self._belongs(evaluation):
            for name, dimension in evaluation.dimensions.items():
                if dimension.score is not None:
                    self.criteria.setdefault(name, Pair()).add(period, dimension.score, weight)
            if score is not None:
                self._add(evaluation, score, period, weight)

    def _side(self, evaluation: Evaluation) -> Period | None:
        if evaluation.evaluator.fingerprint != self._fingerprint or evaluation.sampling.lane in {BACKFILL, CANARY}:
            return None
        period = self._split(evaluation)
        name = hash(evaluation.evaluation_id)
        if period is None or name in self._seen:
            return None
        self._seen.add(name)
        return period

    def _belongs(self, evaluation: Evaluation) -> bool:
        series = self._series
        return series.attribute not in {"model", "tenant"} or getattr(evaluation, series.attribute) == series.value

    def _score(self, evaluation: Evaluation, app: str) -> float | None:
        """Return the score in the series."""
        dimension, composite = self._series.dimension, evaluation.composite.score
        if dimension == COMPOSITE:
            return composite
        if dimension == GOOD_SHARE:
            return None if composite is None else float(round(composite, _DIGITS) >= self._good_score(app))
        result = evaluation.dimensions.get(dimension)
        return None if result is None else result.score

    def _add(self, evaluation: Evaluation, score: float, period: Period, weight: float) -> None:
        sampling = evaluation.sampling
        values = {
            "model": evaluation.model,
            "tenant": evaluation.tenant,
            "lane": sampling.lane,
            "rule": sampling.rule,
            **{f"{TAG}{name}": text_of(value) for name, value in evaluation.tags.items() if value is not None},
        }
        for name in values:
            if name.startswith(TAG) and name not in self.attributes:
                self._follow(name)
        for name, slices in self.attributes.items():
            slices.add(values.get(name), period, score, weight)
        self.faults.add(evaluation, values, period, weight)
        self.whole.add(period, score, weight)
        if period is Period.SINCE and (len(self.lowest) < _SHOWN or score < self.lowest[-1][0]):
            self.lowest = sorted([*self.lowest, (score, evaluation)], key=lambda entry: entry[0])[:_SHOWN]
        if self.parts is not None and evaluation.composite.score is not None:
            self.parts.add(evaluation, evaluation.composite.score, period, weight)

    def _follow(self, name: str) -> None:
        if sum(attribute.startswith(TAG) for attribute in self.attributes) >= _MOST_TAGS:
            self.tags_left_out += 1
            return
        self.attributes[name] = Slices(is_tag=True, earlier=self.whole)

    def unused_tags(self) -> list[str]:
        """Return the tags with too many values."""
        return [name.removeprefix(TAG) for name, slices in self.attributes.items() if slices.has_too_many]


def text_of(value: TagValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
