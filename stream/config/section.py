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


def no_truth(value: Any) -> Any:
    """Python takes `true` for 1; a person who writes it does not mean 1."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


class Section(BaseModel):
    """A group of keys. Unknown keys are errors, and values that failed are not repeated in them."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, data: Any) -> Any:
        """Takes keys that were left empty as unset, and keeps true and false out of numbers."""
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {name: _meant(value, fields[name]) if name in fields else value for name, value in data.items()}


def _meant(value: Any, field: FieldInfo) -> Any:
    kinds = alternatives(field.annotation)
    if value is None and not field.is_required() and any(map(is_container, kinds)):
        return field.get_default(call_default_factory=True)
    if value == "" and NoneType in kinds:
        return None
    if isinstance(value, bool) and bool not in kinds and (int in kinds or float in kinds):
        return str(value).lower()  # Python would take it for 1 or 0; as text it is refused
    return value


# Checks that need more than the document


Check = Callable[[Any, Mapping[str, Any]], Iterable[tuple[Loc, str]]]
"""Finds what is wrong with a value, given the sound values before it in its section; each problem with its place."""


def problems_found_by_loader(place: str, value: Any, info: ValidationInfo) -> list[tuple[Loc, str]]:
    """What the loader's check for this place has to say about the value; nothing where no loader is at work.

    The model opens no files. The loader, which does, hands its checks in as the context of the validation, by place:
    so what is wrong with the files is found in the same pass as wrong shapes, and one list has all problems.
    """
    checks: Mapping[str, Check] = info.context or {}
    return list(checks[place](value, info.data)) if place in checks else []


def checked_by_loader(place: str) -> Callable[[Any, ValidationInfo], Any]:
    """A field validator that leaves the value to the loader's check for this place."""

    def check(value: Any, info: ValidationInfo) -> Any:
        problems = problems_found_by_loader(place, value, info)
        if problems:
            raise InconsistentError(problems)
        return value

    return check


def web_address(value: str, *, example: str, secrets: str) -> str:
    """The address, if it is one; `secrets` says where a user, a password or a key goes instead.

    Every message does without the value: what is wrong with it may be a password inside.
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
