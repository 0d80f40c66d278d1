"""Stored states: of all that was stored of a partition, the newest state of each key, and what cannot be one."""

from collections import OrderedDict
from typing import Annotated, NamedTuple

import msgspec

from stream.errors import RecordError
from stream.kafka.record import Record
from stream.kafka.topics import STATE_BYTES
from stream.monitor.alerts.watch.partition import MOST_APPS, is_key


class RefusedState(NamedTuple):
    """A record of the states' topic that cannot be used, and why."""

    record: Record
    error: RecordError


class _Included(msgspec.Struct):
    # One that claims more would be believed for ever.
    count: Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class _Counted(msgspec.Struct):
    included: _Included


# Skips the rest of a state, which is most of it.
_COUNTED = msgspec.json.Decoder(_Counted)


class StoredStates:
    """Takes the records of a partition in their order; of more keys than apps are watched, those written last stay."""

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
            _bound(self._refused)
            return
        # Who wrote the key since has replaced what could not be read.
        self._refused.pop(raw, None)
        if key not in self._newest or count >= self._newest[key][0]:
            # Who lost the partition may have written after who has it: what includes the most is believed.
            self._newest[key] = count, record
            self._newest.move_to_end(key)
            _bound(self._newest)

    def states(self) -> dict[str, bytes]:
        return {key: record.value or b"" for key, (_count, record) in self._newest.items()}

    def refuse(self, key: str, error: RecordError) -> None:
        """A state of `states()` turned out to be none."""
        _count, record = self._newest.pop(key)
        self._refused[key.encode()] = RefusedState(record, error)

    def refused(self) -> list[RefusedState]:
        """Records that cannot be read, and were not replaced since."""
        return list(self._refused.values())

    def replacement(self, raw: bytes) -> bytes | None:
        """The value to write under the key of a refused record: an older state that can be read, or nothing."""
        known = self._newest.get(_text(raw))
        return None if known is None else known[1].value


def _text(key: bytes) -> str:
    return key.decode("utf-8", "replace")


def _read(record: Record, value: bytes) -> tuple[str, int]:
    """The key, and how many evaluations the state includes."""
    if record.problem is not None:
        raise RecordError("bad_headers", record.problem)
    try:
        key = (record.key or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError("bad_key", "the key is not UTF-8") from None
    if not is_key(key):
        raise RecordError("bad_key", "the key names neither an app nor the canaries")
    if len(value) > STATE_BYTES:
        raise RecordError("too_large", f"{len(value)} bytes, the limit is {STATE_BYTES}")
    try:
        return key, _COUNTED.decode(value).included.count
    except RecursionError:
        raise RecordError("too_deep", "nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError("bad_state", f"not a state: {error}") from None


def _bound(kept: OrderedDict[str, tuple[int, Record]] | OrderedDict[bytes, RefusedState]) -> None:
    if len(kept) > MOST_APPS + 1:  # and the canaries
        kept.popitem(last=False)
