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
    """The model's ruling on a contest in one order."""

    winner: str | None = None
    tied: tuple[str, ...] = ()
    explanation: str = ""


class Contest(_ContestValue):
    """One contest and its winner; no winner if the answers tied or the contest could not be decided."""

    answers: tuple[str, ...]
    """Their names in the order in which the model saw them, as A, B and so on; twins come last."""

    twins: Mapping[str, str] = {}
    """Answers whose text the model saw under another name, which is the value. They share its result."""

    status: Status
    winner: str | None = None
    tied: tuple[str, ...] = ()
    """Answers that tied."""

    explanation: str = ""
    reason: Reason | None = None
    detail: str | None = None
    position_bias: bool | None = None
    """Whether the outcome changed with the order; None if that was not checked."""

    rulings: tuple[Ruling, ...] = ()
    """The model's rulings in this order and in the reverse order."""

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
    """The results of one answer. Without a decided contest it has no rate and no rank."""

    name: str
    contests: NonNegativeInt = 0
    """Number of decided contests with this answer."""

    won: NonNegativeInt = 0
    ties: NonNegativeInt = 0
    win_rate: Score | None = None
    """A tie divides one win among the tied answers, so that the rates of one contest sum to 1."""

    rank: PositiveInt | None = None
    explanations: tuple[str, ...] = ()


class PairwiseResult(_ContestValue):
    """The results of the answers of one instance; `detail` says which contests are missing."""

    judge: str
    id: str
    status: Status
    answers: tuple[Standing, ...] = ()
    """In the order of the input."""

    contests: tuple[Contest, ...] = ()
    reason: Reason | None = None
    detail: str | None = None
    samples: Samples = Samples(requested=0)
    tokens: Tokens | None = None
    latency_ms: float = 0.0

    @property
    def best(self) -> tuple[str, ...]:
        """The answers of the first rank: several if they share it, none if no contest was decided."""
        return tuple(answer.name for answer in self.answers if answer.rank == 1)

    def __getitem__(self, name: str) -> Standing:
        return {answer.name: answer for answer in self.answers}[name]


def settle(names: tuple[str, ...], rulings: Sequence[Ruling | None], poll: Poll, on_bias: OnBias) -> Contest:
    """Decide a contest from one ruling, or from two in opposite orders."""
    valid_rulings = tuple(ruling for ruling in rulings if ruling is not None)
    contest = Contest(
        answers=names,
        status=Status.INSUFFICIENT,
        rulings=valid_rulings,
        samples=poll.samples(poll.asked),
        tokens=poll.tokens,
    )
    if not valid_rulings:
        reason, detail = poll.explain_failure(Reason.QUORUM)
        return contest.model_copy(update={"reason": reason, "detail": detail})
    decided = contest.model_copy(update={"status": Status.SCORED, **dict(valid_rulings[0])})
    if len(rulings) == 1:
        return decided
    if len(valid_rulings) == 1:
        # Whether the order matters is unknown: a check that failed to run has not passed.
        reason, why = poll.explain_failure(Reason.QUORUM)
        detail = f"the order of answers could not be checked: {why}"
        if on_bias == "abstain":
            return contest.model_copy(update={"reason": reason, "detail": detail})
        return decided.model_copy(update={"detail": detail})
    return _compare_orders(contest, decided, valid_rulings[0], valid_rulings[1], on_bias)


def tie_identical_answers(names: tuple[str, ...], *, ties: bool) -> Contest:
    """Return a contest between answers with the same text, which needs no call."""
    contest = Contest(
        answers=names,
        status=Status.SCORED,
        tied=names,
        detail="the answers are identical",
        samples=Samples(requested=0),
    )
    if ties:
        return contest
    missing = {"status": Status.INSUFFICIENT, "tied": (), "reason": Reason.NOTHING_TO_JUDGE}
    return contest.model_copy(update={**missing, "detail": "the answers are identical, and ties are not allowed"})


def add_twins(contest: Contest, twins: Mapping[str, str], *, ties: bool) -> Contest:
    """Add the answers that were not shown because their text already was: twins win or tie together."""
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
    return joined.model_copy(update={**missing, "detail": "the best answers are identical, and ties are not allowed"})


def _compare_orders(contest: Contest, decided: Contest, forward: Ruling, backward: Ruling, on_bias: OnBias) -> Contest:
    biased = forward.winner != backward.winner
    bias = {"position_bias": biased}
    if not biased or on_bias == "keep":
        return decided.model_copy(update=bias)
    if on_bias == "abstain":
        detail = f"{_winner_text(forward)} became {_winner_text(backward)} with the answers in reverse order"
        return contest.model_copy(update={**bias, "reason": Reason.POSITION_BIAS, "detail": detail})
    # Two winners share the contest; a third answer that neither order preferred gets nothing.
    winners = tuple(name for name in contest.answers if name in (forward.winner, backward.winner))
    tied = winners if len(winners) == 2 else contest.answers
    return decided.model_copy(update={**bias, "winner": None, "tied": tied})


def _winner_text(ruling: Ruling) -> str:
    return "a tie" if ruling.winner is None else repr(ruling.winner)


def conclude(judge: str, record: str, names: Sequence[str], contests: Sequence[Contest]) -> PairwiseResult:
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
    detail = f"{len(missing)} of {len(contests)} contests have no verdict; the first: {missing[0].detail}"
    if len(missing) < len(contests):
        return result.model_copy(update={"detail": detail})
    insufficient = {"status": Status.INSUFFICIENT, "reason": missing[0].reason, "detail": detail}
    return result.model_copy(update=insufficient)


def standings(names: Sequence[str], contests: Sequence[Contest]) -> tuple[Standing, ...]:
    """Return the results of each answer in the decided contests; equal rates share a rank."""
    unranked = [
        _standing(name, [contest for contest in contests if contest.decided and name in contest.answers])
        for name in names
    ]
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
        explanations=tuple(_explain(contest) for contest in contests if contest.explanation),
    )


def _explain(contest: Contest) -> str:
    """Return the explanation, preceded by the names that its letters stand for."""
    shown_names = [name for name in contest.answers if name not in contest.twins]
    same = {name: [name, *(twin for twin, owner in contest.twins.items() if owner == name)] for name in shown_names}
    legend = ", ".join(
        f"{letter}: {' = '.join(same[name])}"
        for letter, name in zip(letters(len(shown_names)), shown_names, strict=True)
    )
    return f"({legend}) {contest.explanation}"


def _rank(rate: float | None, rates: Sequence[float]) -> int | None:
    return None if rate is None else 1 + sum(other > rate for other in rates)


def unusable_result(
    judge: str, record: str, reason: Reason, detail: str, names: tuple[str, ...] = ()
) -> PairwiseResult:
    answers = standings(names, ())
    return PairwiseResult(
        judge=judge, id=record, status=Status.INSUFFICIENT, answers=answers, reason=reason, detail=detail
    )
