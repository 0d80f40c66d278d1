"""The tally: one finding from the verdicts of several judges."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal, NamedTuple

from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice
from judges.values.combine import Numeric, combined, lower_median, weighted_mean
from judges.values.evaluation import Dimension, JudgeVerdict, Path, Reason, Status
from judges.values.interaction import Language

Combine = Literal[Numeric, "majority", "weighted"]

# Looking a member up in its enumeration takes longer than comparing with it.
_SCORED, _NOT_APPLICABLE, _QUORUM = Status.SCORED, Status.NOT_APPLICABLE, Reason.QUORUM


class CombineRule(NamedTuple):
    """How verdicts combine, and how many it takes."""

    combine: Combine | Literal["safety_vote"]
    """`safety_vote`: the score is that of the voted choice, so that score, level and status never contradict."""

    needed: int
    weights: Mapping[str, float]
    """By the judge's name, for `weighted`; a judge that is not named weighs 1."""

    def why_not(self, criterion: Criterion) -> str | None:
        """Why this rule makes no sense for a criterion, or None."""
        if criterion.scale.kind == "range" and self.combine == "majority":
            return f"numbers have no majority, but {criterion.name!r} has a range"
        if self.combine != "majority" and not has_scores(criterion):
            return f"{self.combine} needs scores, but the options of {criterion.name!r} have none: combine by majority"
        return None


class Ballot(NamedTuple):
    """What one verdict brings to the vote: a choice, or on a range a value."""

    rank: int | None
    """Where its choice stands among the criterion's, worst first."""

    score: float | None
    value: float | None
    weight: float = 1.0


class PanelOutcome(NamedTuple):
    """What the votes amount to."""

    status: Status
    reason: Reason | None = None
    rank: int | None = None
    score: float | None = None
    value: float | None = None


def ranking(criterion: Criterion) -> tuple[Choice, ...]:
    """The choices from worst to best; without scores as they are declared."""
    return criterion.worst_first or criterion.scale.choices


def has_scores(criterion: Criterion) -> bool:
    """Options may have none."""
    return criterion.scale.kind == "range" or bool(criterion.worst_first)


def off_scale(criterion: Criterion, verdict: JudgeVerdict) -> str | None:
    """What is wrong with a verdict that claims to be scored, or None."""
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
    """The votes; verdicts without a score, and those that are not on the scale, have none."""
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
        None if choice is None else [each is choice for each in ranking(criterion)].index(True),
        verdict.score,
        choice.value if choice is not None and verdict.value is None else verdict.value,
        rule.weights.get(verdict.judge, 1.0),
    )


def abstentions(verdicts: Sequence[JudgeVerdict]) -> int:
    return [verdict.status for verdict in verdicts].count(_NOT_APPLICABLE)


def outcome_of(criterion: Criterion, ballots: Sequence[Ballot], abstained: int, rule: CombineRule) -> PanelOutcome:
    """Nothing without a quorum, to which "not applicable" counts; where most say that, it is the finding, and otherwise
    those who scored decide."""
    if len(ballots) + abstained < rule.needed:
        return PanelOutcome(Status.INSUFFICIENT, Reason.QUORUM)
    if abstained > len(ballots):
        return PanelOutcome(Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE)
    if not has_scores(criterion):
        tied = most_chosen(ballots)
        missing = PanelOutcome(Status.INSUFFICIENT, Reason.NO_MAJORITY)
        return missing if len(tied) > 1 else PanelOutcome(Status.SCORED, rank=tied[0])
    if rule.combine in ("majority", "safety_vote"):
        rank = voted(ballots) if rule.combine == "safety_vote" else most_chosen(ballots)[0]
        choice = ranking(criterion)[rank]
        return PanelOutcome(_SCORED, rank=rank, score=criterion.score(choice), value=choice.value)
    if rule.combine in ("min", "max", "median"):
        return _outcome_of_order(criterion, ballots, rule.combine)
    voted_rank = None if criterion.scale.kind == "range" else voted(ballots)
    score, value = (_mean([getattr(ballot, name) for ballot in ballots], ballots, rule) for name in ("score", "value"))
    return PanelOutcome(_SCORED, rank=voted_rank, score=score, value=value)


