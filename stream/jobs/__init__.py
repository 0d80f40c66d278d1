"""Jobs: work that ends, unlike the stages.

- `evaluate`: judges the rows of a file
- `compare`: compares two judgements of the same rows, or judges with people
- `backfill`: judges logged history again
- `audit`: accounts for every interaction on the topics
- `alert_explanation`: explains an alert by the evaluations around its onset
- `replay`: moves dead letters back to their source topics
- `patient_evaluation`: evaluates with retries, for jobs without a deadline
"""
