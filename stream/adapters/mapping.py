"""The adapter `mapping`: dotted paths say which value of a foreign record is which field of ours."""

from collections.abc import Callable, Mapping

from stream.config import InputConfig
from stream.errors import RecordError

_REQUIRED = ("id", "question", "answer")


def adapter(config: InputConfig) -> Callable[[dict[str, object]], dict[str, object]]:
    paths = {field: tuple(path.split(".")) for field, path in config.mapping.items()}
    return lambda document: _read(document, paths)


def _read(document: dict[str, object], paths: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for field, steps in paths.items():
        value = follow(document, steps)
        if value is not None:
            fields[field] = _shaped(field, value)
        elif field in _REQUIRED:
            raise RecordError("invalid_record", f"{field}: nothing at {'.'.join(steps)!r}")
    return fields


def follow(value: object, steps: tuple[str, ...]) -> object:
    """The value at the end of a path, numbers being positions in lists; None when there is nothing, or a null."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _shaped(field: str, value: object) -> object:
    """Plain texts where we keep objects, and the names other systems use for the same thing."""
    if field == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if field == "contexts":
        return [_with_text(item) for item in _listed(value)]
    if field == "history":
        return [_with_text(item, role="user") for item in _listed(value)]
    return value


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _with_text(item: object, **defaults: str) -> object:
    if isinstance(item, str):
        return {**defaults, "text": item}
    if not isinstance(item, dict):
        return item
    text = {"text": item["content"]} if "content" in item and "text" not in item else {}
    return {**defaults, **item, **text}
