"""Reading the configuration: a YAML file, `${ENV}` references, `STREAMJURY__` overrides, and all problems at once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_origin

import yaml
from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from stream.config import (
    DISCRIMINATOR,
    PATTERN_WORDS,
    Config,
    below,
    is_container,
    is_secret,
    is_section,
    names_in,
    unknown,
)
from stream.errors import StreamjuryError

DEFAULT_FILE = Path("streamjury.yaml")
FILE_VARIABLE = "STREAMJURY_CONFIG"
OVERRIDE_PREFIX = "STREAMJURY__"

# Far above any real file, and low enough that a hostile one (aliases of aliases) is refused in a moment.
_MAX_BYTES = 262_144
_MAX_VALUES = 10_000
_MAX_DEPTH = 32

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with the configuration."""

    path: str
    """The key, as `judges.panel[1].model`; a place in the file when it is not YAML; empty when it is the whole file."""

    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(StreamjuryError):
    """The configuration cannot be used; says everything that is wrong with it."""

    def __init__(self, file: Path | None, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file to read: the one asked for, else the one in STREAMJURY_CONFIG, else ./streamjury.yaml if it is there."""
    if path is not None:
        return path
    if environ.get(FILE_VARIABLE):
        return Path(environ[FILE_VARIABLE])
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """The configuration in one file, or the defaults without one, under the overrides of the environment.

    1. The file is read as YAML. What is not YAML is the only problem reported: nothing after it would be certain.
    2. References to the environment in its values are replaced.
    3. Overrides are laid over it.
    4. The result is validated, and all problems of the steps 1 to 4 are raised together.
    """
    draft = _Draft()
    try:
        draft.data = _read_file(path, draft) if path is not None else {}  # 1
    except _UnreadableError as error:
        raise ConfigError(path, [error.problem]) from None
    draft.data = _with_references(draft, draft.data, (), environ)  # 2
    for override in _overrides(environ):
        _Placing(draft, override).place()  # 3
    config = _validated(draft)  # 4
    if config is None or draft.problems:
        raise ConfigError(path, draft.remaining_problems())
    return config


def dump(config: Config) -> str:
    """The effective configuration as a file would have it, with secrets as '***'."""
    return to_yaml(config.model_dump(mode="json")).replace("${", "$${")


def to_yaml(data: Any) -> str:
    """Block YAML that this module, and readers of the older YAML 1.1, read back as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The configuration while it is put together, with what is known about where its values come from."""

    data: Any = None
    problems: dict[Loc, dict[str, None]] = field(default_factory=dict)
    """Messages by place; each is said once."""

    unread: set[Loc] = field(default_factory=set)
    """Values already reported; what validation says about their stand-ins is noise."""

    from_environment: set[Loc] = field(default_factory=set)
    """Values taken from the environment, which may be secrets in the wrong place: never shown."""

    overridden: dict[Loc, str] = field(default_factory=dict)
    """The variable that set the value at a place."""

    added: dict[Loc, str] = field(default_factory=dict)
    """The variable that added an item to a list."""

    def report(self, loc: Loc, message: str) -> None:
        self.problems.setdefault(loc, {})[message] = None

    def remaining_problems(self) -> Iterator[Problem]:
        for loc, messages in self.problems.items():
            yield from (Problem(path=_path(loc), message=message) for message in messages)


# 1. YAML


class _UnreadableError(Exception):
    def __init__(self, path: str, message: str) -> None:
        self.problem = Problem(path=path, message=message)
        super().__init__(message)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core rules for plain values: `no`, `12:30` and `2026-01-01` are text, as people mean them."""

    yaml_implicit_resolvers = {}  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        _refuse_depth(self._depth - 1)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes what either version of YAML would not read as text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # In any other style these line breaks would be read back as spaces.
        return self.represent_scalar(_TAG + "str", data, style='"' if re.search("[\x85\u2028\u2029]", data) else None)


_TAG = "tag:yaml.org,2002:"
# A number with zeros in front is text: it is a code or a password, and would lose them.
_PLAIN = (
    ("null", r"(~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"([-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+0123456789.")),
    ("float", r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))", list("-+.")),
)
_Dumper.add_representer(str, _Dumper.represent_str)
for _name, _pattern, _first in _PLAIN:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(f"^{_pattern}$"), _first)


def _float(text: str) -> float:
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    _TAG + "null": lambda _: None,
    _TAG + "bool": lambda text: {"true": True, "false": False}[text.lower()],
    _TAG + "int": lambda text: int(text, 0),
    _TAG + "float": lambda text: _float(text.lower()),
    _TAG + "str": str,
}


def _read_file(path: Path, draft: _Draft) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _UnreadableError("", f"cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    if len(content) > _MAX_BYTES:
        raise _UnreadableError("", f"is larger than {_MAX_BYTES} bytes, too large for a configuration")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _UnreadableError(f"line {line}", "is not UTF-8 text") from None
    return _read_yaml(text, draft, ())


def _read_yaml(text: str, draft: _Draft, loc: Loc) -> Any:
    """The plain data in a text; problems that leave the rest readable go to the draft."""
    try:
        loader = _Loader(text)
        return _Plain(draft).value(loader.get_single_node(), loc)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = f"line {before.count(chr(10)) + 1}, column {error.position - before.rfind(chr(10))}"
        raise _UnreadableError(place, "has a character that YAML does not allow") from None
    except yaml.MarkedYAMLError as error:
        raise _UnreadableError(_place(error.problem_mark), f"is not valid YAML: {_cause(error)}") from None


def _refuse_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _UnreadableError("", f"is nested deeper than {_MAX_DEPTH} levels")


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _cause(error: yaml.MarkedYAMLError) -> str:
    """The parser's reason, without the names it quotes: a password that begins with * or ! would be among them."""
    begun = error.context_mark
    where = f" begun in line {begun.line + 1}" if begun else ""
    said = f"{error.context}{where}: {error.problem}" if error.context else str(error.problem)
    return re.sub(r""" (['"])(?!<).{2,}?\1""", "", said)


class _Plain:
    """Turns YAML nodes into dicts, lists and scalars, and counts them: aliases can make a small file huge."""

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft
        self._left = _MAX_VALUES

    def value(self, node: yaml.Node | None, loc: Loc) -> Any:
        self._count()
        _refuse_depth(len(loc))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, loc)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*loc, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return self._scalar(node, loc)
        return None if node is None else self._unreadable(loc, "has a YAML tag, and no tags are read here")

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _UnreadableError("", f"has more than {_MAX_VALUES} values, too many for a configuration")

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            self._count()
            line = key.start_mark.line + 1
            name = key.value
            if not isinstance(name, str) or key.tag != _TAG + "str":
                self._draft.report(loc, f"the key in line {line} must be text; put it in quotes")
            elif name == "<<":
                self._draft.report(loc, f"the key '<<' in line {line} is not read here; write out what it stands for")
            elif name in data:
                self._draft.report((*loc, name), f"is there twice, in the lines {lines[name]} and {line}")
            else:
                lines[name] = line
                data[name] = self.value(value, (*loc, name))
        return data

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        try:
            return _SCALARS[node.tag](node.value)
        except (ValueError, KeyError):
            return self._unreadable(loc, "is not what its YAML tag says, or too long a number")

    def _unreadable(self, loc: Loc, message: str) -> None:
        self._draft.report(loc, message)
        self._draft.unread.add(loc)


# 2. References to the environment

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})?")


