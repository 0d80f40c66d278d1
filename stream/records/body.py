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

# As an interaction has it.
_MAX_APP_CHARS = 256


Body = Any
"""A record's JSON as far as it is asked for; read by the getters of the reader that made it."""


Getter = Callable[[Body], object]


class BodyReader:
    """Reads those parts of records that somebody asked a getter for, and skips the rest of their JSON.

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
        """Gets a field of the interaction, see `getter`; nothing where the adapter never has it."""
        return self.getter(self._adapter.path(name), parsed=parsed)

    def tag_getter(self, name: str) -> Getter:
        tags = self._adapter.path("tags")
        return self.getter(None if tags is None else tags.beneath(name))

    def getter(self, path: BodyPath | Lookup | None, *, parsed: bool = True) -> Getter:
        """What finds the value at a path; None when there is nothing, or a null.

        Unless it must be parsed, a value may come as the bytes of its JSON, a `msgspec.Raw`.
        """
        if path is None:
            return _nothing
        if isinstance(path, Lookup):
            self._needs_whole, self._decode = True, self._decode_first
            return _looking_up(path.find)
        first, *rest = path.steps
        field = self._fields.setdefault(first, f"f{len(self._fields)}")
        if parsed or rest:
            self._parsed.add(first)
        self._decode = self._decode_first
        top = attrgetter(field)
        return _beneath(top, tuple(rest)) if rest else top

    def read(self, value: bytes | None) -> Body:
        """What is asked for of a record, or a RecordError that says why there is no reading it."""
        if value is not None and len(value) <= self._limits.record_bytes:
            try:
                return self._decode(value)
            except (ValueError, RecursionError):
                pass  # not JSON, or JSON that only the strict reader can read
        return self._made(read_document(value, self._limits))

    def _decode_first(self, value: bytes) -> Body:
        """Makes the decoder when everything has been asked for."""
        decode = None if self._needs_whole else self._make_partial_decoder()
        if decode is None:
            whole = msgspec.json.Decoder(dict[str, Any])
            self._decode = lambda value: self._made(whole.decode(value))
        else:
            self._decode = decode
        return self._decode(value)

    def _make_partial_decoder(self) -> Callable[[bytes], Body] | None:
        types = {field: Any if name in self._parsed else msgspec.Raw for name, field in self._fields.items()}
        shape = [(field, kind, None) for field, kind in types.items()]
        names = {field: name for name, field in self._fields.items()}
        try:
            return msgspec.json.Decoder(msgspec.defstruct("Body", shape, rename=names)).decode
        except ValueError:  # a name with a quote or a backslash in it, which only a whole mapping can have
            return None

    def _made(self, document: Mapping[str, object]) -> Body:
        return SimpleNamespace(document=document, **{field: document.get(name) for name, field in self._fields.items()})


def app_getter(reader: BodyReader) -> Callable[[Body], str | None]:
    """What finds the app of a body; None for what no interaction would have for one."""
    get = reader.field_getter("app")

    def app_in(body: Body) -> str | None:
        app = get(body)
        return app if type(app) is str and len(app) <= _MAX_APP_CHARS else None

    return app_in


def _beneath(top: Getter, steps: tuple[str, ...]) -> Getter:
    first, further = steps[0], steps[1:]

    def value_in(body: Body) -> object:
        value = top(body)
        if type(value) is dict and not further:  # as nearly all are
            return value.get(first)
        return follow(value, steps)

    return value_in


def _looking_up(find: Callable[[Mapping[str, object]], object]) -> Getter:
    return lambda body: find(body.document)


def _nothing(_body: Body) -> None:
    return None
