"""Header names that are not UTF-8: aiokafka fails on such a record every time, so their bytes are escaped here."""

from collections.abc import Iterator
from typing import Any, SupportsIndex

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy


class _Bytes(bytearray):
    """Bytes whose parts decode to text whatever they contain."""

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        part = super().__getitem__(place)
        return _Bytes(part) if isinstance(part, bytearray) else part

    def decode(self, encoding: str = "utf-8", _errors: str = "strict") -> str:
        return super().decode(encoding, "backslashreplace")


class _PatientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    """aiokafka's batch in Python, for the rare one that its batch in C cannot read."""

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: bytearray = _Bytes(self._buffer)


class _Batch:
    """A batch of aiokafka, read again by the patient one from the first record that it cannot read."""

    def __init__(self, batch: Any, data: memoryview) -> None:
        self._batch = batch
        self._data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        read = 0
        try:
            for record in self._batch:
                read += 1
                yield record
        except UnicodeDecodeError:
            for number, record in enumerate(_PatientBatch(self._data)):
                if number >= read:
                    yield record


class _Fetched:
    """The batches of one fetch."""

    def __init__(self, data: bytes) -> None:
        self._batches = _MemoryRecordsPy(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def next_batch(self) -> Any:
        data = self._batches._next_slice
        batch = self._batches.next_batch()
        if batch is None or data is None or batch.is_control_batch:
            return batch
        return _Batch(batch, data)


def accept_any_header_name() -> None:
    """Let every consumer of aiokafka in this process read records whatever their headers are named."""
    fetcher.MemoryRecords = _Fetched