def _with_references(draft: _Draft, data: Any, loc: Loc, environ: Mapping[str, str]) -> Any:
    if isinstance(data, dict):
        return {name: _with_references(draft, value, (*loc, name), environ) for name, value in data.items()}
    if isinstance(data, list):
        return [_with_references(draft, value, (*loc, index), environ) for index, value in enumerate(data)]
    if isinstance(data, str):
        return _REFERENCE.sub(lambda match: _referred(draft, match, loc, environ), data)
    return data


def _referred(draft: _Draft, match: re.Match[str], loc: Loc, environ: Mapping[str, str]) -> str:
    name, default = match["name"], match["default"]
    if match[0] == "$${":
        return "${"
    if name is None:
        draft.report(
            loc, "has a '${' that begins no reference; write ${NAME} or ${NAME:-default}, or $${ for the text '${'"
        )
    elif environ.get(name):
        draft.from_environment.add(loc)
        return environ[name]
    elif default is not None:
        return default
    else:
        state = "empty" if name in environ else "not set"
        draft.report(
            loc, f"needs the environment variable {name}, which is {state}; set it, or write ${{{name}:-default}}"
        )
    draft.unread.add(loc)
    return match[0]


# 3. Overrides


class _Override(NamedTuple):
    variable: str
    segments: tuple[str, ...]
    text: str


def _overrides(environ: Mapping[str, str]) -> list[_Override]:
    """Whole sections before their keys, list items in their order, and a judge's kind before what depends on it."""
    found = [
        _Override(name, tuple(name[len(OVERRIDE_PREFIX) :].lower().split("__")), text)
        for name, text in environ.items()
        if name.upper().startswith(OVERRIDE_PREFIX)
    ]
    return sorted(found, key=lambda each: (len(each.segments), [_order(part) for part in each.segments], each.variable))


