"""Topic sinks.

- `results`: evaluations and safety notices as JSON records
- `headers`: every header that Streamjury writes on a record
- `dead_letters`: records that could not be processed, with their bytes and the reason
"""
