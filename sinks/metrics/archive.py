"""Metrics of the archive: new rows, failed transactions, and whether the database answers."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.metrics import names

_KINDS = ("evaluations", "texts", "alerts", "labels")


class ArchiveMetrics:
    """Created by an archivist: other processes have no such metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rows = Counter(
            names.ARCHIVE_ROWS,
            "New rows in the archive, by kind (evaluations, texts, alerts, labels).",
            ["kind"],
            registry=registry,
        )
        self._failures = Counter(
            names.ARCHIVE_FAILURES,
            "Transactions that the archive's database refused or did not finish; their records are written later.",
            registry=registry,
        )
        self._available = Gauge(
            names.ARCHIVE_AVAILABLE, "1 while the archive's database answers, 0 while it does not.", registry=registry
        )
        for kind in _KINDS:
            self._rows.labels(kind)

    def count(self, rows: Mapping[str, int]) -> None:
        """Count new rows by kind; other keys are ignored."""
        for kind in _KINDS:
            self._rows.labels(kind).inc(rows.get(kind, 0))

    def count_failure(self) -> None:
        self._failures.inc()

    def set_available(self, is_available: bool) -> None:
        self._available.set(is_available)
