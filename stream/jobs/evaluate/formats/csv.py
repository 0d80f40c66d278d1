"""Tables as CSV: separated by commas, semicolons, tabs or bars, in UTF-8 or, with a byte order mark, UTF-16."""

import codecs
import csv
import io
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.jobs.evaluate.rows import Fault, FileError, FileRow, Opening
from stream.records.adapters import make_adapter
from stream.records.adapters.csv import COLUMNS, REQUIRED, fields_of

_DELIMITERS = ",;\t|"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# Longer than any judged text. A longer one is an unclosed quote, which would be read to the end of the file.
_MOST_CHARS = 32 * 1024 * 1024


class CsvRows:
    """The rows below the header. A row that does not fit the header is a fault, and reading goes on after it."""

    def __init__(self, opening: Opening) -> None:
        self._name, self._file = opening.name, opening.file
        self.total: float | None = opening.size
        # The csv module has one limit for all its readers, and its default is too low.
        csv.field_size_limit(max(_MOST_CHARS, csv.field_size_limit()))
        self._lines = _Lines(opening)
        first = next((line for line in self._lines if line.strip()), None)
        if first is None:
            raise FileError(f"{self._name} is empty")
        self._reader = csv.reader(chain([first], self._lines), delimiter=_delimiter(first))
        self.columns = self._header()
        self._lines.forget()
        self.input = self._choose_input(opening.input, opening.mapped)
        self._names_rows = make_adapter(self.input).reads_id_key
        self._id_at = self.columns.index(self._fields["id"]) if "id" in self._fields else None

    @property
    def position(self) -> float:
        return float(self._file.tell()) if self.total is not None else 0.0

    def __iter__(self) -> Iterator[FileRow]:
        number = 0
        while True:
            begins = self._reader.line_num + 1
            cells = self._next()
            if cells is None:
                return
            if not cells:  # a blank line
                continue
            number += 1
            yield self._row(number, begins, cells)

    def _next(self) -> Sequence[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            message = f"{self._name}, line {self._reader.line_num}: {error}"
            raise FileError(f"{message}; is there an unclosed quotation mark before it?") from None

    def _row(self, number: int, line: int, cells: Sequence[str]) -> FileRow:
        fault = None
        if self._lines.ended:
            fault = Fault("bad_csv", f"line {line}: the file ends before a quotation mark is closed")
        elif len(cells) != len(self.columns):
            counts = f"{len(cells)} cells, but the header has {len(self.columns)}"
            fault = Fault("bad_csv", f"line {line}: {counts}")
        row = dict(zip(self.columns, cells, strict=False))
        try:
            value = msgspec.json.encode(row)
        except UnicodeEncodeError:
            fault = fault or Fault("bad_encoding", f"line {line}: not UTF-8")
            value = msgspec.json.encode({name: _replace_invalid(cell) for name, cell in row.items()})
        return FileRow(number, value, nameless=self._is_nameless(cells), fault=fault)

    def _is_nameless(self, cells: Sequence[str]) -> bool:
        """Return whether a row has no id; with a mapping, which names the id, a missing one is an error instead."""
        if not self._names_rows:
            return False
        return self._id_at is None or not any(cells[self._id_at : self._id_at + 1])

    def _header(self) -> tuple[str, ...]:
        cells = self._next() or ()
        self._lines.refuse_other_encodings()
        names = tuple(cell if cell.strip() else f"column {number}" for number, cell in enumerate(cells, start=1))
        repeated = next((name for index, name in enumerate(names) if name in names[:index]), None)
        if repeated is not None:
            raise FileError(f"{self._name}: the header has two columns named {repeated!r}")
        return names

    def _choose_input(self, config: InputConfig, mapped: frozenset[str]) -> InputConfig:
        """Read rows by the usual columns if the file has them; else by the configured mapping."""
        try:
            self._fields = fields_of(self.columns)
        except RecordError as error:
            raise FileError(f"{self._name}: {error}") from None
        missing = [field for field in REQUIRED if field not in self._fields and field not in mapped]
        if not missing:
            return InputConfig(adapter="csv", limits=config.limits)
        if config.mapping:
            self._fields = {}
            return config
        needed = " and ".join(f"{COLUMNS[field]!r} (or {field!r})" for field in missing)
        existing = ", ".join(map(repr, self.columns[:20])) or "none"
        advice = f"name others with --map, such as --map {missing[0]}=COLUMN"
        raise FileError(f"{self._name} has no column {needed}; it has {existing}; {advice}")


class _Lines:
    """The lines of a file with their line ends; keeps the first ones until `forget`."""

    def __init__(self, opening: Opening) -> None:
        utf16 = opening.file.peek(2)[:2] in _UTF16_MARKS
        encoding, errors = ("utf-16", "replace") if utf16 else ("utf-8-sig", "surrogateescape")
        self._name = opening.name
        self._first: list[str] | None = []
        self._mark_bytes = len(codecs.BOM_UTF8) if opening.file.peek(3).startswith(codecs.BOM_UTF8) else 0
        self._text = io.TextIOWrapper(opening.file, encoding=encoding, errors=errors, newline="")
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(_MOST_CHARS)
        if not line:
            self.ended = True
            raise StopIteration
        if len(line) == _MOST_CHARS:
            raise FileError(f"{self._name} has a line of more than {_MOST_CHARS:,} characters")
        if self._first is not None:
            self._first.append(line)
        return line

    def refuse_other_encodings(self) -> None:
        """Raise FileError if the lines read so far are not UTF-8."""
        before = self._mark_bytes
        for number, line in enumerate(self._first or (), start=1):
            content = line.encode("utf-8", "surrogateescape")
            try:
                content.decode()
            except UnicodeDecodeError as error:
                raise FileError(self._not_utf8(number, before + error.start + 1, content[error.start])) from None
            before += len(content)

    def _not_utf8(self, line: int, place: int, byte: int) -> str:
        file = "" if self._name == "standard input" else f" {shlex.quote(self._name)} > utf8.csv"
        return (
            f"{self._name}, line {line}: the header is not UTF-8 (byte {place} of the file is 0x{byte:02x}); save the "
            f"table as UTF-8 or convert it, for example from Latin-1: iconv -f LATIN1 -t UTF-8{file}"
        )

    def forget(self) -> None:
        self._first = None


def _delimiter(header: str) -> str:
    """Return the delimiter that splits the header into the most known columns, then the most columns."""

    def worth(delimiter: str) -> tuple[int, int]:
        cells = next(csv.reader([header], delimiter=delimiter), [])
        return len(_known_fields(cells)), len(cells)

    return max(_DELIMITERS, key=worth)


def _known_fields(columns: Iterable[str]) -> Sequence[str]:
    try:
        return list(fields_of(columns))
    except RecordError:  # two columns for one field: reported once the delimiter is certain
        return REQUIRED


def _replace_invalid(text: str) -> str:
    """Replace invalid characters."""
    return text.encode("utf-8", "replace").decode()
