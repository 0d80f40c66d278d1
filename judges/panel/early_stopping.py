"""Early stopping: whether what is still open can change a panel's finding, and how many judges to ask next.

An open seat may yet bring any vote, an abstention or nothing. Every numeric rule of combination is monotone: all that
the open seats could do lies between all of them voting for the worst and all of them voting for the best, so that the
finding is settled when these two give the same. A majority is not monotone; it is settled when no other choice can get
as many votes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from judges.criteria.criterion import Criterion
from judges.panel.tally import Ballot, CombineRule, has_scores, most_chosen, outcome_of, ranking


def wanted(criterion: Criterion, ballots: Sequence[Ballot], abstained: int, seats: int, rule: CombineRule) -> int:
    """How many of the open seats to ask next: none once the finding is settled, else as few as could settle it."""
    if settled(criterion, ballots, abstained, seats, rule):
        return 0
    if rule.combine in ("mean", "weighted"):
        return seats
    for count in range(max(1, rule.needed - len(ballots) - abstained), seats):
        for hope in _hopes(criterion, ballots):
            if settled(criterion, [*ballots, *[hope] * count], abstained, seats - count, rule):
                return count
    return seats


def settled(criterion: Criterion, ballots: Sequence[Ballot], abstained: int, seats: int, rule: CombineRule) -> bool:
    """Whether the finding is the same whatever the open seats bring."""
    spoken = len(ballots) + abstained
    if seats == 0 or spoken + seats < rule.needed:
        return True
    if spoken < rule.needed:
        return False
    if abstained + seats > len(ballots):  # the rest could be the most that say it does not apply
        return abstained > len(ballots) + seats
    if rule.combine in ("mean", "weighted"):
        return False
    if rule.combine == "majority":
        return _majority_settled(criterion, ballots, seats)
    worst, best = (outcome_of(criterion, [*ballots, *[end] * seats], abstained, rule) for end in _ends(criterion))
    return worst == best


def _majority_settled(criterion: Criterion, ballots: Sequence[Ballot], seats: int) -> bool:
    """Whether no other choice can take the lead, or share it with a better one, where ties go to the worse."""
    leader = most_chosen(ballots)[0]
    counts = Counter(ballot.rank for ballot in ballots)
    for rank in range(len(ranking(criterion))):
        lead = counts[leader] - counts[rank]
        wins_ties = has_scores(criterion) and leader < rank
        if rank != leader and (lead < seats or (lead == seats and not wins_ties)):
            return False
    return True


def _ends(criterion: Criterion) -> tuple[Ballot, Ballot]:
    """The worst and the best vote there can be."""
    if criterion.scale.choices:
        every = _votes(criterion)
        return every[0], every[-1]
    assert criterion.scale.bounds is not None
    low, high = criterion.scale.bounds
    least, most = (low, high) if criterion.higher_is == "better" else (high, low)
    return Ballot(rank=None, score=0.0, value=least), Ballot(rank=None, score=1.0, value=most)


def _hopes(criterion: Criterion, ballots: Sequence[Ballot]) -> Iterable[Ballot]:
    """Votes that would settle the matter soonest if all that are asked next agreed on one of them."""
    return _votes(criterion) if criterion.scale.choices else {*ballots, *_ends(criterion)}


def _votes(criterion: Criterion) -> list[Ballot]:
    return [
        Ballot(rank=rank, score=criterion.score(choice), value=choice.value)
        for rank, choice in enumerate(ranking(criterion))
    ]
