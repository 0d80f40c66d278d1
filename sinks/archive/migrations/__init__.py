"""Versions of the tables, applied in order and automatically by `sinks/archive/database.py`.

- `versions`: one module for each version
"""
