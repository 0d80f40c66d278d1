"""Setup: from the configuration file to a checked configuration and its evaluator.

- `config_file`: finds, reads and writes the file; lists every problem at once, by path
- `draft`: the file's data while it is checked, with the problems so far
- `references`: `${VARIABLES}`, and paths relative to the configuration file
- `overrides`: environment variables that override the file
- `validation`: the model's errors as problems at their paths
- `checks`: checks that read the files a configuration names
- `certificates`: looks for the certificates that a configuration names
- `criteria_files`: the user's own criteria
- `evaluator`: makes the evaluator that a configuration describes
- `judge_reference`: the judge that a command names as provider/model
- `narrowing`: the part of a configuration that one command uses
- `problems`: the error that lists the problems
"""
