"""The scale of adaptive rates: fixed steps, four of which halve a rate, the same in every process."""

import math

# Four steps halve a rate. As literals, not powers: the last bit of a power may depend on the machine.
_QUARTERS = (1.0, 0.8408964152537145, 0.7071067811865476, 0.5946035575013605)
STEPS_PER_HALF = len(_QUARTERS)

DEFAULT_MIN_RATE = 0.001
LOWEST_RATE = 1e-6

# Far below the lowest rate; beyond it a rate would underflow to 0.
LAST_STEP = 1000 * STEPS_PER_HALF


def rate_of(step: int) -> float:
    """Return the rate of a step: 1 at step 0, halved every four steps."""
    return math.ldexp(_QUARTERS[step % STEPS_PER_HALF], -(step // STEPS_PER_HALF))


def steps_within(min_rate: float, max_rate: float) -> range:
    """Return the steps whose rates are within bounds, highest rate first; none if the bounds are too close."""
    first = math.floor(-STEPS_PER_HALF * math.log2(max_rate))
    last = math.ceil(-STEPS_PER_HALF * math.log2(min_rate))
    steps = [step for step in range(max(first - 1, 0), last + 2) if min_rate <= rate_of(step) <= max_rate]
    return range(steps[0], steps[-1] + 1) if steps else range(0)
