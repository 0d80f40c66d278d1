"""The tally: one finding from the verdicts of several judges."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, combinations
from typing import Literal, NamedTuple

from judges.criteria import Criterion
from judges.evaluation import Dimension, JudgeVerdict, Reason, Status
from judges.interaction import Language
from judges.scale import Choice

Combine = Literal["mean", "median", "min", "max", "majority", "weighted"]

# In fractions a result is rounded once: it never leaves the range of what it combines, and no sum overflows.
_NUMBERS: Mapping[Combine, Callable[[Sequence[Fraction]], Fraction]] = {
    "mean": lambda numbers: sum(numbers, Fraction()) / len(numbers),
    "median": statistics.median,
    "min": min,
    "max": max,
}
_MIRRORED: Mapping[Combine, Combine] = {"min": "max", "max": "min"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How verdicts combine, and how many it takes."""

    combine: Combine
    needed: int
    weights: Mapping[str, float] = field(default_factory=dict)
    """By the judge's name, for `weighted`; a judge that is not named weighs 1."""

    def why_not(self, criterion: Criterion) -> str | None:
        """Why this rule makes no sense for a criterion, or None."""
        if criterion.scale.kind == "range" and self.combine == "majority":
            return f"numbers have no majority, and {criterion.name!r} has a range"
        if criterion.scale.bounds is None and self.combine != "majority":
            return f"{self.combine} needs scores, and the options of {criterion.name!r} have none: combine by majority"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """What one verdict brings to the vote: a choice, or on a range a value."""

    rank: int | None
    """Where its choice stands among the criterion's, worst first."""

    score: float | None
    value: float | None
    weight: float = 1.0


class Outcome(NamedTuple):
    """What the votes amount to."""

    status: Status
    reason: Reason | None = None
    rank: int | None = None
    score: float | None = None
    value: float | None = None


def ranking(criterion: Criterion) -> tuple[Choice, ...]:
    """The choices from worst to best; without scores as they are declared."""
    return criterion.worst_first or criterion.scale.choices


def choice_of(criterion: Criterion, found: JudgeVerdict | Dimension, language: Language = "en") -> Choice | None:
    """The choice that a finding names by its level or else by its label; None on a range, and off the scale."""
    if criterion.scale.kind in ("levels", "binary") and found.level is not None:
        return next((choice for choice in criterion.scale.choices if choice.value == found.level), None)
    return None if found.option is None else criterion.scale.find(found.option, language)


def off_scale(criterion: Criterion, verdict: JudgeVerdict, language: Language) -> str | None:
    """What is wrong with a verdict that claims to be scored, or None."""
    if criterion.scale.bounds is not None and verdict.score is None:
        return "a verdict without a score"
    if criterion.scale.kind == "range":
        low, high = criterion.scale.bounds
        fits = verdict.value is not None and low <= verdict.value <= high
        return None if fits else f"a verdict of {verdict.value}, which is not between {low:g} and {high:g}"
    choice = choice_of(criterion, verdict, language)
    if choice is None:
        return f"a verdict with level {verdict.level} and option {verdict.option!r}, which is not on the scale"
    if verdict.option is not None and criterion.scale.find(verdict.option, language) != choice:
        return f"a verdict with level {verdict.level} and option {verdict.option!r}, which contradict each other"
    return None


def ballots_of(
    criterion: Criterion, verdicts: Sequence[JudgeVerdict], language: Language, rule: Rule
) -> tuple[Ballot, ...]:
    """The votes; verdicts without a score, and those that are not on the scale, have none."""
    places = {id(choice): rank for rank, choice in enumerate(ranking(criterion))}
    return tuple(
        Ballot(
            rank=places.get(id(choice_of(criterion, verdict, language))),
            score=verdict.score,
            value=verdict.value,
            weight=rule.weights.get(verdict.judge, 1.0),
        )
        for verdict in verdicts
        if verdict.status is Status.SCORED and off_scale(criterion, verdict, language) is None
    )


def abstentions(verdicts: Sequence[JudgeVerdict]) -> int:
    return sum(verdict.status is Status.NOT_APPLICABLE for verdict in verdicts)


def outcome_of(criterion: Criterion, ballots: Sequence[Ballot], abstained: int, rule: Rule) -> Outcome:
    """Scored if enough judges voted, else not applicable if enough say so, else nothing."""
    if len(ballots) < rule.needed:
        if abstained >= rule.needed:
            return Outcome(Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE)
        return Outcome(Status.INSUFFICIENT, Reason.QUORUM)
    if criterion.scale.kind == "range":
        return Outcome(
            Status.SCORED, score=_combined_scores(ballots, rule), value=_combined_values(criterion, ballots, rule)
        )
    if criterion.scale.bounds is None:
        most = most_chosen(ballots)
        missing = Outcome(Status.INSUFFICIENT, Reason.NO_MAJORITY)
        return missing if most is None else Outcome(Status.SCORED, rank=most)
    rank = lower_median(ballots)
    choice = ranking(criterion)[rank]
    score = criterion.score(choice) if rule.combine == "majority" else _combined_scores(ballots, rule)
    return Outcome(Status.SCORED, rank=rank, score=score, value=choice.value)


