"""Makes labelled records from plain passages: answers whose sentences are rewritten (supported) or changed (not).

- `documents`: the passages, with their siblings of the same topic
- `rewrites`: rewrites a sentence and keeps its meaning
- `changes`: changes a sentence so that its passage no longer supports it
- `phrases`: the word lists and templates of both, from `phrases.yaml`
- `records`: puts passages, question and answer sentences together
"""
