"""Values that pass between judges and their callers.

- `interaction`: a logged interaction, and the case that a judge sees
- `evaluation`: verdicts, dimensions and the finished evaluation
- `spans`: sentences of an answer with their verdicts
- `label`: the verdict of a person
- `cyrillic`: distinguishes Russian from other languages in the same letters
- `combine`: combines several scores or votes into one
- `model_family`: the vendor family of a model name
"""