def lower_median(ballots: Sequence[Ballot]) -> int:
    """The rank at which at least half of the votes, by weight, say "this, or worse".

    That is the majority where there is one, and the worse side of a tie. Counting the most frequent choice instead
    would not be monotone: of [0, 0, 1, 1, 2] it takes 0, and one judge becoming stricter ([0, 0, 1, 1, 1]) lifts it.
    """
    votes = sorted((ballot.rank, Fraction(ballot.weight)) for ballot in ballots if ballot.rank is not None)
    half = sum(weight for _, weight in votes) / 2
    sums = accumulate(weight for _, weight in votes)
    return next(rank for (rank, _), so_far in zip(votes, sums, strict=True) if so_far >= half)


def most_chosen(ballots: Sequence[Ballot]) -> int | None:
    """The rank of what more than half chose."""
    [(rank, count)] = Counter(ballot.rank for ballot in ballots).most_common(1)
    return rank if 2 * count > len(ballots) else None


def _combined_scores(ballots: Sequence[Ballot], rule: Rule) -> float:
    return _combined([ballot.score for ballot in ballots], ballots, rule.combine)


def _combined_values(criterion: Criterion, ballots: Sequence[Ballot], rule: Rule) -> float:
    """The worst score is the largest value where higher is worse."""
    combine = rule.combine if criterion.higher_is == "better" else _MIRRORED.get(rule.combine, rule.combine)
    return _combined([ballot.value for ballot in ballots], ballots, combine)


def _combined(given: Sequence[float | None], ballots: Sequence[Ballot], combine: Combine) -> float:
    numbers = [Fraction(number) for number in given if number is not None]
    if combine == "weighted":
        weights = [Fraction(ballot.weight) for ballot in ballots]
        weighted = sum(weight * number for weight, number in zip(weights, numbers, strict=True))
        return float(weighted / sum(weights))
    return float(_NUMBERS[combine](numbers))


def concluded(criterion: Criterion, verdicts: Sequence[JudgeVerdict], language: Language, rule: Rule) -> Dimension:
    """The finding as it is published, with every verdict."""
    ballots = ballots_of(criterion, verdicts, language, rule)
    found = outcome_of(criterion, ballots, abstentions(verdicts), rule)
    scores = [ballot.score for ballot in ballots if ballot.score is not None]
    choice = None if found.rank is None else ranking(criterion)[found.rank]
    return Dimension(
        status=found.status,
        score=found.score,
        level=_level(criterion, choice),
        option=choice.label.of(language) if choice else None,
        value=found.value,
        reason=_shortfall(verdicts) if found.reason is Reason.QUORUM else found.reason,
        detail=_why(criterion, ballots, found, rule, language),
        spread=max(scores) - min(scores) if len(scores) > 1 else None,
        agreement=agreement_of(ballots),
        calls_saved=sum(verdict.samples.saved for verdict in verdicts),
        judges=tuple(verdicts),
    )


def agreement_of(ballots: Sequence[Ballot]) -> float | None:
    """The share of pairs of judges with the same choice, or on a range how near the pairs are to each other."""
    pairs = list(combinations(ballots, 2))
    return statistics.fmean(_alike(one, other) for one, other in pairs) if pairs else None


def _alike(one: Ballot, other: Ballot) -> float:
    if one.rank is not None or one.score is None or other.score is None:
        return float(one.rank == other.rank)
    return 1.0 - abs(one.score - other.score)


def _level(criterion: Criterion, choice: Choice | None) -> int | None:
    if choice is None or choice.value is None or criterion.scale.kind == "options":
        return None
    return int(choice.value)


def _shortfall(verdicts: Sequence[JudgeVerdict]) -> Reason:
    """The reason all failed judges share, or that the quorum was missed for several."""
    reasons = {verdict.reason for verdict in verdicts if verdict.status is Status.INSUFFICIENT}
    return reasons.pop() or Reason.QUORUM if len(reasons) == 1 else Reason.QUORUM


def _why(criterion: Criterion, ballots: Sequence[Ballot], found: Outcome, rule: Rule, language: Language) -> str | None:
    """What was missing, in words."""
    if found.reason is Reason.QUORUM:
        return f"{len(ballots)} of the {rule.needed} verdicts needed"
    if found.reason is Reason.NO_MAJORITY:
        labels = [choice.label.of(language) for choice in ranking(criterion)]
        counts = Counter(labels[ballot.rank] for ballot in ballots if ballot.rank is not None)
        votes = ", ".join(f"{count} for {label!r}" for label, count in counts.most_common())
        return f"no option has more than half of the votes: {votes}"
    return None
