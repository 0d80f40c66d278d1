"""One module for each version of the tables. A released version never changes; every change is a new module.

- `v0001_first_tables`: all tables of the first release
- `v0002_hours`: sums over hours, and indexes that contain all filter columns
- `v0003_traces`: an index of traces, to find the answers of labels by trace id
"""
