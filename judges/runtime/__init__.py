"""How judges are run.

- `conditions`: what holds for the calls being made now: past the cache or not, and what to save on
- `gather`: runs coroutines together and waits for all of them
- `batch`: judges many cases with bounded concurrency
- `sync`: asynchronous judges from ordinary code
"""
