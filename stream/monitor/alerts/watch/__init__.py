"""The watched state, from the partition down to one series.

- `partition`: all apps of a partition, and their stored state
- `app`: the series of one app: a score record in, alerts out
- `series`: one series with its detector and its alert
- `versions`: two models that are compared on the same traffic
- `agreement`: how well each judge agrees with people
- `canaries`: the judges' verdicts on the canaries, to see whether the judges changed
- `inclusion`: which evaluations a state already contains
- `retirement`: which evaluators are still in use
- `stored`: the form in which all of it is stored, and read back
"""
