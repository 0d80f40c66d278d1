r"""The adapter `csv`: rows of a table, by the names of their columns.

| field | columns, in any case |
| --- | --- |
| question | Current User Question, question |
| answer | Assistant Answer, answer |
| contexts | Fragment Texts, contexts |
| history | Conversation History, history |
| id, app, tenant, model, reference, traceparent | the same |
| tags | the same, if it holds an object; a text is ignored |

A row of a file is all text; one on the stream is JSON and may hold more. In fragments and history a line break may be
written as the two characters `\n`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping

from stream.errors import RecordError
from stream.records.adapters.base import Adapter, Document, Lookup
from stream.records.adapters.mapping import MappingAdapter

COLUMNS: Mapping[str, str] = {
    "question": "Current User Question",
    "history": "Conversation History",
    "contexts": "Fragment Texts",
    "answer": "Assistant Answer",
}
"""A second column name for some fields of the interaction."""

REQUIRED = ("question", "answer")

_PLAIN = ("id", "app", "tenant", "model", "reference", "traceparent", "tags")
FIELDS = (*COLUMNS, *_PLAIN)
"""The fields of the interaction that a table can have."""

_FIELDS = {
    **{column.casefold(): field for field, column in COLUMNS.items()},
    **{name: name for name in (*COLUMNS, *_PLAIN)},
}

_BREAK = re.compile(r"\\r\\n|\\n|\r\n?")
_NUMBERED = re.compile(r"[ \t]*[(\[]?([0-9]{1,4})[.)\]:][ \t]+(?=\S)", re.ASCII)
_SPEAKER = re.compile(r"[ \t]*([A-Za-zА-Яа-яЁё]{2,20})[ \t]*:[ \t]*")
_ROLES = {
    **dict.fromkeys(("user", "human", "customer", "client", "пользователь", "клиент", "человек"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "agent", "ассистент", "помощник", "бот"), "assistant"),
    **dict.fromkeys(("system", "система"), "system"),
}


class CsvAdapter(Adapter):
    """Reads each field from its column, in any spelling."""

    reads_id_key = True

    def __init__(self) -> None:
        # A cell of a JSON row that is not text is converted as in the adapter `mapping`.
        self._shape = MappingAdapter({name: name for name in (*COLUMNS, *_PLAIN)})
        self._last: tuple[Mapping[str, object], dict[str, str]] = {}, {}

    def read(self, document: Document) -> Document:
        return self._shape.read(read_row(document))

    def path(self, field: str) -> Lookup | None:
        return Lookup(lambda row: self._find(row, field)) if field in _FIELDS.values() else None

    def _find(self, row: Mapping[str, object], field: str) -> object:
        column = self._columns_of(row).get(field)
        return None if column is None else _read_cell(field, row[column])

    def _columns_of(self, row: Mapping[str, object]) -> dict[str, str]:
        """Return the columns of a row, cached for one row: the sampler reads several fields of a record in turn."""
        last_row, columns = self._last
        if row is not last_row:
            columns = fields_of(row)
            self._last = row, columns
        return columns


def fields_of(columns: Iterable[str]) -> dict[str, str]:
    """Return the column of each field; raises RecordError if a field has two columns."""
    columns_by_field: dict[str, str] = {}
    for column in columns:
        field = _FIELDS.get(column.strip().casefold())
        if field is None:
            continue
        if field in columns_by_field:
            raise RecordError(
                "invalid_record", f"{columns_by_field[field]!r} and {column!r} are both columns for the {field}"
            )
        columns_by_field[field] = column
    return columns_by_field


def read_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of the interaction in a row; a row without an id gets one from a hash of its content."""
    columns = fields_of(row)
    for field in REQUIRED:
        if row.get(columns.get(field, "")) is None:
            raise RecordError("invalid_record", f"{field}: column {COLUMNS[field]!r} or {field!r} is missing or empty")
    cells = {field: _read_cell(field, row[column]) for field, column in columns.items()}
    filled = {field: value for field, value in cells.items() if value is not None}
    return filled if "id" in filled else {**filled, "id": f"row-{digest_of(row)}"}


def digest_of(row: Mapping[str, object]) -> str:
    """Hash the content, independently of where it is read."""
    canonical = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _read_cell(field: str, cell: object) -> object:
    """Return the field in a cell; None for an empty cell, unless an empty text or list has a meaning."""
    if field == "contexts" and isinstance(cell, str):
        return [{"id": str(number), "text": text} for number, text in enumerate(split_fragments(cell), start=1)]
    if field == "history" and isinstance(cell, str):
        return [{"role": role, "text": text} for role, text in split_turns(cell)]
    if field == "tags":
        return cell if isinstance(cell, dict) else None
    return None if cell == "" and field not in REQUIRED else cell


def split_fragments(text: str) -> list[str]:
    """Split a text into its fragments.

    Fragments start with their numbers, 1., 2., 3., each at the beginning of a line (also [1] and 1)); without numbers
    they are separated by blank lines; otherwise every line is one. A number out of order is part of its fragment.
    """
    lines = _lines(text)
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return []
    if _number(lines[first]) == 1:
        return _drop_empty("\n".join(block) for block in _split_numbered(lines[first:]))
    if any(not line.strip() for line in lines[first:]) and len(blocks := _paragraphs(lines)) > 1:
        return blocks
    return _drop_empty(lines)


def split_turns(text: str) -> list[tuple[str, str]]:
    """Split a text into turns of role and words: a line that begins with `User:` or `Assistant:` begins a turn.

    A text without such a line is one turn of the user, and so is the text before the first such line.
    """
    turns: list[tuple[str, list[str]]] = []
    for line in _lines(text):
        mark = _SPEAKER.match(line)
        role = _ROLES.get(mark[1].casefold()) if mark else None
        if mark is not None and role is not None:
            turns.append((role, [line[mark.end() :]]))
        elif turns:
            turns[-1][1].append(line)
        else:
            turns.append(("user", [line]))
    spoken = ((role, "\n".join(lines).strip()) for role, lines in turns)
    return [(role, words) for role, words in spoken if words]


def _lines(text: str) -> list[str]:
    return _BREAK.sub("\n", text).split("\n")


def _number(line: str) -> int | None:
    mark = _NUMBERED.match(line)
    return int(mark[1]) if mark else None


def _split_numbered(lines: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    expected = 1
    for line in lines:
        mark = _NUMBERED.match(line)
        if mark is not None and int(mark[1]) == expected:
            yield block
            block, expected = [line[mark.end() :]], expected + 1
        else:
            block.append(line)
    yield block


def _paragraphs(lines: Iterable[str]) -> list[str]:
    return _drop_empty(re.split(r"\n[ \t]*\n\s*", "\n".join(lines)))


def _drop_empty(texts: Iterable[str]) -> list[str]:
    return [stripped for text in texts if (stripped := text.strip())]
