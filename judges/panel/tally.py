"""The tally: combines the verdicts of several judges into one finding."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal, NamedTuple

from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice
from judges.values.combine import Numeric, combine_numbers, lower_median, weighted_mean
from judges.values.context_verdicts import combine_context_verdicts
from judges.values.evaluation import Dimension, JudgeVerdict, Path, Reason, Status
from judges.values.interaction import Language
from judges.values.spans import combine_spans

Combine = Literal[Numeric, "majority", "weighted"]

# Enum attribute access is slower than the comparison itself.
_SCORED, _NOT_APPLICABLE, _QUORUM = Status.SCORED, Status.NOT_APPLICABLE, Reason.QUORUM


class CombineRule(NamedTuple):
    """How verdicts combine, and how many are needed."""

    combine: Combine | Literal["safety_vote"]
    """`safety_vote`: the score is that of the voted choice, so that score, level and status never contradict."""

    needed: int
    weights: Mapping[str, float]
    """For `weighted`: weights by the judge's name; the default is 1."""

    def why_not(self, criterion: Criterion) -> str | None:
        """Return why this rule cannot be used for a criterion, or None."""
        if criterion.scale.kind == "range" and self.combine == "majority":
            return f"numbers have no majority, but {criterion.name!r} has a range"
        if self.combine != "majority" and not has_scores(criterion):
            return f"{self.combine} needs scores, but the options of {criterion.name!r} have none: combine by majority"
        return None


class Ballot(NamedTuple):
    """The vote of one verdict: a choice, or on a range a value."""

    rank: int | None
    """Position of its choice among those of the criterion, worst first."""

    score: float | None
    value: float | None
    weight: float = 1.0


class PanelOutcome(NamedTuple):
    """The combined result of the votes."""

    status: Status
    reason: Reason | None = None
    rank: int | None = None
    score: float | None = None
    value: float | None = None


def ranking(criterion: Criterion) -> tuple[Choice, ...]:
    """Return the choices from worst to best; without scores, in the order of their declaration."""
    return criterion.worst_first or criterion.scale.choices


def has_scores(criterion: Criterion) -> bool:
    """Whether the choices have scores; options may have none."""
    return criterion.scale.kind == "range" or bool(criterion.worst_first)


def off_scale(criterion: Criterion, verdict: JudgeVerdict) -> str | None:
    """Return why a scored verdict does not fit the scale, or None."""
    if verdict.score is None and has_scores(criterion):
        return "a verdict without a score"
    if criterion.scale.kind == "range":
        low, high = criterion.scale.bounds
        fits = verdict.value is not None and low <= verdict.value <= high
        return None if fits else f"a verdict of {verdict.value}, which is not between {low:g} and {high:g}"
    choice = criterion.choice(verdict.level, verdict.option)
    if choice is None:
        return f"a verdict with level {verdict.level} and option {verdict.option!r}, which is not on the scale"
    if verdict.option is None or verdict.option == choice.label.en:
        return None
    if criterion.scale.find(verdict.option, "en") != choice:
        return f"a verdict with level {verdict.level} and option {verdict.option!r}, which contradict each other"
    return None


def ballots_of(criterion: Criterion, verdicts: Sequence[JudgeVerdict], rule: CombineRule) -> tuple[Ballot, ...]:
    """Return the votes; verdicts without a score, and those that are not on the scale, have none."""
    return tuple(
        [
            _ballot(criterion, verdict, rule)
            for verdict in verdicts
            if verdict.status is _SCORED and off_scale(criterion, verdict) is None
        ]
    )


def _ballot(criterion: Criterion, verdict: JudgeVerdict, rule: CombineRule) -> Ballot:
    choice = criterion.choice(verdict.level, verdict.option)
    return Ballot(
        None if choice is None else [other is choice for other in ranking(criterion)].index(True),
        verdict.score,
        choice.value if choice is not None and verdict.value is None else verdict.value,
        rule.weights.get(verdict.judge, 1.0),
    )


