"""The body of a record, parsed once and only as far as needed, and getters for the values in it."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import msgspec

from stream.config.sections.input import InputConfig
from stream.records.adapters import make_adapter
from stream.records.adapters.base import BodyPath, Lookup, follow
from stream.records.reading import read_document

# As in an interaction.
_MAX_APP_CHARS = 256


Body = Any
"""The needed part of a record's JSON; read it with the getters of the reader that made it."""


Getter = Callable[[Body], object]


class BodyReader:
    """Reads the parts of records that have a getter, and skips the rest of their JSON.

    Fields of the interaction are found through the input's adapter, which also reads whole interactions.
    """

    def __init__(self, records: InputConfig) -> None:
        self._limits = records.limits
        self._adapter = make_adapter(records)
        self._fields: dict[str, str] = {}
        self._parsed: set[str] = set()
        self._needs_whole = False
        self._decode: Callable[[bytes], Body] = self._decode_first

    def field_getter(self, name: str, *, parsed: bool = True) -> Getter:
        """Make a getter of a field of the interaction; it returns None if the adapter never has the field."""
        return self.getter(self._adapter.path(name), parsed=parsed)

    def tag_getter(self, name: str) -> Getter:
        tags = self._adapter.path("tags")
        return self.getter(None if tags is None else tags.beneath(name))

    def getter(self, path: BodyPath | Lookup | None, *, parsed: bool = True) -> Getter:
        """Make a getter of the value at a path, which returns None if the value is missing or null.

        With `parsed=False`, it may return the bytes of the JSON, a `msgspec.Raw`.
        """
        if path is None:
            return _no_value
        if isinstance(path, Lookup):
            self._needs_whole, self._decode = True, self._decode_first
            return _lookup_getter(path.find)
        first, *rest = path.steps
        field = self._fields.setdefault(first, f"f{len(self._fields)}")
        if parsed or rest:
            self._parsed.add(first)
        self._decode = self._decode_first
        top = attrgetter(field)
        return _nested_getter(top, tuple(rest)) if rest else top

    def read(self, value: bytes | None) -> Body:
        """Read the needed parts of a record; raises RecordError if it cannot be read."""
        if value is not None and len(value) <= self._limits.record_bytes:
            try:
                return self._decode(value)
            except (ValueError, RecursionError):
                pass  # not JSON, or JSON that only the strict reader can read
        return self._make_body(read_document(value, self._limits))

    def _decode_first(self, value: bytes) -> Body:
        """Make the decoder at the first record, when all getters exist."""
        decode = None if self._needs_whole else self._make_partial_decoder()
        if decode is None:
            whole = msgspec.json.Decoder(dict[str, Any])
            self._decode = lambda value: self._make_body(whole.decode(value))
        else:
            self._decode = decode
        return self._decode(value)

    def _make_partial_decoder(self) -> Callable[[bytes], Body] | None:
        types = {field: Any if name in self._parsed else msgspec.Raw for name, field in self._fields.items()}
        shape = [(field, kind, None) for field, kind in types.items()]
        names = {field: name for name, field in self._fields.items()}
        try:
            return msgspec.json.Decoder(msgspec.defstruct("Body", shape, rename=names)).decode
        except ValueError:  # a name with a quote or a backslash, which only a whole mapping supports
            return None

    def _make_body(self, document: Mapping[str, object]) -> Body:
        return SimpleNamespace(document=document, **{field: document.get(name) for name, field in self._fields.items()})


def app_getter(reader: BodyReader) -> Callable[[Body], str | None]:
    """Make a getter of a body's app, which returns None for a value that is not a valid app."""
    get = reader.field_getter("app")

    def app_in(body: Body) -> str | None:
        app = get(body)
        return app if type(app) is str and len(app) <= _MAX_APP_CHARS else None

    return app_in


def _nested_getter(top: Getter, steps: tuple[str, ...]) -> Getter:
    first, further = steps[0], steps[1:]

    def value_in(body: Body) -> object:
        value = top(body)
        if type(value) is dict and not further:  # as nearly all are
            return value.get(first)
        return follow(value, steps)

    return value_in


def _lookup_getter(find: Callable[[Mapping[str, object]], object]) -> Getter:
    return lambda body: find(body.document)


def _no_value(_body: Body) -> None:
    return None
