"""Jobs: work that ends, unlike the stages.

- `evaluate`: judges the rows of a file
- `compare`: compares two judgements of the same rows, or judges with people
- `labels`: reads labels of people, and corrects the judges' means by them
- `label_file`: reads files of labels, and collects their problems
- `backfill`: judges logged history again
- `audit`: accounts for every interaction on the topics
- `input_check`: shows how sample records are read
- `alert_explanation`: explains an alert by the evaluations around its onset
- `diagnosis`: says whether retrieval or generation is to blame for bad answers
- `replay`: moves dead letters back to their source topics
- `patient_evaluation`: evaluates with retries, for jobs without a deadline
"""