def _outcome_of_order(criterion: Criterion, ballots: Sequence[Ballot], rule: Numeric) -> PanelOutcome:
    """The verdict that decides by its score gives option and value too; of two in the middle, the worse its option."""
    sign = 1 if criterion.higher_is == "better" else -1
    ordered = sorted(ballots, key=lambda ballot: (ballot.score or 0.0, ballot.rank or 0, sign * (ballot.value or 0.0)))
    last = len(ordered) - 1
    deciding = {"min": ordered[:1], "max": ordered[-1:]}.get(rule, ordered[last // 2 : len(ordered) // 2 + 1])
    score, value = (combined("mean", [getattr(ballot, name) for ballot in deciding]) for name in ("score", "value"))
    return PanelOutcome(_SCORED, rank=deciding[0].rank, score=score, value=value)


def voted(ballots: Sequence[Ballot]) -> int:
    """The rank at which at least half of the judges, by weight, say "this, or worse"."""
    votes = [(ballot.rank, ballot.weight) for ballot in ballots if ballot.rank is not None]
    if len(votes) == 1:
        return votes[0][0]
    return lower_median([rank for rank, _ in votes], [weight for _, weight in votes])


def most_chosen(ballots: Sequence[Ballot]) -> list[int]:
    """The ranks of what most chose, worst first; several where they tied."""
    counts = Counter(ballot.rank for ballot in ballots if ballot.rank is not None)
    most = max(counts.values())
    return sorted(rank for rank, count in counts.items() if count == most)


def _mean(given: Sequence[float | None], ballots: Sequence[Ballot], rule: CombineRule) -> float:
    numbers = [number for number in given if number is not None]
    if rule.combine == "weighted":
        return weighted_mean(numbers, [ballot.weight for ballot in ballots])
    return combined("mean", numbers)


def concluded(
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
    """The finding as it is published, with every verdict; `unasked` samples were saved beside those of the judges."""
    ballots = ballots_of(criterion, verdicts, rule)
    abstained = abstentions(verdicts)
    found = outcome_of(criterion, ballots, abstained, rule)
    scores = [ballot.score for ballot in ballots if ballot.score is not None]
    choice = None if found.rank is None else ranking(criterion)[found.rank]
    return Dimension(
        status=found.status,
        score=found.score,
        level=criterion.level(choice),
        option=choice.label.en if choice else None,
        label=choice.label.of(language) if choice else None,
        value=found.value,
        reason=_shortfall(verdicts) if found.reason is _QUORUM else found.reason,
        detail=None if found.reason is None else _why(criterion, ballots, found, rule, language, abstained=abstained),
        spread=max(scores) - min(scores) if len(scores) > 1 else None,
        agreement=agreement_of(ballots),
        votes_cast=len(ballots) if len(ballots) > 1 else None,
        effective_votes=effective_votes,
        path=path,
        excluded=excluded,
        calls_saved=sum([verdict.samples.saved for verdict in verdicts]) + unasked,
        judges=tuple(verdicts),
    )


def concluded_by_one(criterion: Criterion, verdict: JudgeVerdict, language: Language, rule: CombineRule) -> Dimension:
    """As `concluded` of one verdict, which is on the scale if it is scored: mostly what it says is the finding."""
    choice = criterion.choice(verdict.level, verdict.option)
    is_plain = rule.needed == 1 and rule.combine not in {"majority", "weighted"}
    if verdict.status is not _SCORED or verdict.score is None or choice is None or not is_plain:
        return concluded(criterion, (verdict,), language, rule)
    if rule.combine == "safety_vote" and verdict.score != criterion.score(choice):
        return concluded(criterion, (verdict,), language, rule)
    return Dimension(
        status=_SCORED,
        score=verdict.score,
        level=criterion.level(choice),
        option=choice.label.en,
        label=choice.label.of(language),
        value=choice.value if verdict.value is None else verdict.value,
        calls_saved=verdict.samples.saved,
        judges=(verdict,),
    )


def agreement_of(ballots: Sequence[Ballot]) -> float | None:
    """The share of pairs of judges with the same choice, or on a range how near the pairs are to each other."""
    if len(ballots) < 2:
        return None
    return fmean(_alike(one, other) for one, other in combinations(ballots, 2))


def _alike(one: Ballot, other: Ballot) -> float:
    if one.rank is not None or one.score is None or other.score is None:
        return float(one.rank == other.rank)
    return 1.0 - abs(one.score - other.score)


def _shortfall(verdicts: Sequence[JudgeVerdict]) -> Reason:
    """The reason all failed judges share, or that the quorum was missed for several."""
    reasons = {verdict.reason for verdict in verdicts if verdict.status is Status.INSUFFICIENT}
    return reasons.pop() or Reason.QUORUM if len(reasons) == 1 else Reason.QUORUM


def _why(
    criterion: Criterion,
    ballots: Sequence[Ballot],
    found: PanelOutcome,
    rule: CombineRule,
    language: Language,
    *,
    abstained: int,
) -> str | None:
    """What was missing, in words."""
    if found.reason is Reason.QUORUM:
        return f"{len(ballots) + abstained} of the {rule.needed} required verdicts"
    if found.reason is Reason.NO_MAJORITY:
        labels = [choice.label.of(language) for choice in ranking(criterion)]
        counts = Counter(labels[ballot.rank] for ballot in ballots if ballot.rank is not None)
        votes = ", ".join(f"{count} for {label!r}" for label, count in counts.most_common())
        return f"several options tied: {votes}"
    return None
