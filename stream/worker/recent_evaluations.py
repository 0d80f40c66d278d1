"""Recent evaluations, published by this worker and all others, so that no interaction is judged twice."""

import logging
import math
import threading
import time
from collections import OrderedDict
from typing import NamedTuple, Self
from uuid import UUID

from stream.config.sections.kafka import KafkaConfig
from stream.kafka.record import read_record
from stream.kafka.topic_scan import TopicScan
from stream.records.envelope import content_in, is_backfilled

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
# One hour of evaluations at seventy a second; about 300 bytes each.
_MOST = 250_000


class _RecentContent(NamedTuple):
    published_at: float
    content: str


class RecentEvaluations:
    """Reads the keys and headers of the evaluations topic, from `seconds` ago on, in its own thread."""

    def __init__(self, kafka: KafkaConfig, topic: str, seconds: float) -> None:
        self._kafka, self._topic, self._seconds = kafka, topic, seconds
        self._names: OrderedDict[bytes, _RecentContent] = OrderedDict()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._look = threading.Event()
        self.loaded_at = -math.inf if seconds else math.inf
        """Evaluations published before this time (monotonic clock) are loaded."""
        self._thread = threading.Thread(target=self._follow, name="finished", daemon=True)

    def __enter__(self) -> Self:
        if self._seconds:
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._look.set()
        if self._thread.is_alive():
            self._thread.join(4 * _LOOK_SECONDS)

    def look(self) -> None:
        """Read again at once: the last worker of an assigned partition may just have published something."""
        self._look.set()

    def add(self, evaluation_id: str, content: str) -> None:
        """Add a published evaluation of this content."""
        if self._seconds:
            self._add(UUID(evaluation_id).bytes, _RecentContent(time.time(), content))

    def content_of(self, evaluation_id: str) -> str | None:
        """Return the digest of the content recently judged under this id, or None."""
        with self._lock:
            recent = self._names.get(UUID(evaluation_id).bytes)
        return None if recent is None or recent.published_at <= time.time() - self._seconds else recent.content

    def _add(self, name: bytes, recent: _RecentContent) -> None:
        with self._lock:
            self._names[name] = max(recent, self._names.get(name, recent))
            self._names.move_to_end(name)
            oldest = time.time() - self._seconds
            while self._names and (len(self._names) > _MOST or next(iter(self._names.values())).published_at < oldest):
                self._names.popitem(last=False)

    def _follow(self) -> None:
        logged_error = ""
        with TopicScan(self._kafka, self._topic, whole=True) as scan:
            while not self._stop.is_set():
                self._look.clear()
                began = time.monotonic()
                try:
                    self._read(scan)
                    logged_error = ""
                except Exception as error:
                    # The topic may not exist yet, or the broker be down. Waiting for it would hold up judging.
                    if str(error) != logged_error:
                        log.warning("cannot read recent evaluations, duplicates may be judged again: %s", error)
                    logged_error = str(error)
                self.loaded_at = began
                self._look.wait(_LOOK_SECONDS)

    def _read(self, scan: TopicScan) -> None:
        for message in scan.read(since_ms=int((time.time() - self._seconds) * 1000)):
            headers = read_record(message).headers
            if is_backfilled(headers):
                continue  # a backfilled evaluation does not make a live record a repeat
            try:
                name = UUID((message.key() or b"").decode("ascii")).bytes
            except ValueError:
                continue  # somebody else's record
            self._add(name, _RecentContent(message.timestamp()[1] / 1000, content_in(headers)))
            if self._stop.is_set():
                return
