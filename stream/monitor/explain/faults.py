"""Faults: whether a change comes from retrieval or from generation.

Retrieval is at fault if the sufficiency of the contexts fell. Generation is at fault if groundedness fell where the
contexts are sufficient: a fall of groundedness that only follows from worse contexts does not show there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from judges.values.diagnosis import GROUNDEDNESS, SUFFICIENCY, THRESHOLD, DiagnosisCell, diagnose, score_of
from judges.values.evaluation import Evaluation
from stream.monitor.explain.contributions import CONFIDENCE, MeanChange, mean_change
from stream.monitor.explain.sums import Pair, Period

# Slices that are followed; the driver of a change has many records, and is among the first.
_MOST_SLICES = 2000
# With fewer scores on either side, a slice is not reported on its own.
_FEWEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultMove:
    """A mean on both sides."""

    means: tuple[float | None, float | None]
    counts: tuple[int, int]
    change: MeanChange | None

    @classmethod
    def of(cls, pair: Pair) -> "FaultMove":
        return cls(
            means=(pair.before.mean, pair.since.mean),
            counts=(pair.before.count, pair.since.count),
            change=mean_change(pair, confidence=CONFIDENCE),
        )

    @property
    def fell(self) -> bool:
        return self.change is not None and self.change.is_fall


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFinding:
    """Where a change comes from: the contexts, or what the model made of them."""

    sufficiency: FaultMove
    grounded: FaultMove
    """Groundedness where the contexts are sufficient."""

    shares: Mapping[DiagnosisCell, tuple[float | None, float | None]]
    """Weighted share of each diagnosis on both sides."""

    part: tuple[str, str | None] | None = None
    """The attribute and the value of the slice that the two means are of; None: all traffic of the series."""

    @property
    def is_retrieval(self) -> bool:
        return self.sufficiency.fell

    @property
    def is_generation(self) -> bool:
        return self.grounded.fell


class _FaultSums:
    def __init__(self) -> None:
        self.sufficiency = Pair()
        self.grounded = Pair()

    def add(self, sufficiency: float, groundedness: float | None, period: Period, weight: float) -> None:
        self.sufficiency.add(period, sufficiency, weight)
        if groundedness is not None and sufficiency >= THRESHOLD:
            self.grounded.add(period, groundedness, weight)

    @property
    def is_enough(self) -> bool:
        return min(self.sufficiency.before.count, self.sufficiency.since.count) >= _FEWEST


class FaultTally:
    """The sums of sufficiency and groundedness on both sides, of all traffic and of its slices."""

    def __init__(self) -> None:
        self._whole = _FaultSums()
        self._slices: dict[tuple[str, str | None], _FaultSums] = {}
        self._cells: dict[tuple[DiagnosisCell, Period], float] = dict.fromkeys(product(DiagnosisCell, Period), 0.0)

    def add(self, evaluation: Evaluation, values: Mapping[str, str | None], period: Period, weight: float) -> None:
        """Take an evaluation with its values by attribute; one without sufficiency says nothing here."""
        sufficiency, groundedness = (score_of(evaluation, name) for name in (SUFFICIENCY, GROUNDEDNESS))
        if sufficiency is None:
            return
        self._whole.add(sufficiency, groundedness, period, weight)
        for key in values.items():
            if key in self._slices or len(self._slices) < _MOST_SLICES:
                self._slices.setdefault(key, _FaultSums()).add(sufficiency, groundedness, period, weight)
        cell = diagnose(evaluation)
        if cell is not None:
            self._cells[cell, period] += weight

    def result(self, part: tuple[str, str | None] | None) -> FaultFinding | None:
        """Return the fault, of a slice if it has enough scores, else of all traffic; None without enough scores."""
        sums = self._slices.get(part) if part is not None else None
        if sums is None or not sums.is_enough:
            sums, part = self._whole, None
        if not sums.is_enough:
            return None
        return FaultFinding(
            sufficiency=FaultMove.of(sums.sufficiency),
            grounded=FaultMove.of(sums.grounded),
            shares={
                cell: (self._share(cell, Period.BEFORE), self._share(cell, Period.SINCE)) for cell in DiagnosisCell
            },
            part=part,
        )

    def _share(self, cell: DiagnosisCell, period: Period) -> float | None:
        total = sum(self._cells[other, period] for other in DiagnosisCell)
        return self._cells[cell, period] / total if total else None
