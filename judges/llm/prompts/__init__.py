"""What a model is asked: one builder and one template file per judge and language.

The texts of a case are untrusted. Each stands under a line that carries a code which occurs in none of them, so no text
can end its field and speak as the task. A criterion is shown its own fields only. What the criteria of one case share
comes first and is the same to the byte, so that an endpoint that caches prefixes reads it once.
"""
