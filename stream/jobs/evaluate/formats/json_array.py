"""Files of one JSON document: an array of objects, or an object with one such array in it."""

from collections.abc import Iterator

import msgspec

from stream.config.sections.input import InputConfig
from stream.jobs.evaluate.rows import SHOWN_CHARS, Fault, FileError, FileRow, Opening

_BOM = b"\xef\xbb\xbf"
# The whole document is held in memory; larger files should be JSONL.
_MOST_BYTES = 1 << 30
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


class JsonArrayRows:
    """Every item of the array is a row, read like the row of a table: an id is not required."""

    columns: tuple[str, ...] = ()

    def __init__(self, opening: Opening) -> None:
        content = opening.file.read(_MOST_BYTES + 1).removeprefix(_BOM)
        if len(content) > _MOST_BYTES:
            raise FileError(f"{opening.name} is larger than {_MOST_BYTES:,} bytes; convert it to JSONL")
        self._items = _items(opening.name, content)
        self._most = opening.input.limits.record_bytes
        is_mapped = opening.input.adapter == "mapping"
        self.input = opening.input if is_mapped else InputConfig(adapter="csv", limits=opening.input.limits)
        self._names_rows = not is_mapped
        self.total: float | None = len(self._items)
        self.position: float = 0.0

    def __iter__(self) -> Iterator[FileRow]:
        for number, item in enumerate(self._items, start=1):
            self.position = float(number)
            yield self._row(number, _on_one_line(bytes(item)))

    def _row(self, number: int, value: bytes) -> FileRow:
        if len(value) > self._most:
            fault = Fault("too_large", f"{len(value)} bytes, the limit is {self._most}")
            return FileRow(number, value[:SHOWN_CHARS], fault=fault)
        return FileRow(number, value, nameless=self._names_rows and _has_no_id(value))


def _items(name: str, content: bytes) -> list[msgspec.Raw]:
    try:
        if not content.lstrip().startswith(b"{"):
            return msgspec.json.decode(content, type=list[msgspec.Raw])
        parts = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        arrays = {key: part for key, part in parts.items() if bytes(part).lstrip().startswith(b"[")}
        if len(arrays) != 1:
            found = ", ".join(map(repr, arrays)) or "none"
            raise FileError(f"{name}: the object must have one array of rows; its arrays are: {found}")
        return msgspec.json.decode(next(iter(arrays.values())), type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise FileError(
            f"{name} is not a JSON array of objects ({error}); one object a line is --format jsonl"
        ) from None
    except RecursionError:
        raise FileError(f"{name} is nested too deeply") from None


def _on_one_line(value: bytes) -> bytes:
    """Join the lines of an indented object, because a line of the results holds a whole row.

    JSON has line ends between its parts only; those in a string are escaped.
    """
    return value.translate(_LINE_ENDS)


def _has_no_id(value: bytes) -> bool:
    try:
        record = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(record, dict) and record.get("id") in (None, "")
