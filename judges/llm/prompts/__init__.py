"""The prompts: one builder per kind of judge, and one template per kind and language in `texts/`.

- `layout`: lays out the fields of a case, each under a line with a code that no text contains
- `direct`: the prompt for one verdict on one field
- `together`: the prompt for the verdicts of several criteria
- `two_step`: the prompts for the choice that follows an assessment
- `sentences`: the prompt for a verdict on each sentence of an answer
- `rubric`: the prompts of the Prometheus family of models
- `guardian`: the prompt for one risk
- `pairwise`: the prompt that compares answers
- `reasons`: why an output was refused, in the language of the prompt
- `lookalikes`: reduces texts to what a reader sees, to find disguised fences

The texts of a case are untrusted. Each is below a line with a code that occurs in none of them, so no text can end
its field and speak as the task. A criterion is shown its own fields only. The part that the criteria of one case share
comes first and is identical to the byte, so that an endpoint that caches prefixes reads it once.
"""
