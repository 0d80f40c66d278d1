"""Explains the configuration from its model: the values of a key, the starter file, the JSON Schema."""

from collections.abc import Iterable, Mapping
from textwrap import fill, indent
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from judges.criteria.strict_yaml import to_yaml
from stream.config.model import Config
from stream.config.walk import alternatives, below, is_section, of_shape

_COMMENT_WIDTH = 112
_HEADER = (
    "# Streamjury configuration. Every key is listed with its default, except for a random sampling.salt. Keep the "
    "salt, and\n# any key you change; the rest can be removed.\n# Secrets come from the environment, as ${NAME}. Run "
    "`streamjury config check` to validate this file.\n"
)

_PLAIN_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text", SecretStr: "text, secret"}


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the configuration file, for editors."""
    described = Config.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described, "title": "Streamjury configuration"}


# The values of a key, in words


def describe_values(field: FieldInfo) -> str:
    """Describe the values of a key: `whole number, 1 to 4096, or null`."""
    kinds = alternatives(field.annotation)
    words = _words(kinds)
    for extra in (_bounds(field), "or null" if NoneType in kinds else ""):
        words += f", {extra}" if extra else ""
    return words


def _words(kinds: Iterable[Any]) -> str:
    present = [kind for kind in kinds if kind is not NoneType]
    if of_shape(present, "section"):
        return _shapes(present)
    return "text, number, true or false" if {str, bool} <= {*present} else _join_or(map(_kind_words, present))


def _shapes(kinds: Iterable[Any]) -> str:
    """Describe a key that takes a value or a section, or also a list of such values."""
    value, lists = _words(of_shape(kinds, "value")), of_shape(kinds, "list")
    return f"{value}, list of these, or section" if lists else f"{value}, or section"


def _join_or(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last


def _kind_words(kind: Any) -> str:
    if is_section(kind):
        return "section"
    if get_origin(kind) is Literal:
        return _join_or(get_args(kind))
    if get_origin(kind) is tuple:
        return f"list of {_plural(below([kind], 0))}"
    if get_origin(kind) is Mapping:
        return f"mapping of names to {_words(below([kind], ''))}"
    return _PLAIN_WORDS[kind]


def _plural(kinds: Iterable[Any]) -> str:
    words = _words(kinds)
    return {"section": "sections", "text": "texts"}.get(words, words)


def _bounds(field: FieldInfo) -> str:
    bounds = {
        name: getattr(bound, name) for bound in field.metadata for name in ("ge", "gt", "le") if hasattr(bound, name)
    }
    low, above, high = (bounds.get(name) for name in ("ge", "gt", "le"))
    if low is not None:
        return f"{_number(low)} to {_number(high)}"
    words = [
        f"above {_number(above)}" if above is not None else "",
        f"at most {_number(high)}" if high is not None else "",
    ]
    return ", ".join(filter(None, words))


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain_default(field: FieldInfo) -> Any:
    """Return the default of a key, as in a file."""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, tuple):
        return [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in value]
    return value


# The starter file


def starter(*, salt: str) -> str:
    """Write a file with every key at its default, each under a comment that explains it; use a random salt."""
    chosen = {"sampling": {"salt": salt}}
    fields = Config.model_fields.items()
    return "\n".join([_HEADER, *(_top_level(name, field, chosen.get(name, {})) for name, field in fields)])


def _top_level(name: str, field: FieldInfo, chosen: Mapping[str, Any]) -> str:
    if not is_section(field.annotation):
        return _key(name, field, {})
    return f"# {field.annotation.__doc__}\n{name}:\n{indent(_keys(field.annotation, chosen), '  ')}"


def _keys(section: type[BaseModel], chosen: Mapping[str, Any]) -> str:
    return "".join(_key(name, field, chosen) for name, field in section.model_fields.items())


def _key(name: str, field: FieldInfo, chosen: Mapping[str, Any]) -> str:
    """Write a key with its chosen value, or else its default."""
    if is_section(field.annotation):
        return f"# {field.description}\n{name}:\n{indent(_keys(field.annotation, chosen.get(name, {})), '  ')}"
    lines = f"{_comment(f'{field.description}{_choice(field)}')}\n"
    lines += to_yaml({name: chosen.get(name, plain_default(field))})
    for example in field.examples or ():
        lines += indent(f"Example:\n{to_yaml({name: example})}", "# ")
    return lines


def _comment(text: str) -> str:
    return fill(text, _COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _choice(field: FieldInfo) -> str:
    """Describe the values of a key if its default does not show them."""
    has_choice = any(kind in (int, float) or get_origin(kind) is Literal for kind in alternatives(field.annotation))
    return f" ({describe_values(field)})" if has_choice else ""
