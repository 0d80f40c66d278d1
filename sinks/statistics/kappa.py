"""Cohen's kappa: how far two judges agree beyond chance."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Said = TypeVar("Said", bound=Hashable)


def kappa(joint: Mapping[tuple[Said, Said], int], distance: Callable[[Said, Said], int] | None = None) -> float | None:
    """From how often two said what: 1 is full agreement, 0 what chance would give, below 0 less than that.

    1 − Σ distance·observed / Σ distance·expected, where chance pairs what they said as often as each said it; without a
    distance all that differs is equally far apart. None where both said one and the same of everything, or nothing.
    """
    apart = distance or _differs
    one: Counter[Said] = Counter()
    other: Counter[Said] = Counter()
    for (first, second), count in joint.items():
        one[first] += count
        other[second] += count
    # In whole numbers up to the division: what is 0 must come out as 0.
    expected = sum(n * m * apart(first, second) for first, n in one.items() for second, m in other.items())
    if not expected:
        return None
    observed = sum(joint.values()) * sum(count * apart(first, second) for (first, second), count in joint.items())
    return (expected - observed) / expected


def _differs(one: Hashable, other: Hashable) -> int:
    return int(one != other)
