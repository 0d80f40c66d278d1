"""The base class and field types of configuration sections."""

import re
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

from judges.criteria.problems import InconsistentError, Loc
from stream.config.patterns import CRITERION, LABEL
from stream.config.walk import alternatives, is_container

MASK = "***"


Rate = Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]
Label = Annotated[str, Field(pattern=LABEL)]
CriterionName = Annotated[str, Field(pattern=CRITERION)]


def refuse_bool(value: Any) -> Any:
    """Refuse true and false, which Python would take for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


class Section(BaseModel):
    """A group of keys. Unknown keys are errors, and error messages do not repeat invalid values."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, data: Any) -> Any:
        """Treat empty keys as unset, and refuse true and false as numbers."""
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {name: _read_value(value, fields[name]) if name in fields else value for name, value in data.items()}


def _read_value(value: Any, field: FieldInfo) -> Any:
    kinds = alternatives(field.annotation)
    if value is None and not field.is_required() and any(map(is_container, kinds)):
        return field.get_default(call_default_factory=True)
    if value == "" and NoneType in kinds:
        return None
    if isinstance(value, bool) and bool not in kinds and (int in kinds or float in kinds):
        return str(value).lower()  # Python would take it for 1 or 0; as text it will be refused
    return value


# Checks that need more than the document


Check = Callable[[Any, Mapping[str, Any]], Iterable[tuple[Loc, str]]]
"""Finds the problems of a value, each with its place, given the valid values before it in its section."""


def find_loader_problems(place: str, value: Any, info: ValidationInfo) -> list[tuple[Loc, str]]:
    """Return the problems that the loader's check for this place finds; none without a loader.

    The model opens no files. The loader does, and passes its checks by place as the context of the validation. So
    problems with files are found in the same pass as wrong shapes, and one list has all problems.
    """
    checks: Mapping[str, Check] = info.context or {}
    return list(checks[place](value, info.data)) if place in checks else []


def check_by_loader(place: str) -> Callable[[Any, ValidationInfo], Any]:
    """Make a field validator that runs the loader's check for this place."""

    def check(value: Any, info: ValidationInfo) -> Any:
        problems = find_loader_problems(place, value, info)
        if problems:
            raise InconsistentError(problems)
        return value

    return check


def check_web_address(value: str, *, example: str, secrets: str) -> str:
    """Return the address if it is valid; `secrets` says where a user, a password or a key goes instead.

    No message repeats the value, because it may contain a password.
    """
    if not re.fullmatch(r"[!-~]+", value):
        raise ValueError("must be an http or https URL without spaces")
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"must be an http or https URL, such as {example}")
    if "@" in parts.netloc:
        raise ValueError(f"must not contain a user or password; {secrets}")
    if "?" in value or "#" in value:
        raise ValueError(f"must not contain a query or fragment; {secrets}")
    return value


def refuse_repeats(rule: str, names: Iterable[str]) -> None:
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise ValueError(f"{rule}; [{places[name]}] and [{place}] are the same")
        places[name] = place
