"""Runs judges.

- `conditions`: the conditions of the current calls: whether to bypass the cache, and what to save on
- `sitting`: all criteria of one case, and the calls that some of them share
- `gather`: runs coroutines together and waits for all of them
- `batch`: judges many cases with bounded concurrency
- `stopwatch`: time that counts against a deadline, without that in our own queues
- `recent`: caches results for recent texts and criteria
- `sync`: runs asynchronous judges from synchronous code
"""
