"""Walks a configuration model by its types: finds the type at a key, and lists the keys."""

from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel

DISCRIMINATOR = "kind"
"""The key that distinguishes several kinds of sections at one place."""


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the plain types that an annotation admits."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(kind for part in get_args(annotation) for kind in alternatives(part))
    return (annotation,)


def shape_of(value: Any) -> str:
    """Return the shape of a value, for keys that take several shapes; pydantic uses it as a tag."""
    if isinstance(value, Mapping | BaseModel):
        return "section"
    return "list" if isinstance(value, list | tuple) else "value"


def of_shape(kinds: Iterable[Any], shape: str | int) -> tuple[Any, ...]:
    """Return the types with this shape; none if there is no choice of shapes, or no such shape."""
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
    """Return the discriminator value of a section, or None."""
    discriminator = section.model_fields.get(DISCRIMINATOR)
    return discriminator.default if discriminator else None


def names_in(kinds: Iterable[Any]) -> tuple[str, ...]:
    """Return the keys of the sections among these types."""
    return tuple(dict.fromkeys(name for kind in kinds if is_section(kind) for name in kind.model_fields))


def below(kinds: Iterable[Any], part: str | int) -> tuple[Any, ...]:
    """Return the types one step further down, at a key or an index; none if there is no such place."""
    types: list[Any] = []
    for kind in kinds:
        if is_section(kind) and part in kind.model_fields:
            types += alternatives(kind.model_fields[str(part)].annotation)
        elif get_origin(kind) is tuple and isinstance(part, int):
            types += alternatives(get_args(kind)[0])
        elif get_origin(kind) is Mapping and isinstance(part, str):
            types += alternatives(get_args(kind)[1])
    return tuple(types)
