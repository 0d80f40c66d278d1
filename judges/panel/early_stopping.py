"""Early stopping: whether the open seats can still change a panel's finding, and how many judges to ask next.

An open seat may bring any vote, an abstention or a failure. Every numeric rule is monotone: each possible result lies
between those with all open seats voting for the worst and with all voting for the best, so the finding is settled when
these two are equal. A majority is not monotone; it is settled when no other choice can get as many votes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from judges.criteria.criterion import Criterion
from judges.panel.tally import Ballot, CombineRule, has_scores, most_chosen_ranks, outcome_of, ranking


def seats_to_ask(criterion: Criterion, ballots: Sequence[Ballot], abstained: int, seats: int, rule: CombineRule) -> int:
    """Return how many of the open seats to ask next: 0 if the finding is settled, else as few as may settle it."""
    if is_settled(criterion, ballots, abstained, seats, rule):
        return 0
    if rule.combine in ("mean", "weighted"):
        return seats
    for count in range(max(1, rule.needed - len(ballots) - abstained), seats):
        for vote in _decisive_votes(criterion, ballots):
            if is_settled(criterion, [*ballots, *[vote] * count], abstained, seats - count, rule):
                return count
    return seats


def is_settled(criterion: Criterion, ballots: Sequence[Ballot], abstained: int, seats: int, rule: CombineRule) -> bool:
    """Whether the finding is the same whatever the open seats vote."""
    spoken = len(ballots) + abstained
    if seats == 0 or spoken + seats < rule.needed:
        return True
    if spoken < rule.needed:
        return False
    if abstained + seats > len(ballots):  # those who say "not applicable" could still be the majority
        return abstained > len(ballots) + seats
    if rule.combine in ("mean", "weighted"):
        return False
    if rule.combine == "majority":
        return _is_majority_settled(criterion, ballots, seats)
    worst, best = (
        outcome_of(criterion, [*ballots, *[end] * seats], abstained, rule) for end in _extreme_votes(criterion)
    )
    return worst == best


def _is_majority_settled(criterion: Criterion, ballots: Sequence[Ballot], seats: int) -> bool:
    """Whether no other choice can overtake the leader, or tie with it and win the tie; ties go to the worse."""
    leader = most_chosen_ranks(ballots)[0]
    counts = Counter(ballot.rank for ballot in ballots)
    for rank in range(len(ranking(criterion))):
        lead = counts[leader] - counts[rank]
        wins_ties = has_scores(criterion) and leader < rank
        if rank != leader and (lead < seats or (lead == seats and not wins_ties)):
            return False
    return True


def _extreme_votes(criterion: Criterion) -> tuple[Ballot, Ballot]:
    """Return the worst and the best possible vote."""
    if criterion.scale.choices:
        votes = _votes(criterion)
        return votes[0], votes[-1]
    assert criterion.scale.bounds is not None
    low, high = criterion.scale.bounds
    worst, best = (low, high) if criterion.higher_is == "better" else (high, low)
    return Ballot(rank=None, score=0.0, value=worst), Ballot(rank=None, score=1.0, value=best)


def _decisive_votes(criterion: Criterion, ballots: Sequence[Ballot]) -> Iterable[Ballot]:
    """Return the votes that would settle the finding soonest if all judges that are asked next agreed on one."""
    return _votes(criterion) if criterion.scale.choices else {*ballots, *_extreme_votes(criterion)}


def _votes(criterion: Criterion) -> list[Ballot]:
    return [
        Ballot(rank=rank, score=criterion.score(choice), value=choice.value)
        for rank, choice in enumerate(ranking(criterion))
    ]
