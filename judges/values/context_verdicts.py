"""Context verdicts: whether each retrieved context is useful, and the score that follows from their order."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt


class ContextVerdict(BaseModel):
    """Whether one context is useful."""

    model_config = ConfigDict(extra="allow", frozen=True)

    index: NonNegativeInt = Field(description="Index of the context in the interaction, from 0.")
    useful: bool = Field(description="Whether the context is useful.")


def context_verdicts(useful: Iterable[bool]) -> tuple[ContextVerdict, ...]:
    """Return the verdicts on all contexts, in their order."""
    return tuple(ContextVerdict(index=index, useful=verdict) for index, verdict in enumerate(useful))


def rank_score(useful: Sequence[bool]) -> float:
    """Return the mean precision at the ranks of the useful items: 1 if they all come first, 0 if there is none.

    >>> rank_score([True, False, True])
    0.8333333333333333
    """
    hits = list(accumulate(int(verdict) for verdict in useful))
    precisions = [hit / rank for rank, (hit, verdict) in enumerate(zip(hits, useful, strict=True), 1) if verdict]
    return sum(precisions) / len(precisions) if precisions else 0.0


def combine_context_verdicts(
    by_judge: Iterable[Sequence[ContextVerdict] | None],
) -> tuple[ContextVerdict, ...] | None:
    """Return the verdicts of several judges as one list: useful if more than half of the judges say so.

    Returns None if no judge has verdicts on contexts.
    """
    lists = [verdicts for verdicts in by_judge if verdicts is not None]
    if not lists:
        return None
    votes: dict[int, list[bool]] = {}
    for verdict in (verdict for verdicts in lists for verdict in verdicts):
        votes.setdefault(verdict.index, []).append(verdict.useful)
    return tuple(ContextVerdict(index=index, useful=2 * sum(cast) > len(cast)) for index, cast in sorted(votes.items()))
