"""The local judge's assessors, one per dimension.

- `relevance`: whether the answer addresses the question
- `clarity`: whether the answer is easy to read
- `completeness`: whether every part of the question has an answer
- `conciseness`: how much of the answer could be left out
- `groundedness`: whether every claim of the answer is in the contexts
- `harm`: whether the answer helps, encourages or threatens harm
"""
