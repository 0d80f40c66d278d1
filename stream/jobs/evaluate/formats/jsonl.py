"""Files of one JSON object a line, read by the configured adapter."""

from collections.abc import Iterator

from stream.config.sections.input import InputConfig
from stream.jobs.evaluate.rows import SHOWN_CHARS, Fault, FileRow, Opening

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


class JsonRows:
    """Every line that is not blank is a row. A line that is too long is a fault, and is never held in memory."""

    columns: tuple[str, ...] = ()

    def __init__(self, opening: Opening) -> None:
        self._file = opening.file
        self._most = opening.input.limits.record_bytes
        self.input: InputConfig = opening.input
        self.total: float | None = opening.size
        self.position: float = 0.0

    def __iter__(self) -> Iterator[FileRow]:
        number = 0
        line_number = 0
        # One byte more than a record may have, and the line end of up to two bytes.
        while line := self._file.readline(self._most + 3):
            self.position += len(line)
            line_number += 1
            value = (line.removeprefix(_BOM) if line_number == 1 else line).strip(b" \t\r\n")
            whole = line.endswith(b"\n") or len(line) < self._most + 3
            if not whole:
                length = len(line) + self._skip_line()
            if value or not whole:
                number += 1
                yield (
                    FileRow(number, value, line=line_number)
                    if whole
                    else self._too_large(number, value, length, line_number)
                )

    def _skip_line(self) -> int:
        """Skip the rest of the line and return its length in bytes."""
        length = 0
        while part := self._file.readline(_CHUNK):
            length += len(part)
            self.position += len(part)
            if part.endswith(b"\n"):
                break
        return length

    def _too_large(self, number: int, value: bytes, length: int, line: int) -> FileRow:
        fault = Fault("too_large", f"{length} bytes, the limit is {self._most}")
        return FileRow(number, value[:SHOWN_CHARS], fault=fault, line=line)
