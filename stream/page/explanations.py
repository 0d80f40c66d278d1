"""Explains alerts in the background: reading the evaluations around an onset can take minutes."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneYet
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sinks.archive.database import ArchiveUnavailable, Database
from sinks.archive.reading.alerts import find_alert
from sinks.page.backend import AlertExplanation
from stream.config.model import Config
from stream.errors import StageError, StreamjuryError
from stream.jobs.alert_explanation import ExplainedAlert, explain_alert, read_alerts
from stream.kafka.embedded import is_embedded
from stream.monitor.alerts.alert import Alert
from stream.monitor.explain.alert_book import AlertBook
from stream.monitor.explain.text import is_open

log = logging.getLogger(__name__)

# A request waits this long for an explanation, which often suffices.
_WAIT_SECONDS = 2.0
# While an alert is open, new evaluations may change its explanation.
_OPEN_SECONDS = 300.0
_KEPT_SECONDS = 3600.0
_FAILED_SECONDS = 10.0
_MOST_KEPT = 100
_CALL_SECONDS = 10.0

_READING = "Reading the evaluations around the onset; this can take a few minutes."

Outcome = tuple[AlertExplanation | str, float]
"""The explanation, or the reason why there is none, and the number of seconds for which it is valid."""


@dataclass(slots=True)
class _Entry:
    future: "Future[Outcome]"
    before: AlertExplanation | str
    """Shown until the new explanation is ready."""
    done_at: float | None = None


class AlertExplanations:
    """Implements `sinks.page.backend.AlertExplainer`; explains one alert at a time."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config, self._database = config, database
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._pool = ThreadPoolExecutor(1, "page-explanations")

    def explain(self, alert_id: str) -> AlertExplanation | str:
        with self._lock:
            entry = self._entries.get(alert_id)
            if entry is None or _is_outdated(entry):
                entry = self._start(alert_id)
        try:
            explanation, _ = entry.future.result(_WAIT_SECONDS)
        except NotDoneYet:
            return entry.before
        return explanation

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown(cancel_futures=True)

    def _start(self, alert_id: str) -> _Entry:
        """Start an explanation; the caller holds the lock."""
        outdated = self._entries.pop(alert_id, None)
        before = _READING if outdated is None else outdated.future.result()[0]
        while len(self._entries) >= _MOST_KEPT:
            self._entries.pop(next(iter(self._entries)))
        entry = self._entries[alert_id] = _Entry(self._pool.submit(self._explain, alert_id), before)
        entry.future.add_done_callback(lambda _future: setattr(entry, "done_at", time.monotonic()))
        return entry

    def _explain(self, alert_id: str) -> Outcome:
        try:
            return self._read(alert_id)
        except (StreamjuryError, ArchiveUnavailable) as error:
            return f"The alert cannot be explained now: {error}.", _FAILED_SECONDS
        except Exception:
            log.exception("cannot explain alert %s", alert_id)
            return "The alert cannot be explained; see the log for the reason.", _FAILED_SECONDS

    def _read(self, alert_id: str) -> Outcome:
        topics, kafka = self._config.topics, self._config.kafka
        try:
            admin = AdminClient({**kafka.client_options(), "log_level": 3}, logger=log)
            metadata = admin.list_topics(timeout=_CALL_SECONDS)
        except KafkaException as error:
            raise StageError(f"no Kafka broker at {kafka.bootstrap} ({error.args[0].str()})") from error
        book = read_alerts(self._config) if topics.alerts in metadata.topics else AlertBook()
        alert = book.find(alert_id) or self._find_archived(alert_id)
        if alert is None:
            return "There is no alert with this id.", _FAILED_SECONDS
        explained = explain_alert(
            self._config,
            book,
            alert,
            embedded=is_embedded(metadata.cluster_id),
            has_evaluations=topics.evaluations in metadata.topics,
            progress=self._check_open,
        )
        seconds = _OPEN_SECONDS if is_open(alert) else _KEPT_SECONDS
        return AlertExplanation(sentences=[*_sentences(explained)], sheets=explained.sheets), seconds

    def _find_archived(self, alert_id: str) -> Alert | None:
        """Find an alert that is no longer on the topic, which keeps only the latest alert of every series."""
        with self._database.read() as connection:
            archived = find_alert(connection, alert_id)
        return None if archived is None else Alert.read(json.dumps(archived.record).encode())

    def _check_open(self, _done: int, _total: int) -> None:
        if self._closed.is_set():
            raise StageError("the page is closing")


def _is_outdated(entry: _Entry) -> bool:
    if entry.done_at is None:
        return False
    _, seconds = entry.future.result()
    return time.monotonic() - entry.done_at > seconds


def _sentences(explained: ExplainedAlert) -> Iterator[str]:
    """Yield the explanation in words, without examples: the page itself shows answers."""
    yield from explained.announcement
    yield from explained.findings
    yield from explained.next_steps
