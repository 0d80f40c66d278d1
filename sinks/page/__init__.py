"""The page: live quality in a browser, from the archive and from the pipeline.

- `backend`: what the page needs from the pipeline, as protocols
"""
