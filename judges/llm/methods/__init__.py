"""Ways to ask a model for a verdict, one module each.

- `direct`: chooses an option of the scale
- `two_step`: assesses in free words first, then chooses an option
- `rubric`: grades from 1 to 5 by a written rubric
- `sentences`: checks the answer sentence by sentence against the contexts
- `aspect`: answers yes or no to one question, or gives a number for one quality
- `guardian`: asks a risk model for yes or no
"""
