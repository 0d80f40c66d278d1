"""Slices of the traffic: scores by the values of an attribute, for any number of values."""

from stream.monitor.explain.sums import Pair, Period

OTHERS = "(others)"
"""The slice of values that are not shown separately."""
MOST_VALUES = 20
"""A tag with more values identifies records and not kinds of records; of other attributes the largest are shown."""

# Values that are followed until the largest are known.
_MOST_FOLLOWED = 1000
# With fewer scores a value is not shown separately.
_FEWEST = 10


class Slices:
    """The scores of one attribute."""

    def __init__(self, *, is_tag: bool, earlier: Pair | None = None) -> None:
        """`earlier`: scores from before the first record with a value."""
        self._limit = MOST_VALUES if is_tag else _MOST_FOLLOWED
        self._is_tag = is_tag
        self._pairs: dict[str | None, Pair] = {} if earlier is None or not earlier.count else {None: earlier.copy()}
        self.has_too_many = False

    def add(self, value: str | None, period: Period, score: float, weight: float) -> None:
        if self.has_too_many:
            return
        pair = self._pairs.get(value)
        if pair is None:
            if value is not None and sum(other is not None for other in self._pairs) >= self._limit:
                if self._is_tag:
                    self.has_too_many = True
                    self._pairs.clear()
                    return
                value = OTHERS
            pair = self._pairs.setdefault(value, Pair())
        pair.add(period, score, weight)

    def result(self) -> dict[str | None, Pair]:
        """Return the values that are shown separately, and the rest as one; together they have all scores."""
        ranked = sorted(self._pairs.items(), key=lambda item: -_size(item[1]))
        separate: dict[str | None, Pair] = {}
        rest = Pair()
        for value, pair in ranked:
            if value == OTHERS or pair.count < _FEWEST or len(separate) >= MOST_VALUES:
                rest.include(pair)
            else:
                separate[value] = pair
        return {**separate, OTHERS: rest} if rest.count else separate


def _size(pair: Pair) -> float:
    """Return the weight in both periods."""
    return pair.before.weight + pair.since.weight