def abstentions(verdicts: Sequence[JudgeVerdict]) -> int:
    return [verdict.status for verdict in verdicts].count(_NOT_APPLICABLE)


def outcome_of(criterion: Criterion, ballots: Sequence[Ballot], abstained: int, rule: CombineRule) -> PanelOutcome:
    """Combine the votes. "Not applicable" counts towards the quorum.

    If most judges say "not applicable", that is the finding; otherwise those that scored decide.
    """
    if len(ballots) + abstained < rule.needed:
        return PanelOutcome(Status.INSUFFICIENT, Reason.QUORUM)
    if abstained > len(ballots):
        return PanelOutcome(Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE)
    if not has_scores(criterion):
        tied = most_chosen_ranks(ballots)
        missing = PanelOutcome(Status.INSUFFICIENT, Reason.NO_MAJORITY)
        return missing if len(tied) > 1 else PanelOutcome(Status.SCORED, rank=tied[0])
    if rule.combine in ("majority", "safety_vote"):
        rank = voted_rank(ballots) if rule.combine == "safety_vote" else most_chosen_ranks(ballots)[0]
        choice = ranking(criterion)[rank]
        return PanelOutcome(_SCORED, rank=rank, score=criterion.score(choice), value=choice.value)
    if rule.combine in ("min", "max", "median"):
        return _outcome_by_rank(criterion, ballots, rule.combine)
    rank_by_vote = None if criterion.scale.kind == "range" else voted_rank(ballots)
    score, value = (_mean([getattr(ballot, name) for ballot in ballots], ballots, rule) for name in ("score", "value"))
    return PanelOutcome(_SCORED, rank=rank_by_vote, score=score, value=value)


