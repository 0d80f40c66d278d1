"""Values that pass between judges and their callers.

- `interaction`: a logged interaction, and the case that a judge sees
- `evaluation`: verdicts, dimensions and the finished evaluation
- `spans`: sentences of an answer with their verdicts
- `context_verdicts`: whether each context is useful, and the score of their order
- `diagnosis`: whether retrieval or generation is to blame for an answer
- `label`: the verdict of a person
- `valid_labels`: the labels that count, without retracted and replaced ones
- `cyrillic`: distinguishes Russian from other languages in the same letters
- `combine`: combines several scores or votes into one
- `model_family`: the vendor family of a model name
"""
