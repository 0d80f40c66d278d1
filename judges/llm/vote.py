"""The vote: how several answers become one outcome, and when further answers cannot change it.

Only valid answers vote. With `majority` the most votes win, and a tie goes to the worse of the tied choices. The choice
of a mean or a median is the one at which at least half of the voters say "this, or worse". The choice of a minimum or a
maximum is that of the answer with this value.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from judges.criteria.criterion import Criterion
from judges.criteria.problems import check_bool, check_count, check_integer
from judges.criteria.scale import Choice
from judges.llm.completion import Valid
from judges.values.combine import Numeric, combine_numbers, lower_median, mirror
from judges.values.evaluation import Reason

Combine = Literal["majority", Numeric]
ScoreFrom = Literal["winner", "mean"]

# One verdict requests all of them, some concurrently: more is a mistake, and an expensive one.
MAX_SAMPLES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteOutcome:
    """The combined result of several answers. Neither choice nor value means that the criterion does not apply."""

    choice: Choice | None = None
    value: float | None = None
    score: float | None = None
    tie: bool = False

    @property
    def applies(self) -> bool:
        return self.choice is not None or self.value is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRule:
    """The number of samples that a judge takes, and the rule that combines them."""

    samples: int = 1
    combine: Combine | None = None
    """None: `majority` for pass/fail and options, `mean` for levels and ranges."""

    min_pass: int | None = None
    """For pass/fail, instead of `combine`: the number of samples that must pass. If fewer samples score because the
    others say that the criterion does not apply, all that score must pass."""

    min_valid: int | None = None
    """Minimum number of valid samples for a verdict; None: more than half of all samples."""

    score_from: ScoreFrom = "winner"
    stop_early: bool = True

    def __post_init__(self) -> None:
        check_samples(self.samples, {"min_pass": self.min_pass, "min_valid": self.min_valid})
        check_bool("stop_early", self.stop_early)
        if self.combine is not None and self.combine not in get_args(Combine):
            raise ValueError(f"combine must be one of {', '.join(get_args(Combine))}, not {self.combine!r}")
        if self.score_from not in ("winner", "mean"):
            raise ValueError(f"score_from must be winner or mean, not {self.score_from!r}")
        if self.min_pass is not None and self.combine is not None:
            raise ValueError("min_pass replaces combine; give only one of them")

    def why_not(self, criterion: Criterion) -> str | None:
        """Return why this rule cannot be used for a criterion, or None."""
        scale = criterion.scale
        if self.min_pass is not None and scale.kind != "binary":
            return f"min_pass needs a pass/fail scale, but {criterion.name!r} has {scale.kind}"
        if self.combine == "majority" and scale.kind == "range":
            return f"numbers have no majority, but {criterion.name!r} has a range"
        if self.combine in get_args(Numeric) and scale.bounds is None:
            return f"{self.combine} needs scores, but the options of {criterion.name!r} have none"
        return None

    @property
    def with_one_sample(self) -> "VoteRule":
        """The same rule with a single sample."""
        return replace(self, samples=1, min_pass=None if self.min_pass is None else 1, min_valid=None)

    @property
    def needed(self) -> int:
        """Number of valid samples that a verdict needs."""
        return self.min_valid or self.samples // 2 + 1

    def combination(self, criterion: Criterion) -> Combine:
        return self.combine or ("majority" if criterion.scale.kind in ("binary", "options") else "mean")

    def find(self, criterion: Criterion, answers: Sequence[Valid]) -> VoteOutcome | Reason:
        """Combine valid answers into an outcome, or return the reason why there is none."""
        if len(answers) < self.needed:
            return Reason.QUORUM
        applicable = [answer for answer in answers if answer.applies]
        if 2 * len(applicable) < len(answers):
            return VoteOutcome()
        choices = [answer.choice for answer in applicable if answer.choice is not None]
        if self.min_pass is not None:
            return self._pass_or_fail(criterion, choices, self.samples - len(answers))
        rule = self.combination(criterion)
        if rule == "majority":
            return _of_votes(criterion, choices, self.score_from)
        numbers = [answer.value for answer in applicable if answer.value is not None]
        return _of_numbers(criterion, choices, numbers, rule)

    def _pass_or_fail(self, criterion: Criterion, choices: Sequence[Choice], missing: int) -> VoteOutcome | Reason:
        """Return a pass or fail that the missing samples could not have changed, or `QUORUM` if they could have.

        Samples that say "not applicable" are neither passes nor fails, and are not among the choices.
        """
        fail, passing = criterion.worst_first
        short = min(self.min_pass or 0, len(choices) + missing) - choices.count(passing)
        if 0 < short <= missing:
            return Reason.QUORUM
        won = fail if short > 0 else passing
        return VoteOutcome(choice=won, value=won.value, score=_score(criterion, choices, won, self.score_from))

    def samples_to_request(self, criterion: Criterion, answers: Sequence[Valid], asked: int) -> int:
        """Return how many samples to request next: 0 if they cannot change the outcome, else as few as may settle it.

        `answers` are the valid ones among the `asked` so far; the others may turn out to be anything, or invalid.
        """
        remaining = self.samples - asked
        if remaining == 0 or not self.stop_early:
            return remaining
        if len(answers) + remaining < self.needed:
            return 0
        if not self._can_settle(criterion):
            return remaining
        missing = min(self._to_settle(criterion, answers))
        return min(remaining, max(missing, self.needed - len(answers)))

    def _can_settle(self, criterion: Criterion) -> bool:
        """Whether the outcome can be settled before the last sample: every answer moves a mean, but not every vote."""
        if self.score_from != "winner":
            return False
        if self.min_pass is not None:
            return criterion.not_applicable is None
        return self.combination(criterion) in ("majority", "median")

    def _to_settle(self, criterion: Criterion, answers: Sequence[Valid]) -> list[int]:
        """Return, for each way in which the outcome can be settled, how many more answers it takes."""
        if self.min_pass is None:
            counts = Counter((answer.choice, answer.value) for answer in answers)
            return [max(self.samples // 2 + 1 - max(counts.values(), default=0), 0)]
        passes_needed = self.min_pass - sum(answer.choice == criterion.worst_first[1] for answer in answers)
        return [max(passes_needed, 0), max(self.samples - len(answers) - passes_needed + 1, 0)]


def check_samples(samples: int, shares: Mapping[str, int | None], *, name: str = "samples") -> None:
    """Raise if the number of samples or a share of it is impossible; `name` is the caller's name for the samples."""
    check_count(name, samples, most=MAX_SAMPLES)
    for share, value in shares.items():
        if value is None:
            continue
        check_integer(share, value)
        if not 1 <= value <= samples:
            raise ValueError(f"{share} must be between 1 and the {samples} samples, not {value}")