def _outcome_by_rank(criterion: Criterion, ballots: Sequence[Ballot], rule: Numeric) -> PanelOutcome:
    """Take option and value from the verdict that decides the score; of two in the middle, the option of the worse."""
    sign = 1 if criterion.higher_is == "better" else -1
    ordered = sorted(ballots, key=lambda ballot: (ballot.score or 0.0, ballot.rank or 0, sign * (ballot.value or 0.0)))
    last = len(ordered) - 1
    deciding = {"min": ordered[:1], "max": ordered[-1:]}.get(rule, ordered[last // 2 : len(ordered) // 2 + 1])
    score, value = (
        combine_numbers("mean", [getattr(ballot, name) for ballot in deciding]) for name in ("score", "value")
    )
    return PanelOutcome(_SCORED, rank=deciding[0].rank, score=score, value=value)


def voted_rank(ballots: Sequence[Ballot]) -> int:
    """Return the rank at which at least half of the judges, by weight, say "this, or worse"."""
    votes = [(ballot.rank, ballot.weight) for ballot in ballots if ballot.rank is not None]
    if len(votes) == 1:
        return votes[0][0]
    return lower_median([rank for rank, _ in votes], [weight for _, weight in votes])


def most_chosen_ranks(ballots: Sequence[Ballot]) -> list[int]:
    """Return the ranks with the most votes, worst first; several if they tied."""
    counts = Counter(ballot.rank for ballot in ballots if ballot.rank is not None)
    most = max(counts.values())
    return sorted(rank for rank, count in counts.items() if count == most)


def _mean(values: Sequence[float | None], ballots: Sequence[Ballot], rule: CombineRule) -> float:
    numbers = [number for number in values if number is not None]
    if rule.combine == "weighted":
        return weighted_mean(numbers, [ballot.weight for ballot in ballots])
    return combine_numbers("mean", numbers)


def conclude_panel(
    criterion: Criterion,
    verdicts: Sequence[JudgeVerdict],
    language: Language,
    rule: CombineRule,
    *,
    path: Path | None = None,
    excluded: tuple[str, ...] = (),
    effective_votes: float | None = None,
    unasked: int = 0,
) -> Dimension:
    """Return the finding as it is published, with every verdict; `unasked` samples were saved in addition."""
    ballots = ballots_of(criterion, verdicts, rule)
    abstained = abstentions(verdicts)
    outcome = outcome_of(criterion, ballots, abstained, rule)
    scores = [ballot.score for ballot in ballots if ballot.score is not None]
    choice = None if outcome.rank is None else ranking(criterion)[outcome.rank]
    is_missing = outcome.reason is not None
    detail = _explain_missing(criterion, ballots, outcome, rule, language, abstained=abstained) if is_missing else None
    return Dimension(
        status=outcome.status,
        score=outcome.score,
        level=criterion.level(choice),
        option=choice.label.en if choice else None,
        label=choice.label.of(language) if choice else None,
        value=outcome.value,
        reason=_shortfall(verdicts) if outcome.reason is _QUORUM else outcome.reason,
        detail=detail,
        spread=max(scores) - min(scores) if len(scores) > 1 else None,
        agreement=agreement_of(ballots),
        votes_cast=len(ballots) if len(ballots) > 1 else None,
        effective_votes=effective_votes,
        path=path,
        excluded=excluded,
        calls_saved=sum([verdict.samples.saved for verdict in verdicts]) + unasked,
        spans=combine_spans([verdict.spans for verdict in verdicts], keep="best" if rule.combine == "max" else "worst"),
        contexts=combine_context_verdicts(verdict.contexts for verdict in verdicts),
        judges=tuple(verdicts),
    )


def conclude_single(criterion: Criterion, verdict: JudgeVerdict, language: Language, rule: CombineRule) -> Dimension:
    """Like `conclude_panel` for one verdict, which is on the scale if scored; usually the verdict is the finding."""
    choice = criterion.choice(verdict.level, verdict.option)
    is_plain = rule.needed == 1 and rule.combine not in {"majority", "weighted"}
    if verdict.status is not _SCORED or verdict.score is None or choice is None or not is_plain:
        return conclude_panel(criterion, (verdict,), language, rule)
    if rule.combine == "safety_vote" and verdict.score != criterion.score(choice):
        return conclude_panel(criterion, (verdict,), language, rule)
    return Dimension(
        status=_SCORED,
        score=verdict.score,
        level=criterion.level(choice),
        option=choice.label.en,
        label=choice.label.of(language),
        value=choice.value if verdict.value is None else verdict.value,
        calls_saved=verdict.samples.saved,
        spans=verdict.spans,
        judges=(verdict,),
    )


def agreement_of(ballots: Sequence[Ballot]) -> float | None:
    """Return the share of pairs of judges with the same choice, or on a range how close the pairs are."""
    if len(ballots) < 2:
        return None
    return fmean(_similarity(one, other) for one, other in combinations(ballots, 2))


def _similarity(one: Ballot, other: Ballot) -> float:
    if one.rank is not None or one.score is None or other.score is None:
        return float(one.rank == other.rank)
    return 1.0 - abs(one.score - other.score)


def _shortfall(verdicts: Sequence[JudgeVerdict]) -> Reason:
    """Return the reason that all failed judges share, or `QUORUM` if they failed for several reasons."""
    reasons = {verdict.reason for verdict in verdicts if verdict.status is Status.INSUFFICIENT}
    return reasons.pop() or Reason.QUORUM if len(reasons) == 1 else Reason.QUORUM


def _explain_missing(
    criterion: Criterion,
    ballots: Sequence[Ballot],
    outcome: PanelOutcome,
    rule: CombineRule,
    language: Language,
    *,
    abstained: int,
) -> str | None:
    """Explain why there is no score."""
    if outcome.reason is Reason.QUORUM:
        return f"{len(ballots) + abstained} of the {rule.needed} required verdicts"
    if outcome.reason is Reason.NO_MAJORITY:
        labels = [choice.label.of(language) for choice in ranking(criterion)]
        counts = Counter(labels[ballot.rank] for ballot in ballots if ballot.rank is not None)
        votes = ", ".join(f"{count} for {label!r}" for label, count in counts.most_common())
        return f"several options tied: {votes}"
    return None
