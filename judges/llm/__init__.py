"""Judges that ask a language model.

- `model_judge`: the base of these judges: samples, repairs, the vote, and the check of the order of options
- `methods`: ways to ask for a verdict, one module each
- `together`: asks about several criteria in one call
- `pairwise`: compares answers with each other
- `prompts`: builds the prompts
- `redacted_case`: redacts the fields of a case before its prompts are written
- `completion`: reads a completion as a verdict, or says why it is not one
- `injection_probe`: detects completions that repeat a verdict or instructions from the judged text
- `vote`: combines several samples, and stops when more cannot change the result
- `persona`: the role a judge takes, described by the model itself
"""
