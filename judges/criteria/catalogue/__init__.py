"""The catalogue: the criteria that ship with the package, and those in users' own files.

- `file`: reads a criteria file with all its problems, and writes one
- `error_text`: turns pydantic's errors about such a file into plain words

The criteria themselves are in the YAML files of this folder, one file per name in `CATALOGUES`.
"""

import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from importlib import resources

from judges.criteria.catalogue.file import CriteriaError, dump_criteria, load_criteria
from judges.criteria.criterion import Criterion
from judges.criteria.scale import YES_NO, Scale

__all__ = [
    "CATALOGUES",
    "CriteriaError",
    "UnknownCriterionError",
    "criteria_of",
    "criterion_of",
    "dump_criteria",
    "find_criterion",
    "load_catalogue",
    "load_criteria",
    "shipped_names",
]

CATALOGUES = ("rag", "aspects", "answer", "retrieval", "safety", "writing", "summary", "dialogue", "agent", "code")

# Questions do not look like this; without this check a misspelt name would be asked as a question.
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")

_WANTED = "a Criterion, a question in words or the name of a built-in criterion"


class UnknownCriterionError(ValueError):
    """A name that matches no criterion of the catalogues, or several; the message suggests some."""


@functools.cache
def load_catalogue(name: str = "rag") -> Mapping[str, Criterion]:
    """Return the criteria of one shipped catalogue, by name, in their published order; read once per process."""
    if name not in CATALOGUES:
        raise ValueError(f"unknown catalogue {name!r}; expected one of {', '.join(CATALOGUES)}")
    with resources.as_file(resources.files("judges.criteria.catalogue").joinpath(f"{name}.yaml")) as path:
        return load_criteria(path)


@functools.cache
def shipped_names() -> Mapping[str, str]:
    """Map the qualified name of every shipped criterion to its bare name."""
    return {f"{catalogue}.{name}": name for catalogue in CATALOGUES for name in load_catalogue(catalogue)}


@functools.cache
def find_criterion(name: str) -> Criterion:
    """Find a criterion by its qualified name (`rag.clarity`), or by a bare name that is unique (`toxicity`)."""
    shipped = shipped_names()
    matches = [qualified for qualified, bare in shipped.items() if name in {qualified, bare}]
    if len(matches) > 1:
        raise UnknownCriterionError(f"{name!r} is in several catalogues; choose one of {', '.join(matches)}")
    if not matches:
        raise UnknownCriterionError(f"unknown criterion {name!r}; {_suggest(name, shipped)}")
    catalogue, _, bare = matches[0].partition(".")
    return load_catalogue(catalogue)[bare]


def criterion_of(value: object, scale: Scale = YES_NO, *, argument: str = "criterion") -> Criterion:
    """Return a criterion from itself, the name of a shipped one, or a question in words, which gets this scale."""
    if isinstance(value, Criterion):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be {_WANTED}, not {type(value).__name__}")
    if not _NAME.fullmatch(value.strip()):
        return Criterion.from_question(value, scale)
    if value.strip() in CATALOGUES:
        raise UnknownCriterionError(f"{argument}: {value!r} is a catalogue; pass load_catalogue({value.strip()!r})")
    try:
        return find_criterion(value.strip())
    except UnknownCriterionError as error:
        raise UnknownCriterionError(
            f"{argument}: write a question in words, or the name of a criterion: {error}"
        ) from None


def criteria_of(values: object, scale: Scale = YES_NO) -> list[Criterion]:
    """Return several criteria from a list, or from the values of a mapping."""
    if isinstance(values, Mapping):
        return [criterion_of(value, scale) for value in values.values()]
    # Iterating a criterion would yield its fields, and a text its letters.
    if isinstance(values, Criterion | str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"criterion must be {_WANTED}, or a list or mapping of these, not {type(values).__name__}")
    return [criterion_of(value, scale) for value in values]


def _suggest(name: str, shipped: Mapping[str, str]) -> str:
    bare_name = name.lower().rpartition(".")[2]
    similar = difflib.get_close_matches(bare_name, {*shipped.values()}, n=3, cutoff=0.75)
    names = [qualified for qualified, bare in shipped.items() if bare in similar]
    return f"did you mean {' or '.join(names)}?" if names else f"expected one of {', '.join(shipped)}"
