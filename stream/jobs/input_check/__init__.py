"""The input check: shows for sample records which value is read into which field, and which fields are missing.

- `check`: reads the records, and counts fields and problems
- `hints`: finds values in records that look like a missing field
- `samples`: reads sample records from a file or from the end of the input topic
"""
