"""The scale of adaptive rates: fixed steps, four of which halve a rate, so that every process has the same ones."""

import math

# Four steps halve a rate. As literals, not powers: the last bit of a power may depend on the machine.
_QUARTERS = (1.0, 0.8408964152537145, 0.7071067811865476, 0.5946035575013605)
STEPS_PER_HALF = len(_QUARTERS)

DEFAULT_MIN_RATE = 0.001
LOWEST_RATE = 1e-6

# Far below the lowest rate; beyond it a rate would be no positive number any more.
LAST_STEP = 1000 * STEPS_PER_HALF


def rate_of(step: int) -> float:
    """The rate of a step: 1 at 0, half of it every four steps."""
    return math.ldexp(_QUARTERS[step % STEPS_PER_HALF], -(step // STEPS_PER_HALF))


def steps_within(min_rate: float, max_rate: float) -> range:
    """The steps whose rates lie within bounds, highest rate first; none when they are too close together."""
    first = math.floor(-STEPS_PER_HALF * math.log2(max_rate))
    last = math.ceil(-STEPS_PER_HALF * math.log2(min_rate))
    steps = [step for step in range(max(first - 1, 0), last + 2) if min_rate <= rate_of(step) <= max_rate]
    return range(steps[0], steps[-1] + 1) if steps else range(0)
