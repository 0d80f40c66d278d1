"""The dashboards, one module each; each panel is one function.

- `quality`: how good the answers are, with what confidence, and where they are worst
- `objectives`: how fast the error budget of each app burns, and how much is left
- `safety`: unsafe and questionable answers, and the share that could not be checked
- `judges`: whether the judges answer and agree, and what they cost
- `pipeline`: the outcome of every record, the lag of each stage, and losses
"""
