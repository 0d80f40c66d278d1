"""The archivist's stage: reads evaluations, texts, alerts and labels, and writes them to the archive.

A consumer group divides the partitions among archivists. The positions are stored in the database, in the same
transactions as the rows. Whenever they may differ from ours, the stage drops the records that it has read and resumes
from the positions in the database: at the start, after a rebalance, after a failed transaction, and when another
archivist has written the same partition. No record is lost or counted twice: dropped records are read again from Kafka.
"""

import logging
import threading
import time

from confluent_kafka import KafkaException

from sinks.archive.database import ArchiveError, ArchiveRefused, ArchiveUnavailable, Database
from sinks.archive.retention import Retention
from sinks.archive.writing import Advance, ArchiveBatch, ArchiveWriter, PositionMoved, SourcePartition, WrittenRows
from sinks.metrics import ArchiveMetrics, Outcome, PipelineMetrics, Stage
from stream.archivist.consumer import CollectedRecords, PositionedConsumer
from stream.archivist.rows import RowReader
from stream.config.model import Config
from stream.errors import RecordError, StageError
from stream.kafka.offsets import Partition
from stream.kafka.record import Record

log = logging.getLogger(__name__)

_BATCH_RECORDS = 2_000
# Texts may be large: a batch ends at this size, regardless of the number of records.
_BATCH_BYTES = 16 * 1024 * 1024
# A batch is collected for at most this long.
_COLLECT_SECONDS = 0.5
_RETRY_SECONDS = 1.0
# An unavailable database is logged immediately, and then at this interval.
_REMIND_SECONDS = 30.0
_TIDY_SECONDS = 60.0
# Reason of records that the database refuses.
_DATABASE = "database"


