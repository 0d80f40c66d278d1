"""The vote: how several answers become one finding, and when further answers cannot change it.

Only valid answers vote. By `majority` most votes win, and a tie goes to the worse of the tied choices. The choice of a
mean or a median is the one at which at least half of the voters say "this, or worse"; that of an extreme is the choice
of the answer that is the extreme.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from judges.criteria.criterion import Criterion
from judges.criteria.problems import check_count, check_truth, check_whole
from judges.criteria.scale import Choice
from judges.llm.completion import Valid
from judges.values.combine import Numeric, combined, lower_median, mirrored
from judges.values.evaluation import Reason

Combine = Literal["majority", Numeric]
ScoreFrom = Literal["winner", "mean"]

# One verdict asks for all of them, some at once: more is a slip, and an expensive one.
MAX_SAMPLES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteOutcome:
    """What several answers amount to. Neither choice nor value means that the criterion does not apply."""

    choice: Choice | None = None
    value: float | None = None
    score: float | None = None
    tie: bool = False

    @property
    def applies(self) -> bool:
        return self.choice is not None or self.value is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRule:
    """How many samples one judge takes, and how they combine."""

    samples: int = 1
    combine: Combine | None = None
    """None: `majority` for pass/fail and options, `mean` for levels and ranges."""

    min_pass: int | None = None
    """For pass/fail, instead of `combine`: passes with at least this many, or with all that scored where fewer did
    because the others say that the criterion does not apply."""

    min_valid: int | None = None
    """Valid samples without which there is no verdict; None: more than half of all."""

    score_from: ScoreFrom = "winner"
    stop_early: bool = True

    def __post_init__(self) -> None:
        check_samples(self.samples, {"min_pass": self.min_pass, "min_valid": self.min_valid})
        check_truth("stop_early", self.stop_early)
        if self.combine is not None and self.combine not in get_args(Combine):
            raise ValueError(f"combine must be one of {', '.join(get_args(Combine))}, not {self.combine!r}")
        if self.score_from not in ("winner", "mean"):
            raise ValueError(f"score_from must be winner or mean, not {self.score_from!r}")
        if self.min_pass is not None and self.combine is not None:
            raise ValueError("min_pass takes the place of combine; give one of them")

    def why_not(self, criterion: Criterion) -> str | None:
        """Why this rule makes no sense for a criterion, or None."""
        scale = criterion.scale
        if self.min_pass is not None and scale.kind != "binary":
            return f"min_pass is for pass/fail, and {criterion.name!r} has {scale.kind}"
        if self.combine == "majority" and scale.kind == "range":
            return f"numbers have no majority, and {criterion.name!r} has a range"
        if self.combine in get_args(Numeric) and scale.bounds is None:
            return f"{self.combine} needs scores, and the options of {criterion.name!r} have none"
        return None

    @property
    def of_one(self) -> "VoteRule":
        """The same with a single sample."""
        return replace(self, samples=1, min_pass=None if self.min_pass is None else 1, min_valid=None)

    @property
    def needed(self) -> int:
        """Valid samples that a verdict takes."""
        return self.min_valid or self.samples // 2 + 1

    def combination(self, criterion: Criterion) -> Combine:
        return self.combine or ("majority" if criterion.scale.kind in ("binary", "options") else "mean")

    def find(self, criterion: Criterion, answers: Sequence[Valid]) -> VoteOutcome | Reason:
        """The finding of valid answers, or why there is none."""
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
        """A fail is one that the missing samples could not have turned: to be out of reach of a pass is no fail.

        Samples that say "not applicable" are neither passes nor fails, and are not among the choices.
        """
        fail, passing = criterion.worst_first
        short = min(self.min_pass or 0, len(choices) + missing) - choices.count(passing)
        if 0 < short <= missing:
            return Reason.QUORUM
        won = fail if short > 0 else passing
        return VoteOutcome(choice=won, value=won.value, score=_scored(criterion, choices, won, self.score_from))

    def wanted(self, criterion: Criterion, answers: Sequence[Valid], asked: int) -> int:
        """How many samples to ask for next: none once the rest cannot change the finding, else as few as could do it.

        `answers` are the valid ones among the `asked` so far; what is still to come may be of any kind, or invalid.
        """
        left = self.samples - asked
        if left == 0 or not self.stop_early:
            return left
        if len(answers) + left < self.needed:
            return 0
        if not self._can_settle(criterion):
            return left
        missing = min(self._to_settle(criterion, answers))
        return min(left, max(missing, self.needed - len(answers)))

    def _can_settle(self, criterion: Criterion) -> bool:
        """Every answer moves a mean; only votes and the middle can be settled before the end."""
        if self.score_from != "winner":
            return False
        if self.min_pass is not None:
            return criterion.not_applicable is None
        return self.combination(criterion) in ("majority", "median")

    def _to_settle(self, criterion: Criterion, answers: Sequence[Valid]) -> list[int]:
        """For each way to be settled, how many more answers it takes."""
        if self.min_pass is None:
            counts = Counter((answer.choice, answer.value) for answer in answers)
            return [max(self.samples // 2 + 1 - max(counts.values(), default=0), 0)]
        to_pass = self.min_pass - sum(answer.choice == criterion.worst_first[1] for answer in answers)
        return [max(to_pass, 0), max(self.samples - len(answers) - to_pass + 1, 0)]


def check_samples(samples: int, shares: Mapping[str, int | None], *, name: str = "samples") -> None:
    """Refuses numbers of samples, and parts of them, that cannot be; `name` is what the caller calls the samples."""
    check_count(name, samples, most=MAX_SAMPLES)
    for share, value in shares.items():
        if value is None:
            continue
        check_whole(share, value)
        if not 1 <= value <= samples:
            raise ValueError(f"{share} must be between 1 and the {samples} samples, not {value}")


def _worse_half(choices: Sequence[Choice], criterion: Criterion) -> Choice:
    """The choice at which at least half say "this, or worse"."""
    return criterion.worst_first[lower_median([_rank(choice, criterion) for choice in choices])]


def _rank(choice: Choice, criterion: Criterion) -> int:
    """Its place from worst to best; most often it is the very same object, and comparing models by value is slow."""
    for rank, other in enumerate(criterion.worst_first):
        if choice is other:
            return rank
    return criterion.worst_first.index(choice)


def majority(choices: Sequence[Choice], criterion: Criterion) -> tuple[Choice | None, bool]:
    """What most chose, and whether several tied for it: then the worst of these, if the choices have an order.

    Unlike the worse half, this is not monotone: of [0, 0, 1, 1, 2] it takes 0, and one voter becoming stricter
    ([0, 0, 1, 1, 1]) lifts it. Where that must not happen, as about safety, a panel takes the worse half.
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
    return VoteOutcome(choice=won, value=won.value, score=_scored(criterion, choices, won, score_from), tie=tie)


def _of_numbers(
    criterion: Criterion, choices: Sequence[Choice], numbers: Sequence[float], rule: Numeric
) -> VoteOutcome:
    """`min` is the worst number and `max` the best, whichever way the scale runs."""
    value = combined(rule if criterion.higher_is == "better" else mirrored(rule), numbers)
    won = _deciding(choices, criterion, rule) if choices else None
    return VoteOutcome(choice=won, value=value, score=criterion.place(value))


def _deciding(choices: Sequence[Choice], criterion: Criterion, rule: Numeric) -> Choice:
    """The choice of the answer that decides the score; a mean has none, and takes that of the worse half."""
    if rule not in ("min", "max"):
        return _worse_half(choices, criterion)
    ranks = [_rank(choice, criterion) for choice in choices]
    return criterion.worst_first[min(ranks) if rule == "min" else max(ranks)]


def _scored(criterion: Criterion, choices: Sequence[Choice], won: Choice, score_from: ScoreFrom) -> float | None:
    if score_from == "winner" or won.value is None:
        return criterion.score(won)
    return combined("mean", [criterion.normalise(choice.value) for choice in choices if choice.value is not None])
