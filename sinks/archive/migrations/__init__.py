"""Versions of the tables, applied in order by `sinks/archive/database.py`, without a command of their own.

- `versions`: one module for each version
"""
