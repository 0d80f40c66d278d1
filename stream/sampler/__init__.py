"""The sampler: decides which interactions are judged.

- `stage`: reads all interactions, decides each record and forwards the chosen ones unchanged
- `policy`: combines rules, safety triggers, adaptive rates and caps into one decision
- `rules`: finds the rule for a record, reading no more of it than the rules need
- `safety_triggers`: signs that a record should be judged for safety
- `adaptive`: rates that follow the traffic to meet a target per minute
- `step_log`: the file that records the steps of adaptive rates, and its replay
"""
