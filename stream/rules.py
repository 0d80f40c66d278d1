"""Compiled rules: which rule a record falls under, reading no more of it than the rules need."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import msgspec

from sinks.base import Headers
from stream.adapters import make_adapter
from stream.adapters.base import Lookup, Path, follow
from stream.config import ConditionConfig, InputConfig, RuleMatch, TextConditionConfig
from stream.reading import read_document

Scalar = bool | int | float | str
Asked = Scalar | tuple[Scalar, ...] | TextConditionConfig
"""A condition as the configuration has it."""

_SHOWN_CHARS = 60
# As an interaction has it.
_MAX_APP_CHARS = 256


# What is asked of one value


class Condition(ABC):
    """A question to one value of a record, which is None where there is none."""

    words: str
    """What is asked, after the name of what it is asked of: `is shop or docs`."""

    unmet: str
    """The same for a value that it does not hold for: `is not shop or docs`."""

    @abstractmethod
    def holds(self, value: object) -> bool: ...


class OneOf(Condition):
    """Equal to one of some values; true is not 1, and 1 is 1.0."""

    def __init__(self, values: Sequence[Scalar], *, as_text: bool) -> None:
        self.words, self.unmet = f"is {_listed(values)}", f"is not {_listed(values)}"
        plain = [_as_text(value) for value in values] if as_text else values
        self._texts = frozenset(value for value in plain if isinstance(value, str))
        self._truths = frozenset(value for value in plain if isinstance(value, bool))
        self._numbers = frozenset(value for value in plain if not isinstance(value, bool | str))

    def holds(self, value: object) -> bool:
        if type(value) is str:
            return value in self._texts
        if type(value) is bool:
            return value in self._truths
        return isinstance(value, int | float) and value in self._numbers


class Found(Condition):
    """A text in which a regular expression is found."""

    def __init__(self, pattern: str) -> None:
        self.words, self.unmet = f"has /{pattern}/ in it", f"has no /{pattern}/ in it"
        self._search = re.compile(pattern).search

    def holds(self, value: object) -> bool:
        return type(value) is str and self._search(value) is not None


class Within(Condition):
    """A number within bounds; of a text, the number that it spells."""

    def __init__(self, low: float | None, high: float | None, *, as_text: bool) -> None:
        bounds = [f"at least {low:g}" if low is not None else "", f"at most {high:g}" if high is not None else ""]
        told = " and ".join(filter(None, bounds))
        self.words, self.unmet = f"is {told}", f"is not {told}"
        self._low = -float("inf") if low is None else low
        self._high = float("inf") if high is None else high
        self._as_text = as_text

    def holds(self, value: object) -> bool:
        if self._as_text:
            value = _number(value)
        # bool is an int to Python; a JSON true is no number.
        return isinstance(value, int | float) and type(value) is not bool and self._low <= value <= self._high


class Exists(Condition):
    """Whether there is a value at all; a null is none."""

    def __init__(self, wanted: bool) -> None:
        there, missing = "is there", "is not there"
        self.words, self.unmet = (there, missing) if wanted else (missing, there)
        self._wanted = wanted

    def holds(self, value: object) -> bool:
        return (value is not None) is self._wanted


def condition(asked: Asked, *, as_text: bool = False) -> Condition:
    """Compiles a condition, for values of JSON, or for headers, whose values are all texts."""
    if not isinstance(asked, TextConditionConfig):
        return OneOf(asked if isinstance(asked, tuple) else (asked,), as_text=as_text)
    if asked.regex is not None:
        return Found(asked.regex)
    if isinstance(asked, ConditionConfig) and (asked.min is not None or asked.max is not None):
        return Within(asked.min, asked.max, as_text=as_text)
    return Exists(bool(asked.exists))


def _number(value: object) -> object:
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _as_text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(values: Sequence[Scalar]) -> str:
    *first, last = map(_as_text, values)
    return f"{', '.join(first)} or {last}" if first else last


# Where values are in a record


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

    def getter(self, path: Path | Lookup | None, *, parsed: bool = True) -> Getter:
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


# What a decision may look at


class Facts:
    """One record as decisions see it: each part is read on first use only."""

    __slots__ = ("_found", "_headers", "at_ms", "body_as_read", "key", "value")

    def __init__(self, key: bytes | None, value: bytes | None, at_ms: int, headers: Headers = ()) -> None:
        self.key = key
        self.value = value
        self.at_ms = at_ms
        self._headers = headers
        self._found: Mapping[str, bytes | None] | None = None
        self.body_as_read: Body | None = None
        """What `body` gave; None as long as nobody asked."""

    def headers(self) -> Headers:
        """All of them; asked for once, and only when one is asked for."""
        return self._headers

    def header(self, name: str) -> str | None:
        """The text of a header, the last of repeated ones; None when there is none, or none that is text."""
        if self._found is None:
            self._found = dict(self.headers())
        value = self._found.get(name)
        try:
            return value.decode() if value is not None else None
        except UnicodeDecodeError:
            return None

    def body(self, reader: BodyReader) -> Body:
        if self.body_as_read is None:
            self.body_as_read = reader.read(self.value)
        return self.body_as_read


# The rules

_NAMES = ("app", "tenant", "model")


class Matcher:
    """The conditions of one rule, headers first: they are cheap to look at."""

    def __init__(self, match: RuleMatch, reader: BodyReader) -> None:
        self._reader = reader
        self._headers = [(name, condition(asked, as_text=True)) for name, asked in match.headers.items()]
        self._body = [(subject, getter, condition(asked)) for subject, getter, asked in _asked(match, reader)]
        self._tests = [(getter, each.holds) for _, getter, each in self._body]
        self.reads_body = bool(self._body)

    @property
    def words(self) -> str:
        """All that is asked for: `app is shop; tag tier is gold`."""
        return "; ".join(f"{subject} {each.words}" for subject, each, _ in self._checks())

    def matches(self, facts: Facts) -> bool:
        for name, each in self._headers:
            if not each.holds(facts.header(name)):
                return False
        if not self._tests:
            return True
        body = facts.body(self._reader)
        for getter, holds in self._tests:  # noqa: SIM110 - a generator would cost more than what it asks
            if not holds(getter(body)):
                return False
        return True

    def failure(self, facts: Facts) -> str | None:
        """The first condition that is not met, and what there was instead; None where all are met."""
        for subject, each, value_in in self._checks():
            value = value_in(facts)
            if not each.holds(value):
                return _unmet(subject, each, value)
        return None

    def _checks(self) -> Iterator[tuple[str, Condition, Callable[[Facts], object]]]:
        for name, each in self._headers:
            yield f"header {name}", each, partial(Facts.header, name=name)
        for subject, getter, each in self._body:
            yield subject, each, partial(self._in_body, getter)

    def _in_body(self, getter: Getter, facts: Facts) -> object:
        return getter(facts.body(self._reader))


def _asked(match: RuleMatch, reader: BodyReader) -> Iterator[tuple[str, Getter, Asked]]:
    for name in _NAMES:
        asked = getattr(match, name)
        if asked is not None:
            yield name, reader.field_getter(name), asked
    for name, tag_asked in match.tags.items():
        yield f"tag {name}", reader.tag_getter(name), tag_asked
    for dotted, value_asked in match.body.items():
        yield dotted, reader.getter(Path.parse(dotted)), value_asked


def fields_asked_for(match: RuleMatch) -> list[str]:
    """The fields of an interaction that a rule has conditions on."""
    return [name for name in (*_NAMES, "tags") if getattr(match, name)]


def _unmet(subject: str, asked: Condition, value: object) -> str:
    if value is None:
        return f"{subject} is not there"  # which is why it is not anything else either
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
    return f"{subject} {asked.unmet} (it is {shown})"
