"""Jobs: work that ends, beside the stages.

- `evaluate`: judges the rows of a file
- `compare`: compares two judgements of the same rows, or judges with people
- `backfill`: judges logged history again
- `audit`: accounts for every interaction on the topics
- `replay`: moves dead letters back to where they came from
- `patient_evaluation`: evaluates with retries, for work that has the time
"""
