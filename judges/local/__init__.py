"""The local judge, which uses rules instead of a model.

- `judge`: the judge itself: six dimensions and the contexts
- `assessors`: one assessor per dimension
- `case_reading`: one case, read once and shared by all assessors
- `finding`: the level that an assessor assigns, and its reason
- `lexicon`: the words that the judge knows, from `words.yaml` and `harm.yaml`
- `fitted`: the models of `fitted.yaml`, which cut the levels
- `language`: reads English and Russian text
"""

from judges.local.judge import LocalJudge

__all__ = ["LocalJudge"]
