"""Walks a configuration model by its types: finds the type at a key, and lists the keys."""

from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel

DISCRIMINATOR = "kind"
"""The key that says which of several sections stands at a place."""


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The plain types that an annotation admits."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(each for part in get_args(annotation) for each in alternatives(part))
    return (annotation,)


def shape_of(value: Any) -> str:
    """What a value that stands where several shapes may is: this is what pydantic calls the alternative it chose."""
    if isinstance(value, Mapping | BaseModel):
        return "section"
    return "list" if isinstance(value, list | tuple) else "value"


def of_shape(kinds: Iterable[Any], shape: str | int) -> tuple[Any, ...]:
    """Those of several types that have a shape; none where there is no choice of shapes, or no such shape."""
    shapes: dict[str, list[Any]] = {"section": [], "list": [], "value": []}
    for kind in kinds:
        if kind is NoneType:
            continue
        name = "section" if is_section(kind) else "list" if get_origin(kind) is tuple else "value"
        shapes[name].append(kind)
    is_choice = shapes["section"] and (shapes["list"] or shapes["value"])
    return tuple(shapes.get(str(shape), ())) if is_choice else ()


def is_section(kind: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def is_container(kind: Any) -> bool:
    return is_section(kind) or get_origin(kind) in (tuple, Mapping)


def kind_of(section: type[BaseModel]) -> Any:
    """What the discriminator of a section says; None when it has none."""
    discriminator = section.model_fields.get(DISCRIMINATOR)
    return discriminator.default if discriminator else None


def names_in(kinds: Iterable[Any]) -> tuple[str, ...]:
    """The keys that the sections among these types have."""
    return tuple(dict.fromkeys(name for kind in kinds if is_section(kind) for name in kind.model_fields))


def below(kinds: Iterable[Any], part: str | int) -> tuple[Any, ...]:
    """The types one step further down, at a key or an index; none when there is nothing of that name."""
    found: list[Any] = []
    for kind in kinds:
        if is_section(kind) and part in kind.model_fields:
            found += alternatives(kind.model_fields[str(part)].annotation)
        elif get_origin(kind) is tuple and isinstance(part, int):
            found += alternatives(get_args(kind)[0])
        elif get_origin(kind) is Mapping and isinstance(part, str):
            found += alternatives(get_args(kind)[1])
    return tuple(found)
