"""Judges that come with their question: pass or fail by one aspect, and a number for one quality."""

from typing import Any, Literal

from judges.criteria import Criterion
from judges.interaction import Case
from judges.llm.direct import DirectJudge
from judges.llm.vote import Combine
from judges.models.base import ChatModel, Message
from judges.scale import Bounds, Range

Aggregate = Literal["avg", "med", "min", "max"]
_AGGREGATES: dict[str, Combine] = {"avg": "mean", "med": "median", "min": "min", "max": "max"}


class AspectCritic(DirectJudge):
    """Passes or fails by one aspect: `strictness` samples are taken, and the majority of the valid ones counts.

    An even strictness is taken as it is: a tie fails, and says that it was one.
    """

    template = "aspect"

    def __init__(
        self, model: ChatModel, aspect: Criterion | str | None = None, *, strictness: int = 1, **options: Any
    ) -> None:
        if strictness < 1:
            raise ValueError(f"strictness must be at least 1, not {strictness}")
        super().__init__(model, samples=strictness, **options)
        self.criterion = None if aspect is None else Criterion.pass_fail(aspect)
        reason = self.criterion and self.why_not(self.criterion)
        if reason:
            raise ValueError(reason)

    def _chosen(self, criterion: Criterion | str | None) -> Criterion:
        return super()._chosen(Criterion.pass_fail(criterion) if isinstance(criterion, str) else criterion)

    def _probe(self, case: Case, criterion: Criterion) -> list[Message]:
        # The wording of an aspect has no numbers.
        return [] if criterion.scale.kind == "range" else super()._probe(case, criterion)

    def why_not(self, criterion: Criterion) -> str | None:
        if criterion.scale.kind != "binary":
            return f"an aspect is passed or failed, and {criterion.name!r} has {criterion.scale.kind}"
        return super().why_not(criterion)


class QualitativeCriterion(AspectCritic):
    """A requirement in plain words, passed when enough samples pass: `min_pass` of them, or more than half."""

    def __init__(
        self,
        definition: Criterion | str,
        model: ChatModel,
        *,
        num_samples: int = 1,
        min_samples: int | None = None,
        min_pass: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, definition, strictness=num_samples, min_valid=min_samples, min_pass=min_pass, **options)


class QuantitativeCriterion(DirectJudge):
    """A quality in plain words, as a number between two bounds; several samples are combined by `agg`."""

    def __init__(
        self,
        definition: str,
        model: ChatModel,
        *,
        min: float,  # noqa: A002 - the names that people know from such scales
        max: float,  # noqa: A002
        num_samples: int = 1,
        min_samples: int | None = None,
        agg: Aggregate = "avg",
        **options: Any,
    ) -> None:
        if agg not in _AGGREGATES:
            raise ValueError(f"agg must be one of {', '.join(_AGGREGATES)}, not {agg!r}")
        super().__init__(model, samples=num_samples, min_valid=min_samples, combine=_AGGREGATES[agg], **options)
        self.criterion = Criterion.asking(definition, Range(range=Bounds(min=min, max=max)))