def _worse_half(choices: Sequence[Choice], criterion: Criterion) -> Choice:
    """Return the choice at which at least half of the voters say "this, or worse"."""
    return criterion.worst_first[lower_median([_rank(choice, criterion) for choice in choices])]


def _rank(choice: Choice, criterion: Criterion) -> int:
    """Return its position from worst to best. It is usually the same object, and comparing models by value is slow."""
    for rank, other in enumerate(criterion.worst_first):
        if choice is other:
            return rank
    return criterion.worst_first.index(choice)


def majority(choices: Sequence[Choice], criterion: Criterion) -> tuple[Choice | None, bool]:
    """Return the choice with the most votes, and whether several tied; of tied choices the worst, if they are ordered.

    Unlike the worse half, this is not monotone: of [0, 0, 1, 1, 2] it takes 0, and one voter becoming stricter
    ([0, 0, 1, 1, 1]) raises it. Where that must not happen, as with safety, a panel takes the worse half.
    """
    counts = Counter(choices)
    most = max(counts.values())
    tied = [choice for choice, count in counts.items() if count == most]
    if len(tied) == 1:
        return tied[0], False
    return (min(tied, key=criterion.worst_first.index) if criterion.worst_first else None), True


def _of_votes(criterion: Criterion, choices: Sequence[Choice], score_from: ScoreFrom) -> VoteOutcome | Reason:
    won, tie = majority(choices, criterion)
    if won is None:
        return Reason.NO_MAJORITY
    return VoteOutcome(choice=won, value=won.value, score=_score(criterion, choices, won, score_from), tie=tie)


def _of_numbers(
    criterion: Criterion, choices: Sequence[Choice], numbers: Sequence[float], rule: Numeric
) -> VoteOutcome:
    """Combine numbers; `min` is the worst and `max` the best, whichever way the scale runs."""
    value = combine_numbers(rule if criterion.higher_is == "better" else mirror(rule), numbers)
    won = _deciding(choices, criterion, rule) if choices else None
    return VoteOutcome(choice=won, value=value, score=criterion.place(value))


def _deciding(choices: Sequence[Choice], criterion: Criterion, rule: Numeric) -> Choice:
    """Return the choice of the answer that decides the score; for a mean, that of the worse half."""
    if rule not in ("min", "max"):
        return _worse_half(choices, criterion)
    ranks = [_rank(choice, criterion) for choice in choices]
    return criterion.worst_first[min(ranks) if rule == "min" else max(ranks)]


def _score(criterion: Criterion, choices: Sequence[Choice], won: Choice, score_from: ScoreFrom) -> float | None:
    if score_from == "winner" or won.value is None:
        return criterion.score(won)
    return combine_numbers(
        "mean", [criterion.normalise(choice.value) for choice in choices if choice.value is not None]
    )
