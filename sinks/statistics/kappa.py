"""Cohen's kappa: the agreement of two judges beyond chance."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Choice = TypeVar("Choice", bound=Hashable)


def kappa(
    joint: Mapping[tuple[Choice, Choice], int], distance: Callable[[Choice, Choice], int] | None = None
) -> float | None:
    """Return kappa from the joint counts of two judges: 1 is full agreement, 0 that of chance, below 0 less.

    1 − Σ distance·observed / Σ distance·expected, where the expected counts pair the choices of both at random. Without
    a distance, all different choices are equally far apart. None if both always made the same choice, or made none.
    """
    distance_of = distance or _differs
    one: Counter[Choice] = Counter()
    other: Counter[Choice] = Counter()
    for (first, second), count in joint.items():
        one[first] += count
        other[second] += count
    # Integers up to the division, so that 0 is exactly 0.
    expected = sum(n * m * distance_of(first, second) for first, n in one.items() for second, m in other.items())
    if not expected:
        return None
    observed = sum(joint.values()) * sum(count * distance_of(first, second) for (first, second), count in joint.items())
    return (expected - observed) / expected


def _differs(one: Hashable, other: Hashable) -> int:
    return int(one != other)
