"""Ways to ask a model for a verdict.

- `direct`: choose an option of the scale
- `rubric`: a score from 1 to 5 by a written rubric
- `aspect`: yes or no, with several votes
- `guardian`: a risk model's yes or no
"""
