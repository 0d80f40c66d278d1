"""Judges with a built-in question: pass or fail by one aspect, or a number for one quality."""

from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from judges.criteria.catalogue import criterion_of
from judges.criteria.criterion import Criterion
from judges.criteria.problems import describe_actual, describe_error
from judges.criteria.scale import PASS_FAIL, Bounds, Range, Scale
from judges.llm.methods.direct import DirectJudge
from judges.llm.model_judge import check_model
from judges.llm.vote import Combine, check_samples
from judges.models.base import ChatMessage, ChatModel
from judges.values.interaction import Case

Aggregate = Literal["avg", "med", "min", "max"]
_AGGREGATES: dict[str, Combine] = {"avg": "mean", "med": "median", "min": "min", "max": "max"}


class AspectCritic(DirectJudge):
    """Passes or fails an answer by one aspect: takes `strictness` samples, and the majority of the valid ones decides.

    With an even strictness a tie fails, and the verdict records the tie. `llm` and `definition` are aliases for the
    model and the aspect. If the definition is a text, `name` also names the criterion.
    """

    template = "aspect"
    plain_scale: Scale = PASS_FAIL

    def __init__(
        self,
        model: ChatModel | None = None,
        aspect: Criterion | str | None = None,
        *,
        llm: ChatModel | None = None,
        definition: Criterion | str | None = None,
        name: str | None = None,
        strictness: int = 1,
        **options: Any,
    ) -> None:
        _refuse_both(model=model, llm=llm)
        _refuse_both(aspect=aspect, definition=definition)
        model, aspect = llm if model is None else model, definition if aspect is None else aspect
        check_model(model, "AspectCritic(model, aspect)")
        check_samples(strictness, {}, name="strictness")
        super().__init__(model, name=name, samples=strictness, **options)  # type: ignore[arg-type]  # checked above
        self.criterion = None if aspect is None else criterion_of(aspect, PASS_FAIL, argument="aspect")
        if definition is not None and name is not None and self.criterion is not None:
            self.criterion = self.criterion.with_name(name)
        reason = self.criterion and self.why_not(self.criterion)
        if reason:
            raise ValueError(reason)

    def _probe(self, case: Case, criterion: Criterion) -> list[ChatMessage]:
        # The prompt for an aspect has no form for numbers.
        return [] if criterion.scale.kind == "range" else super()._probe(case, criterion)

    def why_not(self, criterion: Criterion) -> str | None:
        if criterion.scale.kind != "binary":
            return f"an aspect needs a pass/fail scale, but {criterion.name!r} has {criterion.scale.kind}"
        return super().why_not(criterion)


class QualitativeCriterion(AspectCritic):
    """A requirement in plain words, which passes if `min_pass` samples pass, or more than half without `min_pass`."""

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
        check_model(model, "QualitativeCriterion(definition, model)")
        check_samples(num_samples, {"min_samples": min_samples}, name="num_samples")
        aspect = criterion_of(definition, PASS_FAIL, argument="definition")
        super().__init__(model, aspect, strictness=num_samples, min_valid=min_samples, min_pass=min_pass, **options)


class QuantitativeCriterion(DirectJudge):
    """A quality in plain words, rated by a number between two bounds; `agg` combines several samples.

    `higher_is="worse"` is for a number of faults: the score is 1 at `min`, and `agg="min"` takes the most faults.
    A question in plain words that is passed to `evaluate` uses the same bounds, and higher is better.
    """

    def __init__(
        self,
        definition: str,
        model: ChatModel,
        *,
        min: float = 0.0,  # noqa: A002 - the usual names for such bounds
        max: float = 10.0,  # noqa: A002
        higher_is: Literal["better", "worse"] = "better",
        num_samples: int = 1,
        min_samples: int | None = None,
        agg: Aggregate = "avg",
        **options: Any,
    ) -> None:
        if agg not in _AGGREGATES:
            raise ValueError(f"agg must be one of {', '.join(_AGGREGATES)}, not {agg!r}")
        if higher_is not in ("better", "worse"):
            raise ValueError(f"higher_is must be better or worse, not {higher_is!r}")
        check_model(model, "QuantitativeCriterion(definition, model)")
        check_samples(num_samples, {"min_samples": min_samples}, name="num_samples")
        super().__init__(model, samples=num_samples, min_valid=min_samples, combine=_AGGREGATES[agg], **options)
        self.plain_scale = _range(min, max)
        criterion = criterion_of(definition, self.plain_scale, argument="definition")
        self.criterion = criterion if higher_is == "better" else criterion.model_copy(update={"higher_is": higher_is})
        if self.criterion.scale != self.plain_scale:
            raise ValueError(
                f"definition: {self.criterion.name!r} has its own scale; describe a quality in words instead"
            )


def _refuse_both(**words: object) -> None:
    """Raise if both aliases of an argument are given."""
    if all(value is not None for value in words.values()):
        raise TypeError(f"{' and '.join(words)} mean the same; give only one of them")


def _range(low: float, high: float) -> Range:
    try:
        return Range(range=Bounds(min=low, max=high))
    except ValidationError as error:
        raise ValueError("; ".join(map(_in_plain_words, error.errors()))) from None


def _in_plain_words(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if "error" in context:
        return str(context["error"])
    actual = describe_actual(detail["input"], container=False, text=False)
    return f"{detail['loc'][-1]} {describe_error(detail['type'], context, actual)}"
