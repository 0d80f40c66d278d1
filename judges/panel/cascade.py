"""The cascade: asks a few judges first, and the whole panel only if their finding is in doubt."""

from dataclasses import dataclass

from judges.criteria.problems import check_number
from judges.values.evaluation import Dimension, Path, Status

# In floating point 0.65 - 0.5 is a little more than 0.15; a score on the edge still counts as near.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """The judges that are asked first, and the conditions that put their finding in doubt."""

    first: tuple[str, ...]
    """Names of judges of the panel."""

    min_agreement: float = 0.75
    """In doubt below this agreement of the first judges, or of the samples of a single one."""

    threshold: float | None = 0.5
    """The score at which consumers of the results make a decision; None: there is no such score."""

    margin: float = 0.15
    """In doubt if the score is at most this far from the threshold."""

    def __post_init__(self) -> None:
        if isinstance(self.first, str) or not self.first or len(set(self.first)) != len(self.first):
            raise ValueError(f"first must name one or more judges of the panel, each once, not {self.first!r}")
        for name in ("min_agreement", "threshold", "margin"):
            value = getattr(self, name)
            if value is not None:
                check_number(name, value, least=0, most=1)

    def doubt(self, dimension: Dimension) -> Path | None:
        """Return why the finding of the first judges is in doubt, or None."""
        if dimension.status is Status.INSUFFICIENT:
            return Path.FULL_FAILED
        agreement = _agreement(dimension)
        if agreement is not None and agreement < self.min_agreement:
            return Path.FULL_DISAGREEMENT
        if self.threshold is not None and dimension.score is not None:
            near = abs(dimension.score - self.threshold) <= self.margin + _ROUNDING
            return Path.FULL_THRESHOLD if near else None
        return None


def _agreement(dimension: Dimension) -> float | None:
    """Return the agreement of several judges; for one judge that of its samples or its certainty, whichever is less."""
    if dimension.agreement is not None:
        return dimension.agreement
    own = [
        measure
        for verdict in dimension.judges
        if verdict.status is Status.SCORED
        for measure in (verdict.agreement, verdict.certainty)
        if measure is not None
    ]
    return min(own, default=None)
