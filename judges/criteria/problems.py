"""Problems in data that people wrote: the key, and a message they can act on."""

import difflib
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Loc = tuple[str | int, ...]
"""The keys and indexes that lead to a place in nested data."""


def path_text(loc: Sequence[str | int]) -> str:
    """`judges.panel[1].model`; keys that are no plain names are quoted, so that none can pass for another place."""
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
    """One thing that is wrong with a file."""

    path: str
    """The key, as `judges.panel[1].model`; a place in the file when it is not YAML; empty when it is the whole file."""

    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InconsistentError(ValueError):
    """Parts that are right on their own and do not go together: what is said, at which key below them."""

    def __init__(self, found: Iterable[tuple[Loc, str]]) -> None:
        self.found = tuple(found)
        problems = (Problem(path=path_text(loc), message=message) for loc, message in self.found)
        super().__init__("; ".join(map(str, problems)))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """An unknown name in words: with the one that was probably meant, else with all there are."""
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return (
        f"unknown {what}; did you mean {near[0]!r}?" if near else f"unknown {what}; expected one of: {', '.join(names)}"
    )


# Arguments that are no numbers, or not such as they should be


def check_whole(name: str, value: int) -> None:
    """Refuses what is no whole number; not every caller has types checked."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, not {_shown(value)}")


def check_count(name: str, value: int, *, least: int = 1, most: int | None = None) -> None:
    check_whole(name, value)
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {_shown(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, not {_shown(value)}")


def check_real(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {_shown(value)}")


def check_text(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {_shown(value)}")


def check_truth(name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {_shown(value)}")


def check_number(name: str, value: float, *, least: float, most: float) -> None:
    check_real(name, value)
    # Also refuses NaN, which is in no order.
    if not least <= value <= most:
        raise ValueError(f"{name} must be between {least:g} and {most:g}, not {_shown(value)}")


# Pydantic's errors in plain words; {found} is what stands there instead

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
    "tuple_type": "must be a list{found}",
}


def in_words(kind: str, context: Mapping[str, Any], found: str) -> str:
    """An error of that kind as a sentence about the value, which goes on with what was found there."""
    template = _WORDS.get(kind, "is not valid")
    return template.format(found=found, **{name: _number(value) for name, value in context.items()})


def found_instead(value: Any, *, container: bool, text: bool) -> str:
    """`, not 5; put it in quotes`: what stands where a container, a text or something else is wanted."""
    if value is None:
        return ", not empty"
    if isinstance(value, dict | list):
        return f", not {'a list' if isinstance(value, list) else 'a mapping'}"
    if container:
        return f", not {'text' if isinstance(value, str) else 'a single value'}"
    hint = "; put it in quotes" if text and not isinstance(value, str) else ""
    return f", not {_shown(value)}{hint}"


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number so large"
    return repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}…"
