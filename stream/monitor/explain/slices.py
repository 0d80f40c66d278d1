"""Slices of the traffic: scores by the values of an attribute, for any number of values."""

from stream.monitor.explain.sums import Pair, Period

OTHERS = "(others)"
"""The slice of values that are not told apart."""
MOST_VALUES = 20
"""A tag with more names records rather than kinds of them; of other attributes the largest are told apart."""

# So many are followed until it is known which are the largest.
_MOST_FOLLOWED = 1000
# With fewer scores a value is not told apart.
_FEWEST = 10


class Slices:
    """The scores of one attribute."""

    def __init__(self, *, is_tag: bool, untold: Pair | None = None) -> None:
        """`untold` are scores that came before the first value did."""
        self._limit = MOST_VALUES if is_tag else _MOST_FOLLOWED
        self._is_tag = is_tag
        self._pairs: dict[str | None, Pair] = {} if untold is None or not untold.count else {None: untold.copied()}
        self.has_too_many = False

    def add(self, value: str | None, period: Period, score: float, weight: float) -> None:
        if self.has_too_many:
            return
        pair = self._pairs.get(value)
        if pair is None:
            if value is not None and sum(known is not None for known in self._pairs) >= self._limit:
                if self._is_tag:
                    self.has_too_many = True
                    self._pairs.clear()
                    return
                value = OTHERS
            pair = self._pairs.setdefault(value, Pair())
        pair.add(period, score, weight)

    def result(self) -> dict[str | None, Pair]:
        """The values that are told apart, and the rest as one; together they have all scores."""
        ranked = sorted(self._pairs.items(), key=lambda item: -_size(item[1]))
        told: dict[str | None, Pair] = {}
        rest = Pair()
        for value, pair in ranked:
            if value == OTHERS or pair.count < _FEWEST or len(told) >= MOST_VALUES:
                rest.include(pair)
            else:
                told[value] = pair
        return {**told, OTHERS: rest} if rest.count else told


def _size(pair: Pair) -> float:
    """What it stands for, in both periods."""
    return pair.before.weight + pair.since.weight
