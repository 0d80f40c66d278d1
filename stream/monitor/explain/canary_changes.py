"""Canary changes: the canaries on which the judges' verdicts changed."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from judges.values.evaluation import Evaluation
from stream.config.names import CANARY
from stream.monitor.alerts.score_record import verdicts
from stream.monitor.explain.sums import Period
from stream.monitor.explain.tally import Split
from stream.records.canaries import CANARY_TAG


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """A canary whose most frequent verdict has changed."""

    canary: str
    was: str
    is_now: str
    counts: tuple[int, int]
    """How often it gets the new verdict, and how often it was judged since."""


class CanaryTally:
    """The verdicts on canaries in one dimension, before and since."""

    def __init__(self, dimension: str, fingerprint: str, split: Split) -> None:
        self._dimension, self._fingerprint, self._split = dimension, fingerprint, split
        self._verdicts: dict[str, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
        self._seen: set[int] = set()

    def add(self, evaluation: Evaluation) -> None:
        name = hash(evaluation.evaluation_id)
        wanted = evaluation.sampling.lane == CANARY and evaluation.evaluator.fingerprint == self._fingerprint
        period = self._split(evaluation) if wanted and name not in self._seen else None
        verdict = verdicts(evaluation.dimensions).get(self._dimension)
        if period is not None and verdict is not None:
            self._seen.add(name)
            canary = str(evaluation.tags.get(CANARY_TAG, evaluation.interaction_id))
            self._verdicts[canary][period is Period.SINCE][verdict] += 1

    @property
    def count(self) -> int:
        """Canaries that were judged in both periods."""
        return sum(bool(before and since) for before, since in self._verdicts.values())

    def list_turned(self) -> tuple[Turned, ...]:
        """Return the canaries with another verdict, those that got it most often first."""
        changes = []
        for canary, (before, since) in self._verdicts.items():
            if before and since:
                [(was, _)], [(now, times)] = before.most_common(1), since.most_common(1)
                if was != now:
                    changes.append(Turned(canary=canary, was=was, is_now=now, counts=(times, since.total())))
        return tuple(sorted(changes, key=lambda change: (-change.counts[0], change.canary)))
