"""Statistics shared by metrics, reports and comparisons.

- `estimates`: means of weighted samples, with intervals
- `difference`: the difference of two means, with its interval
- `kappa`: agreement beyond chance
- `accumulators`: running figures of a stream of evaluations
"""
