"""The cache of verdicts: a judge that was asked the same about the same texts lately is not asked again."""

from judges.cache.disk import DiskStore
from judges.cache.judge import CachedJudge
from judges.cache.memory import MemoryStore
from judges.cache.store import VerdictStore

__all__ = ["CachedJudge", "DiskStore", "MemoryStore", "VerdictStore"]
