"""Spans: the sentences of an answer that a judge checked, each with its verdict."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt


class SpanVerdict(StrEnum):
    """Whether the contexts support a sentence."""

    NO_CLAIM = "no_claim"
    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    CONTRADICTED = "contradicted"


class AnswerSpan(BaseModel):
    """A sentence of the answer, by its place in the answer as logged."""

    model_config = ConfigDict(extra="allow", frozen=True)

    start: NonNegativeInt = Field(
        description="Offset of its first character in the answer as logged, in Unicode code points."
    )
    length: PositiveInt = Field(description="Its length in Unicode code points.")
    verdict: SpanVerdict = Field(description="Whether the contexts support it; `no_claim` if it asserts nothing.")
    contexts: tuple[NonNegativeInt, ...] = Field(
        default=(),
        description=(
            "Indexes of the contexts that support or contradict it, from 0; empty if there are none, and if the user's "
            "own statements support it."
        ),
    )

    @property
    def end(self) -> int:
        return self.start + self.length


_SEVERITY = {verdict: place for place, verdict in enumerate(SpanVerdict)}


def combine_spans(
    by_judge: Iterable[Sequence[AnswerSpan] | None], *, keep: Literal["worst", "best"] = "worst"
) -> tuple[AnswerSpan, ...] | None:
    """Return the spans of several judges as one list: one verdict on each sentence, sorted, without overlaps.

    Judges may split an answer differently: of overlapping spans, the one with the worst verdict is kept, or the best.
    Returns None if no judge has spans.
    """
    span_lists = [spans for spans in by_judge if spans is not None]
    if len(span_lists) <= 1:
        return tuple(span_lists[0]) if span_lists else None
    remaining: list[AnswerSpan] = []
    order = _worst_first if keep == "worst" else _best_first
    for span in sorted((span for spans in span_lists for span in spans), key=order):
        same = next((other for other in remaining if _is_same(span, other)), None)
        if same is not None:
            remaining[remaining.index(same)] = _with_contexts_of(same, span)
        elif all(span.end <= other.start or other.end <= span.start for other in remaining):
            remaining.append(span)
    return tuple(sorted(remaining, key=lambda span: span.start))


def _worst_first(span: AnswerSpan) -> tuple[int, int, int]:
    return -_SEVERITY[span.verdict], span.start, -span.length


def _best_first(span: AnswerSpan) -> tuple[int, int, int]:
    return _SEVERITY[span.verdict], span.start, -span.length


def _is_same(span: AnswerSpan, other: AnswerSpan) -> bool:
    return (span.start, span.length, span.verdict) == (other.start, other.length, other.verdict)


def _with_contexts_of(span: AnswerSpan, other: AnswerSpan) -> AnswerSpan:
    return span.model_copy(update={"contexts": tuple(sorted({*span.contexts, *other.contexts}))})
