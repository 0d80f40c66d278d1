"""Records that Streamjury writes to topics.

- `results`: evaluations, safety notices and labels as JSON records
- `dead_letters`: records that could not be processed, with their bytes and the reason
- `headers`: the names of all headers on these records
"""
