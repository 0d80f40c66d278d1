"""Statistics shared by metrics, reports and comparisons.

- `estimates`: means of weighted samples, with intervals
- `difference`: the mean difference of paired scores, with its interval
- `kappa`: agreement beyond chance
- `accumulators`: figures collected one by one in constant memory
"""
