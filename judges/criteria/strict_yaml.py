"""Strict YAML: converts a file or text to plain data and back, without tags, merges, duplicate keys or odd types."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

try:
    from yaml import CSafeLoader
except ImportError:  # PyYAML was built without libyaml; its wheels are built with it
    from yaml import SafeLoader as CSafeLoader  # type: ignore[assignment]

from judges.criteria.problems import Loc, Problem

# Far above any real file, and low enough to refuse a hostile one (aliases of aliases) quickly.
_MAX_BYTES = 262_144
_MAX_VALUES = 10_000
_MAX_DEPTH = 32


class ProblemCollector(Protocol):
    """Collects problems that leave the rest of a text readable."""

    def report(self, loc: Loc, message: str) -> None: ...

    def report_unread(self, loc: Loc, message: str) -> None:
        """Report a value that is replaced by None."""


class UnreadableError(Exception):
    """A text that cannot be used at all."""

    def __init__(self, path: str, message: str) -> None:
        self.problem = Problem(path=path, message=message)
        super().__init__(message)


def read_file(path: Path, reports: ProblemCollector) -> Any:
    """Return the plain data in a file; report problems that leave the rest readable."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableError("", f"cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    if len(content) > _MAX_BYTES:
        raise UnreadableError("", f"is larger than {_MAX_BYTES} bytes, too large for a hand-written file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"line {line}", "is not UTF-8 text") from None
    return read_yaml(text, (), reports)


def read_yaml(text: str, loc: Loc, reports: ProblemCollector) -> Any:
    """Return the plain data in a text; report problems that leave the rest readable."""
    try:
        return _DataBuilder(reports).value(_compose(text), loc)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = f"line {before.count(chr(10)) + 1}, column {error.position - before.rfind(chr(10))}"
        raise UnreadableError(place, "has a character that YAML does not allow") from None
    except yaml.MarkedYAMLError as error:
        message = f"is not valid YAML: {_cause(error)}{_quotes_hint(text, error.problem_mark)}"
        raise UnreadableError(_place(error.problem_mark), message) from None


def read_shipped(text: str) -> Any:
    """Return the data in a file of the program itself, without the rules of this module."""
    return CSafeLoader(text).get_single_data()


def to_yaml(data: Any) -> str:
    """Return block YAML that this module, and readers of the older YAML 1.1, read back as the same data."""
    return yaml.dump(data, Dumper=_YamlDumper, sort_keys=False, allow_unicode=True, width=110)


def _refuse_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise UnreadableError("", f"is nested deeper than {_MAX_DEPTH} levels")


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _cause(error: yaml.MarkedYAMLError) -> str:
    """Return the parser's reason without the names it quotes, which could be a password that begins with * or !."""
    start = error.context_mark
    where = f" that starts in line {start.line + 1}" if start else ""
    reason = f"{error.context}{where}: {error.problem}" if error.context else str(error.problem)
    return re.sub(r""" (['"])(?!<|.\1).{2,}?\1""", "", reason)


def _quotes_hint(text: str, mark: yaml.Mark | None) -> str:
    """In `{key: ${NAME}}` the second brace starts a mapping, and the parser's reason does not say what to do."""
    is_reference = mark is not None and text[: mark.index + 1].endswith("${")
    return '; put references in quotes inside { } and [ ]: "${NAME}"' if is_reference else ""


# From text to nodes, and from data to text


# Replaces every explicit tag, so that tags which a plain value would get anyway are refused like the others.
_WRITTEN_TAG = "!"


def _compose(text: str) -> yaml.Node | None:
    """Return the nodes of a text. The parser in C is seven times faster; the other one has clearer errors."""
    try:
        return _FastLoader(text).get_single_node()
    except (yaml.YAMLError, UnicodeEncodeError):
        return _Loader(text).get_single_node()


class _Composer(yaml.composer.Composer):
    """Refuses deep nesting, which would exhaust the stack, and marks explicit tags."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        _refuse_depth(self._depth)
        self._depth += 1
        is_tagged = getattr(self.peek_event(), "tag", None) is not None  # type: ignore[attr-defined]
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_tagged and node is not None:
            node.tag = _WRITTEN_TAG
        return node


class _CoreResolver(yaml.resolver.Resolver):
    """Reads plain values by the core rules of YAML 1.2: `no`, `12:30` and `2026-01-01` are text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012


class _Loader(_Composer, _CoreResolver, yaml.SafeLoader):
    pass


class _FastLoader(_Composer, _CoreResolver, CSafeLoader):
    def __init__(self, text: str) -> None:
        CSafeLoader.__init__(self, text)
        _Composer.__init__(self)


class _YamlDumper(yaml.SafeDumper):
    """Quotes texts that either version of YAML would not read as text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # In any other style these line breaks would be read back as spaces.
        return self.represent_scalar(_TAG + "str", data, style='"' if re.search("[\x85\u2028\u2029]", data) else None)


_TAG = "tag:yaml.org,2002:"
# A number with leading zeros is text: it is a code or a password, and would lose them.
_PLAIN = (
    ("null", r"(~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"([-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+0123456789.")),
    ("float", r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))", list("-+.")),
)
_YamlDumper.add_representer(str, _YamlDumper.represent_str)
for _name, _pattern, _first in _PLAIN:
    for _class in (_CoreResolver, _YamlDumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(f"^{_pattern}$"), _first)


# From nodes to data

_SCALARS: Mapping[str, Callable[[str], Any]] = {
    _TAG + "null": lambda _: None,
    _TAG + "bool": lambda text: {"true": True, "false": False}[text.lower()],
    _TAG + "int": lambda text: int(text, 0),
    _TAG + "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    _TAG + "str": str,
}


_HAS_TAG = (
    "has a YAML tag (a word that starts with !), and tags are not allowed here; remove it, or put the value in quotes"
)


class _DataBuilder:
    """Turns YAML nodes into dicts, lists and scalars, and counts them: aliases can make a small file huge."""

    def __init__(self, reports: ProblemCollector) -> None:
        self._reports = reports
        self._values_left = _MAX_VALUES

    def value(self, node: yaml.Node | None, loc: Loc) -> Any:
        self._count()
        _refuse_depth(len(loc))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, loc)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*loc, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return self._scalar(node, loc)
        if node is not None:
            self._reports.report_unread(loc, _HAS_TAG)
        return None

    def _count(self) -> None:
        self._values_left -= 1
        if self._values_left < 0:
            raise UnreadableError("", f"has more than {_MAX_VALUES} values, too many for a hand-written file")

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            self._count()
            line = key.start_mark.line + 1
            name = key.value
            if key.tag == _WRITTEN_TAG:
                self._reports.report(loc, f"the key in line {line} {_HAS_TAG}")
            elif not isinstance(name, str) or key.tag != _TAG + "str":
                self._reports.report(loc, f"the key in line {line} must be text; put it in quotes")
            elif name == "<<":
                self._reports.report(
                    loc, f"the key '<<' in line {line} is not supported; write out the keys it stands for"
                )
            elif name in data:
                self._reports.report((*loc, name), f"is listed twice, in lines {lines[name]} and {line}")
            else:
                lines[name] = line
                data[name] = self.value(value, (*loc, name))
        return data

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        try:
            return _SCALARS[node.tag](node.value)
        except (ValueError, KeyError):
            self._reports.report_unread(loc, "is too long a number")
            return None
