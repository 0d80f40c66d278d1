"""Values that pass between judges and everyone else.

- `interaction`: a logged interaction, and the case a judge sees
- `evaluation`: verdicts, dimensions and the finished evaluation
- `combine`: how several scores become one
- `model_family`: the vendor family of a model name
"""
