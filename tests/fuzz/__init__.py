"""Fuzzing of everything that reads bytes from outside: no crash, no hang, and only documented errors.

A short form runs with the tests; the long one is `python -m tests.fuzz --inputs 1000000`.
"""
