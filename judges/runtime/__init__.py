"""Runs judges.

- `conditions`: the conditions of the current calls: whether to bypass the cache, and what to save on
- `gather`: runs coroutines together and waits for all of them
- `batch`: judges many cases with bounded concurrency
- `recent`: remembers what was made of recent texts and criteria
- `sync`: runs asynchronous judges from synchronous code
"""
