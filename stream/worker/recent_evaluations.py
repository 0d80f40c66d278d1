"""Recent evaluations, published by this worker and all others, so that none is made twice."""

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
# As many as are published in an hour at seventy a second; some 300 bytes each.
_MOST = 250_000


class _RecentContent(NamedTuple):
    at: float
    content: str


class RecentEvaluations:
    """Reads the keys and headers of the evaluations topic, from `seconds` ago on, in a thread of its own."""

    def __init__(self, kafka: KafkaConfig, topic: str, seconds: float) -> None:
        self._kafka, self._topic, self._seconds = kafka, topic, seconds
        self._names: OrderedDict[bytes, _RecentContent] = OrderedDict()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._look = threading.Event()
        self.known_at = -math.inf if seconds else math.inf
        """All that was published before this moment of the monotonic clock is known."""
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
        """Looks again at once: partitions came from a worker that may just have published something."""
        self._look.set()

    def add(self, evaluation_id: str, content: str) -> None:
        """An evaluation of this content was published."""
        if self._seconds:
            self._add(UUID(evaluation_id).bytes, _RecentContent(time.time(), content))

    def content_of(self, evaluation_id: str) -> str | None:
        """The digest of the content that was judged under this id recently; None if there was none."""
        with self._lock:
            published = self._names.get(UUID(evaluation_id).bytes)
        return None if published is None or published.at <= time.time() - self._seconds else published.content

    def _add(self, name: bytes, published: _RecentContent) -> None:
        with self._lock:
            self._names[name] = max(published, self._names.get(name, published))
            self._names.move_to_end(name)
            oldest = time.time() - self._seconds
            while self._names and (len(self._names) > _MOST or next(iter(self._names.values())).at < oldest):
                self._names.popitem(last=False)

    def _follow(self) -> None:
        told = ""
        with TopicScan(self._kafka, self._topic, whole=True) as scan:
            while not self._stop.is_set():
                self._look.clear()
                began = time.monotonic()
                try:
                    self._read(scan)
                    told = ""
                except Exception as error:
                    # The topic may not be there yet, or the broker away. To wait for it would hold up the judging.
                    if str(error) != told:
                        log.warning("cannot read recent evaluations, duplicates may be judged again: %s", error)
                    told = str(error)
                self.known_at = began
                self._look.wait(_LOOK_SECONDS)

    def _read(self, scan: TopicScan) -> None:
        for message in scan.read(since_ms=int((time.time() - self._seconds) * 1000)):
            headers = read_record(message).headers
            if is_backfilled(headers):
                continue  # history that was judged after the fact stands in for nothing that is judged live
            try:
                name = UUID((message.key() or b"").decode("ascii")).bytes
            except ValueError:
                continue  # somebody else's record
            self._add(name, _RecentContent(message.timestamp()[1] / 1000, content_in(headers)))
            if self._stop.is_set():
                return
