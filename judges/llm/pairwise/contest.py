"""Contests between answers: the wins of each, the win rates and the ranks."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, computed_field

from judges.llm.model_judge import OnBias, Poll, sum_of_samples, sum_of_tokens
from judges.llm.prompts.pairwise import letters
from judges.values.evaluation import Reason, Samples, Score, Status, Tokens


class _ContestValue(BaseModel):
    model_config = ConfigDict(frozen=True)


class Ruling(_ContestValue):
    """What the model said of a contest in one order."""

    winner: str | None = None
    tied: tuple[str, ...] = ()
    explanation: str = ""


class Contest(_ContestValue):
    """One contest, and who won it: nobody where the answers tied, and nobody where it could not be decided."""

    answers: tuple[str, ...]
    """Their names in the order in which the model saw them, as A, B and so on; twins stand last."""

    twins: Mapping[str, str] = {}
    """Answers of the same text as one that the model saw, by name, with the name of that one. They share its result."""

    status: Status
    winner: str | None = None
    tied: tuple[str, ...] = ()
    """Those who share the contest."""

    explanation: str = ""
    reason: Reason | None = None
    detail: str | None = None
    position_bias: bool | None = None
    """Whether the outcome changed with the order; None where that was not checked."""

    rulings: tuple[Ruling, ...] = ()
    """What the model said, in this order and in the reverse one."""

    samples: Samples
    tokens: Tokens | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tie(self) -> bool:
        return bool(self.tied)

    @property
    def decided(self) -> bool:
        return self.status is Status.SCORED


class Standing(_ContestValue):
    """How one answer did. Without a decided contest it has no rate and no rank."""

    name: str
    contests: NonNegativeInt = 0
    """The decided ones that it was in."""

    won: NonNegativeInt = 0
    ties: NonNegativeInt = 0
    win_rate: Score | None = None
    """A tie shares one win among those who tied, so that the rates of one contest sum to 1."""

    rank: PositiveInt | None = None
    explanations: tuple[str, ...] = ()


class PairwiseResult(_ContestValue):
    """How the answers of one instance did; `detail` says what is missing."""

    judge: str
    id: str
    status: Status
    answers: tuple[Standing, ...] = ()
    """In the order in which they were given."""

    contests: tuple[Contest, ...] = ()
    reason: Reason | None = None
    detail: str | None = None
    samples: Samples = Samples(requested=0)
    tokens: Tokens | None = None
    latency_ms: float = 0.0

    @property
    def best(self) -> tuple[str, ...]:
        """Those of the first rank: several when they share it, none when nothing was decided."""
        return tuple(answer.name for answer in self.answers if answer.rank == 1)

    def __getitem__(self, name: str) -> Standing:
        return {answer.name: answer for answer in self.answers}[name]


def settled(names: tuple[str, ...], rulings: Sequence[Ruling | None], poll: Poll, on_bias: OnBias) -> Contest:
    """What one or two rulings amount to."""
    said = tuple(ruling for ruling in rulings if ruling is not None)
    contest = Contest(
        answers=names,
        status=Status.INSUFFICIENT,
        rulings=said,
        samples=poll.samples(poll.asked),
        tokens=poll.tokens,
    )
    if not said:
        reason, detail = poll.why(Reason.QUORUM)
        return contest.model_copy(update={"reason": reason, "detail": detail})
    decided = contest.model_copy(update={"status": Status.SCORED, **dict(said[0])})
    if len(rulings) == 1:
        return decided
    if len(said) == 1:
        # Whether the order matters stays unknown: a failed check is not a passed one.
        reason, why = poll.why(Reason.QUORUM)
        detail = f"the order of answers could not be checked: {why}"
        if on_bias == "abstain":
            return contest.model_copy(update={"reason": reason, "detail": detail})
        return decided.model_copy(update={"detail": detail})
    return _checked(contest, decided, said[0], said[1], on_bias)


def undistinguished(names: tuple[str, ...], *, ties: bool) -> Contest:
    """A contest between answers of the same text, about which nobody need be asked."""
    contest = Contest(
        answers=names, status=Status.SCORED, tied=names, detail="the answers are the same", samples=Samples(requested=0)
    )
    if ties:
        return contest
    missing = {"status": Status.INSUFFICIENT, "tied": (), "reason": Reason.NOTHING_TO_JUDGE}
    return contest.model_copy(update={**missing, "detail": "the answers are the same, and a tie is not allowed"})


def joined_by_twins(contest: Contest, twins: Mapping[str, str], *, ties: bool) -> Contest:
    """The contest with the answers that were not shown because their text was: twins win or share together."""
    if not twins:
        return contest
    joined = contest.model_copy(update={"answers": (*contest.answers, *twins), "twins": dict(twins)})
    if not contest.decided:
        return joined
    best = {contest.winner} if contest.winner is not None else set(contest.tied)
    sharing = tuple(name for name in joined.answers if twins.get(name, name) in best)
    if len(sharing) == len(best):
        return joined
    if ties:
        return joined.model_copy(update={"winner": None, "tied": sharing})
    missing = {"status": Status.INSUFFICIENT, "winner": None, "tied": (), "reason": Reason.NOTHING_TO_JUDGE}
    return joined.model_copy(update={**missing, "detail": "the best answers are the same, and a tie is not allowed"})


def _checked(contest: Contest, decided: Contest, forward: Ruling, backward: Ruling, on_bias: OnBias) -> Contest:
    biased = forward.winner != backward.winner
    seen = {"position_bias": biased}
    if not biased or on_bias == "keep":
        return decided.model_copy(update=seen)
    if on_bias == "abstain":
        detail = f"{_won(forward)} became {_won(backward)} when the answers stood in reverse order"
        return contest.model_copy(update={**seen, "reason": Reason.POSITION_BIAS, "detail": detail})
    # Two winners share the contest; a third answer that neither order preferred has no part in it.
    winners = tuple(name for name in contest.answers if name in (forward.winner, backward.winner))
    tied = winners if len(winners) == 2 else contest.answers
    return decided.model_copy(update={**seen, "winner": None, "tied": tied})


def _won(ruling: Ruling) -> str:
    return "a tie" if ruling.winner is None else repr(ruling.winner)


def concluded(judge: str, record: str, names: Sequence[str], contests: Sequence[Contest]) -> PairwiseResult:
    missing = [contest for contest in contests if not contest.decided]
    result = PairwiseResult(
        judge=judge,
        id=record,
        status=Status.SCORED,
        answers=standings(names, contests),
        contests=tuple(contests),
        samples=reduce(sum_of_samples, (contest.samples for contest in contests)),
        tokens=reduce(sum_of_tokens, (contest.tokens for contest in contests)),
    )
    if not missing:
        return result
    detail = f"{len(missing)} of {len(contests)} contests have no verdict, the first because {missing[0].detail}"
    if len(missing) < len(contests):
        return result.model_copy(update={"detail": detail})
    nothing = {"status": Status.INSUFFICIENT, "reason": missing[0].reason, "detail": detail}
    return result.model_copy(update=nothing)


def standings(names: Sequence[str], contests: Sequence[Contest]) -> tuple[Standing, ...]:
    """How each answer did in the decided contests; equal rates share a rank."""
    unranked = [_standing(name, [each for each in contests if each.decided and name in each.answers]) for name in names]
    rates = [standing.win_rate for standing in unranked if standing.win_rate is not None]
    return tuple(standing.model_copy(update={"rank": _rank(standing.win_rate, rates)}) for standing in unranked)


def _standing(name: str, contests: Sequence[Contest]) -> Standing:
    won = sum(contest.winner == name for contest in contests)
    ties = [contest for contest in contests if name in contest.tied]
    shared = sum((Fraction(1, len(contest.tied)) for contest in ties), Fraction())
    return Standing(
        name=name,
        contests=len(contests),
        won=won,
        ties=len(ties),
        win_rate=float((won + shared) / len(contests)) if contests else None,
        explanations=tuple(_explained(contest) for contest in contests if contest.explanation),
    )


def _explained(contest: Contest) -> str:
    """The explanation after what its letters stand for, without which it cannot be read."""
    shown = [name for name in contest.answers if name not in contest.twins]
    same = {name: [name, *(twin for twin, of in contest.twins.items() if of == name)] for name in shown}
    legend = ", ".join(
        f"{letter}: {' = '.join(same[name])}" for letter, name in zip(letters(len(shown)), shown, strict=True)
    )
    return f"({legend}) {contest.explanation}"


def _rank(rate: float | None, rates: Sequence[float]) -> int | None:
    return None if rate is None else 1 + sum(other > rate for other in rates)


def unusable(judge: str, record: str, reason: Reason, detail: str, names: tuple[str, ...] = ()) -> PairwiseResult:
    answers = standings(names, ())
    return PairwiseResult(
        judge=judge, id=record, status=Status.INSUFFICIENT, answers=answers, reason=reason, detail=detail
    )