def _order(segment: str) -> tuple[int, int, str]:
    return (int(segment) if _is_index(segment) else -1, segment != DISCRIMINATOR, segment)


def _is_index(segment: str) -> bool:
    return re.fullmatch(r"[0-9]{1,6}", segment) is not None


class _Placing:
    """Lays one override over the draft, along the types of the model."""

    def __init__(self, draft: _Draft, override: _Override) -> None:
        self._draft = draft
        self._variable, self._segments, self._text = override

    def place(self) -> None:
        if self._draft.data is None:
            self._draft.data = {}
        here: Any = self._draft.data
        kinds: tuple[Any, ...] = (Config,)
        loc: Loc = ()
        for position, segment in enumerate(self._segments):
            step = self._step(here, loc, segment)
            if step is None:
                return
            loc, kinds = (*loc, step), below(kinds, step)
            if position == len(self._segments) - 1 or not kinds:
                self._set(here, loc, kinds)
                return
            if not any(map(is_container, kinds)):
                self._report(loc, f"has no keys below it, so there is no {'.'.join(self._segments)!r}")
                return
            here = self._enter(here, kinds, loc)

    def _step(self, here: Any, loc: Loc, segment: str) -> str | int | None:
        """The key or index that a segment stands for; None when there is no going on."""
        if isinstance(here, list):
            if not _is_index(segment) or int(segment) > len(here):
                known = f"0 to {len(here)}, where {len(here)} adds an item"
                self._report(loc, f"has no item {segment!r}; an index is {known}")
                return None
            if int(segment) == len(here):
                here.append(None)
                self._draft.added[(*loc, int(segment))] = self._variable
            return int(segment)
        # Something else than the model wants stands in the file; validation will say so.
        if not isinstance(here, dict):
            return None
        # Shells do not allow dots in names, and no librdkafka option has an underscore.
        return segment.replace("_", ".") if loc == ("kafka", "options") else segment

    def _enter(self, here: Any, kinds: tuple[Any, ...], loc: Loc) -> Any:
        """The container at a place, begun from the defaults where the file has none."""
        step = loc[-1]
        there = here.get(step) if isinstance(here, dict) else here[step]
        if there is None:
            there = here[step] = _default_at(loc, kinds)
        return there

    def _set(self, here: Any, loc: Loc, kinds: tuple[Any, ...]) -> None:
        if loc in self._draft.overridden:
            self._report(loc, f"is also set by {self._draft.overridden[loc]}")
            return
        self._draft.overridden[loc] = self._variable
        self._draft.problems = {at: said for at, said in self._draft.problems.items() if not _within(at, loc)}
        self._draft.unread = {at for at in self._draft.unread if not _within(at, loc)}
        self._draft.from_environment = {at for at in self._draft.from_environment if not _within(at, loc)}
        value = self._value(loc, kinds)
        if kinds and loc[-1] == DISCRIMINATOR and here.get(DISCRIMINATOR) != value:
            here.clear()  # the keys of another kind of judge, its name above all, would be wrong for this one
        here[loc[-1]] = value

    def _value(self, loc: Loc, kinds: tuple[Any, ...]) -> Any:
        """Text where the key takes text, so that no password needs quoting for YAML; YAML everywhere else."""
        takes_text = not kinds or str in kinds or SecretStr in kinds
        if takes_text and NoneType in kinds and self._text in {"", "~", "null"}:
            return None
        if takes_text and not self._text.startswith(("'", '"')):
            return self._text
        try:
            value = _read_yaml(self._text, self._draft, loc)
        except _UnreadableError as error:
            if takes_text:
                return self._text
            self._report(loc, error.problem.message)
            self._draft.unread.add(loc)
            return None
        return self._text if takes_text and not isinstance(value, str) else value

    def _report(self, loc: Loc, message: str) -> None:
        self._draft.report(loc, f"{message} (set by {self._variable})")


def _default_at(loc: Loc, kinds: tuple[Any, ...]) -> Any:
    """What stands at a place that the file leaves out: the default list, else an empty container."""
    if not any(get_origin(kind) is tuple for kind in kinds):
        return {}
    data: Any = Config().model_dump(mode="json")
    for part in loc:
        known = isinstance(data, dict) and part in data
        data = data[part] if known else None
    return data if isinstance(data, list) else []


def _within(loc: Loc, outer: Loc) -> bool:
    return loc[: len(outer)] == outer


# 4. Validation, and its errors in plain words


