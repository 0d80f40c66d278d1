"""Problems in hand-written data: the key, and a message that says how to fix it."""

import difflib
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Loc = tuple[str | int, ...]
"""The keys and indexes that lead to a place in nested data."""


def path_text(loc: Sequence[str | int]) -> str:
    """Return a path such as `judges.panel[1].model`; keys that are not plain names are quoted, to be unambiguous."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z0-9_-]+", part):
            path += f".{part}" if path else part
        else:
            path += f"[{part!r}]"
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem in a file."""

    path: str
    """The key, such as `judges.panel[1].model`; a line if the file is not YAML; empty if it is the whole file."""

    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InconsistentError(ValueError):
    """Parts that are valid on their own but contradict each other; `found` has the messages with their keys."""

    def __init__(self, problems: Iterable[tuple[Loc, str]]) -> None:
        self.found = tuple(problems)
        listed = (Problem(path=path_text(loc), message=message) for loc, message in self.found)
        super().__init__("; ".join(map(str, listed)))


def unknown(what: str, name: str, candidates: Iterable[str]) -> str:
    """Return a message about an unknown name, with the most similar candidate, or else with all of them."""
    names = list(candidates)
    similar = difflib.get_close_matches(name.lower(), names, n=1) or _find_with_word(name.lower(), names)
    return (
        f"unknown {what}; did you mean {similar[0]!r}?"
        if similar
        else f"unknown {what}; expected one of: {', '.join(names)}"
    )


def _find_with_word(word: str, names: Iterable[str]) -> list[str]:
    """Return the only name that has this word, as in `url` for `base_url`; none if there are several."""
    matches = [name for name in names if word and word in name.split("_")]
    return matches if len(matches) == 1 else []


# Checks of arguments


def check_integer(name: str, value: int) -> None:
    """Raise unless the value is a whole number; not every caller checks types."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, not {_format_value(value)}")


def check_count(name: str, value: int, *, least: int = 1, most: int | None = None) -> None:
    check_integer(name, value)
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {_format_value(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, not {_format_value(value)}")


def check_real(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {_format_value(value)}")


def check_text(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {_format_value(value)}")


def check_bool(name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {_format_value(value)}")


def check_number(name: str, value: float, *, least: float, most: float) -> None:
    check_real(name, value)
    # This also refuses NaN, which compares false.
    if not least <= value <= most:
        raise ValueError(f"{name} must be between {least:g} and {most:g}, not {_format_value(value)}")


# Pydantic's errors in plain words; {found} describes the actual value

_WHOLE, _NUMBER, _TRUTH = "must be a whole number{found}", "must be a number{found}", "must be true or false{found}"
_MAPPING = "must be a mapping{found}"
_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "greater_than": "must be above {gt}{found}",
    "greater_than_equal": "must be at least {ge}{found}",
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
    "string_unicode": "must be text without lone surrogates",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "literal_error": "must be {expected}{found}",
    "union_tag_invalid": "must be one of {expected_tags}{found}",
    "union_tag_not_found": "is required",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": "must be a list{found}",
}
# Instead, if the least length is 1.
_IF_ONE: Mapping[str, str] = {"string_too_short": "must not be empty", "too_short": "must not be empty"}


def describe_error(kind: str, context: Mapping[str, Any], found: str) -> str:
    """Return an error of this kind as a sentence about the value; `found` is its end, from `describe_actual`."""
    template = _IF_ONE.get(kind) if context.get("min_length") == 1 else None
    template = template or _WORDS.get(kind, "is not valid")
    return template.format(found=found, **{name: _number(value) for name, value in context.items()})


def describe_actual(value: Any, *, container: bool, text: bool) -> str:
    """Return the end of a message that describes the actual value, such as `, not 5; put it in quotes`."""
    if value is None:
        return ", not empty"
    if isinstance(value, dict | list):
        return f", not {'a list' if isinstance(value, list) else 'a mapping'}"
    if container:
        return f", not {'text' if isinstance(value, str) else 'a single value'}"
    hint = "; put it in quotes" if text and not isinstance(value, str) else ""
    return f", not {_format_value(value)}{hint}"


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number so large"
    return repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}…"
