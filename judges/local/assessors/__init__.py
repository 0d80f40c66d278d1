"""The local judge's assessors, one per criterion or two.

- `relevance`: whether the answer addresses the question
- `clarity`: whether the answer is easy to read
- `completeness`: whether every part of the question has an answer
- `conciseness`: how much of the answer could be left out
- `groundedness`: whether every claim of the answer is in the contexts
- `contradiction`: whether the sentences nearest to a claim say something else
- `sufficiency`: whether the contexts contain what was asked for, and which of them help
- `recall`: whether the contexts contain what the reference says
- `refusal`: whether the answer declines or fails to answer
- `citations`: whether the citations point at contexts that support their sentences
- `language_match`: whether the answer is in the language of the question
- `harm`: whether the answer helps, encourages or threatens harm
"""