def _validated(draft: _Draft) -> Config | None:
    try:
        return Config.model_validate({} if draft.data is None else draft.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _report_detail(draft, detail)
        return None


def _report_detail(draft: _Draft, detail: ErrorDetails) -> None:
    place = _place_of(detail)
    if any(_within(place.loc, unread) for unread in draft.unread) or _follows(detail):
        return
    hidden = _is_hidden(place) or place.loc in draft.from_environment
    draft.report(place.loc, _words(detail, place, shown=not hidden) + _source(draft, place.loc))


class _ModelPlace(NamedTuple):
    loc: Loc
    """The place as the file has it, without what pydantic adds for itself."""

    around: tuple[Any, ...]
    """The types of the section that it is in."""

    kinds: tuple[Any, ...]
    """The types that the value may have."""


def _place_of(detail: ErrorDetails) -> _ModelPlace:
    loc: Loc = ()
    around: tuple[Any, ...] = ()
    kinds: tuple[Any, ...] = (Config,)
    for part in detail["loc"]:
        tagged = [kind for kind in kinds if is_section(kind) and _tag(kind) == part]
        if tagged and len(kinds) > 1:
            kinds = tuple(tagged)
        elif part != "[key]" and any(map(is_container, kinds)):
            loc, around, kinds = (*loc, part), kinds, below(kinds, part)
    if detail["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        loc, around, kinds = (*loc, DISCRIMINATOR), kinds, below(kinds, DISCRIMINATOR)
    return _ModelPlace(loc, around, kinds)


def _tag(section: Any) -> Any:
    discriminator = section.model_fields.get(DISCRIMINATOR)
    return discriminator.default if discriminator else None


def _follows(detail: ErrorDetails) -> bool:
    """Whether the error only follows from others: a list counts as short when its items are wrong."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _is_hidden(place: _ModelPlace) -> bool:
    option = place.loc[2] if place.loc[:2] == ("kafka", "options") and len(place.loc) > 2 else ""
    return SecretStr in place.kinds or is_secret(str(option))


def _source(draft: _Draft, loc: Loc) -> str:
    for verb, variables in (("set", draft.overridden), ("item added", draft.added)):
        for length in range(len(loc), 0, -1):
            if loc[:length] in variables:
                return f" ({verb} by {variables[loc[:length]]})"
    return ""


_WHOLE, _NUMBER, _TRUTH = "must be a whole number{found}", "must be a number{found}", "must be true or false{found}"
_MAPPING, _LIST = "must be a mapping{found}", "must be a list{found}"
_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "greater_than": "must be above {gt}{found}",
    "greater_than_equal": "must be at least {ge}{found}",
    "less_than": "must be below {lt}{found}",
    "less_than_equal": "must be at most {le}{found}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number{found}",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "string_type": "must be text{found}",
    "string_unicode": "must be text without half characters",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} item(s)",
    "too_long": "must have at most {max_length} items",
    "literal_error": "must be {expected}{found}",
    "union_tag_invalid": "must be one of {expected_tags}{found}",
    "union_tag_not_found": "is required",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "tuple_type": _LIST,
    "list_type": _LIST,
}


def _words(detail: ErrorDetails, place: _ModelPlace, *, shown: bool) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    shown = shown and detail["loc"][-1:] != ("[key]",)  # a key is in the path already
    found = _found(context.get("tag", detail["input"]), place.kinds) if shown else ""
    if kind == "value_error":
        return f"{context['error']}{found if {int, float} & {*place.kinds} else ''}"
    if kind == "extra_forbidden":
        return unknown("key", str(place.loc[-1]), names_in(place.around))
    if kind == "string_pattern_mismatch":
        return f"must be {PATTERN_WORDS[context['pattern']]}{found}"
    if {str, bool} <= {*place.kinds}:
        return "must be text, a number, or true or false"
    template = _WORDS.get(kind, "is not valid")
    return template.format(found=found, **{name: _number(value) for name, value in context.items()})


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _found(value: Any, kinds: tuple[Any, ...]) -> str:
    if value is None:
        return ", not empty"
    if isinstance(value, dict | list):
        return f", not {'a list' if isinstance(value, list) else 'a mapping'}"
    if any(map(is_container, kinds)):
        return f", not {'text' if isinstance(value, str) else 'a single value'}"
    if isinstance(value, bool):
        shown = str(value).lower()
    elif isinstance(value, int) and value.bit_length() > 64:
        shown = "a number so large"
    else:
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}…"
    hint = "; put it in quotes" if str in kinds and not isinstance(value, str) else ""
    return f", not {shown}{hint}"


def _path(loc: Loc) -> str:
    """`judges.panel[1].model`; keys that are no plain names are quoted."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z0-9_-]+", part):
            path += f".{part}" if path else part
        else:
            path += f"[{part!r}]"
    return path
