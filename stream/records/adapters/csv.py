r"""The adapter `csv`: rows of a table, by the names of their columns.

| field | columns, in any case |
| --- | --- |
| question | Current User Question, question |
| answer | Assistant Answer, answer |
| contexts | Fragment Texts, contexts |
| history | Conversation History, history |
| id, app, tenant, model, reference, traceparent | the same |
| tags | the same, where it holds an object; a text is not looked at |

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
"""By field of the interaction, the name of its column beside the field's own."""

REQUIRED = ("question", "answer")

_PLAIN = ("id", "app", "tenant", "model", "reference", "traceparent", "tags")
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
    """Reads each field in the column that is named for it, in whatever spelling."""

    reads_id_key = True

    def __init__(self) -> None:
        # A cell of a JSON row that is no text is shaped as a mapping would do it.
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
        """Kept for one row: the sampler looks for several fields of a record before it turns to the next."""
        last_row, columns = self._last
        if row is not last_row:
            columns = fields_of(row)
            self._last = row, columns
        return columns


def fields_of(columns: Iterable[str]) -> dict[str, str]:
    """By field, the column that it is read from; raises RecordError where two columns are for one field."""
    found: dict[str, str] = {}
    for column in columns:
        field = _FIELDS.get(column.strip().casefold())
        if field is None:
            continue
        if field in found:
            raise RecordError("invalid_record", f"{found[field]!r} and {column!r} are both columns for the {field}")
        found[field] = column
    return found


def read_row(row: Mapping[str, object]) -> dict[str, object]:
    """The fields of the interaction that a row describes; one without an id gets one that follows from its content."""
    columns = fields_of(row)
    for field in REQUIRED:
        if row.get(columns.get(field, "")) is None:
            raise RecordError("invalid_record", f"{field}: column {COLUMNS[field]!r} or {field!r} is missing or empty")
    cells = {field: _read_cell(field, row[column]) for field, column in columns.items()}
    filled = {field: value for field, value in cells.items() if value is not None}
    return filled if "id" in filled else {**filled, "id": f"row-{digest_of(row)}"}


def digest_of(row: Mapping[str, object]) -> str:
    """The same for the same content, wherever it is read."""
    canonical = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _read_cell(field: str, cell: object) -> object:
    """The field that a cell holds; None for an empty cell, unless an empty text or list says something."""
    if field == "contexts" and isinstance(cell, str):
        return [{"id": str(number), "text": text} for number, text in enumerate(split_fragments(cell), start=1)]
    if field == "history" and isinstance(cell, str):
        return [{"role": role, "text": text} for role, text in split_turns(cell)]
    if field == "tags":
        return cell if isinstance(cell, dict) else None
    return None if cell == "" and field not in REQUIRED else cell


def split_fragments(text: str) -> list[str]:
    """The fragments that one text holds.

    They are told apart by their numbers, 1., 2., 3., each at the beginning of a line (also [1] and 1)); else by blank
    lines; else every line is one. A number out of turn is part of its fragment.
    """
    lines = _lines(text)
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return []
    if _number(lines[first]) == 1:
        return _filled("\n".join(block) for block in _numbered(lines[first:]))
    if any(not line.strip() for line in lines[first:]) and len(blocks := _paragraphs(lines)) > 1:
        return blocks
    return _filled(lines)


def split_turns(text: str) -> list[tuple[str, str]]:
    """The turns that one text holds, as role and words: a line that begins with `User:` or `Assistant:` begins one.

    What has no such mark is one turn of the user; what stands before the first mark, too.
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


def _numbered(lines: Iterable[str]) -> Iterator[list[str]]:
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
    return _filled(re.split(r"\n[ \t]*\n\s*", "\n".join(lines)))


def _filled(texts: Iterable[str]) -> list[str]:
    return [stripped for text in texts if (stripped := text.strip())]
