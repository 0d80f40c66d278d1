"""Caches replies for a moment, so that many viewers of a screen cost as much as one."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from sinks.web.routes import Reply

# Less than half of the time between two polls of a viewer.
_FRESH_SECONDS = 2.0
_MOST_ENTRIES = 200
# Replies to rare requests may be large, and are not worth the memory.
_MOST_BYTES = 1_000_000


@dataclass(slots=True)
class _CachedReply:
    lock: threading.Lock = field(default_factory=threading.Lock)
    reply: Reply | None = None
    made_at: float = 0.0


class ReplyCache:
    """Computes the reply to a request once, even for many simultaneous requests. Thread-safe."""

    def __init__(self, fresh_seconds: float = _FRESH_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[object, _CachedReply] = OrderedDict()

    def get(self, key: object, compute: Callable[[], Reply]) -> Reply:
        """Return the cached reply if it is fresh; otherwise compute it. Errors are not cached."""
        with self._lock:
            entry = self._entries.setdefault(key, _CachedReply())
            self._entries.move_to_end(key)
            while len(self._entries) > _MOST_ENTRIES:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.reply is not None and self._clock() - entry.made_at < self._fresh_seconds:
                return entry.reply
            reply = compute()
            entry.reply = reply if len(reply.body) <= _MOST_BYTES else None
            entry.made_at = self._clock()
            return reply
