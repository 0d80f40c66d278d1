"""Stored states of a partition: the newest state of each key, and records that cannot be states."""

from collections import OrderedDict
from typing import Annotated, NamedTuple

import msgspec

from stream.errors import RecordError
from stream.kafka.record import Record
from stream.kafka.topics import STATE_BYTES
from stream.monitor.alerts.labels.memory import MOST_CHUNKS
from stream.monitor.alerts.watch.partition import MOST_APPS, is_key


class RefusedState(NamedTuple):
    """A record of the states' topic that cannot be used, and why."""

    record: Record
    error: RecordError


class _Included(msgspec.Struct):
    # A state with a larger count would never be replaced.
    count: Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class _Counted(msgspec.Struct):
    included: _Included


# Skips the rest of a state, which is most of it.
_COUNTED = msgspec.json.Decoder(_Counted)


class StoredStates:
    """Takes the records of a partition in order; keeps the keys written last, at most as many as a partition writes."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, tuple[int, Record]] = OrderedDict()
        self._refused: OrderedDict[bytes, RefusedState] = OrderedDict()

    def add(self, record: Record) -> None:
        raw = record.key or b""
        if record.value is None:
            self._refused.pop(raw, None)
            self._newest.pop(_text(raw), None)
            return
        try:
            key, count = _read(record, record.value)
        except RecordError as error:
            self._refused[raw] = RefusedState(record, error)
            _drop_oldest(self._refused)
            return
        # A newer record of the key replaces an unreadable one.
        self._refused.pop(raw, None)
        if key not in self._newest or count >= self._newest[key][0]:
            # A previous owner may have written after the current one: the state that includes the most wins.
            self._newest[key] = count, record
            self._newest.move_to_end(key)
            _drop_oldest(self._newest)

    def states(self) -> dict[str, bytes]:
        return {key: record.value or b"" for key, (_count, record) in self._newest.items()}

    def refuse(self, key: str, error: RecordError) -> None:
        """Move a state of `states()` that turned out to be unreadable to the refused ones."""
        _count, record = self._newest.pop(key)
        self._refused[key.encode()] = RefusedState(record, error)

    def list_refused(self) -> list[RefusedState]:
        """Return the records that cannot be read and were not replaced since."""
        return list(self._refused.values())

    def replacement(self, raw: bytes) -> bytes | None:
        """Return the value to write under the key of a refused record: an older readable state, or None."""
        newest = self._newest.get(_text(raw))
        return None if newest is None else newest[1].value


def _text(key: bytes) -> str:
    return key.decode("utf-8", "replace")


def _read(record: Record, value: bytes) -> tuple[str, int]:
    """Return the key, and the number of evaluations that the state includes."""
    if record.problem is not None:
        raise RecordError("bad_headers", record.problem)
    try:
        key = (record.key or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError("bad_key", "the key is not UTF-8") from None
    if not is_key(key):
        raise RecordError("bad_key", "the key names neither an app nor the canaries nor labels")
    if len(value) > STATE_BYTES:
        raise RecordError("too_large", f"{len(value)} bytes, the limit is {STATE_BYTES}")
    try:
        return key, _COUNTED.decode(value).included.count
    except RecursionError:
        raise RecordError("too_deep", "nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError("bad_state", f"not a state: {error}") from None


def _drop_oldest(entries: OrderedDict[str, tuple[int, Record]] | OrderedDict[bytes, RefusedState]) -> None:
    """Remove the oldest entry if there are too many."""
    if len(entries) > MOST_APPS + 1 + MOST_CHUNKS:  # and the canaries
        entries.popitem(last=False)