class Archivist:
    """Writes each batch in one transaction with the positions after it."""

    stage = Stage.ARCHIVIST

    def __init__(self, config: Config, metrics: PipelineMetrics, archive: ArchiveMetrics) -> None:
        self._metrics = metrics
        self._archive = archive
        self._reader = RowReader(config)
        self._sampled = config.topics.sampled
        self._database = open_archive(config)
        self._retention = Retention(config.archive.keep_days)
        self._writer = ArchiveWriter(self._database, self._retention)
        self._consumer = PositionedConsumer(
            config.kafka,
            topics=self._reader.topics,
            group=config.archive.group,
            instance=config.archive.instance,
        )
        self._positions: dict[SourcePartition, int] = {}
        self._single = 0
        self._retry_at = self._tidy_at = 0.0
        self._logged_at = -_REMIND_SECONDS
        self.moved_at = time.monotonic()
        self.problem: str | None = None
        self.backlog = 0
        self.done = 0

    @property
    def pulse(self) -> "Archivist":
        return self

    @property
    def assigned(self) -> bool:
        return bool(self._consumer.owned)

    def run(self, stop: threading.Event) -> None:
        """Archive until `stop` is set; records that are not written by then are read again at the next start."""
        try:
            self._consumer.start()
            log.info("archive: %s", self._database.name)
            while not stop.is_set():
                self.step()
        except ArchiveError as error:
            raise StageError(f"{error}; set archive.url, or archive.enabled: false") from error
        finally:
            self._consumer.close()
            self._database.engine.dispose()

    def step(self) -> None:
        """Write one batch; without new records, delete expired rows."""
        if self._consumer.owned and not self._consumer.is_placed and time.monotonic() >= self._retry_at:
            self._resume()
        limit = 1 if self._single else _BATCH_RECORDS
        collected = self._consumer.collect(records=limit, size=_BATCH_BYTES, seconds=_COLLECT_SECONDS)
        if collected.positions:
            self._write(collected)
        elif self._consumer.is_placed and time.monotonic() >= self._tidy_at:
            self._tidy()
        self.moved_at = time.monotonic()
        self.backlog = self._consumer.lag()
        self._metrics.lag(self.stage, self.backlog)

    def _resume(self) -> None:
        """Resume from the positions in the database."""
        try:
            self._positions = self._writer.read_positions()
            self._consumer.place({Partition(*place): offset for place, offset in self._positions.items()})
        except ArchiveUnavailable as error:
            self._wait(str(error))
        except KafkaException as error:
            self._wait(f"cannot read partition offsets: {error.args[0].str()}")
        else:
            self._recover()

    def _write(self, collected: CollectedRecords) -> None:
        batch, refused = self._read(collected)
        try:
            written = self._writer.write(batch)
        except PositionMoved as moved:
            log.info("%s; reading the positions again", moved)
            self._consumer.displace()
        except ArchiveUnavailable as error:
            self._archive.count_failure()
            self._wait(str(error))
        except ArchiveRefused as error:
            self._archive.count_failure()
            self._single_out(collected, str(error))
        else:
            self._recover()
            self._positions |= {place: advance.until for place, advance in batch.positions.items()}
            self._count(len(collected.records), refused, written)
            self._single = max(0, self._single - len(collected.records))

    def _read(self, collected: CollectedRecords) -> tuple[ArchiveBatch, list[RecordError]]:
        batch, refused = ArchiveBatch(), []
        for record in collected.records:
            try:
                self._reader.add(record, batch)
            except RecordError as error:
                # Interactions that cannot be read are expected: the worker dead-letters them with the same reason.
                level = logging.DEBUG if record.partition.topic == self._sampled else logging.WARNING
                log.log(level, "cannot archive %s: %s", _place_of(record), error)
                refused.append(error)
        for partition, until in collected.positions.items():
            place = SourcePartition(*partition)
            batch.positions[place] = Advance(self._positions.get(place), until)
        return batch, refused

    def _single_out(self, collected: CollectedRecords, reason: str) -> None:
        """Write the records of a refused batch one by one, and skip the one that is refused on its own."""
        if len(collected.records) != 1:
            self._single = len(collected.records)
            self._consumer.displace()
            return
        (record,) = collected.records
        log.warning("cannot archive %s: %s", _place_of(record), reason)
        place = SourcePartition(*record.partition)
        only_position = ArchiveBatch(positions={place: Advance(self._positions.get(place), record.offset + 1)})
        try:
            self._writer.write(only_position)
        except (PositionMoved, ArchiveUnavailable) as error:
            self._wait(str(error))
            return
        self._positions[place] = record.offset + 1
        self._count(1, [RecordError(_DATABASE, reason)], WrittenRows())
        self._single = max(0, self._single - 1)

    def _tidy(self) -> None:
        """Delete a few expired rows; if there were any, the next step continues."""
        try:
            deleted = self._retention.delete_expired(self._database)
        except (ArchiveUnavailable, ArchiveRefused) as error:
            log.warning("cannot delete expired rows yet: %s", error)
            deleted = 0
        if not deleted:
            self._tidy_at = time.monotonic() + _TIDY_SECONDS

    def _wait(self, problem: str) -> None:
        """Stop reading until the database answers again; the records stay in Kafka."""
        self.problem = problem
        self._archive.set_available(False)
        self._retry_at = time.monotonic() + _RETRY_SECONDS
        if self._consumer.is_placed:
            self._consumer.displace()
        if time.monotonic() - self._logged_at >= _REMIND_SECONDS:
            self._logged_at = time.monotonic()
            log.warning("archive unavailable, retrying every %.0f s: %s", _RETRY_SECONDS, problem)

    def _recover(self) -> None:
        if self.problem is not None:
            log.info("archive available again")
            self.problem, self._logged_at = None, -_REMIND_SECONDS
        self._archive.set_available(True)

    def _count(self, read: int, refused: list[RecordError], written: WrittenRows) -> None:
        self.done += read
        self._archive.count(written._asdict())
        for error in refused:
            self._metrics.count(self.stage, Outcome.REFUSED, reason=error.kind)
        self._metrics.count(self.stage, Outcome.REPEATED, written.repeated)
        self._metrics.count(self.stage, Outcome.FILTERED, written.left_out)
        self._metrics.count(self.stage, Outcome.SEEN, read - len(refused) - written.repeated - written.left_out)
        self._metrics.count(self.stage, Outcome.CONSUMED, read)


def open_archive(config: Config, *, read_only: bool = False) -> Database:
    """Return the configured archive; the first transaction opens it."""
    password = config.archive.password
    try:
        return Database(
            config.archive.url,
            password=None if password is None else password.get_secret_value(),
            read_only=read_only,
        )
    except ArchiveError as error:
        raise StageError(str(error)) from error


def _place_of(record: Record) -> str:
    return f"{record.partition.topic}/{record.partition.number}/{record.offset}"
