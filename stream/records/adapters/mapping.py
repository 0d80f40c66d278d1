"""The adapter `mapping`: configured dotted paths lead to the fields in records of any shape."""

from collections.abc import Mapping

from stream.errors import RecordError
from stream.records.adapters.base import Adapter, BodyPath, Document, read_json

_REQUIRED = ("id", "question", "answer")


class MappingAdapter(Adapter):
    """Reads each field at its path."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._paths = {field: BodyPath.parse(dotted) for field, dotted in mapping.items()}

    def read(self, document: Document) -> Document:
        fields: Document = {}
        for field, path in self._paths.items():
            value = path.find(document)
            if value is not None:
                fields[field] = _shape(field, value)
            elif field in _REQUIRED:
                raise RecordError("invalid_record", f"{field}: nothing at {str(path)!r}")
        return fields

    def path(self, field: str) -> BodyPath | None:
        return self._paths.get(field)

    def explain_missing(self, field: str) -> str:
        return f"input.mapping does not map {field}"


def _shape(field: str, value: object) -> object:
    """Convert plain texts into our objects, and other systems' names into ours."""
    if field == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if field == "contexts":
        return [_with_text(item) for item in _as_list(value)]
    if field == "history":
        return [_with_text(item, role="user") for item in _as_list(value)]
    return value


def _as_list(value: object) -> list[object]:
    """Return a list as it is, or in a JSON text; any other value becomes the only item."""
    items = read_json(value) if isinstance(value, str) else value
    return items if isinstance(items, list) else [value]


def _with_text(item: object, **defaults: str) -> object:
    if isinstance(item, str):
        return {**defaults, "text": item}
    if not isinstance(item, dict):
        return item
    text = {"text": item["content"]} if "content" in item and "text" not in item else {}
    return {**defaults, **item, **text}
