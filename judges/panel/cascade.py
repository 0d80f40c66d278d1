"""The cascade: a few judges first, and the whole panel only where their finding is doubtful."""

from dataclasses import dataclass

from judges.criteria.problems import check_number
from judges.values.evaluation import Dimension, Path, Status

# 0.65 - 0.5 is a little more than 0.15 to a computer; on the edge is still near.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Who is asked first, and what makes their finding doubtful."""

    first: tuple[str, ...]
    """Names of judges of the panel."""

    min_agreement: float = 0.75
    """Doubtful below: the agreement of the first judges, or of the samples of the only one."""

    threshold: float | None = 0.5
    """The score that decides something for those who read the results; None means that none does."""

    margin: float = 0.15
    """Doubtful when the score is no further than this from the threshold."""

    def __post_init__(self) -> None:
        if isinstance(self.first, str) or not self.first or len(set(self.first)) != len(self.first):
            raise ValueError(f"first must name one or more judges of the panel, each once, not {self.first!r}")
        for name in ("min_agreement", "threshold", "margin"):
            value = getattr(self, name)
            if value is not None:
                check_number(name, value, least=0, most=1)

    def doubt(self, found: Dimension) -> Path | None:
        """Why the first judges' finding does not do, or None."""
        if found.status is Status.INSUFFICIENT:
            return Path.FULL_FAILED
        agreement = _agreement(found)
        if agreement is not None and agreement < self.min_agreement:
            return Path.FULL_DISAGREEMENT
        if self.threshold is not None and found.score is not None:
            near = abs(found.score - self.threshold) <= self.margin + _ROUNDING
            return Path.FULL_THRESHOLD if near else None
        return None


def _agreement(found: Dimension) -> float | None:
    """That of several judges; of a single one that of its samples, or how certain it is, whichever is less."""
    if found.agreement is not None:
        return found.agreement
    own = [
        doubt
        for verdict in found.judges
        if verdict.status is Status.SCORED
        for doubt in (verdict.agreement, verdict.certainty)
        if doubt is not None
    ]
    return min(own, default=None)
