"""The cache of verdicts: a judge that was recently asked about the same texts is not asked again.

- `judge`: a judge that looks into a store before it asks
- `store`: the contract of a store: bytes by key, dropped when they are old or too many
- `memory`: a store in memory
- `disk`: a store in a file that several processes may share
"""

from judges.cache.disk import DiskStore
from judges.cache.judge import CachedJudge
from judges.cache.memory import MemoryStore
from judges.cache.store import VerdictStore

__all__ = ["CachedJudge", "DiskStore", "MemoryStore", "VerdictStore"]
